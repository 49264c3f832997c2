"""RDF/XML: looked at before it is parsed, and new statements set into its text."""
