"""Models that are trained for a second: enough to save, open and ask, not enough to know anything.

`from models import QUICK, phones, run_file, tiny, tiny_run`; the fixtures `tiny_model` and `tiny_folder` are the model of
examples/phones.jsonl, trained and saved once in a session: never change them in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

import kbdisk
from kbdisk.data import CodecConfig
from kbdisk.data.graph import pattern
from kbdisk.entity import Entity
from kbdisk.evaluation.calibration import Calibration, Line, Presence, Statement
from kbdisk.evaluation.intervals import Levels
from kbdisk.experts import EXPERTS
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.leaves.text.codec import TextConfig
from kbdisk.model.network import ModelConfig
from kbdisk.schemas.schema import Schema
from kbdisk.training import Run, Trained
from kbdisk.training.config import TrainConfig
from kbdisk.training.train import train

EXPERTS_WITH_A_SHARE = [name for name in EXPERTS if name != "latent_knn"]  # before any test adds an expert
EXAMPLES = Path(__file__).parents[1] / "examples"
LINES = [*range(8), 37]  # of the phones, in a source of few entities: every property is missing in some


def phones() -> tuple[Schema, list[Entity]]:
    """The schema and the entities of examples/phones."""
    return Schema.read(EXAMPLES / "phones.yaml"), list(kbdisk.load(str(EXAMPLES / "phones.jsonl")))


def tiny_run(*, seed: int = 0, nearest: int = 0, **train_choices: Any) -> Run:
    """A run of 5 steps of a network of width 16. It remembers nothing, which would take most of its time, unless asked to."""
    model, latent_knn = ModelConfig(width=16, layers=1, heads=2, base=16), LatentKNNConfig(neighbours=nearest, rounds=1)
    choices = {"steps": 5, "batch": 16, "evaluations": 2, "validation": 0.1, **train_choices}
    codec = CodecConfig(kinds={"text": TextConfig(most=12)})  # who has learnt nothing writes to the end
    return Run("fast", seed, codec, model=model, train=TrainConfig(**choices), experts={"latent_knn": latent_knn})


QUICK: dict[str, Any] = {  # a preset that trains within a second, whatever the budget
    "codec": CodecConfig(kinds={**CodecConfig().kinds, "text": TextConfig(most=12)}),
    "model": ModelConfig(width=16, layers=1, heads=2, base=16),
    "experts": {"latent_knn": LatentKNNConfig(neighbours=0)},
    "train": TrainConfig(steps=5, batch=16, evaluations=2),
}


def run_file(steps: int, evaluations: int = 2, experts: Collection[str] = ()) -> str:
    """The same as a run file over any preset: a network without experts, but for those named, which are the preset's."""
    without_experts = "".join(f"[{name}]\nshare = 0\n" for name in EXPERTS_WITH_A_SHARE if name not in experts)
    return f"""
[codec.kinds.text]
most = 12
[model]
width = 16
layers = 1
heads = 2
base = 16
[latent_knn]
neighbours = 0
{without_experts}[train]
members = 1
steps = {steps}
batch = 16
evaluations = {evaluations}
"""


def tiny(schema: Schema, entities: Sequence[Entity], **choices: Any) -> Trained:
    """A model of some entities, trained for 5 steps on the processor."""
    return train(schema, entities, tiny_run(**choices), torch.device("cpu"), lambda progress: None)


SURE = Line(slope=0.05, intercept=6.0)  # whatever the model says it is above .99, and in the order of what it says


def calibrated(
    trained: Trained,
    presence: Line = SURE,
    correctness: Line = SURE,
    right: float = 1.0,
    usual: Mapping[tuple[str, str], float] = MappingProxyType({}),
    levels: Levels | None = None,
) -> Trained:
    """The model with a calibration: as if so many held-out statements of each property had been right, and no constant."""
    keys = {
        trained.codec.learnt_as(slot.class_name, pattern(slot.path))
        for slot in trained.codec.slots
        if slot.role == "value"
    }
    statements = {key: [Statement(0.999, 0.0, right, 0.0, 1.0)] * 20 for key in sorted(keys)}
    made = Calibration(Presence(presence, usual), correctness, levels or Levels(), statements)
    return replace(trained, record=replace(trained.record, calibration=made.to_json()))
