"""The demonstration: a bundled example, decomposed exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scoreprism.cli._options import FORCE, Command, options
from scoreprism.cli._output import Voice, outputs, show

if TYPE_CHECKING:
    from rich.table import Table

    from scoreprism.decomposition import Decomposition


@click.command(cls=Command)
@click.option(
    "--loss",
    "losses",
    multiple=True,
    default=("brier", "log"),
    show_default=True,
    help="A loss by name; may be given several times. See `scoreprism losses`.",
)
@click.option("--save-data", metavar="FILE", help="Write predictions of two credit models, to try commands on.")
@options(FORCE)
def demo(losses: tuple[str, ...], save_data: str | None, force: bool) -> None:
    """Decompose a bundled example exactly and print the table."""
    if save_data:
        write_example(save_data, force=force)
        return
    from scoreprism.datasets import german_credit_population

    population = german_credit_population()
    tables = [_table(population.decompose(name)) for name in losses]
    show([population.story, *tables, f"Data: {population.attribution}"])


def write_example(path: str, *, force: bool) -> None:
    """
    Write the predictions that the documentation uses.

    Parameters
    ----------
    path : str
        Ends in .csv or .parquet.
    force : bool
        Whether an existing file may be replaced.
    """
    from scoreprism.cli._columns import write_frame
    from scoreprism.cli._example import example_predictions

    targets = outputs((path,), force=force)
    write_frame(example_predictions(), targets[0], None, Voice(), overwrite=force)


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
