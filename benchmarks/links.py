"""Links in both directions: filtered ranks, beside a plain factorisation (ComplEx, N3, relation prediction) of equal rank and time.

python -m benchmarks links SOURCE --budget 5m [--seed 0] [--validation]      one source and seed
python -m benchmarks links SOURCE --budget 5m --against pykeen               another package beside both
python -m benchmarks links SOURCE --budget 5m --unseen                       entities that training never saw
python -m benchmarks links --speed                                           questions a second
python -m benchmarks links                                                   the table of all that is stored

SOURCE is codex-s, codex-m or fb15k-237, of which the triples alone are given, with the published split; wikilike or wikilike-1500,
of which a twentieth of the links is hidden and all else is given; or a file, likewise. With --validation codex is scored on its
validation part, and further links of the others are hidden in the place of those of the test.

With --unseen a twentieth of the entities is left out of training. Then each is placed by three to five of its triples, and asked for
one further link; beside it stands the same question to factors that were trained with these triples.

The plain factorisation scores each triple by itself, in steps of a thousand. It has no values, and all else in common: the rank, which
is that of ours, the arithmetic of the processor, the falling rate, and the choice of the regularisation on held-out links.
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

import kbdisk
from benchmarks.base import Table
from benchmarks.data import data_file, data_folder, source_file
from benchmarks.peers import RANKS, registry
from benchmarks.peers.protocol import Ranking
from benchmarks.progress import TerminalProgress
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser, names_of
from benchmarks.tables import print_tables
from kbdisk.completion.links import LinkQuery, LinkQuestions
from kbdisk.data.triples import Answers, Relation, Triples, with_inverses
from kbdisk.entity import Path as EntityPath
from kbdisk.evaluation.links import classification
from kbdisk.experts.config import LinkFactorizationConfig
from kbdisk.experts.link_factorization import (
    DEFAULT_RANK,
    Correctness,
    Factors,
    Fitted,
    LinkClassifier,
    LinkPredictor,
    fit,
    link_features,
    rank_of,
    ranks,
    sides_of,
    times,
)
from kbdisk.schemas.schema import of_one_class
from kbdisk.training.schedule import seconds_of

NAME = "links"
PLAIN = "complex"
CODEX = {"codex-s": "codex-s", "codex-m": "codex-m"}
FB15K = "fb15k-237"
KNOWLEDGE_BASES = {"wikilike": "wikilike.ttl.gz", "wikilike-1500": "wikilike-1500.ttl.gz"}
HIDDEN_SHARE = 0.05  # of the links of a source without a split
PUBLISHED: Mapping[str, str] = {
    "codex-s": "ComplEx + relation prediction .473 (Chen et al. 2021, rank 1,000), ComplEx .465 (Safavi and Koutra 2020)",
    "codex-m": "ComplEx + relation prediction .352 (Chen et al. 2021, rank 1,000), ComplEx .337 (Safavi and Koutra 2020)",
    FB15K: "ComplEx + relation prediction .388 (Chen et al. 2021, rank 1,000), RESCAL .356, RotatE .333",
}
PLAIN_QUERIES = 1000  # triples of a step
UNSEEN, SEEN = "unseen", "seen"
UNSEEN_SHARE, MIN_GIVEN, MAX_GIVEN = 0.05, 3, 5  # of the entities; triples that are given of each
SPEED = ((15_000, 1000), (1_000_000, 50))  # entities and queries
SIDES = ("valid", "test")
CLASSIFIED = ("accuracy", "ECE")  # of true links and hard negatives
ROWS = ("MRR", "tail MRR", "head MRR", "Hits@1", "Hits@3", "Hits@10")


Links: TypeAlias = list[tuple[str, EntityPath, str]]


class Task(NamedTuple):
    """The triples that are given, those without values for the plain factorisation, the asked links, and all known answers."""

    given: Triples
    links_alone: Triples
    asked: Tensor  # (m, 3) by the numbers of entities and of relations, which are the same in both
    known: Tensor  # (n, 3)
    false: Mapping[str, Tensor] = {}  # (m, 3) hard negatives by part, where there are some
    valid: Tensor | None = (
        None  # (m, 3) links that thresholds and probabilities are fitted to, with the negatives of that part
    )


def task_of(source: str, seed: int, validation: bool) -> Task:
    """What is given of a source, and what is asked."""
    if source in CODEX or source == FB15K:
        parts = _codex(source) if source in CODEX else _fb15k()
        given = Triples.of_links(parts["train"])
        asked = given.number(parts["valid" if validation else "test"])
        false = {}
        if source in CODEX and not validation:
            false = {part: given.number(_codex_links(source, f"{part}_negatives")) for part in SIDES}
        known = torch.cat([given.number(links) for links in parts.values()])
        return Task(given, given, asked, known, false, given.number(parts["valid"]))
    file = KNOWLEDGE_BASES.get(source)
    path = source_file(source) if file is None else data_file(data_folder(None), f"kb/wikilike/{file}", "")
    kb = kbdisk.load(path)
    entities = list(kb)
    whole = Triples.of(kbdisk.infer(entities).schema, entities)
    hidden = _drawn(whole, seed, HIDDEN_SHARE)
    if validation:  # the links of the test stay hidden
        rest = whole.only(~hidden)
        asked_of_rest = _drawn(rest, seed + 1, HIDDEN_SHARE)
        given, asked = rest.only(~asked_of_rest), rest.numbered[asked_of_rest].long()
    else:
        given, asked = whole.only(~hidden), whole.numbered[hidden].long()
    links_alone = given.only(given.is_link[given.numbered[:, 1]])
    return Task(given, links_alone, asked, whole.links)


def _drawn(triples: Triples, seed: int, share: float) -> Tensor:
    """(n,) a random share of the links."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(len(triples), generator=generator) < share) & triples.is_link[triples.numbered[:, 1]]


def _codex(name: str) -> dict[str, Links]:
    return {part: _codex_links(name, part) for part in ("train", *SIDES)}


def _codex_links(name: str, part: str) -> Links:
    with gzip.open(data_file(data_folder(None), f"kb/codex/{name}-{part}.txt.gz", "tsafavi/codex"), "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [(head, (relation,), tail) for head, relation, tail in rows]


def _fb15k() -> dict[str, Links]:
    parts: dict[str, Links] = {}
    for part in ("train", "valid", "test"):
        file = data_file(data_folder(None), f"kb/fb15k237/{part}2id.txt", "thunlp/OpenKE")
        rows = [line.split() for line in file.read_text().splitlines()[1:]]
        parts[part] = [(head, (relation,), tail) for head, tail, relation in rows]
    return parts


def measure(source: str, budget: str, seed: int, arguments: argparse.Namespace) -> None:
    """Both factorisations of a source, within the same time."""
    task = task_of(source, seed, arguments.validation)
    rank = rank_of(task.given, LinkFactorizationConfig(rank=arguments.rank), seed, seconds_of(budget))
    methods = {
        OURS: (task.given, LinkFactorizationConfig(rank=rank)),
        PLAIN: (task.links_alone, LinkFactorizationConfig(rank=rank, queries=PLAIN_QUERIES, answers=1)),
    }
    measures = {
        name: partial(_fitted, *method, lambda fitted: rows_of(fitted.factors, task), budget, seed)
        for name, method in methods.items()
    }
    measures |= {name: partial(_ranked, name, task, budget, seed) for name in arguments.against}
    _measure_methods(measures, source, source, budget, seed, arguments)


class Measured(NamedTuple):
    """The figures of a method, and what is stored beside them."""

    rows: list[Row]
    seconds: float
    details: dict[str, Any]


def _fitted(
    triples: Triples, config: LinkFactorizationConfig, score: Callable[[Fitted], list[Row]], budget: str, seed: int
) -> Measured:
    """The figures of a factorisation. Its scores are not in its seconds."""
    begun = time.monotonic()
    fitted = fit(triples, config, seed, seconds_of(budget))
    seconds = time.monotonic() - begun
    details = {"epochs": fitted.epochs, "strength": fitted.strength, "rank": fitted.factors.rank}
    return Measured(score(fitted), seconds, details)


def _ranked(name: str, task: Task, budget: str, seed: int) -> Measured:
    """The figures of a peer, which ranks the same links."""
    given, asked, known = (links.long().numpy() for links in (task.links_alone.numbered, task.asked, task.known))
    counts = len(task.given.entities), len(task.given.relations)
    ranked = registry.rank(name, Ranking(given, asked, known, *counts, seconds_of(budget), seed))
    rows = rows_of_ranks(torch.from_numpy(ranked.tails), torch.from_numpy(ranked.heads))
    return Measured(rows, sum(ranked.seconds.values()), {**ranked.settings, "usage": ranked.usage})


def _measure_methods(
    measures: Mapping[str, Callable[[], Measured]],
    source: str,
    setting: str,
    budget: str,
    seed: int,
    arguments: argparse.Namespace,
) -> None:
    """Measure each method that has no stored result yet."""
    part = "validation" if arguments.validation else "test"
    stored_run = StoredRun.of(arguments.out, NAME, [setting, budget, arguments.rank, seed, part])
    progress = TerminalProgress(arguments.quiet)
    done = {result.method for result in stored_run.results}
    for method, measure_method in measures.items():
        if method in done:
            continue
        progress.say(f"{source}: {method}, {budget}")
        rows, seconds, details = measure_method()
        stored_run.add(
            Result(
                NAME,
                method,
                rows,
                seed=seed,
                part=part,
                setting=setting,
                told=budget,
                seconds=round(seconds, 1),
                details=details,
            )
        )
    stored_run.end()


def measure_unseen(source: str, budget: str, seed: int, arguments: argparse.Namespace) -> None:
    """The ranks of links of entities that training never saw, and that it saw with the same triples."""
    given = task_of(source, seed, arguments.validation).given
    questions = unseen_questions(given, seed)
    rank = rank_of(questions.without, LinkFactorizationConfig(rank=arguments.rank), seed, seconds_of(budget))
    config = LinkFactorizationConfig(rank=rank)
    methods = {UNSEEN: (questions.without, config), SEEN: (questions.with_given, config)}
    known = Answers(given.links, len(given.relations))

    def score(method: str, fitted: Fitted) -> list[Row]:
        found = [
            _rank(fitted, methods[method][0], asked, placed_by if method == UNSEEN else None, known)
            for asked, placed_by in zip(questions.asked, questions.given, strict=True)
        ]
        ranks_of_questions = torch.tensor(found, dtype=torch.float64)
        values = {"MRR": (1 / ranks_of_questions).mean()}
        values |= {f"Hits@{most}": (ranks_of_questions <= most).double().mean() for most in (1, 3, 10)}
        return [Row(name, float(value), len(found)) for name, value in values.items()]

    measures = {name: partial(_fitted, *method, partial(score, name), budget, seed) for name, method in methods.items()}
    setting = f"{source}, entities {UNSEEN} in training"
    _measure_methods(measures, source, setting, budget, seed, arguments)


class Questions(NamedTuple):
    """Triples without some entities, those with a few of their triples, and a question for each of these entities."""

    without: Triples
    with_given: Triples
    asked: list[tuple[int, int, int]]  # entity, relation (those of inverses included) and answer
    given: list[tuple[Tensor, Tensor]]  # the relations and nodes by which the entity is placed


def unseen_questions(triples: Triples, seed: int) -> Questions:
    """A link of each unseen entity is asked, and three to five others are given."""
    relations = len(triples.relations)
    dice = random.Random(seed)
    both = with_inverses(triples.numbered, relations)
    by_entity: dict[int, list[tuple[int, int]]] = {}
    for head, relation, tail in both.tolist():
        if head < len(triples.entities):
            by_entity.setdefault(head, []).append((relation, tail))
    candidates = [entity for entity, own in by_entity.items() if len(own) > MIN_GIVEN]
    unseen = set(dice.sample(candidates, int(UNSEEN_SHARE * len(candidates))))
    asked: list[tuple[int, int, int]] = []
    given: list[tuple[Tensor, Tensor]] = []
    kept: list[tuple[int, int, int]] = []
    is_without = torch.tensor(
        [head not in unseen and tail not in unseen for head, _, tail in triples.numbered.tolist()]
    )
    for entity in sorted(unseen):
        known = [(relation, node) for relation, node in by_entity[entity] if node not in unseen]
        of_links = [pair for pair in known if triples.relations[pair[0] % relations].is_link]
        if len(known) <= MIN_GIVEN or not of_links:
            continue
        question = dice.choice(of_links)
        others = [pair for pair in known if pair[1] != question[1]]
        if len(others) < MIN_GIVEN:
            continue
        chosen = dice.sample(others, min(len(others), dice.randint(MIN_GIVEN, MAX_GIVEN)))
        asked.append((entity, *question))
        given.append((torch.tensor([r for r, _ in chosen]), torch.tensor([node for _, node in chosen])))
        kept += [(entity, r, node) if r < relations else (node, r - relations, entity) for r, node in chosen]
    without = triples.only(is_without)
    with_given = replace(without, numbered=torch.cat([without.numbered, torch.tensor(kept)]).unique(dim=0).int())
    return Questions(without, with_given, asked, given)


def _rank(
    fitted: Fitted, triples: Triples, asked: tuple[int, int, int], given: tuple[Tensor, Tensor] | None, known: Answers
) -> float:
    """The filtered rank of an answer; `given` places the entity, else its trained vector is used."""
    entity, relation, answer = asked
    factors = fitted.factors
    entities = slice(0, len(triples.entities))
    vector = (
        factors.node_vectors(torch.tensor([entity]))[0]
        if given is None
        else factors.place(sides_of(triples, *given), fitted.strength)
    )
    scores = factors.scores(times(vector[None], factors.relation_vectors(torch.tensor([relation]))), entities)[0]
    own = scores[answer].item()
    _, others = known.of(torch.tensor([entity]), torch.tensor([relation]))
    scores[others] = -torch.inf
    scores[answer] = -torch.inf
    scores[entity] = -torch.inf
    return 1 + int((scores > own).sum()) + int((scores == own).sum()) / 2


def measure_speed(entities: int, queries: int, rank: int) -> str:
    """A line about queries to generated vectors and links, with their confidence and their reasons."""
    generator = torch.Generator().manual_seed(0)
    ids = tuple(f"e{number}" for number in range(entities))
    numbered = torch.stack(
        [torch.randint(0, most, (5 * entities,), generator=generator) for most in (entities, 50, entities)], 1
    )
    triples = Triples(
        ids, tuple(Relation((f"r{number}",), True) for number in range(50)), (), numbered.unique(dim=0).int()
    )
    shapes = (entities, 2 * rank), (100, 2 * rank)
    factors = Factors(*(torch.randn(shape, generator=generator, dtype=torch.float16) for shape in shapes))
    one, none = torch.ones((), dtype=torch.float64), torch.zeros(0, 3, dtype=torch.long)
    classifier = LinkClassifier.fit(torch.zeros(0, 4, dtype=torch.float64), none[:, 1], none[:, 1], 50)
    correctness = Correctness(one, 0 * one, torch.zeros(100, dtype=torch.float64))
    predictor = LinkPredictor(triples, factors, 0.1, correctness, classifier, none, torch.zeros(0))
    questions = LinkQuestions(predictor, of_one_class({}))
    asked = [LinkQuery(ids[7 * number % entities], (f"r{number % 50}",), number % 2 == 1) for number in range(queries)]
    questions.ask(asked[:20], 10)  # what is computed once
    begun = time.monotonic()
    questions.ask(asked, 10)
    seconds = time.monotonic() - begun
    return (
        f"{queries:,} queries to {entities:,} entities, rank {rank}: {seconds:.2f} s, {queries / seconds:,.0f} a second"
    )


def rows_of(factors: Factors, task: Task) -> list[Row]:
    """The figures of the asked links."""
    relations = len(task.given.relations)
    asked = with_inverses(task.asked, relations)
    of_directions = ranks(factors, asked, Answers(task.known, relations), len(task.given.entities)).double()
    return rows_of_ranks(*of_directions.reshape(2, -1)) + classification_rows(factors, task)


def rows_of_ranks(tails: Tensor, heads: Tensor) -> list[Row]:
    """The figures of the ranks (m,) of both ends."""
    both = torch.cat([tails, heads])
    values = [(1 / of).mean() for of in (both, tails, heads)]
    values += [(both <= most).double().mean() for most in (1, 3, 10)]
    return [Row(name, float(value), len(tails)) for name, value in zip(ROWS, values, strict=True)]


def classification_rows(factors: Factors, task: Task) -> list[Row]:
    """Triple classification: the accuracy with a threshold for each relation, and the calibration of the probability.

    Both are fitted to the links and the hard negatives of the validation part.
    """
    if not task.false or task.valid is None:
        return []
    entities, relations = len(task.given.entities), len(task.given.relations)
    sides = []
    for links, false in ((task.valid, task.false["valid"]), (task.asked, task.false["test"])):
        both = torch.cat([links, false])
        sides.append(
            (link_features(factors, both, entities, relations), both[:, 1], torch.arange(len(both)) < len(links))
        )
    fitted, asked = sides
    classifier = LinkClassifier.fit(*fitted, relations)
    odds, probability = classifier(fitted[0], fitted[1]).logit(), classifier(asked[0], asked[1])
    is_right = torch.zeros(len(asked[1]), dtype=torch.bool)
    for relation in asked[1].unique().tolist():
        own, known = asked[1] == relation, fitted[1] == relation
        threshold = best_threshold(odds[known], fitted[2][known])
        is_right[own] = (probability[own].logit() > threshold) == asked[2][own]
    calibration_error = classification(probability, asked[2]).calibration_error
    return [
        Row("accuracy", float(is_right.double().mean()), len(is_right)),
        Row("ECE", calibration_error, len(is_right)),
    ]


def best_threshold(odds: Tensor, is_true: Tensor) -> float:
    """The threshold with the most right decisions; 0 where nothing is known."""
    if not len(odds):
        return 0.0
    order = odds.argsort()
    below = torch.cat([torch.zeros(1), (1 - 2 * is_true[order].double()).cumsum(0).float()])  # right less wrong ones
    place = int(below.argmax())
    edges = torch.cat([odds[order][:1] - 1, odds[order], odds[order][-1:] + 1])
    return float((edges[place] + edges[place + 1]) / 2)


def beside_peers(results: Sequence[Result]) -> list[Result]:
    """The results on links that a peer has ranked, with the same time and seed."""
    peers = registry.able(RANKS)

    def point(result: Result) -> tuple[str, str, str, int]:
        return result.setting, result.part, result.told, result.seed

    ranked = {point(result) for result in results if result.method in peers}
    return [result for result in results if point(result) in ranked]


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each source, budget and method, mean over seeds."""
    rows = []
    groups = group_latest(results, lambda result: (result.setting, result.part, result.told, result.method))
    for (source, part, budget, method), group in groups.items():
        means = [
            sum(result.values[name] for result in group) / len(group) if name in group[0].values else None
            for name in (*ROWS, *CLASSIFIED)
        ]
        seconds = sum(result.seconds for result in group) / len(group)
        epochs = sum(result.details["epochs"] for result in group) / len(group)
        name = source if part == "test" else f"{source}, {part}"
        rows.append(
            [
                name,
                budget,
                method,
                *("" if mean is None else f"{mean:.3f}" for mean in means),
                f"{seconds:.0f}",
                f"{epochs:.0f}",
                str(len(group)),
            ]
        )
    if not rows:
        return []
    header = ["source", "budget", "method", *ROWS, *CLASSIFIED, "seconds", "epochs", "seeds"]
    notes = [
        f"{source}: published MRR: {text}."
        for source, text in PUBLISHED.items()
        if any(source in row[0] for row in rows)
    ]
    return [Table("Links in both directions, filtered, random ties; more is better", header, rows, notes)]


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("links", __doc__)
    parser.add_argument("source", nargs="?", help="codex-s, codex-m, fb15k-237, wikilike, wikilike-1500, or a file")
    parser.add_argument("--budget", default="5m", help="of each factorisation")
    parser.add_argument("--rank", type=int, default=0, help="complex numbers of a node; 0: as the time allows")
    parser.add_argument(
        "--seed", type=int, action="append", help="of training and of what is hidden; repeat it for more"
    )
    parser.add_argument("--validation", action="store_true", help="to choose by: the links of the test stay hidden")
    parser.add_argument(
        "--against", type=names_of, default=(), help="peers that rank links, as peers lists them, with commas"
    )
    parser.add_argument("--unseen", action="store_true", help="ask about entities that training never saw")
    parser.add_argument(
        "--speed", action="store_true", help="how many questions a second are answered, of generated vectors"
    )
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    registry.refuse(arguments.against, RANKS, "--against")
    if arguments.speed:
        for entities, queries in SPEED:
            print(measure_speed(entities, queries, arguments.rank or DEFAULT_RANK))
        return
    if arguments.source is not None:
        for seed in arguments.seed or [0]:
            (measure_unseen if arguments.unseen else measure)(arguments.source, arguments.budget, seed, arguments)
    print_tables(table(read(Path(arguments.out) / f"{NAME}.jsonl")))
