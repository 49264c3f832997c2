"""DiSK gives the loss and the gradients of a plain, dense network with a module for every property (reference.py)."""

from __future__ import annotations

import random
from dataclasses import replace

import torch
from reference import Reference, dense, gradients, take_weights
from tables import for_each

from kbdisk.data import Codec, CodecConfig
from kbdisk.entity import Entity
from kbdisk.leaves.number import NumberConfig
from kbdisk.model import network as model_network
from kbdisk.model.diffusion import loss
from kbdisk.model.masking import Hiding, hide
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.schemas.kinds import Boolean, Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training.run import Run

PHONE = {
    ("weight",): Number(minimum=0),  # with atoms
    ("launch", "year"): Number(integer=True),
    ("launch", "day"): Number(integer=True, minimum=1, maximum=31),
    ("price",): Number(),
    ("maker",): Category(("A", "B", "C"), closed=True),
    ("colour",): Category(),  # open
    ("dual",): Boolean(),
}
CITY = {("population",): Number(integer=True), ("weight",): Number(), ("country",): Category(("X", "Y"), closed=True)}
SCHEMA = Schema(
    {
        name: Class(name, {path: Property(leaf) for path, leaf in leaves.items()})
        for name, leaves in {"City": CITY, "Phone": PHONE}.items()
    }
)
MODEL = ModelConfig(width=24, layers=2, heads=3, blocks=1, dropout=0.0, base=8)
BELIEFS = {  # waves have tests of their own (tests/leaves/test_number_waves.py)
    "mixture": NumberConfig(components=5, frequencies=4, waves=False),
    "binned": NumberConfig(belief="binned", bins=8, waves=False),
}


def phone(number: int) -> Entity:
    leaves = {
        "weight": random.choice([100, 100, 120, round(random.gauss(150, 30), 1)]),
        "launch": {"year": random.randint(1998, 2020), "day": random.randint(1, 31)},
        "price": round(random.lognormvariate(5, 1), 2),
        "maker": random.choice("ABBB"),
        "colour": random.choice(["red", "blue", "green", f"shade {number}"]),
        "dual": random.random() < 0.3,
    }
    return Entity(f"phone {number}", dropped(leaves), ("Phone",))


def city(number: int) -> Entity:
    leaves = {
        "population": random.randint(1000, 9_000_000),
        "weight": random.gauss(0, 1),
        "country": random.choice("XY"),
    }
    return Entity(f"city {number}", dropped(leaves), ("City",))


def dropped(leaves: dict) -> dict:
    """What is left when a fifth is missing; something always is."""
    kept = {key: value for key, value in leaves.items() if random.random() < 0.8}
    return kept or leaves


def settled(sharing: str, belief: str):
    """A codec, our network in double precision with every weight away from where it begins, and a batch of it."""
    return moved(CodecConfig(sharing, kinds={"number": BELIEFS[belief]}), MODEL)


def moved(config: CodecConfig, sizes: ModelConfig):
    entities = [phone(i) if i % 3 else city(i) for i in range(90)]
    codec = Codec.fit(SCHEMA, entities, config)
    model = DiSK(codec, sizes).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        if (atoms := model.kinds.encoders["number"].atoms) is not None:
            atoms.weight[0] = 0  # of what is no atom
    batch = codec.encode(entities).batch(torch.randperm(90)[:24])
    values = {kind: codes.double() if codes.is_floating_point() else codes for kind, codes in batch.values.items()}
    return codec, model, replace(batch, values=values)


def both(codec, model, batch, objective="bound", presence=1.0):
    """Our loss, the reference's, and both gradients by name."""
    hidden = hide(batch, Hiding(together=0.0))
    ours = loss(model, batch, hidden, objective=objective, presence=presence).total
    ours.backward()
    reference = Reference(codec, model.config, objective == "field-mean", presence).double()
    take_weights(reference, model)
    theirs = reference(dense(batch, hidden.visible, len(codec.slots)))
    theirs.backward()
    grads = {name: one.grad for name, one in model.named_parameters()}
    return ours.detach().double(), theirs.detach(), grads, gradients(reference, model)


@for_each("belief", BELIEFS)
@for_each("sharing", ["disjoint", "tied"])
def test_loss_and_all_gradients_are_those_of_a_module_for_each_property(sharing, belief):
    assert_alike(*both(*settled(sharing, belief)))


def test_so_has_the_paper_s_preset():
    run = Run.of("paper")
    sizes = replace(run.model, width=24, dropout=0.0)
    assert_alike(*both(*moved(run.codec, sizes), run.train.objective, run.train.presence))


def assert_alike(ours, theirs, own, expected):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    assert own.keys() == expected.keys()
    size = max(float(grad.abs().max()) for grad in expected.values())
    for name, grad in expected.items():
        mine = torch.zeros_like(grad) if own[name] is None else own[name]
        torch.testing.assert_close(
            mine, grad, rtol=1e-5, atol=1e-6 * size, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_the_example_has_all_that_may_go_wrong():
    codec, _, batch = settled("disjoint", "mixture")
    kinds = {slot.path: slot for slot in codec.slots}
    assert kinds[("weight",)].codec.atoms
    assert kinds[("colour",)].codec.labels.open
    assert set(batch.classes.tolist()) == {0, 1}
    assert len(batch) < sum(3 if one == 0 else 7 for one in batch.classes.tolist())
    assert (batch.values["number"][:, 3] >= 0).any()


# ---------------------------------------------------------------- and would not, were something wrong


def drop_a_bias(codec, model, monkeypatch):
    monkeypatch.setattr(
        type(model.kinds.decoders["number"].atoms.linear), "biases", lambda self: [None] * len(self.weight)
    )


def swap_the_weights_of_two_properties(codec, model, monkeypatch):
    one, other = [slot for slot in codec.slots if slot.kind == "number"][:2]
    groups = {one: other.group, other: one.group}
    swapped = tuple(replace(slot, group=groups.get(slot, slot.group)) for slot in codec.slots)
    return replace(codec, slots=swapped)


def look_at_what_is_hidden(codec, model, monkeypatch):
    def run(self, x, seen, whole, asked):
        for layer in self.layers:
            x = layer(x, len(x), whole, False)
        return self.norm(x)[seen:]

    build_layout = model_network.build_layout
    monkeypatch.setattr(model_network, "build_layout", lambda asking, seen, size: build_layout(asking, asking, size))
    monkeypatch.setattr(type(model.entity_encoder), "forward", run)


@for_each("wrong", [drop_a_bias, swap_the_weights_of_two_properties, look_at_what_is_hidden])
def test_the_comparison_sees_what_is_wrong(wrong, monkeypatch):
    codec, model, batch = settled("disjoint", "mixture")
    told = wrong(codec, model, monkeypatch) or codec  # what the reference goes by
    ours, theirs, _, _ = both(told, model, batch)
    assert abs(float(ours - theirs)) > 1e-4 * float(theirs)
