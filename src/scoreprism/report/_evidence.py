"""Whether a score is calibrated and whether features know more: exact tests where they can be had, else bounds."""

from __future__ import annotations

import math

from scoreprism._findings.finding import Finding
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Decomposition
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
    inference = result._inference(term)
    shift, error = inference.lower_statistic()
    about = "Calibration" if term == "reliability" else "Grouping"
    z = shift / error if error > 0 else 0.0
    return TestResult(z, inference.pvalue(), method, f"the {term} term is 0", result.n, 0, about=about)


def calibration_of(sample: Sample, result: Decomposition, seed: int) -> TestResult:
    """Is a score calibrated? An exact test of few rows, one of cells for many, a robust bound for clusters."""
    if sample.groups is not None:  # draws of rows would take them as independent
        return from_bound(result, "reliability", "cluster-robust bound")
    if sample.n <= SOME:
        return calibration_test(sample, n_resamples=999 if sample.n <= FULL else _FEW_DRAWS, random_state=seed)
    bound = from_bound(result, "reliability", "bound")
    classical = calibration_test(sample, method="spiegelhalter")
    parts = {test.method: {"statistic": test.statistic, "pvalue": test.pvalue} for test in (bound, classical)}
    return of_many(parts, result if result.n_classes == 2 else None, bound.n)


#: What the test of cells is called, and how often it draws outcomes.
OF_CELLS, _DRAWS_OF_CELLS = "min-p of cells", 399


def of_many(parts: dict[str, dict[str, float]], result: Decomposition | None, n: int) -> TestResult:
    """The test of rows that are too many to draw the outcome of each: of cells, or several bounds, adjusted."""
    words = "P(Y | S) = S: outcomes are drawn from the scores"
    known = [part["pvalue"] for part in parts.values() if not math.isnan(part["pvalue"])]
    smallest = min(known, default=math.nan)
    adjusted = min(len(known) * smallest, 1.0) if known else smallest
    cells = None if result is None else result.calibration_pvalue
    if cells is None or math.isnan(cells):
        return TestResult(smallest, adjusted, "bound or spiegelhalter", words, n, 0, parts)
    parts = parts | {OF_CELLS: {"statistic": math.nan, "pvalue": cells}}
    if cells <= 1.0 / (_DRAWS_OF_CELLS + 1.0) and adjusted < cells:  # no draw can say less; large-sample laws go on
        cells = adjusted
    return TestResult(cells, cells, OF_CELLS, words, n, _DRAWS_OF_CELLS, parts)


def grouping_of(sample: Sample, result: Decomposition, seed: int) -> tuple[TestResult | None, Finding | None]:
    """Do the features of a sample know more than its score? And where that cannot be tested, why."""
    clustered = sample.groups is not None
    if clustered or sample.n > FULL:
        return from_bound(result, result.names[1], "cluster-robust bound" if clustered else "bound"), None
    try:
        return grouping_test(sample, random_state=seed), None
    except ScoreprismError as error:
        return None, Finding("unavailable", subject="The test of what the features add", facts={"reason": str(error)})
