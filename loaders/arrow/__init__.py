"""Parquet and Arrow streams: rows as entities, and new values cast to the types of their columns."""
