"""The card says what a model is in plain figures, and whatever a folder says is shown as text and nothing else."""

from __future__ import annotations

import re

import pytest

from kbdisk.store.card import markdown, number, properties_no_better, quality, text, trained_how, trained_on
from kbdisk.store.folder import card

ROW = {"class": "", "path": "weight", "kind": "quantity", "known": 1057, "n": 60, "metric": "MAE"}
WEIGHT = ROW | {"constant": 31.234567, "ours": 25.2, "better": 1 - 25.2 / 31.234567}
COLOUR = ROW | {
    "path": "colour",
    "kind": "category",
    "metric": "error rate",
    "constant": 0.5,
    "ours": 0.6,
    "better": -0.2,
}
UNMEASURED = ROW | {"path": "height", "n": 0, "constant": None, "ours": None, "better": None}
CONFIG = {
    "kbdisk": "0.1.0",
    "written": "2026-11-21T12:00:00Z",
    "counts": {"classes": 1, "properties": 17, "parameters": 72888, "training": 57, "validation": 6},
    "source": {"name": "phones.jsonl", "sha256": "ab" * 32, "entities": 63},
    "facts": {
        "steps": 1500,
        "best_step": 1200,
        "seconds": 61.23,
        "device": "cpu: x",
        "torch": "2.6",
        "schema": "inferred",
    },
    "run": {"preset": "fast", "seed": 3},
}


def metrics(*rows) -> dict:
    return {"quality": list(rows), "history": [], "constants": {}}


def test_a_card_says_what_it_was_trained_on_how_and_how_good_it_is():
    told = markdown(CONFIG, metrics(WEIGHT, COLOUR, UNMEASURED), "phones.kbdisk")
    assert told.startswith("# phones.kbdisk\n\nA model of kbdisk.")
    for line in (
        "| source | phones.jsonl |",
        f"| sha256 | {'ab' * 32} |",
        "| entities | 57 trained on, 6 held out |",
        "| properties | 17 in 1 class |",
        "| schema | inferred |",
        "| date | 2026-11-21T12:00:00Z |",
        "| preset | fast |",
        "| seed | 3 |",
        "| steps | 1,500, the best after 1,200 |",
        "| seconds | 61.23 |",
        "| device | cpu: x |",
        "| parameters | 72,888 |",
        "| versions | kbdisk 0.1.0, torch 2.6 |",
        "| `weight` | quantity | 1,057 | 60 | MAE | 31.23 | 25.2 | 19 % |",
        "| `colour` | category | 1,057 | 60 | error rate | 0.5 | 0.6 | -20 % |",
        "| `height` | quantity | 1,057 | 0 | MAE | – | – | – |",
        "kbdisk complete SOURCE --model phones.kbdisk --out TARGET",
        'model = kbdisk.open("phones.kbdisk")',
        "- It predicts these properties no better than a constant: `colour`.",
    ):
        assert line in told.splitlines(), line


def test_what_it_says_to_type_can_be_typed():
    told = markdown(CONFIG, metrics(), "my 'phones'")
    assert """kbdisk show 'my '"'"'phones'"'"''\n""" in told
    assert """kbdisk.open("my 'phones'")\n""" in told


def test_a_card_without_quality_says_so():
    told = markdown(CONFIG, metrics(), "phones")
    assert "Nothing was held out, or nothing of it was measured." in told
    assert "no better than" not in told


def test_the_card_of_a_model_in_memory_is_that_of_its_folder(tiny_model):
    told = card(tiny_model, "phones")
    assert "| entities | 57 trained on, 6 held out |" in told
    assert "| source | examples/phones.jsonl |" in told
    assert f"| seconds | {number(tiny_model.record.facts['seconds'])} |" in told


def test_each_row_of_several_classes_names_its_class():
    rows = quality(metrics(WEIGHT | {"class": "Phone"}, COLOUR | {"class": "Maker"}))
    assert [row.property for row in rows] == ["Phone.weight", "Maker.colour"]
    assert [row.property for row in quality(metrics(WEIGHT | {"class": "Phone"}))] == ["weight"]


def test_only_what_was_measured_often_is_called_no_better_than_a_constant():
    assert properties_no_better(metrics(WEIGHT, COLOUR, UNMEASURED, COLOUR | {"n": 3})) == ["colour"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (12, "12"),
        (12.0, "12"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (31.234567, "31.23"),
        (123456.7, "123,457"),
        (1.5e-7, "1.50e-07"),
        (1.2345e12 + 0.5, "1.23e+12"),
        (-0.25, "-0.25"),
        (1234567890123, "1.23e+12"),
        (10**400, "1" + "0" * 68 + "…"),
        (float("inf"), "inf"),
        ("many", "many"),
        (True, "True"),
    ],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


EVIL = [
    "<script>alert(1)</script>",
    "| a | b |",
    "`code`",
    "[x](javascript:1)",
    "a\nb\n# head",
    "\x1b[31mred",
    "![x](http://e)",
]


@pytest.mark.parametrize("evil", EVIL)
def test_what_a_source_is_called_is_shown_as_it_is_called_and_commands_nothing(evil):
    source, row = CONFIG["source"] | {"name": evil}, WEIGHT | {"path": evil, "kind": evil, "metric": evil}
    told = markdown(CONFIG | {"source": source}, metrics(row, COLOUR), evil)
    assert told.replace("\n", "").isprintable()
    assert len(told.splitlines()) == len(markdown(CONFIG, metrics(WEIGHT, COLOUR), "plain").splitlines())
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", told, flags=re.DOTALL)  # code shows all as it stands
    assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(|(?<!\\)!?\[x", outside)
    (line,) = (line for line in told.splitlines() if line.startswith("| source |"))
    assert len(re.findall(r"(?<!\\)\|", line)) == 3


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, [[1]], {"a": {}}, 10**400, True])
def test_values_of_any_type_make_a_card_all_the_same(odd):
    for key in ("counts", "source", "facts", "run"):
        changed = CONFIG | {key: dict.fromkeys([*CONFIG[key], "best_step", "preset", "date", "machine"], odd)}
        markdown(changed, metrics(dict.fromkeys(WEIGHT, odd), {}), "name")
        assert all(isinstance(one, str) for one in (trained_on(changed) | trained_how(changed)).values())


def test_text_is_one_line_and_not_long():
    assert text("a\n\tb" + "c" * 500) == "a b" + "c" * 66 + "…"
