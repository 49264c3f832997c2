"""Entities of an RDF file.

Small files and those of syntaxes that nest are grouped in memory; large N-Triples and N-Quads files are
streamed (stream.py). What stands in our own blocks of an earlier completion is left out of the trees.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, BinaryIO

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError
from kbdisk.loaders.kb import Report
from kbdisk.loaders.options import Options
from kbdisk.loaders.rdf import blocks, brackets, graphs, stream, syntax
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.blanks import Blanks
from kbdisk.loaders.rdf.trees import Trees
from kbdisk.loaders.source import Source


class RdfFile(RdfKB):
    """Entities of an RDF file."""

    source: Source

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        self.appends = format in syntax.TEXTUAL
        self.plan: stream.Plan | None = None

    def keeps(self, format: str) -> bool:
        turtle = {"turtle", "n3"}
        return format == self.format or {format, self.format} == turtle

    @cached_property
    def has_mark(self) -> bool:
        """Whether it begins with a byte order mark, which the parser would refuse."""
        with self.source.open() as bytes_in:
            return bytes_in.read(3) == BOM_UTF8

    def open(self) -> BinaryIO:
        """The text, after a byte order mark if there is one."""
        bytes_in = self.source.open()
        if self.has_mark:
            bytes_in.read(3)
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
            return brackets.hex_labels(bytes_in)

    def blanks(self) -> Blanks:
        """The blank nodes of one parse of this file."""
        anonymous = self.format not in syntax.LINES
        return Blanks(anonymous=anonymous, labels=self.hex_labels if anonymous else ())

    def new_trees(self) -> Trees:
        """Nothing yet, ready to take in quads of this file."""
        return Trees(self.name, self.odd, self.names, self.blanks(), self.format in syntax.GRAPHS)

    def read(self) -> Iterator[Entity]:
        if stream.wanted(self):
            return self.finish(stream.entities(self))
        return super().read()

    def trees(self) -> Trees:
        trees = self.new_trees()
        self.parse(trees.add)
        return trees

    def parse(self, take: Callable[[Iterable[Any]], None], given_only: bool = True) -> None:
        """Hand all quads to `take`, faults turned into ours or skipped; then tell prefixes and base."""
        plain = None if self.has_mark else self.source.plain_path
        left_out = given_only and self.has_blocks
        if self.format == "jsonld":
            self._parse_from(syntax.with_contexts(self.source.read(), self.options.context, self.name), take)
        elif plain is not None and not left_out:
            self._parse_from(str(plain), take)
        else:
            with self.open() as bytes_in:
                self._parse_from(blocks.without_blocks(bytes_in, self.format) if left_out else bytes_in, take)

    def _parse_from(self, origin: str | bytes | BinaryIO, take: Callable[[Iterable[Any]], None]) -> None:
        parser = syntax.parser(origin, self.format, self.options.base)
        while True:
            try:
                take(parser)
                break
            except SyntaxError as error:
                if self.format == "n3":
                    take(graphs.n3(self.source, self.options.base))
                    return
                problem = syntax.fault(error, self.name, self.format)
                if self.format not in syntax.LINES:
                    raise problem from None
                self.skip(problem)
            except OSError as error:
                raise LoadError(self.name, f"cannot be read: {error}.") from error
        self.prefixes = dict(parser.prefixes)
        self.base = parser.base_iri or self.options.base

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        self.parse(take)

    def parse_text(self, text: bytes, take: Callable[[Iterable[Any]], None], first_line: int | None) -> None:
        """Hand the quads of some whole lines of this file to `take`."""
        parser = syntax.parser(text, self.format, self.options.base)
        while True:
            try:
                take(parser)
                return
            except SyntaxError as error:
                problem = syntax.fault(error, self.name, self.format)
                if first_line is not None:
                    problem = LoadError(self.name, problem.problem, first_line + (error.lineno or 1))
                elif not self.options.skip_errors:
                    self.parse(deque(maxlen=0).extend)  # meets the same fault where it stands
                self.skip(problem)

    def whole(self) -> Trees | None:
        if not self.has_blocks:
            return None
        trees = self.new_trees()
        self.parse(trees.add, given_only=False)
        return trees

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        from kbdisk.loaders.rdf import writer

        return writer.splice(self, completions, stream, insert)

    def append(self, completions: Iterable[Completion], stream: BinaryIO) -> Report:
        from kbdisk.loaders.rdf import writer

        return writer.append(self, completions, stream)
