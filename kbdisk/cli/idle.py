"""Options that are told and would change nothing: they are refused, so that nobody takes them for heeded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from kbdisk.loaders import KB

TREES = ("json", "jsonl", "csv", "tsv", "parquet")
NESTED = ("turtle", "trig", "n3", "rdfxml", "jsonld")
HEEDED: dict[str, Collection[str]] = {  # by which formats of a source
    "id": TREES,
    "id_path": TREES,
    "items": ("json",),
    "base": NESTED,
    "language": (*NESTED, "ntriples", "nquads", "wikibase-json", "sparql"),
    "contexts": ("jsonld",),
    "encoding": ("csv", "tsv"),
    "redirects": ("sparql",),
    "missing": ("csv", "tsv", "parquet"),
}


RECORDED = (*(HEEDED.keys() - {"id_path"}), "origin", "insert")  # in a review: how its source was read


def refuse_idle(kbs: Sequence[KB]) -> None:
    """ConfigError for an option of the command line that says how a source is read, where none of these heeds it."""
    formats = {kb.format for kb in kbs}
    for name, option in on_command_line(click.get_current_context()).items():
        if name in HEEDED and formats.isdisjoint(HEEDED[name]):
            of, takers = ", ".join(sorted(formats)), ", ".join(HEEDED[name])
            raise ConfigError(option, f"changes nothing where SOURCE is {of}: it is for {takers}. Leave it out.")


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says about how SOURCE is read, as plain data; not which entities are wanted."""
    told = on_command_line(click.get_current_context())
    chosen = {name: options[name] for name in told if name in RECORDED}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}


def on_command_line(context: click.Context) -> dict[str, str]:
    """What the command line itself says: the names of parameters, and how they are written."""
    return {
        name: max(one.opts, key=len)
        for one in context.command.params
        if (name := one.name) and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
