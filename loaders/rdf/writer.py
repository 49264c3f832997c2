"""Completions into RDF: the source's bytes as they were, and one block after them.

What stands in an anonymous bracket cannot be reached from outside: with `insert` it goes into the bracket.
RDF/XML and JSON-LD have no room after their last byte: what is new is set into their
text (jsonld/, rdfxml/), or all of it is serialised again (translate.py).
"""

from __future__ import annotations

import io
import itertools
import shutil
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from pyoxigraph import BlankNode, Quad

from kbdisk.entity import Completion
from kbdisk.errors import KBDiskWarning
from kbdisk.loaders.edits import as_text, inverse_changes, spliced
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import Report
from kbdisk.loaders.rdf import blocks, brackets, jsonld, rdfxml, render, spelling, stream, syntax
from kbdisk.loaders.rdf.observed import ENOUGH, Observed
from kbdisk.loaders.rdf.spelling import Terms
from kbdisk.loaders.rdf.statements import Anonymous, Made, Reach, Statements
from kbdisk.loaders.rdf.translate import gathered, labelled, serialise, translate

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.file import RdfFile

ANEW = "has no place for all that is new, so it is serialised anew: it says the same, but looks otherwise"
CHANGES = {"jsonld": jsonld.changes_for, "rdfxml": rdfxml.changes_for}
SAMPLE = 1 << 20  # bytes of a document that show how it spells

Completions = Iterable[Completion]


def append(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    """What stands after the source's own bytes."""
    report = Report()
    _write_block(kb, made_of(kb, completions, report), stream_out, report)
    return report


def splice(kb: RdfFile, completions: Completions, stream_out: BinaryIO, insert: bool) -> Report:
    """The whole source with what was filled in it."""
    if not kb.appends:
        return _again(kb, completions, stream_out)
    if not insert or kb.is_n3:  # true N3 is no Turtle, and pyoxigraph does not tell where its brackets are
        with kb.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
        return append(kb, completions, stream_out)
    return _into_brackets(kb, completions, stream_out)


def _into_brackets(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    data = kb.source.read()
    report = Report()
    places = brackets.locate(data, kb.format, kb.options.base)
    inside: Anonymous = {number: [] for number in places}
    after = list(made_of(kb, completions, report, anonymous=inside))
    shorthand = spelling.shorthand_of(data[:SAMPLE])
    additions = {}
    for number, pairs in inside.items():
        terms = Terms(places[number].prefixes, shorthand=shorthand)
        additions[number] = [terms.pair(predicate, object) for predicate, object in pairs]
    stream_out.write(brackets.insert(data, places, additions))
    _write_block(kb, after, stream_out, report)
    return report


def _again(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    """RDF/XML and JSON-LD: the same bytes, and what is new set into them; serialised anew where that cannot be."""
    report = Report()
    given: list[Quad] = []
    new: list[Quad] = []
    if rest := [one for one in completions if one.filled]:
        with kb.again():
            kb.observe(given.extend)
        new += _quads(kb, rest, report, given)
    if not report.written:
        with kb.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
    elif (changes := CHANGES[kb.format](kb, given, new)) is not None:
        data = kb.source.read()
        report.edits += [(place, as_text(old), as_text(now)) for place, old, now in inverse_changes(changes, data)]
        stream_out.write(spliced(data, changes))
    else:
        warnings.warn(f"{kb.name}: {ANEW}", KBDiskWarning, stacklevel=2)
        serialise(itertools.chain(*labelled(kb, given, new)), stream_out, kb.format, kb.prefixes, kb.name)
    return report


def whole(kb: RdfKB, completions: Completions, stream_out: BinaryIO, format: str) -> Report:
    """All that the source says, and what is new, in another syntax."""
    report = Report()
    translate(kb, lambda given: _quads(kb, completions, report, given), stream_out, format)
    return report


def quads_of(kb: RdfKB, completions: Completions, report: Report) -> tuple[list[Quad], list[Quad]]:
    """The quads of a source, and what is new or was filled before."""
    return gathered(kb, lambda given: _quads(kb, completions, report, given))


def _quads(kb: RdfKB, completions: Completions, report: Report, given: list[Quad] | None) -> Iterator[Quad]:
    for made in made_of(kb, completions, report, Reach.ALL, given):
        report.written += len(made.paths)
        yield from made.quads


# ---------------------------------------------------------------- what is new


def made_of(
    kb: RdfKB,
    completions: Completions,
    report: Report,
    reach: Reach = Reach.LABELLED,
    given: list[Quad] | None = None,
    anonymous: Anonymous | None = None,
) -> Iterator[Made]:
    """What each completion says that has something to say."""
    statements: Statements | None = None
    for completion in completions:
        if completion.filled:
            statements = statements or Statements(kb, *observe(kb, given), reach, anonymous)
            yield statements.of(completion, report)


def observe(kb: RdfKB, given: list[Quad] | None = None) -> tuple[Observed, blocks.FreshLabels]:
    """The manner of a source, and labels that are new to it."""
    observed = Observed(kb.blanks())
    if given is not None:
        observed.add(given)
    else:
        with kb.again():
            kb.observe(lambda quads: observed.add(quads, ENOUGH if _is_large(kb) else None))
    with kb.source.open() if kb.source is not None else io.BytesIO() as bytes_in:
        labels = blocks.FreshLabels(bytes_in)
    labels.taken.update(raw.encode() for raw in observed.blanks.ids)
    labels.taken.update(name.value.encode() for name in observed.graphs.values() if type(name) is BlankNode)
    return observed, labels


def _is_large(kb: RdfKB) -> bool:
    return isinstance(kb.source, Source) and kb.format in syntax.LINES and stream.is_large(kb.source)


# ---------------------------------------------------------------- the block


def _write_block(kb: RdfFile, made: Iterable[Made], stream_out: BinaryIO, report: Report) -> None:
    """A block after the source, spelt as the source is; none where nothing is new."""
    writer: render.Writer | None = None
    for one in made:
        if one.quads:
            writer = writer or _block(kb, stream_out)
        if writer is not None:
            put(writer, one, report)
        else:
            report.written += len(one.paths)
    if writer is not None:
        writer.close()


def put(writer: render.Writer, made: Made, report: Report) -> None:
    """Write what is new of one entity; where that cannot be spelt, say so."""
    try:
        writer.write(made.quads)
    except ValueError as error:
        report.unwritable += [(made.id, path, str(error)) for path in made.paths]
    else:
        report.written += len(made.paths)


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
    newline = syntax.newline_of(sample)
    return render.block(stream_out, kb.format, terms, newline=newline, at_line_start=last == b"\n")
