"""Our own blocks in a document: found, left out, taken alone; and labels that nobody has."""

from __future__ import annotations

import io

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.loaders.rdf import blocks, syntax

BLOCK = blocks.BEGIN + b"\nex:a ex:new 1 .\n" + blocks.END + b"\n"
INSERTED = b"\n" + blocks.INSERTED + b"\n; ex:new 1 ;\n" + blocks.END + b"\n"
PREFIX = b"@prefix ex: <http://e/> .\n"


def without(data: bytes, format: str = "turtle") -> bytes:
    return blocks.without_blocks(io.BytesIO(data), format).read()


def only(data: bytes, format: str = "turtle") -> bytes:
    return blocks.only_blocks(io.BytesIO(data), format)


def triples(data: bytes) -> list[str]:
    return [str(quad) for quad in pyoxigraph.parse(data, pyoxigraph.RdfFormat.TURTLE)]


@pytest.fixture(params=[1, 7, 64, 1 << 20], ids="chunks of {}".format)
def chunks(request, monkeypatch):
    monkeypatch.setattr(syntax, "CHUNK_SIZE", request.param)


def test_a_block_is_left_out_and_every_other_byte_stays_where_it_was(chunks):
    before, after = PREFIX + b"ex:a ex:p 1 .\n", b'ex:b ex:p "\xc3\xa9" .\n'
    blanked = without(before + BLOCK + after)
    assert blanked.startswith(before)
    assert blanked.endswith(after)
    assert len(blanked) == len(before + BLOCK + after)
    assert blanked.count(b"\n") == (before + BLOCK + after).count(b"\n")
    assert b"new" not in blanked
    assert b"kbdisk" not in blanked


def test_several_blocks_are_left_out_and_what_a_curator_put_between_stays(chunks):
    data = PREFIX + BLOCK + b"ex:b ex:p 1 .\n" + BLOCK + b"ex:c ex:p 2 ."
    assert triples(without(data)) == triples(PREFIX + b"ex:b ex:p 1 . ex:c ex:p 2 .")
    assert len(triples(only(data))) == 2


def test_a_block_without_an_end_goes_to_the_end_of_the_file(chunks):
    data = PREFIX + b"ex:a ex:p 1 .\n" + blocks.BEGIN + b"\nex:a ex:new 1 .\nex:a ex:new 2 ."
    assert triples(without(data)) == triples(PREFIX + b"ex:a ex:p 1 .")
    assert triples(only(data)) == triples(PREFIX + b"ex:a ex:new 1, 2 .")


def test_a_block_in_a_file_of_windows_lines_is_a_block(chunks):
    data = (PREFIX + b"ex:a ex:p 1 .\n" + BLOCK + b"ex:b ex:p 1 .\n").replace(b"\n", b"\r\n")
    assert triples(without(data)) == triples(PREFIX + b"ex:a ex:p 1 . ex:b ex:p 1 .")
    assert without(data).count(b"\r\n") == data.count(b"\r\n")


@for_each(
    "given",
    [
        b'ex:a ex:p """\n' + BLOCK + b'""" .\n',
        b"ex:a ex:p '''\n" + BLOCK + b"''' .\n",
        b'ex:a ex:p """a\\"""\n' + BLOCK + b'""" .\n',
        b'ex:a ex:p "' + blocks.BEGIN + b'" .\nex:a ex:q 1 .\n',
        b"ex:a ex:p 1 . " + blocks.BEGIN + b"\nex:a ex:q 1 .\n",
        b"# said " + blocks.BEGIN + b"\nex:a ex:q 1 .\n",
        b"# kbdisk: beginning\nex:a ex:q 1 .\n",
        blocks.END + b"\nex:a ex:q 1 .\n",
    ],
)
def test_what_only_reads_like_a_block_is_none(given, chunks):
    assert without(PREFIX + given) == PREFIX + given
    assert triples(only(PREFIX + given)) == []


def test_a_long_string_before_a_block_hides_nothing(chunks):
    text = b'ex:a ex:p """ # \' """ , """x""", "" . # \'\'\'\n'
    assert triples(without(PREFIX + text + BLOCK)) == triples(PREFIX + text)


def test_the_end_in_a_long_string_within_a_block_is_not_its_end(chunks):
    block = BLOCK.replace(b"1", b'"""\n' + blocks.END + b'\n"""')
    assert triples(without(PREFIX + block + b"ex:b ex:p 1 .")) == triples(PREFIX + b"ex:b ex:p 1 .")


def test_a_block_that_does_not_end_before_the_next_or_at_all_is_told_by_its_line(chunks):
    begun = BLOCK.replace(blocks.END + b"\n", b"")
    data = PREFIX + BLOCK + b"\n" + begun + b"ex:b ex:p 1 .\n" + BLOCK + b"ex:c ex:p 1 .\n" + begun
    lines = []
    text = blocks.without_blocks(io.BytesIO(data), "turtle", lines.append).read()
    assert triples(text) == triples(PREFIX + b"ex:c ex:p 1 .")
    rows = data.split(b"\n")
    assert [rows[line - 1] for line in lines] == [blocks.BEGIN] * 2
    assert lines == [6, data.count(b"\n") - 1]


def test_values_inserted_within_a_bracket_are_left_out_and_leave_it_whole(chunks):
    data = PREFIX + b"ex:a ex:p [ ex:q 1 " + INSERTED + b"] .\n" + BLOCK
    values = [line.split(" ", 1)[1] for line in triples(without(data))]
    assert values[0] == triples(PREFIX + b"_:x ex:q 1 .")[0][4:]
    assert len(values) == 2
    assert triples(only(data)) == triples(PREFIX + b"ex:a ex:new 1 .")


def test_a_block_taken_alone_is_read_by_the_prefixes_and_the_base_where_it_stands(chunks):
    data = (
        b"PREFIX ex: <http://one/> base <http://base/> ex:a ex:p 1 .\n@prefix # :\n ex: # <no>\n <http://two/> .\n"
        + BLOCK
        + b'@base <http://other/> . ex:a ex:p "@prefix ex: <http://no/> ."@base, <c> . PREFIX\nex: <three/>\n'
        + BLOCK
    )
    new = [f"<{ns}a> <{ns}new> " for ns in ("http://two/", "http://other/three/")]
    assert [line[: len(start)] for line, start in zip(triples(only(data)), new, strict=True)] == new


def test_lines_of_a_block_taken_alone_have_the_number_they_had():
    data = PREFIX + b"ex:a ex:p 1 .\n\n" + BLOCK
    assert only(data).split(b"\n").index(b"ex:a ex:new 1 .") == data.split(b"\n").index(b"ex:a ex:new 1 .")


@for_each("format", ["ntriples", "nquads"])
def test_in_lines_no_string_hides_what_comes_after_it(format, chunks):
    broken = b'<http://e/a> <http://e/p> """ .\n'
    line = b'<http://e/a> <http://e/p> "# kbdisk: begin" .\n'
    block = blocks.BEGIN + b"\n" + line + blocks.END + b"\n"
    assert without(broken + line + block, format).rstrip(b" \n") == (broken + line).rstrip()
    assert only(broken + line + block, format).strip().split(b"\n") == block.strip().split(b"\n")


def test_a_document_all_on_one_line_is_read(chunks):
    line = PREFIX.strip() + b"ex:a ex:p 1 ." * 100
    assert triples(without(line + b"\n" + BLOCK)) == triples(line)


PARTS = [
    *(
        b"\n",
        b"\r\n",
        b" ",
        b"ex:a ex:p 1 .",
        b'"""',
        b"'''",
        b'"',
        b"<",
        b"#",
        b"\\",
        b"@prefix ",
        b"BASE <x>",
        b"\xc3\xa9",
    ),
    *(PREFIX, BLOCK, INSERTED, blocks.BEGIN, blocks.END, b"\n" + blocks.BEGIN + b"\n", b"\n" + blocks.END + b"\n"),
]


@given(st.lists(st.sampled_from(PARTS)).map(b"".join), st.sampled_from(["turtle", "ntriples"]), st.integers(1, 40))
def test_the_pieces_of_any_bytes_are_the_bytes_and_do_not_depend_on_chunks(data, format, size):
    whole = blanked = b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(syntax, "CHUNK_SIZE", size)
        whole = b"".join(text for _, text in blocks.pieces(io.BytesIO(data), format))
        blanked = without(data, format)
    assert whole == data
    assert blanked == without(data, format)


def test_whether_there_are_blocks_is_seen_across_chunks(chunks):
    assert blocks.has_blocks(io.BytesIO(b"x" * 100 + BLOCK))
    assert not blocks.has_blocks(io.BytesIO(b"# kbdisk: en\n" * 100))


def test_closing_closes_what_is_read_from():
    source = io.BytesIO(BLOCK)
    blocks.without_blocks(source).close()
    assert source.closed


def test_fresh_labels_stand_nowhere_in_the_document(chunks):
    data = b'_:kbdisk1 ex:p "x_:kbdisk3y" . _:kbdisk02 _:kbdisk44 _:kbdisk' + b"9" * 5000
    labels = blocks.FreshLabels(io.BytesIO(data))
    minted = [labels.mint() for _ in range(50)]
    assert minted[0] == "kbdisk2"
    assert len(set(minted)) == 50
    assert not {"kbdisk1", "kbdisk3", "kbdisk44"} & set(minted)
