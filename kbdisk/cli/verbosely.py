"""-v of the commands that ask a model: which model that is, on standard error before all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from rich.console import Console

    from kbdisk.api import Model

SHOWN = 10  # things left out that are named

verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Also tell how MODEL was trained, and what it has not learnt."
)


def open_model(name: str, device: str, verbose: bool) -> Model:
    """The model in a folder, told of where that is wanted."""
    import kbdisk

    model = kbdisk.open(name, device=device)
    if verbose:
        _tell(name, model)
    return model


def _tell(name: str, model: Model) -> None:
    from rich.text import Text

    from kbdisk.cli import screen
    from kbdisk.cli.show import show_pairs
    from kbdisk.store.card import trained_how, trained_on
    from kbdisk.store.files import Files

    config, console = Files.of(name).config, screen.console(stderr=True)
    console.print(Text(f"using the model in {name}"), soft_wrap=True)
    show_pairs(console, trained_on(config) | trained_how(config))
    tell_left_out(console, model)


def tell_left_out(console: Console, model: Model) -> None:
    """What of the training data a model has not learnt, and why."""
    from rich.text import Text

    from kbdisk.entity import show

    for (of, path), why in list(model.trained.codec.left_out.items())[:SHOWN]:
        console.print(Text(f"not learnt: {show((of, *path) if of else path)}: {why}"), soft_wrap=True)
