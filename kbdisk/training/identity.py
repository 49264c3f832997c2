"""What a run is of: a run that stopped goes on only where all of that is the same, and else what differs is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from kbdisk.training.data import Data
from kbdisk.training.run import Run

SECONDS = ("train", "seconds")


def identity(data: Data, run: Run, source: Mapping[str, Any]) -> dict[str, Any]:
    """What a run is of, as plain data."""
    told = {
        "kbdisk": version("kbdisk"),
        "source": {name: value for name, value in source.items() if name != "name"},
        "schema": _hash(data.codec.schema.to_yaml().encode()),
        "run": run.to_json(),
        "entities": _fingerprint(data),
    }
    plain: dict[str, Any] = json.loads(json.dumps(told))
    return plain


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What two runs are not both of, in words."""
    found = [f"the {name} has changed" for name in ("source", "schema") if then.get(name) != now[name]]
    found += _changes(then.get("kbdisk"), now["kbdisk"], ("kbdisk",))
    found += _changes(then.get("run"), now["run"], ())
    if not found and then.get("entities") != now["entities"]:
        found.append("the entities are not the same")
    return found


def _changes(then: Any, now: Any, at: tuple[str, ...]) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _changes(then.get(key), now.get(key), (*at, key))
    elif then != now:
        yield _budget(then, now) if at == SECONDS else f"{'.'.join(at)} was {then!r} and is {now!r}"


def _budget(then: float | None, now: float | None) -> str:
    """How a time budget has changed: a network has a share of it, so its own seconds are none that anybody has said."""
    if then is None or now is None:
        return "there was no time budget, and is one" if then is None else "there was a time budget, and is none"
    if not isinstance(then, int | float) or then <= 0:
        return f"the time budget was {then!r}"
    return f"the time budget is {now / then:.2g} times what it was"


def _fingerprint(data: Data) -> str:
    """Of the entities as the network sees them, and of the codec that made them so."""
    hashed = hashlib.sha256(json.dumps(data.codec.to_json()).encode())
    for tokens in (data.training, data.validation):
        hashed.update(repr(tokens.ids).encode())
        for one in (tokens.classes, tokens.offsets, tokens.slot, tokens.row, tokens.known):
            hashed.update(one.numpy().tobytes())
    return hashed.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
