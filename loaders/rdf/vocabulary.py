"""IRIs that mean something to us."""

from __future__ import annotations

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
WIKIBASE = "http://wikiba.se/ontology#"
OURS = "urn:kbdisk:"  # what a tree says that RDF has no word for
KEY = OURS + "key:"  # a key that was no IRI
ID = OURS + "id:"  # an id that was no IRI
THING = OURS + "thing"  # the class of what has nothing else
PART = OURS + "part"  # a part with nothing in it

TYPE = RDF + "type"
FIRST, REST, NIL, LIST = RDF + "first", RDF + "rest", RDF + "nil", RDF + "List"
CHAIN = {FIRST: "rdf:first", REST: "rdf:rest"}  # keys where a collection is not well-formed
SUBCLASS = RDFS + "subClassOf"
LATITUDE, LONGITUDE = GEO + "lat", GEO + "long"
STRING = XSD + "string"

LABELS = (RDFS + "label", SKOS + "prefLabel", "http://schema.org/name", "https://schema.org/name")

WELL_KNOWN = {  # names for predicates whose last word is taken, where a file has no prefix of its own
    RDF: "rdf",
    RDFS: "rdfs",
    SKOS: "skos",
    GEO: "geo",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://schema.org/": "schema",
    "https://schema.org/": "schema",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://dbpedia.org/ontology/": "dbo",
    "http://dbpedia.org/property/": "dbp",
    "http://www.w3.org/ns/prov#": "prov",
    "http://www.opengis.net/ont/geosparql#": "geosparql",
    "http://qudt.org/schema/qudt/": "qudt",
}
