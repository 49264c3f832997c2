"""What was filled in, and how sure it is: the surest values of each property, from the file beside a completed one.

Run: python examples/surest.py completed.ttl.provenance.jsonl 3
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def main(file: str, most: str = "3") -> None:
    """A line for each value: how sure, what, of whom, and where the truth of a number is with 90 %."""
    told = (json.loads(line) for line in Path(file).read_text().splitlines())
    rows = [row for row in told if "confidence" in row]  # of what stood in a block already there is none
    of: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: -row["confidence"]):
        of[row["class"], row["property"]].append(row)
    for (_, path), some in of.items():
        for row in some[: int(most)]:
            bounds = "{:.4g} … {:.4g}".format(*row["interval"]) if isinstance(row["interval"], list) else ""
            value = row["value"] if isinstance(row["value"], dict) else {"": row["value"]}
            said = " ".join(short(part) for part in value.values())
            print(f"{row['confidence']:4.0%} sure  {short(row['id']):8} {path:18} {said:16} {bounds}".rstrip())


def short(value: object) -> str:
    """The last word of an IRI; all else as it is."""
    return str(value).rsplit("/", 1)[-1] if "://" in str(value) else str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
