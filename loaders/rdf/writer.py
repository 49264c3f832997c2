"""Completions written into their RDF source: a block after its bytes, values set into its text, or all its quads translated.

A block after the source's bytes cannot reach an anonymous bracket: with `insert` the new values go into the bracket. RDF/XML
and JSON-LD have no room after their last byte: new values are set into their text (jsonld.py, rdfxml.py), or all is
serialised again.

A translation into another syntax keeps every quad:

    given        as in the source
    a block      the values that earlier completions wrote into the source, then the new ones

Nodes without a label get one, always the same. RDF/XML and JSON-LD have no blocks: there all is one document.
"""

from __future__ import annotations

import io
import itertools
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from pyoxigraph import BlankNode, Quad

from kbdisk.entity import Completion
from kbdisk.errors import KBDiskWarning, WriteError
from kbdisk.loaders.edits import apply_changes, as_text, inverse_changes
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import Report
from kbdisk.loaders.rdf import blocks, jsonld, rdfxml, stream, syntax, turtle
from kbdisk.loaders.rdf.blank_nodes import blank_nodes, renamed_quad
from kbdisk.loaders.rdf.statements import Anonymous, EntityQuads, Reach, Statements
from kbdisk.loaders.rdf.styles import MAX_STATEMENTS_OBSERVED, Observed
from kbdisk.loaders.rdf.terms import XSD
from kbdisk.loaders.rdf.turtle import TermWriter

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.base import RdfKB
    from kbdisk.loaders.rdf.blank_nodes import BlankNodes
    from kbdisk.loaders.rdf.file import RdfFile


SERIALISED_ANEW = "has no place for all that is new, so it is serialised anew: it says the same, but looks otherwise"
CHANGES_IN_TEXT = {"jsonld": jsonld.changes_for, "rdfxml": rdfxml.changes_for}
SAMPLE_SIZE = 1 << 20  # bytes of a document that show its spelling

Completions = Iterable[Completion]


def append(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    """Write the block that follows the source's bytes."""
    report = Report()
    _write_block(kb, entity_quads_of(kb, completions, report), stream_out, report)
    return report


def splice(kb: RdfFile, completions: Completions, stream_out: BinaryIO, insert: bool) -> Report:
    """Write the source with filled values."""
    if not kb.appends:
        return _splice_into_text(kb, completions, stream_out)
    if not insert or kb.is_n3:  # pyoxigraph cannot locate the brackets of N3 that is no Turtle
        with kb.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
        return append(kb, completions, stream_out)
    return _into_brackets(kb, completions, stream_out)


def _into_brackets(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    data = kb.source.read()
    report = Report()
    places = blocks.locate_brackets(data, kb.format, kb.options.base)
    inside: Anonymous = {number: [] for number in places}
    after = list(entity_quads_of(kb, completions, report, anonymous=inside))
    shorthand = turtle.shorthand_of(data[:SAMPLE_SIZE])
    additions = {}
    for number, pairs in inside.items():
        terms = TermWriter(places[number].prefixes, shorthand=shorthand)
        additions[number] = [terms.pair(predicate, object) for predicate, object in pairs]
    stream_out.write(blocks.insert_in_brackets(data, places, additions))
    _write_block(kb, after, stream_out, report)
    return report


def _splice_into_text(kb: RdfFile, completions: Completions, stream_out: BinaryIO) -> Report:
    """Write RDF/XML or JSON-LD with new values set into its bytes; serialise it anew where that is impossible."""
    report = Report()
    given_quads: list[Quad] = []
    new: list[Quad] = []
    if filled_completions := [completion for completion in completions if completion.filled]:
        with kb.again():
            kb.observe(given_quads.extend)
        new += _new_quads(kb, filled_completions, report, given_quads)
    if not report.written:
        with kb.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream_out, 1 << 20)
    elif (changes := CHANGES_IN_TEXT[kb.format](kb, given_quads, new)) is not None:
        data = kb.source.read()
        report.edits += [(place, as_text(old), as_text(now)) for place, old, now in inverse_changes(changes, data)]
        stream_out.write(apply_changes(data, changes))
    else:
        warnings.warn(f"{kb.name}: {SERIALISED_ANEW}", KBDiskWarning, stacklevel=2)
        serialise_quads(
            itertools.chain(*label_quads(kb, given_quads, new)), stream_out, kb.format, kb.prefixes, kb.name
        )
    return report


def translate(kb: RdfKB, completions: Completions, stream_out: BinaryIO, format: str) -> Report:
    """Write the source and the new values in another syntax."""
    report = Report()
    translate_quads(kb, lambda given_quads: _new_quads(kb, completions, report, given_quads), stream_out, format)
    return report


def quads_of(kb: RdfKB, completions: Completions, report: Report) -> tuple[list[Quad], list[Quad]]:
    """The given quads of a source, and those of new and earlier filled values."""
    return gather_quads(kb, lambda given_quads: _new_quads(kb, completions, report, given_quads))


def _new_quads(kb: RdfKB, completions: Completions, report: Report, given_quads: list[Quad] | None) -> Iterator[Quad]:
    for made in entity_quads_of(kb, completions, report, Reach.ALL, given_quads):
        report.written += len(made.paths)
        yield from made.quads


# ---------------------------------------------------------------- new quads


def entity_quads_of(
    kb: RdfKB,
    completions: Completions,
    report: Report,
    reach: Reach = Reach.LABELLED,
    given_quads: list[Quad] | None = None,
    anonymous: Anonymous | None = None,
) -> Iterator[EntityQuads]:
    """The quads of each completion with filled values."""
    statements: Statements | None = None
    for completion in completions:
        if completion.filled:
            statements = statements or Statements(kb, *observe_source(kb, given_quads), reach, anonymous)
            yield statements.quads_of(completion, report)


def observe_source(kb: RdfKB, given_quads: list[Quad] | None = None) -> tuple[Observed, blocks.FreshLabels]:
    """The statistics of a source, and blank node labels that are new to it."""
    observed = Observed(kb.blanks())
    if given_quads is not None:
        observed.add(given_quads)
    else:
        with kb.again():
            kb.observe(lambda quads: observed.add(quads, MAX_STATEMENTS_OBSERVED if _is_large(kb) else None))
    with kb.source.open() if kb.source is not None else io.BytesIO() as bytes_in:
        labels = blocks.FreshLabels(bytes_in)
    labels.taken.update(raw.encode() for raw in observed.blanks.ids)
    labels.taken.update(name.value.encode() for name in observed.graphs.values() if type(name) is BlankNode)
    return observed, labels


def _is_large(kb: RdfKB) -> bool:
    return isinstance(kb.source, Source) and kb.format in syntax.LINES and stream.is_large(kb.source)


# ---------------------------------------------------------------- the block


def _write_block(kb: RdfFile, all_entity_quads: Iterable[EntityQuads], stream_out: BinaryIO, report: Report) -> None:
    """Write a block after the source, spelt as the source is; none where nothing is new."""
    writer: turtle.QuadWriter | None = None
    for entity_quads in all_entity_quads:
        if entity_quads.quads:
            writer = writer or _open_block(kb, stream_out)
        if writer is not None:
            write_entity(writer, entity_quads, report)
        else:
            report.written += len(entity_quads.paths)
    if writer is not None:
        writer.close()


def write_entity(writer: turtle.QuadWriter, made: EntityQuads, report: Report) -> None:
    """Write the quads of one entity; where they cannot be spelt, report that."""
    try:
        writer.write(made.quads)
    except ValueError as error:
        report.unwritable += [(made.id, path, str(error)) for path in made.paths]
    else:
        report.written += len(made.paths)


def _open_block(kb: RdfFile, stream_out: BinaryIO) -> turtle.QuadWriter:
    with kb.source.open() as bytes_in:
        sample = bytes_in.read(SAMPLE_SIZE)
        last = sample[-1:]
        while chunk := bytes_in.read(SAMPLE_SIZE):
            last = chunk[-1:]
    terms = TermWriter()
    if kb.format not in syntax.LINES:
        with kb.source.open() as bytes_in:
            base = kb.base if turtle.relative_iris(bytes_in) else None
        terms = TermWriter(kb.prefixes, base, turtle.shorthand_of(sample))
    newline = syntax.newline_of(sample)
    return turtle.write_block(stream_out, kb.format, terms, newline=newline, at_line_start=last == b"\n")


# ---------------------------------------------------------------- all quads in another syntax


QUADS_PER_CHUNK = 10_000  # quads
# Datatypes whose literals have no quotes in Turtle.
BARE_DATATYPES = frozenset(XSD + name for name in ("integer", "decimal", "boolean"))
SERIALISERS = {"jsonld": jsonld.serialise, "rdfxml": rdfxml.serialise}

Quads = Iterable[Quad]
New = Callable[[list[Quad] | None], Iterator[Quad]]  # the new quads, from the given ones; None: these were not kept


def translate_quads(kb: RdfKB, new: New, stream: BinaryIO, format: str) -> None:
    """Write all quads of a source, and the new ones."""
    if kb.format in syntax.LINES and format in syntax.TEXTUAL:
        _translate_streamed(kb, new, stream, format)
        return
    given_quads, filled = gather_quads(kb, new)
    if format in ("rdfxml", "jsonld"):
        serialise_quads([*given_quads, *filled], stream, format, kb.prefixes, kb.name)
        return
    terms = TermWriter(kb.prefixes, shorthand=BARE_DATATYPES)
    if format == "sparql-update":
        with turtle.write_update(stream, terms) as document:
            write_in_chunks(document, [*given_quads, *filled], kb.name)
        return
    with turtle.write_document(stream, format, terms) as document:
        write_in_chunks(document, given_quads, kb.name)
    with turtle.write_block(stream, format, terms.standing_alone()) as block:
        write_in_chunks(block, filled, kb.name)


def gather_quads(kb: RdfKB, new: New) -> tuple[list[Quad], list[Quad]]:
    """The given quads of a source; and those of earlier completions with the new ones."""
    given_quads: list[Quad] = []
    with kb.again():
        kb.observe(given_quads.extend)
    return label_quads(kb, given_quads, new(given_quads))


def label_quads(kb: RdfKB, given_quads: list[Quad], new: Quads) -> tuple[list[Quad], list[Quad]]:
    """The given quads with a label for every node; and those of earlier completions with the new ones."""
    labels = _BlankNodeLabels(kb.blanks(), given_quads)
    filled = [*_earlier_quads(kb, labels, given_quads), *map(labels.quad, new)]
    return list(dict.fromkeys(map(labels.quad, given_quads))), filled  # several sources may hold the same quad


def _earlier_quads(kb: RdfKB, labels: _BlankNodeLabels, given_quads: list[Quad]) -> list[Quad]:
    """The quads of the blocks of kbdisk in the source."""
    if not kb.is_completed:
        return []
    everything: list[Quad] = []
    with kb.again():
        kb.observe_all(everything.extend)
    same = _BlankNodeLabels(kb.blanks(), everything)
    known = {labels.quad(quad) for quad in given_quads}
    return [quad for quad in map(same.quad, everything) if quad not in known]


def _translate_streamed(kb: RdfKB, new: New, stream: BinaryIO, format: str) -> None:
    """Translate a file of lines in little memory: its nodes have labels already."""
    terms = TermWriter(shorthand=BARE_DATATYPES)
    with turtle.write_document(stream, format, terms) as document, kb.again():
        kb.observe(lambda quads: write_in_chunks(document, quads, kb.name))
    with turtle.write_block(stream, format, terms) as block:
        write_in_chunks(block, kb.earlier(), kb.name)
        write_in_chunks(block, new(None), kb.name)


def write_in_chunks(document: turtle.QuadWriter, quads: Quads, name: str) -> None:
    """Write quads into a document, in chunks."""
    unwritten = iter(quads)
    try:
        while chunk := list(itertools.islice(unwritten, QUADS_PER_CHUNK)):
            document.write(chunk)
    except ValueError as error:
        raise _refusal(name, document.format, error) from None


def serialise_quads(quads: Quads, stream: BinaryIO, format: str, prefixes: dict[str, str], name: str) -> None:
    """Write quads as a document of RDF/XML or JSON-LD."""
    usable = TermWriter(prefixes).prefixes
    try:
        SERIALISERS[format](list(quads), stream, usable)
    except ValueError as error:
        raise _refusal(name, format, error) from None


def _refusal(name: str, format: str, error: ValueError) -> WriteError:
    title = syntax.TITLES.get(format, format)
    return WriteError(name, f"cannot be written as {title}: {error}. Choose another format, such as TriG (.trig).")


class _BlankNodeLabels:
    """Quads with a label for every node."""

    def __init__(self, blanks: BlankNodes, quads: Quads) -> None:
        for quad in quads:
            for node in blank_nodes(quad.subject, quad.object, quad.graph_name):
                blanks.id(node.value)
        taken = {raw for raw in blanks.ids if raw not in blanks.numbers}
        free = (name for n in itertools.count(1) if (name := f"b{n}") not in taken)
        self.names = {raw: BlankNode(name) for raw, name in zip(blanks.numbers, free, strict=False)}

    def quad(self, quad: Quad) -> Quad:
        """The same quad."""
        return renamed_quad(quad, self._node) if self.names else quad

    def _node(self, node: BlankNode) -> BlankNode:
        return self.names.get(node.value, node)
