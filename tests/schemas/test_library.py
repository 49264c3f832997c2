"""The library's schemas: each fits its data, says why where the inferred one differs, and loses nothing of a value."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

import kbdisk
from kbdisk.entity import Entity, Known, at, is_gap, show, walk
from kbdisk.errors import SchemaError
from kbdisk.inspection import check
from kbdisk.schemas import library
from kbdisk.schemas.composites import kind_name
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.library import tabular
from kbdisk.schemas.property import apply_property, with_value
from kbdisk.schemas.schema import Schema

ROOT = Path(__file__).parents[2]


class Data(NamedTuple):
    """What is known of a library schema's data: where it is, and what does not fit."""

    file: str
    misfits: dict[str, int] = {}  # noqa: RUF012
    unknown: frozenset[str] = frozenset()


DATA = {
    "phone": Data("gsm/gsm_processed.csv"),
    "nuclide": Data("nuclear/nuclear_processed.csv"),
    "country": Data("json/countries.json"),
    "laureate": Data("json/nobel_laureates.json"),
    "element": Data("examples/elements.ttl"),
    "mondial": Data("rdf/mondial/mondial-europe.n3"),
}
NAMES = [pytest.param(name, marks=[] if "examples" in DATA[name].file else pytest.mark.shared) for name in DATA]


@functools.cache
def schema_named(name: str) -> Schema:
    return Schema.read(library.find(name))


@functools.cache
def entities_of(name: str) -> list[Entity]:
    return list(kb_of(name))


def kb_of(name: str) -> kbdisk.KB:
    from conftest import shared_data

    file = DATA[name].file
    return kbdisk.load(ROOT / file if file.startswith("examples") else shared_data() / file)


# ---------------------------------------------------------------- the files


def test_every_schema_of_the_library_is_tested_with_data():
    assert library.names() == sorted(DATA)


@for_each("name", DATA)
def test_a_schema_says_what_it_is_of_and_why(name):
    text = library.find(name).read_text()
    assert schema_named(name).label
    assert text.startswith("# ")
    assert text.count("#") >= 3


@for_each("name", DATA)
def test_a_schema_is_found_by_its_name_and_a_file_by_its_own(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(library.find("phone").read_text())
    assert Schema.read(name).label == schema_named(name).label
    assert Schema.read("mine.yaml").label == schema_named("phone").label
    Path(name).mkdir()  # a folder is no schema
    assert Schema.read(name).label == schema_named(name).label


@for_each(
    ("name", "complaint"),
    [
        ("fone", "fone: unknown schema. Did you mean 'phone'? The library has country, element, "),
        ("phone.yaml", "phone.yaml: no such file. The library has 'phone': say that name alone."),
        ("none.yaml", "none.yaml: no such file."),
        ("./phone", "./phone: no such file. The library has 'phone': say that name alone."),
    ],
)
def test_what_is_not_there_is_named_with_what_is(name, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemaError) as error:
        Schema.read(name)
    assert str(error.value).startswith(complaint)


# ---------------------------------------------------------------- with their data


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_schema_fits_its_data_but_for_a_stated_handful(name):
    found = check(schema_named(name), kb_of(name), name=name)
    assert {f"{one.of}.{one.path}: {one.problem}": one.count for one in found.misfits} == DATA[name].misfits
    assert {f"{one.of}.{one.path}" for one in found.unknown} == DATA[name].unknown
    assert found.absent == []


@pytest.mark.parametrize("name", NAMES)
def test_values_go_to_leaves_and_back_unchanged(name):
    """With random leaves left out, or asked for."""
    schema = schema_named(name)

    @settings(deadline=None, max_examples=examples(20))
    @given(st.sampled_from(entities_of(name)), st.integers(0, 2**32))
    def test(entity, seed):
        partial = Entity(entity.id, partly(entity.tree, random.Random(seed)), entity.classes)
        of = schema.class_of(partial)
        if of is not None:
            leaves = schema.leaves(partial)
            again = schema.tree(leaves, of.name)
            assert without_gaps(again) == known(schema, partial)
            assert schema.leaves(Entity(entity.id, again, entity.classes)) == leaves

    test()


def partly(tree: Any, dice: random.Random) -> Any:
    """A tree with some of its leaves left out, or asked for."""
    if not isinstance(tree, dict):
        return [partly(one, dice) for one in tree] if isinstance(tree, list) else tree
    fates = {
        key: "kept" if key[:1] == "@" else dice.choices(["kept", "dropped", "asked"], [6, 1, 1])[0] for key in tree
    }
    return {
        key: None if fates[key] == "asked" else partly(value, dice)
        for key, value in tree.items()
        if fates[key] != "dropped"
    }


def known(schema: Schema, entity: Entity) -> dict:
    """The tree of what is known and fits, each value in the form of its kind."""
    tree: dict = {}
    for path, one in schema.class_of(entity).properties.items():
        try:
            value = apply_property(one, at(entity.tree, path), schema.missing)
        except (KeyError, ValueError):
            continue
        if value is not None and not isinstance(value, Known) and one.role != "ignore":
            tree = with_value(tree, path, without_gaps(value))
    return tree


def without_gaps(value: Any) -> Any:
    """A part without what is asked for in it; in a list it keeps its place."""
    if isinstance(value, dict):
        return {key: without_gaps(inner) for key, inner in value.items() if inner is not None}
    return [without_gaps(inner) for inner in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- beside the inferred ones


@pytest.mark.parametrize("name", NAMES)
def test_the_inferred_schema_agrees_but_where_a_comment_says_why(name):
    mine, inferred = schema_named(name), kbdisk.infer(kb_of(name)).schema
    different = {
        f"{of}.{show(path)}"
        for of, path, kind in kinds(mine)
        if kind
        != next((theirs for there, where, theirs in kinds(inferred) if (there or of, where) == (of, path)), None)
    }
    assert different == set(documented(name))


def kinds(schema: Schema) -> Iterator[tuple[str, tuple, Any]]:
    for of in schema.classes.values():
        for path, one in of.properties.items():
            yield of.name, path, spelt(one.kind)


def spelt(kind) -> Any:
    """A kind by its name; of a list or a map the kinds of its fields, too."""
    fields = getattr(kind, "fields", {})
    return kind_name(kind), {name: spelt(inner) for name, inner in fields.items()}


def documented(name: str) -> Iterator[str]:
    """The properties with a comment `# inferred: ...` right above them."""
    of, said = "", False
    for line in library.find(name).read_text().splitlines():
        if re.match(r" *#", line):
            said = said or "# inferred:" in line
        elif found := re.match(r"  (\S[^:]*):", line):
            of, said = found[1], False
        elif found := re.match(r"      (\S[^:]*):", line):
            if said:
                yield f"{of}.{found[1]}"
            said = False


# ---------------------------------------------------------------- each for itself


def test_a_phone_has_a_date_of_launch_and_a_weight_in_grams():
    (phone,) = schema_named("phone").classes.values()
    assert phone.properties["launch",].kind == Date(parts=("year", "month", "day"), minimum=1983, maximum=2100)
    weight = phone.properties["weight",].kind
    assert isinstance(weight, Quantity)
    assert weight.unit == "g"


def test_nan_of_a_phone_is_a_gap_also_where_the_reader_left_it():
    (phone,) = kbdisk.load(
        [{"network_edge": "nan", "weight": "nan", "oem": "Nokia", "launch": {"year": 2000, "day": None}}]
    )
    leaves = schema_named("phone").leaves(phone)
    assert leaves == {("oem",): "Nokia", ("launch", "year"): 2000}


@pytest.mark.shared
def test_a_gsm_row_comes_back_leaf_by_leaf():
    """The values of the table themselves, not only those of our own form of them."""
    schema = schema_named("phone")
    for phone in itertools.islice(entities_of("phone"), 0, None, 50):
        leaves = {path: value for path, value in schema.leaves(phone).items() if path[-1] != "unit"}
        given = dict(phone.properties())
        assert {path[:-1] if path[-1] == "value" else path: value for path, value in leaves.items()} == given


@pytest.mark.shared
def test_countries_are_few_properties_that_cover_nearly_every_leaf_value():
    schema = schema_named("country")
    assert sum(len(one.properties) for one in schema.classes.values()) < 60
    leaves = missed = 0
    for country in entities_of("country"):
        leaves += sum(1 for _, value in walk(country.tree) if not is_gap(value))
        missed += sum(1 for _ in schema.unknown(country)) + len(schema.check(country))
    assert missed / leaves < 0.05


def test_a_laureate_who_is_alive_has_a_known_end_and_no_gap():
    person = Entity("1", {"id": "1", "born": "1943-00-00", "died": "0000-00-00", "prizes": []})
    applied = schema_named("laureate").apply(person)
    assert (applied.tree["born"].year, applied.tree["born"].month) == (1943, None)
    assert applied.tree["died"] is kbdisk.NOVALUE


# ---------------------------------------------------------------- tabular sets


@pytest.mark.shared
def test_every_tabular_set_has_a_schema_that_its_entities_fit(data):
    import numpy

    infos = sorted(data.glob("tabular/*/info.json"))
    assert len(infos) == 10
    for file in infos:
        info = json.loads(file.read_text())
        schema = tabular.schema_of(info)
        (of,) = schema.classes.values()
        assert len(of.properties) == info["n_num_features"] + info["n_cat_features"] + 1
        arrays = file.parent.with_suffix(".npz")
        for entity in itertools.islice(entities_in(arrays, numpy), 0, 2000, 20) if arrays.is_file() else ():
            assert schema.check(entity) == []
            assert list(schema.unknown(entity)) == []


def entities_in(file: Path, numpy) -> Iterator[Entity]:
    arrays = numpy.load(file, allow_pickle=False)
    parts = {"num": arrays.get("X_num_test"), "cat": arrays.get("X_cat_test")}
    for row, target in enumerate(arrays["y_test"].tolist()):
        tree = {
            f"{name}_{n}": None if value != value else value
            for name, part in parts.items()
            for n, value in enumerate([] if part is None else part[row].tolist())
        }
        yield Entity(str(row), {**tree, "target": target})


def test_a_tabular_sets_target_is_what_its_task_says():
    info = {"name": "a", "n_num_features": 1, "n_cat_features": 1}
    kinds = {
        task: tabular.schema_of({**info, "task_type": task, "n_classes": 3}).classes[""].properties["target",].kind
        for task in ("regression", "binclass", "multiclass")
    }
    assert kinds == {
        "regression": Number(),
        "binclass": Category((0, 1), closed=True),
        "multiclass": Category((0, 1, 2), closed=True),
    }


@for_each(
    ("info", "complaint"),
    [
        (
            {"n_num_features": 1, "n_cat_features": 0},
            "a: expected a task_type of regression, binclass or multiclass, got None.",
        ),
        (
            {"n_cat_features": 0, "task_type": "binclass"},
            "a: expected n_num_features to be how many there are, got None.",
        ),
        (
            {"n_num_features": 1, "n_cat_features": True, "task_type": "regression"},
            "a: expected n_cat_features to be how many there are, got True.",
        ),
        (
            {"n_num_features": 1, "n_cat_features": 0, "task_type": "multiclass"},
            "a: expected n_classes to be how many there are, got None.",
        ),
    ],
)
def test_an_info_that_tells_too_little_is_refused(info, complaint):
    with pytest.raises(SchemaError, match=re.escape(complaint)):
        tabular.schema_of({"name": "a", **info})
