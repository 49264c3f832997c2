"""Propagated numbers are predictions: weighed with the other experts, and once more where they are close."""

from __future__ import annotations

import pytest
import torch
from models import tiny_run
from tables import for_each
from villages import OFFSET, SCHEMA, world

from kbdisk.api.model import Model
from kbdisk.data.graph import Graph
from kbdisk.entity import Entity, Link
from kbdisk.experts.config import PropagationConfig
from kbdisk.model.diffusion import beliefs
from kbdisk.store.folder import open_folder, save
from kbdisk.training.train import train
from kbdisk.training.trained import Trained

CPU = torch.device("cpu")
SHARE = PropagationConfig(share=0.1)
RUN = tiny_run(steps=5, batch=64, validation=0.3)


@pytest.fixture(scope="module")
def model() -> Trained:
    run = RUN.with_experts(propagation=SHARE, close_propagation=SHARE)
    return train(SCHEMA, world(), run, CPU, lambda progress: None)


def predicted(model: Trained, id: str, path: str, hidden: tuple[str, ...] = ()) -> float:
    """A number of a village that is hidden, with some of its links."""
    entity = Entity(id, next(entity for entity in world() if entity.id == id).tree, ("Village",))
    batch = model.encode([entity], graph=Graph.read(SCHEMA, world())).batch(torch.zeros(1, dtype=torch.long))
    paths = [model.codec.slots[slot].path for slot in batch.slot.tolist()]
    asked = torch.tensor([at == (path,) for at in paths])
    is_hidden = torch.tensor([at in [(name,) for name in hidden] for at in paths])
    of_numbers = beliefs(model.full_model, batch, asked, batch.seen(batch.known & ~asked & ~is_hidden)).kinds["number"]
    return float(of_numbers.belief.expected())


def test_a_network_that_has_learnt_nothing_predicts_what_is_propagated(model):
    for i in (4, 20, 41):
        assert predicted(model, f"v{i}.1", "east") == pytest.approx(100 * i + OFFSET + 0.5, abs=60)
    alone = model.with_experts(propagation=None, close_propagation=None)
    errors = [abs(predicted(of, "v4.1", "east") - 407.5) for of in (model, alone)]
    assert errors[0] < errors[1] / 3


def test_close_estimates_are_repeated_to_the_last_digits(model):
    assert len(model.experts["close_propagation"]) > 0
    without = model.with_experts(close_propagation=None)
    errors = [
        sum(abs(predicted(of, f"v{i}.2", "east") - 100 * i - OFFSET - 0.5) for i in range(0, 60, 7))
        for of in (model, without)
    ]
    assert errors[0] <= errors[1]


def test_without_the_link_nothing_of_it_is_left(model):
    changed = predicted(model, "v4.1", "east", hidden=("county",))
    assert abs(changed - 407.5) > 100


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "m")
    again = open_folder(tmp_path / "m", CPU)
    assert again.experts.keys() == model.experts.keys()
    for id in ("v4.1", "v3.2"):
        assert predicted(again, id, "east") == predicted(model, id, "east")


@for_each("name", ["propagation", "close_propagation"])
def test_without_links_it_takes_no_time(name):
    entities = [Entity(f"v{i}", {"east": float(i), "people": i}, ("Village",)) for i in range(60)]
    made = train(SCHEMA, entities, RUN.with_experts(**{name: SHARE}), CPU, lambda progress: None)
    assert made.run.experts[name].share == 0
    assert name not in made.experts


def test_an_entity_that_comes_later_gets_its_number_over_its_links(model):
    new = Entity("new", {"county": Link("c30"), "east": 0.0}, ("Village",))
    batch = model.encode([new], graph=Graph.read(SCHEMA, world())).batch(torch.zeros(1, dtype=torch.long))
    asked = torch.tensor([model.codec.slots[slot].path == ("east",) for slot in batch.slot.tolist()])
    belief = beliefs(model.full_model, batch, asked, batch.seen(batch.known & ~asked)).kinds["number"].belief
    assert float(belief.expected()) == pytest.approx(3000 + OFFSET + 0.5, abs=100)


@pytest.mark.parametrize("share", [1.0, -0.1])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match="share"):
        PropagationConfig(share=share)


def test_a_missing_number_is_filled_by_what_is_propagated_and_the_reasons_say_so(model):
    known = world()
    village = next(entity for entity in known if entity.id == "v20.1")
    del village.tree["east"]
    asked = Model(model)
    completions = asked.complete(known, only=["east"], fill="all")
    [completion] = [filled for filled in completions if filled.entity.id == village.id]
    assert completion.filled["east",].value == pytest.approx(2000 + OFFSET + 0.5, abs=60)
    why = asked.why(village.id, "east", known)
    assert any("propagated" in predictor.name for predictor in why.predictors)
    assert any(influence.name in ("county", "east of linked entities") for influence in why.influences)
