"""Losses as expressions: what an engine evaluates for each row, from the probability of what happened."""

from __future__ import annotations

from collections.abc import Callable

import narwhals as nw
import numpy as np

from scoreprism.losses import Brier, LogLoss, ProperLoss, RankedProbability, Spherical

Formula = Callable[[nw.Expr, nw.Expr], nw.Expr]


def possible(hit: nw.Expr) -> nw.Expr:
    """p_y, or 1 where it is 0, for engines that cannot take its logarithm; such rows are counted."""
    return hit + (hit <= 0.0).cast(nw.Float64)


def _square(hit: nw.Expr, _: nw.Expr) -> nw.Expr:
    return (1.0 - hit) * (1.0 - hit)


def _spherical(hit: nw.Expr, _: nw.Expr) -> nw.Expr:
    rest = 1.0 - hit
    return 1.0 - hit / (hit * hit + rest * rest).sqrt()


#: Losses of two classes that engines evaluate, as functions of p_y (and of what `possible` makes of it); the others
#: are evaluated on cells.
FORMULAS: dict[type[ProperLoss], Formula] = {
    LogLoss: lambda _, some: 0.0 - some.log(),
    Brier: _square,
    RankedProbability: _square,
    Spherical: _spherical,
}


def by_row(loss: ProperLoss) -> bool:
    """Whether an engine evaluates this loss for each row."""
    return type(loss) in FORMULAS


def unbounded(loss: ProperLoss) -> bool:
    """Whether probability 0 for what happens costs infinitely much."""
    return bool(np.isinf(loss.evaluate(np.zeros(1), np.ones(1, dtype=np.intp)))[0])


def loss_expression(loss: ProperLoss, hit: nw.Expr, some: nw.Expr) -> nw.Expr:
    """The loss at the probability of what happened (`hit`, or where it is 0, `some`); 0 where it is infinite."""
    return FORMULAS[type(loss)](hit, some)
