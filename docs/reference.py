"""Pages of the site that are made of the code when it is built: commands, API, run files, schema keys, decisions.

`make docs` writes them into a folder, beside copies of the pages that people write, and zensical makes a site of that folder.
README, CONTRIBUTING and CHANGELOG become pages, too. Nothing generated is committed, so nothing can be out of date.
"""

from __future__ import annotations

import ast
import html
import inspect
import io
import posixpath
import re
import shutil
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import kbdisk
from kbdisk.api.belief import Belief, LabelBelief, NumberBelief, SetBelief, TextBelief
from kbdisk.api.vectors import EntityVectors
from kbdisk.cli import main
from kbdisk.completion.config import CompletionConfig
from kbdisk.schemas.yaml import format_schema
from kbdisk.sklearn import KBImputer
from kbdisk.training.run import PRESETS, Run

ROOT = Path(__file__).parents[1]
TOP_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
RESULTS = "benchmarks/results"  # in the repository, and in the site
DECISIONS = ROOT / "docs" / "decisions"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
TRAINED = re.compile(r"^```(\w+) trained$", re.MULTILINE)  # tests/transcripts.py says what that means
FUNCTIONS = ("load", "infer", "train", "open", "complete", "complete_shards", "write", "locked")
NO_COMMENT = "see the description of the table"
MAX_SIGNATURE = 90  # characters of a signature in one line


# ---------------------------------------------------------------- the pages of the site


def write_pages(folder: Path) -> None:
    """Write all pages of the site, and its pictures, into a folder that is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copytree(ROOT / RESULTS, folder / RESULTS, ignore=shutil.ignore_patterns("*.jsonl"))
    for name, page in TOP_PAGES.items():
        shutil.copyfile(ROOT / name, folder / page)
    for name, page in GENERATED.items():
        (folder / name).write_text(page())
    for file in folder.rglob("*.md"):
        file.write_text(as_page(file.read_text(), str(file.relative_to(folder))))


def as_page(markdown: str, name: str) -> str:
    """A file of the repository as a page of the site: its links lead to pages, its blocks have no mark for tests, its errors do not break."""
    in_repository = {page: file for file, page in TOP_PAGES.items()}.get(name, f"docs/{name}")

    def rewritten(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), match[1]))
        return posixpath.relpath(TOP_PAGES.get(target, target.removeprefix("docs/")), posixpath.dirname(name) or ".")

    return TRAINED.sub(r"```\1", LINK.sub(rewritten, markdown)).replace(" ± ", "\u00a0±\u00a0")


# ---------------------------------------------------------------- commands


def commands_page() -> str:
    """Each command with its arguments and options, as its help has them."""
    parts = ["# Commands\n", "What `kbdisk COMMAND --help` says, of all commands.\n"]
    for names, command in commands_of(main):
        context = click.Context(command, info_name=" ".join(names))
        parts.append(f"## {' '.join(names)}\n")
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"```text\n{' '.join(names)} {usage}\n```\n")
        parts.extend(_help(command.help or ""))
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if isinstance(parameter, click.Option) and record is not None:
                parts.append(f"`{record[0]}`\n:   {_plain(record[1])}\n")
    return "\n".join(parts)


def commands_of(
    group: click.Command, names: tuple[str, ...] = ("kbdisk",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands of a group and of the groups within it, in the order of the alphabet."""
    for name, command in sorted(getattr(group, "commands", {}).items()):
        if isinstance(command, click.Group):
            yield from commands_of(command, (*names, name))
        else:
            yield (*names, name), command


def _help(text: str) -> Iterator[str]:
    r"""The paragraphs of a command's help; those behind \b are examples."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f"```sh\n{paragraph[2:]}\n```\n"
        else:
            yield f"{_plain(' '.join(paragraph.split()))}\n"


def _plain(text: str) -> str:
    """Plain text as Markdown: what is in backticks stays, and nothing else is markup."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*_\[\]|])", r"\\\1", html.escape(piece, quote=False))
        for piece in pieces
    )


# ---------------------------------------------------------------- Python API


def api_page() -> str:
    """The public names of kbdisk with their signatures and docstrings."""
    classes = [name for name in kbdisk.__all__ if inspect.isclass(getattr(kbdisk, name))]
    constants = [name for name in kbdisk.__all__ if name not in (*FUNCTIONS, *classes)]
    parts = [
        "# Python API\n",
        "All of it is in `kbdisk`, where a module is not named. What is not here is not public.\n",
    ]
    parts.append("## Functions\n")
    for name in FUNCTIONS:
        parts.extend(_function(f"kbdisk.{name}", name, getattr(kbdisk, name), "###"))
    parts.append("## Classes\n")
    for name in classes:
        parts.extend(_class(f"kbdisk.{name}", getattr(kbdisk, name)))
    parts.append("## Beliefs\n\nWhat `model.belief` gives: the class depends on the kind of the property.\n")
    for belief in (Belief, NumberBelief, LabelBelief, SetBelief, TextBelief):
        parts.extend(_class(belief.__name__, belief))
    parts.append("## Entity vectors\n\nWhat `model.vectors` gives.\n")
    parts.extend(_class("EntityVectors", EntityVectors))
    parts.append("## Options of a completion\n")
    parts.extend(_class("CompletionConfig", CompletionConfig))
    parts.append("## scikit-learn\n")
    parts.extend(_class("kbdisk.sklearn.KBImputer", KBImputer))
    parts.append("## Constants\n")
    parts.extend(f"`kbdisk.{name}`\n:   `{getattr(kbdisk, name)!r}`\n" for name in constants)
    return "\n".join(parts)


def _function(title: str, name: str, function: Any, level: str) -> Iterator[str]:
    """A function: its name, signature and docstring."""
    yield f"{level} {title}\n"
    yield f"```python\n{_signature(name, function)}\n```\n"
    yield f"{_docstring(function)}\n"


def _class(title: str, kind: type) -> Iterator[str]:
    """A class: its docstring, its fields, its public methods and properties."""
    yield f"### {title}\n"
    yield f"{_docstring(kind)}\n"
    if is_dataclass(kind):
        notes = comments_of(kind)
        for field in fields(kind):
            if not field.name.startswith("_"):
                yield f"`{field.name}: {field.type}`\n:   {_with_choices(notes.get(field.name, ''), kind)}\n"
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property | cached_property):
            function = member.fget if isinstance(member, property) else member.func
            yield f"`{name}`\n:   {_indented(_docstring(function))}\n"
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(member, "__func__", member)
            yield f"`{_signature(name, function)}`\n:   {_indented(_docstring(function))}\n"


def _signature(name: str, function: Any) -> str:
    """A signature without self; one parameter a line where it is long."""
    signature = inspect.signature(function)
    shown: list[str] = []
    for place, parameter in enumerate(signature.parameters.values()):
        if place == 0 and parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        shown.append(_parameter(parameter))
    returned = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(shown)}){returned}"
    if len(line) <= MAX_SIGNATURE:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in shown), f"){returned}"])


def _parameter(parameter: inspect.Parameter) -> str:
    """A parameter as it stands in the source, its annotation without quotes."""
    text = str(parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))
    if parameter.annotation is not parameter.empty:
        text += f": {parameter.annotation}"
    if parameter.default is not parameter.empty:
        text += f" = {parameter.default!r}"
    return text


def _docstring(thing: Any) -> str:
    """A docstring as Markdown: indented lines are code."""
    text = inspect.getdoc(thing) or ""
    paragraphs = [part if part.startswith("    ") else _plain(part) for part in text.split("\n\n")]
    return "\n\n".join(paragraphs)


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ").lstrip()


# ---------------------------------------------------------------- run files


def run_files_page() -> str:
    """Each table of a run file with its keys, their defaults, and what they mean; what the presets change."""
    parts = [RUN_FILES]
    for name, table in _tables(Run.of("default")):
        parts.append(f"## [{name}]\n" if name else "## At the top\n")
        if name:
            parts.append(f"{_docstring(type(table))}\n")
        parts.extend(_keys(table))
    parts.append("## Presets\n\nWhat a preset sets in another way than `default`.\n")
    base = dict(settings_of(Run.of("default")))
    for preset in PRESETS:
        changed = {key: value for key, value in settings_of(Run.of(preset)) if base.get(key) != value}
        if preset != "default":
            parts.append(f"### {preset}\n")
            parts.append("| key | value | in `default` |\n|---|---|---|")
            parts.extend(f"| `{key}` | `{_toml(value)}` | `{_toml(base.get(key))}` |" for key, value in changed.items())
            parts.append("")
    return "\n".join(parts)


RUN_FILES = """# Run files

A run file sets how a model is trained: `kbdisk train kb.ttl --config run.toml`. It is TOML, and what it leaves out is the
preset's (`--preset`, `default` unless another is named). An unknown key is an error that lists the known ones. Values below are those of the preset
`default`; 0 for a size that is fitted to the data, and *none* for a limit that is not set.
"""


def _tables(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """A dataclass and those within it, each with the name of its table."""
    yield name, value
    for key, part in _members(value):
        if is_dataclass(part) or isinstance(part, Mapping):
            inner = f"{name}.{key}" if name else key
            if isinstance(part, Mapping):
                for kind, config in part.items():
                    yield from _tables(config, f"{inner}.{kind}")
            else:
                yield from _tables(part, inner)


def _members(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value)]


def settings_of(run: Run) -> Iterator[tuple[str, Any]]:
    """Every setting of a run by its dotted name."""
    for name, table in _tables(run):
        for key, value in _members(table):
            if key != "preset" and not is_dataclass(value) and not isinstance(value, Mapping):
                yield f"{name}.{key}" if name else key, value


def _keys(table: Any) -> Iterator[str]:
    notes = comments_of(type(table))
    for key, value in _members(table):
        if key != "preset" and not is_dataclass(value) and not isinstance(value, Mapping):
            yield f"`{key} = {_toml(value)}`\n:   {_with_choices(notes.get(key, ''), type(table))}\n"


def _with_choices(note: str, kind: type) -> str:
    """A comment in which the name of a table is replaced by the names of its rows."""

    def choices(match: re.Match[str]) -> str:
        table = getattr(sys.modules[kind.__module__], match[1], None)
        return match[0] if table is None else f"one of {', '.join(table)}"

    return _plain(re.sub(r"\b(?:a row|one) of ([A-Z][A-Z_]+)\b", choices, note)) or NO_COMMENT


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def comments_of(kind: type) -> dict[str, str]:
    """What the comments beside the fields of a dataclass say, of its base classes, too."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not is_dataclass(base):
            continue
        source = textwrap.dedent(inspect.getsource(base))
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
        [tree] = ast.parse(source).body
        for node in getattr(tree, "body", []):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                above = _above(node.lineno, source.splitlines())
                notes[node.target.id] = " ".join([*above, *(comments[line] for line in lines if line in comments)])
    return notes


def _above(line: int, source: list[str]) -> list[str]:
    """The comment lines directly above a line."""
    found: list[str] = []
    while line > 1 and source[line - 2].lstrip().startswith("#"):
        found.insert(0, source[line - 2].strip().lstrip("# "))
        line -= 1
    return found


# ---------------------------------------------------------------- schema keys, decisions


def schema_keys_page() -> str:
    """Every key of a schema file, from the JSON Schema of schema files."""
    schema = format_schema()
    sections = [("the file", schema)] + [(SCHEMA_PARTS.get(name, name), part) for name, part in schema["$defs"].items()]
    parts = ["# Schema keys\n", "All keys of [schema files](schema-language.md), as `kbdisk schema format` has them.\n"]
    for name, part in sections:
        described = {key: value for key, value in part.get("properties", {}).items() if "description" in value}
        if not described or name.endswith(" property"):
            continue
        parts.append(f"## Keys of {name}\n\n{_plain(part.get('description', ''))}\n")
        for key, value in described.items():
            default = value.get("default")
            shown = "" if default in (None, "", [], {}) else f" Default: `{_toml(default)}`."
            parts.append(f"`{key}`\n:   {_plain(value['description'])}{shown}\n")
    return "\n".join(parts)


SCHEMA_PARTS = {"ClassKeys": "a class", "RuleKeys": "a rule", "constraint": "a constraint", "property": "any property"}


def decisions_page() -> str:
    """A list of the decisions, newest last."""
    rows = []
    for file in sorted(DECISIONS.glob("[0-9]*.md")):
        number, _, title = file.read_text().splitlines()[0].removeprefix("# ").partition(": ")
        rows.append(f"| {number} | [{title[:1].upper()}{title[1:]}]({file.name}) |")
    return "\n".join(
        [
            "# Decisions\n",
            "Decisions that were hard, with their reasons and what would change them.\n",
            "Each was written once and is not rewritten. Those up to 0042 name modules as they were called then; later ones map old names to new.\n",
            "| number | decision |\n|---|---|",
            *rows,
            "",
        ]
    )


GENERATED: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "api.md": api_page,
    "run-files.md": run_files_page,
    "schema-keys.md": schema_keys_page,
    "decisions/index.md": decisions_page,
}


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
