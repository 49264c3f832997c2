"""Completes an rdflib graph: what it says stays as it is, what is missing and can be told is added.

Run: python examples/complete_rdf.py completed.ttl 1m
"""

from __future__ import annotations

import sys
from pathlib import Path

import rdflib

import kbdisk

HERE = Path(__file__).parent


def main(out: str = "completed.ttl", budget: str = "1m") -> None:
    """Train on the graph, complete it, and write it with what was filled in."""
    graph = rdflib.Graph().parse(HERE / "elements.ttl")
    model = kbdisk.train(graph, preset="fast", budget=budget)
    report = kbdisk.write(model.complete(graph), out, force=True)
    completed = rdflib.Graph().parse(out)
    print(f"{report.written} new values, {len(completed) - len(graph)} new triples beside {len(graph):,}")


if __name__ == "__main__":
    main(*sys.argv[1:])
