"""Our number beside the paper's: how far apart chance may bring them, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, sqrt
from typing import Any

import numpy as np

from reproduction.pieces import minus, table
from reproduction.statements import STATEMENTS, Statement
from scoreprism.report import Table

#: What a verdict means.
VERDICTS = {
    "reproduced": "the same to every printed digit; of a statement, that it holds",
    "within noise": "differs by no more than chance explains: three standard errors of the difference, and half a unit "
    "of the last printed digit; of a p-value, that it lies on the same side of 0.05; of a single split, that it lies "
    "among ours",
    "not reproduced": "differs by more; of a statement, that it does not hold",
}
MARKS = {"reproduced": "✓ reproduced", "within noise": "≈ within noise", "not reproduced": "✗ not reproduced"}
#: Standard errors of the difference that count as chance.
_SIGMAS = 3.0
#: Of the tests whose p-values are compared.
_LEVEL = 0.05
#: An identity holds if it is off by less than this: rounding, and nothing else.
EXACT = 1e-12


@dataclass(frozen=True)
class Check:
    """A number or a statement of the paper, and what became of it; statements have no numbers of their own."""

    key: str
    place: str
    what: str
    paper: float | None
    ours: float | None
    tolerance: float | None
    verdict: str
    why: str
    decimals: int


#: Our number, the tolerance, the verdict, and what there is to say.
Judgement = tuple[float | None, float | None, str, str]


def judge(key: str, found: Any, why: str = "", **facts: Any) -> Check:
    """
    Set what we found beside what the paper has under this name, by the rule that the table names.

    `found` is a number, an array of one number for each split, or whether a statement holds, with the facts that its
    evidence is made of.
    """
    one = STATEMENTS[key]
    ours, tolerance, verdict, told = RULES[one.rule](one, found)
    told = minus(one.evidence.format(**facts)) if one.evidence else told
    return Check(key, one.place, one.what, one.value, ours, tolerance, verdict, why or told, one.decimals)


def _is_printed(one: Statement, ours: float) -> bool:
    return abs(ours - one.value) <= one.half_unit * (1 + 1e-9)


def _compare(one: Statement, ours: float, *std_errors: float) -> Judgement:
    """Compare up to three standard errors of the difference, and rounding; NaN is near nothing."""
    tolerance = _SIGMAS * hypot(*std_errors) + one.half_unit
    near = "within noise" if abs(ours - one.value) <= tolerance else "not reproduced"
    return float(ours), tolerance, "reproduced" if _is_printed(one, ours) else near, ""


def _judge_identity(_: Statement, error: float) -> Judgement:
    return error, EXACT, "reproduced" if error < EXACT else "not reproduced", ""


def _judge_mean(one: Statement, values: np.ndarray) -> Judgement:
    """Take splits for independent, as in the paper."""
    return _compare(one, values.mean(), one.std_error, float(values.std(ddof=1)) / sqrt(values.size))


def _judge_share(one: Statement, values: np.ndarray) -> Judgement:
    share = float(np.mean(values < 0))
    return _compare(one, share, one.std_error, sqrt(share * (1 - share) / values.size))


def _judge_spread(one: Statement, values: np.ndarray) -> Judgement:
    ours = float(values.std(ddof=1))
    return _compare(one, ours, relative_error(values, one.runs) * one.value, relative_error(values, values.size) * ours)


def relative_error(values: np.ndarray, runs: int) -> float:
    """
    Standard error of a standard deviation over so many runs, as a share of it: about 1/√(2n) for normal values.

    Heavy tails make it larger: √((κ − 1)/4n), κ the kurtosis of the values that we have.
    """
    gap = values - values.mean()
    second = float((gap**2).mean())
    kurtosis = float((gap**4).mean()) / second**2 if second > 0 else 1.0
    return sqrt(max(kurtosis - 1.0, 0.0) / (4 * runs))


def _judge_p_value(one: Statement, ours: float) -> Judgement:
    """Within noise if both lead to the same decision; the paper prints one p-value as a bound."""
    same = ours < one.value if one.rule == "p-bound" else _is_printed(one, ours)
    if (ours < _LEVEL) != (one.value < _LEVEL):
        return float(ours), None, "reproduced" if same else "not reproduced", ""
    told = f"Both are {'below' if ours < _LEVEL else 'above'} {_LEVEL:g}."
    return float(ours), None, "reproduced" if same else "within noise", told


def _judge_split(one: Statement, values: np.ndarray) -> Judgement:
    """Look a number of a single split, whose seed is not known, up among ours; `ours` is the median."""
    low, high, digits = values.min(), values.max(), one.decimals
    inside = low - one.half_unit <= one.value <= high + one.half_unit
    below = f"Larger than in {int((values < one.value).sum())} of {values.size} splits"
    told = minus(f"{below} ({low:.{digits}f} to {high:.{digits}f}).")
    return float(np.median(values)), None, "within noise" if inside else "not reproduced", told


def _judge_claim(_: Statement, holds: bool | str) -> Judgement:
    return None, None, holds if isinstance(holds, str) else "reproduced" if holds else "not reproduced", ""


RULES = {
    "identity": _judge_identity,
    "exact": _compare,
    "mean": _judge_mean,
    "share": _judge_share,
    "spread": _judge_spread,
    "p-value": _judge_p_value,
    "p-bound": _judge_p_value,
    "split": _judge_split,
    "claim": _judge_claim,
}


def count_verdicts(checks: Iterable[Check]) -> dict[str, int]:
    """Count the checks of each verdict, none left out."""
    found = [check.verdict for check in checks]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def tabulate_checks(key: str, title: str, checks: Iterable[Check], note: str = "") -> Table:
    """Make a table of checks: as many decimals as the paper has, one more for ours; empty columns are left out."""
    rows = [
        {"number or statement": check.what} | _show_numbers(check) | {"verdict": MARKS[check.verdict], "why": check.why}
        for check in checks
    ]
    heads = [head for head in rows[0] if any(row[head] for row in rows)]
    return table(key, title, [{head: row[head] for head in heads} for row in rows], note)


def _show_numbers(check: Check) -> dict[str, str]:
    if check.ours is None:
        return dict.fromkeys(("paper", "ours", "difference", "tolerance"), "")
    digits, bound = check.decimals + 1, "< " if STATEMENTS[check.key].rule == "p-bound" else ""
    shown = {
        "paper": f"{bound}{check.paper:.{check.decimals}f}",
        "ours": f"{check.ours:.{digits}f}",
        "difference": f"{check.ours - check.paper:+.{digits}f}",
        "tolerance": "–" if check.tolerance is None else f"{check.tolerance:.{digits}f}",
    }
    return {head: minus(text) for head, text in shown.items()}
