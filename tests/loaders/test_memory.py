"""Lists, frames, Arrow streams and graphs are read as files are, and are never changed."""

from __future__ import annotations

import copy
import datetime
from decimal import Decimal

import numpy
import pandas
import pyarrow as pa
import pytest
from tables import for_each

import kbdisk
from kbdisk import Completion, Coordinate, Date, Entity, Filled, KBDiskError, KBDiskWarning, Link, Quantity, Text
from kbdisk.entity import read_path
from kbdisk.loaders.memory import frame


def trees(source, **options):
    return [entity.tree for entity in kbdisk.load(source, **options)]


def filling(kb, fills):
    entities = list(kb)
    return [
        Completion(entities[row], {read_path(at): Filled(value) for at, value in new.items()})
        for row, new in fills.items()
    ]


# ---------------------------------------------------------------- lists


def test_a_list_of_dicts_is_read_like_json():
    items = [{"id": "a", "name": "A", "@type": ["X", "Y"], "launch": {"year": 1999}}, {"id": "b", "x": None}]
    before = copy.deepcopy(items)
    kb = kbdisk.load(items)
    assert [(e.id, e.label, e.classes, e.position) for e in kb] == [("a", "A", ("X", "Y"), 1), ("b", "", (), 2)]
    assert trees(items)[0]["launch"] == {"year": 1999}
    assert list(kb) == list(kb)
    assert items == before
    assert [e.id for e in kbdisk.load([{"k": {"n": 5}}], id="k.n")] == ["5"]
    assert [e.id for e in kbdisk.load([{"x": 5}, {"x": 6}])] == ["1", "2"]
    assert [e.id for e in kbdisk.load(items, classes=["Y"])] == ["a"]


def test_python_and_numpy_and_pandas_values_become_ours():
    (tree,) = trees(
        [
            {
                "gaps": [None, float("nan"), numpy.nan, pandas.NaT, pandas.NA, Decimal("nan"), numpy.datetime64("NaT")],
                "numbers": [numpy.int64(5), numpy.float32(0.1), Decimal("1.5"), numpy.float64(2.5)],
                "truth": numpy.bool_(True),
                "day": datetime.date(1999, 5, 17),
                "moment": datetime.datetime(1999, 5, 17, 12, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
                "stamps": [
                    pandas.Timestamp("1999-05-17"),
                    numpy.datetime64("1999-05"),
                    numpy.datetime64("1999-05-17T12:00:00.5"),
                ],
                "array": numpy.array([[1, 2], [3, 4]]),
                "set": {"b", "a"},
                "length": datetime.timedelta(seconds=90),
                "ours": [Text("x", "en"), Link("q"), Quantity(1, "g")],
            }
        ]
    )
    assert tree == {
        "gaps": [None] * 7,
        "numbers": [5, 0.1, Decimal("1.5"), 2.5],
        "truth": True,
        "day": Date(1999, 5, 17),
        "moment": Date(1999, 5, 17, time="T10:30:00Z"),
        "stamps": [Date(1999, 5, 17), Date(1999, 5), Date(1999, 5, 17, time="T12:00:00.5")],
        "array": [[1, 2], [3, 4]],
        "set": ["a", "b"],
        "length": Quantity(90, "s"),
        "ours": [Text("x", "en"), Link("q"), Quantity(1, "g")],
    }
    assert type(tree["numbers"][0]) is int
    assert type(tree["truth"]) is bool


def test_an_infinite_number_is_text_with_a_warning():
    with pytest.warns(KBDiskWarning, match="not finite"):
        assert trees([{"x": float("-inf")}]) == [{"x": "-inf"}]


def deep(levels):
    part = {}
    for _ in range(levels):
        part = {"x": part}
    return part


@for_each(
    ("source", "complaint"),
    [
        ((item for item in [{"x": 1}]), "got a generator. Pass a list"),
        ([], "expected some entities, got none"),
        ([{"x": 1}, 5], "<memory>, item 2: expected a dict or an entity, got a int"),
        ([{"x": object()}], "<memory>, item 1: expected plain values, got a object"),
        ([{1: "x"}], "expected strings as keys, got 1"),
        ([deep(100_000)], "expected at most 200 parts within parts"),
        ({"x": 1}, "expected a file's name, bytes, a list of dicts or entities, a pandas frame"),
        (5, "expected a file's name, .* got a int"),
        (pandas.DataFrame(), "got an empty frame"),
        (pandas.DataFrame({"x": [b"bytes"]}), "<frame>: x: expected plain values, got a bytes"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "got 'a' more than once"),
        (pa.table({"x": pa.array([], pa.int8())}), "expected some rows, got none"),
    ],
)
def test_what_cannot_be_read_is_one_line(source, complaint):
    with pytest.raises(KBDiskError, match=complaint) as caught:
        list(kbdisk.load(source))
    assert "\n" not in str(caught.value)


def test_skip_errors_leaves_out_the_bad_item_alone():
    kb = kbdisk.load([{"x": 1}, 5, {"x": 2}], skip_errors=True)
    assert [entity.tree["x"] for entity in kb] == [1, 2]
    assert len(kb.skipped) == 1


def test_entities_stay_as_they_are():
    given = [Entity("a", {"x": 1}, ("C",), "A"), Entity("b")]
    kb = kbdisk.load(given)
    assert list(kb) == given
    assert [entity.position for entity in kb] == [1, 2]
    assert given[1].position == 0


def test_a_list_cannot_be_written_back_but_written_anew(tmp_path):
    kb = kbdisk.load([{"x": 1, "y": None}])
    kbdisk.write(filling(kb, {0: {"y": 2}}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "@id,x,y\n1,1,2\n"


# ---------------------------------------------------------------- frames

FRAME = pandas.DataFrame(
    {
        "name": ["3310", None, "nan"],
        "launch.year": [2000, numpy.nan, 2001],
        "launch.day": pandas.to_datetime(["2000-09-01T00:00", None, "2001-01-01T12:00"]),
        "maker": pandas.Categorical(["Nokia", None, "HTC"]),
        "count": pandas.array([1, None, 3], "Int64"),
        "width": numpy.array([0.1, numpy.nan, 2], "float32"),
        "on": [True, False, True],
    }
)


def test_a_frame_is_read_by_columns_as_paths():
    before = FRAME.copy(deep=True)
    assert trees(FRAME) == [
        {"name": "3310", "launch": {"year": 2000.0, "day": Date(2000, 9, 1)}, "maker": "Nokia", "count": 1, "width": 0.1, "on": True},
        {"name": None, "launch": {"year": None, "day": None}, "maker": None, "count": None, "width": None, "on": False},
        {"name": None, "launch": {"year": 2001.0, "day": Date(2001, 1, 1, time="T12:00:00")}, "maker": "HTC", "count": 3, "width": 2.0, "on": True},
    ]  # fmt: skip
    assert [type(value) for _, value in next(iter(kbdisk.load(FRAME))).properties()] == [
        str,
        float,
        Date,
        str,
        int,
        float,
        bool,
    ]
    pandas.testing.assert_frame_equal(FRAME, before)


def test_an_index_of_its_own_holds_the_ids():
    assert [entity.id for entity in kbdisk.load(FRAME)] == ["0", "1", "2"]
    assert [entity.id for entity in kbdisk.load(FRAME.iloc[[2, 0]])] == ["2", "0"]
    assert [entity.id for entity in kbdisk.load(FRAME.set_index(pandas.Index(list("abc"), name="key")))] == [
        "a",
        "b",
        "c",
    ]
    assert [entity.id for entity in kbdisk.load(FRAME, id="count", skip_errors=True)] == ["1", "3"]
    assert [entity.id for entity in kbdisk.load(FRAME.assign(id=list("xyz")))] == ["x", "y", "z"]
    twice = pandas.concat([FRAME, FRAME])  # what two rows have is no id
    assert [(entity.id, entity.nameless) for entity in kbdisk.load(twice)] == [(str(i), True) for i in range(1, 7)]
    nameless = pandas.DataFrame({"": [["p"], ["q"]], "x": [1, 2]})
    assert [(entity.id, entity.tree) for entity in kbdisk.load(nameless)] == [("['p']", {"x": 1}), ("['q']", {"x": 2})]
    two = pandas.DataFrame({"x": [1]}, index=pandas.MultiIndex.from_tuples([("a", 1)]))
    assert [entity.id for entity in kbdisk.load(two)] == ["a/1"]


def test_levels_of_columns_are_keys():
    columns = pandas.MultiIndex.from_tuples([("launch", "year"), ("launch", "month"), ("name", "")])
    assert trees(pandas.DataFrame([[1999, 5, "x"]], columns=columns)) == [
        {"launch": {"year": 1999, "month": 5}, "name": "x"}
    ]


def test_a_frame_wider_than_one_stretch_of_rows_is_whole():
    big = pandas.DataFrame({"x": range(10_000)})
    assert [entity.tree["x"] for entity in kbdisk.load(big)] == list(range(10_000))


def test_completions_become_the_frame_again():
    before = FRAME.copy(deep=True)
    kb = kbdisk.load(FRAME)
    fills = {
        "name": "3210", "launch.year": 1999, "launch.day": Date(1999, 3, 18), "maker": "Siemens", "count": 2, "width": 0.5,
    }  # fmt: skip
    out = frame(filling(kb, {1: fills}))
    pandas.testing.assert_frame_equal(FRAME, before)
    assert (out.dtypes.drop("maker") == FRAME.dtypes.drop("maker")).all()
    assert out.dtypes["maker"] == "category"
    assert out.iloc[1].tolist() == ["3210", 1999, pandas.Timestamp("1999-03-18"), "Siemens", 2, 0.5, False]
    pandas.testing.assert_frame_equal(
        out.iloc[[0, 2]].astype({"maker": object}), FRAME.iloc[[0, 2]].astype({"maker": object})
    )


def test_a_value_of_another_type_makes_an_object_of_its_column_alone():
    out = frame(filling(kbdisk.load(FRAME), {1: {"launch.day": Date(1999, 3)}}))
    assert out["launch.day"].iloc[1] == "1999-03"
    assert out.dtypes["count"] == "Int64"


def test_given_values_and_missing_columns_of_a_frame_are_refused():
    kb = kbdisk.load(FRAME)
    with pytest.raises(KBDiskError, match="the value False already"):
        frame(filling(kb, {1: {"on": True}}))
    with pytest.raises(KBDiskError, match="no such column"):
        frame(filling(kb, {1: {"price": 5}}))


def test_entities_of_no_frame_become_a_new_one():
    out = frame([Entity("a", {"x": 1, "at": Coordinate(1.5, 2.5)}), Entity("b", {"x": 2, "d": Date(1999, 5)})])
    assert out.index.tolist() == ["a", "b"]
    assert out["x"].tolist() == [1, 2]
    assert out["at.latitude"].tolist()[0] == 1.5
    assert out["d"].tolist()[1] == "1999-05"


# ---------------------------------------------------------------- streams and graphs


class Stream:
    """What offers an Arrow stream and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_anything_with_an_arrow_stream_is_read():
    table = pa.table({"id": ["a", "b"], "launch.year": [1999, None], "part": [{"x": 1}, None]})
    kb = kbdisk.load(Stream(table))
    assert [(e.id, e.tree) for e in kb] == [
        ("a", {"id": "a", "launch": {"year": 1999}, "part": {"x": 1}}),
        ("b", {"id": "b", "launch": {"year": None}, "part": None}),
    ]
    assert len(list(kb)) == len(list(kb)) == 2


def test_a_graph_is_read_as_rdf():
    import rdflib

    graph = rdflib.Graph().parse(data="<http://ex.org/a> <http://ex.org/x> 5 .", format="turtle")
    assert [entity.id for entity in kbdisk.load(graph)] == ["http://ex.org/a"]
