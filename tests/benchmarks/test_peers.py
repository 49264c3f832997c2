"""Peers: the table, the environments of their own, and what each of them fills."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from imputations import imputation_of, ratios, related

from benchmarks.judge import scores
from benchmarks.masking import Cell, Masked, Values
from benchmarks.peers import FILLS, LITERALS, PEERS, RANKS, SAMPLES, Peer, environments, module_name, outside, registry
from benchmarks.peers.entity_table import MISSING, EntityTable
from benchmarks.peers.environments import INSTALLED, Environment, missing
from benchmarks.peers.exchange import ANSWER, REPORT, REQUEST, TABLE, CannotError, Clock, Request, serve, timed_blocks
from benchmarks.peers.in_context import WEIGHTS
from benchmarks.peers.protocol import FILL, FIT, Budget, Imputation, PeerError, Ranking, Sampling, Stopwatch
from benchmarks.peers.statements import Statements
from benchmarks.peers.usage import CPU, FORGET, MEMORY
from benchmarks.tabular_sets import Rows, TabularSet
from kbdisk.entity import Entity, Link
from kbdisk.errors import ConfigError, LoadError

CHECKOUT = Path(__file__).parents[2]
LEARNT = [
    name
    for name in registry.able(FILLS)
    if name != "constant" and not PEERS[name].weights and LITERALS not in PEERS[name].abilities
]
IN_THIS_PROCESS = [name for name in LEARNT if not PEERS[name].requirements]
SECONDS = {"tabularargn": 20.0}  # what trains by the clock; the others end when they are done
HARD = {"tabularargn"}  # 120 rows are too few for it to beat the constant
SLOW = {"tabddpm", "lm-scratch"}  # 800 steps, and 60 passes here
QUICK = [name for name in IN_THIS_PROCESS if name not in SLOW]
SAMPLERS = registry.able(SAMPLES)
HARD_SAMPLERS = {"ctgan", "tvae", "ctabgan", "ctabgan+"}  # 300 rows are too few for them
CTABGANS = ("ctabgan", "ctabgan+")
JUDGE = {"learning_rate": 0.3, "depth": 3, "iterations": 40, "early_stopping_rounds": 10, "od_pval": 0.001}
SETS = {"price": {"task_type": "regression"}, "dear": {"task_type": "binclass"}}


def file_name(name: str) -> str:
    return f"{module_name(name).rpartition('.')[2]}.py"


def skip_if_missing(name: str) -> None:
    if problem := missing(name):
        pytest.skip(f"{name}: {problem}")


@pytest.fixture(autouse=True)
def few_steps(request):
    """Tests of TabDDPM train it for 800 steps, those of CTAB-GAN for 20, those of lm-scratch a small network for 60 passes."""
    from benchmarks.peers import ctabgan, ctabgan_plus, lm_scratch, tabddpm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabddpm, "Settings", partial(tabddpm.Settings, steps=800))
        for module in (ctabgan, ctabgan_plus):
            patch.setattr(module, "Settings", partial(ctabgan.Settings, steps=20))
        if "lm-scratch" in request.node.name:
            small = partial(lm_scratch.Settings, width=32, batch=8, rate=5e-3, passes=60)
            patch.setattr(lm_scratch, "Settings", small)
        yield


# ---------------------------------------------------------------- the table


def test_every_row_has_its_file_and_every_file_that_fills_or_samples_has_a_row():
    for name, peer in PEERS.items():
        text = (CHECKOUT / "benchmarks" / "peers" / file_name(name)).read_text()
        assert peer.summary.endswith(".")
        assert peer.abilities
        assert ("serve(" in text) == bool(peer.requirements)
    files = {file.stem for file in (CHECKOUT / "benchmarks" / "peers").glob("*.py")}
    others = {
        "__init__",
        "protocol",
        "registry",
        "environments",
        "exchange",
        "outside",
        "entity_table",
        "records",
        "command",
        "usage",
        "in_context",
        "statements",
    }
    assert {f"{file}.py" for file in files} == {*map(file_name, PEERS)} | {f"{file}.py" for file in others}


def test_listing_the_peers_imports_none_of_them():
    code = "import sys, benchmarks.peers.registry; print(sorted({'numpy', 'torch', 'sklearn', 'catboost', 'pandas'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "catboost" not in done.stdout
    assert "sklearn" not in done.stdout


def test_a_name_of_no_peer_is_refused_with_a_hint():
    with pytest.raises(ConfigError, match=r"got 'catbost'\. Did you mean 'catboost'\?"):
        registry.refuse(["catbost"], FILLS, "--only")


def test_a_peer_whose_environment_is_not_there_is_refused_with_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    with pytest.raises(ConfigError, match="Say python -m benchmarks peers install miceforest"):
        registry.refuse(["miceforest"], FILLS, "--only")
    with pytest.raises(PeerError, match="peers install miceforest"):
        registry.fill("miceforest", imputation_of())


def test_a_peer_without_its_package_is_refused(monkeypatch):
    monkeypatch.setitem(PEERS, "iterative", PEERS["iterative"]._replace(packages=("no-such-package",)))
    with pytest.raises(ConfigError, match=r"expected no-such-package, got none. Install kbdisk again"):
        registry.refuse(["iterative"], FILLS, "--methods")


def test_the_command_lists_every_peer_with_what_it_does(run):
    status, out, err = run("peers")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[2 : 2 + len(PEERS)]] == [*PEERS]


@pytest.mark.parametrize(
    ("name", "problem"), [("constant", "expected a peer with an environment of its own"), ("x", "expected some of")]
)
def test_the_command_installs_no_peer_without_an_environment(name, problem, run):
    status, _, err = run("peers", "install", name)
    assert (status, len(err.splitlines())) == (2, 1)
    assert problem in err


# ---------------------------------------------------------------- environments


def test_an_environment_counts_as_installed_when_its_last_file_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    environment = Environment("some", ("some==1",))
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()  # of an installation that was killed
    assert environment.versions == {}
    stored = {"requirements": ["some==1"], "versions": {"some": "1"}}
    (environment.folder / INSTALLED).write_text(json.dumps(stored))
    assert environment.versions == {"some": "1"}
    assert replace(environment, requirements=("some==2",)).versions == {}
    (environment.folder / INSTALLED).write_text("{")
    assert environment.versions == {}


@pytest.mark.slow
def test_an_environment_replaces_what_a_killed_installation_left_and_says_what_fails_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    environment = Environment("empty", ("pip",))
    left = environment.folder / "left"
    left.mkdir(parents=True)
    environment.install()
    assert not left.exists()
    assert environment.versions["pip"]
    with pytest.raises(LoadError, match=r"empty: expected python -c .* to succeed, got: ValueError: no"):
        environment.run("-c", "raise ValueError('no')")


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_does_not_count_as_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    environment = Environment("wrong", ("not a requirement",))
    with pytest.raises(LoadError, match="wrong: expected python -m pip install to succeed"):
        environment.install()
    assert environment.versions == {}


# ---------------------------------------------------------------- files


FOREIGN = """
import sys, time
import numpy, pandas, torch
from benchmarks.peers.exchange import CannotError, filtered_ranks, serve, set_threads

def fill(request, table, clock):
    if request.seed == 1:
        raise CannotError("expected an even seed, got 1.")
    if request.seed == 2:
        raise ValueError("broken")
    if request.seed == 3:
        time.sleep(3600)
    clock.end_fit()
    return table[request.asked].apply(lambda column: column.fillna(column.mode()[0])), {"seed": request.seed}

def rank(request, links, clock):
    clock.refuse_no_time()
    set_threads()
    clock.end_fit()
    often = numpy.bincount(links["tail"][links["part"] == "given"], minlength=request.entities)
    return pandas.DataFrame({end: filtered_ranks(links, end, lambda pairs: numpy.tile(often, (len(pairs), 1)))
                             for end in ("tail", "head")}), {"relations": request.relations, "threads": torch.get_num_threads()}

def literals(request, graph, clock):
    clock.end_fit()
    means = graph.numbers.groupby("attribute")["value"].mean()
    nodes = {*graph.triples["head"]}
    return pandas.DataFrame({"value": [means.get(attribute) if node in nodes else None for node, attribute in request.literals]}), {}

serve(fill=fill, rank=rank, literals=literals)
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch) -> str:
    """The name of a peer in an environment of its own: a row, a file, and a Python."""
    peers = CHECKOUT / "benchmarks" / "peers"
    (tmp_path / "benchmarks" / "peers").mkdir(parents=True)
    for file in (peers.parent / "__init__.py", *(peers / f"{name}.py" for name in ("__init__", "exchange", "usage"))):
        shutil.copyfile(file, tmp_path / file.relative_to(CHECKOUT))
    (tmp_path / "benchmarks" / "peers" / "foreign.py").write_text(FOREIGN)
    environment = Environment("foreign", ("some==1",))
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(outside, "CHECKOUT", tmp_path)
    environment.python.parent.mkdir(parents=True)
    environment.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    environment.python.chmod(0o755)
    stored = {"requirements": ["some==1"], "versions": {"some": "1.2"}}
    (environment.folder / INSTALLED).write_text(json.dumps(stored))
    monkeypatch.setitem(PEERS, "foreign", Peer("Modes.", frozenset({FILLS}), ("some",), requirements=("some==1",)))
    return "foreign"


def test_a_foreign_peer_fills_with_a_row_and_a_file(foreign):
    imputation = imputation_of()
    filled = registry.fill(foreign, imputation)
    assert filled.settings == {"versions": {"some": "1.2"}, "seed": 0}
    in_lists = sum(any(isinstance(key, int) and key for key in cell.path) for cell in imputation.masked.cells)
    assert len(filled.answers) == sum(len(task.cells) for task in imputation.tasks) - in_lists
    label = next(task for task in imputation.tasks if task.column == "c, label")
    assert {filled.answers[place] for place in label.cells} == {label.constant}


LINKS = {"given": [[0, 0, 1], [2, 0, 1], [3, 0, 2]], "asked": [[3, 0, 1], [0, 0, 3]], "known": [[0, 0, 2]]}


def test_a_foreign_peer_ranks_links_with_a_row_and_a_file(foreign, monkeypatch):
    monkeypatch.setitem(PEERS, foreign, PEERS[foreign]._replace(abilities=frozenset({RANKS})))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    ranking = Ranking(*(np.array(links) for links in LINKS.values()), entities=4, relations=1, seed=0)
    ranked = registry.rank(foreign, ranking)
    # 1 is the tail of two links, 2 of one, 0 and 3 of none. 1 and 2 are other right answers for the tail of the second
    assert ranked.tails.tolist() == [1.0, 1.5]
    assert ranked.heads.tolist() == [2.0 + 0.0, 4.0 - 0.5]
    assert ranked.settings == {"versions": {"some": "1.2"}, "relations": 1, "threads": 3}
    assert ranked.seconds.keys() == {"fit", "fill"}
    with pytest.raises(PeerError, match="expected time to train, got none"):
        registry.rank(foreign, replace(ranking, seconds=0.0))


def graph_of(kinds: int, towns: int) -> Imputation:
    """Towns that link to a country of a kind, whose number is that of the kind; a fifth of the numbers is hidden."""
    entities = [Entity(f"c{place}", {"kind": Link(f"k{place % kinds}")}, ("Country",)) for place in range(4 * kinds)]
    for place in range(towns):
        country = place % len(entities[: 4 * kinds])
        tree = {"in": [Link(f"c{country}"), Link("planet")], "height": 100.0 * (country % kinds) + place % 7}
        entities.append(Entity(f"t{place}", tree, ("Town",)))
    values = Values(entities)
    hidden = {place for place in range(4 * kinds, len(entities)) if place % 5 == 0}
    cells = [
        Cell(place, path, of, scalar)
        for place in sorted(hidden)
        for path, of, scalar in values.of(entities[place])
        if path == ("height",)
    ]
    masked = [
        replace(entity, tree={**entity.tree, "height": None}) if place in hidden else entity
        for place, entity in enumerate(entities)
    ]
    return Imputation.of(Masked(masked, cells), seconds=60.0)


def test_a_foreign_peer_predicts_the_numbers_of_a_graph_with_a_row_and_a_file(foreign, monkeypatch):
    monkeypatch.setitem(PEERS, foreign, PEERS[foreign]._replace(abilities=frozenset({FILLS, LITERALS})))
    imputation = graph_of(2, 40)
    filled = registry.fill(foreign, imputation)
    known = [entity.tree["height"] for entity in imputation.masked.entities if entity.tree.get("height") is not None]
    assert filled.answers == {cell: pytest.approx(np.mean(known)) for cell in range(len(imputation.masked.cells))}


def test_statements_have_a_node_for_each_entity_class_and_label():
    entities = [
        Entity("a", {"to": [Link("b"), Link("c")], "size": 2.0, "colour": "red"}, ("X",)),
        Entity("b", {"colour": "red", "size": None, "parts": [{"n": 1.0}]}),
    ]
    cell = Cell(1, ("size",), (("size",), "", "number"), 3.0)
    statements = Statements.of(Imputation.of(Masked(entities, [cell])))
    a, x, b, c, red, none = range(6)
    isa, to, colour = range(3)
    assert statements.triples == [
        (a, isa, x),
        (a, to, b),
        (a, to, c),
        (a, colour, red),
        (b, isa, none),
        (b, colour, red),
    ]
    assert statements.literals == [(a, 0, 2.0), (b, 1, 1.0)]
    assert statements.asked == [(0, b, 0)]


@pytest.mark.slow
def test_dicee_learns_a_number_that_follows_from_links():
    skip_if_missing("dicee")
    imputation = graph_of(3, 300)
    filled = registry.fill("dicee", imputation)
    cells = imputation.masked.cells
    truth = np.array([cell.truth for cell in cells])
    answers = np.array([filled.answers[place] for place in range(len(cells))])
    assert abs(answers - truth).mean() < 0.5 * abs(np.median(truth) - truth).mean()
    assert filled.settings["epochs"] > 0
    with pytest.raises(PeerError, match="expected time to train, got none"):
        registry.fill("dicee", replace(imputation, seconds=0.0))
    with pytest.raises(PeerError, match="expected at least 50 triples and 20 numbers, got fewer"):
        registry.fill("dicee", graph_of(1, 10))


@pytest.mark.slow
def test_pykeen_learns_a_relation_that_follows_from_another(tmp_path):
    skip_if_missing("pykeen")
    dice = np.random.default_rng(0)
    pairs = np.unique(dice.integers(0, 60, (400, 2)), axis=0)
    forth = np.insert(pairs, 1, 0, axis=1)
    back = np.insert(pairs[:, ::-1], 1, 1, axis=1)
    ranking = Ranking(np.concatenate([forth, back[40:]]), back[:40], np.concatenate([forth, back]), 60, 2, 30.0, 0)
    ranked, again = (registry.rank("pykeen", ranking) for _ in range(2))
    assert (1 / np.concatenate([ranked.tails, ranked.heads])).mean() > 0.3  # .08 by chance
    assert ranked.settings["epochs"] > 0
    assert again.settings["epochs"] > 0
    with pytest.raises(PeerError, match="expected time to train, got none"):
        registry.rank("pykeen", replace(ranking, seconds=0.0))


@pytest.mark.parametrize(
    ("seed", "problem"),
    [
        (1, "foreign: expected an even seed, got 1."),
        (2, "foreign: expected values, got: ValueError: broken."),
        (3, "foreign: expected an end within 0 s, got none. Allow it more."),
    ],
)
def test_what_a_peer_cannot_do_is_one_sentence(seed, problem, foreign, monkeypatch):
    monkeypatch.setattr(outside, "START", 20.0 if seed < 3 else 0.2)
    with pytest.raises(PeerError, match=re.escape(problem)):
        registry.fill(foreign, imputation_of(0.0, seed))


def served(folder: Path, monkeypatch, **works) -> dict:
    monkeypatch.setattr(sys, "argv", ["peer", str(folder)])
    serve(**works)
    return json.loads((folder / REPORT).read_text())


def test_a_peer_is_asked_by_plain_files_and_answers_by_plain_files(tmp_path, monkeypatch):
    Request("fill", ["n0"], ["c1"], seed=7, seconds=5.0, asked=["n0"], rows=[1]).write(tmp_path)
    (tmp_path / TABLE).write_text("n0,c1\n1.5,k0\n,k1\n2,\n")
    assert json.loads((tmp_path / REQUEST).read_text())["seed"] == 7

    def fill(request, table, clock):
        assert table["n0"].isna().tolist() == [False, True, False]
        assert table["c1"].tolist()[:2] == ["k0", "k1"]
        assert table["c1"].isna().tolist() == [False, False, True]
        clock.end_fit()
        return table[request.asked].fillna(9), {"rounds": 1}

    report = served(tmp_path, monkeypatch, fill=fill)
    assert (tmp_path / ANSWER).read_text().split() == ["n0", "1.5", "9.0", "2.0"]
    assert report["settings"] == {"rounds": 1}
    assert report["seconds"].keys() == report["usage"]["cpu"].keys() == {"fit", "fill"}


def test_rows_are_filled_block_by_block_and_the_first_block_in_any_case():
    rows = list(range(100, 137))
    assert [row for block in timed_blocks(rows, 3, Clock(float("inf"))) for row in block] == 3 * rows
    assert list(timed_blocks(rows, 3, Clock(0.0))) == [rows[:10]]
    assert list(timed_blocks([], 3, Clock(0.0))) == []


def test_what_a_peer_cannot_do_is_a_sentence_in_its_report(tmp_path, monkeypatch):
    Request("fill", ["n0"], [], seed=0, asked=["n0"], rows=[0]).write(tmp_path)
    (tmp_path / TABLE).write_text("n0\n1\n")

    def fill(request, table, clock):
        raise CannotError("expected labels, got none.")

    assert served(tmp_path, monkeypatch, fill=fill) == {"cannot": "expected labels, got none."}
    assert not (tmp_path / ANSWER).exists()


def test_a_table_of_entities_has_scaled_numbers_and_codes_and_gives_back_values():
    imputation = imputation_of()
    table = EntityTable.of(imputation)
    names = {table.names[column]: column for column in table.tasks}
    assert names.keys() == {"a", "b", "c, label", "d[].e"}
    for column, task in table.tasks.items():
        hidden = [imputation.masked.cells[place] for place in task.cells]
        first = [cell for cell in hidden if all(key == 0 for key in cell.path if isinstance(key, int))]
        assert all(table.is_missing(column)[cell.entity] for cell in first)
        is_number = table.is_number(column)
        filled = [0.0] * len(table.numbers)
        answers = table.answers(imputation, column, filled)
        assert len(answers) == len(first)
        wanted = task.scale.back(0.0) if is_number else table.categories[column - table.numbers.shape[1]][0]
        assert set(answers.values()) == {wanted}
        assert table.answers(imputation, column, [np.nan] * len(filled)) == {}
    codes = table.values(names["c, label"])
    assert set(codes.tolist()) == {MISSING, 0, 1, 2}


# ---------------------------------------------------------------- each peer


@pytest.mark.parametrize("name", LEARNT)
@pytest.mark.slow
def test_a_peer_learns_what_follows_from_another_value(name):
    skip_if_missing(name)
    imputation = imputation_of(SECONDS.get(name))
    filled = registry.fill(name, imputation)
    assert filled.answers
    found = ratios(imputation, filled)
    if name not in HARD:
        assert all(found[column] < 0.5 for column in "abc"), found
    assert filled.seconds.keys() == filled.usage["cpu"].keys() == {"fit", "fill"}
    assert filled.settings["versions"].keys() == set(PEERS[name].packages)


@pytest.mark.parametrize("name", QUICK)
def test_the_seed_of_a_peer_decides_what_it_fills(name):
    skip_if_missing(name)
    imputation = imputation_of(count=40)
    imputation = replace(imputation, tasks=imputation.tasks[:1])
    first, second = (registry.fill(name, imputation).answers for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", [name for name in LEARNT if name not in QUICK and name not in SECONDS])
@pytest.mark.slow
def test_the_seed_of_a_slow_peer_decides_what_it_fills(name):
    skip_if_missing(name)
    first, second = (registry.fill(name, imputation_of()).answers for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", IN_THIS_PROCESS)
def test_without_any_time_a_peer_leaves_all_to_the_constant(name):
    skip_if_missing(name)
    assert registry.fill(name, imputation_of(0.0)).answers == {}


@pytest.mark.parametrize("name", [name for name in LEARNT if PEERS[name].requirements])
@pytest.mark.slow
def test_a_peer_in_its_own_environment_says_that_it_needs_time(name):
    skip_if_missing(name)
    with pytest.raises(PeerError, match="expected time to train, got none"):
        registry.fill(name, imputation_of(0.0))


@pytest.mark.parametrize("name", QUICK)
def test_what_entities_to_fill_alone_show_is_not_learnt_from(name):
    skip_if_missing(name)
    training, asked = related(40), Entity("asked", {"b": 9, "c": "x"})
    cells = [Cell(40, ("a",), (("a",), "", "number"), 3.0)]
    answers = [
        registry.fill(name, Imputation.of(Masked([*training, asked, *others], cells), train_count=40)).answers
        for others in ([], [Entity(f"f{n}", {"a": 500, "b": 9, "c": "x", "d": []}) for n in range(40)])
    ]
    assert answers[0] == pytest.approx(answers[1])
    assert abs(answers[0][0] - 3) < 2


@pytest.mark.slow
def test_miceforest_refuses_rows_that_it_may_not_learn_from():
    skip_if_missing("miceforest")
    with pytest.raises(PeerError, match="miceforest: expected to learn from all rows"):
        registry.fill("miceforest", Imputation.of(imputation_of().masked, train_count=100))


# ---------------------------------------------------------------- peers that draw rows


def made_set(name: str, count: int = 300) -> TabularSet:
    """A set whose target follows from a whole number, a decimal and a label."""
    draw = np.random.default_rng(0)

    def rows() -> Rows:
        few, fine = draw.integers(0, 4, count) * 2.0, (draw.random(count) * 5).round(2)
        labels = draw.choice(["red", "green", "blue"], count)
        value = few + fine + 4 * (labels == "red")
        target = value.round(1) if name == "price" else (value > 6).astype(np.int64)
        return Rows(np.stack([few, fine], 1), labels[:, None], target)

    return TabularSet(name, SETS[name], rows(), rows(), rows())


@pytest.mark.parametrize("set_name", SETS)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.slow
def test_drawn_rows_teach_a_judge_what_the_real_ones_do(name, set_name):
    skip_if_missing(name)
    table = made_set(set_name)
    sampled = registry.sample(name, Sampling(table, 400))
    rows = sampled.rows
    assert (rows.numbers.shape, rows.categories.shape, len(rows)) == ((400, 2), (400, 1), 400)
    assert set(np.unique(rows.categories)) <= {"red", "green", "blue"}
    assert set(np.unique(rows.numbers[:, 0])) <= {0.0, 2.0, 4.0, 6.0}
    assert sampled.settings["versions"].keys() == set(PEERS[name].packages)
    if name not in HARD_SAMPLERS:
        constant = 0.0 if set_name == "price" else 0.4  # R2 and macro-F1 of a constant prediction, at most
        assert min(scores(table, rows, JUDGE, range(2))) > constant + 0.2


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.slow
def test_the_seed_of_a_peer_decides_what_it_draws(name):
    skip_if_missing(name)
    table = made_set("dear", 60)
    first, again, other = (registry.sample(name, Sampling(table, 50, seed=seed)).rows for seed in (0, 0, 1))
    assert np.array_equal(first.numbers, again.numbers)
    assert np.array_equal(first.categories, again.categories)
    assert not np.array_equal(first.numbers, other.numbers)


@pytest.mark.slow
def test_smote_refuses_a_class_of_one_row_and_a_table_without_numbers():
    skip_if_missing("smote")
    table = made_set("dear", 60)
    table.train.target[:] = 0
    table.train.target[0] = 1
    with pytest.raises(PeerError, match="smote: expected two rows of every class, got one of 'k1'"):
        registry.sample("smote", Sampling(table, 50))
    labels_alone = replace(table, train=replace(table.train, numbers=np.empty((60, 0))))
    with pytest.raises(PeerError, match="smote: expected a column of numbers to interpolate, got none"):
        registry.sample("smote", Sampling(labels_alone, 50))


@pytest.mark.parametrize("name", ["ctgan", "tvae", *CTABGANS])
@pytest.mark.slow
def test_a_peer_that_trains_to_draw_says_that_it_needs_time(name):
    skip_if_missing(name)
    with pytest.raises(PeerError, match="expected time to train, got none"):
        registry.sample(name, Sampling(made_set("dear"), 50, 0.0))


def skewed(count: int = 500) -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(3, 1.5, count))


def test_codes_of_ctabgan_give_back_the_values():
    from benchmarks.peers import ctabgan

    draw = np.random.default_rng(0)
    normal = draw.normal(size=500)
    columns = {"normal": normal, "skewed": skewed(), "many zeros": np.where(draw.random(500) < 0.4, 0, normal)}
    settings = ctabgan.Settings()
    for name, values in columns.items():
        for encode in (ctabgan.encode_by_modes, ctabgan.encode_simple_or_by_modes):
            column = encode(values, settings, 0)
            part = torch.from_numpy(column.encode())
            assert part.shape == (500, sum(span.width for span in column.spans))
            near = np.abs(column.decode(part) - values) < 1e-6 * np.ptp(values)
            assert near.mean() > 0.97, name  # a number four deviations from its mode is cut


def test_a_value_of_many_rows_is_a_mode_of_its_own_and_a_long_tail_is_taken_by_its_logarithm():
    from benchmarks.peers import ctabgan

    draw, settings = np.random.default_rng(0), ctabgan.Settings()
    values = np.where(draw.random(500) < 0.4, 0.0, draw.normal(5, 1, 500))
    mixed = ctabgan.encode_by_modes(values, settings, 0)
    assert mixed.number.restored(mixed.special).tolist() == [0.0]
    assert (mixed.encode()[values == 0, :2] == [0, 1]).all()
    assert ctabgan.encode_by_modes(skewed(), settings, 0).number.shift == 0
    assert mixed.number.shift is None
    simple = ctabgan.encode_simple_or_by_modes(draw.normal(size=500), settings, 0)
    assert [span.width for span in simple.spans] == [1]


def test_conditions_of_ctabgan_are_met_by_their_rows():
    from benchmarks.peers import ctabgan

    columns = [ctabgan._Label(np.array(["a"] * 90 + ["b"] * 9 + ["c"])), ctabgan._Label(np.arange(100) % 2)]
    rows = torch.from_numpy(np.concatenate([column.encode() for column in columns], 1).astype(np.float32))
    conditions = ctabgan._Conditions(rows, columns)
    condition, part, option, picked = conditions.balanced(2000)
    assert condition.shape == (2000, 5)
    assert (condition.sum(1) == 1).all()
    assert ((condition * picked).sum(1) == 1).all()
    assert (condition.argmax(1) == option + 3 * part).all()
    share = (condition[part == 0].argmax(1) == 2).float().mean().item()
    wanted = np.log(2) / (np.log(91) + np.log(10) + np.log(2))
    assert abs(share - wanted) < 4 * np.sqrt(wanted / 1000)
    rare = conditions.as_in_train(5000)[:, 2].mean().item()
    assert abs(rare - 0.005) < 4 * np.sqrt(0.005 / 5000)


def test_ctabgan_draws_from_columns_of_numbers_alone_and_of_labels_alone():
    table = made_set("price", 40)
    none = np.empty((40, 0))
    numbers_alone = replace(table, train=replace(table.train, categories=none.astype(str)))
    labels_alone = replace(made_set("dear", 40), train=replace(made_set("dear", 40).train, numbers=none))
    for name in CTABGANS:
        skip_if_missing(name)
        for wanted in (numbers_alone, labels_alone):
            rows = registry.sample(name, Sampling(wanted, 30)).rows
            assert (rows.numbers.shape[1], rows.categories.shape[1], len(rows)) == (
                wanted.train.numbers.shape[1], wanted.train.categories.shape[1], 30
            )  # fmt: skip


@pytest.mark.parametrize("name", CTABGANS)
def test_ctabgan_refuses_few_rows(name):
    skip_if_missing(name)
    with pytest.raises(PeerError, match="expected 10 rows or more to learn from, got 4"):
        registry.sample(name, Sampling(made_set("price", 4), 50))


# ---------------------------------------------------------------- peers with weights


MAKE_TABICL_WEIGHTS = """
import sys, torch
from tabicl._model.tabicl import TabICL

torch.manual_seed(0)
small = dict(embed_dim=16, col_num_blocks=1, col_nhead=2, col_num_inds=4, row_num_blocks=1, row_nhead=2, icl_num_blocks=1, icl_nhead=2)
for kind, classes in (("classifier", 10), ("regressor", 0)):
    config = dict(small, max_classes=classes)
    torch.save({"config": config, "state_dict": TabICL(**config).state_dict()}, f"{sys.argv[1]}/tiny-{kind}.ckpt")
"""


@pytest.mark.slow
def test_tabicl_fills_with_weights_of_the_users(tmp_path, monkeypatch):
    """Random weights: they fill, they do not learn."""
    environment = environments.environment("tabicl")
    if not environment.versions:
        pytest.skip("tabicl: its environment is not installed")
    (tmp_path / "tabicl").mkdir()
    environment.run("-c", MAKE_TABICL_WEIGHTS, tmp_path / "tabicl")
    monkeypatch.setenv(WEIGHTS, str(tmp_path))
    assert missing("tabicl") is None
    first, again = (registry.fill("tabicl", imputation_of()) for _ in range(2))
    assert first.answers == again.answers
    assert first.settings["columns"] == 4
    assert first.answers


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.has_weights])
def test_a_peer_without_weights_is_refused_with_what_to_do(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Environment, "versions", {name: "1", "torch": "2"})
    monkeypatch.delenv(WEIGHTS, raising=False)
    with pytest.raises(ConfigError, match=f"{name}: expected a folder of weights in {WEIGHTS}, got none"):
        registry.refuse([name], FILLS, "--only")
    monkeypatch.setenv(WEIGHTS, str(tmp_path))
    with pytest.raises(ConfigError, match=r"got 0 \*classifier\*, 0 \*regressor\*\. Put its weights there"):
        registry.refuse([name], FILLS, "--only")
    (tmp_path / name).mkdir()
    for kind in ("classifier", "regressor"):
        (tmp_path / name / f"v1-{kind}.ckpt").touch()
    assert missing(name) is None


def test_a_budget_without_a_limit_has_time_for_all():
    assert Budget(None).share(7) == float("inf")
    assert Budget(0.0).share(7) == 0


def test_a_stopwatch_notes_what_each_phase_used():
    stopwatch = Stopwatch()
    with stopwatch.phase(FIT):
        held = np.ones(10_000_000)  # 80 MB
    assert held.sum() == len(held)
    del held
    with stopwatch.phase(FILL):
        pass
    assert stopwatch.usage[CPU][FIT] > stopwatch.usage[CPU][FILL] >= 0
    if FORGET.exists():
        assert stopwatch.usage[MEMORY][FIT] > stopwatch.usage[MEMORY][FILL] + 40
