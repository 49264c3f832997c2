"""Schemas of kbdisk as schemas of other languages."""
