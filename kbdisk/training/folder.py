"""A model folder: a model is written there, all of it or nothing, and opened again. What is opened believes the same
to the last bit, and nothing that a folder holds can run code: it is JSON, YAML, and numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Any

import torch

from kbdisk import tensors
from kbdisk.data import Codec
from kbdisk.errors import RESTORE, CheckpointError, SchemaError
from kbdisk.experts import serialize
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.metrics import Constants
from kbdisk.model.network import DiSK
from kbdisk.schemas.yaml import loads as loads_schema
from kbdisk.styles import Styles
from kbdisk.training import swapping
from kbdisk.training.card import markdown
from kbdisk.training.configfile import CONFIG, Told, checksum
from kbdisk.training.files import (
    CARD,
    CODEC,
    EXPERTS,
    FORMAT,
    HABITS,
    JUDGED,
    MEMBERS,
    METRICS,
    SCHEMA,
    SPLIT,
    WORDS,
    Files,
)
from kbdisk.training.place import refuse_place
from kbdisk.training.run import Run
from kbdisk.training.trained import Member, Record, Trained

MEASURED = ("quality", "history", "constants", "calibration", "unlike_level")  # of the record, in metrics.json
CONSENT = "KBDISK_SENTENCE_ENCODER"  # the name of the one that opened models may load


def save(trained: Trained, folder: str | os.PathLike[str], force: bool = False) -> None:
    """Write a model. Only a model is ever replaced, and that with `force` alone."""
    refuse_place(folder, force)
    place = FilePath(folder).resolve()  # a link stays one: what it leads to is replaced
    contents = _contents(trained, place.name, str(folder))
    try:
        with swapping.replacing(place) as part:
            for name, data in contents.items():
                swapping.put(part / name, data)
            refuse_place(place, force)  # the world may have changed meanwhile
    except OSError as error:
        problem = f"cannot be written: {(error.strerror or str(error)).lower()}."
        raise CheckpointError(str(folder), problem) from error


def open_folder(folder: str | os.PathLike[str], device: torch.device) -> Trained:
    """The model of a folder, on a device; CheckpointError where the folder is not as it was written."""
    files = Files.of(folder)
    files.check_sizes()
    with files.understood(CONFIG):
        run = Run.from_json(files.config["run"])
    codec = _codec(files)
    first, *others = _members(files, codec, run, device)
    split, metrics = files.json(SPLIT), files.json(METRICS)
    with files.understood(METRICS):
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
    experts = {name: _expert(files, codec, device, name, file) for name, file in EXPERTS.items()}
    judged = {name: _expert(files, codec, device, name, file) for name, file in JUDGED.items() if files.has(file)}
    return Trained(codec, first.network, run, record, styles, first.latent_knn, tuple(others), **experts, judged=judged)


def card(trained: Trained, name: str = "MODEL") -> str:
    """What a model is, what it was trained on and how good it is, as Markdown, for a folder of this name."""
    return markdown(_config(trained), _metrics(trained.record), name)


# ---------------------------------------------------------------- what is written


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
    if codec.words is not None:
        files[WORDS] = codec.words.to_bytes()
    for kind, file in EXPERTS.items():
        if (experts := getattr(trained, kind)) is not None:
            files[file] = serialize.to_bytes(kind, experts)
    for kind, file in JUDGED.items():
        if kind in trained.judged:
            files[file] = serialize.to_bytes(kind, trained.judged[kind])
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
            files[index_file] = serialize.to_bytes("latent_knn", member.latent_knn)
    return files


def _metrics(record: Record) -> Told:
    """What metrics.json says."""
    told: Told = _finite({name: getattr(record, name) for name in MEASURED})
    return told


def _config(trained: Trained) -> Told:
    """What config.json says, but for the other files."""
    record, classes = trained.record, trained.schema.classes
    counts = {
        "classes": len(classes),
        "properties": sum(len(one.properties) for one in classes.values()),
        "parameters": sum(one.numel() for member in trained.members for one in member.network.parameters()),
        "training": len(record.training),
        "validation": len(record.validation),
        "networks": len(trained.members),
        "latent_knn": sum(len(member.latent_knn or ()) for member in trained.members),
        **{name: len(getattr(trained, name) or ()) for name in EXPERTS},
    }
    told = {
        "kbdisk": version("kbdisk"),
        "format": FORMAT,
        "written": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "counts": counts,
        "source": _finite(record.source),
        "facts": _finite(record.facts),
        "run": trained.run.to_json(),
    }
    plain: Told = json.loads(_json(told))  # as it will be read: its checksum is of that
    return plain


def _json(data: Any) -> bytes:
    return json.dumps(data, indent=1, allow_nan=False).encode() + b"\n"


def _finite(data: Any) -> Any:
    """Plain data with null for a measure that is none: JSON has no NaN."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _listed(data: bytes) -> Told:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


# ---------------------------------------------------------------- what is read


def _codec(files: Files) -> Codec:
    try:
        schema = loads_schema(files.read(SCHEMA), files.path(SCHEMA))
    except SchemaError as error:
        raise CheckpointError(error.where, error.problem) from error
    words = None
    if files.has(WORDS):
        with files.understood(WORDS):
            words = Tokenizer.from_bytes(files.read(WORDS))
            len(words)
    told = files.json(CODEC)
    with files.understood(CODEC):
        return Codec.from_json(told, schema, words)


def _refuse_metrics(codec: Codec, metrics: Told) -> None:
    """TypeError and its like for constants that their properties cannot have, and for measures that are no numbers."""
    for slot, constant in Constants.from_json(metrics["constants"]).slots.items():
        if codec.slots[slot].kind == "number":  # of whole ones, too, the median may lie between two
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


def _refuse_calibration(calibration: Told) -> None:
    """TypeError and its like for a calibration that is none. Empty: nothing was held out."""
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
    told = files.json(HABITS)
    with files.understood(HABITS):
        return Styles.from_json(codec.schema, told)


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
    with files.understood(file):
        return serialize.read(name, files.sound(file), codec, device)


def _network(files: Files, codec: Codec, run: Run, name: str) -> DiSK:
    """The network that the run and the codec tell of, with the folder's weights, which have to fit it."""
    file = files.sound(name)
    shapes = tensors.shapes(file)
    sizes: list[Any] = [run.model, *codec.config.kinds.values()]
    with files.understood(CONFIG):
        most = max(getattr(one, name, 0) for one in sizes for name in ("layers", "blocks"))
    if shapes.get("query") != (run.model.width,) or most > len(shapes):
        problem = f"expected weights of width {run.model.width} and {most} layers, got others. {RESTORE}"
        raise CheckpointError(str(file), problem)  # before a network of any size is built
    _refuse_encoder(files, codec)
    with files.understood(CODEC), torch.random.fork_rng(devices=[]):
        network = DiSK(codec, run.model)
    tensors.put(network, file)
    return network


def _refuse_encoder(files: Files, codec: Codec) -> None:
    """A sentence encoder comes from elsewhere: a name in somebody's folder is no reason to fetch and run it."""
    name = getattr(codec.config.kinds["text"], "sentence_encoder", None)
    if name is not None and os.environ.get(CONSENT) != name:
        problem = f"reads text by the sentence encoder {str(name)!r}, which is loaded from outside this folder."
        raise CheckpointError(files.path(CODEC), f"{problem} Where you trust it, set {CONSENT} to that name.")
