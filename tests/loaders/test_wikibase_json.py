"""A Wikibase's JSON becomes entities; what was filled leaves as QuickStatements."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import pytest
from tables import for_each

import kbdisk
from kbdisk import NOVALUE, SOMEVALUE, Completion, Coordinate, Date, Entity, Filled, Link, Quantity, Text
from kbdisk.errors import KBDiskWarning, LoadError, WriteError
from kbdisk.loaders.files import Source
from kbdisk.loaders.wikibase.json_dump import is_wikibase_json

JULIAN = "http://www.wikidata.org/entity/Q1985786"
GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
METRE = "http://wiki.example/entity/Q11573"


def value(type, held):
    return {"snaktype": "value", "property": "P1", "datavalue": {"type": type, "value": held}}


def time(text, precision=11, calendar=GREGORIAN):
    return value(
        "time",
        {"time": text, "timezone": 0, "before": 0, "after": 0, "precision": precision, "calendarmodel": calendar},
    )


def quantity(amount, unit=METRE):
    return value("quantity", {"amount": amount, "unit": unit})


def item(id):
    return value("wikibase-entityid", {"entity-type": "item", "id": id, "numeric-id": int(id[1:])})


def statements(*snaks, rank="normal"):
    return [{"mainsnak": snak, "type": "statement", "rank": rank, "id": "Q1$1"} for snak in snaks]


def entity(id="Q1", claims=None, **more):
    return {"type": "item", "id": id, "labels": {}, "descriptions": {}, "aliases": {}, "claims": claims or {}, **more}


def dump(folder, *entities, name="dump.json"):
    path = folder / name
    lines = ",\n".join(one if isinstance(one, str) else json.dumps(one) for one in entities)
    path.write_text(f"[\n{lines}\n]\n")
    return path


def entities(path, **options):
    return [one for one in kbdisk.load(path, **options)]  # noqa: C416 (list() would ask for the length first)


def one_value(folder, snak):
    [found] = entities(dump(folder, entity(claims={"P1": statements(snak)})))
    return found.tree.get("P1")


# ---------------------------------------------------------------- values


@for_each(
    ("snak", "expected"),
    [
        (item("Q5"), Link("Q5")),
        (value("wikibase-entityid", {"entity-type": "item", "numeric-id": 5}), Link("Q5")),
        (value("wikibase-entityid", {"entity-type": "property", "numeric-id": 5}), Link("P5")),
        (value("wikibase-entityid", {"entity-type": "item", "numeric-id": 10**20 + 1}), Link(f"Q{10**20 + 1}")),
        (value("wikibase-entityid", {"entity-type": "form", "id": "L1-F2"}), Link("L1-F2")),
        (value("string", "000057405"), "000057405"),
        (value("monolingualtext", {"text": "превед", "language": "ru"}), Text("превед", "ru")),
        (quantity("+1.96"), Quantity(1.96, METRE)),
        (quantity("-12", "1"), -12),
        (
            quantity("+19.768000000000000682121026329696178436279296875", "1"),
            Decimal("19.768000000000000682121026329696178436279296875"),
        ),
        (quantity("+" + "9" * 40, "1"), int("9" * 40)),
        (
            value(
                "globecoordinate",
                {
                    "latitude": 12.125,
                    "longitude": 67.25,
                    "precision": 0.1,
                    "globe": "http://www.wikidata.org/entity/Q2",
                },
            ),
            Coordinate(12.125, 67.25),
        ),
        (
            value("globecoordinate", {"latitude": 1, "longitude": -2, "globe": "http://wiki.example/entity/Q405"}),
            Coordinate(1, -2, "http://wiki.example/entity/Q405"),
        ),
        ({"snaktype": "somevalue", "property": "P1"}, SOMEVALUE),
        ({"snaktype": "novalue", "property": "P1"}, NOVALUE),
    ],
)
def test_each_type_of_value_becomes_one_of_ours(tmp_path, snak, expected):
    found = one_value(tmp_path, snak)
    assert found == expected
    assert type(found) is type(expected)


@for_each(
    ("snak", "expected"),
    [
        (time("+1952-03-11T00:00:00Z"), Date(1952, 3, 11)),
        (time("+00000001952-03-11T00:00:00Z"), Date(1952, 3, 11)),
        (time("+1952-03-00T00:00:00Z", 10), Date(1952, 3)),
        (time("+1952-00-00T00:00:00Z", 9), Date(1952)),
        (time("+1952-03-11T00:00:00Z", 9), Date(1952)),
        (time("-0044-03-15T00:00:00Z", 11, JULIAN), Date(-43, 3, 15, calendar=JULIAN)),
        (time("-0001-00-00T00:00:00Z", 9), Date(0)),
        (time("+1500-02-29T00:00:00Z", 11, JULIAN), Date(1500, 2, 29, calendar=JULIAN)),
        (time("+1970-00-00T00:00:00Z", 8), Date(1970, precision="decade")),
        (time("+1900-00-00T00:00:00Z", 7), Date(1900, precision="century")),
        (time("-13798000000-00-00T00:00:00Z", 3), Date(-13797999999, precision="1Ma")),
        (time("+2012-03-13T12:30:00Z", 13), Date(2012, 3, 13, "minute", "T12:30:00Z")),
    ],
)
def test_a_time_keeps_what_its_precision_says_and_no_more(tmp_path, snak, expected):
    assert one_value(tmp_path, snak) == expected


@for_each(
    "text", ["+2012-02-31T00:00:00Z", "+2012-00-01T00:00:00Z", "+2012-13-01T00:00:00Z", "+0000-02-29T00:00:00Z", "soon"]
)
def test_a_date_that_cannot_be_is_kept_as_text_with_a_warning(tmp_path, text):
    with pytest.warns(KBDiskWarning, match=r"dump.json:2, Q1 P1: .*time that cannot be"):
        assert one_value(tmp_path, time(text)) == text


def test_a_number_that_is_none_is_kept_as_text_with_a_warning(tmp_path):
    with pytest.warns(KBDiskWarning, match="quantity that cannot be"):
        assert one_value(tmp_path, quantity("many")) == "many"


# ---------------------------------------------------------------- statements


def test_preferred_values_hide_normal_ones_and_deprecated_ones_never_show(tmp_path):
    claims = {
        "P1": statements(item("Q1")) + statements(item("Q2"), item("Q3"), rank="preferred"),
        "P2": statements(item("Q4")) + statements(item("Q5"), rank="deprecated"),
        "P3": statements(item("Q6"), rank="deprecated"),
    }
    [found] = entities(dump(tmp_path, entity(claims=claims)))
    assert found.tree == {"P1": [Link("Q2"), Link("Q3")], "P2": Link("Q4")}


def test_neither_somevalue_nor_novalue_is_a_gap(tmp_path):
    claims = {"P1": statements({"snaktype": "somevalue"}), "P2": statements({"snaktype": "novalue"})}
    [found] = entities(dump(tmp_path, entity(claims=claims)))
    assert list(found.asked()) == []
    assert len(list(found.properties())) == 2


def test_labels_stand_in_all_languages_and_one_of_them_names_the_entity(tmp_path):
    labels = {"de": {"language": "de", "value": "Erde"}, "en": {"language": "en", "value": "Earth"}}
    aliases = {"en": [{"language": "en", "value": "Terra"}, {"language": "en", "value": "the world"}]}
    path = dump(tmp_path, entity(labels=labels, aliases=aliases), entity("Q2"))
    found = {language: entities(path, language=language)[0] for language in ("de", "de-at", "fr")}
    assert {language: one.label for language, one in found.items()} == {"de": "Erde", "de-at": "Erde", "fr": "Earth"}
    assert found["de"].tree["label"] == [Text("Erde", "de"), Text("Earth", "en")]
    assert found["de"].tree["alias"] == [Text("Terra", "en"), Text("the world", "en")]


def test_classes_are_what_a_thing_is_an_instance_of(tmp_path):
    path = dump(tmp_path, entity(claims={"P31": statements(item("Q5"), item("Q6"))}), entity("Q2"))
    assert [one.classes for one in entities(path)] == [("Q5", "Q6"), ("item",)]
    assert [one.id for one in entities(path, classes=["Q6"])] == ["Q1"]


def test_another_wikibase_may_call_another_property_instance_of(tmp_path):
    named = {"en": {"language": "en", "value": "instance of"}}
    property = {"type": "property", "id": "P1", "datatype": "wikibase-item", "labels": named, "claims": []}
    found = entities(
        dump(tmp_path, property, entity(claims={"P1": statements(item("Q5")), "P31": statements(item("Q7"))}))
    )
    assert [one.classes for one in found] == [("property",), ("Q5",)]


def test_a_lexeme_brings_its_forms_and_senses_as_entities(tmp_path):
    lexeme = {
        "type": "lexeme",
        "id": "L1",
        "lemmas": {"en": {"language": "en", "value": "run"}},
        "language": "Q1860",
        "lexicalCategory": "Q24905",
        "claims": [],
        "forms": [
            {
                "id": "L1-F1",
                "representations": {"en": {"language": "en", "value": "ran"}},
                "grammaticalFeatures": ["Q1"],
                "claims": [],
            }
        ],
        "senses": [
            {
                "id": "L1-S1",
                "glosses": {"en": {"language": "en", "value": "to go fast"}},
                "claims": {"P1": statements(item("Q9"))},
            }
        ],
    }
    run, ran, fast = entities(dump(tmp_path, lexeme))
    assert run.label == "run"
    assert run.tree["lexicalForm"] == Link("L1-F1")
    assert run.tree["language"] == Link("Q1860")
    assert (ran.id, ran.label, ran.classes) == ("L1-F1", "ran", ("form",))
    assert (fast.tree["definition"], fast.tree["P1"]) == (Text("to go fast", "en"), Link("Q9"))


# ---------------------------------------------------------------- shapes of files


def test_a_dump_an_entity_and_an_answer_of_the_api_are_recognised(tmp_path):
    one = entity(labels={"en": {"language": "en", "value": "Earth"}})
    forms = [f"[\n{json.dumps(one)},\n{json.dumps(one)}\n]", json.dumps(one), json.dumps(one, indent=2)]
    forms += [
        json.dumps([one]),
        json.dumps({"entities": {"Q1": one}, "success": 1}),
        json.dumps({"success": 1, "entities": {"Q1": one}}),
    ]
    for form in forms:
        assert is_wikibase_json(Source(form.encode()))
        path = tmp_path / "some.json"
        path.write_text(form)
        assert kbdisk.load(path).format == "wikibase-json"
        assert {found.id for found in entities(path)} == {"Q1"}


@for_each(
    "other",
    [
        {"type": "item", "id": "Q1", "name": "a thing"},
        {"type": "item", "id": "17", "labels": {}, "claims": {}},
        {"type": "feature", "id": "Q1", "labels": {}, "claims": {}},
        {"entities": [1, 2]},
        {"entities": {"a": {"type": "item", "labels": ["x"]}}},
        [1, 2],
        {"a": {"type": "item", "id": "Q1", "labels": {}, "claims": {}}},
        "item",
        {},
    ],
)
def test_other_json_is_not_taken_for_a_wikibase(other):
    assert not is_wikibase_json(Source(json.dumps(other).encode()))


def test_an_entity_with_very_many_labels_is_recognised_by_its_beginning():
    labels = {f"x{i}": {"language": f"x{i}", "value": "a name" * 20} for i in range(3000)}
    text = json.dumps({"type": "item", "labels": labels, "id": "Q1", "claims": {}}).encode()
    assert len(text) > 1 << 18
    assert is_wikibase_json(Source(text))


def test_a_dump_without_brackets_and_a_compressed_one_are_read_alike(tmp_path):
    plain = dump(tmp_path, entity("Q1"), entity("Q2"))
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps(entity("Q1")) + "\n" + json.dumps(entity("Q2")) + "\n")
    packed = tmp_path / "dump.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    for path in (plain, lines, packed, marked):
        assert [one.id for one in entities(path)] == ["Q1", "Q2"]


def test_an_entity_stands_at_its_line(tmp_path):
    assert [one.position for one in entities(dump(tmp_path, entity("Q1"), entity("Q2")))] == [2, 3]


# ---------------------------------------------------------------- bad input


def test_a_line_that_is_no_json_is_an_error_with_its_number_and_can_be_skipped(tmp_path):
    path = dump(tmp_path, entity("Q1"), '{"id":"Q2", oops}', entity("Q3"))
    with pytest.raises(LoadError, match=r"dump.json:3: expected an entity in JSON, got '\{\"id\":\"Q2\", oops\}'"):
        entities(path)
    kb = kbdisk.load(path, skip_errors=True)
    assert [one.id for one in kb] == ["Q1", "Q3"]
    assert [error.line for error in kb.skipped] == [3]


@for_each(
    ("line", "complaint"),
    [
        ('{"type":"item"}', "an id and a type"),
        ("7", "expected an entity, got int"),
        ('{"type":"item","id":"Q2","claims":7}', "claims by property, got int"),
        ('{"type":"item","id":"Q2","claims":{"P1":[{"mainsnak":{"snaktype":"value"}}]}}', "a value at Q2 P1, got none"),
        ("[" * 5000, "expected an entity in JSON"),
    ],
)
def test_a_line_that_is_no_entity_is_an_error_with_its_number(tmp_path, line, complaint):
    with pytest.raises(LoadError, match=f"dump.json:3: .*{complaint}"):
        entities(dump(tmp_path, entity("Q1"), line))


def test_a_dump_that_ends_too_early_says_so(tmp_path):
    path = dump(tmp_path, entity("Q1"), entity("Q2"))
    path.write_text(path.read_text().removesuffix("\n]\n") + ",\n")
    with pytest.raises(LoadError, match=r"dump.json:3: expected \] at the end"):
        entities(path)


def test_a_broken_entity_alone_names_its_line(tmp_path):
    path = tmp_path / "one.json"
    path.write_text('{\n "type": "item",\n "labels": {},\n "claims": {\n}')
    with pytest.raises(LoadError, match=r"one.json:\d: expected entities in JSON"):
        entities(path)


# ---------------------------------------------------------------- writing


def test_nothing_filled_gives_the_same_bytes(tmp_path):
    path = dump(tmp_path, entity("Q1"), entity("Q2"))
    kbdisk.write(kbdisk.load(path), tmp_path / "copy.json", format="wikibase-json")
    assert (tmp_path / "copy.json").read_bytes() == path.read_bytes()


def test_a_dump_is_not_rewritten_and_the_error_names_quickstatements(tmp_path):
    [first] = entities(dump(tmp_path, entity("Q1")))
    with pytest.raises(WriteError, match=r"QuickStatements \(.qs\)"):
        kbdisk.write([Completion(first, {("P1",): Filled(1)})], tmp_path / "out.json", format="wikibase-json")
    with pytest.raises(WriteError, match=r"QuickStatements \(.qs\)"):
        kbdisk.write([first], tmp_path / "out.json", format="wikibase-json")
    assert not (tmp_path / "out.json").exists()


def commands(folder, one, filled):
    completion = Completion(one, {path: Filled(value) for path, value in filled.items()})
    report = kbdisk.write([completion], folder / "new.qs", force=True)
    return (folder / "new.qs").read_text().splitlines(), report


@for_each(
    ("new", "spelt"),
    [
        (Quantity(1.96, METRE), "1.96U11573"),
        (Quantity(3, "1"), "3"),
        (7, "7"),
        (-0.25, "-0.25"),
        (1e-7, "0.0000001"),
        (1e22, "10000000000000000000000"),
        (Decimal("1.50"), "1.50"),
        (Date(1952, 3, 11), "+1952-03-11T00:00:00Z/11"),
        (Date(1952, 3), "+1952-03-00T00:00:00Z/10"),
        (Date(1952), "+1952-00-00T00:00:00Z/9"),
        (Date(1970, precision="decade"), "+1970-00-00T00:00:00Z/8"),
        (Date(-43, 3, 15, calendar=JULIAN), "-0044-03-15T00:00:00Z/11/J"),
        (Date(0), "-0001-00-00T00:00:00Z/9"),
        (Coordinate(43.26193, -10.5), "@43.26193/-10.5"),
        (Link("Q5"), "Q5"),
        (Link("http://ex.org/page"), '"http://ex.org/page"'),
        (Link("http://commons.wikimedia.org/wiki/Special:FilePath/A%20b.svg"), '"A b.svg"'),
        ("plain", '"plain"'),
        (Text("Noël", "fr"), 'fr:"Noël"'),
        (SOMEVALUE, "somevalue"),
        (NOVALUE, "novalue"),
    ],
)
def test_each_kind_of_filled_value_is_a_command(tmp_path, new, spelt):
    lines, report = commands(tmp_path, Entity("Q42"), {("P7",): new})
    assert lines == [f"Q42\tP7\t{spelt}"]
    assert (report.written, report.unwritable) == (1, [])


@for_each(
    ("path", "new", "reason"),
    [
        (("P1",), 3, "given values stay"),
        (("P9", "month"), 3, "only a whole statement"),
        (("height",), 3, "a property of a Wikibase"),
        (("P9",), True, "no bool values"),
        (("P9",), "two\nlines", "one line"),
        (("P9",), Quantity(1, "metre"), "a unit that is an item"),
        (("P9",), Quantity(None, METRE), "not known"),
        (("P9",), Date(None, 3, 1), "not known"),
        (("P9",), Date(2012, 21), "no season"),
        (("P9",), Date(2012, note="?"), "no season or doubt"),
        (("P9",), Date(2012, 3, 13, "minute", "T12:30:00Z"), "whole days"),
        (("P9",), Date(2012, calendar="http://ex.org/calendar"), "Julian calendar"),
        (("P9",), Coordinate(1, 2, "http://wiki.example/entity/Q405"), "on the Earth"),
        (("P9",), Link("_:b0"), "an entity of the Wikibase"),
        (("label", 1), Text("Erde", "de"), "in this language already"),
    ],
)
def test_what_quickstatements_cannot_say_is_reported_with_the_reason(tmp_path, path, new, reason):
    lines, report = commands(tmp_path, Entity("Q42", {"P1": 2, "label": Text("Welt", "de")}), {path: new})
    assert lines == []
    [(id, where, why)] = report.unwritable
    assert (id, where) == ("Q42", path)
    assert reason in why


def test_iris_of_the_wikibase_shrink_to_ids_and_foreign_units_are_refused(tmp_path):
    space = "http://wiki.example/entity/"
    filled = {
        ("P1",): Link(space + "Q5"),
        ("P2",): Quantity(2, METRE),
        ("P3",): Quantity(2, "http://other.example/entity/Q1"),
    }
    lines, report = commands(tmp_path, Entity(space + "Q42"), filled)
    assert lines == ["Q42\tP1\tQ5", "Q42\tP2\t2U11573"]
    assert [path for _, path, _ in report.unwritable] == [("P3",)]


def test_labels_and_further_values_of_a_list_are_commands_too(tmp_path):
    one = Entity("Q42", {"P1": [Link("Q1"), Link("Q2")], "label": Text("Earth", "en")})
    filled = {
        ("P1", 2): Link("Q3"),
        ("label", 1): Text("Erde", "de"),
        ("alias",): [Text("Terra", "en"), Text("Welt", "de")],
    }
    lines, report = commands(tmp_path, one, filled)
    assert lines == ["Q42\tP1\tQ3", 'Q42\tLde\t"Erde"', 'Q42\tAen\t"Terra"', 'Q42\tAde\t"Welt"']
    assert report.written == 3


def test_from_a_dump_to_quickstatements(tmp_path):
    [first, second] = entities(dump(tmp_path, entity("Q1"), entity("Q2")))
    report = kbdisk.write([Completion(first, {("P1",): Filled(5)}), Completion(second), second], tmp_path / "new.qs")
    assert (tmp_path / "new.qs").read_text() == "Q1\tP1\t5\n"
    assert report.written == 1


def test_quickstatements_are_not_read(tmp_path):
    (tmp_path / "new.qs").write_text("Q1\tP1\t5\n")
    with pytest.raises(LoadError, match="only written"):
        kbdisk.load(tmp_path / "new.qs")


# ---------------------------------------------------------------- real data


@pytest.mark.shared
def test_a_real_dump_has_the_entities_and_statements_that_plain_python_counts(data):
    with gzip.open(data / "wikidata_json/sample-dump-20150815.json.gz", "rt") as file:
        plain = json.load(file)
    found = entities(data / "wikidata_json/sample-dump-20150815.json.gz")
    assert [one.id for one in found] == [one["id"] for one in plain]
    for one, raw in zip(found, plain, strict=True):
        usable = {p for p, held in (raw["claims"] or {}).items() if any(s["rank"] != "deprecated" for s in held)}
        assert {key for key in one.tree if key[0] == "P"} == usable


@pytest.mark.shared
def test_douglas_adams_is_read_as_the_api_gives_him(data):
    [adams] = entities(data / "wikidata_json/wbgetentities-Douglas-Adams.json")
    assert (adams.id, adams.label, adams.classes) == ("Q42", "Douglas Adams", ("Q5",))
    assert adams.tree["P569"] == Date(1952, 3, 11)
    assert adams.tree["P1477"] == Text("Douglas Noël Adams", "en")
    assert adams.tree["P69"] == [Link("Q35794"), Link("Q691283"), Link("Q4961791")]
    assert entities(data / "wikidata_json/wbgetentities-Douglas-Adams.json", language="ru")[0].label == "Дуглас Адамс"


@pytest.mark.shared
@for_each(("name", "id"), [("item.json", "Q34987"), ("property.json", "P3467")])
def test_an_entity_alone_over_many_lines_is_read(data, name, id):
    assert [one.id for one in entities(data / "wikidata_json" / name)] == [id]


@pytest.mark.shared
def test_other_real_json_is_not_taken_for_a_wikibase(data):
    assert not any(is_wikibase_json(Source(path)) for path in (data / "json").glob("*.json"))


def test_an_entity_that_the_wiki_says_is_missing_is_none():
    lines = [{"id": "Q1", "type": "item"}, {"id": "Q2", "missing": ""}]
    assert [one.id for one in kbdisk.load(json.dumps(lines).encode(), format="wikibase-json")] == ["Q1"]
