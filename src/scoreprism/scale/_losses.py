"""Losses as expressions: what an engine evaluates for each row, from the probability of what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw

from scoreprism.losses import Brier, LogLoss, ProperLoss, RankedProbability, Spherical

Formula = Callable[[Any, nw.Expr], nw.Expr]


def _log(_: Any, hit: nw.Expr) -> nw.Expr:
    possible = nw.when(hit > 0.0).then(hit).otherwise(nw.lit(1.0))  # engines disagree on log 0: it is counted instead
    return 0.0 - possible.log()


def _square(_: Any, hit: nw.Expr) -> nw.Expr:
    return (1.0 - hit) * (1.0 - hit)


def _spherical(_: Any, hit: nw.Expr) -> nw.Expr:
    rest = 1.0 - hit
    return 1.0 - hit / (hit * hit + rest * rest).sqrt()


#: Losses of two classes that engines evaluate, as functions of p_y; the others are evaluated on cells.
FORMULAS: dict[type[ProperLoss], Formula] = {
    LogLoss: _log,
    Brier: _square,
    RankedProbability: _square,
    Spherical: _spherical,
}


def by_row(loss: ProperLoss) -> bool:
    """Whether an engine evaluates this loss for each row."""
    return type(loss) in FORMULAS


def loss_expression(loss: ProperLoss, hit: nw.Expr) -> nw.Expr:
    """The loss at the probability `hit` of what happened; 0 where it is infinite, which has to be counted."""
    return FORMULAS[type(loss)](loss, hit)
