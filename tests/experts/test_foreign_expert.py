"""An expert from outside the package is one row in `EXPERTS`: it is trained, weighed, stored, opened, and explained."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pytest
from class_medians import CLASS_MEDIAN, ClassMedian, ClassMedianConfig
from models import run_file, tiny_run

import kbdisk
from kbdisk.entity import Entity
from kbdisk.errors import CheckpointError, ConfigError
from kbdisk.experts import EXPERTS
from kbdisk.schemas.schema import Schema
from kbdisk.training import Run

NAME = "class_median"
SCHEMA = """kbdisk: 1
classes:
  Cat:
    properties: {weight: number, coat: category}
  Cow:
    properties: {weight: number, coat: category}
"""


def animals() -> list[Entity]:
    """Cats weigh about 4, cows about 600; coats say nothing."""
    rng = random.Random(0)
    return [
        Entity(f"a{n}", {"weight": round(rng.gauss(*weight), 2), "coat": rng.choice("wbg")}, (name,))
        for n in range(200)
        for name, weight in [("Cat", (4, 0.3)) if n % 2 else ("Cow", (600, 20))]
    ]


def entity(name: str) -> Entity:
    return Entity("new", {"weight": None, "coat": "w"}, (name,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder whose only expert is the foreign one, and what the model that was trained completes."""
    folder = tmp_path_factory.mktemp("models") / "animals.kbdisk"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERTS, NAME, CLASS_MEDIAN)
        run = tiny_run(steps=5, batch=64, validation=0.3).with_experts(class_median=ClassMedianConfig(share=0.5))
        run = replace(run, codec=replace(run.codec, pooling=True))  # both classes share the property
        seen = []
        model = kbdisk.train(
            animals(),
            Schema.read(SCHEMA),
            run=run,
            device="cpu",
            out=folder,
            watch=lambda progress: seen.append(progress),
        )
        assert "computing medians" in {one.final_task.doing for one in seen if one.final_task is not None}
    return folder, model


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(EXPERTS, NAME, CLASS_MEDIAN)


def test_it_has_a_weight_and_makes_predictions_better(folder, registered):
    model = folder[1]
    group = model.trained.experts[NAME]
    assert all(isinstance(weighted.expert, ClassMedian) for weighted in group.experts.values())
    assert max(float(weighted.weight) for weighted in group.experts.values()) > 0.5
    alone = kbdisk.Model(model.trained.with_experts(class_median=None))
    with_expert, without = (
        asked.evaluate(animals()).set_index("path").loc["weight", "ours"] for asked in (model, alone)
    )
    assert with_expert < 0.5 * without


def test_it_completes_saves_opens_and_explains(folder, registered):
    path, model = folder
    opened = kbdisk.open(path, device="cpu")
    for name, low, high in (("Cat", 2, 10), ("Cow", 500, 700)):
        completed, again = (next(iter(asked.complete([entity(name)], fill="all"))) for asked in (model, opened))
        assert completed.tree() == again.tree()
        assert low < completed.filled["weight",].value < high
        reasons = opened.why(entity(name), "weight")
        [predictor] = [one for one in reasons.predictors if one.name == "median of the class"]
        assert low < predictor.value < high
        assert predictor.weight > 0.5
    assert (
        f"| median of the class | for {len(model.trained.experts[NAME])} properties |"
        in (path / "README.md").read_text()
    )


def test_its_file_is_checked_like_any_other(folder, registered, tmp_path):
    path = tmp_path / "copy.kbdisk"
    shutil.copytree(folder[0], path)
    file = path / f"{NAME}.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=f"{NAME}.safetensors: expected"):
        kbdisk.open(path, device="cpu")


def test_a_folder_with_an_expert_that_is_not_registered_says_so(folder, monkeypatch):
    monkeypatch.delitem(EXPERTS, NAME, raising=False)
    with pytest.raises(CheckpointError, match=r"got class_median. Import the package"):
        kbdisk.open(folder[0], device="cpu")


def test_a_run_file_has_a_table_for_it(registered, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(f"{run_file(5)}[{NAME}]\nshare = 0.25\n")
    run = Run.of("fast").with_file(file)
    assert run.experts[NAME] == ClassMedianConfig(share=0.25)
    assert Run.from_json(run.to_json()) == run
    file.write_text(f"[{NAME}]\nhare = 0.25\n")
    with pytest.raises(ConfigError, match=f"{NAME}.hare: unknown key. Did you mean 'share'"):
        Run.of("fast").with_file(file)


def test_settings_of_an_expert_that_is_not_registered_are_refused(monkeypatch):
    monkeypatch.delitem(EXPERTS, NAME, raising=False)
    with pytest.raises(ConfigError, match="expected some of latent_knn"):
        Run().with_experts(class_median=ClassMedianConfig())
