"""`kbdisk schema`: what kind of value stands where - inferred, shown, checked, taken from others and given to them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.screen import say
from kbdisk.cli.sources import open_source, source_options, watching
from kbdisk.errors import KBDiskWarning, SchemaError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from kbdisk.inspection import Findings
    from kbdisk.schemas.schema import Schema


@click.group()
def schema() -> None:
    """What kind of value stands where: infer it, show it, check a source against it.

    \b
    kbdisk schema infer phones.jsonl > phone.yaml
    kbdisk schema show phone.yaml
    kbdisk schema check phone.yaml phones.jsonl
    kbdisk schema import shapes.ttl > city.yaml
    kbdisk schema export phone.yaml > phone.schema.json
    kbdisk schema library
    """


@schema.command()
@click.argument("source")
@click.option("--explain", is_flag=True, help="A table of what was decided and why, instead of the schema.")
@click.option("--json", "as_json", is_flag=True, help="The schema and the reasons as one JSON object.")
@click.option(
    "--rules",
    is_flag=True,
    help="Search for rules, too: values that follow exactly from others, with their exceptions.",
)
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_context
def infer(
    context: click.RichContext,
    /,
    source: str,
    explain: bool,
    as_json: bool,
    rules: bool,
    format: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Find out the schema of SOURCE, in one reading; with --rules in two.

    The schema is YAML on standard output, made to be edited: a comment above each property says why it is what
    it is. Rules stand below the classes, with the known values that agree and the exceptions counted. Exits with
    status 1 where --skip-errors skipped something.

    \b
    kbdisk schema infer phones.jsonl > phone.yaml
    kbdisk schema infer houses.csv --rules > house.yaml
    kbdisk schema infer kb.ttl --explain
    kbdisk schema infer dump.nt.gz --class City > city.yaml
    """
    import kbdisk

    if explain and as_json:
        raise click.UsageError("--explain and --json both say what to print. Leave one out.")
    with warnings.catch_warnings(), watching(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)  # what is odd in a source is for inspect to tell
        kb = open_source(source, format, options, progress)
        found = kbdisk.infer(kb, classes=options["classes"], rules=rules)
    if as_json:
        reasons, left_out = _reasons(found.reasons), _reasons(found.left_out)
        _print_json({"source": kb.name, "schema": _as_data(found.schema), "reasons": reasons, "left_out": left_out})
    elif explain:
        from kbdisk.cli.schematables import shown_reasons

        _print(shown_reasons(found))
    else:
        _print_yaml(found.to_yaml())
    context.exit(1 if kb.skipped else 0)


@schema.command()
@click.argument("schema")
@click.option("--json", "as_json", is_flag=True, help="The schema as one JSON object instead of tables.")
def show(schema: str, as_json: bool) -> None:
    """Show SCHEMA as tables: each property with its kind, what holds of it, and the leaves it is made of.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input.

    \b
    kbdisk schema show phone
    kbdisk schema show phone.yaml
    kbdisk schema infer kb.ttl | kbdisk schema show -
    """
    found = open_schema(schema)
    if as_json:
        _print_json({"schema": _as_data(found), "leaves": _leaves(found)})
        return
    from kbdisk.cli.schematables import shown_schema

    _print(shown_schema(found, schema))


@schema.command()
@click.argument("schema")
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables; everything, whole names.")
@click.option("--strict", is_flag=True, help="What only one side knows is a finding, too.")
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@source_options
@click.option("--all", "everything", is_flag=True, help="Every finding, however many.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_context
def check(
    context: click.RichContext,
    /,
    schema: str,
    source: str,
    as_json: bool,
    strict: bool,
    format: str | None,
    everything: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Tell what in SOURCE does not fit SCHEMA: how often, and where first.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input. Exits with status 1
    where a value does not fit, where a path looks misspelt, or where --skip-errors skipped something. Paths and
    classes that only one side knows are told; they count as findings with --strict. A constraint such as born <= died
    is checked against all values at both paths.

    \b
    kbdisk schema check phone gsm.csv
    kbdisk schema check phone.yaml phones.jsonl --json | jq .misfits
    kbdisk schema infer old.jsonl | kbdisk schema check - new.jsonl
    """
    from kbdisk import inspection

    if schema == source == "-":
        raise click.UsageError("SCHEMA and SOURCE both want standard input.")
    known = open_schema(schema)
    schema = "the schema" if schema == "-" else schema
    with warnings.catch_warnings(), watching(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)
        kb = open_source(source, format, options, progress)
        found = inspection.check(known, kb, name=schema, classes=options["classes"])
    if as_json:
        _print_json({"schema": schema, **_findings(found)})
    else:
        from kbdisk.cli.schematables import shown_findings

        _print(shown_findings(found, schema, everything))
    context.exit(0 if (found.fits_exactly if strict else found.fits) and not found.skipped else 1)


def _known_language(language: str | None) -> str | None:
    """The language of a schema; BadParameter where neither kbdisk nor an installed package reads it."""
    from kbdisk.schemas.importers import IMPORTERS

    if language is not None and language not in IMPORTERS:
        raise click.BadParameter(f"expected one of {', '.join(IMPORTERS)}, got {language!r}.")
    return language


@schema.command("import")
@click.argument("file")
@click.option(
    "--from",
    "origin",
    metavar="LANGUAGE",
    callback=lambda context, parameter, language: _known_language(language),
    help="What FILE is written in, where its content does not tell: shacl, jsonschema, linkml, or one that an installed package adds.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not tell what was left out.")
def import_(file: str, origin: str | None, quiet: bool) -> None:
    """Make a schema of FILE: SHACL shapes, a JSON Schema, or LinkML.

    The schema is YAML on standard output. What FILE says and a schema cannot say is told on standard error: every
    constraint of SHACL that is not enforced, with its class and property, one a line.

    \b
    kbdisk schema import shapes.ttl > city.yaml
    kbdisk schema import phone.schema.json > phone.yaml
    kbdisk schema import model.yaml --from linkml > model.kb.yaml
    """
    from kbdisk.schemas import importers

    found = importers.read(file, origin)
    _print_yaml(found.schema.to_yaml())
    for what in [] if quiet else found.left_out:
        say(f"left out: {what}")


@schema.command()
@click.argument("schema")
def export(schema: str) -> None:
    """Write SCHEMA as a JSON Schema of the data, on standard output.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input.

    \b
    kbdisk schema export phone > phone.schema.json
    """
    from kbdisk.schemas.exporters import jsonschema

    _print_json(jsonschema.export(open_schema(schema)))


@schema.command("format")
def format_() -> None:
    """Write the JSON Schema of schema files themselves, so that editors complete them.

    A schema then begins with the line: # yaml-language-server: $schema=kbdisk-schema.json

    \b
    kbdisk schema format > kbdisk-schema.json
    """
    from kbdisk.schemas.yaml import format_schema

    _print_json(format_schema())


@schema.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def library(as_json: bool) -> None:
    """List the schemas that come with kbdisk; each can be named where a schema is wanted.

    \b
    kbdisk schema library
    kbdisk schema show phone
    """
    from kbdisk.schemas import library

    found = {name: open_schema(name) for name in library.names()}
    if as_json:
        _print_json({name: {"label": one.label, "classes": list(one.classes)} for name, one in found.items()})
        return
    from kbdisk.cli.schematables import shown_library

    _print(shown_library((name, one.label, ", ".join(one.classes)) for name, one in found.items()))


def open_schema(name: str) -> Schema:
    """The schema that a command names: a file, a schema of the library, or standard input."""
    from kbdisk.schemas import yaml as schema_yaml

    if name == "-":
        return schema_yaml.loads(sys.stdin.buffer.read(), "<stdin>")
    try:
        return schema_yaml.read(name)
    except SchemaError as error:
        if Path(name).suffix in ("", ".yaml", ".yml", ".json"):
            raise
        raise SchemaError(error.where, f"{error.problem} A schema is a YAML file, and stands before SOURCE.") from None


def _as_data(schema: Schema) -> dict[str, Any]:
    """A schema as its file has it, without YAML."""
    from kbdisk.schemas.yaml.serialize import written_schema

    return written_schema(schema)


def _leaves(schema: Schema) -> dict[str, dict[str, str]]:
    """Every leaf by its path, with its kind, for each class."""
    from kbdisk.schemas.composites import show_pattern
    from kbdisk.schemas.kinds import kind_of

    return {
        name: {show_pattern(path): kind_of(leaf) for path, leaf in one.leaves().items()}
        for name, one in schema.classes.items()
    }


def _findings(found: Findings) -> dict[str, Any]:
    import dataclasses

    told = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    return {**told, "classes": dict(found.classes), "strange": dict(found.strange), "fits": found.fits}


def _reasons(reasons: Any) -> list[dict[str, str]]:
    from kbdisk.entity import show

    return [{"class": of, "path": show(path), "reason": why} for (of, path), why in reasons.items()]


def _print_json(data: Any) -> None:
    with standard_output() as stream:
        stream.write(dump_json(data))


def _print_yaml(text: str) -> None:
    with standard_output() as stream:
        stream.write(text.encode())  # whatever a terminal speaks: files of schemas are UTF-8


def _print(text: str) -> None:
    screen.show(text)
