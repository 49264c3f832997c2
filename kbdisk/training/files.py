"""The files of a model folder, read as plain data: within bounds, and only as they were written.

    config.json         what the folder is: its format, the run, the source, and every other file's size and SHA-256
    model.safetensors   the weights
    schema.yaml         what kind of value stands where
    codec.json          what was fitted to the training entities
    tokenizer.model     the tokenizer of their text, where there is any
    habits.json         how their values are written, where that is known
    memory.safetensors  what is remembered of their values, where that is worth it
    model-2.safetensors, memory-2.safetensors, ...  the same of other networks, where there are several
    smooth.safetensors    functions of what is visible that tell properties, where it is worth it
    likeness.safetensors  who is alike, and what that counts, where it is worth it
    forest.safetensors  the trees that have a say beside them, likewise
    opinions.safetensors  what it counts that all of these say by what is given alone, likewise
    metrics.json        the quality of each property, and the looks at the held-out part
    split.json          the ids of the entities that were trained on, and of those held out
    README.md           the card, for people: never read, so anybody may change it

Only these names are ever opened, whatever a folder's JSON says; other files are ignored. Nothing here loads torch.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from kbdisk.errors import CheckpointError, ConfigError, SchemaError
from kbdisk.training.configfile import CONFIG, RESTORE, Told, opened, parsed, printable, read_config, refuse_no_folder

FORMAT = 8
MEMBERS = tuple(  # each network's weights, and what it remembers
    (f"model{number}.safetensors", f"memory{number}.safetensors")
    for number in ("", "-2", "-3", "-4", "-5", "-6", "-7", "-8")
)
WEIGHTS, MEMORY = MEMBERS[0]
SCHEMA, CODEC, WORDS, HABITS = "schema.yaml", "codec.json", "tokenizer.model", "habits.json"
SMOOTH, LIKENESS, FOREST, OPINIONS = (
    "smooth.safetensors",
    "likeness.safetensors",
    "forest.safetensors",
    "opinions.safetensors",
)
METRICS, SPLIT, CARD = "metrics.json", "split.json", "README.md"
# Up to format 5 these counted in another way how much is visible, and only training can tell what is usual in this one.
EXPERTS, COUNTED = frozenset({LIKENESS, FOREST, OPINIONS, *(memory for _, memory in MEMBERS)}), 6
# Up to format 7 rows of tables without ids counted from 0: what was held out of them is another row today.
NUMBERED = 8
NEEDED = (WEIGHTS, SCHEMA, CODEC, METRICS, SPLIT)
OPTIONAL = (
    WORDS,
    HABITS,
    SMOOTH,
    LIKENESS,
    FOREST,
    OPINIONS,
    MEMORY,
    *(name for one in MEMBERS[1:] for name in one),
)  # needed where config.json has them
LATER = ("calibration.json",)  # written into a model after it was trained; belongs to it, and goes with it


def _without_opinions(told: dict[str, Told]) -> dict[str, Told]:
    """Format 3 knew nothing of second opinions; what else a run does not say of what came later is as it was then."""
    told[CONFIG]["run"].setdefault("given", {})
    return told


def _without_usual(told: dict[str, Told]) -> dict[str, Told]:
    """In format 4 presence was learnt from nothing, not from how often a property is recorded."""
    told[CONFIG]["run"]["model"]["usual"] = False
    return told


def _without_experts(told: dict[str, Told]) -> dict[str, Told]:
    """Of models that have none of `EXPERTS` format 5 is format 6."""
    return told


def _without_functions(told: dict[str, Told]) -> dict[str, Told]:
    """Format 6 knew nothing of smooth functions."""
    told[CONFIG]["run"].setdefault("smooth", {})
    return told


def _without_ranges(told: dict[str, Told]) -> dict[str, Told]:
    """Format 7 kept no ranges of numbers: to a model of it none is outside."""
    return told


# From a format to the next one: takes and gives all JSON of a folder, by the names of its files.
MIGRATIONS: dict[int, Callable[[dict[str, Told]], dict[str, Told]]] = {
    3: _without_opinions,
    4: _without_usual,
    5: _without_experts,
    6: _without_functions,
    7: _without_ranges,
}

ANEW = "Train again, or use that version."
LARGEST_JSON = 1 << 30  # bytes
OTHER_SCHEMA = "A model works with the schema that it was trained with: put that back, or train again with this one."
SHAPES: Mapping[str, Mapping[str, type]] = {  # what each JSON file has at least
    CONFIG: {"written": str, "counts": dict, "source": dict, "facts": dict, "run": dict},
    CODEC: {"slots": list, "codecs": list, "config": dict, "left_out": list},
    METRICS: {"quality": list, "history": list, "constants": dict},
    SPLIT: {"training": list, "validation": list},
    HABITS: {"classes": dict, "usual": dict},
}
ITEMS: Mapping[tuple[str, str], type] = {  # and what is in them
    (METRICS, "quality"): dict,
    (METRICS, "history"): dict,
    (SPLIT, "training"): str,
    (SPLIT, "validation"): str,
}
NAMES = {dict: "an object", list: "a list", str: "text", type(None): "none"}

# What our code raises when plain data that it did not write makes no sense.
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


@dataclass
class Files:
    """One model folder: what its config.json says, and its other files as that lists them."""

    folder: FilePath
    config: Told
    migrated: dict[str, Told] = field(default_factory=dict)  # of an older format, as it would be written today

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> Files:
        """The files of a folder; CheckpointError where it is none of ours, or of a format that is not read."""
        place = FilePath(folder)
        refuse_no_folder(place)
        files = cls(place, read_config(place))
        if files.config["format"] == FORMAT:
            files._refuse_listing()
        else:
            files._migrate()
        files._refuse_shape(CONFIG, files.config)
        return files

    def path(self, name: str) -> str:
        """What errors call a file."""
        return str(self.folder / name)

    def has(self, name: str) -> bool:
        """Whether the folder was written with this file."""
        return name in self.config["files"]

    def read(self, name: str) -> bytes:
        """A file's bytes, which are those that were written."""
        with self._opened(name) as stream:
            data = stream.read()
        self._refuse_change(name, hashlib.sha256(data).hexdigest())
        return data

    def sound(self, name: str) -> FilePath:
        """Where a file is that is as it was written; for one that is better not read at once."""
        with self._opened(name) as stream:
            self._refuse_change(name, hashlib.file_digest(stream, "sha256").hexdigest())
        return self.folder / name

    def json(self, name: str) -> Told:
        """What a JSON file says; what every such file has is there."""
        told = self.migrated[name] if name in self.migrated else self._json(name)
        self._refuse_shape(name, told)
        return told

    def check_sizes(self) -> None:
        """CheckpointError where a file is missing or has another size: tells most of what goes wrong, at once."""
        for name in (*NEEDED, *filter(self.has, OPTIONAL)):
            self._opened(name).close()

    @contextmanager
    def understood(self, name: str) -> Iterator[None]:
        """CheckpointError instead of a traceback where what a file says makes no sense to us."""
        try:
            yield
        except MALFORMED as error:
            fact = printable(f"{type(error).__name__}: {error}")[:200]
            problem = (
                f"expected what kbdisk {self.config['kbdisk']} writes, got what makes no sense ({fact}). {RESTORE}"
            )
            raise CheckpointError(self.path(name), problem) from error

    # ------------------------------------------------------------ what is refused

    def _json(self, name: str) -> Any:
        if self.config["files"][name]["bytes"] > LARGEST_JSON:
            raise CheckpointError(self.path(name), f"expected at most {LARGEST_JSON:,} bytes, got more. {RESTORE}")
        return parsed(self.read(name), self.path(name))

    def _opened(self, name: str) -> io.BufferedReader:
        stream = opened(self.folder / name)
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
        for name, told in listed.items():
            if not _is_plain(name):
                raise self._wrong("names of files in the folder", repr(name)[:80])
            size, digest = (told.get("bytes"), told.get("sha256")) if isinstance(told, dict) else (None, None)
            if type(size) is not int or size < 0 or not isinstance(digest, str) or not digest.isalnum():
                raise self._wrong(f"the size and SHA-256 of {printable(name)}", "others")
        for name in NEEDED:
            if name not in listed:
                raise self._wrong(f"{name} in the list of files", "none")

    def _migrate(self) -> None:
        """Bring the JSON of an older format up to this one, where each step on the way is known."""
        number = self.config["format"]
        wrote = f"{number}, that of kbdisk {self.config['kbdisk']}"
        if number > FORMAT:
            advice = "Upgrade: pip install -U kbdisk."
            raise CheckpointError(self.path(CONFIG), f"expected format {FORMAT} or an older one, got {wrote}. {advice}")
        self._refuse_listing()
        is_lost = number < COUNTED and not EXPERTS.isdisjoint(self.config["files"])
        if is_lost or number < 0 or any(step not in MIGRATIONS for step in range(number, FORMAT)):
            problem = f"expected format {FORMAT}, got {wrote}, which is no longer read."
            raise CheckpointError(self.path(CONFIG), f"{problem} {ANEW}")
        told = {CONFIG: self.config} | {name: self._json(name) for name in self.config["files"] if name in SHAPES}
        if number < NUMBERED and _counts_from_0(told[SPLIT]):
            raise CheckpointError(self.path(SPLIT), f"expected ids that count from 1, got some from 0. {ANEW}")
        with self.understood(CONFIG):
            for step in range(number, FORMAT):
                told = MIGRATIONS[step](told)
            self.config, self.migrated = told[CONFIG], told

    def _refuse_shape(self, name: str, told: Any) -> None:
        for key, kind in SHAPES[name].items():
            found: Any = told.get(key) if isinstance(told, dict) else None
            if not isinstance(found, kind):
                raise self._wrong(f"{NAMES[kind]} as {key}", NAMES.get(type(found), "another value"), name)
            item = ITEMS.get((name, key))
            if item is not None and not all(isinstance(one, item) for one in told[key]):
                raise self._wrong(f"{NAMES[item]} for each of {key}", "others", name)

    def _wrong(self, expected: str, got: str, name: str = CONFIG) -> CheckpointError:
        return CheckpointError(self.path(name), f"expected {expected}, got {got}. {RESTORE}")


def _counts_from_0(split: Any) -> bool:
    """Whether the ids of a split are the numbers from 0, as those of rows were."""
    sides = [split.get(side) for side in ("training", "validation")] if isinstance(split, dict) else []
    ids = {id for side in sides if isinstance(side, list) for id in side if isinstance(id, str)}
    return "0" in ids and ids == set(map(str, range(len(ids))))


def _is_plain(name: str) -> bool:
    """Whether a name is that of a file beside this one, on any system."""
    return name not in ("", ".", "..") and not any(one in name for one in "/\\:\0")
