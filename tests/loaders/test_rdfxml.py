"""New values set into RDF/XML: what the text becomes, and that it says what it did and no more."""

import warnings
from xml.sax.saxutils import escape, quoteattr

import pytest
from fillings import E, before_and_after, filled
from hypothesis import given
from hypothesis import strategies as st
from judges import says
from tables import for_each

from kbdisk.entity import Date, Link, Text
from kbdisk.errors import KBDiskWarning

XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGER = f'rdf:datatype="{XSD}integer"'
RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
KNOWN = f'<T rdf:about="a"><size {INTEGER}>5</size></T>'

CASES = {  # what stands in the document, what is new between « and », and what is filled
    "among others, a line each": (
        f'\n  {KNOWN}\n  <T rdf:about="b">\n      <n>x</n>«\n      <size {INTEGER}>7</size>»\n  </T>\n',
        {"b": {"size": 7}},
    ),
    "beside others": (f'{KNOWN}<T rdf:about="b"><n>x</n>«<size {INTEGER}>7</size>»</T>', {"b": {"size": 7}}),
    "in a tag without an end": (
        f'\n  {KNOWN}\n  <T rdf:about="b"«>\n    <size {INTEGER}>7</size>\n  </T>| />»\n',
        {"b": {"size": 7}},
    ),
    "between tags with nothing between": (
        f'\n\t{KNOWN}\n\t<T rdf:about="b">«\n\t\t<size {INTEGER}>7</size>\n\t»</T>\n',
        {"b": {"size": 7}},
    ),
    "in a node without a name": (
        f'<T rdf:about="a"><p><P><x {INTEGER}>1</x><s>u</s></P></p></T><T rdf:about="b"><p><P><s>v</s>«<x {INTEGER}>4</x>»</P></p></T>',
        {"b": {("p", "x"): 4}},
    ),
    "in a property that is a node": (
        f'<T rdf:about="a"><p rdf:parseType="Resource"><x {INTEGER}>1</x></p></T>'
        f'<T rdf:about="b"><p rdf:parseType="Resource"><s>v</s>«<x {INTEGER}>4</x>»</p></T>',
        {"b": {("p", "x"): 4}},
    ),
    "a new node": (
        f'\n <T rdf:about="a"><p><P><x {INTEGER}>1</x></P></p></T>\n <T rdf:about="b">\n  <n>x</n>«\n  <p>\n   <P>\n'
        f"    <x {INTEGER}>4</x>\n   </P>\n  </p>»\n </T>\n",
        {"b": {("p", "x"): 4}},
    ),
    "a new node without a class": (
        f'<T rdf:about="a"><p rdf:parseType="Resource"><x {INTEGER}>1</x></p></T><T rdf:about="b"><n>x</n>'
        f"«<p><rdf:Description><x {INTEGER}>4</x></rdf:Description></p>»</T>",
        {"b": {("p", "x"): 4}},
    ),
    "a node with a label": (
        f'{KNOWN}<T rdf:about="b"><to rdf:nodeID="q"/></T><P rdf:nodeID="q"><n>x</n>«<size {INTEGER}>7</size>»</P>',
        {"b": {("to", "size"): 7}},
    ),
    "values of all kinds": (
        f'<T rdf:about="a"><t xml:lang="en">x</t><s>y</s><l rdf:resource="b"/><d rdf:datatype="{XSD}date">2001-02-03</d></T>'
        '<T rdf:about="b"><n>x</n>«<t xml:lang="de">z</t>»«<s>&lt;&amp;"\n&#13;&gt;</s>»«<l rdf:resource="http://ex.org/a"/>»'
        f'«<d rdf:datatype="{XSD}date">2004-05-06</d>»</T>',
        {"b": {"t": Text("z", "de"), "s": '<&"\n\r>', "l": Link(E + "a"), "d": Date(2004, 5, 6)}},
    ),
    "a language that all have": (
        '<T rdf:about="a"><s rdf:datatype="http://www.w3.org/2001/XMLSchema#string">y</s><t>x</t></T><T rdf:about="b"><n>x</n>«<s rdf:datatype="http://www.w3.org/2001/XMLSchema#string">z</s>»«<t xml:lang="en">z</t>»</T>',
        {"b": {"s": "z", "t": Text("z", "en")}},
    ),
    "a namespace that is declared further in, or nowhere": (
        f'<T rdf:about="a"><o:p xmlns:o="http://other.org/" {INTEGER}>1</o:p></T><T rdf:about="b"><n>x</n>'
        f'«<ns1:p xmlns:ns1="http://other.org/" {INTEGER}>3</ns1:p>»</T>'
        f'<T rdf:about="c" xmlns:o="http://other.org/"><n>x</n>«<o:p {INTEGER}>4</o:p>»</T>',
        {"b": {"p": 3}, "c": {"p": 4}},
    ),
    "the fuller of two elements": (
        f'{KNOWN}<T rdf:about="b"/><T rdf:about="b"><n>x</n>«<size {INTEGER}>7</size>»</T><T rdf:about="b"/>',
        {"b": {"size": 7}},
    ),
    "collections and literals of XML": (
        f'{KNOWN}<T rdf:about="b"><c rdf:parseType="Collection"><P><n>x</n></P></c>'
        f'<x rdf:parseType="Literal"><T rdf:about="b"><n>x</n></T></x>«<size {INTEGER}>8</size>»</T>',
        {"b": {"size": 8}},
    ),
}


def document(body, attributes=""):
    return f'<?xml version="1.0"?>\n<!-- ü -->\n<rdf:RDF {RDF} xmlns="{E}" xml:base="{E}"{attributes}>{body}</rdf:RDF>\n<!-- end -->'


@for_each("name", CASES)
def test_what_is_new_is_set_into_the_text(name, tmp_path):
    body, values = CASES[name]
    before, after = before_and_after(document(body, ' xml:lang="en"' if "language that all" in name else ""))
    out, report = filled(tmp_path, before, values, "rdfxml")
    assert report.unwritable == []
    assert out.decode() == after


def test_entities_are_used(tmp_path):
    types = f'<!DOCTYPE rdf:RDF [ <!ENTITY xsd "{XSD}"> <!ENTITY no "{E}"> ]>'
    body = (
        '<T rdf:about="a"><size rdf:datatype="&xsd;integer">5</size><l rdf:resource="a"/></T><T rdf:about="b"><n>x</n>«'
    )
    body += f'<size rdf:datatype="&xsd;integer">7</size><l rdf:resource="{E}a"/>»</T>'
    before, after = before_and_after(types + document(body).partition("?>\n")[2])
    assert filled(tmp_path, before, {"b": {"size": 7, "l": Link(E + "a")}}, "rdfxml")[0].decode() == after


@for_each(
    ("text", "values"),
    [
        (document(f'{KNOWN}<T rdf:about="b"/>').replace('"1.0"', '"1.0" encoding="iso-8859-1"'), {"b": {"size": 7}}),
        (
            document(f'{KNOWN}<T rdf:about="b"><p xmlns:e="{E}" e:n="y"/></T>').replace("ü", ""),
            {"b": {("p", "size"): 7}},
        ),
    ],
)
def test_what_has_no_place_has_all_serialised_anew(text, values, tmp_path):
    with pytest.warns(KBDiskWarning, match="has no place for all that is new"):
        out, report = filled(tmp_path, text.encode("latin-1"), values, "rdfxml")
    assert (report.written, report.unwritable) == (1, [])
    assert b"<!-- end -->" not in out


def test_a_document_may_be_one_node_and_call_rdf_anything(tmp_path):
    written = (
        f'<T {RDF} xmlns="{E}" rdf:about="{E}a"><l><T rdf:about="{E}b"><s>x</s>«<l rdf:resource="{E}a"/>»</T></l></T>'
    )
    before, after = before_and_after(written.replace("rdf:", "r:").replace(":rdf", ":r"))
    assert filled(tmp_path, before, {"b": {"l": Link(E + "a")}}, "rdfxml")[0].decode() == after


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)
VALUES = {
    "i": st.integers(-(10**9), 10**9),
    "s": WORDS,
    "t": st.builds(Text, WORDS, st.sampled_from(["en", "de-AT"])),
    "l": st.sampled_from("abc").map(lambda id: Link(E + id)),
}


def spelt(name, value):
    """A value as a property."""
    if isinstance(value, Link):
        return f"<{name} rdf:resource={quoteattr(value.id)}/>"
    kind = (
        f" {INTEGER}" if isinstance(value, int) else f' xml:lang="{value.language}"' if isinstance(value, Text) else ""
    )
    return f"<{name}{kind}>{escape(str(getattr(value, 'text', value)))}</{name}>"


@given(st.data(), st.sampled_from(["", "\n", "\r\n  "]))
def test_whatever_stands_there(tmp_path_factory, data, gap):
    folder = tmp_path_factory.mktemp("rdfxml")
    whole = {name: data.draw(one) for name, one in VALUES.items()}
    drawn = {id: {name: data.draw(one) for name, one in VALUES.items()} for id in "bc"}
    kept = {id: data.draw(st.sets(st.sampled_from(list(VALUES)), min_size=1, max_size=3)) for id in "bc"}
    missing = {id: {n: v for n, v in drawn[id].items() if n not in kept[id]} for id in "bc"}

    def body(values):
        return "".join(gap + spelt(name, value) for name, value in values.items()) + gap

    known = f'<T rdf:about="a">{body(whole)}</T>'
    known += "".join(f'{gap}<T rdf:about="{id}">{body({n: drawn[id][n] for n in sorted(kept[id])})}</T>' for id in "bc")
    more = "".join(f'<T rdf:about="{id}">{body(values)}</T>' for id, values in missing.items())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, report = filled(folder, document(known), missing, "rdfxml")
    assert report.unwritable == []
    says(out, document(known + more).encode(), "rdfxml", folder)
    lines = iter(out)
    assert all(byte in lines for byte in document(known).encode()), "not all of it is still there, in its order"
