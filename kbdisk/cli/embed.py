"""`kbdisk embed`: a vector for each entity, as word2vec text or as .npy."""

from __future__ import annotations

from typing import Any

import rich_click as click

from kbdisk.cli import screen
from kbdisk.cli.options import (
    device_option,
    open_model,
    open_source,
    refuse_missing,
    source_options,
    verbose_option,
)
from kbdisk.cli.progress import show_counting, show_reading
from kbdisk.cli.screen import say
from kbdisk.cli.summary import describe_target
from kbdisk.cli.tables import counted
from kbdisk.errors import LoadError


@click.command()
@click.argument("model")
@click.argument("source")
@click.option(
    "--out",
    metavar="TARGET",
    required=True,
    help="File to write: .txt, .vec or .w2v is word2vec text; .npy is an array, with the ids in a file beside it. - is standard output, as text.",
)
@click.option("--force", is_flag=True, help="Replace TARGET where it exists.")
@device_option
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@verbose_option
@click.pass_context
def embed(
    context: click.RichContext,
    /,
    model: str,
    source: str,
    out: str,
    force: bool,
    device: str,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Write a vector for each entity of SOURCE, as MODEL embeds it by its known values.

    Entities that MODEL would complete similarly are near each other. The text is what gensim and others read: the
    number of vectors and their width, then an id and its numbers a line. Blanks in an id are written as `\\u0020`.
    The ids of vectors.npy are in vectors.ids.txt, in the order of its rows. Exits with status 1 where --skip-errors
    skipped something.

    \b
    kbdisk embed kb.kbdisk kb.ttl --out vectors.txt
    kbdisk embed kb.kbdisk kb.ttl --out vectors.npy --force
    """
    from kbdisk.api.source import LoadedSource
    from kbdisk.api.vectors import refuse_vectors
    from kbdisk.loaders.files import refuse_unwritable

    if as_json and out == "-":
        raise click.UsageError("--json and --out - both want standard output.")
    refuse_missing(source)
    refuse_vectors(out, force=force)
    if out != "-":
        refuse_unwritable(out)
    opened = open_model(model, device, verbose)
    with show_reading(quiet, f"reading {source}") as progress:
        kb = open_source(source, options, progress)
        refuse_vectors(out, force=force, sources=kb.files)
        loaded = LoadedSource.of(kb)
    with show_counting(quiet, "embedding") as watch:
        vectors = opened.vectors(loaded, classes=options["classes"], watch=watch)
    if not vectors.ids:
        count = counted(vectors.left_out, "entity", "entities")
        raise LoadError(source, f"none of {count} is of a class that the model knows.")
    files = vectors.write(out, force=force)
    width = vectors.vectors.shape[1]
    if as_json:
        facts = {"files": files, "entities": len(vectors), "width": width, "left_out": vectors.left_out}
        screen.write_json(facts)
    elif not quiet:
        count = counted(len(vectors), "vector", "vectors")
        left_out = f"; {counted(vectors.left_out, 'entity', 'entities')} of other classes left out"
        say(
            f"wrote {' and '.join(map(describe_target, files))}: {count} of {width} numbers"
            + left_out * bool(vectors.left_out)
        )
    context.exit(1 if kb.skipped else 0)
