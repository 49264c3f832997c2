"""Wikibase beside RDF: its data model, JSON dumps, QuickStatements. Its RDF is rdf/wikibase.py."""
