"""Files and stores to entities, and completions back to the same format. Never imports torch."""

from __future__ import annotations

from kbdisk.loaders.files import Source
from kbdisk.loaders.formats import FORMATS, format_named, format_row, load, named_by, together, write
from kbdisk.loaders.kb import KB, MISSING, Options, Report

__all__ = [
    "FORMATS",
    "KB",
    "MISSING",
    "Options",
    "Report",
    "Source",
    "format_named",
    "format_row",
    "load",
    "named_by",
    "together",
    "write",
]
