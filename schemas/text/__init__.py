"""Dates, numbers, units and names as text."""
