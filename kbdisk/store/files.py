"""The files of a model folder: their names, bounds, checksums and shapes, checked before any of them is used.

    config.json         the format, the run, the source, and the size and SHA-256 of every other file
    model.safetensors   the weights
    schema.yaml         the classes, their properties, and the kinds of their values
    codec.json          the codecs of the slots, fitted to the training entities
    tokenizer.model     the tokenizer of their text, where there is any
    habits.json         the styles in which their values are written, where they are known
    latent_knn.safetensors  the index of the latent nearest neighbours, where they have a weight
    model-2.safetensors, latent_knn-2.safetensors, ...  the same of other networks, where there are several
    knn.safetensors, gaussian_process.safetensors, label_regression.safetensors, boosted_trees.safetensors,
    given_only.safetensors, propagation.safetensors, close_propagation.safetensors, value_factorization.safetensors,
    presence_trees.safetensors, link_factorization.safetensors,
    and those of experts that other packages add
                        the other experts, where they have a weight
    label_regression-judged.safetensors, boosted_trees-judged.safetensors, value_factorization-judged.safetensors
                        experts that are refitted with held-out entities, as they were before the refit
    metrics.json        the quality of each property, validation losses, the calibration of confidence, and the level at which
                        entities are unlike the training data
    split.json          the ids of the entities that were trained on, and of those held out
    README.md           the model card, for people: never read, so anybody may change it

`kbdisk`, `format` and `checksum` of config.json mean the same in every format: the version that wrote the folder, the
format, and the digest of config.json itself. Checksums guard against accidents, not against forgery: the content that is
read may have any shape.

Only these names are ever opened, whatever a folder's JSON says; other files are ignored. Nothing here loads torch.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from kbdisk.errors import RESTORE, CheckpointError, ConfigError, SchemaError, setting
from kbdisk.experts import EXPERTS
from kbdisk.printable import plain_line

JsonObject: TypeAlias = dict[str, Any]

CONFIG = "config.json"
LARGEST_CONFIG = 1 << 24  # bytes
VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)
WANTED = "Name a folder that kbdisk train wrote."
FORMAT = 25
MEMBERS = tuple(  # each network's weights, and the index of its latent nearest neighbours
    (f"model{number}.safetensors", f"latent_knn{number}.safetensors")
    for number in ("", "-2", "-3", "-4", "-5", "-6", "-7", "-8")
)
WEIGHTS = MEMBERS[0][0]
SCHEMA, CODEC, WORDS, HABITS = "schema.yaml", "codec.json", "tokenizer.model", "habits.json"
METRICS, SPLIT, CARD = "metrics.json", "split.json", "README.md"
NEEDED = (WEIGHTS, SCHEMA, CODEC, METRICS, SPLIT)
LATER = ("calibration.json",)  # written into a model folder after training; replaced together with the model
LARGEST_JSON = 1 << 30  # bytes
OTHER_SCHEMA = "A model works with the schema that it was trained with: put that back, or train again with this one."
SHAPES: Mapping[str, Mapping[str, type]] = {  # required keys of each JSON file, with the type of their values
    CONFIG: {"written": str, "counts": dict, "source": dict, "facts": dict, "run": dict},
    CODEC: {"slots": list, "codecs": list, "config": dict, "left_out": list},
    METRICS: {"quality": list, "history": list, "constants": dict},
    SPLIT: {"training": list, "validation": list},
    HABITS: {"classes": dict, "usual": dict},
}
ITEMS: Mapping[tuple[str, str], type] = {  # the type of their items
    (METRICS, "quality"): dict,
    (METRICS, "history"): dict,
    (SPLIT, "training"): str,
    (SPLIT, "validation"): str,
}
NAMES = {dict: "an object", list: "a list", str: "text", type(None): "none"}

# Exceptions that malformed plain data may cause.
MALFORMED = (
    ArithmeticError,
    AttributeError,
    ConfigError,
    LookupError,
    MemoryError,
    RuntimeError,
    SchemaError,
    TypeError,
    ValueError,
)
DESKTOP = (".DS_Store", "Thumbs.db", "desktop.ini")  # files that file managers create


def expert_files() -> dict[str, str]:
    """The file of each expert, by its name; those of the network stage are among MEMBERS."""
    return {name: f"{name}.safetensors" for name, kind in EXPERTS.items() if kind.stage != "network"}


def files_before_refit() -> dict[str, str]:
    """The files of experts before their last fit, by name: held-out entities are evaluated with these."""
    return {name: f"{name}-judged.safetensors" for name, kind in EXPERTS.items() if kind.keep_before_refit}


def optional_files() -> list[str]:
    """The files that are needed where config.json lists them."""
    of_networks = (name for names in MEMBERS for name in names)
    optional = [WORDS, HABITS, *of_networks, *expert_files().values(), *files_before_refit().values()]
    return [name for name in optional if name not in NEEDED]


@dataclass
class Files:
    """One model folder: the content of its config.json, and the other files that it lists."""

    folder: FilePath
    config: JsonObject

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> Files:
        """The files of a folder; CheckpointError where it is not a kbdisk model, or has another format."""
        place = FilePath(folder)
        refuse_no_model(place)
        files = cls(place, read_config(place))
        files._refuse_other_format()
        files._refuse_listing()
        files._refuse_shape(CONFIG, files.config)
        return files

    def path(self, name: str) -> str:
        """The path of a file, as errors name it."""
        return str(self.folder / name)

    def has(self, name: str) -> bool:
        """Whether the folder was written with this file."""
        return name in self.config["files"]

    def read(self, name: str) -> bytes:
        """The bytes of a file, after its checksum was verified."""
        with self._opened(name) as stream:
            data = stream.read()
        self._refuse_change(name, hashlib.sha256(data).hexdigest())
        return data

    def verified(self, name: str) -> FilePath:
        """The path of a file, after its checksum was verified; for large files, which are read piece by piece."""
        with self._opened(name) as stream:
            self._refuse_change(name, hashlib.file_digest(stream, "sha256").hexdigest())
        return self.folder / name

    def json(self, name: str) -> JsonObject:
        """The content of a JSON file, with the keys that every such file has."""
        if self.config["files"][name]["bytes"] > LARGEST_JSON:
            raise CheckpointError(self.path(name), f"expected at most {LARGEST_JSON:,} bytes, got more. {RESTORE}")
        content: JsonObject = parse_json(self.read(name), self.path(name))
        self._refuse_shape(name, content)
        return content

    def check_sizes(self) -> None:
        """CheckpointError where a file is missing or has another size. Reads nothing, and still finds most damage."""
        for name in (*NEEDED, *filter(self.has, optional_files())):
            self._opened(name).close()

    @contextmanager
    def refusing_malformed(self, name: str) -> Iterator[None]:
        """CheckpointError instead of a traceback where the content of a file is malformed."""
        try:
            yield
        except MALFORMED as error:
            fact = plain_line(f"{type(error).__name__}: {error}")[:200]
            problem = (
                f"expected content that kbdisk {self.config['kbdisk']} wrote, got malformed content ({fact}). {RESTORE}"
            )
            raise CheckpointError(self.path(name), problem) from error

    # ------------------------------------------------------------ checks

    def _opened(self, name: str) -> io.BufferedReader:
        stream = open_file(self.folder / name)
        wanted, size = self.config["files"][name]["bytes"], os.fstat(stream.fileno()).st_size
        if size != wanted:
            stream.close()
            advice = OTHER_SCHEMA if name == SCHEMA else RESTORE
            raise CheckpointError(self.path(name), f"expected {wanted:,} bytes, got {size:,}. {advice}")
        return stream

    def _refuse_change(self, name: str, digest: str) -> None:
        wanted = self.config["files"][name]["sha256"]
        if digest != wanted:
            advice = OTHER_SCHEMA if name == SCHEMA else RESTORE
            problem = f"expected the content with SHA-256 {wanted[:12]}…, got {digest[:12]}…. {advice}"
            raise CheckpointError(self.path(name), problem)

    def _refuse_listing(self) -> None:
        """Every needed file is listed with its size and digest, and no name leads out of the folder."""
        listed = self.config.get("files")
        if not isinstance(listed, dict):
            raise self._wrong("a list of the folder's files", "none")
        for name, entry in listed.items():
            if not _is_plain(name):
                raise self._wrong("names of files in the folder", repr(name)[:80])
            size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
            if type(size) is not int or size < 0 or not isinstance(digest, str) or not digest.isalnum():
                raise self._wrong(f"the size and SHA-256 of {plain_line(name)}", "others")
        for name in NEEDED:
            if name not in listed:
                raise self._wrong(f"{name} in the list of files", "none")

    def _refuse_other_format(self) -> None:
        number = self.config["format"]
        if number != FORMAT:
            advice = "Upgrade: pip install -U kbdisk." if number > FORMAT else "Train again, or use that version."
            problem = f"expected format {FORMAT}, got {number}, that of kbdisk {self.config['kbdisk']}."
            raise CheckpointError(self.path(CONFIG), f"{problem} {advice}")

    def _refuse_shape(self, name: str, content: Any) -> None:
        for key, kind in SHAPES[name].items():
            value: Any = content.get(key) if isinstance(content, dict) else None
            if not isinstance(value, kind):
                raise self._wrong(f"{NAMES[kind]} as {key}", NAMES.get(type(value), "another value"), name)
            item = ITEMS.get((name, key))
            if item is not None and not all(isinstance(part, item) for part in content[key]):
                raise self._wrong(f"{NAMES[item]} for each of {key}", "others", name)

    def _wrong(self, expected: str, got: str, name: str = CONFIG) -> CheckpointError:
        return CheckpointError(self.path(name), f"expected {expected}, got {got}. {RESTORE}")


def _is_plain(name: str) -> bool:
    """Whether a name names a file directly in the folder, on any system."""
    return name not in ("", ".", "..") and not any(mark in name for mark in "/\\:\0")


# ---------------------------------------------------------------- config.json


def is_model(folder: FilePath) -> bool:
    """Whether a folder is a model, of any format. Checks config.json alone."""
    try:
        read_config(folder)
    except CheckpointError:
        return False
    return True


def read_config(folder: FilePath) -> JsonObject:
    """The content of config.json. Checks the parts that every format has."""
    path = folder / CONFIG
    with open_file(path) as stream:
        data = stream.read(LARGEST_CONFIG + 1)
    if len(data) > LARGEST_CONFIG:
        raise CheckpointError(str(path), f"expected at most {LARGEST_CONFIG:,} bytes, got more. {RESTORE}")
    config = parse_json(data, str(path))
    if not isinstance(config, dict) or not {"kbdisk", "format", "checksum"} <= config.keys():
        raise CheckpointError(str(path), f"expected that of a kbdisk model, got another program's. {WANTED}")
    try:
        digest = checksum(config)
    except RecursionError:  # the JSON parser accepts deeper nesting than the writer
        raise CheckpointError(str(path), f"expected JSON, got nesting that is too deep. {RESTORE}") from None
    if config["checksum"] != digest:
        raise CheckpointError(str(path), f"expected the content that was written, got changed content. {RESTORE}")
    if (
        not isinstance(config["kbdisk"], str)
        or not VERSION.fullmatch(config["kbdisk"])
        or type(config["format"]) is not int
    ):
        raise CheckpointError(str(path), f"expected a version and the number of a format, got others. {RESTORE}")
    return config


def checksum(config: JsonObject) -> str:
    """The SHA-256 of the content of config.json without its checksum."""
    content = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def refuse_no_model(place: FilePath) -> None:
    """CheckpointError where a path is not a model folder, with the reason."""
    try:
        names = sorted(file.name for file in place.iterdir())
    except FileNotFoundError:
        raise CheckpointError(str(place), f"no such folder. {WANTED}") from None
    except NotADirectoryError:
        hint = "Name the folder that it is in." if is_model(place.parent) else WANTED
        raise CheckpointError(str(place), f"expected a model folder, got a file. {hint}") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(plain_line(str(place)), f"cannot be read: {fact.lower()}.") from None
    if not names:
        raise CheckpointError(str(place), f"expected a model folder, got an empty one. {WANTED}")
    if CONFIG not in names:
        some = plain_line(", ".join(names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        advice = RESTORE if "model.safetensors" in names else WANTED
        raise CheckpointError(str(place), f"expected a model folder, got one with {some} and no {CONFIG}. {advice}")


def open_file(path: FilePath) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading. Never blocks on a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise CheckpointError(str(path), f"expected a file, got none. {RESTORE}") from None
    except OSError as error:
        raise CheckpointError(str(path), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointError(str(path), f"expected a file, got a folder, a pipe or a device. {RESTORE}")
    return os.fdopen(descriptor, "rb")


def parse_json(data: bytes, name: str) -> Any:
    """JSON, strictly: no NaN, and no deeper than Python goes."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise CheckpointError(name, f"expected JSON, got nesting that is too deep. {RESTORE}") from None
    except ValueError as error:  # UTF-8, JSON, numbers of thousands of digits
        fact = plain_line(str(error)).rstrip(".")
        raise CheckpointError(name, f"expected JSON, got other content: {fact}. {RESTORE}") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


# ---------------------------------------------------------------- the output path


def refuse_output_path(folder: str | os.PathLike[str], force: bool = False) -> None:
    """CheckpointError where a model could not be saved. Called before training, too."""
    place, named = FilePath(folder), str(folder)
    if place.name in ("", ".."):
        raise CheckpointError(named, "expected a folder of its own, got one that you are in. Name another folder.")
    try:
        names = {file.name for file in place.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        got = "a file" if place.exists() else "a file on the way to it"
        raise CheckpointError(named, f"expected a folder or nothing, got {got}. Name another folder.") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(named, f"cannot be written: {fact.lower()}.") from None
    if not names:
        return
    if not is_model(place):
        raise CheckpointError(
            named, "expected a model, nothing, or an empty folder, got other files. Name another folder."
        )
    if not force:
        raise CheckpointError(named, f"a model is there already. Say {setting('force')} to replace it.")
    foreign = sorted(names - {CONFIG, CARD, *NEEDED, *optional_files(), *LATER, *DESKTOP})
    if foreign:
        problem = f"expected a model alone, got {foreign[0]!r} beside it. Move that elsewhere: it would be lost."
        raise CheckpointError(named, problem)


def refuse_kept_folder(folder: str | os.PathLike[str]) -> None:
    """CheckpointError where a newly trained model could not replace an earlier one in a folder."""
    refuse_output_path(folder, force=True)
    parent = FilePath(folder).resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        problem = "permission denied" if parent.is_dir() else "no such directory"
        raise CheckpointError(str(folder), f"cannot be written: {problem}.")
