"""Lines of another number: exact where the numbers lie on one, and none where little is told."""

from __future__ import annotations

import random

import pytest
import torch

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.experts import boosted_trees, serialize
from kbdisk.experts.base import USUALLY_VISIBLE, Inputs, Sides
from kbdisk.experts.boosted_trees import Line, Task
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.experts.examples import OneHotExamples
from kbdisk.experts.features import OneHotFeatures
from kbdisk.experts.target_scale import TargetScale
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class


def fitted(pairs: list[tuple[float, float]]) -> tuple[Line | None, torch.Tensor, TargetScale]:
    """The line of y by x, the codes of x, and the scale of y; some x is unknown."""
    schema = of_one_class({("x",): Property(Number()), ("y",): Property(Number())})
    known = [Entity(f"t{n}", {"y": y} if n % 5 == 0 else {"x": x, "y": y}) for n, (x, y) in enumerate(pairs)]
    codec = Codec.fit(schema, known)
    tokens = codec.encode(known)
    batch = tokens.batch(torch.arange(len(known)))
    columns = OneHotFeatures.fit(batch, 100)
    slots = {name: codec.slot("", (name,)) for name in "xy"}
    used = columns.without(slots["y"])
    features = columns.table(batch, batch.known)[:, used]
    scale = TargetScale.fit([y for _, y in pairs], codec.slots[slots["y"]].codec.floor_of_logs)
    target = torch.tensor(scale.scaled([y for _, y in pairs]))
    return Line.best(codec, columns, used, features, target, scale), features[:, 0], scale


def test_numbers_on_a_line_are_told_exactly_and_what_is_not_visible_is_not():
    rng = random.Random(0)
    pairs = [(x, x - 70) for x in (rng.choice([rng.uniform(400, 1500), rng.uniform(1800, 2000)]) for _ in range(200))]
    line, codes, scale = fitted(pairs)
    predicted = torch.from_numpy(scale.unscaled(line.of(codes).numpy()))
    visible = ~codes.isnan()
    assert predicted[visible].tolist() == pytest.approx(
        [y for (_, y), there in zip(pairs, visible, strict=True) if there], abs=0.5
    )
    assert bool(predicted[~visible].isnan().all())


def test_a_few_that_lie_far_off_do_not_bend_it():
    rng = random.Random(1)
    pairs = [(x, x - 70 if n % 20 else 9000.0) for n, x in enumerate(rng.uniform(1000, 2000) for _ in range(200))]
    line, codes, scale = fitted(pairs)
    predicted = scale.unscaled(line.of(codes).numpy())
    off = [abs(predicted[n] - x + 70) for n, (x, _) in enumerate(pairs) if n % 5 and n % 20]
    assert max(off) < 40


def test_numbers_over_decades_lie_on_a_line_of_logarithms():
    rng = random.Random(2)
    pairs = [(x, 3 * x**0.5) for x in (10 ** rng.uniform(0, 8) for _ in range(200))]
    line, codes, scale = fitted(pairs)
    assert scale.least > 0
    predicted = scale.unscaled(line.of(codes).numpy())
    assert max(abs(predicted[n] / y - 1) for n, (_, y) in enumerate(pairs) if n % 5) < 0.1


def test_where_little_is_told_there_is_none():
    rng = random.Random(3)
    assert fitted([(x, x + rng.gauss(0, 1)) for x in (rng.gauss(0, 1) for _ in range(300))])[0] is None
    assert fitted([(float(n), float(n)) for n in range(20)])[0] is None  # too few


def test_trees_say_the_line_where_the_other_number_is_visible():
    rng, known = random.Random(4), []
    for number in range(200):
        death = rng.uniform(500, 2000)
        known.append(Entity(f"t{number}", {"y": round(death - 70), **({"x": round(death)} if number % 3 else {})}))
    codec = Codec.fit(of_one_class({("x",): Property(Number()), ("y",): Property(Number())}), known)
    tokens = codec.encode(known)
    group = boosted_trees.fit(
        codec, Sides(tokens, codec.encode(known[:20])), config=BoostedTreesConfig(share=0.3), seed=0
    ).group
    expert = group.experts[codec.slot("", ("y",)), USUALLY_VISIBLE].expert
    batch = tokens.batch(torch.arange(len(known)))
    visible = batch.known & (batch.slot == codec.slot("", ("x",)))
    predicted = expert.predict(group.seen(batch, visible).inputs(torch.arange(len(known)))).tolist()
    assert not any(number != number for number in predicted)
    assert max(abs(predicted[n] - one.tree["y"]) for n, one in enumerate(known) if "x" in one.tree) < 2


def test_a_line_is_kept_with_its_trees(tmp_path):
    known = [Entity(f"t{n}", {"x": n * 7 % 300, "y": n * 7 % 300 + 5}) for n in range(200)]
    codec = Codec.fit(of_one_class({("x",): Property(Number()), ("y",): Property(Number())}), known)
    tokens = codec.encode(known)
    group = boosted_trees.fit(
        codec, Sides(tokens, tokens), config=BoostedTreesConfig(share=0.3), seed=0, seconds=2
    ).group
    file = tmp_path / "trees.safetensors"
    file.write_bytes(serialize.to_bytes(serialize.BOOSTED_TREES, group))
    again = serialize.read(serialize.BOOSTED_TREES, file, codec, torch.device("cpu"))
    batch = tokens.batch(torch.arange(len(known)))
    inputs = Inputs(group.featurizer.table(batch, batch.known), batch.id_hash)
    for key, weighted in group.experts.items():
        assert weighted.expert.line is not None
        assert torch.equal(again.experts[key].expert.predict(inputs), weighted.expert.predict(inputs))


def test_trees_that_know_better_take_the_place_of_a_line():
    rng, known = random.Random(5), []
    for number in range(600):
        x, label = rng.uniform(0, 100), "abcd"[number % 4]
        known.append(Entity(f"t{number}", {"x": x, "label": label, "y": x + 8 * "abcd".index(label)}))
    properties = {("x",): Property(Number()), ("label",): Property(Category()), ("y",): Property(Number())}
    codec = Codec.fit(of_one_class(properties), known)
    tokens = codec.encode(known)
    slot = codec.slot("", ("y",))
    config = BoostedTreesConfig(share=0.3)
    examples = OneHotExamples(Sides(tokens, tokens), config.values, config.columns, 0)
    used = examples.columns_beside(slot)
    task = Task.build(codec, slot, examples.training[slot], examples.features, used, config, {})
    assert task.line is not None  # it explains most of y
    expert = boosted_trees.fit(codec, Sides(tokens, tokens), config=config, seed=0).group.experts[slot, 0].expert
    assert expert.line is None
    batch = tokens.batch(torch.arange(len(known)))
    visible = batch.known & (batch.slot != slot)
    predicted = expert.predict(Inputs(examples.features.table(batch, visible), batch.id_hash)).tolist()
    row = {number: place for place, number in enumerate(batch.id_hash.tolist())}
    errors = [
        abs(predicted[row[number]] - one.tree["y"]) for number, one in zip(tokens.id_hash.tolist(), known, strict=True)
    ]
    assert sum(errors) / len(errors) < 3
