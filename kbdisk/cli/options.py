"""Options that several commands share, and what they name: sources and models.

`source_options` say how SOURCE is read. An option that has no effect on the formats at hand is refused.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click
from click import get_current_context
from click.core import ParameterSource
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.screen import say
from kbdisk.cli.tables import show_pairs
from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api.model import Model
    from kbdisk.entity import Path as EntityPath
    from kbdisk.loaders import KB
    from kbdisk.loaders.files import Progress

MAX_LEFT_OUT_SHOWN = 10  # paths that a model has not learnt, named with --verbose

Command = TypeVar("Command", bound=Callable[..., Any])

# ---------------------------------------------------------------- options

# A review stores the parameter's name, origin, with the other options by which its source was read.
FROM_OPTION = click.option(
    "--from", "origin", metavar="FORMAT", help="Format of the source, if its name does not tell it."
)
ID_OPTION = click.option("--id", "id", metavar="PATH", help="Path of an entity's id, such as meta.id.")
ID_PATH_OPTION = click.option(
    "--id-path", "id_path", metavar="PATH", help="Path of an entity's id in SOURCE, such as meta.id."
)
OTHER_SOURCE_OPTIONS = [
    click.option("--items", metavar="PATH", help="Path of the list of entities in a JSON document, such as data.items."),
    click.option("--base", metavar="IRI", help="Resolves relative IRIs in RDF."),
    click.option(
        "--class", "classes", metavar="CLASS", multiple=True, help="Only entities of this class, by its IRI or its last word. Repeat it for more."
    ),
    click.option("--language", metavar="TAG", default="en", show_default=True, help="Language of the labels."),
    click.option(
        "--context", "contexts", metavar="IRI=FILE", multiple=True, help="A JSON-LD context as a file: contexts are never fetched."
    ),
    click.option("--encoding", metavar="NAME", default="utf-8", show_default=True, help="Encoding of CSV and TSV."),
    click.option("--missing", metavar="TEXT", multiple=True, help="Text of a cell of CSV and TSV that means no value, such as x. Repeat it for more. Always: an empty cell, nan, NaN, NAN, null, NULL, None, N/A, n/a, #N/A, <NA>; in columns of numbers also NA, na, none, -, --, ?."),
    click.option("--query", metavar="SELECT", help="For an endpoint: a SELECT whose first variable names the entities. @FILE reads it."),
    click.option("--max-size", metavar="SIZE", help="Maximum unpacked size of a compressed file, and maximum size of one answer of an endpoint, such as 20GB, or none.  [default: 1GB, or 100 times its compressed size; 2GB an answer]"),
    click.option("--redirects", is_flag=True, help="For an endpoint: follow redirects to another host."),
    click.option("--skip-errors", is_flag=True, help="Skip what cannot be read, count it, and exit with status 1."),
]  # fmt: skip
SOURCE_OPTIONS = [FROM_OPTION, ID_OPTION, *OTHER_SOURCE_OPTIONS]

to_option = click.option(
    "--to", "target_format", metavar="FORMAT", help="Format of TARGET, if its name does not tell it."
)
device_option = click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where the model computes: auto, cpu or cuda."
)
strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if something is unlike what the model learnt from. Everything else, such as writing, is done as without this option.",
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Also print how MODEL was trained, and what it has not learnt."
)


def source_options(command: Command) -> Command:
    """The options that say how SOURCE is read."""
    for option in reversed(SOURCE_OPTIONS):
        command = option(command)
    return command


def entity_source_options(command: Command) -> Command:
    """The same for a command whose --id names an entity; the path of ids is --id-path there."""
    for option in reversed([FROM_OPTION, ID_PATH_OPTION, *OTHER_SOURCE_OPTIONS]):
        command = option(command)
    return command


def given_parameters(context: click.Context) -> dict[str, str]:
    """The parameters that the command line itself gives: their names, and how they are written."""
    return {
        name: max(parameter.opts, key=len)
        for parameter in context.command.params
        if (name := parameter.name) and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


# ---------------------------------------------------------------- unused options

TREES = ("json", "jsonl", "csv", "tsv", "parquet")
NESTED_RDF = ("turtle", "trig", "n3", "rdfxml", "jsonld")
USED_BY: dict[str, Collection[str]] = {  # the formats of a source that an option has an effect on
    "id": TREES,
    "id_path": TREES,
    "items": ("json",),
    "base": NESTED_RDF,
    "language": (*NESTED_RDF, "ntriples", "nquads", "wikibase-json", "sparql"),
    "contexts": ("jsonld",),
    "encoding": ("csv", "tsv"),
    "redirects": ("sparql",),
    "missing": ("csv", "tsv", "parquet"),
}
RECORDED = (*(USED_BY.keys() - {"id_path"}), "origin", "insert")  # a review says so how its source was read


def refuse_unused(kbs: Sequence[KB]) -> None:
    """ConfigError for a given option that has no effect on any of these sources."""
    formats = {kb.format for kb in kbs}
    for name, option in given_parameters(get_current_context()).items():
        if name in USED_BY and formats.isdisjoint(USED_BY[name]):
            present, expected = ", ".join(sorted(formats)), ", ".join(USED_BY[name])
            raise ConfigError(option, f"changes nothing where SOURCE is {present}: it is for {expected}. Leave it out.")


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options that say how SOURCE is read, as plain data; not which entities are wanted."""
    given = given_parameters(get_current_context())
    recorded = {name: options[name] for name in given if name in RECORDED}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in recorded.items()}


# ---------------------------------------------------------------- sources


def refuse_missing(source: str) -> None:
    """LoadError for a file that does not exist, before slow imports. A pipe is left to be read."""
    from kbdisk.loaders.files import Source

    if source != "-" and not source.startswith(("http://", "https://")) and not os.path.exists(source):  # noqa: PTH110
        Source(source)


def open_source(source: str, options: Mapping[str, Any], progress: Progress | None = None) -> KB:
    """The knowledge base that a command's source and `source_options` name."""
    return open_sources((source,), options, progress)[0]


def open_sources(sources: Iterable[str], options: Mapping[str, Any], progress: Progress | None = None) -> list[KB]:
    """The same of several; ConfigError for an option that has no effect on any."""
    kbs = [_open(source, options, progress) for source in sources]
    refuse_unused(kbs)
    return kbs


def _open(source: str, options: Mapping[str, Any], progress: Progress | None) -> KB:
    import kbdisk

    is_remote = source.startswith(("http://", "https://"))
    if options["query"] and not is_remote:
        raise ConfigError("--query", "expected an endpoint, http:// or https://, as SOURCE. Leave --query out.")
    kb = kbdisk.load(
        source, **loading_options(options), classes=options["classes"] if is_remote else (), progress=progress
    )
    if kb.source is not None:
        kb.source.refuse_empty()
    return kb


def loading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The `source_options` as options of kbdisk.load, but for classes."""
    from kbdisk.loaders.files import read_size
    from kbdisk.loaders.kb import MISSING

    return {
        "format": options["origin"],
        "id": options["id"],
        "items": options["items"],
        "base": options["base"],
        "language": options["language"],
        "context": dict(_read_context(text) for text in options["contexts"]),
        "encoding": options["encoding"],
        "missing": {*MISSING, *options["missing"]},
        "query": _read_query(options["query"]),
        "max_size": read_size(options["max_size"]) if options["max_size"] is not None else None,
        "redirects": options["redirects"],
        "skip_errors": options["skip_errors"],
    }


def _read_context(text: str) -> tuple[str, bytes]:
    iri, sign, name = text.rpartition("=")
    if not sign:
        raise ConfigError("--context", f"expected IRI=FILE, got {text!r}.")
    return iri, _read_bytes("--context", name)


def _read_query(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        return _read_bytes("--query", text[1:]).decode()
    except UnicodeDecodeError:
        raise ConfigError("--query", f"expected UTF-8 text in {text[1:]}.") from None


def _read_bytes(option: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(option, f"{name} cannot be read: {(error.strerror or str(error)).lower()}.") from None


def only_paths(texts: Iterable[str]) -> tuple[EntityPath, ...]:
    """The paths that --only names, separated by commas or in several options."""
    from kbdisk.entity import read_property

    try:
        return tuple(read_property(path.strip().replace("[]", "")) for text in texts for path in text.split(","))
    except ValueError as error:
        raise ConfigError("--only", f"{error}.") from None


def report_earlier_fillings(count: int) -> None:
    """A line about the values of a source that kbdisk filled in earlier."""
    if count:
        values = f"{count:,} value{' was' if count == 1 else 's were'} filled in by kbdisk earlier"
        say(f"{values}: not learnt from, and left as {'it is' if count == 1 else 'they are'}")


# ---------------------------------------------------------------- models


def open_model(name: str, device: str, verbose: bool) -> Model:
    """The model in a folder; with `verbose`, how it was trained is written on standard error first."""
    import kbdisk

    model = kbdisk.open(name, device=device)
    if verbose:
        _show_training(name, model)
    return model


def _show_training(name: str, model: Model) -> None:
    from kbdisk.store.card import trained_how, trained_on
    from kbdisk.store.files import Files

    config, console = Files.of(name).config, screen.console(stderr=True)
    console.print(Text(f"using the model in {name}"), soft_wrap=True)
    show_pairs(console, trained_on(config) | trained_how(config))
    show_left_out(console, model)


def show_left_out(console: Console, model: Model) -> None:
    """The paths of the training data that a model has not learnt, each with the reason."""
    from kbdisk.entity import show

    for (class_name, path), reason in list(model.trained.codec.left_out.items())[:MAX_LEFT_OUT_SHOWN]:
        place = show((class_name, *path) if class_name else path)
        console.print(Text(f"not learnt: {place}: {reason}"), soft_wrap=True)


# ---------------------------------------------------------------- stopped and resumed


@contextlib.contextmanager
def resumable(context: click.Context) -> Iterator[None]:
    """Where a signal stopped a training that is kept, print how to resume it, and exit as shells do; see `Interrupted`."""
    try:
        yield
    except KeyboardInterrupt as error:
        number = getattr(error, "signal", None)
        if number is None:
            raise
        say(str(error))
        say(f"Go on with: {resuming_command(context)}")
        context.exit(128 + number)


def resuming_command(context: click.Context) -> str:
    """The command as it was given, with --resume if it has that option."""
    arguments: list[str] = []
    options: list[str] = []
    given = given_parameters(context)
    for parameter in context.command.params:
        name = parameter.name or ""
        if name == "resume":
            options.append("--resume")
        elif name in given:
            value = context.params[name]
            values = list(value) if isinstance(value, tuple) else [value]
            if isinstance(parameter, click.Argument):
                arguments += values
            elif getattr(parameter, "is_flag", False):
                options.append(parameter.opts[-1])
            else:
                options += [part for value in values for part in (parameter.opts[-1], str(value))]
    return shlex.join(["kbdisk", context.info_name or "", *arguments, *options])
