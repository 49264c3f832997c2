"""The command line of a benchmark of SCRIPTS: its parser, with the option --out."""

from __future__ import annotations

import argparse
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
RESULTS = CHECKOUT / "benchmarks" / "results"


def argument_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser of `python -m benchmarks NAME`, described by the first line of the module's docstring."""
    return argparse.ArgumentParser(f"python -m benchmarks {name}", description=(doc or "").partition("\n")[0])


def names_of(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def add_out_option(parser: argparse.ArgumentParser) -> None:
    """The option that says where results are."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
