"""The command line: reads, calls, prints; no logic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from scoreprism.decomposition import Decomposition

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scoreprism", message="scoreprism %(version)s")
def main() -> None:
    """Split a classifier's loss into what recalibration, a better model, or only better data can fix."""


@main.command()
@click.option(
    "--loss",
    "losses",
    multiple=True,
    default=("brier", "log"),
    show_default=True,
    help="A loss by name; may be given several times. See `scoreprism losses`.",
)
def demo(losses: tuple[str, ...]) -> None:
    """Decompose a bundled example exactly and print the table."""
    from scoreprism.datasets import german_credit_population
    from scoreprism.exceptions import ScoreprismError

    population = german_credit_population()
    try:
        tables = [_table(population.decompose(name)) for name in losses]
    except ScoreprismError as error:
        raise click.UsageError(str(error)) from error
    _show(population.story, *tables, f"Data: {population.attribution}")


@main.command("losses")
def list_losses() -> None:
    """List the losses that can be named, with their formulas."""
    from scoreprism.losses import LOSSES, get_loss

    for name in LOSSES:
        loss = get_loss(name)
        click.echo(f"{loss!s:28}  {loss.formula(2)}")


def _show(*parts: str | Table) -> None:
    """Print texts and tables: no trailing blanks, and no crash on a terminal that cannot write a sign."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part, markup=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    lines = [line.rstrip() for line in captured.get().splitlines()]
    click.echo("\n".join(lines).encode(encoding, errors="replace").decode(encoding))


def _table(result: Decomposition) -> Table:
    """A decomposition as a rich table, with what reduces each term."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from scoreprism.decomposition._advice import meaning

    table = Table(
        title=Text(f"{result.loss} loss, {result.loss.formula(result.n_classes)}"),
        box=SIMPLE_HEAD,
        title_justify="left",
        show_footer=True,
    )
    table.add_column("term", footer="total")
    table.add_column("loss", justify="right", footer=f"{result.risk:.6f}")
    table.add_column("share", justify="right", footer="100.0 %")
    table.add_column("what reduces it")
    for name, value in result.terms.items():
        table.add_row(Text(name), f"{value:.6f}", f"{100 * value / result.risk:.1f} %", meaning(name))
    return table
