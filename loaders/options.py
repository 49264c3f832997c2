"""How a source is to be read. One frozen value, so that a reader can be made again from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbdisk.entity import Path

# Cells and strings that stand for no value at all. "NA" is left out: among words it is Namibia, or sodium.
MISSING = frozenset({"", "nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>"})
BESIDE_NUMBERS = frozenset(
    {"NA", "na", "none", "-", "--", "?"}
)  # no value where all else of a column is numbers or truths


@dataclass(frozen=True)
class Options:
    """What a user may say about a source; each format reads what concerns it."""

    id: Path | None = None  # where an entity's id stands; None: a sensible default
    items: Path | None = None  # where the list of entities stands in a JSON document; None: found by its shape
    language: str = "en"  # wanted for labels
    base: str | None = None  # resolves relative IRIs in RDF
    context: Mapping[str, bytes] = field(default_factory=dict)  # JSON-LD contexts by their IRI, never fetched
    units: Mapping[Path, str] = field(default_factory=dict)  # bare numbers at these paths are quantities
    missing: frozenset[str] = MISSING  # of CSV, TSV cells and data frames
    encoding: str = "utf-8"  # of CSV and TSV
    skip_errors: bool = False
    classes: tuple[str, ...] = ()  # only entities of these classes; all where empty
    max_size: float | None = (
        None  # bytes that a compressed file may unpack to, and an endpoint answer; None: see bounds
    )
    redirects: bool = False  # whether an endpoint may send on to another host
    query: str | None = None  # of a SPARQL endpoint: a SELECT whose first variable names the entities
