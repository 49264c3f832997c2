"""A model folder: what is opened believes the same to the last bit, and whatever else a folder may be is one clear line."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import worlds
from models import phones, tiny_run
from safetensors.torch import load_file, save_file

from kbdisk.data import CodecConfig
from kbdisk.errors import CheckpointError
from kbdisk.leaves.number import NumberConfig
from kbdisk.leaves.text.codec import TextConfig
from kbdisk.model.diffusion import beliefs
from kbdisk.schemas.schema import Schema
from kbdisk.store import files as modelfiles
from kbdisk.store import folder as modelfolder
from kbdisk.store.files import FORMAT, Files, checksum, refuse_output_path
from kbdisk.store.folder import open_folder, save
from kbdisk.training.train import train

CPU = torch.device("cpu")
FILES = [
    "model.safetensors",
    "schema.yaml",
    "codec.json",
    "tokenizer.model",
    "metrics.json",
    "split.json",
    "habits.json",
    "latent_knn.safetensors",
]


@pytest.fixture
def saved(tiny_folder) -> Path:
    """The tiny model's folder; tests copy it before they do it any harm."""
    return tiny_folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "phones.kbdisk"))


def refusal(folder: Path) -> str:
    """Why a folder is refused: one line that begins with where, and ends with what to do."""
    with pytest.raises(CheckpointError) as caught:
        open_folder(folder, CPU)
    text = str(caught.value)
    assert text.startswith(str(folder))
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert len(text) < 600
    return text.removeprefix(str(folder)).removeprefix("/")


def complaint(act) -> str | None:
    """What a CheckpointError says; None where all goes well."""
    try:
        act()
    except CheckpointError as error:
        return str(error)
    return None


def forged(folder: Path, name: str, data: bytes) -> None:
    """Write a file such that config.json agrees: what somebody does who wants to harm us."""
    (folder / name).write_bytes(data)
    config = json.loads((folder / "config.json").read_bytes())
    config["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_config(folder, config)


def write_config(folder: Path, config: dict) -> None:
    (folder / "config.json").write_text(json.dumps(config | {"checksum": checksum(config)}))


def changed_config(folder: Path, **changes) -> None:
    write_config(folder, json.loads((folder / "config.json").read_bytes()) | changes)


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


# ---------------------------------------------------------------- there and back


def no_words() -> tuple[Schema, list]:
    """The world without what is text."""
    numbers = {path: one for path, one in worlds.WORLD.classes["City"].properties.items() if path in NUMBERS}
    return Schema({"City": replace(worlds.WORLD.classes["City"], properties=numbers)}), worlds.world()[3:]


NUMBERS = {("population",), ("founded",)}
DISJOINT = CodecConfig(sharing="disjoint", kinds={"number": NumberConfig(code="minmax", embedding="dice", atoms=0)})
KINDS = [
    pytest.param(
        lambda: (worlds.PHONES, worlds.phones()), tiny_run(nearest=8), id="every kind of value, lists, sets, words"
    ),
    pytest.param(lambda: (worlds.WORLD, worlds.world()), tiny_run(), id="links, sets of links, evidence"),
    pytest.param(lambda: (worlds.PHONES, worlds.phones()), replace(tiny_run(), codec=DISJOINT), id="drawn rotations"),
    pytest.param(no_words, tiny_run(), id="no words"),
]


@pytest.mark.parametrize(("world", "run"), KINDS)
def test_an_opened_model_believes_the_same_to_the_last_bit(world, run, tmp_path):
    schema, entities = world()
    trained = train(schema, entities, run, CPU, lambda progress: None)
    save(trained, tmp_path / "model")
    torch.manual_seed(1)  # what is drawn when it is built again does not count
    again = open_folder(tmp_path / "model", CPU)
    assert (again.run, again.record, again.styles) == (trained.run, trained.record, trained.styles)
    assert (again.codec.tokenizer is None) == (trained.codec.tokenizer is None)
    assert (tmp_path / "model" / "tokenizer.model").exists() == (trained.codec.tokenizer is not None)
    for ask in ("all", "nothing"):  # what is absent, and what is known, each hidden
        told, heard = (answers(one, entities, ask) for one in (trained, again))
        assert told.keys() == heard.keys() != set()
        for name, tensor in told.items():
            assert torch.equal(tensor, heard[name]), name


def answers(trained, entities, ask: str) -> dict[str, torch.Tensor]:
    """All that a model says of some entities, as tensors."""
    batch = trained.encode(entities, ask).batch(torch.arange(len(entities)))
    told = {}
    with torch.no_grad():
        believed = beliefs(trained.network, batch, asked=batch.known if ask == "nothing" else batch.asked)
        for kind, one in believed.kinds.items():
            if len(one.rows):
                codes = one.belief.sample(1.0, torch.Generator().manual_seed(2))
                told[f"{kind} drawn"], told[f"{kind} sure"] = codes, one.belief.log_prob(codes)
        told["presence"] = believed.presence["logits"]
    return told


def test_all_kinds_of_leaf_are_among_those_worlds():
    from kbdisk.data import Codec
    from kbdisk.schemas.kinds import KINDS as ALL

    slots = [*Codec.fit(worlds.PHONES, worlds.phones()).slots, *Codec.fit(worlds.WORLD, worlds.world()).slots]
    assert {type(slot.leaf) for slot in slots} >= {row.type for row in ALL.values()}


@pytest.mark.slow
def test_opening_disturbs_nobodys_random_numbers(saved):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    open_folder(saved, CPU)
    assert torch.equal(torch.rand(4), expected)


def test_what_is_opened_can_be_saved_again(saved, tmp_path):
    save(open_folder(saved, CPU), tmp_path / "again")
    first, second = contents(saved), contents(tmp_path / "again")
    assert first.keys() == second.keys()
    assert all(first[name] == second[name] for name in FILES)


def test_measures_that_are_none_become_null(tiny_model, tmp_path):
    record = replace(tiny_model.record, quality=[{"class": "", "path": "weight", "ours": float("nan"), "n": 3}])
    save(replace(tiny_model, record=record), tmp_path / "model")
    assert open_folder(tmp_path / "model", CPU).record.quality == [
        {"class": "", "path": "weight", "ours": None, "n": 3}
    ]


def test_nothing_in_a_folder_is_a_pickle(saved):
    for name, data in contents(saved).items():
        if name.endswith(".safetensors"):
            assert data[8:9] == b"{", name  # behind the length of the header, which may be any bytes
        else:
            assert not data.startswith((b"\x80", b"PK")), name
    sources = [Path(one.__file__).read_text() for one in (modelfolder, modelfiles)]
    assert not re.search("pickle|torch\\.load|eval\\(|exec\\(", "".join(sources).replace(".eval()", ""))


# ---------------------------------------------------------------- saving


def test_a_model_is_replaced_with_force_alone(tiny_model, folder):
    changed_config(folder, written="before")
    with pytest.raises(CheckpointError, match=r"a model is there already\. Say force=True to replace it"):
        save(tiny_model, folder)
    assert Files.of(folder).config["written"] == "before"
    save(tiny_model, folder, force=True)
    assert Files.of(folder).config["written"] != "before"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_model_of_another_format_is_replaced_with_force_too(tiny_model, folder):
    changed_config(folder, format=FORMAT + 1)
    save(tiny_model, folder, force=True)
    open_folder(folder, CPU)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("held", ["thesis.tex", "config.json"])
def test_a_folder_that_is_no_model_is_never_replaced(tiny_model, tmp_path, held, force):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / held).write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match=r"got other files\. Name another folder"):
        save(tiny_model, tmp_path / "mine", force=force)
    assert contents(tmp_path / "mine") == {held: b'{"model_type": "bert"}'}
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_what_stands_beside_a_model_is_not_lost_with_it(tiny_model, folder):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"'notes\.txt' beside it\. Move that elsewhere"):
        save(tiny_model, folder, force=True)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    (folder / ".DS_Store").touch()
    (folder / "calibration.json").write_text("{}")  # belongs to the old model, and goes with it
    save(tiny_model, folder, force=True)
    assert not (folder / "calibration.json").exists()


def test_an_empty_folder_and_parents_that_are_missing_are_no_obstacle(tiny_model, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "b" / "model"):
        save(tiny_model, place)
        open_folder(place, CPU)


@pytest.mark.parametrize("place", [".", ".."])
def test_a_model_is_not_put_where_one_is(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="expected a folder of its own"):
        refuse_output_path(place)


def test_a_file_is_never_replaced(tiny_model, tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(CheckpointError, match="expected a folder or nothing, got a file"):
        save(tiny_model, tmp_path / "model", force=True)
    with pytest.raises(CheckpointError, match="got a file on the way to it"):
        save(tiny_model, tmp_path / "model" / "inside")
    assert (tmp_path / "model").read_text() == "mine"


def test_a_link_to_a_folder_stays_one(tiny_model, folder, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(folder.name)
    save(tiny_model, link, force=True)
    assert link.is_symlink()
    open_folder(link, CPU)


def test_a_save_that_fails_changes_nothing(tiny_model, folder, monkeypatch):
    before, put = contents(folder), modelfolder.write_file

    def full(file: Path, data: bytes) -> None:
        if file.name == "README.md":
            raise OSError(28, "No space left on device")
        put(file, data)

    monkeypatch.setattr(modelfolder, "write_file", full)
    with pytest.raises(CheckpointError, match="cannot be written: no space left on device"):
        save(tiny_model, folder, force=True)
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


def test_a_model_whose_weights_are_no_numbers_is_not_saved(saved, tmp_path):
    trained = open_folder(saved, CPU)
    with torch.no_grad():
        trained.network.query[0] = float("nan")
    with pytest.raises(CheckpointError, match="got NaN or infinity in query"):
        save(trained, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="folders are swapped at once on Linux alone")
def test_whoever_looks_while_a_model_is_replaced_finds_one(saved, folder):
    other = Path(shutil.copytree(saved, folder.with_name("other")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not need
        swapper = os.fork()
    if not swapper:
        try:
            while True:
                modelfolder._exchange(other, folder)
        finally:
            os._exit(1)
    met, looks = set(), 0
    try:
        while len(met) < 2 or looks < 10_000:  # as long as it takes until both were met
            looks += 1
            met.add(folder.stat().st_ino)
            assert (folder / "config.json").exists()
    finally:
        os.kill(swapper, signal.SIGKILL)
        os.waitpid(swapper, 0)


SAVING = """
import sys, torch
from kbdisk.store.folder import open_folder, save
trained = open_folder(sys.argv[1], torch.device("cpu"))
print("ready", flush=True)
while True:
    save(trained, sys.argv[2], force=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(10))
def test_a_save_that_is_killed_leaves_the_old_model_or_the_new_one(saved, folder, moment):
    saver = subprocess.Popen([sys.executable, "-c", SAVING, saved, folder], stdout=subprocess.PIPE)
    assert saver.stdout.readline() == b"ready\n"
    time.sleep(random.Random(moment).random() / 10)
    saver.kill()
    saver.communicate()
    open_folder(folder, CPU)


def test_where_folders_cannot_be_swapped_at_once_one_is_moved_after_the_other(tiny_model, folder, monkeypatch):
    monkeypatch.setattr(modelfolder.sys, "platform", "other")
    changed_config(folder, written="before")
    save(tiny_model, folder, force=True)
    assert Files.of(folder).config["written"] != "before"
    assert list(folder.parent.iterdir()) == [folder]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert refusal(folder).startswith(f"{name}: expected a file, got none. Copy the whole folder again")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 0.5, -1])
def test_a_truncated_file_is_named_with_both_sizes(folder, name, left):
    data = (folder / name).read_bytes()
    cut = data[: int(left * len(data)) if left >= 0 else left]
    (folder / name).write_bytes(cut)
    assert refusal(folder).startswith(f"{name}: expected {len(data):,} bytes, got {len(cut):,}.")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.0, 0.37, 0.99])
def test_a_flipped_bit_is_noticed(folder, name, place):
    data = bytearray((folder / name).read_bytes())
    data[int(place * len(data))] ^= 4
    (folder / name).write_bytes(data)
    assert re.match(rf"{name}: expected the content with SHA-256 \w{{12}}…, got \w{{12}}…\. ", refusal(folder))


def test_config_json_is_checked_too(saved, folder):
    assert (folder / "config.json").exists()
    data = (folder / "config.json").read_bytes()
    draw = random.Random(5)
    for _ in range(60):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(7)
        (folder / "config.json").write_bytes(flipped)
        if complaint(lambda: Files.of(folder)) is None:  # it was a blank between two values
            assert json.loads(flipped) == json.loads(data)
    for left in (0, 1, len(data) // 2, len(data) - 3):
        (folder / "config.json").write_bytes(data[:left])
        assert refusal(folder).startswith("config.json: expected JSON, got other content: ")
    (folder / "config.json").unlink()
    assert (
        ": expected a model folder, got one with README.md, codec.json, habits.json and 6 more and no config.json"
        in (refusal(folder))
    )


def test_a_schema_changed_by_hand_says_that_the_model_goes_with_its_own(folder):
    text = (folder / "schema.yaml").read_text()
    (folder / "schema.yaml").write_text(text.replace("max: 5000", "max: 9000"))
    assert refusal(folder).endswith("put that back, or train again with this one.")
    (folder / "schema.yaml").write_text(text + "# a remark\n")
    assert refusal(folder).endswith("put that back, or train again with this one.")


def test_the_card_may_be_changed_or_removed_and_other_files_are_ignored(folder):
    (folder / "README.md").write_text("ours, with a picture")
    (folder / "calibration.json").write_text("{")
    (folder / ".git").mkdir()
    open_folder(folder, CPU)
    (folder / "README.md").unlink()
    open_folder(folder, CPU)


# ---------------------------------------------------------------- what is no model


def test_other_things_than_a_model_folder_are_called_what_they_are(saved, tmp_path):
    assert refusal(tmp_path / "none") == ": no such folder. Name a folder that kbdisk train wrote."
    assert refusal(saved / "config.json") == ": expected a model folder, got a file. Name the folder that it is in."
    (tmp_path / "kb.ttl").touch()
    assert refusal(tmp_path / "kb.ttl").startswith(": expected a model folder, got a file. Name a folder that")
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty").startswith(": expected a model folder, got an empty one. ")
    assert refusal(tmp_path).startswith(
        ": expected a model folder, got one with empty, kb.ttl and no config.json. Name"
    )
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert refusal(tmp_path).startswith("config.json: expected that of a kbdisk model, got another program's. ")


@pytest.mark.parametrize("name", ["config.json", *FILES])
def test_a_link_to_a_file_is_followed_and_anything_else_there_is_refused(folder, tmp_path, name):
    file = folder / name
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    open_folder(folder, CPU)
    for target in (tmp_path / "gone", file, tmp_path, Path("/dev/zero")):
        file.unlink()
        file.symlink_to(target)
        assert refusal(folder).startswith(f"{name}: ")
    file.unlink()
    os.mkfifo(file)  # nobody ever writes to it: no waiting
    assert refusal(folder).startswith(f"{name}: expected a file, got a folder, a pipe or a device. ")


# ---------------------------------------------------------------- formats


def test_another_format_is_refused_in_one_sentence(folder):
    changed_config(folder, format=FORMAT + 1, kbdisk="7.0", files="of another kind")
    assert f"expected format {FORMAT}, got {FORMAT + 1}, that of kbdisk 7.0. Upgrade: pip install" in refusal(folder)
    changed_config(folder, format=FORMAT - 1, kbdisk="0.0.1")
    assert f"expected format {FORMAT}, got {FORMAT - 1}, that of kbdisk 0.0.1. Train again, or" in refusal(folder)


# ---------------------------------------------------------------- somebody who means harm


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "..", "a/b", "C:\\windows", "a\0b", ""])
def test_a_name_that_leads_elsewhere_is_refused(folder, name):
    files = json.loads((folder / "config.json").read_bytes())["files"]
    changed_config(folder, files=files | {name: files["codec.json"]})
    assert refusal(folder).startswith("config.json: expected names of files in the folder, got ")


@pytest.mark.parametrize("told", [None, [], {}, {"bytes": -1, "sha256": "ab"}, {"bytes": 10**9, "sha256": 3}])
def test_a_listing_that_lists_nothing_is_refused(folder, told):
    changed_config(folder, files=told)
    assert refusal(folder).startswith("config.json: expected ")
    files = json.loads((folder / "config.json").read_bytes())["files"] or {}
    changed_config(folder, files={**{name: {"bytes": 1, "sha256": "0"} for name in FILES}, **files, "codec.json": told})
    assert refusal(folder).startswith("config.json: expected ")


def test_a_header_that_claims_ten_gigabytes_is_refused_at_once(folder):
    data = (folder / "model.safetensors").read_bytes()
    forged(folder, "model.safetensors", struct.pack("<Q", 10 << 30) + data[8:])
    assert refusal(folder).startswith("model.safetensors: expected weights as safetensors, got other bytes (")


def test_a_tensor_that_claims_ten_gigabytes_is_refused_at_once(folder):
    header = json.dumps({"query": {"dtype": "F32", "shape": [10 << 28], "data_offsets": [0, 10 << 30]}}).encode()
    forged(folder, "model.safetensors", struct.pack("<Q", len(header)) + header)
    assert refusal(folder).startswith("model.safetensors: expected weights as safetensors, got other bytes (")


@pytest.mark.parametrize("deep", [b"[" * 10**6, b"[" * 900 + b"]" * 900, b'{"a":' * 10**5])
def test_json_that_is_deep_is_refused_at_once(folder, deep):
    forged(folder, "split.json", deep)
    assert refusal(folder).startswith("split.json: expected ")
    (folder / "config.json").write_bytes(b'{"kbdisk": "1", "format": 2, "checksum": "", "a": ' + deep + b"}")
    assert refusal(folder).startswith("config.json: expected ")


def test_json_that_is_huge_is_refused_at_once(folder, monkeypatch):
    forged(folder, "split.json", b'{"training": [1' + b"0" * 10**5 + b'], "validation": []}')
    assert refusal(folder).startswith("split.json: expected JSON, got other content: ")
    monkeypatch.setattr(modelfiles, "LARGEST_JSON", 1000)
    assert refusal(folder).startswith("codec.json: expected at most 1,000 bytes, got more. ")
    with (folder / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # of which nothing is on the disk
    assert refusal(folder).startswith("config.json: expected at most 16,777,216 bytes, got more. ")


def tensors(folder: Path, change) -> str:
    """Why a folder is refused whose tensors were changed by somebody who made the rest agree."""
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors")
    forged(folder, "model.safetensors", (folder / "model.safetensors").read_bytes())
    return refusal(folder).removeprefix("model.safetensors: expected ")


def test_tensors_that_do_not_fit_are_named(folder):
    name = "presence.weight"
    assert tensors(folder, lambda found: found.update({name: found[name].T.contiguous()})).startswith(
        f"{name} as (1, 16), got (16, 1). "
    )
    assert tensors(folder, lambda found: found.update({name: found[name].T.contiguous().half()})).startswith(
        f"{name} as torch.float32, got torch.float16. "
    )
    assert tensors(folder, lambda found: found.update({name: torch.full((1, 16), torch.nan)})).startswith(
        f"numbers, got NaN or infinity in {name}. "
    )
    assert tensors(folder, lambda found: found.pop(name)).startswith(
        f"the weights of this model, got others (missing: {name}). "
    )
    assert tensors(
        folder, lambda found: found.update({name: torch.zeros(1, 16), "more\x1b[31m": torch.zeros(2)})
    ).startswith("the weights of this model, got others (unknown: more\N{REPLACEMENT CHARACTER}[31m). ")
    assert tensors(folder, lambda found: found.update(query=torch.zeros(32))).startswith("weights of width 16")


@pytest.mark.parametrize(
    ("at", "value"), [("width", 10**12), ("layers", 10**12), ("blocks", 10**12), ("hidden", 10**15), ("paths", "tab")]
)
def test_a_network_larger_than_its_weights_is_never_built(folder, at, value):
    run = json.loads((folder / "config.json").read_bytes())["run"]
    run["model"][at] = value
    changed_config(folder, run=run)
    refusal(folder)


def test_a_sentence_encoder_is_only_loaded_by_whoever_says_so(folder, monkeypatch):
    codec = json.loads((folder / "codec.json").read_bytes())
    codec["config"]["kinds"]["text"]["sentence_encoder"] = "../evil"
    forged(folder, "codec.json", json.dumps(codec).encode())
    asked = []
    monkeypatch.setattr("kbdisk.leaves.text.encoder.load_sentence_encoder", lambda name: asked.append(name) or 1 / 0)
    assert "reads text by the sentence encoder '../evil', which is loaded from outside this folder" in refusal(folder)
    monkeypatch.setenv("KBDISK_SENTENCE_ENCODER", "another")
    refusal(folder)
    assert not asked
    monkeypatch.setenv("KBDISK_SENTENCE_ENCODER", "../evil")
    refusal(folder)
    assert asked == ["../evil"]
    assert TextConfig().sentence_encoder is None


ODD = [None, -1, 10**30, 1e308, 0.5, "", "../../etc/passwd", [], {}, True, 2**40, "\ud800", "\x1b[31m", ...]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "codec.json", "metrics.json", "split.json"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, where a number is 1e308
def test_whatever_json_says_there_is_a_model_or_one_line(folder, name):
    draw = random.Random(name)
    plain = (folder / name).read_bytes()
    places = list(walked(json.loads(plain)))
    refused = 0
    for _ in range(20):
        told = json.loads(plain)
        put(told, draw.choice(places), draw.choice(ODD))
        if name == "config.json":
            write_config(folder, told)
        else:
            forged(folder, name, json.dumps(told).encode())
        told = complaint(lambda: open_folder(folder, CPU))
        refused += told is not None
        assert told is None or told.isprintable()
    assert refused


def walked(data, at=()):
    """All places in some JSON but its root."""
    if at:
        yield at
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from walked(value, (*at, key))


def put(data, at, value) -> None:
    """Change one place; ... removes it."""
    for key in at[:-1]:
        data = data[key]
    if value is ...:
        del data[at[-1]]
    else:
        data[at[-1]] = value


def test_the_phones_of_the_example_are_what_the_tiny_model_knows(tiny_model):
    schema, entities = phones()
    assert tiny_model.schema == schema
    assert len(tiny_model.record.training) + len(tiny_model.record.validation) == len(entities)
