"""`kbdisk complete`: fills the gaps of a knowledge base by a model of it."""

from __future__ import annotations

from typing import Any

import rich_click as click

from kbdisk.cli.completejob import Job
from kbdisk.cli.counting import counting
from kbdisk.cli.drift import strict_option
from kbdisk.cli.resuming import resumable
from kbdisk.cli.sources import loading, source_options, watching

PRESETS = ("fast", "default", "best", "paper")  # not synthetic, which draws rather than completes
FILLS, ESTIMATES, ORDERS = (
    ("asked", "likely", "all"),
    ("mean", "median", "mode", "sample"),
    ("given", "certain", "random"),
)


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--out", metavar="TARGET", help="File to write, or - for standard output.")
@click.option("--model", metavar="MODEL", help="A model folder.  [default: train on SOURCE, keep it in SOURCE.kbdisk]")
@click.option(
    "--only",
    metavar="PATHS",
    multiple=True,
    help="Fill only these properties: launch.year,weight. Text, labels, identifiers and axioms are filled only where named here.",
)
@click.option(
    "--fill",
    type=click.Choice(FILLS),
    default="likely",
    show_default=True,
    help="asked: blank cells, nulls, missing parts of a value, what the schema requires. likely: also absent properties. Both write values that reach the minimum confidence, of properties that the model predicts better than a constant does. all: every property that the entity's class has, whatever its confidence.",
)
@click.option(
    "--estimate",
    type=click.Choice(ESTIMATES),
    default="median",
    show_default=True,
    help="Which value of its predicted distribution a number gets.",
)
@click.option(
    "--min-confidence",
    metavar="C",
    type=click.FloatRange(0, 1),
    default=None,
    help="Minimum confidence of a value to be written, 0 to 1.  [default: 0.5; with --fill all: 0]",
)
@click.option(
    "--precision",
    metavar="P",
    type=click.FloatRange(0, 1),
    default=None,
    help="Instead of --min-confidence: use for each property the lowest threshold at which a share P of its held-out values was right.",
)
@click.option(
    "--draws",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Also draw N values for each gap, for the provenance file.",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="given",
    show_default=True,
    help="given: fill each gap from given values alone; certain, random: one after the other, from filled values, too.",
)
@click.option(
    "--leap",
    metavar="K",
    type=click.IntRange(min=1),
    help="Gaps of an entity filled at a time, with --order certain or random.  [default: as many as take 8 passes]",
)
@click.option(
    "--review",
    metavar="FILE",
    help="Write a table of what would be filled, .csv, .tsv or .jsonl, for people to decide on: see kbdisk apply. With --out the target is written, too.",
)
@click.option(
    "--predictions",
    metavar="FILE",
    help="Keep the predictions for all gaps in FILE, .jsonl. If FILE exists, decide on the predictions in it by these thresholds, and predict nothing.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be filled.")
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="A schema to train by, as a file or its name in the library.  [default: infer it]",
)
@click.option(
    "--shapes",
    metavar="FILE",
    help="SHACL shapes, or another schema: what is written satisfies them together with the given values.",
)
@click.option("--preset", type=click.Choice(PRESETS), help="How large a model is trained.  [default: default]")
@click.option(
    "--budget",
    metavar="TIME",
    help="How long to train at most, such as 90s or 10m.  [default: fits the size of SOURCE]",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of training and of all random draws."
)
@click.option(
    "--device", metavar="NAME", default="auto", show_default=True, help="Where the model computes: auto, cpu or cuda."
)
@click.option("--from", "origin", metavar="FORMAT", help="Format of SOURCE where its name does not tell.")
@click.option("--format", metavar="FORMAT", help="Format of TARGET where its name does not tell.")
@click.option("--insert", is_flag=True, help="Also fill gaps inside anonymous [ ... ] of Turtle, in their place.")
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@strict_option
@click.option("--in-place", is_flag=True, help="Write into SOURCE itself; the original is kept as SOURCE.before.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bars and no summary.")
@click.option("-v", "--verbose", is_flag=True, help="Also print every value that is filled in.")
@click.pass_context
def complete(context: click.RichContext, /, sources: tuple[str, ...], **options: Any) -> None:
    """Fill what is missing in SOURCE, and write it to TARGET.

    Without --model a schema is inferred and a model trained on SOURCE itself: a minute for a thousand entities or
    fewer. Given values stay as they are, to the byte where TARGET has the format of SOURCE. Properties with fewer
    than 30 known values are held back, as are free text, labels, identifiers and axioms of an ontology. The confidence
    of each value is the probability that it is right (docs/confidence.md). TARGET.provenance.jsonl has it, with the
    interval of numbers; while that file stands beside TARGET, later trainings and completions do not take the values that were
    filled in for given ones. Several sources become one TARGET. Exits with status 1 where a given value has no place in
    TARGET, where --skip-errors skipped something, or where --strict finds data unlike those that MODEL learnt from.

    \b
    kbdisk complete kb.ttl --out completed.ttl
    kbdisk complete phones.jsonl --out done.csv --only weight --min-confidence 0.8
    kbdisk complete new.jsonl --model phones.kbdisk --dry-run
    kbdisk complete kb.ttl --review review.csv
    """  # fmt: skip
    quiet = options["quiet"]
    job = Job(sources, options)
    job.refuse()
    with job.locked():
        with watching(quiet, f"reading {sources[0]}") as progress:
            job.open(progress)
        with loading(quiet, f"reading {sources[0]} ..."):
            import kbdisk.api  # noqa: F401 - torch, by now that nothing is amiss
        with resumable(context):
            modelled = job.modelled()
        with counting(quiet, "predicting") as counted:
            completed = job.completed(modelled, counted)
        status = job.report(completed, job.write(completed))
    context.exit(status)
