"""Completes a list of dicts, such as json.load gives, and says of each new value how sure it is.

Run: python examples/complete_json.py completed.json 1m
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import kbdisk
from kbdisk.entity import show

HERE = Path(__file__).parent


def main(out: str = "completed.json", budget: str = "1m") -> None:
    """Train on the phones by their schema, and fill what they lack."""
    phones = [json.loads(line) for line in (HERE / "phones.jsonl").read_text().splitlines()]
    model = kbdisk.train(phones, HERE / "phones.yaml", preset="fast", budget=budget)
    completed = list(model.complete(phones, fill="all"))  # by default only what is more likely right than wrong
    for completion in completed:
        for path, filled in completion.filled.items():
            print(f"{completion.entity.id}  {show(path)} = {filled.value}, {filled.confidence:.0%} sure")
    Path(out).write_text(json.dumps([completion.tree() for completion in completed], indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
