"""Schemas: the kind of value at each path, for each class."""
