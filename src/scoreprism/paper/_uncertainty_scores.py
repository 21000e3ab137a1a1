"""Scores of appendix C's simulations: one that is calibrated, and one that is too sure of itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from scoreprism._core.numerics import sigmoid
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw
from scoreprism.datasets._levelsets import ScoreLaw
from scoreprism.paper._population import refined

LAW = CopulaLaw(rho=0.0)
#: Samples for each run of the plan.
SAMPLES_PER_RUN = 25


def steep(x1: FloatArray, x2: FloatArray) -> FloatArray:
    """
    A score that is too sure of itself.

    Parameters
    ----------
    x1, x2 : array
        Features.

    Returns
    -------
    array
        Of the first only.

    Examples
    --------
    >>> steep(np.array([0.5]), np.array([0.1]))
    array([0.5])
    """
    return np.broadcast_to(sigmoid(6 * x1 - 3), np.broadcast_shapes(x1.shape, x2.shape))


def calibrated(x1: FloatArray, x2: FloatArray) -> FloatArray:
    """
    E[Q | X₁]: a perfectly calibrated score.

    Parameters
    ----------
    x1, x2 : array
        Features.

    Returns
    -------
    array
        Of the first only.
    """
    nodes, means = _conditional()
    return np.broadcast_to(np.interp(x1, nodes, means), np.broadcast_shapes(x1.shape, x2.shape))


@cache
def _conditional() -> tuple[FloatArray, FloatArray]:
    law = LAW.score_law(lambda x1, x2: x1 + 0.0 * x2)
    return law.score, law.calibrated


SCORES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {"calibrated": calibrated, "too steep": steep}


@cache
def nodes_of(name: str) -> ScoreLaw:
    """
    The law of a score, with more nodes for maps that have steps.

    Parameters
    ----------
    name : str
        In `SCORES`.

    Returns
    -------
    ScoreLaw
        By quadrature.
    """
    return refined(LAW.score_law(SCORES[name]), 16)
