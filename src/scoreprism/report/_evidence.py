"""Whether a score is calibrated and whether features know more: exact tests where they can be had, else bounds."""

from __future__ import annotations

import math
from typing import Any

from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray
from scoreprism.decomposition import Decomposition
from scoreprism.estimation._segments import evidence
from scoreprism.exceptions import ScoreprismError
from scoreprism.inference import TestResult, calibration_test, grouping_test

#: Rows up to which a test draws 999 times, and up to which 199 times; beyond, it goes by large-sample laws.
FULL, SOME = 50_000, 200_000
_FEW_DRAWS = 199


def alpha_of(level: float) -> float:
    """The error that a confidence level leaves, without the dust of the subtraction."""
    return round(1.0 - level, 12)


def from_bound(result: Decomposition, term: str, method: str) -> TestResult:
    """The statistic behind the lower bound of a term, as a test that it is 0."""
    if term == result.names[0] and result.risk == math.inf:
        return TestResult(math.inf, 0.0, method, f"the {term} term is 0", result.n, 0, about="Calibration")
    shift, error = result._inference(term).lower_statistic()
    about = "Calibration" if term == "reliability" else "Grouping"
    z = shift / error if error > 0 else 0.0
    return TestResult(z, evidence(result, term), method, f"the {term} term is 0", result.n, 0, about=about)


def calibration_of(
    y: IntArray, law: FloatArray, given: dict[str, Any], result: Decomposition, *, clustered: bool, seed: int
) -> TestResult:
    """
    Is a score calibrated?

    Up to 50 000 rows the exact test with 999 draws, up to 200 000 with 199; beyond, the same test of cells of the
    score, or of several classes the smaller of two large-sample p-values, doubled: of the bound of the reliability
    term, and of Spiegelhalter's test. Rows that come in clusters
    are judged by the bound alone, whose errors are robust: draws of rows would take them as independent.
    """
    if clustered:
        return from_bound(result, "reliability", "cluster-robust bound")
    if y.size <= SOME:
        draws = 999 if y.size <= FULL else _FEW_DRAWS
        return calibration_test(y, law, n_resamples=draws, random_state=seed, **given)
    bound = from_bound(result, "reliability", "bound")
    classical = calibration_test(y, law, method="spiegelhalter", **given)
    parts = {test.method: {"statistic": test.statistic, "pvalue": test.pvalue} for test in (bound, classical)}
    return of_many(parts, result if result.n_classes == 2 else None, bound.n)


#: What the test of cells is called, and how often it draws outcomes.
OF_CELLS, _DRAWS_OF_CELLS = "min-p of cells", 399


def of_many(parts: dict[str, dict[str, float]], result: Decomposition | None, n: int) -> TestResult:
    """
    The test that sentences go by, of rows that are too many to draw the outcome of each.

    Where the scores are in cells, it draws outcomes for cells, and sees what the test of few rows sees. Beyond the
    smallest p-value that its draws can give, large-sample laws go on.
    """
    words = "P(Y | S) = S: outcomes are drawn from the scores"
    known = [part["pvalue"] for part in parts.values() if not math.isnan(part["pvalue"])]
    smallest = min(known, default=math.nan)
    adjusted = min(len(known) * smallest, 1.0) if known else smallest
    cells = None if result is None else result.calibration_pvalue
    if cells is None or math.isnan(cells):
        return TestResult(smallest, adjusted, "bound or spiegelhalter", words, n, 0, parts)
    parts = parts | {OF_CELLS: {"statistic": math.nan, "pvalue": cells}}
    if cells <= 1.0 / (_DRAWS_OF_CELLS + 1.0) and adjusted < cells:
        cells = adjusted
    return TestResult(cells, cells, OF_CELLS, words, n, _DRAWS_OF_CELLS, parts)


def grouping_of(
    y: IntArray,
    law: FloatArray,
    X: ArrayLike | None,
    given: dict[str, Any],
    result: Decomposition,
    *,
    clustered: bool,
    seed: int,
) -> tuple[TestResult | None, str]:
    """Do the features know more than the score?"""
    if X is None:
        return None, ""
    if clustered or y.size > FULL:
        return from_bound(result, result.names[1], "cluster-robust bound" if clustered else "bound"), ""
    try:
        return grouping_test(y, law, X, random_state=seed, **given), ""
    except ScoreprismError as error:
        return None, f"What the features add was not tested: {error}"
