"""German credit, methods against the average: the paper's paired tests, its two tables compared, other maps."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from reproduction.checks import Check, beside, decided, scientific
from reproduction.members import german_frame, german_main, over_splits
from reproduction.printed import METHODS, PRINTED
from reproduction.work import Work
from scoreprism.exceptions import DoubleUseWarning
from scoreprism.pipelines import PairedComparison, PairedLine, paired_comparison
from scoreprism.report import Table
from scoreprism.report._model import Cell
from scoreprism.report._pieces import enumerated, pvalue, table

#: What is compared: columns of the frame, in words.
METRICS = {"recalibrated": "recalibrated log loss", "reliability_plugin": "reliability (log)"}
#: A mean loss that moves by less than this is as it was.
_UNCHANGED = 5e-5
#: A reliability below this in every split is 0 but for rounding.
_EMPTY = 1e-5
#: Methods that are compared with the average.
OTHERS = tuple(method for method in METHODS if method != "average")


def compared(frame: Any, metric: str, alternative: str = "less") -> PairedComparison:
    """
    Methods against the average under log loss, without a warning: the page says what it would say.

    Parameters
    ----------
    frame : frame
        From `german_frame`.
    metric : str
        Its column.
    alternative : str, default="less"
        What the tests look for.

    Returns
    -------
    PairedComparison
        Of three methods.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubleUseWarning)
        return paired_comparison(frame, "average", metric, loss="log", alternative=alternative)


def line_of(found: PairedComparison, method: str) -> PairedLine:
    """
    The line of a method.

    Parameters
    ----------
    found : PairedComparison
        Under log loss.
    method : str
        Which.

    Returns
    -------
    PairedLine
        Its numbers.
    """
    return found[f"{method}, log"]


def tests(work: Work) -> list[Check]:
    """
    All numbers of tab:germancredit-tests.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    list of Check
        Mean, share of wins and p-value of each method and metric.
    """
    checks: list[Check] = []
    for metric in METRICS:
        found = compared(german_main(work), metric)
        for method in OTHERS:
            key, line = f"tests/{metric}/{method}", line_of(found, method)
            share = np.sqrt(line.win_rate * (1 - line.win_rate) / line.n_splits)
            checks.append(beside(f"{key}/mean", line.mean, line.sd / np.sqrt(line.n_splits)))
            checks.append(beside(f"{key}/wins", line.win_rate, float(share)))
            checks.append(decided(f"{key}/p", line.wilcoxon_p_holm, _fewer(line)))
    return checks


def _fewer(line: PairedLine) -> str:
    printed = PRINTED["tests/recalibrated/glm/mean"].runs
    return f"From {line.n_splits} of the paper's {printed} splits." if line.n_splits < printed else ""


def tests_note(work: Work) -> str:
    """
    How p-values are judged, and what a test says that allows for shared rows.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    str
        The smallest p-value of that test, and whose it is.
    """
    lines = [(line.t_p_holm, words, line.method) for metric, words in METRICS.items()
             for line in compared(german_main(work), metric).lines]  # fmt: skip
    least, words, method = min(lines)
    return (
        "Δ = method − average; tests look for methods that are better. p-values are judged by the side of 0.05 on "
        "which they lie. Wilcoxon's test takes splits for independent; they share rows, for which the "
        f"corrected t-test (Nadeau & Bengio 2003) allows: its smallest Holm {pvalue(least)} ({words}, {method})."
    )


# ── two tables of the paper ─────────────────────────────────────────────────────────────────────────


class Pair(NamedTuple):
    """
    The same difference in two tables of the paper.

    Attributes
    ----------
    metric, method : str
        Of what.
    of_means, mean : float
        Difference of means in tab:robustness; mean of differences in tab:germancredit-tests.
    rounding : float
        How far apart rounding may bring them.
    ours : PairedLine
        What we find.

    Examples
    --------
    >>> Pair("recalibrated", "glm", 0.04, 0.03, 0.001, None).apart
    0.01
    """

    metric: str
    method: str
    of_means: float
    mean: float
    rounding: float
    ours: PairedLine

    @property
    def apart(self) -> float:
        """How far they are from each other."""
        return round(abs(self.of_means - self.mean), 10)

    @property
    def allowed(self) -> float:
        """Three standard errors of the difference of two means of such splits, the paper's and ours."""
        paper = PRINTED[f"tests/{self.metric}/{self.method}/mean"].std_error
        return 3.0 * float(np.hypot(paper, self.ours.sd / np.sqrt(self.ours.n_splits)))


def pairs(work: Work) -> list[Pair]:
    """
    Every difference that two tables of the paper give.

    Parameters
    ----------
    work : Work
        Where ours are computed.

    Returns
    -------
    list of Pair
        By metric and method.
    """
    made = []
    for metric in METRICS:
        found = compared(german_main(work), metric)
        for method in OTHERS:
            one, base = (PRINTED[f"robustness/log/{metric}/{name}"] for name in (method, "average"))
            direct = PRINTED[f"tests/{metric}/{method}/mean"]
            rounding = one.half_unit + base.half_unit + direct.half_unit
            made.append(Pair(metric, method, one.value - base.value, direct.value, rounding, line_of(found, method)))
    return made


def consistency(work: Work) -> tuple[Table, str]:
    """
    The paper's two tables against each other, and which of them ours agree with.

    Parameters
    ----------
    work : Work
        Where ours are computed.

    Returns
    -------
    tuple of Table and str
        And what it means.
    """
    found = pairs(work)
    heads = [("metric", "Δ of", "text"), ("method", "method", "text"), ("means", "tab:robustness", "signed"),
             ("mean", "tab:germancredit-tests", "signed"), ("apart", "apart", "short"),
             ("rounding", "rounding allows", "short"), ("ours", "ours", "signed")]  # fmt: skip
    rows: list[list[Cell]] = [
        [METRICS[p.metric], p.method, _printed(p.of_means, 3), _printed(p.mean, 4), p.apart, p.rounding, p.ours.mean]
        for p in found
    ]
    title = "The same differences in two tables of the paper"
    return table("german-two-tables", title, heads, rows), _contradiction(found)


def _printed(value: float, decimals: int) -> str:
    return f"{value:+.{decimals}f}".replace("-", "−")


def _contradiction(found: list[Pair]) -> str:
    far = sum(p.apart > p.rounding for p in found)
    direct = sum(abs(p.ours.mean - p.mean) <= p.allowed for p in found)
    means = sum(abs(p.ours.mean - p.of_means) <= p.allowed for p in found)
    nearer = sum(abs(p.ours.mean - p.mean) < abs(p.ours.mean - p.of_means) for p in found)
    start = (
        f"Over the same splits the mean of paired differences is the difference of means. In the paper they are "
        f"further apart than rounding allows in {far} of {len(found)} cases"
    )
    verdict = ", so that its two tables cannot come from the same splits." if far else "."
    return (
        f"{start}{verdict} Our differences are within three standard errors of the paired table in {direct} cases and "
        f"of tab:robustness in {means}; they are nearer to the paired table in {nearer}."
    )


# ── other maps ──────────────────────────────────────────────────────────────────────────────────────


class Conclusions(NamedTuple):
    """
    What is concluded with one calibrator.

    Attributes
    ----------
    name : str
        In `MAPS`.
    stacking : PairedLine
        Its reliability against the average's.
    best : PairedLine
        The method whose recalibrated log loss has the smallest p-value.
    cost : float
        What recalibration adds to the average's log loss.
    worse, losses : int
        How many mean losses recalibration makes worse, and of how many.
    stack_off : float
        The largest plug-in reliability of the stack in any split.

    Examples
    --------
    >>> Conclusions("platt", None, None, 0.1, 3, 8, 0.0).cost
    0.1
    """

    name: str
    stacking: PairedLine
    best: PairedLine
    cost: float
    worse: int
    losses: int
    stack_off: float

    @property
    def words(self) -> dict[str, bool]:
        """What the paper concludes, and whether it is so here."""
        return {
            "stacking is significantly more reliable": self.stacking.mean < 0 and self.stacking.wilcoxon_p_holm < 0.05,
            "no method is significantly better in recalibrated log loss": self.best.wilcoxon_p_holm >= 0.05,
            "recalibration makes some mean loss worse": self.worse > 0,
        }


def conclusions(work: Work, name: str) -> Conclusions:
    """
    The paper's conclusions with a calibrator.

    Parameters
    ----------
    work : Work
        Where it is computed.
    name : str
        In `MAPS`.

    Returns
    -------
    Conclusions
        The numbers behind them.
    """
    frame = german_main(work) if name == "isotonic" else german_frame(work, calibrator=name)
    best = min(compared(frame, "recalibrated").lines, key=lambda line: (line.wilcoxon_p_holm, line.mean))
    cost = -float(over_splits(frame, "log", "average", "gain").mean())
    gains = [float(over_splits(frame, loss, m, "gain").mean()) for loss in ("log", "brier") for m in METHODS]
    worse = sum(gain < -_UNCHANGED for gain in gains)
    off = float(over_splits(frame, "log", "stacking", "reliability_plugin").max())
    stacking = line_of(compared(frame, "reliability_plugin"), "stacking")
    return Conclusions(name, stacking, best, cost, worse, len(gains), off)


def maps_table(found: list[Conclusions]) -> Table:
    """
    The paper's conclusions with several calibrators.

    Parameters
    ----------
    found : list of Conclusions
        One for each.

    Returns
    -------
    Table
        One row for each.
    """
    heads = [("map", "calibrator", "text"), ("delta", "Δ reliability of stacking", "signed"), ("wins", "wins", "share"),
             ("p", "its Holm p", "pvalue"), ("best", "best in recalibrated log loss", "text"),
             ("best_p", "its Holm p", "pvalue"), ("cost", "recalibrated − raw, average", "signed"),
             ("worse", "mean losses made worse", "text")]  # fmt: skip
    rows: list[list[Cell]] = [
        [one.name, one.stacking.mean, one.stacking.win_rate, one.stacking.wilcoxon_p_holm,
         f"{one.best.method} ({one.best.mean:+.4f})".replace("-", "−"), one.best.wilcoxon_p_holm, one.cost,
         f"{one.worse} of {one.losses}"]
        for one in found
    ]  # fmt: skip
    title = "The same conclusions with other calibrators (log loss)"
    return table("german-other-maps", title, heads, rows, _identity(found))


def _identity(found: list[Conclusions]) -> str:
    """A logistic map of a logistic stack, both of the same rows, changes nothing: its reliability says nothing."""
    empty = [one for one in found if one.stack_off < _EMPTY]
    if not empty:
        return ""
    names = enumerated([one.name for one in empty])
    return (
        f"With {names} the plug-in reliability of the stack is 0 by construction (below {scientific(_EMPTY)} in every "
        "split): the stack is itself a logistic regression, fitted to the same rows."
    )
