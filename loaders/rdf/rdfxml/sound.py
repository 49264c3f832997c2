"""RDF/XML before it is parsed: whole, well-formed, of sane size, and in UTF-8. Nothing that it names is fetched.

The parser itself would take a document that ends in the middle for a whole one, and write out entities
that hold entities until memory is full.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

from kbdisk.errors import LoadError
from kbdisk.loaders.rdf import syntax

WIDE = (b"\xff\xfe", b"\xfe\xff")  # a document in UTF-16 begins so
DEEP = 20_000  # levels; the parser takes time by their square

_DECLARED = re.compile(rb"\A\s*<\?xml\b[^>]*?\?>")
_QUOTED = re.compile(rb"(<!ENTITY\s+[^\s\"'>]+\s+)'([^'\"]*)'")  # the parser knows double quotes alone


def prepared(data: bytes, name: str) -> bytes:
    """The document as the parser can read it; what is not well-formed is refused."""
    encoding = _Check(name).over(data)
    if encoding.lower() != "utf-8":
        text = data.decode(encoding).removeprefix("\ufeff")
        data = _DECLARED.sub(b"", text.encode())
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as every XML parser does, but for this one
    return _QUOTED.sub(rb'\1"\2"', data) if b"<!ENTITY" in data else data


class _Check:
    """One look at the document by a parser that keeps nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.depth = 0
        self.within: list[int] = []  # the depths of the triple terms around
        self.encoding = ""
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._entity
        parser.XmlDeclHandler = self._declaration

    def over(self, data: bytes) -> str:
        """Look at all of it; returns its encoding."""
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            raise self._fault(error) from None
        except LookupError as error:
            raise LoadError(self.name, f"expected RDF/XML in UTF-8, got an {error}. Save it as UTF-8.", 1) from None
        return "utf-16" if data[:2] in WIDE else self.encoding or "utf-8"

    def _fault(self, error: expat.ExpatError) -> LoadError:
        said = expat.errors.messages.get(error.code, str(error))
        if said == expat.errors.XML_ERROR_NO_ELEMENTS or (self.depth and said == expat.errors.XML_ERROR_UNCLOSED_TOKEN):
            return LoadError(self.name, "expected more RDF/XML, got the end of the file. Get all of it.", error.lineno)
        return LoadError(self.name, f"expected RDF/XML, got an error: {said}. Mend it there.", error.lineno)

    def _start(self, name: str, attributes: Any) -> None:
        self.depth += 1
        if self.depth > DEEP:
            line = self.parser.CurrentLineNumber
            raise LoadError(self.name, f"expected at most {DEEP:,} levels, got more. Write it flat.", line)
        if any(key.endswith("parseType") and value == "Triple" for key, value in attributes.items()):
            self.within.append(self.depth)
            if len(self.within) > syntax.MAX_NESTED_TRIPLES:
                raise syntax.too_deeply_nested(self.name, self.parser.CurrentLineNumber)

    def _end(self, name: str) -> None:
        if self.within and self.within[-1] == self.depth:
            self.within.pop()
        self.depth -= 1

    def _entity(self, name: str, parameter: bool, value: str | None, *place: str | None) -> None:
        if value is None and not parameter:
            problem = f"the entity {name} is in another file, and nothing is fetched. Put its text there."
            raise LoadError(self.name, problem, self.parser.CurrentLineNumber)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        self.encoding = encoding or ""
