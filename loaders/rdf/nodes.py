"""A node as RDF has it: its predicates by their IRIs, each with a list of values."""

from __future__ import annotations

from typing import Any, TypeAlias

Node: TypeAlias = dict[str, list[Any]]  # values as in an entity's tree; IRIs and blank nodes are Links
