"""The folder of data, which is not in this repository, and the names of the knowledge bases in it."""

from __future__ import annotations

import os
from pathlib import Path

from kbdisk.errors import LoadError

BESIDE = Path("../shared/data")  # where the data may be, seen from a checkout
SOURCES = {  # name -> where it is in the folder of data, and where it is from
    "gsm": ("gsm/gsm_processed.csv", "haolun-wu/Disk-SNAKE"),
    "nuclei": ("nuclear/nuclear_processed.csv", "IAEA, as strifinopoulos/sNuCLR prepares it"),
    "wikilike-1500": ("kb/wikilike/wikilike-1500.ttl.gz", "tsafavi/codex and mniepert/mmkb"),
    "laureates": ("json/nobel_laureates.json", "the Nobel API, version 1"),
    "mondial": ("rdf/mondial/mondial-europe.nt.gz", "Mondial, Göttingen"),
    "countries": ("json/countries.json", "mledoze/countries"),
}


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """The folder of data: as named, else KBDISK_DATA, else beside the checkout. LoadError where there is none."""
    place = Path(folder or os.environ.get("KBDISK_DATA") or BESIDE)
    if not place.is_dir():
        hint = "Say --data DIR, or set KBDISK_DATA, to a folder as docs/benchmarks.md describes."
        raise LoadError(str(place), f"expected the folder of data, got none. {hint}")
    return place


def data_file(data: Path, name: str, source: str) -> Path:
    """A file of the data; LoadError, with where it is from, where it is not there."""
    file = data / name
    if not file.exists():
        raise LoadError(str(file), f"no such file. It is from {source}; --data DIR or KBDISK_DATA says where it is.")
    return file


def source_file(name: str) -> Path:
    """A knowledge base of SOURCES, or the file of that name."""
    if name not in SOURCES:
        return Path(name)
    return data_file(data_folder(None), *SOURCES[name])
