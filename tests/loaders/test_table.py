"""CSV and TSV keep every byte but those of the cells that were filled. Python's csv module is the judge."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tables import examples, for_each

import kbdisk
from kbdisk import (
    NOVALUE,
    Completion,
    Coordinate,
    Date,
    Entity,
    Filled,
    KBDiskError,
    KBDiskWarning,
    Link,
    Quantity,
    Text,
)
from kbdisk.entity import read_path

REAL = ["gsm/gsm_processed.csv", "nuclear/ground_states.csv", "nuclear/nuclear_processed.csv"]


def load(text, **options):
    return kbdisk.load(
        text if isinstance(text, bytes) else text.encode(), format=options.pop("format", "csv"), **options
    )


def trees(text, **options):
    return [entity.tree for entity in load(text, **options)]


def column(cells, **options):
    """What a column of such cells is read as, beside a column that keeps the lines from being blank."""
    return [tree["x"] for tree in trees("x,y\n" + "".join(f"{cell},y\n" for cell in cells), **options)]


def filling(kb, fills):
    """Completions: {row, from 0: {path: value}}."""
    entities = {entity.position - 1: entity for entity in kb}
    return [
        Completion(entities[row], {read_path(path): Filled(value) for path, value in new.items()})
        for row, new in fills.items()
    ]


def test_what_a_column_has_fewer_decimals_for_is_told_as_it_is_read():
    kb = load("id,x,n,w\na,1.5,3,\nb,,,70\nc,2.5,4,80\n", units={"w": "g"})
    new = {0: {"w": Quantity(71.4, "g")}, 1: {"x": 2.7333, "n": 12.34}}
    data, report = spliced(kb, new)
    assert data.decode().splitlines()[1:] == ["a,1.5,3,71", "b,2.7,12,70", "c,2.5,4,80"]
    assert report.spelt == {("b", ("x",)): 2.7, ("b", ("n",)): 12, ("a", ("w",)): Quantity(71, "g")}
    assert not spliced(kb, {1: {"x": 2.7, "n": 12}})[1].spelt


def spliced(kb, fills):
    stream = io.BytesIO()
    report = kb.splice(filling(kb, fills), stream)
    return stream.getvalue(), report


def test_blanks_of_a_cell_that_is_filled_stay_where_they_are_no_part_of_a_value():
    data, _ = spliced(load('id,x,"k"\na, 3,"m"\nb, ,\t\nc,"  ",\n'), {1: {"x": 5, "k": "n"}, 2: {"x": 6}})
    assert data.decode().splitlines()[2:] == ['b, 5,"n"', 'c,"6",']


def refusal(text, path, value, row=0, **options):
    """Why a value is not written; the file stays as it is."""
    kb = load(text, **options)
    out, report = spliced(kb, {row: {path: value}})
    assert out == (text if isinstance(text, bytes) else text.encode())
    assert report.written == 0
    ((_, at, reason),) = report.unwritable
    assert at == read_path(path)
    return reason


# ---------------------------------------------------------------- reading


def test_a_dotted_header_is_a_path():
    (tree,) = trees("model,launch.year,launch.month,prizes[0].share,prizes[1].share\n3310,2000,9,1/2,1/3\n")
    assert tree == {"model": 3310, "launch": {"year": 2000, "month": 9}, "prizes": [{"share": "1/2"}, {"share": "1/3"}]}


def test_a_list_ends_at_its_last_value_and_keeps_one_place():
    assert trees("a[0],a[1],a[2],b\n1,,3,\n1,,,\n,,,x\n") == [
        {"a": [1, None, 3], "b": None},
        {"a": [1], "b": None},
        {"a": [None], "b": "x"},
    ]


@for_each("header", ["a..b,c", "a,a.1", "a[7],b", "[0],b", "a[0],a.b"])
def test_a_header_that_is_no_path_among_the_others_is_one_key(header):
    names = header.split(",")
    assert trees(f"{header}\n1,2\n") == [{names[0]: 1, names[1]: 2}] or header == "a[0],a.b"
    if header == "a[0],a.b":
        assert trees(f"{header}\n1,2\n") == [{"a[0]": 1, "a": {"b": 2}}]


def test_missing_spellings_are_asked_for():
    assert column(["nan", "", "N/A", "5", " nan "]) == [None, None, None, 5, None]
    assert column(["-", "", "7"], missing=["-"]) == [None, None, 7]


def test_a_column_is_numbers_only_if_all_of_it_is():
    assert column(["12", "1.5", "-3e2", ".5", " 7 "]) == [12, 1.5, -300.0, 0.5, 7]
    assert column(["12", "A3"]) == ["12", "A3"]
    assert column(["01067", "90210"]) == ["01067", "90210"]
    assert column(["+491", "5"]) == ["+491", "5"]
    assert column(["inf", "5"]) == ["inf", "5"]
    assert column(["٣", "1_000"]) == ["٣", "1_000"]


def test_numbers_lose_no_digit():
    long = "123456789012345678901234567890"
    assert column([long, "9" * 5000]) == [int(long), 10**5000 - 1]
    fraction, kept = column(["0.1234567890123456789", "10.265615046484458"])
    assert fraction == Decimal("0.1234567890123456789")
    assert kept == 10.265615046484458
    assert type(kept) is float
    assert column(["1e999"]) == [Decimal("1e999")]


def test_truths_are_true_and_false_but_not_yes():
    assert column(["true", "False", "TRUE", ""]) == [True, False, True, None]
    assert column(["yes", "no"]) == ["yes", "no"]
    assert column(["true", "1"]) == ["true", "1"]


def test_text_keeps_its_spaces():
    assert column(['" a"', "b "]) == [" a", "b "]


def test_a_placeholder_among_numbers_is_an_oddity():
    cells = [str(n) for n in range(100)] + ["n.a."]
    with pytest.warns(KBDiskWarning, match=r"'x' holds numbers but for 'n\.a\.'"):
        assert column(cells)[-1] == "n.a."
    assert column(cells, missing=["n.a."])[-2:] == [99, None]


def test_a_usual_spelling_of_nothing_beside_numbers_is_no_value_and_a_word_beside_words():
    with pytest.warns(KBDiskWarning, match=r"'-', 'NA' is no value beside numbers or truths, in column 'x'$"):
        assert column(["12", "NA", "1.5", "-", ""]) == [12, None, 1.5, None, None]
    with pytest.warns(KBDiskWarning, match="'NA' is no value"):
        assert column(["true", "NA"]) == [True, None]
    assert column(["DE", "NA", "FR"]) == ["DE", "NA", "FR"]
    assert column(["5", "A3", "NA"]) == ["5", "A3", "NA"]
    assert column(["NA", "NA", ""]) == ["NA", "NA", None]


def test_columns_with_a_spelling_of_nothing_are_told_in_one_line():
    names = [f"c{i}" for i in range(7)]
    text = "\n".join(",".join(row) for row in (names, ["1"] * 7, ["NA"] * 7, ["?"] + ["2"] * 6)) + "\n"
    with pytest.warns(KBDiskWarning) as told:
        list(load(text))
    assert [str(one.message).partition(": ")[2] for one in told] == [
        "'?', 'NA' is no value beside numbers or truths, in columns 'c0', 'c1', 'c2', 'c3', 'c4' and 2 more"
    ]


@pytest.mark.filterwarnings("ignore:.*is no value beside numbers")
def test_a_new_value_takes_the_place_of_a_spelling_of_nothing_and_the_rest_stays():
    text = b'x,of\n1.5, NA\n NA ,"NA"\n"?",DE\n2.5,NA\n'
    kb = load(text)
    assert spliced(kb, {})[0] == text
    assert spliced(kb, {1: {"x": 7}, 2: {"x": 3.25}})[0] == b'x,of\n1.5, NA\n7.0,"NA"\n"3.2",DE\n2.5,NA\n'
    with pytest.warns(KBDiskWarning, match="'NA' is no value"):
        assert [one.id for one in load("id,x\n1,5\nNA,6\n")] == ["1", "2"]  # no id in every row


def test_ids_come_from_the_named_column_or_a_usual_one_or_the_row():
    text = "id,code,x\n007,a,1\n008,b,2\n"
    assert [entity.id for entity in load(text)] == ["007", "008"]
    assert [entity.id for entity in load(text, id="code")] == ["a", "b"]
    assert [entity.id for entity in load("id,x\n7,1\n,2\n")] == ["1", "2"]
    with pytest.raises(KBDiskError, match="expected a column 'name' for the ids, got id, code, x"):
        list(load(text, id="name"))
    with pytest.raises(KBDiskError, match=r"^<memory>:3: expected an id in column 'code', got none"):
        list(load("code,x\na,1\n,2\n", id="code"))


def test_label_and_classes_have_their_columns():
    kb = load("@id,@type,name,x\nn1,Phone,3310,5\nn2,Watch,Gear,6\n")
    assert [(e.id, e.classes, e.label, e.tree) for e in kb] == [
        ("n1", ("Phone",), "3310", {"name": "3310", "x": 5}),
        ("n2", ("Watch",), "Gear", {"name": "Gear", "x": 6}),
    ]
    assert [e.id for e in load("@id,@type\nn1,Phone\nn2,Watch\n", classes=["Watch"])] == ["n2"]
    with pytest.raises(KBDiskError, match="column @type"):
        list(load("x\n1\n", classes=["Watch"]))


def test_numbers_of_a_told_unit_are_quantities():
    kb = load("x,y\n5,\n,7\n", units={"x": "kg"})
    assert [entity.tree["x"] for entity in kb] == [Quantity(5, "kg"), None]
    assert spliced(kb, {1: {"x": Quantity(6, "kg")}})[0] == b"x,y\n5,\n6,7\n"
    assert "expected a value in 'kg'" in refusal("x,y\n5,\n,7\n", "x", Quantity(6, "g"), row=1, units={"x": "kg"})


@for_each("end", ["\n", "\r\n", "\r"])
def test_quotes_line_ends_bom_and_blank_lines_are_read(end):
    text = end.join(["\ufeffa,b", "", '"x, ""y""","two', 'lines"', "z,", ""])
    assert trees(text) == [{"a": 'x, "y"', "b": f"two{end}lines"}, {"a": "z", "b": None}]
    assert trees(text.rstrip(end))[1] == {"a": "z", "b": None}


def test_the_delimiter_is_told_by_the_header():
    assert trees("a;b\nx,5;2\n") == [{"a": "x,5", "b": 2}]
    assert trees("a\tb\n1;5\t2\n") == [{"a": "1;5", "b": 2}]
    assert trees("a|b\n1;5|2\n") == [{"a": "1;5", "b": 2}]
    assert trees("a;size|S|M\n1;2\n") == [{"a": 1, "size|S|M": 2}]
    assert trees("a\tb|c|d\n1\t2\n") == [{"a": 1, "b|c|d": 2}]
    assert trees('"a;c",b\n1,2\n') == [{"a;c": 1, "b": 2}]
    assert trees("a,c\tb\nx,5\t2\n", format="tsv") == [{"a,c": "x,5", "b": 2}]


@for_each(("delimiter", "format"), [(";", "csv"), ("\t", "csv"), ("\t", "tsv")])
def test_a_comma_is_the_decimal_point_where_none_parts_the_cells(delimiter, format):
    text = "x;y\n1,50;a\n ,25;b\n-3;c\n1,2e3;d\n".replace(";", delimiter)
    assert [tree["x"] for tree in trees(text, format=format)] == [1.5, 0.25, -3, 1200]
    kb = load("x;y\n1,50;a\n;b\n 12,25;\n".replace(";", delimiter), format=format, units={"x": "kg"})
    data, report = spliced(kb, {1: {"x": Quantity(0.125, "kg")}})
    assert data.decode() == "x;y\n1,50;a\n0,12;b\n 12,25;\n".replace(";", delimiter)
    assert report.spelt == {("2", ("x",)): Quantity(0.12, "kg")}


@for_each("cells", [["1,234", "999"], ["1,234", "2,500"], ["1,234,567", "2,500"]])
def test_commas_that_may_part_thousands_are_text_unless_another_column_tells_that_they_do_not(cells):
    assert tsv(cells, ["1", "2"])[0] == cells
    assert tsv(cells, ["1.5", "2"])[0] == cells
    told = tsv(cells, ["1,5", "2"])[0]
    assert told == (cells if cells[0].count(",") > 1 else [float(cell.replace(",", ".")) for cell in cells])
    assert tsv(cells, ["1,5", "2"], ["1.5", "2"])[0] == cells


def test_commas_beside_points_are_text_and_that_is_said():
    with pytest.warns(KBDiskWarning, match="column 'a' holds numbers with commas and with points and is read as text"):
        assert tsv(["1,5", "2.5"]) == [["1,5", "2.5"]]
    assert tsv(["1,234", "0,999", "2"]) == [[1.234, 0.999, 2]]
    assert trees('x,y\n"1,5",2\n') == [{"x": "1,5", "y": 2}]


def test_a_blank_column_is_filled_as_others_are_spelt():
    assert spliced(load("x;y\n1,5;\n2,5;\n"), {0: {"y": 7.25}, 1: {"y": 8}})[0] == b"x;y\n1,5;7,25\n2,5;8\n"


def tsv(*columns):
    """What the columns of such cells are read as."""
    lines = ["\t".join("abc"[: len(columns)]), *map("\t".join, zip(*columns, strict=True))]
    return [
        list(column) for column in zip(*(tree.values() for tree in trees("\n".join(lines), format="tsv")), strict=True)
    ]


def test_a_first_column_without_a_name_is_an_index():
    kb = load('"",x\na,1\nb,\n')
    assert [(one.id, one.tree, one.nameless) for one in kb] == [("a", {"x": 1}, False), ("b", {"x": None}, False)]
    assert spliced(kb, {1: {"x": 2}})[0] == b'"",x\na,1\nb,2\n'
    assert [one.id for one in load(",id,x\n0,Q1,1\n1,Q2,2\n")] == ["Q1", "Q2"]
    assert [one.tree for one in load(",id,x\n0,Q1,1\n")] == [{"id": "Q1", "x": 1}]
    assert [one.id for one in load(",id,x\n0,Q1,1\n", id="@index")] == ["0"]
    assert [one.id for one in load(",id,x\np,Q1,1\nq,Q1,2\n")] == ["p", "q"]
    with pytest.warns(KBDiskWarning, match="the index is left out, as it does not tell all rows apart"):
        assert [(one.id, one.nameless) for one in load(",x\n7,1\n,2\n")] == [("1", True), ("2", True)]


@pytest.mark.filterwarnings("ignore:.*the index is left out")
def test_an_index_that_two_rows_have_is_no_id_and_stays():
    twice = load(",x\n0,1\n1,\n0,3\n")
    assert [(one.id, one.tree, one.nameless) for one in twice][2] == ("3", {"x": 3}, True)
    assert spliced(twice, {1: {"x": 2}})[0] == b",x\n0,1\n1,2\n0,3\n"


def test_columns_with_blanks_between_them_are_one_and_that_is_said():
    with pytest.warns(KBDiskWarning, match="all is one column 'a b c': if it is several, part them by commas"):
        assert trees("a b c\n1 2 3\n4 5 6\n") == [{"a b c": "1 2 3"}, {"a b c": "4 5 6"}]
    for text in ("first name\nAnna\nJean Paul\n", "full name\nAda Lovelace\n", 'room no\n"hall 5"\n'):
        assert len(trees(text)[0]) == 1


def test_a_price_is_spelt_as_others_are():
    assert spliced(load("x,y\n$5.50,1\n,2\n"), {1: {"x": Quantity(6.25, "$")}})[0] == b"x,y\n$5.50,1\n$6.25,2\n"
    assert spliced(load("x,y\n$5.50,1\n,2\n"), {1: {"x": Quantity(-6, "€")}})[0] == "x,y\n$5.50,1\n-€6,2\n".encode()


def test_an_amount_that_is_no_money_stands_before_its_unit():
    for unit in ("kg", "USD"):
        done, _ = spliced(load("x;y\n$5.50;a\n;b\n"), {1: {"x": Quantity(6.25, unit)}})
        assert done.decode().splitlines()[2] == f"6.25 {unit};b"


def test_it_can_be_read_again_and_by_id():
    kb = load("id,x\na,1\nb,2\n")
    assert list(kb) == list(kb)
    assert kb["b"].tree["x"] == 2
    assert len(kb) == 2


ROWS = "a,b\n" + f"1,{'x' * 1000}\n" * 1_200  # beyond one piece of the file


@for_each(
    ("text", "complaint"),
    [
        (b"a,b\n1,2\n1\n", ":3: expected 2 cells as in the header, got 1"),
        (b'a,b\n"x\ny",2\n1,2,3\n', ":4: expected 2 cells as in the header, got 3"),
        (ROWS.encode() + b"1\n", ":1202: expected 2 cells"),
        (b'a,b\n1,"x\ncaf\xe9"\n', ":3: expected UTF-8, got the byte 0xE9. Say --encoding latin-1"),
        (b'a,b\n1,2\n3,"4\n5,6\n', ":3: the quote that opens cell 2 is never closed"),
        (b'a,b\n"1"x,2\n', ":2: expected a ',' or the line's end after the closing quote of cell 1"),
        (b"a,b,a\n1,2,3\n", ":1: expected a different name for each column, got 'a' more than once"),
        (b"a,,b\n1,2,3\n", ":1: expected a name for every column, got none for column 2"),
        (b",,b\n1,2,3\n", ":1: expected a name for every column, got none for column 2"),
        (b"a,b\n1,2\n3,\0\n", ":3: expected text, got a NUL byte"),
        (b"a,b\n", ":1: expected rows below the header, got no rows"),
        (b"\n\n", ": expected a header and rows, got blank lines"),
        (b"", ": expected some data, got an empty file"),
        ("a,b\n1,2\n".encode("utf-16"), ": expected UTF-8, got UTF-16"),
    ],
)
def test_a_fault_is_one_line_that_says_where(text, complaint):
    with pytest.raises(KBDiskError, match=r"^<memory>" + complaint.replace("'", ".").replace("(", r"\(")) as caught:
        list(load(text))
    assert "\n" not in str(caught.value)


def test_errors_come_before_the_first_entity():
    with pytest.raises(KBDiskError):
        next(iter(load("a,b\n1,2\n3\n")))


def test_skip_errors_leaves_out_the_bad_row_alone():
    kb = load(b'a,b\n1,2\n3\n4,"x\ny",\n5,caf\xe9\n6,7\n8,"9\n', skip_errors=True)
    assert [(entity.id, entity.tree["a"]) for entity in kb] == [("1", 1), ("5", 6)]
    assert [error.line for error in kb.skipped] == [3, 4, 6, 8]
    out, report = spliced(kb, {})
    assert out == kb.source.read()
    assert report.written == 0


def test_after_an_unclosed_quote_the_next_line_is_read_again():
    kb = load('a,b\n"1,2\n3,4\n"5",6\n', skip_errors=True)
    assert [entity.tree for entity in kb] == [{"a": 3, "b": 4}, {"a": 5, "b": 6}]


@for_each("encoding", ["latin-1", "cp1252", "gbk", "utf-8-sig"])
def test_other_encodings_are_read_and_written(encoding):
    text = "name,x\n\u00b1,\n" if encoding in ("gbk", "latin-1") else "name,x\n\u20ac,\n"
    kb = load(text.encode(encoding), encoding=encoding)
    assert next(iter(kb)).label == text[7]
    assert spliced(kb, {0: {"x": text[7]}})[0] == text.replace(",\n", f",{text[7]}\n").encode(encoding)


def test_unfit_encodings_are_refused():
    with pytest.raises(KBDiskError, match=r"^--encoding: unknown encoding 'klingon'"):
        load("a\n1\n", encoding="klingon")
    with pytest.raises(KBDiskError, match=r"^--encoding: expected an encoding that extends ASCII"):
        load("a\n1\n", encoding="utf-16")
    assert "'€' cannot be written in iso8859-1" in refusal("a,b\n1,\n", "b", "€", encoding="latin-1")


# ---------------------------------------------------------------- writing back


def test_a_new_value_takes_the_bytes_of_the_blank_cell_and_no_others():
    text = b'\xef\xbb\xbfid,x,"y z"\r\n\r\n1,"1.50","a, b"\r\n2,,\r\n3,"",NA\r\n4,0.1,"""q"""'
    kb = load(text, missing=["NA"])
    out, report = spliced(kb, {1: {"x": 7.25, "y z": 'c, "d"'}, 2: {"x": 2, "y z": "e"}})
    assert out == b'\xef\xbb\xbfid,x,"y z"\r\n\r\n1,"1.50","a, b"\r\n2,7.25,"c, ""d"""\r\n3,"2.0","e"\r\n4,0.1,"""q"""'
    assert report.written == 4
    assert not report.unwritable


@for_each(
    ("cells", "value", "expected"),
    [
        (["1999.0", "2001.0"], 2007, "2007.0"),
        (["1999", "2001"], 2007.0, "2007"),
        (["190.0", "56.8"], 133.333, "133.3"),
        (["1.50", "2.00"], 3.5, "3.50"),
        (["1", "2.25"], 3.0, "3"),
        (["5e-07", "0.1"], 1.25e-9, "1.25e-09"),
        (["0.1"], 1e-7, "0.0"),
        (["7"], 10**30, str(10**30)),
        (["0.12"], Decimal("123456789012345678901234567890.1234"), "123456789012345678901234567890.12"),
        (["True"], False, "False"),
        (["TRUE"], True, "TRUE"),
        ([], True, "true"),
        ([], 1.5, "1.5"),
        (["12 kg"], Quantity(13, "kg"), "13 kg"),
        (["12kg"], Quantity(13, "kg"), "13kg"),
        (["12"], Quantity(13, "kg"), "13"),
        ([], Quantity(13, "kg"), "13 kg"),
        (["a"], Date(1999, 5, 17), "1999-05-17"),
        (["1999.0"], Date(2001), "2001.0"),
        ([], Date(-43, 3), "-0043-03"),
        ([], Link("Q42"), "Q42"),
        ([], Text("Albanien", "de"), "Albanien"),
        ([], Coordinate(41.3, 19.8), '"41.3, 19.8"'),
    ],
)
def test_a_new_value_is_spelt_as_the_rest_of_its_column(cells, value, expected):
    text = "x,y\n" + "".join(f"{cell},y\n" for cell in cells)
    out, report = spliced(load(text + ",y\n"), {len(cells): {"x": value}})
    assert report.unwritable == []
    assert out.decode() == f"{text}{expected},y\n"


def test_quotes_are_a_habit_of_a_column():
    assert spliced(load('a,b\n"x",1\n,2\n'), {1: {"a": "y"}})[0] == b'a,b\n"x",1\n"y",2\n'
    assert spliced(load('a,b\n"x, z",1\nu,1\nv,1\n,2\n'), {3: {"a": "y"}})[0].endswith(b"\ny,2\n")


def test_parts_of_a_composite_have_columns_of_their_own():
    kb = load("a,w.value,w.unit,p.latitude,p.longitude\n1,,kg,,\n2,5,kg,1.5,2.5\n")
    out, report = spliced(kb, {0: {"w": Quantity(4, "kg"), "p": Coordinate(3.5, 4.5)}})
    assert out == b"a,w.value,w.unit,p.latitude,p.longitude\n1,4,kg,3.5,4.5\n2,5,kg,1.5,2.5\n"
    assert report.written == 2
    assert "has the value 'kg' already" in refusal("a,w.value,w.unit\n1,,kg\n", "w", Quantity(4, "g"))


@for_each(
    ("path", "value", "reason"),
    [
        ("x", 5, "the cell has the value '1' already"),
        ("z", 5, "the table has no column 'z': add it to the header"),
        ("n", "heavy", "expected a number as in the rest of the column, got 'heavy'"),
        ("n", True, "expected a number"),
        ("n", Date(1999, 5), "expected a number as in the rest of the column, got '1999-05'"),
        ("n", float("nan"), "expected a value that a cell can hold, got nan"),
        ("t", 5, "expected true or false"),
        ("s", "nan", "'nan' would be read as a missing value"),
        ("s", " ", "' ' would be read as a missing value"),
        ("s", "a\0", "a NUL character"),
        ("s", "\ud800", "cannot be written in utf-8"),
        ("s", NOVALUE, "expected a value that a cell can hold"),
        ("s", [], "expected a value that a cell can hold, got []"),
    ],
)
def test_what_does_not_fit_is_reported_and_nothing_changes(path, value, reason):
    assert reason in refusal("x,n,t,s\n1,,,\n2,5,true,b\n", path, value)


def test_a_value_is_filled_once():
    kb = load("x,y\n1,\n")
    entity = next(iter(kb))
    twice = [Completion(entity, {("y",): Filled(value)}) for value in ("a", "b, c")]
    stream = io.BytesIO()
    report = kb.splice(twice, stream)
    assert stream.getvalue() == b"x,y\n1,a\n"
    assert [reason for *_, reason in report.unwritable] == ["the cell has the value 'a' already"]


def test_completions_are_streamed_in_the_order_of_the_file():
    kb = load("id,y\na,\nb,\n")
    backwards = filling(kb, {1: {"y": 1}, 0: {"y": 1}})
    with pytest.raises(KBDiskError, match="Pass them as a list"):
        kb.splice(iter(backwards), io.BytesIO())


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,y\na,\nb,\n")
    kb = kbdisk.load(path)
    fills = filling(kb, {1: {"y": 1}})
    path.write_text("id,y\na,\nc,\n")
    with pytest.raises(KBDiskError, match="expected 'b' in row 2, got another"):
        kb.splice(fills, io.BytesIO())
    path.write_text("id,y\na,\n")
    with pytest.raises(KBDiskError, match="has no row 2 any more"):
        kb.splice(fills, io.BytesIO())


def test_a_compressed_table_is_written_back(tmp_path):
    import gzip

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n1,\n"))
    kb = kbdisk.load(path)
    kbdisk.write(filling(kb, {0: {"y": 2}}), tmp_path / "b.csv.gz")
    assert gzip.decompress((tmp_path / "b.csv.gz").read_bytes()) == b"x,y\n1,2\n"


# ---------------------------------------------------------------- writing anew


def written(items, format="csv", only_new=False):
    from kbdisk.loaders.table.read import write

    stream = io.BytesIO()
    return stream, write(items, stream, format, only_new)


def test_entities_become_rows_and_columns_in_order_of_first_appearance():
    items = [
        Entity("a", {"launch": {"year": 1999}, "weight": Quantity(12, "kg"), "tags": ["x", "y"]}, classes=("Phone",)),
        Entity("b", {"at": Coordinate(1.5, 2.5), "launch": {"day": None}, "tags": "z", "maker": Link("Q1")}),
        Entity(
            "c",
            {"label": [Text("Tirana", "en"), Text("Tirona", "sq"), Text("T", "sq")], "seen": Date(1999, 5), "on": True},
        ),
    ]
    stream, report = written(items)
    rows = list(csv.reader(io.StringIO(stream.getvalue().decode())))
    assert rows == [
        ["@id", "@type", "launch.year", "weight.value", "weight.unit", "tags[0]", "tags[1]", "at.latitude", "at.longitude",
         "launch.day", "maker", "label@en", "label@sq[0]", "label@sq[1]", "seen", "on"],
        ["a", "Phone", "1999", "12", "kg", "x", "y", "", "", "", "", "", "", "", "", ""],
        ["b", "", "", "", "", "z", "", "1.5", "2.5", "", "Q1", "", "", "", "", ""],
        ["c", "", "", "", "", "", "", "", "", "", "", "Tirana", "Tirona", "T", "1999-05", "true"],
    ]  # fmt: skip
    assert not report.unwritable
    again = list(load(stream.getvalue()))
    assert [entity.id for entity in again] == ["a", "b", "c"]
    assert again[0].classes == ("Phone",)
    assert again[0].tree["tags"] == ["x", "y"]
    assert again[1].tree["tags"] == ["z"]
    assert again[0].tree["launch"] == {"year": 1999, "day": None}


def test_a_tree_that_holds_its_id_gets_no_second_one():
    stream, _ = written([Entity("1", {"id": 1, "x": "a, b"}), Entity("2", {"id": 2, "x": "c\td"})], "tsv")
    assert stream.getvalue() == b'id\tx\n1\ta, b\n2\t"c\td"\n'


def test_what_a_table_cannot_say_is_reported():
    stream, report = written([Entity("a", {"x": NOVALUE, "y": "", "z": 5})])
    assert stream.getvalue() == b"@id,x,y,z\na,,,5\n"
    assert [(id, path) for id, path, _ in report.unwritable] == [("a", ("x",)), ("a", ("y",))]
    assert report.written == 0  # nothing was filled


def test_what_stands_under_keys_that_json_alone_has_is_reported():
    tree = {
        "@id": "a",
        "@type": "T",
        "@value": 3,
        "x": {"@id": "b", "@value": 1, "u": "kg"},
        "y": [{"@z": {}}, {"@n": None}],
    }
    _, report = written([Entity("a", tree, ("T",))])
    assert {path for _, path, _ in report.unwritable} == {("@value",), ("x", "@value"), ("y", 0, "@z")}
    new = Completion(Entity("a", {"@value": 3, "x": None}), {("x",): Filled(5)})
    assert written([new], only_new=True)[1].unwritable == []


def test_only_new_writes_ids_and_what_was_filled():
    one = Completion(Entity("a", {"x": 1, "y": None}), {("y",): Filled(5)})
    none = Completion(Entity("b", {"x": 1}))
    stream, report = written([one, none], only_new=True)
    assert stream.getvalue() == b"@id,y\na,5\n"
    assert report.written == 1


# ---------------------------------------------------------------- properties


cell = st.text(st.sampled_from("ab ,;\"\n\r\t'1é€."), max_size=6)
tables = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        st.lists(st.sampled_from("abcdefg"), min_size=width, max_size=width, unique=True),
        st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=5),
    )
)
dialects = st.fixed_dictionaries(
    {
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        "lineterminator": st.sampled_from(["\n", "\r\n", "\r"]),
    }
)


def as_csv(table, dialect, last_newline=True, bom=False):
    stream = io.StringIO()
    header, rows = table
    if any(end in cell for row in rows for cell in row for end in "\r\n"):
        dialect = dialect | {"quoting": csv.QUOTE_ALL}  # csv's writer forgets to quote a CR where lines end in LF
    writer = csv.writer(stream, **dialect)
    writer.writerow(header)
    writer.writerows([cell if cell.strip() else "" for cell in row] for row in rows)
    text = stream.getvalue() if last_newline else stream.getvalue().removesuffix(dialect["lineterminator"])
    return (b"\xef\xbb\xbf" if bom else b"") + text.encode()


def judge(data):
    return [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables, dialects, st.booleans(), st.booleans())
def test_cells_are_those_of_pythons_csv(table, dialect, newline, bom):
    data = as_csv(table, dialect, newline, bom)
    from kbdisk.loaders.table.read import Records, cells_of

    records = list(Records(io.BytesIO(data), b","))
    assert b"".join(record.raw for record in records) == data.removeprefix(b"\xef\xbb\xbf")
    assert [cells_of(record, b",", "utf-8") for record in records if record.raw.strip(b"\r\n")] == judge(data)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables, dialects, st.booleans(), st.data())
def test_filling_changes_those_cells_alone(table, dialect, newline, data):
    before = as_csv(table, dialect, newline)
    kb = load(before)
    stream = io.BytesIO()
    gaps = [(entity, path) for entity in kb for path in entity.asked()]
    fills = {}
    for entity, path in (
        data.draw(st.lists(st.sampled_from(gaps), unique_by=lambda gap: (gap[0].id, gap[1]))) if gaps else []
    ):
        value = data.draw(cell.filter(lambda text: text.strip() and text[-1] != "."))  # 1. is spelt 1 among numbers
        fills.setdefault(entity.id, Completion(entity)).filled[path] = Filled(value)
    report = kb.splice(sorted(fills.values(), key=lambda one: one.entity.position), stream)
    after, expected = stream.getvalue(), judge(before)
    refused = {(id, path) for id, path, _ in report.unwritable}
    for completion in fills.values():
        for path, one in completion.filled.items():
            if (completion.entity.id, path) not in refused:
                expected[completion.entity.position][expected[0].index(path[0])] = one.value
    assert judge(after) == expected
    assert is_within(before, after)


def is_within(before, after):
    """Whether deleting bytes from `after` gives `before`."""
    rest = iter(after)
    return all(byte in rest for byte in before)


# ---------------------------------------------------------------- real tables


@pytest.mark.shared
@for_each("name", REAL)
def test_a_real_table_with_nothing_filled_is_the_same_bytes(data, tmp_path, name):
    kbdisk.write(kbdisk.load(data / name), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (data / name).read_bytes()


@pytest.mark.shared
@for_each("name", REAL)
def test_one_value_filled_in_a_real_table_is_one_cell(data, tmp_path, name):
    import pandas

    kb = kbdisk.load(data / name)
    entity, path = next((entity, path) for entity in kb if entity.position > 1000 for path in entity.asked())
    value = next(value for other in kb for at, value in other.properties() if at == path)
    report = kbdisk.write([Completion(entity, {path: Filled(value)})], tmp_path / "out.csv")
    assert report.written == 1
    before, after = ((data / name).read_bytes(), (tmp_path / "out.csv").read_bytes())
    old, new = judge(before), judge(after)
    assert [(i, j) for i, row in enumerate(new) for j, one in enumerate(row) if old[i][j] != one] == [
        (entity.position, kb.judge()[1].columns[path])
    ]
    frame = pandas.read_csv(tmp_path / "out.csv")
    assert frame.iloc[entity.position - 1, kb.judge()[1].columns[path]] == value
    assert frame.shape == pandas.read_csv(data / name).shape
    if "gsm" not in name:  # there, it may be a spelt `nan` that gave way
        assert is_within(before, after)
    kbdisk.write(kbdisk.load(tmp_path / "out.csv"), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == after


@pytest.mark.shared
def test_the_phones_are_read_as_they_are(data):
    kb = kbdisk.load(data / "gsm/gsm_processed.csv")
    first = next(iter(kb))
    assert len(kb) == 10_679
    assert first.tree["launch"] == {"year": 1999.0, "day": None, "month": None}
    assert first.tree["model"] == "Vega"
    assert next(entity for entity in kb if entity.tree["network_edge"] is None).id == "2"
    quoted = next(entity for entity in kb if entity.position == 6226)
    assert quoted.tree["network_edge"] == "Class 12, 296 / 177.6 kbits"
    asked = sum(1 for entity in kb for _ in entity.asked())
    with (data / "gsm/gsm_processed.csv").open(newline="") as file:
        assert asked == sum(one in ("", "nan") for row in csv.reader(file) for one in row)


@for_each(("format", "told"), [("csv", "sep=|"), ("csv", '"sep=|"'), ("tsv", "sep=|"), ("csv", "\ufeffsep=|")])
def test_a_first_line_that_tells_the_delimiter_is_no_header(format, told, tmp_path):
    text = f"{told}\r\nid|a,b|c;d\r\nx|1|\r\ny|2|5\r\n"
    kb = load(text, format=format)
    assert [(one.id, one.tree["a,b"], one.tree["c;d"]) for one in kb] == [("x", 1, None), ("y", 2, 5)]
    first, _ = kb
    target = tmp_path / "out"
    kbdisk.write([Completion(first, {("c;d",): Filled(7)})], target, format=format)
    assert target.read_bytes().decode() == text.replace("x|1|", "x|1|7")


@for_each("header", ["sep=x,b", "sep=x", "sep=é", "sep="])
def test_a_header_that_only_begins_like_one_that_tells_the_delimiter_is_a_header(header):
    names = header.split(",")
    (tree,) = trees(f"{header}\n{','.join('1' for _ in names)}\n")
    assert list(tree) == names


def test_a_part_that_is_null_somewhere_adds_no_column_that_takes_the_others_apart(tmp_path):
    born = {"date": "1900-01-02", "place": "X"}
    rows = [
        {"id": "a", "born": born, "offers": [{"price": 1}]},
        {"id": "b", "born": None, "offers": None},
        {"id": "c", "born": {"date": None, "place": "Y"}, "offers": []},
    ]
    kbdisk.write(kbdisk.load(rows), tmp_path / "x.csv")
    first, second, third = kbdisk.load(tmp_path / "x.csv")
    assert first.tree == rows[0]
    assert not dict(second.properties()).keys() - {("id",)}
    assert dict(third.properties()) == {("id",): "c", ("born", "place"): "Y"}
    kbdisk.write(kbdisk.load([*rows, {"id": "d", "born": 1900}]), tmp_path / "y.csv")
    assert [one.tree["born"] for one in kbdisk.load(tmp_path / "y.csv")] == [None, None, None, 1900]


@for_each("format", ["csv", "tsv", "parquet"])
@given(
    names=st.lists(
        st.text("ab .[]\"é°'1\\", min_size=1).filter(lambda name: name == name.strip()),
        min_size=1,
        unique=True,
    )
)
@example(names=['"1 "'])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
def test_any_names_of_columns_are_kept_from_one_table_to_the_next(format, names, tmp_path):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [[*names, "last"], *([n, *map(str, range(len(names)))] for n in "45")]
    )
    try:
        kb = load(text.getvalue())
    except KBDiskError:  # two spellings of one path
        return
    kbdisk.write([Entity(one.id, one.tree) for one in kb], tmp_path / f"x.{format}", force=True)
    assert [one.tree for one in kbdisk.load(tmp_path / f"x.{format}")] == [one.tree for one in kb]
