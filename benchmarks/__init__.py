"""Benchmarks of kbdisk: real data and a split, with kbdisk beside the paper's figures and other methods.

`python -m benchmarks NAME` runs one of them, from a checkout. A benchmark of BENCHES is a module with `run`, `tables` and `figure`,
as `base.BenchModule` says; its results are stored as lines of JSON, and tables and plots are made of the stored results. A
benchmark of SCRIPTS is a module with a command line of its own, `main(argv)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from benchmarks.base import BenchModule

TRAINING = frozenset({"data", "preset", "budget", "config", "device"})  # options of a benchmark that trains


class Bench(NamedTuple):
    """A benchmark of results: its module, and the options of the command line that it uses beside those of all."""

    module: str
    summary: str
    options: frozenset[str]


class Script(NamedTuple):
    """A benchmark with a command line of its own."""

    module: str
    summary: str


BENCHES = {
    "gsm": Bench(
        "benchmarks.gsm",
        "Phones: each property predicted from the others (the main table).",
        TRAINING | {"validation", "split", "methods"},
    ),
    "nuclear": Bench(
        "benchmarks.nuclear",
        "Nuclei: from the others, and from z and n alone.",
        TRAINING | {"validation", "split", "methods"},
    ),
    "tabular": Bench(
        "benchmarks.tabular",
        "Synthetic tables, judged by a CatBoost that learns from them.",
        TRAINING | {"validation", "split", "methods", "only", "samples", "draws", "judges", "real"},
    ),
    "kb-numeric": Bench(
        "benchmarks.kb_numeric",
        "FB15k-237: numbers predicted from an entity's links.",
        TRAINING | {"validation", "methods"},
    ),
    "curves": Bench(
        "benchmarks.curves",
        "The error by how much is given; whether samples are consistent.",
        TRAINING | {"validation", "split", "only"},
    ),
    "ablation": Bench(
        "benchmarks.ablation",
        "GSM with one choice changed at a time, on validation.",
        TRAINING | {"only", "validation"},  # it scores validation with that option or without
    ),
    "two-moons": Bench(
        "benchmarks.two_moons",
        "The paper's figure: what one Gaussian cannot draw.",
        frozenset({"config"}),  # of which train.steps alone
    ),
    "kb": Bench(
        "benchmarks.kb",
        "Any knowledge base: hide values, complete it, compare the errors.",
        frozenset(),  # its command has options of its own
    ),
}
SCRIPTS = {
    "peers": Script("benchmarks.peers.command", "Other methods: what they do, and whether they are installed."),
    "comparison": Script("benchmarks.comparison", "Errors on hidden values, of kbdisk and all peers in the same time."),
    "untouched": Script("benchmarks.untouched", "Tables that nobody tuned on, filled by several imputers."),
    "experts": Script("benchmarks.experts", "What each expert is worth: each left out, and each alone."),
    "precision": Script("benchmarks.precision", "The precision of what completion writes, and its calibration."),
    "small-tables": Script("benchmarks.small_tables", "Whether 90 % intervals cover 90 % of small tables."),
    "same-value": Script("benchmarks.same_value", "A property that always has the same value."),
    "mixed-units": Script("benchmarks.mixed_units", "Mixed units and currencies, beside one unit of each."),
    "consistency": Script("benchmarks.consistency", "Whether constraints hold in the output as in the input."),
    "review-rounds": Script("benchmarks.review_rounds", "Rounds of completion, review and apply."),
    "shift": Script("benchmarks.shift", "Confidence on entities unlike the training data."),
    "links": Script("benchmarks.links", "Links in both directions, beside a plain factorisation."),
    "io": Script("benchmarks.io", "How fast sources are read, against the libraries beneath."),
    "infer": Script("benchmarks.infer", "What inferring a schema costs beside loading alone."),
    "train": Script("benchmarks.train", "How fast a training step is, against a plain network."),
    "scale": Script("benchmarks.scale", "Seconds, memory and quality from 1,000 entities to 100,000."),
    "faithful": Script("benchmarks.faithful", "Whether the paper preset learns as a plain network does."),
}


def load_bench(name: str) -> BenchModule:
    """The module of a benchmark, imported only now."""
    return cast("BenchModule", import_module(BENCHES[name].module))
