"""Every number and every statement that the paper prints and that can be checked, with its place.

These are the only constants in this package that were not computed. Places carry the labels of the paper's source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

#: Methods of the German credit study, in the order of the paper's tables.
METHODS = ("average", "glm", "forest", "stacking")


@dataclass(frozen=True)
class Printed:
    """
    A number of the paper.

    Attributes
    ----------
    key : str
        Its name in `PRINTED`.
    place : str
        Where the paper has it.
    what : str
        What it is.
    value : float
        The number.
    decimals : int
        Decimals that are printed.
    sd : float or None
        Standard deviation over runs, printed or that of a share; None for numbers without sampling error.
    runs : int
        Over how many runs.
    bound : bool
        Whether the paper says that the number is below this one.

    Examples
    --------
    >>> PRINTED["robustness/log/raw/average"].value, round(PRINTED["robustness/log/raw/average"].std_error, 5)
    (0.496, 0.0031)
    """

    key: str
    place: str
    what: str
    value: float
    decimals: int
    sd: float | None = None
    runs: int = 1
    bound: bool = False

    @property
    def std_error(self) -> float:
        """Standard error of a mean over runs."""
        return 0.0 if self.sd is None else self.sd / sqrt(self.runs)

    @property
    def half_unit(self) -> float:
        """Half a unit of the last decimal: what rounding may hide."""
        return 0.5 * 10.0**-self.decimals


@dataclass(frozen=True)
class Claim:
    """
    A statement of the paper, in our words.

    Attributes
    ----------
    key : str
        Its name in `CLAIMS`.
    place : str
        Where the paper has it.
    what : str
        What it says.

    Examples
    --------
    >>> CLAIMS["grouping-unchanged"].place
    'section 6.1'
    """

    key: str
    place: str
    what: str


_WORDS = {
    "raw": "raw",
    "recalibrated": "recalibrated",
    "reliability_plugin": "reliability",
    "lcs": "LCS",
    "gain": "gain of recalibration",
}
#: Losses of the paper in words.
LOSSES = {"log": "log loss", "brier": "Brier"}

#: tab:robustness: mean and sd over 100 splits, by loss and column, in the order of METHODS.
_ROBUSTNESS = {
    ("log", "raw"): ((0.496, 0.031), (0.565, 0.084), (0.501, 0.027), (0.504, 0.037)),
    ("log", "recalibrated"): ((0.601, 0.093), (0.640, 0.124), (0.549, 0.071), (0.589, 0.085)),
    ("log", "reliability_plugin"): ((0.028, 0.014), (0.033, 0.026), (0.040, 0.014), (0.021, 0.008)),
    ("brier", "raw"): ((0.165, 0.013), (0.176, 0.016), (0.166, 0.012), (0.167, 0.015)),
    ("brier", "recalibrated"): ((0.171, 0.012), (0.177, 0.014), (0.168, 0.015), (0.171, 0.015)),
    ("brier", "reliability_plugin"): ((0.007, 0.003), (0.008, 0.004), (0.012, 0.005), (0.004, 0.002)),
}
#: tab:germancredit-tests: mean and sd of the difference from the average, share of wins, Holm's p (1e-4: below it).
_TESTS = {
    ("recalibrated", "glm"): (0.0281, 0.1091, 0.34, 0.996),
    ("recalibrated", "forest"): (-0.0184, 0.0963, 0.60, 0.056),
    ("recalibrated", "stacking"): (0.0020, 0.0753, 0.55, 0.949),
    ("reliability_plugin", "glm"): (0.0141, 0.0388, 0.39, 1.0),
    ("reliability_plugin", "forest"): (0.0134, 0.0140, 0.15, 1.0),
    ("reliability_plugin", "stacking"): (-0.0055, 0.0109, 0.64, 1e-4),
}
#: tab:germancredit-gains: Brier raw, recalibrated, gain; log loss raw, recalibrated, gain; LCS.
_GAINS = {
    "glm": (0.19, 0.18, 0.01, 0.73, 0.55, 0.19, 0.012),
    "forest": (0.17, 0.17, -0.00, 0.52, 0.63, -0.11, 0.014),
    "average": (0.17, 0.18, -0.01, 0.52, 0.75, -0.24, 0.013),
    "stacking": (0.17, 0.18, -0.00, 0.52, 0.63, -0.11, 0.006),
}
_GAIN_COLUMNS = (*((loss, column) for loss in ("brier", "log") for column in ("raw", "recalibrated", "gain")),
                 ("brier", "lcs"))  # fmt: skip


def _numbers() -> Iterator[Printed]:
    example = "Example 2.4 (ex:calibrated-yet-grouping)"
    yield Printed("calibrated-yet-grouping/brier", example, "grouping of the constant score, Brier", 0.16, 2)
    yield Printed("calibrated-yet-grouping/reliability", example, "reliability of the constant score", 0.0, 2)
    example = "Example 5.2 (ex:avg-breaks-calibration)"
    yield Printed("avg-breaks-calibration/mass", example, "P(average = 0.25)", 0.25, 2)
    yield Printed("avg-breaks-calibration/calibrated", example, "P(Y=1 | average = 0.25)", 0.0, 2)
    for (loss, column), cells in _ROBUSTNESS.items():
        for method, (value, sd) in zip(METHODS, cells, strict=True):
            what = f"{LOSSES[loss]}, {_WORDS[column]}, {method}"
            key = f"robustness/{loss}/{column}/{method}"
            place = "appendix D (tab:robustness)"
            yield Printed(key, place, what, value, 3, sd, 100)
            yield Printed(f"spread/{key}", place, f"{what}, sd", sd, 3)
    for (column, method), (value, sd, wins, p) in _TESTS.items():
        name = "recalibrated log loss" if column == "recalibrated" else "reliability (log)"
        key, place = f"tests/{column}/{method}", "appendix D (tab:germancredit-tests)"
        yield Printed(f"{key}/mean", place, f"Δ {name}, {method} − average", value, 4, sd, 100)
        yield Printed(f"spread/{key}", place, f"Δ {name}, {method} − average, sd", sd, 4)
        yield Printed(f"{key}/wins", place, f"splits won, {name}, {method}", wins, 2, sqrt(wins * (1 - wins)), 100)
        yield Printed(f"{key}/p", place, f"Holm's p, {name}, {method}", p, 4 if p < 0.001 else 3, bound=p < 0.001)
    for method, line in _GAINS.items():
        for (loss, column), number in zip(_GAIN_COLUMNS, line, strict=True):
            what = f"{'' if column == 'lcs' else LOSSES[loss] + ', '}{_WORDS[column]}, {method}"
            place = "section 6.2 (tab:germancredit-gains)"
            yield Printed(f"gains/{loss}/{column}/{method}", place, what, number, 3 if column == "lcs" else 2)


#: Every number of the paper that can be checked.
PRINTED: dict[str, Printed] = {printed.key: printed for printed in _numbers()}

#: Every statement of the paper about its experiments that can be checked.
CLAIMS: dict[str, Claim] = {
    claim.key: claim
    for claim in (
        Claim("members-calibrated", "section 6.1 (fig:averaging)",
              "At ρ = 0 both logistic models of one feature are nearly calibrated"),
        Claim("average-worse", "section 6.1 (fig:averaging)",
              "At ρ = 0 the average of two nearly calibrated models is far less calibrated than both"),
        Claim("average-worse-every-rho", "section 6.1 (fig:averaging)",
              "The average of the two models is less calibrated than both as ρ varies, here from −0.9 to 0.9"),
        Claim("reliability-removed", "section 6.1 (fig:brier-reducible)",
              "Recalibration brings reliability close to zero, for all three scores"),
        Claim("reliability-eliminated", "section 6.1 (caption of fig:brier-reducible)",
              "Recalibration eliminates reliability"),
        Claim("grouping-unchanged", "section 6.1",
              "Recalibration leaves grouping as it was"),
        Claim("richer-score", "section 6.1 (fig:brier-reducible)",
              "A score of both features has far less grouping than a score of one"),
        Claim("quantising", "section 6.1 (fig:brier-reducible)",
              "Quantising a score increases its grouping"),
        Claim("glm-improves", "section 6.2 (fig:germancredit:reliability)",
              "In the split shown, recalibration substantially improves the logistic regression's calibration curve"),
        Claim("losses-degrade", "section 6.2",
              "Monotone recalibration on 200 rows may make proper losses worse on the test rows"),
        Claim("stacking-reliable", "appendix D (tab:germancredit-tests)",
              "Stacking is significantly more reliable than averaging"),
        Claim("no-loss-difference", "appendix D (tab:germancredit-tests)",
              "Differences from averaging in recalibrated log loss are not significant"),
        Claim("other-maps", "appendix D (app:D:synthetic)",
              "Platt scaling and monotone splines lead to the same conclusions as isotonic regression"),
        Claim("in-sample-optimistic", "appendix C",
              "Reliability judged on the rows that the calibrator was fitted to can be biased downward"),
        Claim("end-to-end-wider", "appendix C",
              "Refitting model and calibrator typically gives wider intervals than refitting the calibrator alone"),
        Claim("parametric-errors", "appendix C",
              "For smooth parametric maps, asymptotic normality gives standard errors of summaries"),
        Claim("maps-monotone", "appendix E.3 (app:C2:monotone)",
              "The constrained spline is nondecreasing; the unconstrained one need not be"),
        Claim("large-penalty", "appendix E.3 (app:C2:monotone)",
              "As the penalty grows, the monotone spline approaches a straight line"),
    )
}  # fmt: skip
