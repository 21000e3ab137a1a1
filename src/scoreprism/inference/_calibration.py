"""calibration_test: is the score calibrated? One function, one table of tests, one result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from scoreprism._validation import parse_choice, parse_count, parse_random_state, refuse
from scoreprism.inference import _binary, _multiclass
from scoreprism.inference._classical import hosmer_lemeshow, spiegelhalter
from scoreprism.inference._null import Statistic, simulate, smallest_p, tail
from scoreprism.inference._scored import Scored, parse_scored
from scoreprism.simplex import ArrayLike

Builder = Callable[[Scored], Statistic]


@dataclass(frozen=True)
class CalibrationTest:
    """
    A row of `CALIBRATION_TESTS`: what a test looks at, and how its statistic is made.

    Attributes
    ----------
    name : str
        Its name.
    about : str
        What the statistic is.
    reference : str
        Where p-values come from: "Monte Carlo" (exact for every n), "normal" or "chi-squared" (for large n).
    binary, multiclass : callable or None
        From scores to the statistic of a block of outcomes; None where there is none.
    parts_binary, parts_multiclass : tuple of str
        The tests that a combination takes the smallest p-value of.

    Examples
    --------
    >>> CALIBRATION_TESTS["kuiper"].reference
    'Monte Carlo'
    """

    name: str
    about: str
    reference: str = "Monte Carlo"
    binary: Builder | None = None
    multiclass: Builder | None = None
    parts_binary: tuple[str, ...] = ()
    parts_multiclass: tuple[str, ...] = ()

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
        if self.name in ("min-p", "spiegelhalter"):
            return True
        return k == 2 if self.name == "hosmer-lemeshow" else (self.binary if k == 2 else self.multiclass) is not None


#: Every test of calibration by name: the one table that code, documentation and tests iterate over.
CALIBRATION_TESTS: dict[str, CalibrationTest] = {
    test.name: test
    for test in (
        CalibrationTest(
            "min-p",
            "the smallest p-value of several tests, calibrated as such",
            parts_binary=("lr-platt", "lr-spline", "kuiper", "bins"),
            parts_multiclass=("score-vector", "score-polynomial", "kuiper", "bins", "top-label"),
        ),
        CalibrationTest("spiegelhalter", "mean Brier loss against its expectation under the scores", "normal"),
        CalibrationTest("hosmer-lemeshow", "observed against expected events in equal groups", "chi-squared"),
        CalibrationTest(
            "kuiper", "range of cumulative differences (ECCE-R)", binary=_binary.kuiper, multiclass=_multiclass.kuiper
        ),
        CalibrationTest(
            "bins", "debiased deviations in bins of several sizes", binary=_binary.bins, multiclass=_multiclass.bins
        ),
        CalibrationTest("lr-platt", "likelihood ratio of the identity in Platt's map", binary=_binary.lr_platt),
        CalibrationTest(
            "lr-spline", "likelihood ratio of the identity in a natural spline of the logit", binary=_binary.lr_spline
        ),
        CalibrationTest("corp", "in-sample isotonic (CORP) miscalibration, log loss", binary=_binary.corp),
        CalibrationTest(
            "score-vector", "score statistic of the identity in vector scaling", multiclass=_multiclass.score_vector
        ),
        CalibrationTest(
            "score-polynomial",
            "score statistic of the identity in quadratic maps of log-ratios",
            multiclass=_multiclass.score_polynomial,
        ),
        CalibrationTest(
            "top-label", "debiased deviations in bins of the largest probability", multiclass=_multiclass.top_label
        ),
    )
}


@dataclass(frozen=True, repr=False)
class TestResult:
    """
    The outcome of a test.

    Attributes
    ----------
    statistic : float
        The statistic; large values speak against the hypothesis, except for "min-p", whose statistic is the smallest
        p-value of its parts, and for the two-sided z of "spiegelhalter".
    pvalue : float
        The p-value.
    method : str
        Name of the test, in `CALIBRATION_TESTS`.
    hypothesis : str
        What was tested, in words.
    n : int
        Number of rows with weight.
    n_resamples : int
        Number of Monte-Carlo draws; 0 where the p-value comes from a normal or chi-squared law.
    components : dict
        Statistic and p-value of each part of "min-p"; degrees of freedom of "hosmer-lemeshow".
    notes : tuple of str
        What a reader must know.

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
    components: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain values.

        Returns
        -------
        dict
            Ready for JSON, except for infinite statistics.
        """
        return {
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "method": self.method,
            "hypothesis": self.hypothesis,
            "n": self.n,
            "n_resamples": self.n_resamples,
            "components": {name: dict(part) for name, part in self.components.items()},
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        how = f"{self.n_resamples} draws from the scores" if self.n_resamples else "large-sample law"
        lines = [
            f"Calibration test {self.method}: p = {self.pvalue:.4g} (statistic {self.statistic:.4g})",
            f"  hypothesis: {self.hypothesis}",
            f"  {self.n} rows; {how}",
        ]
        width = max((len(name) for name in self.components), default=0)
        for name, part in self.components.items():
            lines.append(f"  {name:<{width}}  " + "  ".join(f"{key} {value:.4g}" for key, value in part.items()))
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def calibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    method: str = "min-p",
    n_resamples: int = 999,
    n_groups: int = 10,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> TestResult:
    r"""
    Test whether scores are calibrated: :math:`P(Y = k \mid S) = S_k`.

    Under the hypothesis outcomes are drawn from their scores, so drawing them again, :math:`Y^* \sim Cat(S)`, gives
    the exact null law of any statistic: p-values are valid for every n and K, for ties and for scores of 0 and 1.
    Rows must be independent given the scores, and the scores not fitted on these outcomes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    method : str, default="min-p"
        A name in `CALIBRATION_TESTS`. The default has power against slope, shift, bends, waves and local errors alike.
    n_resamples : int, default=999
        Draws B of the Monte-Carlo null; the smallest p-value is 1/(B + 1).
    n_groups : int, default=10
        Groups of "hosmer-lemeshow".
    sample_weight : array-like of shape (n,), optional
        Weights in the statistic; outcomes are drawn by row, whatever its weight.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    random_state : int, Generator or None
        Seed of the draws; the same for every `n_jobs`.
    n_jobs : int, optional
        Threads that evaluate draws.

    Returns
    -------
    TestResult
        With ``pvalue``, ``statistic`` and, for "min-p", those of its parts.

    Notes
    -----
    A p-value says whether miscalibration can be seen, not whether it matters: for how much loss it costs, see the
    reliability term of a decomposition and its interval; for how many rows it takes to see it, `required_sample_size`.

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
    threads = _parse_jobs(n_jobs)
    rng = parse_random_state(random_state)
    data = parse_scored(y_true, y_proba, sample_weight, pos_label, classes)
    _require_classes(test, data.k)
    if test.name == "spiegelhalter":
        return _result(test, data, *spiegelhalter(data))
    if test.name == "hosmer-lemeshow":
        value, p, df = hosmer_lemeshow(data, groups)
        return _result(test, data, value, p, components={"groups": {"df": float(df)}})
    return _monte_carlo(test, data, resamples, rng, threads)


def _monte_carlo(
    test: CalibrationTest, data: Scored, n_resamples: int, rng: np.random.Generator, n_jobs: int | None
) -> TestResult:
    names = (test.parts_binary if data.k == 2 else test.parts_multiclass) or (test.name,)
    values = simulate(data, [_statistic(name, data) for name in names], n_resamples, rng, n_jobs)
    if names == (test.name,):
        return _result(test, data, float(values[0, 0]), float(tail(values[:, 0])[0]), n_resamples)
    smallest, p, parts = smallest_p(values)
    numbers = zip(names, values[0].tolist(), parts.tolist(), strict=True)
    components = {name: {"statistic": value, "pvalue": part} for name, value, part in numbers}
    return _result(test, data, smallest, p, n_resamples, components)


def _statistic(name: str, data: Scored) -> Statistic:
    test = CALIBRATION_TESTS[name]
    build = test.binary if data.k == 2 else test.multiclass
    assert build is not None  # noqa: S101  # _require_classes has looked
    return build(data)


def _result(
    test: CalibrationTest,
    data: Scored,
    statistic: float,
    pvalue: float,
    n_resamples: int = 0,
    components: dict[str, dict[str, float]] | None = None,
) -> TestResult:
    event = "P(Y = 1 | S) = S" if data.k == 2 else "P(Y = k | S) = S_k for every class k"
    notes = ["an outcome of probability 0 was observed, which alone refutes the hypothesis"] if data.impossible else []
    return TestResult(
        statistic,
        pvalue,
        test.name,
        f"{event}: outcomes are drawn from the scores",
        data.n,
        n_resamples,
        components or {},
        tuple(notes),
    )


def _require_classes(test: CalibrationTest, k: int) -> None:
    if test.fits(k):
        return
    known = ", ".join(name for name, other in CALIBRATION_TESTS.items() if other.fits(k))
    words = "two classes" if k == 2 else "more than two classes"
    refuse(
        f"method must be one for {words} ({known})", f"{test.name!r} beside {k} classes", "Use 'min-p', the default."
    )


def _parse_jobs(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value == 0:
        refuse("n_jobs must be None or a whole number that is not 0", repr(value), "Use 1, or -1 for all processors.")
    return int(value)
