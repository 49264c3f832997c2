"""The model folder: saved atomically, and opened so that predictions equal those before saving to the last bit.

A folder holds JSON, YAML and tensors; nothing in it can run code.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk import tensors
from kbdisk.atomic import part_of, remove_dead_parts, sync_folder, umask
from kbdisk.data import Codec
from kbdisk.errors import RESTORE, CheckpointError, SchemaError
from kbdisk.experts import EXPERTS, serialize
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.locks import is_locked
from kbdisk.metrics import Constants
from kbdisk.model.network import DiSK
from kbdisk.printable import plain_line
from kbdisk.schemas.yaml import loads as loads_schema
from kbdisk.store.card import markdown
from kbdisk.store.files import (
    CARD,
    CODEC,
    CONFIG,
    FORMAT,
    HABITS,
    MEMBERS,
    METRICS,
    SCHEMA,
    SPLIT,
    WORDS,
    Files,
    JsonObject,
    checksum,
    expert_files,
    files_before_refit,
    refuse_output_path,
)
from kbdisk.styles.styles import Styles
from kbdisk.training.run import Run, unknown_tables
from kbdisk.training.trained import Member, Record, Trained

MEASURED = ("quality", "history", "constants", "calibration", "unlike_level")  # of the record, in metrics.json
CONSENT = "KBDISK_SENTENCE_ENCODER"  # environment variable: the sentence encoder that opened models may load
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def save(trained: Trained, folder: str | os.PathLike[str], force: bool = False) -> None:
    """Write a model. Only a model is ever replaced, and only with `force`."""
    refuse_output_path(folder, force)
    place = FilePath(folder).resolve()  # a link stays a link: its target is replaced
    contents = _contents(trained, place.name, str(folder))
    try:
        with atomic_replace(place) as part:
            for name, data in contents.items():
                write_file(part / name, data)
            refuse_output_path(place, force)  # another process may have written there meanwhile
    except OSError as error:
        problem = f"cannot be written: {(error.strerror or str(error)).lower()}."
        raise CheckpointError(str(folder), problem) from error


def open_folder(folder: str | os.PathLike[str], device: torch.device) -> Trained:
    """The model of a folder, on a device; CheckpointError where the folder was changed or is malformed."""
    files = Files.of(folder)
    files.check_sizes()
    if unknown := unknown_tables(files.config["run"]):
        problem = f"expected experts of {', '.join(EXPERTS)}, got {plain_line(', '.join(unknown))}."
        raise CheckpointError(
            files.path(CONFIG), f"{problem} Import the package that adds it to kbdisk.experts.EXPERTS first."
        )
    with files.refusing_malformed(CONFIG):
        run = Run.from_json(files.config["run"])
    codec = _codec(files)
    first, *others = _members(files, codec, run, device)
    split, metrics = files.json(SPLIT), files.json(METRICS)
    with files.refusing_malformed(METRICS):
        _refuse_metrics(codec, metrics)
        _refuse_calibration(metrics["calibration"])
        if not isinstance(metrics["unlike_level"], int | float | None):
            raise TypeError("unlike_level is no number")
    record = Record(
        source=files.config["source"],
        validation=split["validation"],
        training=split["training"],
        history=metrics["history"],
        quality=metrics["quality"],
        constants=metrics["constants"],
        calibration=metrics["calibration"],
        unlike_level=metrics["unlike_level"],
        facts=files.config["facts"],
    )
    styles = _styles(files, codec)
    experts, experts_before_refit = (
        {name: _expert(files, codec, device, name, file) for name, file in names.items() if files.has(file)}
        for names in (expert_files(), files_before_refit())
    )
    return Trained(
        codec, first.network, run, record, styles, first.latent_knn, tuple(others), experts, experts_before_refit
    )


def card(trained: Trained, name: str = "MODEL") -> str:
    """The model card in Markdown, for a folder of this name."""
    return markdown(_config(trained), _metrics(trained.record), name)


# ---------------------------------------------------------------- writing


def _contents(trained: Trained, name: str, where: str) -> dict[str, bytes]:
    """All files of a model by their names, for a folder of this name."""
    codec, record = trained.codec, trained.record
    metrics = _metrics(record)
    files = {
        **_networks(trained, where),
        SCHEMA: trained.schema.to_yaml().encode(),
        CODEC: _json(codec.to_json()),
        METRICS: _json(metrics),
        SPLIT: _json({"training": record.training, "validation": record.validation}),
    }
    if codec.tokenizer is not None:
        files[WORDS] = codec.tokenizer.to_bytes()
    for names, experts in ((expert_files(), trained.experts), (files_before_refit(), trained.experts_before_refit)):
        for kind, file in names.items():
            if kind in experts:
                files[file] = serialize.to_bytes(EXPERTS[kind].load_format(), experts[kind])
    if trained.styles is not None:
        files[HABITS] = _json(trained.styles.to_json())
    config = _config(trained) | {"files": {file: _listed(data) for file, data in files.items()}}
    config["checksum"] = checksum(config)
    return {**files, CONFIG: _json(config), CARD: markdown(config, metrics, name).encode()}


def _networks(trained: Trained, where: str) -> dict[str, bytes]:
    """The weights of all networks and the indices of their latent nearest neighbours, by the names of their files."""
    files = {}
    for (network_file, index_file), member in zip(MEMBERS, trained.members, strict=False):
        files[network_file] = tensors.to_bytes(member.network, where)
        if member.latent_knn is not None:
            files[index_file] = serialize.to_bytes(serialize.LATENT_KNN, member.latent_knn)
    return files


def _metrics(record: Record) -> JsonObject:
    """The content of metrics.json."""
    metrics: JsonObject = _finite({name: getattr(record, name) for name in MEASURED})
    return metrics


def _config(trained: Trained) -> JsonObject:
    """The content of config.json, without the list of other files."""
    record, classes = trained.record, trained.schema.classes
    counts = {
        "classes": len(classes),
        "properties": sum(len(cls.properties) for cls in classes.values()),
        "parameters": sum(parameter.numel() for member in trained.members for parameter in member.network.parameters()),
        "training": len(record.training),
        "validation": len(record.validation),
        "networks": len(trained.members),
        "latent_knn": sum(len(member.latent_knn or ()) for member in trained.members),
        **{name: len(trained.experts.get(name, ())) for name in expert_files()},
    }
    content = {
        "kbdisk": version("kbdisk"),
        "format": FORMAT,
        "written": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "counts": counts,
        "source": _finite(record.source),
        "facts": _finite(record.facts),
        "run": trained.run.to_json(),
    }
    plain: JsonObject = json.loads(_json(content))  # the checksum is of the content as it will be read
    return plain


def _json(data: Any) -> bytes:
    return json.dumps(data, indent=1, allow_nan=False).encode() + b"\n"


def _finite(data: Any) -> Any:
    """Plain data with null for NaN and infinities, which JSON does not have."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _listed(data: bytes) -> JsonObject:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


# ---------------------------------------------------------------- reading


def _codec(files: Files) -> Codec:
    try:
        schema = loads_schema(files.read(SCHEMA), files.path(SCHEMA))
    except SchemaError as error:
        raise CheckpointError(error.where, error.problem) from error
    words = None
    if files.has(WORDS):
        with files.refusing_malformed(WORDS):
            words = Tokenizer.from_bytes(files.read(WORDS))
            len(words)
    content = files.json(CODEC)
    with files.refusing_malformed(CODEC):
        return Codec.from_json(content, schema, words)


def _refuse_metrics(codec: Codec, metrics: JsonObject) -> None:
    """An error of `MALFORMED` for constants that their properties cannot have, and for measures that are no numbers."""
    for slot, constant in Constants.from_json(metrics["constants"]).slots.items():
        if codec.slots[slot].kind == "number":  # the median of integers may lie between two of them
            float(constant.value)
        else:
            codec.slots[slot].codec.encode([constant.value])
    for row in metrics["quality"]:
        measures = [row.get(name) for name in ("n", "known", "ours", "constant", "better", "trust")]
        texts = [row["class"], row["path"]]
        if not all(isinstance(text, str) for text in texts) or not all(
            isinstance(measure, int | float | None) for measure in measures
        ):
            raise TypeError("a row of quality has a value of another type")


def _refuse_calibration(calibration: JsonObject) -> None:
    """An error of `MALFORMED` for a malformed calibration. It is empty where nothing was held out."""
    if not calibration:
        return
    presence, levels = calibration["presence"], calibration["levels"]
    lines = [presence["line"], calibration["correctness"]]
    rows = [*presence["usual"], *(row for line in lines for row in line["offsets"])]  # a class, a path and a number
    by_class = [*presence["usual_by_class"], *(row for line in lines for row in line["by_class"])]
    outcomes = [outcome for row in calibration["statements"] for outcome in row["outcomes"]]
    numbers = [number for line in lines for number in (line["slope"], line["intercept"])]
    numbers += [number for _, _, number in rows] + [number for _, _, _, number in by_class]
    numbers += [number for low, high in [levels["bounds"]] for number in (low, high)]
    levels_of = [*levels["by_property"], *levels["in_lists"]]
    for first, second, third in [levels["of_all"], *(row[2:] for row in levels_of)]:
        numbers += [first, second, third]
    numbers += [
        number
        for confidence, unknown, right, constant, weight in outcomes
        for number in (confidence, unknown, right, constant, weight)
    ]
    names = [name for of, path, _ in rows for name in (of, path)]
    names += [name for class_name, of, path, _ in by_class for name in (class_name, of, path)]
    names += [name for row in levels_of for name in row[:2]]
    names += [row[key] for row in calibration["statements"] for key in ("class", "path")]
    if not all(isinstance(name, str) for name in names) or not all(type(number) in (int, float) for number in numbers):
        raise TypeError("the calibration has a value of another type")


def _styles(files: Files, codec: Codec) -> Styles | None:
    if not files.has(HABITS):
        return None
    content = files.json(HABITS)
    with files.refusing_malformed(HABITS):
        return Styles.from_json(codec.schema, content)


def _members(files: Files, codec: Codec, run: Run, device: torch.device) -> Iterator[Member]:
    """The networks, each with its latent nearest neighbours."""
    for network_file, index_file in MEMBERS:
        if files.has(network_file):
            network = _network(files, codec, run, network_file).to(device)
            yield Member(network, _expert(files, codec, device, "latent_knn", index_file))


def _expert(files: Files, codec: Codec, device: torch.device, name: str, file: str) -> Any:
    """The experts of a kind; None where the model has none."""
    if not files.has(file):
        return None
    with files.refusing_malformed(file):
        return serialize.read(EXPERTS[name].load_format(), files.verified(file), codec, device)


def _network(files: Files, codec: Codec, run: Run, name: str) -> DiSK:
    """The network of a run and a codec, with the weights of the folder; CheckpointError where they do not fit it."""
    file = files.verified(name)
    shapes = tensors.shapes(file)
    sizes: list[Any] = [run.model, *codec.config.kinds.values()]
    with files.refusing_malformed(CONFIG):
        layers = max(getattr(size, name, 0) for size in sizes for name in ("layers", "blocks"))
    if shapes.get("query") != (run.model.width,) or layers > len(shapes):
        problem = f"expected weights of width {run.model.width} and {layers} layers, got others. {RESTORE}"
        raise CheckpointError(str(file), problem)  # before a network of any size is built
    _refuse_encoder(files, codec)
    with files.refusing_malformed(CODEC), torch.random.fork_rng(devices=[]):
        network = DiSK(codec, run.model)
    tensors.put(network, file)
    return network


def _refuse_encoder(files: Files, codec: Codec) -> None:
    """CheckpointError where a folder names a sentence encoder, which would be fetched and run, without the user's consent."""
    name = getattr(codec.config.kinds["text"], "sentence_encoder", None)
    if name is not None and os.environ.get(CONSENT) != name:
        problem = f"reads text by the sentence encoder {str(name)!r}, which is loaded from outside this folder."
        raise CheckpointError(files.path(CODEC), f"{problem} If you trust it, set {CONSENT} to that name.")


# ---------------------------------------------------------------- atomic replacement


@contextlib.contextmanager
def atomic_replace(place: FilePath) -> Iterator[FilePath]:
    """A new empty folder that replaces `place` at once when the block ends; after an error `place` is unchanged."""
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_parts(place)
    part = part_of(place)
    try:
        part.mkdir(0o700)
        with _locked(part):
            yield part
            part.chmod(0o777 & ~umask())
            sync_folder(part)
            if place.exists() and any(place.iterdir()):
                _exchange(part, place)
            else:
                os.replace(part, place)  # noqa: PTH105 - one call, which a test makes fail
            sync_folder(place.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _locked(part: FilePath) -> Iterator[None]:
    """Locks a folder that this process fills, so that no other process removes it as a dead part."""
    if os.name != "posix":
        yield
        return
    descriptor = os.open(part, os.O_RDONLY)
    try:
        is_locked(descriptor)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def write_file(file: FilePath, data: bytes) -> None:
    """Write a new file, to the disk and not only to its cache."""
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _exchange(part: FilePath, place: FilePath) -> None:
    """Swap two folders: atomically where the system can, else with a moment in which neither has the name."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "renameat2"):
            names = os.fsencode(part), os.fsencode(place)
            if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
                return  # some file systems cannot
    old = part.with_suffix(".old")
    place.rename(old)
    try:
        part.rename(place)
    except OSError:
        old.rename(place)
        raise
    old.rename(part)
