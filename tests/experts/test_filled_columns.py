"""Hidden numbers that trees read are filled by estimates."""

from __future__ import annotations

import random
from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.experts import boosted_trees
from kbdisk.experts.base import Inputs, Sides
from kbdisk.experts.boosted_trees import BoostedTrees, TreeGroup, fit
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.experts.features import OneHotFeatures
from kbdisk.experts.filled_columns import (
    Estimate,
    EstimatedRows,
    EstimatedTable,
    FilledColumns,
    needed_estimates,
    worth_filling,
)
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

NAN = torch.nan
CPU = torch.device("cpu")


class SumOfFeatures:
    """Predicts the sum of all features, which a hidden one spoils."""

    read_from_estimates = torch.tensor([], dtype=torch.long)

    def numbers(self, features, estimates=None):
        return features.double().nan_to_num(1000.0).sum(1)

    def to(self, device):
        return self


def test_hidden_numbers_alone_are_filled_and_flagged_and_their_own_property_is_never_read():
    identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
    columns = FilledColumns(torch.tensor([0, 2]), torch.tensor([1]), [1])
    features = torch.tensor([[1.0, 50.0, 3.0], [1.0, 50.0, NAN], [NAN, 50.0, 4.0]])
    filled = columns.of_training(features, {2: Estimate(SumOfFeatures(), identity)})
    assert len(columns) == filled.shape[1] == 3
    torch.testing.assert_close(filled[0], torch.tensor([1.0, 3.0, 0.0]))
    torch.testing.assert_close(filled[1], torch.tensor([1.0, 1.0 + 2 * 1000, 1.0]))  # 50 is hidden from the estimate
    torch.testing.assert_close(filled[2], torch.tensor([NAN, 4.0, 0.0]), equal_nan=True)
    assert features[1, 2].isnan()  # the features are as they were


class Doubled:
    """Predicts twice the number of a column, which it reads from estimates where there are some; counts the rows asked for."""

    def __init__(self, column):
        self.column, self.asked, self.calls = column, 0, 0
        self.read_from_estimates = torch.tensor([column])

    def numbers(self, features, estimates=None):
        self.asked += len(features)
        self.calls += 1
        return 2 * estimates.codes(self.read_from_estimates)[:, 0].double()


def test_estimates_are_read_from_those_of_the_round_before_and_made_once():
    identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
    first, second, later = SumOfFeatures(), Doubled(0), Doubled(1)
    features = torch.tensor([[5.0, NAN, NAN], [NAN, NAN, 3.0], [7.0, 1.0, NAN]])
    rounds = [
        {0: Estimate(first, identity), 1: Estimate(second, identity)},
        {0: Estimate(first, identity), 1: Estimate(second, identity), 2: Estimate(later, identity)},
    ]
    table = EstimatedTable(features, rounds)
    rows = table.rows(torch.arange(3))
    # column 2 is twice column 1, which is twice column 0, as the first round has it
    torch.testing.assert_close(column_of(rows, 2), torch.tensor([20.0, 3.0, 2.0]))
    assert (second.asked, later.asked) == (1, 2)  # column 1 of the first row, column 2 of the first and the last
    torch.testing.assert_close(column_of(table.rows(torch.tensor([2, 0, 0])), 2), torch.tensor([2.0, 20.0, 20.0]))
    assert (second.asked, later.asked) == (1, 2)
    # column 1 of the second row needs column 0: 2003 by the sum of what is visible
    torch.testing.assert_close(column_of(rows, 1), torch.tensor([10.0, 4006.0, 1.0]))
    assert features.isnan().sum() == 5  # the features are as they were


def test_in_the_first_round_a_number_is_read_from_the_estimates_of_numbers_before_it():
    identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
    experts = [SumOfFeatures(), Doubled(0), Doubled(1), Doubled(2)]
    first = {column: Estimate(expert, identity) for column, expert in enumerate(experts)}
    features = torch.tensor([[5.0, NAN, NAN, NAN], [NAN, NAN, NAN, 1.0], [NAN, 7.0, NAN, NAN]])
    table = EstimatedTable(features, [first])
    rows = torch.arange(3)
    table.announce([(torch.tensor([3]), rows)])
    torch.testing.assert_close(column_of(table.rows(rows), 3), torch.tensor([40.0, 1.0, 28.0]))
    assert [expert.calls for expert in experts[1:]] == [1, 1, 1]  # all rows of a column at once
    assert [expert.asked for expert in experts[1:]] == [1, 2, 2]  # no more rows than lead to column 3


def test_estimates_that_nothing_reads_are_left_out():
    identity = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    first = {column: Estimate(Doubled(column - 1), identity) for column in range(1, 6)}
    assert list(needed_estimates(first, [3])) == [1, 2, 3]
    assert needed_estimates(first, []) == {}


def test_in_training_nothing_that_is_read_was_made_from_the_property_itself():
    identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
    knows_the_property = SumOfFeatures()
    first = {0: Estimate(knows_the_property, identity), 1: Estimate(Doubled(0), identity)}
    columns = FilledColumns(torch.tensor([1]), torch.tensor([0]), [0])
    filled = columns.of_training(torch.tensor([[5.0, NAN], [6.0, 1.0]]), first)
    torch.testing.assert_close(filled, torch.tensor([[NAN, 1.0], [1.0, 0.0]]), equal_nan=True)


def test_a_long_chain_is_no_deep_recursion():
    identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
    first = {0: Estimate(SumOfFeatures(), identity)}
    first |= {column: Estimate(SameAs(column - 1), identity) for column in range(1, 1000)}
    features = torch.full((1, 1000), NAN)
    features[0, 0] = 3.0
    table = EstimatedTable(features, [first])
    table.announce([(torch.tensor([999]), torch.tensor([0]))])
    assert float(column_of(table.rows(torch.tensor([0])), 999)) == 3.0


class SameAs(Doubled):
    """Predicts the number of a column."""

    def numbers(self, features, estimates=None):
        return super().numbers(features, estimates) / 2


def column_of(rows: EstimatedRows, column: int) -> torch.Tensor:
    return rows.codes(torch.tensor([column]))[:, 0]


@given(
    st.lists(st.lists(st.sampled_from([NAN, 1.0, 2.0, 5.0]), min_size=4, max_size=4), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5), min_size=1)), min_size=1, max_size=4),
)
def test_what_is_announced_is_imputed_at_once_and_as_it_would_be_row_by_row(cells, reads):
    features = torch.tensor(cells)
    reads = [(column, sorted(row for row in rows if row < len(cells))) for column, rows in reads]
    reads = [(column, torch.tensor(rows)) for column, rows in reads if rows]

    def tables() -> tuple[EstimatedTable, list[Doubled]]:
        identity = torch.tensor([[-1e6, 1e6], [-1e6, 1e6]], dtype=torch.float64)
        experts = [
            Doubled(column) for column in (3, 0, 1, 2)
        ]  # of each column the one before it; column 3 of the first
        later = {column: Estimate(expert, identity) for column, expert in enumerate(experts)}
        first = {column: Estimate(SumOfFeatures(), identity) for column in range(3)}
        return EstimatedTable(features, [first | {3: later[3]}, later]), experts

    (announced, fast), (read_by_row, _) = tables(), tables()
    announced.announce((torch.tensor([column]), rows) for column, rows in reads)
    for column, rows in reads:
        together = column_of(announced.rows(rows), column)
        alone = torch.cat([column_of(read_by_row.rows(row[None]), column) for row in rows])
        torch.testing.assert_close(together, alone, equal_nan=True)
    assert all(expert.calls <= 1 for expert in fast)


def test_trees_are_asked_with_estimates_by_the_trees_of_the_number_itself():
    known = chain(300)
    codec = Codec.fit(of_one_class({(name,): Property(Number()) for name in "xyz"}), known)
    tokens = codec.encode(known)
    group = fit(codec, Sides(tokens, tokens), config=BoostedTreesConfig(share=0.3), seed=0).group
    assert isinstance(group, TreeGroup)
    slots = {slot.path[0]: number for number, slot in enumerate(codec.slots)}
    first, later = group.rounds
    (column,) = first
    assert int(group.featurizer.slot[column]) == slots["y"]
    assert later[column].expert is group.experts[slots["y"], 0].expert
    assert first[column].expert is not later[column].expert
    without = replace(group, experts={key: expert for key, expert in group.experts.items() if key[0] != slots["y"]})
    assert without.rounds[1][column] is without.rounds[0][column]  # y has no trees of its own


def test_each_number_that_is_learnt_later_reads_the_estimates_of_those_before(monkeypatch):
    monkeypatch.setattr(boosted_trees, "WAVE", 1)
    rng, known = random.Random(0), []
    for number in range(400):
        x = rng.uniform(0, 8)
        tree = {"v": x + rng.gauss(0, 0.1), "w": x + rng.gauss(0, 0.1), "x": x, "z": x * x}
        known.append(Entity(f"t{number}", {name: value for name, value in tree.items() if rng.random() < 0.8}))
    codec = Codec.fit(of_one_class({(name,): Property(Number()) for name in "vwxz"}), known)
    tokens = codec.encode(known)
    group = fit(codec, Sides(tokens, tokens), config=BoostedTreesConfig(share=0.3), seed=0).group
    assert isinstance(group, TreeGroup)
    columns = list(group.first)
    assert {int(group.featurizer.slot[column]) for column in columns} == set(range(4))
    for place, column in enumerate(columns):
        assert set(group.first[column].expert.read_from_estimates.tolist()) == set(columns[:place])
    for weighted in group.experts.values():  # grown again from the estimates of all
        assert isinstance(weighted.expert, BoostedTrees)
        assert len(weighted.expert.read_from_estimates) == 3
    monkeypatch.setattr(boosted_trees, "MIN_SECONDS_TWICE", float("inf"))
    once = fit(codec, Sides(tokens, tokens), config=BoostedTreesConfig(share=0.3), seed=0, seconds=60.0).group
    assert isinstance(once, TreeGroup)
    assert once.estimates
    assert len(once.experts) == 4
    for (slot, _), weighted in once.experts.items():  # each read those before it alone
        column = int(once.featurizer.numbers_of(slot))
        read = weighted.expert.read_from_estimates.tolist()
        assert all(columns.index(other) < columns.index(column) for other in read)
    assert all(once.rounds[1][column] is once.first[column] for column in once.estimates)  # nothing new to read


def test_estimates_are_codes_of_the_numbers_that_are_predicted():
    codec = Codec.fit(of_one_class({("x",): Property(Number())}), [Entity(f"t{n}", {"x": n * n}) for n in range(100)])
    estimate = Estimate.of(codec, 0, SumOfFeatures())
    tokens = codec.encode([Entity("t", {"x": 1600})])
    codes = tokens.batch(torch.tensor([0])).values["number"][:, 0].float()
    torch.testing.assert_close(estimate(torch.tensor([[1600.0]])), codes, rtol=1e-4, atol=1e-4)


def test_only_numbers_that_are_mostly_known_are_worth_filling():
    known = torch.tensor([[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=torch.bool)
    assert worth_filling(known).tolist() == [False, True, False]


def chain(n: int = 900) -> list[Entity]:
    """x tells y, and y tells z, by steps in which x tells nothing more; some lack y."""
    rng, known = random.Random(0), []
    for number in range(n):
        x = rng.uniform(0, 8)
        y = float(int(x * 2) * 37 % 16)
        z = float((int(y) * 5) % 16)
        tree = {"x": x, "y": y, "z": z}
        if rng.random() < 0.3:
            del tree["y"]
        known.append(Entity(f"t{number}", tree))
    return known


def test_trees_follow_a_chain_over_a_number_that_is_hidden():
    known = chain()
    codec = Codec.fit(of_one_class({(name,): Property(Number()) for name in "xyz"}), known)
    tokens = codec.encode(known)
    group = fit(codec, Sides(tokens, tokens), config=BoostedTreesConfig(share=0.3), seed=0).group
    slots = {slot.path[0]: number for number, slot in enumerate(codec.slots)}
    trees = group.experts[slots["z"], 0].expert
    assert isinstance(trees, BoostedTrees)
    assert isinstance(group.featurizer, OneHotFeatures)
    assert [int(group.featurizer.slot[column]) for column in trees.columns.filled] == [slots["y"]]
    batch = tokens.batch(torch.arange(len(tokens)))
    table = group.featurizer.table(batch, batch.known)
    lacking = table[:, group.featurizer.of(slots["y"])[0]].isnan()
    table[:, group.featurizer.of(slots["z"])] = NAN
    rows = EstimatedTable(table, group.rounds).rows(lacking.nonzero()[:, 0])
    predicted = trees.predict(Inputs(table[lacking], batch.id_hash[lacking], rows))
    truth = torch.tensor([entity.tree["z"] for entity in known], dtype=torch.float64)
    row = {number: place for place, number in enumerate(tokens.id_hash.tolist())}
    truth = truth[[row[number] for number in batch.id_hash[lacking].tolist()]]
    assert float((predicted - truth).abs().mean()) < 0.5 * float((truth - truth.median()).abs().mean())
