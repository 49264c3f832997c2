"""`kbdisk why`: the reasons for a value that was, or would be, filled in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.table import Table
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.options import (
    device_option,
    entity_source_options,
    open_model,
    open_source,
    refuse_missing,
    verbose_option,
)
from kbdisk.cli.progress import show_counting, show_loading, show_reading
from kbdisk.cli.tables import build_table, number_text, percent, predicted_text, render
from kbdisk.entity import Link, Quantity
from kbdisk.entity import show as show_path
from kbdisk.errors import ConfigError
from kbdisk.loaders.files import folder_beside, sidecars_of
from kbdisk.schemas.text.names import last_word

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.completion.reasons import Influence, Predictor, Why
    from kbdisk.entity import Path

MAX_PREDICTORS_SHOWN = 12
MIN_GROUPED = 10_000  # numbers from here on have thousands separators; a year has none
MAX_PARTS_LENGTH = 120  # characters of a list of parts


@click.command()
@click.argument("source")
@click.option("--id", "entity", metavar="ID", required=True, help="The entity, by its id.")
@click.option("--path", metavar="PATH", required=True, help="The property, such as weight, launch or cameras[0].kind.")
@click.option(
    "--model",
    metavar="MODEL",
    help="A model folder.  [default: SOURCE.kbdisk, or the model by which SOURCE was completed, in the same folder]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@device_option
@entity_source_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def why(
    context: click.RichContext,
    /,
    source: str,
    entity: str,
    path: str,
    model: str | None,
    as_json: bool,
    device: str,
    id_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Show why a property of an entity of SOURCE was, or would be, filled in with its value.

    First the value and its confidence: presence, the probability that the entity has the property, times correctness,
    the probability that the value is right if it has. Where a rule of the schema gives the value, the rule is the
    reason. Otherwise: the predictions of the network and of each expert on their own, and their weights; the most similar
    entities of SOURCE that have the property; and the given properties without which the prediction would differ most, by
    the Hellinger distance between the beliefs with and without each, from 0 to 1.

    A given value is hidden first, with the values that it could be derived from. All parts of a date, a quantity or a
    coordinate are explained together. Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk why phones.jsonl --id palm-pre --path os --model phones.kbdisk
    kbdisk why completed.ttl --id https://example.org/elements/Fe --path density
    kbdisk why phones.jsonl --id palm-pre --path os --json | jq .influences
    """  # fmt: skip
    refuse_missing(source)
    folder = model or _find_model(source, entity)
    with show_loading(quiet, f"reading {source} ..."):
        from kbdisk.api.source import LoadedSource
    opened = open_model(folder, device, verbose)
    with show_reading(quiet, f"reading {source}") as progress:
        kb = open_source(source, {**options, "id": id_path}, progress)
        loaded = LoadedSource.of(kb)
    with show_counting(quiet, "looking for similar entities") as report_progress:
        reasons = opened.why(entity, path, loaded, watch=report_progress)
    if as_json:
        screen.write_json(reasons.to_json())
    else:
        labels = {other.id: other.label for other in loaded.entities if other.label}
        screen.show(render(_Screen(reasons, labels).show))
    context.exit(1 if kb.skipped else 0)


def _find_model(source: str, entity: str) -> str:
    """The folder of the model beside a source, or of the model by which it was completed."""
    beside = folder_beside((source,))
    if beside is not None and beside.exists():
        return str(beside)
    folder = _find_completing_model(FilePath(source), entity) if beside is not None else None
    if folder is not None:
        return str(folder)
    absent = f", as there is no {beside.name} beside SOURCE" if beside else ""
    raise ConfigError("--model", f"expected a model folder{absent}. Say --model, or make one: kbdisk train {source}")


def _find_completing_model(source: FilePath, entity: str) -> FilePath | None:
    """A model in the folder of a source that its provenance file names: for the entity, or else for any other."""
    names: dict[str, None] = {}
    for file in sidecars_of(str(source)):
        try:
            with FilePath(file).open(encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines if '"model"' in line]
        except (OSError, ValueError):
            continue
        rows.sort(key=lambda row: row.get("id") != entity)
        names |= {name: None for row in rows if isinstance(name := (row.get("model") or {}).get("name"), str)}
    folders = (source.parent / FilePath(name).name for name in names)
    return next((folder for folder in folders if folder.exists()), None)


# ---------------------------------------------------------------- the screen


class _Screen:
    """The reasons for a value on one screen; `labels` are those of entities, by their ids."""

    def __init__(self, reasons: Why, labels: Mapping[str, str]) -> None:
        self.reasons, self.labels = reasons, labels
        self.has_leaves = len({predictor.path for predictor in reasons.predictors}) > 1

    def show(self, console: Console) -> None:
        """Print the value, its confidence and the reasons."""
        reasons = self.reasons
        name = f"{reasons.label}  {reasons.entity}" if reasons.label else reasons.entity
        console.print(Text.assemble((show_path(reasons.path), "bold green"), "  of ", (name, "bold")), soft_wrap=True)
        console.print()
        for fact, text in self._facts():
            console.print(_build_fact(fact, text, console.width))
        if reasons.rule is not None:
            return
        self._show_predictors(console)
        self._show_similar(console)
        self._show_influences(console)

    # ------------------------------------------------------------ the value

    def _facts(self) -> Iterator[tuple[str, str]]:
        reasons = self.reasons
        if reasons.given_by == "source":
            rest = "hidden for what follows" if reasons.is_hidden else "the other parts are asked for"
            yield "given", f"{self.text(reasons.given)}; {rest}"
        elif reasons.given_by:
            yield "filled in", f"{self.text(reasons.given)}, by kbdisk earlier"
        if reasons.value is None:
            yield "value", "none"
        else:
            yield (
                "value",
                self.text(reasons.value) + (f", {self._interval_text()}" if reasons.interval is not None else ""),
            )
        if reasons.held_back:
            yield "not written", reasons.held_back
        if reasons.correctness is not None and reasons.confidence is not None:
            parts = f"correctness {percent(reasons.correctness)}"
            if reasons.presence is not None:
                parts = f"presence {percent(reasons.presence)} x {parts}"
            yield "confidence", f"{percent(reasons.confidence)} = {parts}"
        if (presence_parts := reasons.presence_parts) is not None:
            network, trees, weight = map(percent, vars(presence_parts).values())
            yield "", f"presence by the network {network}, by trees {trees} (weight {weight}), then calibrated"
        if reasons.within is not None:
            yield "", f"correct: within {self._tolerance_text(reasons.within)} of the truth"
        if reasons.rule is not None:
            count = reasons.rule.support + reasons.rule.exceptions
            known = f"; {reasons.rule.support:,} of {count:,} known values agree" if count else ""
            yield "formula" if reasons.rule.kind == "formula" else "rule", f"{reasons.rule.text}{known}"
        if reasons.note:
            yield "note", reasons.note

    def _interval_text(self) -> str:
        """The interval of a number, or of several by their names."""
        interval = self.reasons.interval
        if not isinstance(interval, Mapping):
            return f"90 % within {_interval(interval)}"
        return "90 % within " + ", ".join(f"{name} {_interval(ends)}" for name, ends in interval.items())

    def _tolerance_text(self, numbers: Any) -> str:
        """The largest error of a right number, or of several by their names."""
        if not isinstance(numbers, Mapping):
            unit = getattr(self.reasons.value, "unit", None)
            return f"{_number(_round(numbers))} {unit or ''}".rstrip()
        return ", ".join(f"{name} {_number(_round(number))}" for name, number in numbers.items())

    # ------------------------------------------------------------ the reasons

    def _show_predictors(self, console: Console) -> None:
        reasons = self.reasons
        if not reasons.predictors:
            return
        table = build_table("prediction by", ">weight", *["of"] * self.has_leaves, "on its own")
        for predictor in reasons.predictors[:MAX_PREDICTORS_SHOWN]:
            leaf = [Text(self._leaf(predictor.path), "green")] * self.has_leaves
            prediction = Text(self._prediction_text(predictor))
            table.add_row(Text(predictor.name), percent(predictor.weight), *leaf, prediction)
        _print_table(console, table, None)
        if (more := len(reasons.predictors) - MAX_PREDICTORS_SHOWN) > 0:
            console.print(Text(f"and {more} more: --json has them", "dim"))
        for line in self._predictor_notes():
            console.print(Text(line, "dim"))

    def _prediction_text(self, predictor: Predictor) -> str:
        """The prediction of a network or an expert on its own."""
        text = self.text(predictor.value)
        if predictor.probability is not None:
            text += f"  {percent(predictor.probability)}"
        else:
            text += self._unit(predictor.path)
        if predictor.latent_weight >= 0.01:
            text += f"  ({percent(predictor.latent_weight)} by neighbours in its latent space)"
        return text

    def _predictor_notes(self) -> Iterator[str]:
        """Why experts are not used, and how their weighted mean was moved."""
        reasons = self.reasons
        used = {predictor.name for predictor in reasons.predictors}
        unused: dict[str, list[str]] = {}
        for expert in reasons.unused:
            names = unused.setdefault(expert.reason, [])
            if expert.name not in used and not any(expert.name in others for others in unused.values()):
                names.append(expert.name)
        lines = [f"{', '.join(names)}: {reason}" for reason, names in unused.items() if names]
        if lines:
            yield "; ".join(lines)
        for limit in reasons.limits:
            yield (
                f"{self._leaf_prefix(limit.path)}weighted mean {_number(limit.weighted)}, moved to {_number(limit.kept)}: "
                "into the middle four fifths of the whole distribution"
            )
        for shrinkage in reasons.shrinkages:
            parts = f"{percent(shrinkage.trust)} of this, {percent(1 - shrinkage.trust)} of the constant"
            yield f"{self._leaf_prefix(shrinkage.path)}shrunk by held-out errors: {parts} {self.text(shrinkage.constant)}"

    def _show_similar(self, console: Console) -> None:
        if not self.reasons.similar:
            return
        table = build_table("similar entity", ">similarity", "its value")
        for similar in self.reasons.similar:
            name = f"{similar.label}  {last_word(similar.id)}" if similar.label else last_word(similar.id)
            value = Text(self.text(similar.value), no_wrap=True, overflow="ellipsis")
            table.add_row(Text(name, no_wrap=True, overflow="ellipsis"), f"{similar.similarity:.2f}", value)
        _print_table(console, table, console.width // 2)

    def _show_influences(self, console: Console) -> None:
        if not self.reasons.influences:
            console.print()
            console.print(Text("No given property changes the answer.", "dim"))
            return
        table = build_table("without", ">distance", "the answer would be")
        for influence in self.reasons.influences:
            name = Text(influence.name, "green", no_wrap=True, overflow="ellipsis")
            table.add_row(name, f"{influence.distance:.2f}", Text(self._change_text(influence)))
        _print_table(console, table, console.width // 2)

    def _change_text(self, influence: Influence) -> str:
        """The prediction without a property, and with it."""
        leaf = self._leaf_prefix(influence.leaf)
        if influence.probability is None or influence.probability_before is None:
            value, before = self.text(influence.value), self.text(influence.value_before)
            if value != before or influence.interval is None:
                return f"{leaf}{value} instead of {before}{self._unit(influence.leaf)}"
            intervals = f"{_interval(influence.interval)} instead of {_interval(influence.interval_before)}"
            return f"{leaf}{value} all the same, 90 % within {intervals}"
        now, was = percent(influence.probability), percent(influence.probability_before)
        text = f"{leaf}{self.text(influence.label)} {now} instead of {was}"
        if influence.moved is not None:
            moved, moved_before = percent(influence.moved.probability), percent(influence.moved.probability_before)
            text += f", {self.text(influence.moved.label)} {moved} instead of {moved_before}"
        return text

    # ------------------------------------------------------------ values and paths

    def text(self, value: Any) -> str:
        """A value in few characters; a link by the label of its entity."""
        if isinstance(value, dict):
            return ", ".join(f"{key} {self.text(part)}" for key, part in value.items() if key[:1] != "@")
        if isinstance(value, list | set | frozenset) and any(isinstance(part, dict) for part in value):
            return _shorten("; ".join(map(self.text, value)))
        if isinstance(value, list | set | frozenset):
            return "{" + ", ".join(map(self.text, value)) + "}"
        if isinstance(value, Link):
            return self.labels.get(value.id) or last_word(value.id)
        if isinstance(value, Quantity):
            return f"{_number(value.value)} {value.unit or ''}".rstrip()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(value)
        return predicted_text(value)

    def _unit(self, path: Path) -> str:
        """The unit of a quantity at the path of a leaf, after a blank."""
        return f" {self.reasons.unit}" if self.reasons.unit and path[-1:] == ("value",) else ""

    def _leaf(self, path: Path) -> str:
        """The path of a leaf within the property."""
        return show_path(path[len(self.reasons.path) :] or path)

    def _leaf_prefix(self, path: Path) -> str:
        """The beginning of a sentence about a leaf, where there are several."""
        return f"{self._leaf(path)}: " if self.has_leaves else ""


def _number(value: Any) -> str:
    """A number in few characters, with thousands separators where it is large."""
    if value is None or abs(value) < MIN_GROUPED or float(value) != int(value):
        return number_text(value)
    return f"{int(value):,}" if abs(value) < 1e15 else number_text(value)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_PARTS_LENGTH else text[: MAX_PARTS_LENGTH - 1] + "…"


def _round(number: float) -> float:
    """A number rounded to three significant digits."""
    return float(f"{number:.3g}")


def _interval(ends: Sequence[float] | None) -> str:
    if ends is None:
        return "?"
    low, high = ends
    decimals = _count_decimals(high - low)
    return f"{_number(round(low, decimals))} … {_number(round(high, decimals))}"


def _count_decimals(width: float) -> int:
    """Decimals that are significant in the ends of an interval of this width."""
    return 1 - math.floor(math.log10(width)) if width > 0 and math.isfinite(width) else 12


def _build_fact(name: str, text: str, width: int) -> Table:
    """A fact: its name, and beside it its text in several lines."""
    table = Table.grid(padding=0)
    table.add_column(width=13, no_wrap=True)
    table.add_column(overflow="fold", max_width=width - 13)
    table.add_row(Text(name, "dim"), Text(text))
    return table


def _print_table(console: Console, table: Table, widest: int | None) -> None:
    if widest is not None:
        table.columns[0].max_width = widest
    console.print()
    console.print(table)
