"""What is recorded is learnt to the end, by what a network makes of the rest; nothing else of the network changes."""

from __future__ import annotations

import random

import pytest
import torch
from models import calibrated, tiny_run

from kbdisk.completion import complete
from kbdisk.entity import Entity
from kbdisk.evaluation.calibration import Line
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.training import loop
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer
from kbdisk.training.presence import PresenceExamples, _select, lacking_together, refit
from kbdisk.training.train import train

CPU = torch.device("cpu")


def schema() -> Schema:
    kinds = {"kind": Category(), "wheels": Number(), "legs": Number(), "weight": Number()}
    return of_one_class({(name,): Property(kind) for name, kind in kinds.items()})


def moving(i: int, *, everything: bool = False) -> Entity:
    """A car, which has wheels, or an animal, which has legs; each has its weight, but for some."""
    rng = random.Random(i)
    own = {"kind": "car", "wheels": 3 + i % 2} if rng.random() < 0.5 else {"kind": "animal", "legs": 2 * (1 + i % 3)}
    if everything:
        own = {"kind": "car", "wheels": 4, "legs": 2}
    weight = {"weight": round(rng.gauss(50, 5), 1)} if everything or i % 9 else {}
    return Entity(f"m{i}", own | weight)


MOVING = [moving(i) for i in range(80)]


def finished(entities: list[Entity], **choices) -> Trainer:
    run = tiny_run(steps=20, validation=0.2, **choices)
    one = Trainer(Data.prepare(schema(), entities, run), run, CPU)
    list(one.steps())
    one.finish()
    return one


def test_what_is_held_out_tells_that_more_is_known_and_values_are_believed_as_before():
    one = finished(MOVING)
    before = {name: weight.clone() for name, weight in one.network.state_dict().items()}
    assert refit(one.network, one.tokens, one.held_out, seed=0)
    after = one.network.state_dict()
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert changed == {"presence.weight", "presence.bias"}


@pytest.mark.slow
def test_cars_are_given_no_legs():
    several = [moving(i) for i in range(160)]  # of 80 one seed in five gives wheels to animals
    model = train(schema(), several, tiny_run(steps=40, validation=0.2), CPU, lambda progress: None)
    model = calibrated(model, presence=Line())
    filled = {(one.entity.tree["kind"], path) for one in complete(model, several, fill="likely") for path in one.filled}
    assert filled == {("car", ("weight",)), ("animal", ("weight",))}


def test_without_it_they_are(monkeypatch):
    monkeypatch.setattr(loop, "refit", lambda *told: None)
    model = train(schema(), MOVING, tiny_run(steps=20, validation=0.2), CPU, lambda progress: None)
    model = calibrated(model, presence=Line())
    filled = {(one.entity.tree["kind"], path) for one in complete(model, MOVING, fill="likely") for path in one.filled}
    assert filled & {("car", ("legs",)), ("animal", ("wheels",))}


def crate(i: int) -> Entity:
    """A thing whose size is there as a whole or not at all, whatever it is like; its depth may be lacking by itself."""
    rng = random.Random(i)
    width = round(rng.gauss(50, 10), 1)
    size = {"width": width, "height": round(2 * width + rng.gauss(0, 1), 1)} | ({"depth": width} if i % 4 else {})
    return Entity(f"c{i}", {"weight": round(width + rng.gauss(0, 1), 1)} | ({"size": size} if i % 5 else {}))


def of_crates() -> Schema:
    paths = ("weight",), ("size", "width"), ("size", "height"), ("size", "depth")
    return of_one_class({path: Property(Number()) for path in paths})


@pytest.mark.slow
def test_what_lacks_as_a_whole_is_filled_as_a_whole():
    crates = [crate(i) for i in range(200)]
    model = train(of_crates(), crates, tiny_run(steps=40, validation=0.2), CPU, lambda progress: None)
    model = calibrated(model, presence=Line())
    filled = {one.entity.id: set(one.filled) for one in complete(model, crates, fill="likely") if one.filled}
    lacking = {one.id for one in crates if "size" not in one.tree}
    assert len(lacking) == 40
    assert sum({("size", "width"), ("size", "height")} <= filled.get(id, set()) for id in lacking) >= 38


def test_how_often_a_property_lacks_along_with_its_block_is_counted():
    data = Data.prepare(of_crates(), [crate(i) for i in range(200)], tiny_run(validation=0.0))
    share = dict(zip((slot.path for slot in data.codec.slots), lacking_together(data.training).tolist(), strict=True))
    assert share[("size", "width")] == share[("size", "height")] == 1
    assert share[("size", "depth")] == pytest.approx(40 / 80)


@pytest.mark.slow
@pytest.mark.parametrize("choices", [{"absent": 0}, {"presence": 0.0}])
def test_who_has_not_learnt_it_at_all_does_not_learn_it_then(monkeypatch, choices):
    def never(*told: object) -> None:
        raise AssertionError("it was learnt")

    monkeypatch.setattr(loop, "refit", never)
    finished(MOVING, **choices).refit_presence(lambda progress: None)


def test_where_nothing_is_lacking_nothing_changes():
    one = finished([moving(i, everything=True) for i in range(40)])
    before = one.network.presence.bias.clone()
    assert not refit(one.network, one.tokens, one.held_out, seed=0)
    assert torch.equal(one.network.presence.bias, before)


def test_what_serves_those_that_judge_no_better_is_not_taken():
    head = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)

    def recorded(there: list[float]) -> PresenceExamples:
        x = torch.tensor([[-1.0], [-1.0], [1.0], [1.0]]).double()
        return PresenceExamples(x, torch.zeros(4).double(), torch.tensor(there).double(), torch.ones(4).double())

    yes, no = recorded([0, 0, 1, 1]), recorded([1, 1, 0, 0])
    assert not _select(head, yes, no)
    assert float(head.weight.detach()) == 0
    assert _select(head, yes, yes)
    assert float(head.weight.detach()) > 1


def test_weights_are_the_likeliest_ones_so_near_to_those_before():
    head = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    x = torch.zeros(4, 1).double()
    three = PresenceExamples(
        x, torch.zeros(4).double(), torch.tensor([1.0, 1, 1, 0]).double(), torch.full((4,), 1e6).double()
    )
    assert _select(head, three, three)
    assert torch.sigmoid(head.bias).item() == pytest.approx(0.75, abs=1e-4)
