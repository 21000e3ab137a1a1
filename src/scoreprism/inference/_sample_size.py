"""The number of rows needed to detect a miscalibration of a given size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence, parse_count, parse_law, parse_number, refuse
from scoreprism._core.numerics import softmax
from scoreprism._core.simplex import ArrayLike, FloatArray, as_matrix
from scoreprism._document.result import Record
from scoreprism.decomposition import Decomposition
from scoreprism.losses import ProperLoss, get_loss


def _tilt(law: FloatArray, power: float, lift: float) -> FloatArray:
    """C ∝ S^power, the last class multiplied by e^lift: lines in log-odds."""
    logs = np.where(law > 0.0, power * np.log(np.where(law > 0.0, law, 1.0)), -np.inf)
    logs[:, -1] += lift
    return softmax(logs)


#: Ways to be miscalibrated by t ≥ 0, and the largest t.
_ALTERNATIVES: dict[str, tuple[Callable[[FloatArray, float], FloatArray], float]] = {
    "shift": (lambda law, t: _tilt(law, 1.0, t), 50.0),
    "slope": (lambda law, t: _tilt(law, 1.0 - t, 0.0), 1.0),
}


@dataclass(frozen=True, repr=False)
class SampleSize(Record):
    """
    A required number of rows, and the assumptions behind it.

    Attributes
    ----------
    n : int
        Rows with which the lower bound of the reliability exceeds 0 with probability `power`.
    reliability : float
        The miscalibration E d(S, C) to be detected.
    sd : float
        Standard deviation of the rows ℓ(S, Y) − ℓ(C, Y).
    loss : str
        The loss.
    power, confidence_level : float
        Probability of detecting it, and confidence level of the lower bound.
    n_test : int or None
        Rows that the most powerful test of calibration would need if C were known; every test, including
        `calibration_test`, needs at least as many. None with a pilot.
    assumptions : tuple of str
        What the numbers assume.

    Examples
    --------
    >>> SampleSize(400, 0.01, 0.08, "log", 0.8, 0.95, 100, ()).power_at(400) > 0.79
    True
    """

    n: int
    reliability: float
    sd: float
    loss: str
    power: float
    confidence_level: float
    n_test: int | None
    assumptions: tuple[str, ...]

    def power_at(self, n: int) -> float:
        """
        Probability that the lower bound exceeds 0 with another number of rows.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        float
            Φ(√n · reliability / sd − z_level).
        """
        rows = parse_count(n, "n", 1)
        z = NormalDist().inv_cdf(self.confidence_level)
        return NormalDist().cdf(math.sqrt(rows) * self.reliability / self.sd - z)

    def _title(self) -> str:
        return f"Rows needed to see a reliability of {self.reliability:.4g} ({self.loss} loss)"

    def _footer(self) -> list[str]:
        return [f"assumed: {text}" for text in self.assumptions]

    def __repr__(self) -> str:
        text = f"{self.n} rows show a reliability of {self.reliability:.4g} ({self.loss} loss) with probability"
        lines = [
            f"{text} {self.power:g}: lower bound above 0 at confidence {self.confidence_level:g}",
            f"  standard deviation of the loss differences: {self.sd:.4g}",
        ]
        if self.n_test is not None:
            lines.append(f"  a test of calibration needs at least {self.n_test} rows")
        return "\n".join([*lines, *(f"  assumed: {text}" for text in self.assumptions)])


def required_sample_size(
    *,
    reliability: float | None = None,
    loss: str | ProperLoss | None = None,
    power: float = 0.8,
    confidence_level: float = 0.95,
    y_proba: ArrayLike | None = None,
    base_rate: float | None = None,
    alternative: str = "shift",
    pilot: Decomposition | None = None,
) -> SampleSize:
    r"""
    Number of rows needed to detect a given miscalibration.

    Detected means that the one-sided lower bound of the mean of the rows :math:`\ell(S,Y) - \ell(C,Y)` exceeds 0,
    with C known or fitted on many more rows. Their mean is the reliability :math:`\rho`; with standard deviation
    :math:`\sigma`,

    .. math:: n = \left((z_{level} + z_{power})\, \sigma / \rho\right)^2.

    Parameters
    ----------
    reliability : float, optional
        Mean loss difference to be detected; with `pilot` the default is its estimate.
    loss : str or ProperLoss, optional
        The loss: "log", or that of the pilot.
    power : float, default=0.8
        Probability of detecting it.
    confidence_level : float, default=0.95
        Confidence level of the lower bound.
    y_proba : array-like of shape (m,) or (m, K), optional
        Typical scores. C is then the `alternative` that has this reliability, and σ is exact.
    base_rate : float, optional
        In place of `y_proba`: every score is this number.
    alternative : {"shift", "slope"}, default="shift"
        "shift": the log-odds of the last class are higher than the scores say, by the same amount in every row;
        "slope": scores are overconfident, the true log-odds are a fraction of theirs.
    pilot : Decomposition, optional
        A decomposition of a first sample with a term "reliability". Its rows give σ, scaled as √ρ.

    Returns
    -------
    SampleSize
        With ``n``, ``sd``, ``assumptions`` and ``power_at(n)``.

    Notes
    -----
    *Small miscalibration.* With δ = C − S and w the weight of the loss, ρ ≈ ½ E[w δ²] and σ² ≈ E[w² S(1−S) δ²]. For the
    log loss w = 1/(S(1−S)), so σ² ≈ 2ρ for all scores and directions, and :math:`n \approx 2(z_{level} +
    z_{power})^2/\rho`: the rule used if neither scores, base rate nor pilot are given. For the Brier loss σ² is 4ρ
    times an average of S(1−S), so at most ρ.

    *Four times a test.* Under calibration the mean of the rows is not 0 but about −ρ: a positive lower bound requires
    more than a test of calibration does. The most powerful one (Neyman–Pearson, C known) separates −ρ
    from +ρ and needs a quarter of the rows, `n_test`.

    Examples
    --------
    >>> size = required_sample_size(reliability=0.005)
    >>> size.n, size.n_test
    (2474, 619)
    >>> required_sample_size(reliability=0.001, loss="brier", y_proba=[0.1, 0.3, 0.6, 0.8], alternative="slope").n
    4266
    >>> required_sample_size(reliability=0.005, base_rate=0.05)
    2772 rows show a reliability of 0.005 (log loss) with probability 0.8: lower bound above 0 at confidence 0.95
      standard deviation of the loss differences: 0.1059
      a test of calibration needs at least 619 rows
      assumed: true log-odds are 0.4064 above those of the score given
      assumed: C known; independent rows
    """
    chance = parse_number(power, "power", "a probability between 0 and 1", lambda v: 0.0 < v < 1.0)
    confidence = parse_confidence(confidence_level)
    family = parse_choice(alternative, _ALTERNATIVES, "alternative")
    _require_one_source(y_proba, base_rate, pilot)
    normal = NormalDist()
    z = normal.inv_cdf(confidence), normal.inv_cdf(chance)
    if sum(z) <= 0.0:
        got = f"power {chance:g} at confidence {confidence:g}"
        refuse("`power` must be above 1 − `confidence_level`", got, "Raise one of them.")
    if pilot is not None:
        target, sd, name, notes = _read_pilot(pilot, reliability, loss)
        n_test = None
    else:
        target = _parse_reliability(reliability)
        chosen = get_loss("log" if loss is None else loss)
        name = str(chosen)
        law = _parse_scores(y_proba, base_rate)
        if law is None:
            sd, n_test, notes = _find_local_size(target, chosen, z)
        else:
            sd, n_test, notes = _find_size_from_scores(target, chosen, law, family, z)
    n = max(2, math.ceil((sum(z) * sd / target) ** 2 - 1e-9))
    return SampleSize(n, target, sd, name, chance, confidence, n_test, (*notes, "C known; independent rows"))


def _parse_reliability(value: object) -> float:
    return parse_number(value, "reliability", "a positive number", lambda v: v > 0.0)


def _require_one_source(*sources: object) -> None:
    passed = [name for name, value in zip(("y_proba", "base_rate", "pilot"), sources, strict=True) if value is not None]
    if len(passed) > 1:
        refuse(
            "at most one of `y_proba`, `base_rate` and `pilot` must be given",
            " and ".join(passed),
            "Leave the others out.",
        )


def _parse_scores(y_proba: ArrayLike | None, base_rate: object) -> FloatArray | None:
    """Scores as a matrix; None if there are none."""
    if base_rate is not None:
        rate = parse_number(base_rate, "base_rate", "a probability between 0 and 1", lambda v: 0.0 < v < 1.0)
        return as_matrix(np.array([rate]))
    return None if y_proba is None else as_matrix(parse_law(y_proba, "y_proba"))


def _find_local_size(
    reliability: float, loss: ProperLoss, z: tuple[float, float]
) -> tuple[float, int, tuple[str, ...]]:
    """σ² = 2ρ, which holds for small miscalibration under the log loss."""
    if loss.name != "log":
        refuse(
            f"the {loss} loss must come with scores, because its rows vary with them",
            "neither y_proba, base_rate nor pilot",
            "Pass `y_proba`, typical scores.",
        )
    sd = math.sqrt(2.0 * reliability)
    n_test = max(2, math.ceil(sum(z) ** 2 / (2.0 * reliability) - 1e-9))
    return sd, n_test, ("small miscalibration, under which σ² = 2·reliability",)


def _find_size_from_scores(
    reliability: float, loss: ProperLoss, law: FloatArray, family: str, z: tuple[float, float]
) -> tuple[float, int, tuple[str, ...]]:
    """σ of the alternative that has this reliability, and the rows of the most powerful test against it."""
    calibrated, t = _find_alternative(reliability, loss, law, family)
    sd = _find_moments(loss, law, calibrated, calibrated)[1]
    log = get_loss("log")
    (mean, spread), (null, null_spread) = (_find_moments(log, law, calibrated, under) for under in (calibrated, law))
    n_test = max(2, math.ceil(((z[0] * null_spread + z[1] * spread) / (mean - null)) ** 2 - 1e-9))
    whose = "" if law.shape[1] == 2 else " of the last class"
    what = f"true log-odds{whose} are {t:.4g} above" if family == "shift" else f"true log-odds are {1 - t:.4g} times"
    return sd, n_test, (f"{what} those of the score{'s' if law.shape[0] > 1 else ''} given",)


def _find_alternative(reliability: float, loss: ProperLoss, law: FloatArray, family: str) -> tuple[FloatArray, float]:
    """C of the family with E d(S, C) = reliability, and its parameter."""
    from scipy.optimize import brentq

    change, most = _ALTERNATIVES[family]

    def excess(t: float) -> float:
        return float(np.mean(loss.divergence(law, change(law, t)))) - reliability

    high = min(1e-3, most)
    while excess(high) < 0.0 and high < most:
        high = min(2.0 * high, most)
    if excess(high) < 0.0:
        largest = excess(high) + reliability
        refuse(
            f"`reliability` must be one that a {family} of these scores can have, at most {largest:.4g}",
            f"{reliability:.6g}",
            "Pass a smaller one, or use the other alternative.",
        )
    t = float(brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-12))
    return change(law, t), t


def _find_moments(loss: ProperLoss, law: FloatArray, calibrated: FloatArray, under: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation of ℓ(S, Y) − ℓ(C, Y) over rows and Y ~ `under`, without outcomes of probability 0."""
    first = second = 0.0
    for k in range(law.shape[1]):
        share = under[:, k]
        possible = share > 0.0
        y = np.full(int(possible.sum()), k)
        difference = loss.loss(law[possible], y) - loss.loss(calibrated[possible], y)
        first += float(share[possible] @ difference) / law.shape[0]
        second += float(share[possible] @ difference**2) / law.shape[0]
    return first, math.sqrt(max(second - first**2, 0.0))


def _read_pilot(
    pilot: Decomposition, reliability: float | None, loss: object
) -> tuple[float, float, str, tuple[str, ...]]:
    """Reliability, σ and the loss of a pilot; σ grows as the root of the reliability."""
    if not isinstance(pilot, Decomposition) or "reliability" not in pilot.names:
        got = f"the terms {', '.join(pilot.names)}" if isinstance(pilot, Decomposition) else type(pilot).__name__
        refuse("`pilot` must be a Decomposition with a term 'reliability'", got, "Use Chain.decompose.")
    if loss is not None:
        refuse("`loss` must be left out beside a pilot, which has one", repr(loss), "Decompose the pilot by that loss.")
    estimate, error = pilot.terms["reliability"], pilot.std_error["reliability"]
    if not (estimate > 0.0 and 0.0 < error < math.inf):
        refuse(
            "`pilot` must have a positive reliability with a finite standard error",
            f"{estimate:.4g} ± {error:.4g}",
            "Take more rows, or pass `y_proba`.",
        )
    target = estimate if reliability is None else _parse_reliability(reliability)
    sd = error * math.sqrt(pilot.n_units) * math.sqrt(target / estimate)
    note = f"rows vary as in the pilot, whose reliability is {estimate:.4g} ± {error:.2g} from {pilot.n_units} rows"
    return target, sd, str(pilot.loss), (note,)
