"""`kbdisk schema`: infer, show and check schemas, and exchange them with other schema languages."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import open_source, source_options
from kbdisk.cli.progress import show_reading
from kbdisk.cli.screen import say, write_json
from kbdisk.errors import KBDiskWarning, SchemaError
from kbdisk.loaders.files import standard_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbdisk.entity import Path as EntityPath
    from kbdisk.inspection import Findings
    from kbdisk.schemas.schema import Schema


@click.group()
def schema() -> None:
    """Which kind of value stands where: infer it, show it, check a source against it.

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
@click.option("--explain", is_flag=True, help="A table of the decisions and their reasons, instead of the schema.")
@click.option("--json", "as_json", is_flag=True, help="The schema and the reasons as one JSON object.")
@click.option(
    "--rules",
    is_flag=True,
    help="Also search for rules: values that follow exactly from others, with their exceptions.",
)
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
    quiet: bool,
    **options: Any,
) -> None:
    """Infer the schema of SOURCE, in one pass; with --rules in two.

    The schema is YAML on standard output, made to be edited: a comment above each property gives the reason for its
    kind. Rules stand below the classes, with the numbers of known values that agree and of exceptions. Exits with
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
    with warnings.catch_warnings(), show_reading(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)  # kbdisk inspect shows what is odd in a source
        kb = open_source(source, options, progress)
        inference = kbdisk.infer(kb, classes=options["classes"], rules=rules)
    if as_json:
        reasons, left_out = _reason_rows(inference.reasons), _reason_rows(inference.left_out)
        data = {"source": kb.name, "schema": _schema_data(inference.schema), "reasons": reasons, "left_out": left_out}
        write_json(data)
    elif explain:
        from kbdisk.cli.schema_tables import render_reasons

        screen.show(render_reasons(inference))
    else:
        _write_yaml(inference.to_yaml())
    context.exit(1 if kb.skipped else 0)


@schema.command()
@click.argument("schema")
@click.option("--json", "as_json", is_flag=True, help="The schema as one JSON object instead of tables.")
def show(schema: str, as_json: bool) -> None:
    """Show SCHEMA as tables: each property with its kind, its restrictions and its leaves.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input.

    \b
    kbdisk schema show phone
    kbdisk schema show phone.yaml
    kbdisk schema infer kb.ttl | kbdisk schema show -
    """
    opened = open_schema(schema)
    if as_json:
        write_json({"schema": _schema_data(opened), "leaves": _leaf_kinds(opened)})
        return
    from kbdisk.cli.schema_tables import render_schema

    screen.show(render_schema(opened, schema))


@schema.command()
@click.argument("schema")
@click.argument("source")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object instead of tables, with all findings and full names."
)
@click.option("--strict", is_flag=True, help="Paths and classes that only one side has are findings, too.")
@source_options
@click.option("--all", "everything", is_flag=True, help="Show every finding.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@click.pass_context
def check(
    context: click.RichContext,
    /,
    schema: str,
    source: str,
    as_json: bool,
    strict: bool,
    everything: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Show which values of SOURCE do not fit SCHEMA: how many, and the first places.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input. Exits with status 1
    where a value does not fit, where a path looks misspelt, or where --skip-errors skipped something. Paths and
    classes that only one side has are shown; they count as findings with --strict. A constraint such as born <= died
    is checked against all values at both paths.

    \b
    kbdisk schema check phone gsm.csv
    kbdisk schema check phone.yaml phones.jsonl --json | jq .misfits
    kbdisk schema infer old.jsonl | kbdisk schema check - new.jsonl
    """  # fmt: skip
    from kbdisk import inspection

    if schema == source == "-":
        raise click.UsageError("SCHEMA and SOURCE both want standard input.")
    opened = open_schema(schema)
    schema = "the schema" if schema == "-" else schema
    with warnings.catch_warnings(), show_reading(quiet, f"reading {source}") as progress:
        warnings.simplefilter("ignore", KBDiskWarning)
        kb = open_source(source, options, progress)
        findings = inspection.check(opened, kb, name=schema, classes=options["classes"])
    if as_json:
        write_json({"schema": schema, **_findings_data(findings)})
    else:
        from kbdisk.cli.schema_tables import render_findings

        screen.show(render_findings(findings, schema, everything))
    fits = findings.fits_exactly if strict else findings.fits
    context.exit(0 if fits and not findings.skipped else 1)


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
    "language",
    metavar="LANGUAGE",
    callback=lambda context, parameter, language: _known_language(language),
    help="The schema language of FILE, if its content does not tell it: shacl, jsonschema, linkml, or one that an installed package adds.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not list what was left out.")
def import_(file: str, language: str | None, quiet: bool) -> None:
    """Make a schema of FILE: SHACL shapes, a JSON Schema, or LinkML.

    The schema is YAML on standard output. Parts of FILE that a schema cannot express are listed on standard error: every
    constraint of SHACL that is not enforced, with its class and property, one a line.

    \b
    kbdisk schema import shapes.ttl > city.yaml
    kbdisk schema import phone.schema.json > phone.yaml
    kbdisk schema import model.yaml --from linkml > model.kb.yaml
    """  # fmt: skip
    from kbdisk.schemas import importers

    imported = importers.read(file, language)
    _write_yaml(imported.schema.to_yaml())
    for part in [] if quiet else imported.left_out:
        say(f"left out: {part}")


@schema.command()
@click.argument("schema")
def export(schema: str) -> None:
    """Write SCHEMA as a JSON Schema of the data, on standard output.

    SCHEMA is a file, the name of a schema of the library (phone), or - for standard input.

    \b
    kbdisk schema export phone > phone.schema.json
    """
    from kbdisk.schemas.exporters import jsonschema

    write_json(jsonschema.export(open_schema(schema)))


@schema.command("format")
def format_() -> None:
    """Write the JSON Schema of schema files themselves, so that editors complete them.

    A schema then begins with the line: # yaml-language-server: $schema=kbdisk-schema.json

    \b
    kbdisk schema format > kbdisk-schema.json
    """
    from kbdisk.schemas.yaml import format_schema

    write_json(format_schema())


@schema.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def library(as_json: bool) -> None:
    """List the schemas that come with kbdisk; each name can stand for a schema file.

    \b
    kbdisk schema library
    kbdisk schema show phone
    """
    from kbdisk.schemas import library

    schemas = {name: open_schema(name) for name in library.names()}
    if as_json:
        write_json({name: {"label": opened.label, "classes": list(opened.classes)} for name, opened in schemas.items()})
        return
    from kbdisk.cli.schema_tables import render_library

    rows = ((name, opened.label, ", ".join(opened.classes)) for name, opened in schemas.items())
    screen.show(render_library(rows))


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


def _write_yaml(text: str) -> None:
    with standard_output() as stream:
        stream.write(text.encode())  # schema files are UTF-8, whatever the encoding of the terminal


# ---------------------------------------------------------------- as JSON


def _schema_data(schema: Schema) -> dict[str, Any]:
    """A schema with the keys of its file."""
    from kbdisk.schemas.yaml.serialize import written_schema

    return written_schema(schema)


def _leaf_kinds(schema: Schema) -> dict[str, dict[str, str]]:
    """The kind of every leaf by its path, for each class."""
    from kbdisk.schemas.composites import show_pattern
    from kbdisk.schemas.kinds import kind_of

    return {
        name: {show_pattern(path): kind_of(leaf) for path, leaf in class_.leaves().items()}
        for name, class_ in schema.classes.items()
    }


def _findings_data(findings: Findings) -> dict[str, Any]:
    data = {field.name: getattr(findings, field.name) for field in dataclasses.fields(findings)}
    return {**data, "classes": dict(findings.classes), "strange": dict(findings.strange), "fits": findings.fits}


def _reason_rows(reasons: Mapping[tuple[str, EntityPath], str]) -> list[dict[str, str]]:
    from kbdisk.entity import show

    return [{"class": name, "path": show(path), "reason": reason} for (name, path), reason in reasons.items()]
