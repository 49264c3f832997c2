"""However many change one file at once: every value that is reported as written is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crash.processes import command, names, status

import kbdisk

ENTITIES = 8
PLACE = "http://e/"


def turtle() -> bytes:
    return "".join(f"<{PLACE}e{n}> <{PLACE}id> {n} ; <{PLACE}p> <{PLACE}x> .\n" for n in range(ENTITIES)).encode() + (
        f"<{PLACE}known> <{PLACE}size> 0 ; <{PLACE}p> <{PLACE}x> .\n".encode()
    )


def jsonl() -> bytes:
    return b"".join(b'{"id": "e%d", "size": null}\n' % n for n in range(ENTITIES))


def csv() -> bytes:
    return b"id,size\n" + b"".join(b"e%d,\n" % n for n in range(ENTITIES))


FORMATS = {"kb.ttl": turtle, "kb.jsonl": jsonl, "kb.csv": csv, "kb.jsonl.gz": jsonl, "kb.nt": turtle}


def made(folder: Path, name: str) -> Path:
    """A source in which every entity lacks its size."""
    data = FORMATS[name]()
    if name.endswith(".nt"):
        data = data.replace(b" ; ", b" .\n@ ").replace(b" 0", b' "0"')
        lines, subject = [], b""
        for line in data.splitlines():
            subject = line.split()[0] if not line.startswith(b"@") else subject
            lines.append(line.replace(b"@", subject, 1) if line.startswith(b"@") else line)
        data = b"".join(_quoted(line) + b"\n" for line in lines)
    if name.endswith(".gz"):
        import gzip

        data = gzip.compress(data)
    target = folder / name
    target.write_bytes(data)
    for number in range(ENTITIES):
        id = f"{PLACE}e{number}" if FORMATS[name] is turtle else f"e{number}"
        value: object = str(number + 1) if name.endswith(".nt") else number + 1
        (folder.parent / f"{number}.values").write_text(json.dumps({"id": id, "path": "size", "value": value}) + "\n")
    return target


def _quoted(line: bytes) -> bytes:
    subject, predicate, rest = line.split(b" ", 2)
    object = rest.rstrip(b" .")
    return b" ".join((subject, predicate, object if object[:1] in b'<"' else b'"' + object + b'"', b"."))


def sizes(target: Path) -> dict[str, int]:
    """The sizes that a file tells."""
    found = {}
    for entity in kbdisk.load(target):
        size = (entity.made or {}).get(("size",), entity.tree.get("size"))
        if size is not None:
            found[entity.id.removeprefix(PLACE)] = int(getattr(size, "value", size))
    return found


def rounds(folder: Path, name: str, writers: int, count: int) -> None:
    """Let so many write at once, again and again; each its own value."""
    place = folder / "folder"
    place.mkdir(exist_ok=True)
    for turn in range(count):
        target = made(place, name)
        log = folder / "log"
        log.unlink(missing_ok=True)
        children = [
            command("write", target, "--values", folder / f"{n}.values", "--out", target, "--in-place", log=log)
            for n in range(writers)
        ]
        assert [status(child) for child in children] == [0] * writers, (turn, log.read_text())
        expected = {f"e{n}": n + 1 for n in range(writers)}
        assert expected.items() <= sizes(target).items(), (turn, log.read_text())
        kept = {file for file in names(place) if file.startswith(f"{name}.before")}
        assert names(place) == {name, *kept}, turn
        for file in kept:
            (place / file).unlink()


@pytest.mark.parametrize("name", ["kb.ttl", "kb.jsonl.gz"])
def test_of_four_who_write_at_once_no_value_is_lost(name, tmp_path):
    rounds(tmp_path, name, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 4, 8])
@pytest.mark.parametrize("name", FORMATS)
def test_of_many_who_write_at_once_no_value_is_lost(name, writers, tmp_path):
    rounds(tmp_path, name, writers, 50)
