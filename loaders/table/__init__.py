"""CSV and TSV: rows as entities, and new values in the bytes of blank cells."""
