"""Every RDF syntax: what is good is read, what is bad is one line that names the place, nothing is fetched."""

from __future__ import annotations

import json
import socket
import ssl  # noqa: F401 - rdflib needs it, and it needs sockets to exist when it is first imported
import sys

import pytest
from tables import for_each

from kbdisk.entity import Date, Link, Text
from kbdisk.errors import KBDiskWarning, LoadError
from kbdisk.loaders import load

E = "@prefix : <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Whoever asks for the network in here fails."""
    import rdflib.plugins.parsers.notation3  # noqa: F401 - imports urllib, which looks at the real sockets

    def refuse(*arguments, **named):
        raise AssertionError("something asked for the network")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


def read(text, format="turtle", **options):
    data = text if isinstance(text, bytes) else text.encode()
    return {entity.id: entity for entity in load(data, format=format, **options)}


def fault(text, format="turtle", **options):
    """The one line that a bad document gets."""
    with pytest.raises(LoadError) as caught:
        read(text, format, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# ---------------------------------------------------------------- Turtle and TriG

GOOD_TURTLE = {
    "only a comment": "# nothing",
    "only white space": " \n\t\r\n",
    "only prefixes": "@prefix a: <http://a/> .\nPREFIX b: <http://b/>\nBASE <http://c/>\n@base <http://d/> .",
    "a prefix that is declared again": "@prefix a: <http://a/> . a:s a:p 1 . @prefix a: <http://b/> . a:s a:p 2 .",
    "a prefix alone": "@prefix a: <http://a/> . a: a: a: .",
    "every kind of string": r""":s :p 'a', "b", '''c'd''e''', \"\"\"f"g""h\"\"\", "\t\b\n\r\f\\\"\'", '''
        two lines''' .""".replace('\\"\\"\\"', '"""'),
    "numeric escapes": r':s :p "\u00E9\U0001F600", <http://e/\u00E9> .',
    "all controls": ':s :p "' + "".join(map(chr, (*range(1, 9), 11, 12, *range(14, 32), 127))) + '" .',
    "all punctuation in an IRI": "<scheme:!$%25&'()*+,-./0123456789:;=?@ABC_abc~#frag> :p :o .",
    "escapes in a local name": r":a\~\.\-\!\$\&\'\(\)\*\+\,\;\=\/\?\#\@\_\%AA :p :o .".replace(r"\%AA", "%AA"),
    "colons, dots and digits in names": ":a:b :c.d :0e . _:0.1 :p _:a.b .",
    "numbers": ":s :p 0, -1, +1, 01, 1.0, -.5, +1.5e3, 1E-4, .1e0, 1.0E+10 .",
    "truths": ":s :p true, false .",
    "languages": ":s :p 'a'@en, 'b'@en-GB-oed, 'c'@x-private .",
    "repeated semicolons": ":s :p 1 ;;; :q 2 ;; .",
    "brackets everywhere": "[] :p [ :q () ; :r ( [] (1 [ :s 2 ]) ) ] . [ :t 3 ] .",
    "a collection as a subject": "(1) :p (2) .",
    "keyword a as a predicate only": ":a a :a .",
    "no white space": "<http://e/s><http://e/p>'x'@en,<http://e/o>,_:b,[].",
    "a comment right after a name": ":s :p :o#comment\n.",
    "a datatype nobody knows": ":s :p 'x'^^:mine .",
    "directional language": ":s :p 'x'@ar--rtl .",
    "triple terms": ":s :p <<( :a :b <<( :c :d 1 )>> )>> . << :a :b :c >> :q 2 . :s :p :o {| :sure 0.9 |} .",
}


@for_each("name", GOOD_TURTLE)
@for_each("format", ["turtle", "trig", "n3"])
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_good_turtle_is_read(name, format):
    read(E + GOOD_TURTLE[name], format)
    read((E + GOOD_TURTLE[name]).replace("\n", "\r\n"), format)


def test_a_document_without_statements_has_no_entities():
    for text in ("# nothing\n", "\n", "@prefix a: <http://a/> ."):
        assert read(text) == {}
    for text in ("# nothing\n", "\n\n"):
        assert read(text, "ntriples") == read(text, "nquads") == {}


def test_a_file_without_a_byte_is_a_graph_without_triples_where_the_syntax_allows_it():
    for format in ("turtle", "ntriples", "nquads", "trig"):
        assert read(b"", format) == {}
    for format in ("rdfxml", "jsonld"):
        assert fault(b"", format) == "<memory>: expected some data, got an empty file."


BAD_TURTLE = {
    "an IRI with a space": ":s :p <http://e/a b> .",
    "an IRI with a bad escape": r":s :p <http://e/\u00ZZ> .",
    "an IRI with an escaped space": r":s :p <http://e/\u0020> .",
    "an IRI with a character escape": r":s :p <http://e/\n> .",
    "an IRI with a bracket": ":s :p <http://e/{a}> .",
    "a relative IRI": ":s :p <a> .",
    "a prefix that nobody declared": ":s :p none:o .",
    "a prefix without a colon": "@prefix a <http://a/> .",
    "a prefix without an IRI": "@prefix a: .",
    "a prefix in capitals with an at": "@PREFIX a: <http://a/> .",
    "a prefix without its dot": "@prefix a: <http://a/> :s :p :o .",
    "PREFIX with a dot": "PREFIX a: <http://a/> .",
    "a base without an IRI": "@base .",
    "a base without its dot": "@base <http://a/>\n:s :p :o .",
    "BASE with a dot": "BASE <http://a/> .",
    "a label that ends in a dot": "_:a. :p :o .",
    "a blank node as a predicate": ":s _:p :o .",
    "brackets as a predicate": ":s [] :o .",
    "a literal as a predicate": ":s 'p' :o .",
    "a literal as a subject": "'s' :p :o .",
    "a collection as a predicate": ":s () :o .",
    "no dot": ":s :p :o",
    "two dots": ":s :p :o ..",
    "no object": ":s :p .",
    "no predicate": ":s .",
    "a comma at the end": ":s :p 1, .",
    "a comma for a semicolon": ":s :p 1, :q 2 .",
    "a formula": "{ :s :p :o } => { :s :q :o } .",
    "braces": "{ :s :p :o } .",
    "a as a subject": "a :p :o .",
    "a as an object": ":s :p a .",
    "true as a subject": "true :p :o .",
    "true as a predicate": ":s true :o .",
    "an equals sign": ":s = :o .",
    "an arrow": ":s => :o .",
    "a path": ":s :p :o!:q .",
    "is of": ":s is :p of :o .",
    "has": ":s has :p :o .",
    "keywords": "@keywords a .",
    "a quantifier": "@forAll :x .",
    "a variable": "?x :p :o .",
    "a language with an underscore": ":s :p 'x'@en_GB .",
    "a language that begins with a digit": ":s :p 'x'@1 .",
    "a language and a datatype": ":s :p 'x'@en^^xsd:string .",
    "a datatype that is no IRI": ":s :p 'x'^^'y' .",
    "an escape that is none": r':s :p "\a" .',
    "an escape of too few digits": r':s :p "\u00E" .',
    "a lone surrogate": r':s :p "\uD800" .',
    "an escape beyond Unicode": r':s :p "\U00110000" .',
    "quotes that differ": ":s :p 'x\" .",
    "a newline in a short string": ":s :p 'a\nb' .",
    "a long string without an end": ":s :p '''a\nb .",
    "a long string that ends short": ":s :p '''a'' .",
    "a local name that begins with a dash": ":-a :p :o .",
    "a local name with a bad percent": ":a%2 :p :o .",
    "a local name with a bad escape": r":a\b :p :o .",
    "a local name with a tilde": ":a~b :p :o .",
    "a number with two dots": ":s :p 1.2.3 .",
    "a number with a letter": ":s :p 123abc .",
    "a number with no exponent": ":s :p 1e .",
    "a number with two signs": ":s :p +-1 .",
    "a bracket that stays open": ":s :p [ :q 1 .",
    "a bracket that was never open": ":s :p 1 ] .",
    "a collection that stays open": ":s :p (1 2 .",
    "a collection with a comma": ":s :p (1, 2) .",
    "a collection with a semicolon": ":s :p (1; 2) .",
    "a collection alone": "(1 2) .",
    "a quoted triple alone": "<< :s :p 'x' ,>> :q 1 .",
    "a document that ends in the middle": ":s :p 1 .\n:t :p",
    "a directive that ends in the middle": "@prefix b: <http://",
    "XML": "<?xml version='1.0'?><rdf/>",
    "JSON": '{"a": 1}',
}
FOR_N3 = ("formula", "equals", "arrow", "path", "is of", "has", "keywords", "quantifier", "variable", "braces")


@for_each("name", BAD_TURTLE)
def test_bad_turtle_is_one_line_with_its_number(name):
    assert fault("# first\n" + E + BAD_TURTLE[name]).startswith("<memory>:")


@for_each("name", [name for name in BAD_TURTLE if name not in ("braces", "no dot")])
def test_bad_trig_is_one_line_with_its_number(name):
    text = BAD_TURTLE[name]
    assert fault(E + text, "trig").startswith("<memory>:")
    assert fault(E + "GRAPH :g { " + text + " }", "trig").startswith("<memory>:")


@for_each(
    "name", [name for name in BAD_TURTLE if not any(word in name for word in FOR_N3) and name != "a lone surrogate"]
)
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_what_is_neither_turtle_nor_n3_is_one_line(name):
    lenient = {"a language with an underscore", "an IRI with a bad escape", "a quoted triple alone"}
    if name not in lenient:
        try:
            read(E + BAD_TURTLE[name], "n3")
        except LoadError as error:
            assert "\n" not in str(error)  # noqa: PT017 - N3 allows more than Turtle does


GOOD_TRIG = [
    "{ :s :p :o }",
    ":g { :s :p :o } :g { :s :p 1 . :t :p 2 . }",
    "GRAPH :g { :s :p :o ; }",
    "graph _:g { } [] { :s :p :o } _:h { :s :p :o }",
    ":s :p :o . :g { } :s :p 1 .",
    "@prefix a: <http://a/> . a:g { a:s a:p a:o } PREFIX a: <http://b/> a:g { a:s a:p a:o }",
]
BAD_TRIG = [
    ":g { :s :p :o",
    ":g { :s :p :o } }",
    ":g { :h { :s :p :o } }",
    "GRAPH { :s :p :o }",
    "GRAPH (1) { :s :p :o }",
    "'g' { :s :p :o }",
    ":g { @prefix a: <http://a/> . }",
    ":g { BASE <http://a/> }",
    ":g { :s :p }",
    ":g :h { :s :p :o }",
    "[ :p 1 ] { :s :p :o }",
    ":g { :s :p :o } .",
    ":g { GRAPH :h { } }",
]


@for_each("text", GOOD_TRIG)
def test_good_trig_is_read(text):
    read(E + text, "trig")


@for_each("text", BAD_TRIG)
def test_bad_trig_is_one_line(text):
    assert fault(E + text, "trig").startswith("<memory>:")


# ---------------------------------------------------------------- N-Triples and N-Quads

GOOD_LINES = [
    "",
    "# a comment",
    "<http://a> <http://p> <http://o> .",
    "<http://a> <http://p> <http://o>.",
    '<http://a><http://p>"x".',
    '<http://a>\t<http://p>\t"x"\t.\t# a comment',
    '<http://a> <http://p> "x"@en-GB .',
    '<http://a> <http://p> "x"^^<http://t> .',
    "_:a <http://p> _:0.b .",
    r'<http://a/\u00e9\U0001F600> <http://p> "\t\b\n\r\f\"\'\\\u00E9" .',
    '<scheme:a> <http://p> "' + "".join(map(chr, (*range(1, 10), 11, 12, *range(14, 32)))) + '" .',
    '<http://a> <http://p> "\u2028\u0085\ufeff" .',
    '<http://a> <http://p> <<( <http://a> <http://p> "x" )>> .',
]
BAD_LINES = [
    "<http://a> <http://p> <http://o>",
    "<a> <http://p> <http://o> .",
    "<http://a> <p> <http://o> .",
    "<http://a> <http://p> <o> .",
    "<http://a> <http://p> <http://o o> .",
    r"<http://a> <http://p> <http://o\u0020o> .",
    r"<http://a> <http://p> <http://o\n> .",
    '<http://a> <http://p> "x"^^<t> .',
    "<http://a> <http://p> 'x' .",
    '<http://a> <http://p> """x""" .',
    "<http://a> <http://p> 1 .",
    "<http://a> <http://p> 1.0 .",
    "<http://a> <http://p> true .",
    "<http://a> a <http://o> .",
    "@prefix a: <http://a/> .",
    "@base <http://a/> .",
    "<http://a> <http://p> <http://o>, <http://q> .",
    "<http://a> <http://p> <http://o>; <http://q> <http://o> .",
    '<http://a> <http://p> "x" . <http://a> <http://p> "y" .',
    '"x" <http://p> <http://o> .',
    '<http://a> "x" <http://o> .',
    "<http://a> _:p <http://o> .",
    "_:a. <http://p> <http://o> .",
    "<http://a> <http://p> [] .",
    "<http://a> <http://p> .",
    '<http://a> <http://p> "x" ..',
    '<http://a> <http://p> "x"@1 .',
    '<http://a> <http://p> "x"@en_GB .',
    r'<http://a> <http://p> "\a" .',
    r'<http://a> <http://p> "\u00E" .',
    r'<http://a> <http://p> "\uD800" .',
    '<http://a> <http://p> "x .',
    '<http://a> <http://p> x" .',
    '<http://a> <http://p>\n"x" .',
    "rubbish",
]


@for_each("text", GOOD_LINES)
@for_each("format", ["ntriples", "nquads"])
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_good_lines_are_read(text, format):
    known = '<http://z> <http://p> "known" .'
    for end in ("\n", "\r\n", "\r"):
        assert "http://z" in read(end.join([text, known, text]), format)


@for_each("text", BAD_LINES)
@for_each("format", ["ntriples", "nquads"])
def test_bad_lines_are_refused_with_their_number(text, format):
    known = '<http://z> <http://p> "known" .\n'
    assert fault(known + text + "\n" + known, format).startswith(("<memory>:2: ", "<memory>:3: "))
    assert fault(known + text, format).startswith(("<memory>:2: ", "<memory>:3: "))


def test_a_quad_in_ntriples_is_refused_and_in_nquads_read():
    quad = '<http://a> <http://p> "x" <http://g> .'
    assert fault(quad, "ntriples").startswith("<memory>:1: expected N-Triples")
    assert read(quad, "nquads")["http://a"].graph == "http://g"
    assert fault('<http://a> <http://p> "x" "g" .', "nquads").startswith("<memory>:1: expected N-Quads")
    assert fault('<http://a> <http://p> "x" <http://g> <http://h> .', "nquads").startswith("<memory>:1: ")


@for_each(
    ("text", "format", "message"),
    [
        (E + ":s :p <a> .", "turtle", "<memory>:2: expected an absolute IRI, got a relative one without a base. Say --base IRI."),
        (E + ":s :p", "turtle", "<memory>:2: expected more Turtle, got the end of the file. Get all of it."),
        (E + ":s :p '''a", "trig", "<memory>:2: expected more TriG, got the end of the file. Get all of it."),
        (E.encode() + b":s :p 'caf\xe9' .", "turtle", "<memory>:2: expected Turtle in UTF-8, got other bytes. Save it as UTF-8."),
        (E.encode("utf-16"), "turtle", "<memory>:1: expected Turtle in UTF-8, got other bytes. Save it as UTF-8."),
        ('<http://a> <http://p> "x', "ntriples", "<memory>:1: expected more N-Triples, got the end of the file. Get all of it."),
        ('<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n', "rdfxml",
         "<memory>:2: expected more RDF/XML, got the end of the file. Get all of it."),
    ],
)  # fmt: skip
def test_faults_are_told_in_plain_words(text, format, message):
    assert fault(text, format) == message


def test_a_value_beyond_what_the_parser_holds_is_one_line():
    message = fault(E + ':s :p "' + "x" * 17_000_000 + '" .')
    assert message.startswith("<memory>: expected values of up to 16 MB, got a longer one")


def test_what_is_just_long_is_read():
    name, text = "n" * 1_000_000, "x" * 1_000_000
    entity = read(f"<http://e/{name}> <http://e/p> '{text}' .")["http://e/" + name]
    assert entity.tree == {"p": text}


@for_each("depth", [1_000, 20_000, 100_000])
@for_each("format", ["turtle", "trig", "n3", "ntriples", "nquads"])
def test_triples_deep_within_triples_crash_nothing(depth, format):
    deep = "<http://e/a> <http://e/p> " + "<<( <http://e/a> <http://e/p> " * depth + '"x"' + " )>>" * depth + " ."
    assert fault(deep, format) == "<memory>: expected at most 100 triples within triples, got more. Write it flat."
    if format not in ("ntriples", "nquads"):
        assert "within triples" in fault(deep.replace("<<(", "<<").replace(")>>", ">>"), format)


def test_marks_of_triples_within_strings_are_none():
    text = "cout << x << y; " * 200
    assert read(E + f":a :p '''{text}''' .")["http://e/a"].tree == {"p": text}
    assert read(f'<http://e/a> <http://e/p> "{text}" .', "ntriples")["http://e/a"].tree == {"p": text}


@for_each("depth", [1, 50, 99])
def test_triples_within_triples_are_text_that_is_the_same_each_time(depth):
    text = ":a :p " + "<<( :a :p " * depth + "[]" + " )>>" * depth + " ."
    with pytest.warns(KBDiskWarning, match="a triple within a triple, kept as text"):
        first, second = read(E + text), read(E + text)
    assert first == second
    assert first["http://e/a"].tree["p"].count("<<(") == depth


# ---------------------------------------------------------------- --base


@for_each("format", ["turtle", "trig", "n3"])
def test_a_base_mends_relative_iris(format):
    found = read("<a> <p> <../b>, <#c>, <> .", format, base="http://base/x/y")
    assert found["http://base/x/a"].tree == {
        "p": [Link("http://base/b"), Link("http://base/x/y#c"), Link("http://base/x/y")]
    }


def test_the_base_in_the_document_comes_first():
    assert list(read("@base <http://inner/> . <a> <p> 1 .", base="http://outer/")) == ["http://inner/a"]


def test_a_base_that_is_no_iri_is_a_fault_of_the_option():
    for format, text in (("turtle", ":"), ("jsonld", "{}"), ("n3", ":")):
        assert fault(text, format, base="here").startswith("--base: expected an absolute IRI, got 'here'")


# ---------------------------------------------------------------- JSON-LD

VOCABULARY = {"@vocab": "http://e/"}


def test_jsonld_with_its_context_inside_is_read():
    context = {**VOCABULARY, "knows": {"@type": "@id"}, "list": {"@container": "@list"}}
    context |= {"born": {"@type": "http://www.w3.org/2001/XMLSchema#date"}}
    document = {
        "@context": context,
        "@id": "http://e/a",
        "@type": "T",
        "name": {"@value": "Ann", "@language": "en"},
        "knows": ["http://e/b", "http://e/c"],
        "list": [1, 2.5, "x", []],
        "born": "2012-02-29",
        "part": {"n": True},
        "none": None,
    }
    entity = read(json.dumps(document), "jsonld")["http://e/a"]
    assert entity.classes == ("http://e/T",)
    part = entity.tree.pop("part")
    assert part["n"] is True
    assert entity.tree == {
        "name": Text("Ann", "en"),
        "knows": [Link("http://e/b"), Link("http://e/c")],
        "list": [1, 2.5, "x", []],
        "born": Date(2012, 2, 29),
    }


def test_named_graphs_of_jsonld_are_kept():
    document = {"@context": VOCABULARY, "@graph": [{"@id": "http://e/g", "@graph": [{"@id": "http://e/a", "n": 1}]}]}
    assert read(json.dumps(document), "jsonld")["http://e/a"].graph == "http://e/g"


REMOTE = "https://schema.example/context"
NAMES_REMOTE = [
    {"@context": REMOTE, "@id": "http://e/a", "n": 1},
    {"@context": [VOCABULARY, REMOTE], "@id": "http://e/a", "n": 1},
    {"@context": VOCABULARY, "@id": "http://e/a", "part": {"@context": REMOTE, "n": 1}},
    {"@context": {**VOCABULARY, "part": {"@id": "http://e/part", "@context": REMOTE}}, "@id": "http://e/a", "part": {"n": 1}},
    {"@context": {**VOCABULARY, "@import": REMOTE, "@version": 1.1}, "@id": "http://e/a", "n": 1},
    [{"@context": REMOTE, "@id": "http://e/a", "n": 1}],
]  # fmt: skip


@for_each("document", NAMES_REMOTE)
def test_a_context_on_the_network_is_named_and_not_fetched(document):
    message = fault(json.dumps(document), "jsonld")
    assert message == (
        f"<memory>: the context {REMOTE} is on the network, and nothing is fetched. Say --context {REMOTE}=FILE."
    )


@for_each("document", NAMES_REMOTE)
def test_a_context_at_hand_is_put_in_its_place(document):
    for text in (b'{"@context": {"n": "http://r/number"}}', b'{"n": "http://r/number"}'):
        found = read(json.dumps(document), "jsonld", context={REMOTE: text})
        tree = found["http://e/a"].tree
        assert tree.get("number", tree.get("part", {}).get("number")) == 1


def test_a_context_may_name_others_and_itself_never():
    other = "http://other/"
    contexts = {REMOTE: json.dumps({"@context": [other]}).encode(), other: b'{"@context": {"n": "http://o/n"}}'}
    assert read(json.dumps(NAMES_REMOTE[0]), "jsonld", context=contexts)["http://e/a"].tree == {"n": 1}
    contexts[other] = json.dumps({"@context": REMOTE}).encode()
    assert "names itself" in fault(json.dumps(NAMES_REMOTE[0]), "jsonld", context=contexts)


def test_a_context_that_is_no_json_is_named():
    message = fault(json.dumps(NAMES_REMOTE[0]), "jsonld", context={REMOTE: b"{"})
    assert message.startswith(f"{REMOTE}: expected a JSON-LD context, got no JSON")


def test_numbers_survive_a_context_put_in_place():
    text = '{"@context": "http://c/", "@id": "http://e/a", "n": [123456789012345678901, 1.50, 1e400]}'.replace(
        ", 1e400", ""
    )
    contexts = {"http://c/": b'{"@vocab": "http://e/"}'}
    plain = text.replace('"http://c/"', '{"@vocab": "http://e/"}')
    assert read(text, "jsonld", context=contexts)["http://e/a"].tree == read(plain, "jsonld")["http://e/a"].tree


@for_each(
    "document",
    [
        {"@context": VOCABULARY, "@id": "a", "n": 1},
        {"@context": VOCABULARY, "@id": "http://e/a", "n": {"@id": "b"}},
        {"@context": VOCABULARY, "@id": "", "n": 1},
        {"@context": {**VOCABULARY, "@base": "rel/"}, "@id": "a", "n": 1},
        {"@context": VOCABULARY, "@graph": [{"@id": "g", "@graph": [{"@id": "http://e/a", "n": 1}]}]},
    ],
)
def test_a_relative_id_without_a_base_is_refused_and_mended_by_one(document):
    assert "without a base. Say --base IRI." in fault(json.dumps(document), "jsonld")
    assert read(json.dumps(document), "jsonld", base="http://base/")


def test_a_base_within_jsonld_is_a_base():
    document = {"@context": {**VOCABULARY, "@base": "http://base/"}, "@id": "a", "n": 1}
    assert list(read(json.dumps(document), "jsonld")) == ["http://base/a"]


@for_each(
    "text",
    [
        '{"@id": "http://e/a" "x": 1}',
        '{"@context": {"@vocab": "http://e/"}, "@id": "http://e/a", "n": NaN}',
        '{"@context": 5}',
        '{"@context": {"@vocab": 5}}',
        '{"@context": {"@vocab": "http://e/"}, "@id": "http://e/a b", "n": 1}',
        '{"@context": {"@vocab": "http://e/"}, "@id": 5}',
        '{"@id": "http://e/a", "http://e/p": {"@value": {}}}',
        b'{"@id": "http://e/\xff"}',
        "[" * 100_000 + "]" * 100_000,
        '{"@id": "http://e/a"',
    ],
    ids=lambda text: str(text[:60]),
)
def test_bad_jsonld_is_one_line(text):
    assert fault(text, "jsonld").startswith("<memory>")


@for_each("depth", [2_000, 5_000, 30_000, 100_000])
def test_deep_jsonld_crashes_nothing(depth):
    deep = '{"@context": {"@vocab": "http://e/"}, "p": ' + '{"p":' * depth + "1" + "}" * (depth + 1)
    assert "nest too deep" in fault(deep, "jsonld")
    assert len(read(deep.replace('{"p":' * depth, '{"p":' * 300).replace("}" * (depth + 1), "}" * 301), "jsonld")) == 2


def test_jsonld_with_a_byte_order_mark_is_read():
    text = b"\xef\xbb\xbf" + json.dumps(NAMES_REMOTE[0]).encode()
    assert read(text, "jsonld", context={REMOTE: b'{"n": "http://r/n"}'})["http://e/a"].tree == {"n": 1}


# ---------------------------------------------------------------- RDF/XML


def xml(body, attributes="", before=""):
    space = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/"'
    return f"{before}<rdf:RDF {space} {attributes}>{body}</rdf:RDF>"


A = '<rdf:Description rdf:about="http://e/a">{}</rdf:Description>'


def test_rdfxml_is_read():
    body = A.format(
        '<e:name xml:lang="de">Anna</e:name><e:part rdf:parseType="Resource"><e:n>2</e:n></e:part>'
        '<e:list rdf:parseType="Collection"><rdf:Description rdf:about="http://e/b"/><e:T rdf:about="http://e/c"/></e:list>'
        '<e:markup rdf:parseType="Literal"><b>bold</b></e:markup><e:knows rdf:resource="http://e/b"/>'
        '<e:n rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">5</e:n>'
    )
    found = read(xml(body), "rdfxml")
    tree = found["http://e/a"].tree
    assert tree["name"] == Text("Anna", "de")
    assert {key: value for key, value in tree["part"].items() if key != "@id"} == {"n": "2"}
    assert tree["list"] == [Link("http://e/b"), Link("http://e/c")]
    assert "bold" in tree["markup"]
    assert (tree["knows"], tree["n"]) == (Link("http://e/b"), 5)
    assert found["http://e/c"].classes == ("http://e/T",)


def test_the_base_of_xml_is_a_base_and_without_one_relative_iris_are_refused():
    body = '<rdf:Description rdf:about="a" e:p="1"/>'
    assert list(read(xml(body, 'xml:base="http://base/"'), "rdfxml")) == ["http://base/a"]
    assert list(read(xml(body), "rdfxml", base="http://option/")) == ["http://option/a"]
    assert fault(xml(body), "rdfxml").endswith("got a relative one without a base. Say --base IRI.")


@for_each("quote", ['"', "'"])
def test_entities_within_the_document_are_known(quote):
    before = f"<!DOCTYPE rdf:RDF [<!ENTITY w {quote}http://words/{quote}>]>"
    assert read(xml(A.format('<e:p rdf:resource="&w;x"/>'), before=before), "rdfxml")["http://e/a"].tree == {
        "p": Link("http://words/x")
    }


@for_each("place", ["SYSTEM 'file:///etc/hostname'", "SYSTEM 'http://net/x'", "PUBLIC 'x' 'http://net/x'"])
def test_entities_elsewhere_are_not_fetched(place):
    before = f"<!DOCTYPE rdf:RDF [<!ENTITY x {place}>]>"
    message = fault(xml(A.format("<e:p>&x;</e:p>"), before=before), "rdfxml")
    assert message == "<memory>:1: the entity x is in another file, and nothing is fetched. Put its text there."


def test_a_document_type_elsewhere_is_not_fetched():
    before = "<!DOCTYPE rdf:RDF SYSTEM 'http://net/x.dtd'>"
    assert read(xml(A.format("<e:p>y</e:p>"), before=before), "rdfxml")["http://e/a"].tree == {"p": "y"}
    assert fault(xml(A.format("<e:p>&y;</e:p>"), before=before), "rdfxml").startswith("<memory>")


def test_entities_that_grow_without_end_are_refused():
    growing = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    before = f'<!DOCTYPE rdf:RDF [<!ENTITY l0 "lol">{growing}]>'
    assert fault(xml(A.format("<e:p>&l9;</e:p>"), before=before), "rdfxml").startswith("<memory>:1: expected RDF/XML")


@for_each("encoding", ["ISO-8859-1", "UTF-16", "windows-1252", "US-ASCII", "utf-8"])
def test_other_encodings_of_xml_are_read(encoding):
    word = "cafe" if encoding == "US-ASCII" else "café"
    before = f'<?xml version="1.0" encoding="{encoding}"?>\n'
    text = xml(A.format(f"<e:p>{word}</e:p>"), before=before)
    assert read(text.encode(encoding), "rdfxml")["http://e/a"].tree == {"p": word}


@for_each(
    "text",
    [
        "hello",
        "<html><body/></html>",
        "<a><b></a></b>",
        xml(A.format("<e:p>1</e:q>")),
        xml(A.format("<e:p>1</e:p>"))[:-5],
        xml("<rdf:li/>"),
        xml('<rdf:Description rdf:about="http://e/a" rdf:ID="b"/>'),
        xml('<rdf:Description rdf:ID="1 2" xml:base="http://e/"/>'),
        xml(A.format('<e:p rdf:resource="http://e/a b"/>')),
        xml(A.format('<e:p xml:lang="e_n">x</e:p>')),
        xml(A.format("<undeclared:p>x</undeclared:p>")),
        xml("<e:T><e:p>" * 100_000 + "</e:p></e:T>" * 100_000),
        xml(A.format("<e:p>caf\xe9</e:p>")).encode("latin-1"),
        '<?xml version="1.0" encoding="nonsense"?><a/>',
    ],
    ids=lambda text: str(text[-60:]),
)
def test_bad_rdfxml_is_one_line(text):
    assert fault(text, "rdfxml").startswith("<memory>")


# ---------------------------------------------------------------- N3


def test_n3_that_is_turtle_is_read_as_turtle():
    assert read(E + ":a :p 1.50 ; :q [ :r 2 ] .", "n3") == read(E + ":a :p 1.50 ; :q [ :r 2 ] .", "turtle")


def test_true_n3_is_read_without_what_only_n3_can_say():
    text = E + "{ :x :p ?y } => { :x :q ?y } .\n:a :p +1.50 ; :q [ :r 2 ] ; :l (1 2) .\n:b is :p of :c .\n?z :p 1 ."
    with pytest.warns(KBDiskWarning, match="a statement that only N3 can say, left out"):
        found = read(text, "n3")
    assert list(found) == ["http://e/a", "http://e/c"]
    assert found["http://e/a"].tree == {"p": 1.5, "q": {"@id": "_:[0]", "r": 2}, "l": [1, 2]}
    assert found["http://e/c"].tree == {"p": Link("http://e/b")}


def test_ids_of_blank_nodes_in_n3_are_the_same_at_each_reading():
    text = E + ":b is :p of [ :q 1 ] . _:x is :p of _:y . [] :r [ :s [ :t 1 ] ], _:x ."
    first, second = read(text, "n3"), read(text, "n3")
    assert first == second
    assert list(first) == list(second)


@for_each(
    ("text", "complaint"),
    [
        ("{ :x :p ?y } => { :x", "<memory>:2: expected N3, got an error"),
        ("{ :x :p ?y } => { :x :y :z } . :a :p 'x' . :b", "<memory>:2: expected N3, got an error"),
        (":a is :p of <rel> .", "expected an absolute IRI, got 'rel' without a base. Say --base IRI."),
        ("{} => " + "{" * 5000, "nest too deep"),
        ("{} => {} . :a :p 'x .", "<memory>:2: "),
    ],
)
def test_bad_n3_is_one_line(text, complaint):
    with pytest.warns(KBDiskWarning) if "rel" in complaint and "=>" in text else _nothing():
        assert complaint in fault(E + text, "n3")


def _nothing():
    import contextlib

    return contextlib.nullcontext()


def test_n3_that_is_no_utf8_is_one_line():
    assert fault(E.encode() + b":a :p 'caf\xe9' .", "n3").startswith("<memory>")


# ---------------------------------------------------------------- nothing is fetched


def test_imports_of_an_ontology_are_not_followed():
    owl = (
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . <http://e/o> a owl:Ontology ; owl:imports <http://net/other> ."
    )
    for format in ("turtle", "n3"):
        assert read(owl, format)["http://e/o"].tree == {"imports": Link("http://net/other")}


def test_reading_asks_for_no_module_of_the_network():
    import subprocess

    code = (
        "import sys; from kbdisk.loaders import load\n"
        "assert list(load(b'<http://a> <http://p> <http://o> .', format='turtle'))\n"
        "assert not {'urllib.request', 'http.client', 'rdflib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
