"""The commands that list what can be named: losses, calibrators."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from scoreprism.cli._options import FORMAT, Command, options
from scoreprism.cli._output import emit, make_answer


@click.command(cls=Command)
@options(FORMAT)
def losses(form: str) -> None:
    """List the available losses and their formulas."""
    from scoreprism.losses import LOSSES, get_loss

    rows = []
    for name in LOSSES:
        loss = get_loss(name)
        parameters = ", ".join(f"{field.name}={getattr(loss, field.name):g}" for field in fields(loss))  # type: ignore[arg-type]
        classes = "2" if loss.binary_only else "any"
        rows.append((name, parameters, loss.formula(2), classes, _write_flag(loss.strictly_proper)))
    heads = {"name": "loss", "parameters": "parameters", "formula": "formula", "classes": "classes"}
    heads |= {"strictly_proper": "strictly proper"}
    headline = "Proper losses: predicting the truth is never worse. Write parameters as in tsallis:alpha=1.5."
    _emit_list("losses", "Losses", headline, heads, rows, form)


@click.command(cls=Command)
@options(FORMAT)
def calibrators(form: str) -> None:
    """List the available recalibration maps and their properties."""
    from scoreprism.calibrators import CALIBRATORS

    rows = []
    for name, cls in CALIBRATORS.items():
        about = (cls.__doc__ or "").strip().splitlines()[0].replace("``", "")
        order = "strictly" if cls.strictly_increasing else _write_flag(cls.monotone)
        rows.append((name, order, _write_flag(cls.smooth), "any" if cls.multiclass else "2", about))
    heads = {"name": "map", "keeps_order": "keeps the order", "smooth": "smooth", "classes": "classes"}
    heads |= {"about": "description"}
    headline = "Maps from a score to P(event | score). Their properties hold for every data set."
    _emit_list("calibrators", "Recalibration maps", headline, heads, rows, form)


def _emit_list(kind: str, title: str, headline: str, heads: dict[str, str], rows: Any, form: str) -> None:
    from scoreprism._document.model import make_table

    columns = [(key, head, "text") for key, head in heads.items()]
    emit(make_answer(kind, title, headline, make_table(kind, "", columns, rows)), form)


def _write_flag(flag: bool) -> str:
    return "yes" if flag else "no"
