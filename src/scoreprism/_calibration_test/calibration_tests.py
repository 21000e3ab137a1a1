"""calibration_test: is the score calibrated? One function, one table of tests, one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from scoreprism._calibration_test import binary_statistics as _binary
from scoreprism._calibration_test import multiclass_statistics as _multiclass
from scoreprism._calibration_test.classical_tests import Parts, hosmer_lemeshow, spiegelhalter
from scoreprism._calibration_test.null_draws import Statistic, simulate, smallest_p, tail
from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.checks import parse_choice, parse_count, parse_random_state, refuse, require_jobs
from scoreprism._core.simplex import ArrayLike
from scoreprism._document.result import Record
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding, Noted
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample

Builder = Callable[[ScoreLines], Statistic]


@dataclass(frozen=True)
class CalibrationTest:
    """
    A row of `CALIBRATION_TESTS`: what a test looks at, and how its statistic or its p-value is made.

    Attributes
    ----------
    name : str
        Its name.
    about : str
        What the statistic is.
    reference : str
        Where p-values come from: "Monte Carlo" (exact for every n), "normal" or "chi-squared" (for large n).
    two, several : callable, dict or None
        For two classes, and for more: from scores to the statistic of a block of outcomes; or, for a combination, the
        weight of each test of which it takes the smallest p-value over weight; or, for a large-sample test, from data
        and number of groups to statistic, p-value and parts. None where the test is not defined.

    Examples
    --------
    >>> CALIBRATION_TESTS["kuiper"].reference
    'Monte Carlo'
    >>> CALIBRATION_TESTS["min-p"].two
    {'lr-platt': 1.0, 'lr-spline': 0.5, 'kuiper': 0.5, 'bins': 1.0}
    """

    name: str
    about: str
    reference: str
    two: Any = None
    several: Any = None

    def fits(self, k: int) -> bool:
        """
        Whether the test is defined for K classes.

        Parameters
        ----------
        k : int
            Number of classes.

        Returns
        -------
        bool
            True if it is.
        """
        return self._build(k) is not None

    def _build(self, k: int) -> Any:
        return self.two if k == 2 else self.several

    def _parts(self, k: int) -> dict[str, float]:
        """The tests whose draws are needed, with their weights: those of a combination, or the test itself."""
        statistic = self._build(k)
        return statistic if isinstance(statistic, dict) else {self.name: 1.0}


#: Every test of calibration by name: the one table that code, documentation and tests iterate over.
CALIBRATION_TESTS: dict[str, CalibrationTest] = {
    row[0]: CalibrationTest(*row)
    for row in (
        (
            "min-p",
            "the smallest p-value over weight of several tests, calibrated as such",
            "Monte Carlo",
            {"lr-platt": 1.0, "lr-spline": 0.5, "kuiper": 0.5, "bins": 1.0},
            dict.fromkeys(
                ("score-temperature", "score-vector", "score-polynomial", "kuiper", "bins", "top-label"), 1.0
            ),
        ),
        ("spiegelhalter", "mean Brier loss against its expectation", "normal", spiegelhalter, spiegelhalter),
        ("hosmer-lemeshow", "observed against expected events in equal groups", "chi-squared", hosmer_lemeshow),
        ("kuiper", "range of cumulative differences (ECCE-R)", "Monte Carlo", _binary.kuiper, _multiclass.kuiper),
        ("bins", "debiased deviations in bins of several sizes", "Monte Carlo", _binary.bins, _multiclass.bins),
        ("lr-platt", "likelihood ratio against Platt's map", "Monte Carlo", _binary.lr_platt),
        ("lr-spline", "likelihood ratio against a natural spline in the logit", "Monte Carlo", _binary.lr_spline),
        ("corp", "in-sample isotonic (CORP) miscalibration, log loss", "Monte Carlo", _binary.corp),
        (
            "score-temperature",
            "score statistic against temperature scaling",
            "Monte Carlo",
            None,
            _multiclass.score_temperature,
        ),
        ("score-vector", "score statistic against vector scaling", "Monte Carlo", None, _multiclass.score_vector),
        (
            "score-polynomial",
            "score statistic against quadratic maps of log-ratios",
            "Monte Carlo",
            None,
            _multiclass.score_polynomial,
        ),
        ("top-label", "bins of the largest probability", "Monte Carlo", None, _multiclass.top_label),
    )
}


@dataclass(frozen=True, repr=False)
class TestResult(Noted, Record):
    """
    The outcome of a test.

    Attributes
    ----------
    statistic : float
        The statistic; large values are evidence against the hypothesis, except for "min-p", whose statistic is the
        smallest p-value over weight of its parts, and for the two-sided z of "spiegelhalter".
    pvalue : float
        The p-value.
    method : str
        Name of the test, in `CALIBRATION_TESTS`.
    hypothesis : str
        What was tested, in words.
    n : int
        Number of rows with weight.
    n_resamples : int
        Number of Monte-Carlo draws; 0 where the p-value comes from a normal or chi-squared distribution.
    components : dict
        Statistic, p-value and weight of each part of "min-p"; degrees of freedom of "hosmer-lemeshow".
    findings : tuple of Finding
        What a reader must know about the result.
    about : str
        "Calibration" or "Grouping".

    Examples
    --------
    >>> TestResult(2.1, 0.03, "kuiper", "Y is drawn from S", 100, 999).pvalue
    0.03
    """

    __test__: ClassVar[bool] = False  # not a test to be collected by pytest

    statistic: float
    pvalue: float
    method: str
    hypothesis: str
    n: int
    n_resamples: int
    components: Parts = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    about: str = "Calibration"

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain values.

        Returns
        -------
        dict
            Ready for JSON: an infinite statistic is the string "inf".
        """
        plain: dict[str, Any] = encode(self._fields() | {"findings": [one.to_dict() for one in self.findings]})
        return plain

    def _columns(self) -> dict[str, list[Any]]:
        parts = {name: part for name, part in self.components.items() if "pvalue" in part}
        return {
            "test": [self.method, *parts],
            "statistic": [self.statistic, *(part["statistic"] for part in parts.values())],
            "pvalue": [self.pvalue, *(part["pvalue"] for part in parts.values())],
        }

    @property
    def _basis(self) -> str:
        """The rows, and where the p-value comes from."""
        how = f"{self.n_resamples} draws from the scores" if self.n_resamples else "large-sample distribution"
        return f"{self.n} rows; {how}"

    def _title(self) -> str:
        return f"{self.about} test {self.method}\nhypothesis: {self.hypothesis}; {self._basis}"

    def _findings(self) -> Sequence[Finding]:
        return self.findings

    def __repr__(self) -> str:
        lines = [
            f"{self.about} test {self.method}: p = {self.pvalue:.4g} (statistic {self.statistic:.4g})",
            f"  hypothesis: {self.hypothesis}",
            f"  {self._basis}",
        ]
        width = max((len(name) for name in self.components), default=0)
        for name, part in self.components.items():
            lines.append(f"  {name:<{width}}  " + "  ".join(f"{key} {value:.4g}" for key, value in part.items()))
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


@described()
def calibration_test(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    method: str = "min-p",
    n_resamples: int = 999,
    n_groups: int = 10,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> TestResult:
    r"""
    Test whether scores are calibrated: :math:`P(Y = k \mid S) = S_k`.

    Under the hypothesis outcomes are drawn from their scores, so drawing them again, :math:`Y^* \sim Cat(S)`, gives
    the exact null distribution of any statistic: p-values are valid for every n and K, for ties and for scores of 0 and
    1. Rows must be independent given the scores, and the scores not fitted on these outcomes.

    Parameters
    ----------
    method : str, default="min-p"
        A name in `CALIBRATION_TESTS`. The default has power against slope, shift, bends, waves and local errors alike.
    n_resamples : int, default=999
        Draws B of the Monte-Carlo null; the smallest p-value is 1/(B + 1).
    n_groups : int, default=10
        Groups of "hosmer-lemeshow".
    sample_weight : array-like of shape (n,), optional
        Weights in the statistic; outcomes are drawn row by row, regardless of weight.
    random_state : int, Generator or None, default=0
        Seed of the draws; the same for every `n_jobs`.
    n_jobs : int, optional
        Threads that evaluate draws.

    Returns
    -------
    TestResult
        With ``pvalue``, ``statistic`` and, for "min-p", those of its parts.

    Notes
    -----
    A p-value says whether miscalibration is detectable, not whether it matters. For its cost, see the reliability term
    of a decomposition and its interval; for the number of rows needed to detect it, `required_sample_size`.

    Where scores have few values, the number of events among the rows of one score and weight is drawn, so that the cost
    grows with the distinct scores, not with the rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(0.1, 0.9, 1000)
    >>> y = rng.random(1000) < truth
    >>> calibration_test(y, truth, random_state=0).pvalue > 0.05
    True
    >>> calibration_test(y, truth**2, n_resamples=199, random_state=0).pvalue
    0.005
    >>> calibration_test(y, truth, method="kuiper", random_state=0)     # doctest: +ELLIPSIS
    Calibration test kuiper: p = ...
      hypothesis: P(Y = 1 | S) = S: outcomes are drawn from the scores
      1000 rows; 999 draws from the scores
    """
    test = CALIBRATION_TESTS[parse_choice(method, CALIBRATION_TESTS, "method")]
    resamples = parse_count(n_resamples, "n_resamples", 1)
    groups = parse_count(n_groups, "n_groups", 2)
    require_jobs(n_jobs)
    rng = parse_random_state(random_state)
    data = ScoreLines.of(Sample.of(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, classes=classes))
    _require_classes(test, data.k)
    if test.reference != "Monte Carlo":
        return _make_result(test, data, *test._build(data.k)(data, groups))
    return _run_monte_carlo(test, data, resamples, rng, n_jobs)


def _run_monte_carlo(
    test: CalibrationTest, data: ScoreLines, n_resamples: int, rng: np.random.Generator, n_jobs: int | None
) -> TestResult:
    weights = test._parts(data.k)
    names = tuple(weights)
    tied = data.merge_ties()
    values = simulate(tied, [prepare_statistic(name, tied) for name in names], n_resamples, rng, n_jobs)
    if names == (test.name,):
        return _make_result(test, data, float(values[0, 0]), float(tail(values[:, 0])[0]), {}, n_resamples)
    smallest, p, parts = smallest_p(values, np.array(list(weights.values())))
    numbers = zip(names, values[0].tolist(), parts.tolist(), strict=True)
    components = {name: {"statistic": value, "pvalue": part, "weight": weights[name]} for name, value, part in numbers}
    return _make_result(test, data, smallest, p, components, n_resamples)


def compute_pvalue(data: ScoreLines, n_resamples: int, rng: np.random.Generator) -> float:
    """The p-value of the default test for scores that are parsed."""
    return _run_monte_carlo(CALIBRATION_TESTS["min-p"], data, n_resamples, rng, None).pvalue


def prepare_statistic(name: str, data: ScoreLines) -> Statistic:
    """The statistic of a Monte-Carlo test, prepared for these scores."""
    build: Builder = CALIBRATION_TESTS[name]._build(data.k)
    return build(data)


def _make_result(
    test: CalibrationTest, data: ScoreLines, statistic: float, pvalue: float, components: Parts, n_resamples: int = 0
) -> TestResult:
    event = "P(Y = 1 | S) = S" if data.k == 2 else "P(Y = k | S) = S_k for every class k"
    hypothesis = f"{event}: outcomes are drawn from the scores"
    impossible = (Finding("impossible_outcome"),) if data.impossible else ()
    return TestResult(statistic, pvalue, test.name, hypothesis, data.n, n_resamples, components, impossible)


def _require_classes(test: CalibrationTest, k: int) -> None:
    if test.fits(k):
        return
    known = ", ".join(name for name, other in CALIBRATION_TESTS.items() if other.fits(k))
    words = "two classes" if k == 2 else "more than two classes"
    refuse(
        f"`method` must be one for {words} ({known})", f"{test.name!r} beside {k} classes", "Use 'min-p', the default."
    )
