"""JSON-LD: contexts in their place before it is parsed, and new statements set into its text."""
