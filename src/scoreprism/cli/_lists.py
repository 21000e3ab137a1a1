"""The commands that list what can be named: losses, calibrators."""

from __future__ import annotations

import click

from scoreprism.cli._options import FORMAT, Command, options
from scoreprism.cli._output import emit


@click.command(cls=Command)
@options(FORMAT)
def losses(form: str) -> None:
    """List the losses that can be named, with their formulas."""
    from dataclasses import fields

    from scoreprism._document.model import make_table
    from scoreprism.cli._answers import answer
    from scoreprism.losses import LOSSES, get_loss

    rows = []
    for name in LOSSES:
        loss = get_loss(name)
        parameters = ", ".join(f"{one.name}={getattr(loss, one.name):g}" for one in fields(loss))  # type: ignore[arg-type]
        rows.append((
            name, parameters, loss.formula(2), "2" if loss.binary_only else "any", _yes(loss.strictly_proper)
        ))  # fmt: skip
    columns = {"name": "loss", "parameters": "parameters", "formula": "formula", "classes": "classes"}
    columns |= {"strictly_proper": "strictly proper"}
    heads = [(key, title, "text") for key, title in columns.items()]
    table = make_table("losses", "Names, formulas, promises", heads, rows)
    headline = "Proper losses: predicting the truth is never worse. Parameters are given as in tsallis:alpha=1.5."
    emit(answer("losses", headline, table), form)


@click.command(cls=Command)
@options(FORMAT)
def calibrators(form: str) -> None:
    """List the recalibration maps that can be named, with what they promise."""
    from scoreprism._document.model import make_table
    from scoreprism.calibrators import CALIBRATORS
    from scoreprism.cli._answers import answer

    rows = []
    for name, cls in CALIBRATORS.items():
        about = (cls.__doc__ or "").strip().splitlines()[0].replace("``", "")
        order = "strictly" if cls.strictly_increasing else _yes(cls.monotone)
        rows.append((name, order, _yes(cls.smooth), "any" if cls.multiclass else "2", about))
    columns = {"name": "map", "keeps_order": "keeps the order", "smooth": "smooth", "classes": "classes"}
    columns |= {"about": "what it is"}
    heads = [(key, title, "text") for key, title in columns.items()]
    table = make_table("calibrators", "Names and promises", heads, rows)
    headline = "Maps from a score to P(event | score). What is promised holds for every data set."
    emit(answer("calibrators", headline, table), form)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
