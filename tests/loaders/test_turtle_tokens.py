"""The structure of Turtle, and all that only looks like structure."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.loaders.rdf import syntax

OPAQUE = [
    b"<http://e/a[b](c);d,e.f#g>",
    b"<>",
    b'"]"',
    b"']'",
    b'""',
    b"''",
    b'"a\\"]"@en-GB',
    b"'a\\']'",
    b'"""a "" ] " \n # [ """',
    b"'''a '' ] ' \n # [ '''@de",
    b'"""\\""" ]"""',
    b'"a"^^xsd:string',
    b"ex:a\\[b\\]",
    b"ex:a%5Bb",
    b"ex:a.b..c",
    b":a.b",
    b"ex:it\\'s",
    b"ex:a:b",
    b"ex.y:z",
    b"ex:\\#no",
    "ex:stra\u00dfe.\u4e2d".encode(),
    b":",
    b"a",
    b"true",
    b"42",
    b"-1.5",
    b".5",
    b"1.e6",
    b"+1.5E-3",
    b"# ] not here\n",
    b"# \"\"\" nor '''\r\n",
]
STRUCTURE = [
    b"[",
    b"]",
    b"(",
    b")",
    b"{",
    b"}",
    b".",
    b";",
    b",",
    b"_:b0",
    b"_:b.1-x",
    b"{|",
    b"|}",
    b"<<",
    b">>",
    b"~",
]


def texts(data: bytes) -> list[bytes]:
    return [token.text for token in syntax.tokens(data)]


@for_each("value", OPAQUE, ids=repr)
def test_nothing_within_a_value_or_a_comment_is_structure(value):
    assert texts(b"[ " + value + b" ]") == [b"[", b"]"]


@for_each("value", OPAQUE[:-2], ids=repr)
def test_a_full_stop_right_after_a_value_is_found(value):
    if value != b"1.e6":
        assert texts(value + b".\n;") == [b".", b";"]


@given(st.lists(st.sampled_from(OPAQUE + STRUCTURE)))
def test_exactly_the_structure_is_found_where_it_stands(parts):
    data = b" ".join(parts)
    found = list(syntax.tokens(data))
    assert [token.text for token in found] == [part for part in parts if part in STRUCTURE]
    assert all(data.startswith(token.text, token.start) for token in found)


def test_structure_needs_no_white_space_around_it():
    assert texts(b'ex:a ex:p[ex:q"x",1.5;ex:r<a>,(_:b1 2)].ex:c ex:d 1.') == [
        *(b"[", b",", b";", b",", b"(", b"_:b1", b")", b"]", b".", b"."),
    ]


def test_a_number_ends_before_the_full_stop_and_a_name_may_hold_one():
    assert texts(b"1.:a 1.5.:b ex:a.b.") == [b".", b".", b"."]


def test_a_keyword_ends_before_a_full_stop():
    assert texts(b"true.:c") == [b"."]


def test_triples_in_triples_are_told_apart_from_iris():
    assert texts(b"<<:s :p <o>>> <<( :s :p <<( :s :p 1 )>> )>>") == [b"<<", b">>", b"<<(", b"<<(", b")>>", b")>>"]


def test_a_prefix_is_one_token_however_it_is_written():
    data = b"\xef\xbb\xbfPREFIX a: <x>\n@prefix\n # c\n b.c: <y> . prefix : <z> prefix:d prefix:e 1 ."
    assert texts(data) == [b"PREFIX a: <x>", b"@prefix\n # c\n b.c: <y>", b".", b"prefix : <z>", b"."]


@for_each("data", [b'"never closed [\n]', b"<no iri ] ", b"\xff\x00]", b"@prefix ]", b"\\]"])
def test_what_is_no_turtle_is_walked_to_its_end_all_the_same(data):
    assert b"]" in texts(data)


@for_each("data", [b'"never ]', b"'''never ]\n]"])
def test_a_string_that_never_ends_goes_on_to_the_end_of_its_line_or_of_all(data):
    assert not texts(data)


def test_long_texts_do_not_overflow_the_stack():
    data = b'"""' + b'a" \\" ' * 200_000 + b'""" ' + b"ex:a 1 # c\n" * 100_000 + b"]"
    assert texts(data) == [b"]"]


def test_blanks_and_comments_are_passed_over():
    data = b" \t# ]\r\n  # x\n ]"
    assert data[syntax.after_blank(data, 0) :] == b"]"


@given(st.binary(max_size=300), st.integers(0, 300))
def test_nothing_short_is_cut_in_all_of_the_chunks(data, place):
    word = b"<word>"
    whole = data[:place] + word + data[place:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(syntax, "CHUNK_SIZE", 7)
        assert any(word in chunk for chunk in syntax.overlapping(io.BytesIO(whole)))


@for_each(
    ("sample", "newline"),
    [(b"a\nb\r\n", b"\n"), (b"a\r\nb\n", b"\r\n"), (b"\r\n", b"\r\n"), (b"\n", b"\n"), (b"a", b"\n")],
)
def test_lines_end_as_the_first_does(sample, newline):
    assert syntax.newline_of(sample) == newline
