"""The test of calibration that findings on the reliability rely on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._calibration_test.calibration_tests import compute_pvalue
from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, as_vector, n_classes, pick
from scoreprism._fitting.crossfit import rank_by
from scoreprism._fitting.fitted_laws import ScoreCells
from scoreprism._sample.sample import Sample
from scoreprism.losses import LogLoss

#: Rows up to which a test draws outcomes for each; beyond, for cells of the score, or for some of the rows.
_ROWS = 4096
#: Rows of several classes that are tested.
_ROWS_OF_CLASSES = 20_000
#: Draws of the null.
_DRAWS = 399


@dataclass(frozen=True)
class CalibrationCheck:
    """
    A p-value of `calibration_test`, computed on first use and shared by all losses.

    Many rows of two classes are pooled into cells of the score: if they are calibrated, the number of events in a cell
    is nearly binomial. Of many rows of several classes a random part is tested.
    """

    sample: Sample

    @cached_property
    def _pvalue(self) -> float:
        return compute_pvalue(_order_by_score(self.sample), _DRAWS, np.random.default_rng(0))

    def __call__(self) -> float:
        """The p-value."""
        return self._pvalue


def _order_by_score(sample: Sample) -> ScoreLines:
    """The lines to test, in order of the score."""
    weight, squares, *_ = sample.masses
    rows = np.flatnonzero(weight > 0.0)
    if sample.k > 2 and rows.size > _ROWS_OF_CLASSES:
        some = np.sort(np.random.default_rng(0).choice(rows.size, _ROWS_OF_CLASSES, replace=False))
        impossible = bool((LogLoss().evaluate(sample.scores, sample.y)[rows] == np.inf).any())
        rows = rows[some]
    else:
        impossible = False
    law, weight, squares = (values[rows] for values in (sample.scores, weight, squares))
    y = sample.y[rows]
    impossible = impossible or bool((pick(as_matrix(law), y) == 0.0).any())
    if n_classes(law) == 2:
        law = as_vector(law)
        if sample.cells is not None or rows.size > _ROWS:
            # the lines of a summed cell have one score for events and another for the rest: cutting between them would
            # separate the outcomes, whatever the score says
            home = None if sample.cells is None else sample.cells.home
            cell = ScoreCells.of(law).cell if home is None else np.unique(home[rows], return_inverse=True)[1]
            return _pool_cells(law, cell, y, weight, squares, impossible=impossible)
    columns = list(law.T) if law.ndim == 2 else [law]
    order = np.argsort(rank_by([*columns, weight, y]), kind="stable")
    return ScoreLines(law[order], weight[order] / weight.mean(), y[order], impossible).merge_ties()


def _pool_cells(
    score: FloatArray, cell: IntArray, y: IntArray, weight: FloatArray, squares: FloatArray, *, impossible: bool
) -> ScoreLines:
    """Cells with as many rows as their weights are worth."""
    mass, square = np.bincount(cell, weight), np.bincount(cell, squares)
    mean = np.bincount(cell, weight * score) / mass
    rows = np.maximum(np.round(mass**2 / square), 1.0)
    events = np.round(rows * np.bincount(cell, weight * y) / mass).astype(np.intp)
    each = mass / rows
    count = rows.astype(np.intp)
    law = np.clip(mean, 0.0, 1.0)
    order = np.argsort(law, kind="stable")
    happened = np.column_stack([count - events, events])[order]
    impossible = impossible or bool(((law == 0.0) & (events > 0)).any() or ((law == 1.0) & (events < count)).any())
    return ScoreLines(law[order], (each / np.average(each, weights=count))[order], happened, impossible, count[order])
