"""`kbdisk evaluate`: the error of a model in each property, predicted from all others, beside constants and baselines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import rich_click as click
from rich.text import Text

from kbdisk.cli import screen
from kbdisk.cli.drift import show_drift
from kbdisk.cli.options import (
    device_option,
    given_parameters,
    open_model,
    open_source,
    source_options,
    strict_option,
    verbose_option,
)
from kbdisk.cli.progress import show_counting, show_reading
from kbdisk.cli.tables import UNNAMED, build_table, counted, percent, render
from kbdisk.errors import ConfigError, LoadError
from kbdisk.schemas.text.units import shown_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from kbdisk.api.model import Model
    from kbdisk.api.source import LoadedSource
    from kbdisk.cli.progress import CountCallback
    from kbdisk.data.graph import Graph
    from kbdisk.entity import Entity, Path
    from kbdisk.evaluation.calibration import Reliability
    from kbdisk.evaluation.compare import FittedBaselines
    from kbdisk.evaluation.curve import Curve
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.evaluate import Scope, SourcePartition, Summary
    from kbdisk.evaluation.links import LinkScore

Rows = list[dict[str, Any]]

# Values of each property, and texts, as evaluation has them; importing it for a help text would be slow.
MAX_VALUES, MAX_TEXTS = 1000, 200
MAX_CURVE_VALUES, MAX_CURVE_TEXTS = 200, 50
SIGNIFICANT_ERRORS = 2  # standard errors beyond which better or worse is no chance
CURVE_CELL_WIDTH = 9  # columns of an error in a curve's table
MAX_NAMES_SHOWN = 4  # of paths, in a line
MIN_WIDTH_ALL_COLUMNS = 92  # columns of a terminal that has room for baselines and all else
NARROW_SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)  # of a curve, on a narrow terminal
SHORT_METRICS = {"error rate": "error", "1 - IoU": "1-IoU"}


@click.command()
@click.argument("model")
@click.argument("source")
@click.option("--curve", "as_curve", is_flag=True, help="The error by the share of properties that are given, instead.")
@click.option(
    "--links",
    "as_links",
    is_flag=True,
    help="How well links are predicted, in both directions, instead: filtered ranks of the links that MODEL does not know.",
)
@click.option(
    "--negatives",
    metavar="FILE",
    help="With --links: a source of links that are wrong; also how well the links of SOURCE are told from these.",
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the reliability of confidence and the coverage of intervals, with --curve the curve: a .png, .svg or .pdf.",
)
@click.option(
    "--against",
    metavar="NAMES",
    help="Baselines to compare with: constant, gbdt, gbdt-median, gbdt-filled, gbdt-grid; several as gbdt,gbdt-filled.",
)
@click.option("--all", "everything", is_flag=True, help="Also score the entities that MODEL was trained on.")
@click.option(
    "--only", metavar="PATH", multiple=True, help="Only the values at this path or below it. Repeat it for more."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"Maximum number of values of each property.  [default: {MAX_VALUES}, {MAX_TEXTS} of a text; {MAX_CURVE_VALUES}, {MAX_CURVE_TEXTS} in a curve]",
)
@click.option("--whole", is_flag=True, help="Hide all parts of a date, a quantity or a list at once, not one by one.")
@click.option(
    "--seed",
    metavar="N",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the sample of values, where --limit leaves some out.",
)
@device_option
@source_options
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables, with RMSE and other metrics.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@verbose_option
@click.pass_context
def evaluate(
    context: click.RichContext, /, model: str, source: str, as_json: bool, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Measure the errors of MODEL on SOURCE, property by property.

    Each known value is hidden in turn, predicted from all other values of its entity, and compared; beside its error
    stands that of one constant for all entities. Scored are entities that MODEL was not trained on: of the source that
    it was trained on, those that were held out. Exits with status 1 where --skip-errors skipped something, or --strict
    finds data unlike those that MODEL learnt from.

    The columns: known, the values that MODEL was trained on; n, the hidden ones; MAE is the mean absolute error,
    IoU the share of members (or words) that two sets share; within, how many numbers are within their 90 % interval;
    nats, -log p of a value.

    --against fits baselines to the entities of SOURCE that MODEL was trained on, and hides the same values from them:
    gbdt is CatBoost, a model for each property from all others but texts, with RMSE as the loss of numbers (gbdt-median:
    MAE; gbdt-filled: constants in the place of missing values; gbdt-grid: a search for settings, ten times as long).

    \b
    kbdisk evaluate phones.kbdisk phones.jsonl
    kbdisk evaluate phones.kbdisk newer.jsonl --only launch --whole
    kbdisk evaluate kb.kbdisk kb.ttl --class City --json | jq .summary
    kbdisk evaluate phones.kbdisk phones.jsonl --plot confidence.png
    kbdisk evaluate phones.kbdisk phones.jsonl --curve --plot curve.png
    kbdisk evaluate phones.kbdisk phones.jsonl --against gbdt
    kbdisk evaluate kb.kbdisk test.ttl --links
    """  # fmt: skip
    if options["plot"]:
        from kbdisk.api.plots import refuse_plot

        refuse_plot(options["plot"])
    options["against"] = _split_names(options["against"])

    from kbdisk.api.source import LoadedSource
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.evaluate import SourcePartition

    opened = open_model(model, options["device"], verbose)
    with show_reading(quiet, f"reading {source}") as progress:
        kb = open_source(source, options, progress)
        loaded = LoadedSource.of(kb)
    if options["as_links"]:
        _evaluate_links(context, opened, model, loaded, as_json)
        context.exit(1 if kb.skipped else 0)
    if options["negatives"] is not None:
        raise ConfigError("--negatives", "is for the evaluation of links. Say --links, too.")
    is_same = opened.is_of(loaded)
    parts = SourcePartition.of(opened.trained, loaded.entities, is_same)
    scored = [*parts.held_out, *parts.new, *parts.trained_on] if options["everything"] else parts.fair
    if not scored:
        count = counted(len(loaded.entities), "entity", "entities")
        raise LoadError(source, f"none of {count} is of a class that the model knows.")
    head = f"{source}: {counted(len(scored), 'entity', 'entities')} scored with {model}"
    drift = Drift.of(opened.trained.codec, [*scored, *parts.without_class], options["classes"])
    evaluated = EvaluatedSource(opened, loaded, scored, head, _notes(parts, scored, is_same), drift, options)
    baselines = evaluated.fit_baselines(parts, quiet) if options["against"] else None
    with show_counting(quiet, "evaluating") as report_progress:
        result = (
            evaluated.measure_curve(baselines, report_progress)
            if options["as_curve"]
            else evaluated.score(baselines, report_progress)
        )
    if as_json:
        counts = _count_entities(parts, scored)
        data = {"model": model, "source": source, "entities": counts, **result.data, "drift": drift.to_json()}
        screen.write_json(data)
    else:
        screen.show(result.text)
    context.exit(1 if kb.skipped or (options["strict"] and drift) else 0)


LINKS_EXCLUDE = ("as_curve", "plot", "against", "everything", "only", "limit", "whole", "strict")


def _evaluate_links(context: click.RichContext, model: Model, name: str, loaded: LoadedSource, as_json: bool) -> None:
    """Print the scores of the links of a source that the model does not know; of those held out where it knows all."""
    given = given_parameters(context)
    if excluded := [given[option] for option in LINKS_EXCLUDE if option in given]:
        raise ConfigError("--links", f"has an evaluation of its own. Leave {', '.join(excluded)} out.")
    negatives = context.params["negatives"]
    scored = model.evaluate_links(loaded, None if negatives is None else open_source(negatives, context.params))
    if as_json:
        rows = [score.to_json() for score in scored.scores]
        counts = {"is_held_out": scored.is_held_out, "known": scored.known, "left_out": scored.left_out}
        told_apart = {} if scored.classified is None else {"classified": scored.classified.to_json()}
        screen.write_json({"model": name, "source": loaded.name, **counts, "rows": rows, **told_apart})
        return
    number = counted(scored.scores[0].n // 2, "link", "links")
    if scored.is_held_out:
        head = f"{loaded.name}: {number} that were held out in training, scored with {name}"
    else:
        head = f"{loaded.name}: {number} that {name} does not know"
    notes = ["Filtered ranks among all entities, in both directions; of equal scores, half come first."]
    if scored.left_out:
        notes.append(
            f"{counted(scored.left_out, 'link', 'links')} of entities or properties that it does not know left out."
        )
    if (classified := scored.classified) is not None:
        right, error = percent(classified.accuracy), percent(classified.calibration_error)
        notes.append(f"Of {classified.n:,} true and false links {right} are told apart; calibration error {error}.")
    screen.show(render_link_scores(head, notes, scored.scores))


def render_link_scores(head: str, notes: Sequence[str], scores: Sequence[LinkScore]) -> str:
    """A row for all links, for those of each direction, and for each property."""

    def show_scores(console: Console) -> None:
        _show_head(console, head, notes)
        console.print()
        table = build_table("property", "asked", ">n", ">MRR", ">Hits@1", ">Hits@3", ">Hits@10")
        for score in scores:
            if score.property and score.asked != "both":
                continue
            cells = (f"{number:.3f}" for number in (score.mrr, score.hits_1, score.hits_3, score.hits_10))
            table.add_row(
                Text(score.property or "all", "green" if score.property else "bold"),
                score.asked,
                f"{score.n:,}",
                *cells,
            )
        console.print(table)

    return render(show_scores)


class Result(NamedTuple):
    """What is printed: plain data, and tables."""

    data: dict[str, Any]
    text: str


@dataclass(frozen=True, eq=False)
class EvaluatedSource:
    """A source with the model that is evaluated on its entities, and what is printed about them."""

    model: Model
    loaded: LoadedSource
    entities: list[Entity]
    head: str
    notes: list[str]
    drift: Drift
    options: dict[str, Any]

    def fit_baselines(self, parts: SourcePartition, quiet: bool) -> FittedBaselines:
        """Baselines that learn from the entities that the model was trained on."""
        from kbdisk.evaluation.compare import FittedBaselines, training_entities

        names, trained = self.options["against"], self.model.trained
        training = training_entities(trained, parts, self.loaded.name)
        with show_counting(quiet, f"training {', '.join(names)}") as progress:
            return FittedBaselines.fit(names, trained, training, self.entities, self._scope, progress)

    def score(self, baselines: FittedBaselines | None, progress: CountCallback | None) -> Result:
        """The error in each property, all other values given; also as a picture."""
        from kbdisk.evaluation.evaluate import evaluate, summary

        rows = evaluate(self.model.trained, self.entities, self._graph, self._scope, against=baselines, watch=progress)
        if not rows:
            raise LoadError(self.loaded.name, "its entities have no value that the model predicts.")
        compared = baselines.to_json(rows) if baselines else {}
        data = {"limit": self._scope.limit, "rows": rows, "summary": asdict(summary(rows))}
        data |= {"against": compared} if baselines else {}
        reliability = self._reliability(progress)
        data |= {"confidence": reliability.to_json()} if reliability else {}
        if self.options["plot"]:
            from kbdisk.api.plots import plot_reliability
            from kbdisk.evaluation.calibration import Reliability

            title = f"Confidence on held-out values: {FilePath(self.loaded.name).name}"
            plot_reliability(reliability or Reliability([]), rows, self.options["plot"], title)
        text = render_scores(self.head, self.notes, rows, summary(rows), self.drift, compared, reliability)
        return Result(data, text)

    def _reliability(self, progress: CountCallback | None) -> Reliability | None:
        """The confidence of statements beside the share that is right; None where it is unknown.

        For entities held out in training the cross-fitted confidences are known. Others are completed on trial where a
        picture is drawn.
        """
        from kbdisk.completion.trial import outcomes_of
        from kbdisk.evaluation.calibration import Calibration, Reliability

        trained = self.model.trained
        if not trained.record.calibration:
            return None
        calibration = Calibration.from_json(trained.record.calibration)
        held_out = set(trained.record.validation)
        if all(trained.schema.id_of(entity) in held_out for entity in self.entities):
            by_property = calibration.statements.values()
            return Reliability.of(statement for statements in by_property for statement in statements)
        if not self.options["plot"]:
            return None
        outcomes = outcomes_of(trained, self.entities, self._graph, seed=self.options["seed"], watch=progress)
        return Reliability.of(map(calibration.judged, outcomes))

    def measure_curve(self, baselines: FittedBaselines | None, progress: CountCallback | None) -> Result:
        """The errors by the share of properties that are given; also as a picture."""
        from kbdisk.evaluation.curve import curve

        measured = curve(self.model.trained, self.entities, self._graph, self._scope, against=baselines, watch=progress)
        if self.options["plot"]:
            from kbdisk.api.plots import plot_curve

            plot_curve(measured, self.options["plot"], f"Error by how much is given: {FilePath(self.loaded.name).name}")
        data = {"limit": self._scope.limit, "curve": measured.to_json()}
        return Result(data, render_curve(self.head, self.notes, measured, self.drift))

    @property
    def _graph(self) -> Graph:
        return self.loaded.graph(self.model.schema)

    @cached_property
    def _scope(self) -> Scope:
        from kbdisk.evaluation.evaluate import Scope

        limit, texts = (MAX_CURVE_VALUES, MAX_CURVE_TEXTS) if self.options["as_curve"] else (MAX_VALUES, MAX_TEXTS)
        return Scope(
            only=tuple(map(_read_path, self.options["only"])),
            classes=self.options["classes"],
            limit=self.options["limit"] or limit,
            texts=self.options["limit"] or texts,
            whole=self.options["whole"],
            seed=self.options["seed"],
        )


def _notes(parts: SourcePartition, scored: list[Entity], is_same: bool) -> list[str]:
    """What a reader must know of the entities that are scored."""
    notes = []
    known = len(parts.trained_on)
    if len(scored) > len(parts.fair) or parts.fair is parts.trained_on:
        part = "all of these" if known == len(scored) else f"{known:,} of these"
        notes.append(f"The model was trained on {part}: its true errors are larger.")
    elif parts.held_out:
        trained_on = counted(known, "entity", "entities")
        notes.append(
            f"{len(parts.held_out):,} were held out in training; {trained_on} that it was trained on {'is' if known == 1 else 'are'} left out (--all)."
        )
    elif known:
        notes.append(f"{counted(known, 'entity', 'entities')} that the model was trained on left out (--all).")
    if not is_same and (known or parts.held_out):
        notes.append("The source has changed since training: entities are recognised by their ids.")
    if parts.without_class:
        count = counted(len(parts.without_class), "entity", "entities")
        notes.append(f"{count} of no class that the model knows left out.")
    return notes


def _count_entities(parts: SourcePartition, scored: list[Entity]) -> dict[str, int]:
    known = {id(entity) for entity in parts.trained_on}
    return {
        "asked": len(scored),
        "held_out": len(parts.held_out),
        "new": len(parts.new),
        "trained_on": sum(id(entity) in known for entity in scored),
    }


def _split_names(text: str | None) -> list[str]:
    """The names of baselines."""
    from kbdisk.evaluation import refuse_unknown

    names = [] if text is None else [name.strip() for name in text.split(",")]
    refuse_unknown(names, "--against")
    return names


def _read_path(text: str) -> Path:
    """A path such as prizes[0].share, or prizes[].share for every item."""
    from kbdisk.data.graph import pattern
    from kbdisk.entity import read_path

    try:
        return pattern(read_path(text.replace("[]", "[0]"))) if "[]" in text else read_path(text)
    except ValueError as error:
        raise ConfigError("--only", f"{error}.") from None


# ---------------------------------------------------------------- tables of scores


def render_scores(
    head: str,
    notes: Sequence[str],
    rows: Rows,
    summary: Summary,
    drift: Drift | None = None,
    compared: Mapping[str, Any] | None = None,
    reliability: Reliability | None = None,
) -> str:
    """A table for each class, remarks, and the summary; a line for each baseline (`FittedBaselines.to_json`)."""

    def show_scores(console: Console) -> None:
        _show_head(console, head, notes)
        for class_name in dict.fromkeys(row["class"] for row in rows):
            console.print()
            class_rows = [row for row in rows if row["class"] == class_name]
            if class_name or len(class_rows) < len(rows):
                console.print(Text(class_name or UNNAMED, "bold cyan"))
            _show_score_table(console, class_rows)
        for line in _remarks(rows):
            console.print(Text(f"\n{line}", "dim"), soft_wrap=True)
        for name, baseline in (compared or {}).items():
            if baseline["left_out"]:
                paths = _first_reasons(baseline["left_out"])
                console.print(Text(f"\n{name} cannot predict {paths}.", "dim"), soft_wrap=True)
        _show_drift(console, drift)
        console.print()
        if reliability is not None and reliability.error is not None:
            line = f"confidence: calibration error {reliability.error:.3f} over {reliability.weight:,.0f} statements"
            console.print(Text(line), soft_wrap=True)
        console.print(Text(describe_summary(summary)), soft_wrap=True)
        for name, baseline in (compared or {}).items():
            if name != "constant":
                console.print(Text(_describe_baseline(name, baseline)), soft_wrap=True)

    return render(show_scores)


def render_curve(head: str, notes: Sequence[str], curve: Curve, drift: Drift | None = None) -> str:
    """The errors by the share of properties that are given."""

    def show_curve(console: Console) -> None:
        _show_head(console, head, notes)
        console.print()
        _show_curve_table(console, curve)
        _show_drift(console, drift)
        line = "The mean is that of our error over the constant's, over all properties."
        console.print(Text(f"\n{line}", "dim"))

    return render(show_curve)


def _show_drift(console: Console, drift: Drift | None) -> None:
    if drift:
        console.print()
        show_drift(console, drift)


def describe_summary(summary: Summary) -> str:
    """The summary in one line."""
    if summary.ratio is None:
        return "Nothing to compare: no property has a constant that is ever wrong."
    properties = counted(summary.properties, "property", "properties")
    gain = "" if summary.nats is None else f"; a value costs {_nats_text(summary.nats)}"
    return f"Better than the constant on {summary.better} of {properties}; its error is {summary.ratio:.2f} of the constant's on average{gain}."


def _describe_baseline(name: str, baseline: Mapping[str, Any]) -> str:
    """A model beside a baseline, in one line."""
    if baseline["ratio"] is None:
        return f"Nothing to compare with {name}: it predicts no property, or is never wrong."
    properties = counted(baseline["properties"], "property", "properties")
    return f"Better than {name} on {baseline['better']} of {properties}; its error is {baseline['ratio']:.2f} of {name}'s on average."


def _first_reasons(reasons: Mapping[str, str]) -> str:
    """The first paths that are left out, each with the reason."""
    texts = [f"{path} ({reason})" for path, reason in list(reasons.items())[:MAX_NAMES_SHOWN]]
    return ", ".join(texts) + (f" and {len(reasons) - MAX_NAMES_SHOWN} more" if len(reasons) > MAX_NAMES_SHOWN else "")


def _nats_text(gain: float) -> str:
    return f"{abs(gain):.2f} nats {'less' if gain >= 0 else 'more'}"


def _show_head(console: Console, head: str, notes: Sequence[str]) -> None:
    console.print(Text(head, "bold"), soft_wrap=True)
    for note in notes:
        console.print(Text(note, "yellow"), soft_wrap=True)


def _show_score_table(console: Console, rows: Rows) -> None:
    baselines = [name for name in rows[0].get("against", {}) if name != "constant"]  # which has a column already
    is_wide = not baselines or console.width >= MIN_WIDTH_ALL_COLUMNS
    table = build_table(
        "path",
        *[">known"] * is_wide,
        ">n",
        "metric",
        ">constant",
        *(f">{name}" for name in baselines),
        ">ours",
        ">better",
        *[">within", ">nats"] * is_wide,
    )
    for row in rows:
        metric = row["metric"]
        unit = shown_unit(row.get("unit") or "") if console.width >= MIN_WIDTH_ALL_COLUMNS else ""
        others = ((row["against"][name] or {}).get("theirs") for name in baselines)
        cells = [
            *[f"{row['known']:,}"] * is_wide,
            f"{row['n']:,}",
            f"{SHORT_METRICS.get(metric, metric)} {unit}".strip(),
            *(error_text(metric, error) for error in [row["constant"], *others, row["ours"]]),
        ]
        last_cells = _calibration_cells(row) if is_wide else ()
        table.add_row(Text(row["path"], "green"), *cells, _better_cell(row), *last_cells)
    console.print(table)


def _calibration_cells(row: dict[str, Any]) -> tuple[str, str]:
    from kbdisk.store.card import NONE

    coverage = NONE if row["coverage"] is None else f"{100 * row['coverage']:.0f} %"
    return coverage, NONE if row["nats"] is None else f"{row['nats']:.2f}"


def _better_cell(row: dict[str, Any]) -> Text:
    """The gain over the constant, in colour where it is significant."""
    from kbdisk.store.card import NONE

    if row["better"] is None:
        return Text(NONE)
    gain, margin = row["constant"] - row["ours"], SIGNIFICANT_ERRORS * (row["stderr"] or 0.0)
    style = "green" if gain > margin else "red" if gain < -margin else "dim"
    return Text(f"{100 * row['better']:+.0f} %".replace("-0 %", "+0 %").replace("+0 %", "0 %"), style)


def _remarks(rows: Rows) -> list[str]:
    """What a reader must know of the figures."""
    lines = []
    refused = [f"{row['unread']:,} of {row['path']}" for row in rows if row["unread"]]
    if refused:
        lines.append(
            f"Values that the schema does not allow count as wrong (numbers are left out): {', '.join(refused)}."
        )
    sampled = [f"{row['path']} ({row['of']:,})" for row in rows if row["n"] + row["unread"] < row["of"]]
    if sampled:
        more = f" and {len(sampled) - MAX_NAMES_SHOWN} more" if len(sampled) > MAX_NAMES_SHOWN else ""
        paths = ", ".join(sampled[:MAX_NAMES_SHOWN]) + more
        lines.append(f"Not all values were scored (--limit), but a random sample of n of them: {paths}.")
    return lines


def _show_curve_table(console: Console, curve: Curve) -> None:
    from kbdisk.store.card import NONE

    def mean_cells(means: Sequence[float | None]) -> list[str]:
        return [NONE if (mean := means[index]) is None else f"{mean:.2f}" for index in indices]

    is_wide = console.width >= 30 + CURVE_CELL_WIDTH * (len(curve.shares) + 2)
    indices = [index for index, share in enumerate(curve.shares) if is_wide or round(share, 3) in NARROW_SHARES]
    shares = ["all" if curve.shares[index] == 1 else f"{100 * curve.shares[index]:.0f} %" for index in indices]
    table = build_table("path", ">n", ">constant", *(f">{share}" for share in shares))
    has_classes = len({line.class_name for line in curve.lines}) > 1
    for line in curve.lines:
        cells = [error_text(line.metric, line.ours[index]) for index in indices]
        path = f"{line.class_name}.{line.path}" if has_classes else line.path
        table.add_row(Text(path, "green"), f"{line.n:,}", error_text(line.metric, line.constant), *cells)
        for name, errors in line.against.items():
            cells = [error_text(line.metric, errors[index]) for index in indices]
            table.add_row(Text(f"  {name}", "dim"), "", "", *cells)
    table.add_row(Text("mean", "bold"), "", "1.00", *mean_cells(curve.mean))
    for name in curve.lines[0].against if curve.lines else ():
        table.add_row(Text(f"  {name}", "dim"), "", "", *mean_cells(curve.mean_of(name)))
    console.print(table)


def error_text(metric: str, error: float | None) -> str:
    """An error in few characters: of numbers in their unit, of all else in percent."""
    from kbdisk.store.card import NONE, number

    if error is None:
        return NONE
    if metric != "MAE":
        return f"{100 * error:.1f} %"
    return number(float(f"{error:.3g}") if error < 1000 else round(error))
