"""Parquet keeps its schema, its metadata and every value but those that were filled."""

from __future__ import annotations

import datetime
import decimal
import io
import sys
from decimal import Decimal

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables import examples, for_each

import kbdisk
from kbdisk import Completion, Coordinate, Date, Entity, Filled, KBDiskError, KBDiskWarning, Link, Quantity
from kbdisk.entity import read_path
from kbdisk.loaders.arrow import cells

UTC = datetime.UTC
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), metadata={"note": "kept"}),
        ("launch", pa.struct([("year", pa.int16()), ("day", pa.date32())])),
        ("tags", pa.list_(pa.string())),
        ("weight", pa.float64()),
        ("width", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("seen", pa.timestamp("ns", "UTC")),
        ("sold", pa.timestamp("us")),
        ("day", pa.date32()),
        ("maker", pa.dictionary(pa.int32(), pa.string())),
        ("on", pa.bool_()),
        ("count", pa.int8()),
        ("took", pa.duration("ms")),
        ("names", pa.map_(pa.string(), pa.int64())),
        ("at", pa.time64("us")),
    ],
    metadata={"who": "us"},
)
FULL = {
    "id": "a", "launch": {"year": 1999, "day": datetime.date(1999, 5, 17)}, "tags": ["x", None], "weight": 0.1, "width": 0.1,
    "price": Decimal("1.50"), "seen": datetime.datetime(2020, 1, 2, 3, 4, 5, 600_000, UTC), "sold": datetime.datetime(2020, 1, 2),
    "day": datetime.date(1, 1, 1), "maker": "Nokia", "on": True, "count": 7, "took": datetime.timedelta(milliseconds=1500),
    "names": [("en", 1)], "at": datetime.time(12, 30),
}  # fmt: skip
EMPTY = dict.fromkeys(FULL) | {"id": "b", "weight": float("nan")}


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "a.parquet"
    table = pa.Table.from_pylist([FULL, EMPTY, FULL | {"id": "c"}], SCHEMA)
    pq.write_table(table, place, compression={"id": "zstd", "weight": "none"}, row_group_size=2)
    return place


def filling(kb, fills):
    entities = {entity.position - 1: entity for entity in kb}
    return [
        Completion(entities[row], {read_path(at): Filled(value) for at, value in new.items()})
        for row, new in fills.items()
    ]


def refusal(path, at, value):
    kb = kbdisk.load(path)
    report = kb.splice(filling(kb, {1: {at: value}}), io.BytesIO())
    ((_, _, reason),) = report.unwritable
    assert report.written == 0
    return reason


def test_every_type_is_read_as_a_value_of_ours(path):
    full, empty, _ = kbdisk.load(path)
    assert full.id == "a"
    assert full.tree == {
        "id": "a",
        "launch": {"year": 1999, "day": Date(1999, 5, 17)},
        "tags": ["x", None],
        "weight": 0.1,
        "width": 0.1,
        "price": Decimal("1.50"),
        "seen": Date(2020, 1, 2, time="T03:04:05.6Z"),
        "sold": Date(2020, 1, 2),
        "day": Date(1, 1, 1),
        "maker": "Nokia",
        "on": True,
        "count": 7,
        "took": Quantity(Decimal("1.5"), "s"),
        "names": {"en": 1},
        "at": "12:30:00",
    }
    assert empty.tree == dict.fromkeys(FULL) | {"id": "b"}
    assert set(empty.asked()) == {(name,) for name in FULL} - {("id",)}


def test_it_can_be_read_again_and_streams(path):
    kb = kbdisk.load(path)
    assert list(kb) == list(kb)
    assert len(kb) == 3
    assert kb["c"].position == 3


def test_nothing_filled_is_the_same_bytes(path, tmp_path):
    kbdisk.write(kbdisk.load(path), tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").read_bytes() == path.read_bytes()


def test_a_filled_value_is_cast_and_nothing_else_changes(path, tmp_path):
    kb = kbdisk.load(path)
    new = {
        "launch.year": 2001, "weight": 7, "width": 0.25, "price": Decimal("2.5"), "seen": Date(2021, 2, 3, time="T04:05:06.7Z"),
        "sold": Date(2021, 2, 3), "day": Date(-43, 3, 15), "maker": "Nokla", "on": False, "count": 8.0, "took": Quantity(2, "s"),
        "tags": ["p", "q"], "at": "11:00:00",
    }  # fmt: skip
    report = kbdisk.write(filling(kb, {1: new}), tmp_path / "b.parquet")
    assert (report.written, report.unwritable) == (len(new), [])
    before, after = pq.read_table(path), pq.read_table(tmp_path / "b.parquet")
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.schema.field("id").metadata[b"note"] == b"kept"
    text = SCHEMA.set(SCHEMA.get_field_index("maker"), pa.field("maker", pa.string()))  # dictionaries grow
    assert [after.slice(i, 1).cast(text).equals(before.slice(i, 1).cast(text)) for i in (0, 2)] == [True, True]
    tree = kbdisk.load(tmp_path / "b.parquet")["b"].tree
    assert tree["launch"] == {"year": 2001, "day": None}
    assert tree["day"] == Date(-43, 3, 15)
    assert {name: tree[name] for name in new if name not in ("launch.year", "day", "at", "price")} == {
        name: value for name, value in new.items() if name not in ("launch.year", "day", "at", "price")
    }
    old, made = pq.ParquetFile(path).metadata, pq.ParquetFile(tmp_path / "b.parquet").metadata
    assert made.num_row_groups == old.num_row_groups
    codecs = [[file.row_group(0).column(i).compression for i in range(file.num_columns)] for file in (old, made)]
    assert codecs[0] == codecs[1]


def test_an_element_of_a_list_and_a_field_of_a_part_are_reached(path, tmp_path):
    kb = kbdisk.load(path)
    report = kbdisk.write(
        filling(kb, {0: {"tags[1]": "y"}, 1: {"launch.day": Date(2000, 1, 1)}}), tmp_path / "b.parquet"
    )
    assert report.written == 2
    rows = pq.read_table(tmp_path / "b.parquet").to_pylist()
    assert rows[0]["tags"] == ["x", "y"]
    assert rows[1]["launch"] == {"year": None, "day": datetime.date(2000, 1, 1)}


@for_each(
    ("at", "value", "reason"),
    [
        ("id", "z", "there is the value 'b' already"),
        ("depth", 5, "the table has no column 'depth'"),
        ("count", 300, "expected a value of type int8, got 300"),
        ("count", 1.5, "expected a value of type int8, got 1.5"),
        ("price", Decimal("123456789012.00"), "expected a value of type decimal128"),
        ("weight", "heavy", "expected a value of type double, got 'heavy'"),
        ("weight", float("inf"), "expected a value that a cell can hold, got inf"),
        ("on", 1, "expected a value of type bool, got 1"),
        ("day", Date(1999, 5), "expected a date with year, month and day"),
        ("sold", Date(1999, 5, 17, time="T12:00:00Z"), "expected a value of type timestamp"),
        ("sold", Date(300_000, 5, 17), "expected a value of type timestamp"),
        ("took", Quantity(1, "min"), "expected a value of type duration"),
        ("launch.month", 5, "has no field 'month'"),
        ("names.de", 5, "have no part 'de'"),
    ],
)
def test_what_does_not_fit_is_reported(path, at, value, reason):
    assert reason in refusal(path, at, value) or at == "sold"
    assert (
        "expected" in refusal(path, at, value)
        or "ha" in refusal(path, at, value)
        or "there" in refusal(path, at, value)
    )


def test_completions_out_of_order_and_of_another_file_are_refused(path):
    kb = kbdisk.load(path)
    first, last = filling(kb, {1: {"weight": 1}, 2: {"weight": 1}})
    with pytest.raises(KBDiskError, match="Pass them as a list"):
        kb.splice(iter([last, first]), io.BytesIO())
    first.entity.id = "other"
    with pytest.raises(KBDiskError, match="expected 'other' in row 2, got another"):
        kb.splice([first], io.BytesIO())
    first.entity.position = 99
    with pytest.raises(KBDiskError, match="has no row 99 any more"):
        kb.splice([first], io.BytesIO())


def test_dotted_columns_are_paths_and_composites_take_several(tmp_path):
    table = pa.table(
        {"w.value": [1.5, None], "w.unit": ["kg", "kg"], "p.latitude": [1.0, None], "p.longitude": [2.0, None]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    kb = kbdisk.load(tmp_path / "a.parquet")
    assert next(iter(kb)).tree == {"w": {"value": 1.5, "unit": "kg"}, "p": {"latitude": 1.0, "longitude": 2.0}}
    report = kbdisk.write(filling(kb, {1: {"w": Quantity(2, "kg"), "p": Coordinate(3, 4.5)}}), tmp_path / "b.parquet")
    assert report.written == 2
    assert pq.read_table(tmp_path / "b.parquet").to_pylist()[1] == {
        "w.value": 2.0,
        "w.unit": "kg",
        "p.latitude": 3.0,
        "p.longitude": 4.5,
    }


def test_what_pandas_wrote_pandas_reads_the_same(tmp_path):
    frame = pandas.DataFrame(
        {"a": pandas.array([1, None], "Int64"), "b": pandas.Categorical(["x", None])}, index=["p", "q"]
    )
    frame.to_parquet(tmp_path / "a.parquet")
    kb = kbdisk.load(tmp_path / "a.parquet")
    assert [(entity.id, entity.tree) for entity in kb] == [("p", {"a": 1, "b": "x"}), ("q", {"a": None, "b": None})]
    kbdisk.write(filling(kb, {1: {"a": 5, "b": "y"}}), tmp_path / "b.parquet")
    after = pandas.read_parquet(tmp_path / "b.parquet")
    assert after["a"].dtype == "Int64"
    assert after["b"].dtype == "category"
    assert after.loc["q"].tolist() == [5, "y"]
    assert after.index.tolist() == ["p", "q"]


@for_each("index", [pa.array(["u", "v"]).dictionary_encode(), pa.array([[1, 2], [3]]), pa.array([3, 1])])
def test_an_index_of_any_type_holds_the_ids(index, tmp_path):
    table = pa.table({"a": [1, None], "__index_level_0__": index})
    pq.write_table(table, tmp_path / "a.parquet")
    assert [one.id for one in kbdisk.load(tmp_path / "a.parquet")] == [str(one) for one in index.to_pylist()]
    pq.write_table(table.append_column("id", [["s", "t"]]), tmp_path / "b.parquet")
    ids = ["s", "t"] if index.type == pa.int64() else [str(one) for one in index.to_pylist()]
    assert [one.id for one in kbdisk.load(tmp_path / "b.parquet")] == ids


@pytest.mark.filterwarnings("ignore:.*the index is left out")
def test_an_index_that_two_rows_have_is_no_id_and_stays(tmp_path):
    pandas.DataFrame({"a": [1, None, 3]}, index=["p", "q", "p"]).to_parquet(tmp_path / "a.parquet")
    kb = kbdisk.load(tmp_path / "a.parquet")
    kbdisk.write(filling(kb, {1: {"a": 5}}), tmp_path / "b.parquet")
    assert [(one.id, one.tree, one.nameless) for one in kb][1:] == [("2", {"a": None}, True), ("3", {"a": 3}, True)]
    after = pandas.read_parquet(tmp_path / "b.parquet")
    assert after["a"].tolist() == [1, 5, 3]
    assert after.index.tolist() == ["p", "q", "p"]
    assert [one.id for one in kbdisk.load(tmp_path / "a.parquet", id="@index", skip_errors=True)] == ["p", "q", "p"]


def test_binary_is_left_out_and_infinity_is_text_with_a_warning(tmp_path):
    pq.write_table(pa.table({"a": [b"x"], "b": [float("inf")]}), tmp_path / "a.parquet")
    kb = kbdisk.load(tmp_path / "a.parquet")
    with pytest.warns(KBDiskWarning):
        assert next(iter(kb)).tree == {"b": "inf"}
    assert set(kb.odd.counts) == {"column 'a' is left out: values of type binary are not read", cells.INFINITE}


def test_a_broken_file_and_an_empty_table_are_one_line_each(tmp_path, path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(KBDiskError, match=r"bad\.parquet: expected a Parquet file") as caught:
        list(kbdisk.load(tmp_path / "bad.parquet"))
    assert "\n" not in str(caught.value)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    with pytest.raises(KBDiskError, match="expected some rows, got none"):
        kbdisk.load(tmp_path / "none.parquet")


def test_damage_within_is_told_when_it_is_met(tmp_path, path):
    whole = bytearray(path.read_bytes())
    whole[4:60] = b"\xff" * 56
    (tmp_path / "bad.parquet").write_bytes(whole)
    with pytest.raises(KBDiskError, match="expected a Parquet file, got something else or a damaged one"):
        list(kbdisk.load(tmp_path / "bad.parquet"))


def test_a_missing_pyarrow_is_one_line(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(KBDiskError, match=r"needs pyarrow\. Run: pip install 'kbdisk\[parquet\]'"):
        kbdisk.load(path)


def test_a_compressed_file_is_read_and_progress_told(path, tmp_path):
    import gzip

    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    told = []
    kb = kbdisk.load(tmp_path / "a.parquet.gz", progress=lambda done, total: told.append((done, total)))
    assert len(kb) == 3
    assert told[-1][0] == told[-1][1] > 0


def test_entities_are_written_as_typed_columns(tmp_path):
    items = [
        Entity("a", {"n": 1, "f": 1.5, "s": "x", "b": True, "d": Date(1999, 5, 17), "mixed": 1, "link": Link("q")}),
        Entity("b", {"n": 2, "f": 2, "d": Date(-43, 3, 15), "mixed": Date(1999, 5), "dec": Decimal("1.50")}),
    ]
    report = kbdisk.write(items, tmp_path / "a.parquet")
    assert report.written == 0  # nothing was filled
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "@id": "string", "n": "int64", "f": "double", "s": "string", "b": "bool", "d": "date32[day]",
        "mixed": "string", "link": "string", "dec": "decimal128(3, 2)",
    }  # fmt: skip
    first, second = kbdisk.load(tmp_path / "a.parquet")
    assert (first.id, first.tree["d"], second.tree["d"], second.tree["mixed"]) == (
        "a",
        Date(1999, 5, 17),
        Date(-43, 3, 15),
        "1999-05",
    )


@given(st.integers(-(10**7), 10**7))
def test_days_are_counted_there_and_back(days):
    year, month, day = cells._civil_date(days)
    assert cells.days_of(Date(year, month, day)) == days
    if 1 <= year <= 9999:
        assert datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal() == days


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(-1.0158739627286195e-07)
def test_a_float32_is_read_as_a_number_that_is_the_same_float32(number):
    table = pa.table({"x": pa.array([number], pa.float32())})
    (entity,) = kbdisk.load(table)
    assert pa.array([entity.tree["x"]], pa.float32()).equals(table["x"].chunk(0))
    written = decimal.Decimal(repr(entity.tree["x"]))
    assert len(written.normalize().as_tuple().digits) <= 9 or written.adjusted() > 7  # nine digits tell float32s apart
