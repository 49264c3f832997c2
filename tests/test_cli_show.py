"""`kbdisk show`: a model's card at a glance, at any width, without loading the model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kbdisk.cli.show import show_quality
from kbdisk.store.card import quality
from kbdisk.store.files import FORMAT
from kbdisk.store.folder import save

QUALITY = [
    {"class": "", "path": "weight", "kind": "quantity", "known": 51, "n": 6, "metric": "MAE"}
    | {"constant": 31.2, "ours": 25.2, "better": 0.1923},
    {"class": "", "path": "display.pixels.height.and.some.more", "kind": "number", "known": 44, "n": 5, "metric": "MAE"}
    | {"constant": 512.0, "ours": 600.5, "better": -0.173},
    {"class": "", "path": "os", "kind": "category", "known": 31, "n": 0, "metric": "error rate"}
    | {"constant": None, "ours": None, "better": None},
]


@pytest.fixture(scope="module")
def saved(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("show") / "phones.kbdisk"
    save(replace(tiny_model, record=replace(tiny_model.record, quality=QUALITY)), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(saved, tmp_path / "phones.kbdisk"))


def test_it_tells_what_the_model_is_and_how_good(folder, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = run("show", "phones.kbdisk")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "phones.kbdisk  a model of kbdisk 0.1.0"
    assert "source      examples/phones.jsonl" in lines
    assert "entities    57 trained on, 6 held out" in lines
    assert ["preset", "fast"] in [line.split() for line in lines]
    assert ["steps", "5"] in [line.split() for line in lines]
    (weight,) = (line for line in lines if line.startswith("weight"))
    assert weight.split() == ["weight", "quantity", "51", "6", "MAE", "31.2", "25.2", "19", "%"]


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 120, 300])
def test_it_fits_a_terminal_of_any_width(folder, run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run("show", "phones.kbdisk")
    lines = out.splitlines()
    assert status == 0
    assert max(map(len, lines[1:])) <= columns
    assert all(any(figure in line for line in lines) for figure in ("25.2", "31.2", "19 %", "-17 %"))
    assert ("quantity" in out) == (columns >= 120)


@pytest.mark.parametrize(
    ("columns", "gone"), [(100, set()), (80, {"kind", "trained", "on"}), (60, {"kind", "trained", "on", "n", "metric"})]
)
def test_a_path_is_never_cut_while_a_column_can_go(columns, gone):
    path = "display.pixels.horizontal.width"
    rows = quality({"quality": [QUALITY[0] | {"path": path, "metric": "error rate", "known": 12345, "n": 1234}]})
    console = Console(width=columns)
    with console.capture() as captured:
        show_quality(console, rows)
    head, line = captured.get().splitlines()
    heads = ["property", "kind", "trained", "on", "n", "metric", "constant", "ours", "better"]
    assert head.split() == [name for name in heads if name not in gone]
    assert line.startswith(f"{path} ")


def test_json_is_the_whole_record(folder, run, tiny_model):
    status, out, err = run("show", "phones.kbdisk", "--json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert told["quality"] == QUALITY
    assert told["split"]["validation"] == tiny_model.record.validation
    assert told["history"] == tiny_model.record.history
    assert told["source"] == tiny_model.record.source
    assert told["facts"] == tiny_model.record.facts
    assert told["run"]["train"]["steps"] == 5
    assert (told["kbdisk"], told["format"]) == ("0.1.0", FORMAT)
    assert not {"files", "checksum"} & told.keys()


def test_a_model_of_which_nothing_was_measured_says_so(tiny_model, tmp_path, run):
    save(tiny_model, tmp_path / "bare")
    _, out, _ = run("show", tmp_path / "bare")
    assert out.endswith("Nothing was held out, or none of it was measured.\n")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: shutil.rmtree(folder), "phones.kbdisk: no such folder. Name a folder that kbdisk train wrote."),
        (lambda folder: (folder / "model.safetensors").unlink(), "phones.kbdisk/model.safetensors: expected a file"),
        (lambda folder: (folder / "codec.json").write_text("{}"), "phones.kbdisk/codec.json: expected "),
        (lambda folder: (folder / "config.json").write_text("{}"), "phones.kbdisk/config.json: expected that of a"),
        (lambda folder: flip(folder / "metrics.json"), "phones.kbdisk/metrics.json: expected the content with SHA-256"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_folder_that_is_not_sound_is_one_line_and_status_2(folder, run, damage, complaint, options):
    damage(folder)
    status, out, err = run("show", "phones.kbdisk", *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {complaint}")
    assert err.count("\n") == 1


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_it_never_loads_torch(folder):
    script = (
        "import sys; from kbdisk.cli import main\n"
        "try: main(['show', 'phones.kbdisk', *sys.argv[1:]])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'safetensors', 'pandas', 'yaml'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    for options in ([], ["--json"]):
        subprocess.run([sys.executable, "-c", script, *options], check=True, capture_output=True, cwd=folder.parent)
