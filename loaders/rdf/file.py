"""RDF files: small ones and those of nested syntaxes are grouped in memory; large N-Triples and N-Quads are streamed
(rdf/stream.py). Blocks of an earlier completion are left out of the trees.
"""

from __future__ import annotations

import contextlib
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, BinaryIO

from pyoxigraph import Quad

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import Options, Placeless, Report, Retraction
from kbdisk.loaders.rdf import blocks, graph, stream, syntax
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.blank_nodes import BlankNodes
from kbdisk.loaders.rdf.fold import Trees

BLOCK_WITHOUT_END = f'a block of kbdisk without its line "{blocks.END.decode()}": all that follows counts as filled in'
MAX_LINES_TRIED = 200  # lines that are tried one by one where there is a fault among them; at least 2


class RdfFile(RdfKB):
    """Entities of an RDF file."""

    source: Source

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        self.appends = format in syntax.TEXTUAL
        self.plan: stream.Plan | None = None
        self.is_n3 = False  # whether it is N3 that is no Turtle, known once it was read

    def keeps_bytes(self, format: str) -> bool:
        return format == self.format or (not self.is_n3 and {format, self.format} == {"turtle", "n3"})

    @cached_property
    def has_mark(self) -> bool:
        """Whether it begins with a byte order mark, which the parser would refuse."""
        with self.source.open() as bytes_in:
            return bytes_in.read(len(BOM_UTF8)) == BOM_UTF8

    def open(self) -> BinaryIO:
        """The text, after a byte order mark if there is one."""
        bytes_in = self.source.open()
        if self.has_mark:
            bytes_in.read(len(BOM_UTF8))
        return bytes_in

    @cached_property
    def has_blocks(self) -> bool:
        """Whether an earlier completion wrote into it."""
        if not self.appends:
            return False
        with self.source.open() as bytes_in:
            return blocks.has_blocks(bytes_in)

    @cached_property
    def hex_labels(self) -> set[str]:
        """Labels of blank nodes that look like those of anonymous ones."""
        if self.format in syntax.LINES or self.format not in syntax.TEXTUAL:
            return set()
        with self.source.open() as bytes_in:
            return blocks.hex_labels(bytes_in)

    def blanks(self) -> BlankNodes:
        """The blank nodes of one parse of this file."""
        anonymous = self.format not in syntax.LINES
        return BlankNodes(anonymous=anonymous, labels=self.hex_labels if anonymous else ())

    def new_trees(self) -> Trees:
        """Empty trees that take in quads of this file."""
        return Trees(self.name, self.odd, self.names, self.blanks(), self.format in syntax.GRAPHS)

    @cached_property
    def is_sound(self) -> bool:
        """Whether the parser can read it without a crash; a fault where it cannot."""
        if self.format in syntax.TEXTUAL:
            syntax.check_nesting(self.source.open, self.name, self.format in syntax.LINES)
        return True

    def read(self) -> Iterator[Entity]:
        assert self.is_sound
        if stream.is_streamed(self):
            return self.finish(stream.entities_of(self))
        return super().read()

    def parse(self, take: Callable[[Iterable[Any]], None], given_only: bool = True) -> None:
        """Hand all quads to `take`, with faults as LoadErrors or skipped; then set prefixes and base."""
        assert self.is_sound
        plain = None if self.has_mark else self.source.plain_path
        left_out = given_only and self.has_blocks
        lines_of_their_own = self.options.skip_errors and self.format in syntax.LINES
        if self.format in ("rdfxml", "jsonld", "n3"):
            self._parse_whole(take, left_out)
        elif plain is not None and not left_out and not lines_of_their_own:
            self._parse_from(str(plain), take)
        else:
            with self._given(left_out) as text:
                self._parse_lines(text, take) if lines_of_their_own else self._parse_from(text, take)

    @contextlib.contextmanager
    def _given(self, left_out: bool) -> Iterator[BinaryIO]:
        """The text, perhaps with the blocks of kbdisk left out."""
        lines: list[int] = []
        with self.open() as bytes_in:
            yield blocks.without_blocks(bytes_in, self.format, lines.append) if left_out else bytes_in
        for place in (f"{self.name}:{line}" for line in dict.fromkeys(lines)):
            if place not in self.odd.places.get(BLOCK_WITHOUT_END, ()):  # a source is gone through twice
                self.odd.note(BLOCK_WITHOUT_END, place)

    def _parse_whole(self, take: Callable[[Iterable[Any]], None], left_out: bool) -> None:
        """Parse a syntax whose whole text is checked first."""
        with self._given(left_out) as text:
            data = text.read()
        if self.format == "rdfxml":
            from kbdisk.loaders.rdf import rdfxml

            self._parse_from(rdfxml.prepare(data, self.name), take)
        elif self.format == "n3":
            self._parse_n3(data, take)
        else:
            from kbdisk.loaders.rdf import jsonld

            data = jsonld.prepare(data, self.options.context, self.name)
            base = self.options.base or syntax.NO_BASE
            self._parse_from(data, lambda quads: take(syntax.refuse_relative(quads, self.name)), base)

    def _parse_n3(self, data: bytes, take: Callable[[Iterable[Any]], None]) -> None:
        """Parse N3. Most of it is Turtle, and the whole text shows whether it is."""
        quads: list[Any] = []
        try:
            self._parse_from(data, quads.extend)
        except LoadError as fault:
            if fault.source != self.name:  # an option's
                raise
            self.is_n3 = True
            quads = list(graph.n3(data, fault, self.options.base, self.odd))
        take(quads)

    def _parse_from(
        self, origin: str | bytes | BinaryIO, take: Callable[[Iterable[Any]], None], base: str | None = None
    ) -> None:
        parser = syntax.parser(origin, self.format, base or self.options.base)
        with self._faults():
            take(parser)
        self.prefixes = dict(parser.prefixes)
        self.base = parser.base_iri or self.options.base

    def _parse_lines(self, bytes_in: BinaryIO, take: Callable[[Iterable[Any]], None]) -> None:
        """Parse statements of one line each, without the lines that are none."""
        line = 0
        while text := bytes_in.read(stream.BLOCK_SIZE):
            text += bytes_in.readline()
            self._parse_from(self.without_faults(text, line), take)
            line += text.count(b"\n")

    @contextlib.contextmanager
    def _faults(self, line: int | None = None) -> Iterator[None]:
        """Turn a parser's faults into LoadErrors; `line` is the number of lines before the parsed text."""
        try:
            yield
        except SyntaxError as error:
            fault = syntax.fault(error, self.name, self.format)
            raise fault if line is None else LoadError(self.name, fault.problem, line + (error.lineno or 1)) from None
        except MemoryError as error:
            problem = f"expected values of up to 16 MB, got a longer one ({error}). Shorten it."
            raise LoadError(self.name, problem) from None
        except OSError as error:
            raise LoadError(self.name, f"cannot be read: {error}.") from error

    def without_faults(self, text: bytes, line: int) -> bytes:
        """Complete lines, of which those that are no statements are skipped and left empty."""
        try:
            deque(syntax.parser(text, self.format, self.options.base), maxlen=0)
        except (SyntaxError, MemoryError):
            rows = text.split(b"\n")
            if len(rows) > MAX_LINES_TRIED:
                half = b"\n".join(rows[: len(rows) // 2]) + b"\n"
                before = self.without_faults(half, line)
                return before + self.without_faults(text[len(half) :], line + len(rows) // 2)
            return b"\n".join(row if self._is_sound(row, line + i) else b"" for i, row in enumerate(rows))
        return text

    def _is_sound(self, row: bytes, line: int) -> bool:
        try:
            with self._faults(line):
                deque(syntax.parser(row, self.format, self.options.base), maxlen=0)
        except LoadError as error:
            self.skip(error)
            return False
        return True

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        self.parse(take)

    def observe_all(self, take: Callable[[Iterable[Any]], None]) -> None:
        self.parse(take, given_only=False)

    @property
    def is_completed(self) -> bool:
        return self.has_blocks

    def earlier(self) -> Iterator[Quad]:
        if self.has_blocks:
            with self.open() as bytes_in:
                text = blocks.only_blocks(bytes_in, self.format)
            yield from syntax.parser(text, self.format, self.options.base)

    def parse_text(self, text: bytes, take: Callable[[Iterable[Any]], None], line: int | None) -> None:
        """Hand the quads of some whole lines of this file to `take`; `line` is the number of lines before them."""
        parser = syntax.parser(text, self.format, self.options.base)
        try:
            with self._faults(line):
                take(parser)
        except LoadError:
            if line is None:
                self.parse(deque(maxlen=0).extend)  # raises the same fault with its place
            raise

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        from kbdisk.loaders.rdf import writer

        return writer.splice(self, completions, stream, insert)

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        from kbdisk.loaders.rdf import retract

        retractions = list(retractions)
        if all((retraction.entity.made or {}).keys() <= retraction.values.keys() for retraction in retractions):
            retract.without_blocks(self, stream)
            return []
        return retract.without_values(self, retractions, stream)

    def append(self, completions: Iterable[Completion], stream: BinaryIO) -> Report:
        from kbdisk.loaders.rdf import writer

        return writer.append(self, completions, stream)
