"""The model card: the README.md of a model folder, with its training data, settings, quality and limits.

`config` is the content of config.json, `metrics` that of metrics.json. Either may come from a folder that somebody else
wrote. A value that is missing or of another type is left out, or shown as it is.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard

from kbdisk.experts import EXPERTS
from kbdisk.printable import plain_line
from kbdisk.schemas.text.units import shown_unit
from kbdisk.store.files import JsonObject

MIN_MEASURED_VALUES = 30  # hidden values: metrics of fewer are too noisy to judge a property
MAX_TEXT_LENGTH = 70  # characters of a value that is shown
NONE = "–"


class Row(NamedTuple):
    """A property's quality, each cell as it is shown."""

    property: str
    kind: str
    known: str  # values that were trained on
    n: str  # values that were hidden and predicted
    metric: str
    constant: str
    ours: str
    better: str


def trained_on(config: JsonObject) -> dict[str, str]:
    """The training data of a model."""
    counts, source, facts = config["counts"], config["source"], config["facts"]
    entities = f"{number(counts.get('training'))} trained on, {number(counts.get('validation'))} held out"
    entities += f", {number(facts['left_out'])} left out" if "left_out" in facts else ""
    properties = f"{number(counts.get('properties'))} in {number(counts.get('classes'))}"
    return _shown_pairs(
        source=source.get("name"),
        sha256=source.get("sha256"),
        entities=entities,
        properties=properties + (" class" if counts.get("classes") == 1 else " classes"),
        schema=facts.get("schema"),
        date=facts.get("date") or config["written"],
    )


def trained_how(config: JsonObject) -> dict[str, str]:
    """The training of a model: its settings, steps, experts, device and versions."""
    run, facts, counts = config["run"], config["facts"], config["counts"]
    steps = number(facts.get("steps"))
    best = facts.get("best_step")
    return _shown_pairs(
        preset=run.get("preset"),
        seed=run.get("seed"),
        networks=number(counts.get("networks")) if counts.get("networks", 1) > 1 else None,
        steps=steps if best in (None, facts.get("steps")) else f"{steps}, the best after {number(best)}",
        seconds=number(facts.get("seconds")),
        stopped=facts.get("stopped"),
        parameters=number(counts.get("parameters")),
        **_experts(counts),
        device=facts.get("device"),
        machine=facts.get("machine"),
        versions=", ".join(
            f"{name} {version}"
            for name in ("kbdisk", "torch", "python")
            if (version := facts.get(name, config.get(name)))
        ),
    )


def _experts(counts: JsonObject) -> dict[str, str]:
    """The experts that have a weight: of how many values or properties."""
    values = number(counts.get("latent_knn") or None)
    of_values = {EXPERTS["latent_knn"].title: values if values == NONE else f"{values} values"}
    titles = {name: kind.title for name, kind in EXPERTS.items() if kind.stage != "network" and counts.get(name)}
    return of_values | {title: f"for {number(counts[name])} properties" for name, title in titles.items()}


def quality(metrics: JsonObject) -> list[Row]:
    """A row for each property that was measured; those of several classes by their classes."""
    rows = metrics["quality"]
    several = len({str(row.get("class")) for row in rows}) > 1
    return [_row(row, several) for row in rows]


def properties_no_better(metrics: JsonObject) -> list[str]:
    """The properties, of those measured often enough, whose predictions are no better than a constant."""
    rows = metrics["quality"]
    several = len({str(row.get("class")) for row in rows}) > 1
    return [
        _row(row, several).property
        for row in rows
        if _is_number(row.get("better"))
        and row["better"] <= 0
        and _is_number(row.get("n"))
        and row["n"] >= MIN_MEASURED_VALUES
    ]


def number(value: Any) -> str:
    """A number in few digits; anything else as it is."""
    if not _is_number(value):
        return NONE if value is None else text(value)
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def text(value: Any) -> str:
    """A value as a short line of plain text."""
    line = plain_line(str(value)[: 4 * MAX_TEXT_LENGTH])
    return line if len(line) <= MAX_TEXT_LENGTH else line[: MAX_TEXT_LENGTH - 1] + "…"


def markdown(config: JsonObject, metrics: JsonObject, name: str) -> str:
    """The card, for a model folder of this name."""
    plain = plain_line(name).replace("`", "")
    parts = [
        f"# {_escaped(text(name))}",
        "A model of kbdisk. It has learnt the joint distribution of the properties of a knowledge base's entities: it completes\n"
        "such entities, with a confidence for each value, and samples new ones.",
        "## What it was trained on",
        _pairs(trained_on(config)),
        "## How",
        _pairs(trained_how(config)),
        "## How good it is",
        _quality(metrics),
        "## How to use it",
        USE.format(shell=shlex.quote(plain), python=json.dumps(plain, ensure_ascii=False)),
        "## Limits",
        LIMITS + _weak(metrics),
    ]
    return "\n\n".join(parts) + "\n"


USE = """\
```sh
kbdisk show {shell}
kbdisk complete SOURCE --model {shell} --out TARGET
```

```python
import kbdisk

model = kbdisk.open({python})
for completion in model.complete("SOURCE"):
    print(completion.entity.id, completion.filled)
```"""

LIMITS = """\
- It was trained on its source, with the source's gaps and mistakes. The values that it fills are likely, not looked up.
- Predictions for entities unlike those it was trained on mean little.
- A high presence means that such a knowledge base would record the property, not that the entity has it in the world.
- The folder holds ids, labels and pieces of the source's text. Do not give it to people who may not see the source."""


def _quality(metrics: JsonObject) -> str:
    rows = quality(metrics)
    if not rows:
        return "Nothing was held out, or nothing of it was measured."
    head = "| property | kind | trained on | n | metric | constant | ours | better |\n|---|---|--:|--:|---|--:|--:|--:|"
    cells = ["| " + " | ".join([_code(row[0]), *map(_escaped, row[1:])]) + " |" for row in rows]
    return "\n".join(
        [
            "Each property of the held-out entities was hidden in turn, and predicted from the others. `constant` is the best",
            "single prediction for all entities; every metric is better the lower it is. `n` values were hidden.",
            "",
            head,
            *cells,
        ]
    )


def _weak(metrics: JsonObject) -> str:
    names = properties_no_better(metrics)
    some = ", ".join(map(_code, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"\n- It predicts these properties no better than a constant: {some}." if names else ""


def _pairs(pairs: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {_escaped(value)} |" for name, value in pairs.items())])


def _row(row: JsonObject, several: bool) -> Row:
    path, better = text(row.get("path", NONE)), row.get("better")
    return Row(
        f"{text(row.get('class'))}.{path}" if several else path,
        text(row.get("kind", NONE)),
        number(row.get("known")),
        number(row.get("n")),
        text(f"{row.get('metric', NONE)} {shown_unit(str(row.get('unit') or ''))}".strip()),
        number(row.get("constant")),
        number(row.get("ours")),
        f"{100 * better:.0f} %" if _is_number(better) else NONE,
    )


def _shown_pairs(**fields: Any) -> dict[str, str]:
    return {name: text(value) for name, value in fields.items() if value not in (None, "", NONE)}


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a finite number of a usual size: not NaN, not infinite, without hundreds of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _escaped(value: str, marks: Iterable[str] = "\\`*_[]<>|#&") -> str:
    """Text that Markdown shows as it stands."""
    for mark in marks:
        value = value.replace(mark, f"\\{mark}")
    return value


def _code(value: str) -> str:
    """Text as code; a bar would end the cell of a table, and a backtick the code."""
    if "`" in value or "\\" in value:
        return _escaped(value)
    return f"`{value.replace('|', chr(92) + '|')}`"
