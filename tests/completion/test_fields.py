"""How many values a property is to have before any is filled in: as many as its source has, held out or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models import tiny
from things import COUNT, entities, schema, thing

from kbdisk.api.reading import Reading
from kbdisk.api.training import untrained
from kbdisk.completion.choices import Choices
from kbdisk.completion.fields import fields_of
from kbdisk.training.folder import open_folder, save


def why(codec, **choices) -> str:
    """Why the rare property is not filled."""
    return fields_of(codec, Choices(**choices))[""].fields["rare",].held


@pytest.mark.slow
def test_the_values_of_the_held_out_count_as_those_trained_on(tmp_path):
    some = [{**thing(i), "rare": 1.5 * i} if i < 30 else thing(i) for i in range(COUNT)]
    model = tiny(schema(), entities(*some))
    [slot] = [slot for slot in model.codec.slots if slot.path == ("rare",)]
    assert slot.count < 30  # some are held out
    assert why(model.codec) == ""
    assert why(model.codec, least=31) == "30 known values to learn from, fewer than 31"
    save(model, tmp_path / "model")
    assert why(open_folder(Path(tmp_path / "model"), torch.device("cpu")).codec) == ""
    assert why(untrained(Reading.of(some), schema(), model.run).trained.codec, least=31).startswith("30 known")


def test_the_count_that_is_told_is_that_of_the_source(model):
    assert why(model.codec) == "10 known values to learn from, fewer than 30"
