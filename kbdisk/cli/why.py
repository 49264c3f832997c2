"""`kbdisk why`: the reasons for a value that was, or would be, filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.belief import entity_source_options
from kbdisk.cli.counting import counting
from kbdisk.cli.sources import loading, open_source, refuse_missing, watching
from kbdisk.cli.verbosely import open_model, verbose_option
from kbdisk.errors import ConfigError
from kbdisk.jsonio import dump_json
from kbdisk.loaders.files import folder_beside, sidecars_of, standard_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kbdisk.completion.reasons import Influence, Predictor, Why
    from kbdisk.entity import Path

MAX_PREDICTORS = 12  # rows of a table
GROUPED_FROM = 10_000  # numbers from here on have their thousands apart; a year has not
MAX_CHARACTERS = 120  # of a list of parts


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
@click.option("--format", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where it computes: auto, cpu or cuda."
)
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
    format: str | None,
    device: str,
    id_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Tell why a property of an entity of SOURCE was, or would be, filled in with its value.

    First the value and its confidence: presence, the probability that the entity has the property, times correctness,
    the probability that the value is right if it has. Where a rule of the schema gives the value, the rule is the
    reason. Else: what the network and each expert predict on their own, and their weights; the most similar entities of
    SOURCE that have the property; and the given properties without which the answer would differ most, by Hellinger's
    distance between the beliefs with and without each, from 0 to 1.

    A value that stands in SOURCE is hidden for that, with what would give it away. All parts of a date, a quantity or a
    coordinate are explained together. Exits with status 1 where --skip-errors skipped something.

    \b
    kbdisk why phones.jsonl --id palm-pre --path os --model phones.kbdisk
    kbdisk why completed.ttl --id https://example.org/elements/Fe --path density
    kbdisk why phones.jsonl --id palm-pre --path os --json | jq .influences
    """
    refuse_missing(source)
    folder = model or _model_of(source, entity)
    with loading(quiet, f"reading {source} ..."):
        from kbdisk.api import Reading
    opened = open_model(folder, device, verbose)
    with watching(quiet, f"reading {source}") as progress:
        kb = open_source(source, format, {**options, "id": id_path}, progress)
        reading = Reading.of(kb)
    with counting(quiet, "looking for similar entities") as watch:
        reasons = opened.why(entity, path, reading, watch=watch)
    if as_json:
        with standard_output() as stream:
            stream.write(dump_json(reasons.to_json()))
    else:
        screen.show(rendered(reasons, {other.id: other.label for other in reading.entities if other.label}))
    context.exit(1 if kb.skipped else 0)


def _model_of(source: str, entity: str) -> str:
    """The folder of the model that a source has beside it, or by which it was completed."""
    own = folder_beside((source,))
    if own is not None and own.exists():
        return str(own)
    named = _completed_by(FilePath(source), entity) if own is not None else None
    if named is not None:
        return str(named)
    looked = f"expected a model folder, as there is no {own.name} beside SOURCE" if own else "expected a model folder"
    raise ConfigError("--model", f"{looked}. Say --model, or make one: kbdisk train {source}")


def _completed_by(source: FilePath, entity: str) -> FilePath | None:
    """The model that the provenance file beside a source names for an entity, or else for any, where it is in the same folder."""
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


def rendered(reasons: Why, labels: Mapping[str, str]) -> str:
    """The reasons as text for standard output; `labels` are those of entities, by their ids."""
    from kbdisk.cli.tables import printed

    return printed(_Screen(reasons, labels).show)


class _Screen:
    """The reasons for a value on one screen."""

    def __init__(self, reasons: Why, labels: Mapping[str, str]) -> None:
        self.reasons, self.labels = reasons, labels

    def show(self, console: Console) -> None:
        from rich.text import Text

        from kbdisk.entity import show

        reasons = self.reasons
        name = f"{reasons.label}  {reasons.entity}" if reasons.label else reasons.entity
        console.print(Text.assemble((show(reasons.path), "bold green"), "  of ", (name, "bold")), soft_wrap=True)
        console.print()
        for fact, text in self._facts():
            console.print(_indented(fact, text, console.width))
        if reasons.rule is not None:
            return
        self._show_predictors(console)
        self._show_similar(console)
        self._show_influences(console)

    # ------------------------------------------------------------ the value

    def _facts(self) -> Iterator[tuple[str, str]]:
        from kbdisk.cli.charts import percent

        reasons = self.reasons
        if reasons.given_by == "source":
            rest = "hidden for what follows" if reasons.is_hidden else "the other parts are asked for"
            yield "given", f"{self.text(reasons.given)}; {rest}"
        elif reasons.given_by:
            yield "filled in", f"{self.text(reasons.given)}, by kbdisk earlier"
        if reasons.value is None:
            yield "value", "none"
        else:
            yield "value", self.text(reasons.value) + (f", {self._unsure()}" if reasons.interval is not None else "")
        if reasons.held_back:
            yield "not written", reasons.held_back
        if reasons.correctness is not None and reasons.confidence is not None:
            parts = f"correctness {percent(reasons.correctness)}"
            if reasons.presence is not None:
                parts = f"presence {percent(reasons.presence)} x {parts}"
            yield "confidence", f"{percent(reasons.confidence)} = {parts}"
        if (parts_of_presence := reasons.presence_parts) is not None:
            network, trees, weight = map(percent, vars(parts_of_presence).values())
            yield "", f"presence by the network {network}, by trees {trees} (weight {weight}), then calibrated"
        if reasons.within is not None:
            yield "", f"correct: within {self._by_name(reasons.within)} of the truth"
        if reasons.rule is not None:
            count = reasons.rule.support + reasons.rule.exceptions
            known = f"; {reasons.rule.support:,} of {count:,} known values agree" if count else ""
            yield "formula" if reasons.rule.kind == "formula" else "rule", f"{reasons.rule.text}{known}"
        if reasons.note:
            yield "note", reasons.note

    def _unsure(self) -> str:
        """The interval of a number, or of several by their names."""
        interval = self.reasons.interval
        if not isinstance(interval, Mapping):
            return f"90 % within {_interval(interval)}"
        return "90 % within " + ", ".join(f"{name} {_interval(ends)}" for name, ends in interval.items())

    def _by_name(self, numbers: Any) -> str:
        if not isinstance(numbers, Mapping):
            unit = getattr(self.reasons.value, "unit", None)
            return f"{_number(_brief(numbers))} {unit or ''}".rstrip()
        return ", ".join(f"{name} {_number(_brief(number))}" for name, number in numbers.items())

    # ------------------------------------------------------------ what it rests on

    def _show_predictors(self, console: Console) -> None:
        from rich.text import Text

        from kbdisk.cli.charts import percent
        from kbdisk.cli.tables import table_of

        reasons = self.reasons
        if not reasons.predictors:
            return
        several = len({predictor.path for predictor in reasons.predictors}) > 1
        table = table_of("prediction by", ">weight", *["of"] * several, "on its own")
        for predictor in reasons.predictors[:MAX_PREDICTORS]:
            leaf = [Text(self._leaf(predictor.path), "green")] * several
            table.add_row(Text(predictor.name), percent(predictor.weight), *leaf, self._prediction(predictor))
        _print_table(console, table, None)
        if (more := len(reasons.predictors) - MAX_PREDICTORS) > 0:
            console.print(Text(f"and {more} more: --json has them", "dim"))
        for line in self._notes_on_predictors():
            console.print(Text(line, "dim"))

    def _prediction(self, predictor: Predictor) -> Text:
        from rich.text import Text

        from kbdisk.cli.charts import percent

        text = self.text(predictor.value)
        if predictor.probability is not None:
            text += f"  {percent(predictor.probability)}"
        else:
            text += self._unit(predictor.path)
        if predictor.latent_weight >= 0.01:
            text += f"  ({percent(predictor.latent_weight)} by neighbours in its latent space)"
        return Text(text)

    def _notes_on_predictors(self) -> Iterator[str]:
        from kbdisk.cli.charts import percent

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
                f"{self._of(limit.path)}weighted mean {_number(limit.weighted)}, moved to {_number(limit.kept)}: "
                "into the middle fifth of the whole distribution"
            )
        for shrinkage in reasons.shrinkages:
            parts = f"{percent(shrinkage.trust)} of this, {percent(1 - shrinkage.trust)} of the constant"
            yield f"{self._of(shrinkage.path)}shrunk by held-out errors: {parts} {self.text(shrinkage.constant)}"

    def _show_similar(self, console: Console) -> None:
        from rich.text import Text

        from kbdisk.cli.tables import table_of
        from kbdisk.schemas.text.names import last_word

        if not self.reasons.similar:
            return
        table = table_of("similar entity", ">similarity", "its value")
        for similar in self.reasons.similar:
            name = f"{similar.label}  {last_word(similar.id)}" if similar.label else last_word(similar.id)
            value = Text(self.text(similar.value), no_wrap=True, overflow="ellipsis")
            table.add_row(Text(name, no_wrap=True, overflow="ellipsis"), f"{similar.similarity:.2f}", value)
        _print_table(console, table, console.width // 2)

    def _show_influences(self, console: Console) -> None:
        from rich.text import Text

        from kbdisk.cli.tables import table_of

        if not self.reasons.influences:
            console.print()
            console.print(Text("No given property moves the answer.", "dim"))
            return
        table = table_of("without", ">distance", "the answer would be")
        for influence in self.reasons.influences:
            name = Text(influence.name, "green", no_wrap=True, overflow="ellipsis")
            table.add_row(name, f"{influence.distance:.2f}", Text(self._change(influence)))
        _print_table(console, table, console.width // 2)

    def _change(self, influence: Influence) -> str:
        """The answer without a property, beside what it is with it."""
        from kbdisk.cli.charts import percent

        of = self._of(influence.leaf)
        if influence.probability is None or influence.probability_before is None:
            value, before = self.text(influence.value), self.text(influence.value_before)
            if value != before or influence.interval is None:
                return f"{of}{value} instead of {before}{self._unit(influence.leaf)}"
            intervals = f"{_interval(influence.interval)} instead of {_interval(influence.interval_before)}"
            return f"{of}{value} all the same, 90 % within {intervals}"
        now, was = percent(influence.probability), percent(influence.probability_before)
        text = f"{of}{self.text(influence.label)} {now} instead of {was}"
        if influence.moved is not None:
            moved, moved_before = percent(influence.moved.probability), percent(influence.moved.probability_before)
            text += f", {self.text(influence.moved.label)} {moved} instead of {moved_before}"
        return text

    # ------------------------------------------------------------ words

    def text(self, value: Any) -> str:
        """A value in few characters; a link by the label of its entity."""
        from kbdisk.cli.charts import value_text
        from kbdisk.entity import Link, Quantity
        from kbdisk.schemas.text.names import last_word

        if isinstance(value, dict):
            return ", ".join(f"{key} {self.text(part)}" for key, part in value.items() if key[:1] != "@")
        if isinstance(value, list | set | frozenset) and any(isinstance(part, dict) for part in value):
            return _clipped("; ".join(map(self.text, value)))
        if isinstance(value, list | set | frozenset):
            return "{" + ", ".join(map(self.text, value)) + "}"
        if isinstance(value, Link):
            return self.labels.get(value.id) or last_word(value.id)
        if isinstance(value, Quantity):
            return f"{_number(value.value)} {value.unit or ''}".rstrip()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(value)
        return value_text(value)

    def _unit(self, path: Path) -> str:
        """The unit of an amount at the path of a leaf, behind a blank."""
        return f" {self.reasons.unit}" if self.reasons.unit and path[-1:] == ("value",) else ""

    def _leaf(self, path: Path) -> str:
        """The path of a leaf within the property."""
        from kbdisk.entity import show

        return show(path[len(self.reasons.path) :] or path)

    def _of(self, path: Path) -> str:
        """What begins a sentence about one leaf of several."""
        several = len({predictor.path for predictor in self.reasons.predictors}) > 1
        return f"{self._leaf(path)}: " if several else ""


def _number(value: Any) -> str:
    from kbdisk.cli.charts import number_text

    if value is None or abs(value) < GROUPED_FROM or float(value) != int(value):
        return number_text(value)
    return f"{int(value):,}" if abs(value) < 1e15 else number_text(value)


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def _brief(number: float) -> float:
    """A number with three digits."""
    return float(f"{number:.3g}")


def _interval(ends: Sequence[float] | None) -> str:
    if ends is None:
        return "?"
    low, high = ends
    digits = _digits(high - low)
    return f"{_number(round(low, digits))} … {_number(round(high, digits))}"


def _digits(width: float) -> int:
    """Digits behind the point that mean something in the ends of an interval of a width."""
    from math import floor, isfinite, log10

    return 1 - floor(log10(width)) if width > 0 and isfinite(width) else 12


def _indented(name: str, text: str, width: int) -> Table:
    """A fact, its text wrapped beside its name."""
    from rich.table import Table
    from rich.text import Text

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
