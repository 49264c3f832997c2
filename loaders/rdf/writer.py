"""Completions into RDF: the source's bytes as they were, and one block after them.

What stands in an anonymous bracket cannot be reached from outside: with `insert` it goes into the bracket.
RDF/XML and JSON-LD have no room after their last byte: they are parsed and serialised again.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyoxigraph
from pyoxigraph import Quad

from kbdisk.entity import Completion, Entity
from kbdisk.errors import WriteError
from kbdisk.loaders.kb import Report
from kbdisk.loaders.rdf import blocks, brackets, render, scan, spelling, stream, syntax
from kbdisk.loaders.rdf.observed import ENOUGH, Observed
from kbdisk.loaders.rdf.plain import Plain
from kbdisk.loaders.rdf.spelling import Terms
from kbdisk.loaders.rdf.statements import Anonymous, Made, Statements
from kbdisk.loaders.source import Source

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.file import RdfFile

SAMPLE = 1 << 20  # bytes of a document that show how it spells


def append(kb: RdfFile, completions: Iterable[Completion], stream_out: BinaryIO) -> Report:
    """What stands after the source's own bytes."""
    report = Report()
    _write_block(kb, _new(kb, completions, report), stream_out)
    return report


def splice(kb: RdfFile, completions: Iterable[Completion], stream_out: BinaryIO, insert: bool) -> Report:
    """The whole source with what was filled in it."""
    if not kb.appends:
        return _again(kb, completions, stream_out)
    if not insert:
        with kb.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
        return append(kb, completions, stream_out)
    return _into_brackets(kb, completions, stream_out)


def _into_brackets(kb: RdfFile, completions: Iterable[Completion], stream_out: BinaryIO) -> Report:
    data = kb.source.read()
    report = Report()
    places = brackets.locate(data, kb.format, kb.options.base)
    inside: Anonymous = {number: [] for number in places}
    after = list(_new(kb, completions, report, inside))
    shorthand = spelling.shorthand_of(data[:SAMPLE])
    additions = {}
    for number, pairs in inside.items():
        terms = Terms(places[number].prefixes, shorthand=shorthand)
        additions[number] = [terms.pair(predicate, object) for predicate, object in pairs]
    stream_out.write(brackets.insert(data, places, additions))
    _write_block(kb, iter(after), stream_out)
    return report


def _again(kb: RdfFile, completions: Iterable[Completion], stream_out: BinaryIO) -> Report:
    """RDF/XML and JSON-LD: the same bytes where nothing is new, else all of it serialised anew."""
    report = Report()
    quads: list[Quad] = []
    kb.parse(quads.extend)
    new: list[Quad] = []
    statements = _statements(kb, quads, everywhere=True)
    for completion in completions:
        made = statements.of(completion, report)
        report.written += made.values
        new += made.quads
    if new:
        serialise([*quads, *new], stream_out, kb.format, kb.prefixes, kb.name)
        return report
    with kb.source.open() as bytes_in:
        shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
    return report


def serialise(quads: Iterable[Any], stream_out: BinaryIO, format: str, prefixes: dict[str, str], name: str) -> None:
    """Quads as a document of a format that pyoxigraph writes."""
    try:
        usable = Terms(prefixes).prefixes
        pyoxigraph.serialize(_without_graphs(quads, format), stream_out, format=syntax.FORMATS[format], prefixes=usable)
    except ValueError as error:
        raise WriteError(name, f"cannot be written as {syntax.TITLES[format]}: {error}. Choose another format.") from None


def fresh(items: Iterable[Entity | Completion], stream_out: BinaryIO, format: str, only_new: bool) -> Report:
    """Entities serialised anew; or only what was filled in them, as their knowledge base would say it."""
    report = Report()
    made = _only_new(items, report) if only_new else _whole(items)
    if format in ("rdfxml", "jsonld"):
        quads = list(_counted(made, report))
        serialise(quads, stream_out, format, {}, format)
        return report
    document = render.update(stream_out) if format == "sparql-update" else render.document(stream_out, format)
    with document as writer:
        for one in made:
            writer.write(one.quads)
            report.written += one.values
    return report


def _whole(items: Iterable[Entity | Completion]) -> Iterator[Made]:
    plain = Plain()
    for item in items:
        if isinstance(item, Completion):
            yield Made(list(plain.entity(item.entity, item.tree())), len(item.filled))
        else:
            yield Made(list(plain.entity(item, item.tree)), 0)


def _only_new(items: Iterable[Entity | Completion], report: Report) -> Iterator[Made]:
    from kbdisk.loaders.rdf.base import RdfKB

    plain = Plain()
    statements: Statements | None = None
    for item in items:
        if not isinstance(item, Completion) or not item.filled:
            continue
        kb = item.entity.source
        if isinstance(kb, RdfKB):
            statements = statements or _statements(kb)
            yield statements.of(item, report)
        else:
            yield Made(list(plain.new(item)), len(item.filled))


def _counted(made: Iterable[Made], report: Report) -> Iterator[Quad]:
    for one in made:
        report.written += one.values
        yield from one.quads


def _new(
    kb: RdfFile, completions: Iterable[Completion], report: Report, anonymous: Anonymous | None = None
) -> Iterator[Made]:
    """What each completion says that has something to say; counted as written."""
    statements: Statements | None = None
    for completion in completions:
        if completion.filled:
            statements = statements or _statements(kb, anonymous=anonymous)
            made = statements.of(completion, report)
            report.written += made.values
            yield made


def _statements(
    kb: RdfKB, quads: list[Quad] | None = None, anonymous: Anonymous | None = None, everywhere: bool = False
) -> Statements:
    """What turns completions of a knowledge base into quads as it has them."""
    observed = Observed(kb.blanks())
    if quads is not None:
        observed.add(quads)
    else:
        kb.observe(lambda quads: observed.add(quads, ENOUGH if _large(kb) else None))
    with kb.source.open() if kb.source is not None else io.BytesIO() as bytes_in:
        labels = blocks.FreshLabels(bytes_in)
    return Statements(kb, observed, labels, anonymous, everywhere)


def _large(kb: RdfKB) -> bool:
    return isinstance(kb.source, Source) and kb.format in syntax.LINES and stream.is_large(kb.source)


def _write_block(kb: RdfFile, made: Iterator[Made], stream_out: BinaryIO) -> None:
    """A block after the source, spelt as the source is; none where nothing is new."""
    first = next((one for one in made if one.quads), None)
    if first is None:
        return
    with _block(kb, stream_out) as writer:
        writer.write(first.quads)
        for one in made:
            writer.write(one.quads)


def _block(kb: RdfFile, stream_out: BinaryIO) -> render.Writer:
    with kb.source.open() as bytes_in:
        sample = bytes_in.read(SAMPLE)
        last = sample[-1:]
        while chunk := bytes_in.read(SAMPLE):
            last = chunk[-1:]
    terms = Terms()
    if kb.format not in syntax.LINES:
        with kb.source.open() as bytes_in:
            base = kb.base if spelling.relative_iris(bytes_in) else None
        terms = Terms(kb.prefixes, base, spelling.shorthand_of(sample))
    newline = scan.newline_of(sample)
    return render.block(stream_out, kb.format, terms, newline=newline, at_line_start=last == b"\n")


def _without_graphs(quads: Iterable[Any], format: str) -> Iterator[Any]:
    """Triples, where a format has no named graphs."""
    flat = format == "rdfxml"
    return (quad.triple if flat else quad for quad in quads)
