"""Our number beside the paper's: how far apart they may be by chance, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import hypot, isnan
from typing import Any

import numpy as np

from reproduction.printed import CLAIMS, PRINTED
from scoreprism.report import Column, Table

#: What a verdict means.
VERDICTS = {
    "reproduced": "the same to every printed digit; of a statement, that it holds",
    "within noise": "differs by no more than chance explains: three standard errors of the difference, and half a unit "
    "of the last printed digit; of a p-value, that it lies on the same side of 0.05; of a single split, that it lies "
    "among ours",
    "not reproduced": "differs by more; of a statement, that it does not hold",
}
_MARKS = {"reproduced": "✓", "within noise": "≈", "not reproduced": "✗"}
#: Standard errors of the difference that count as chance.
_SIGMAS = 3.0


@dataclass(frozen=True)
class Check:
    """
    A number or a statement of the paper, and what became of it.

    Attributes
    ----------
    key : str
        Its name in `PRINTED` or `CLAIMS`.
    place : str
        Where the paper has it.
    what : str
        What it is.
    paper : float or None
        The paper's number; None for statements.
    ours : float or None
        Our number.
    tolerance : float or None
        How far apart chance may bring them.
    verdict : str
        In `VERDICTS`.
    why : str
        What there is to say: the evidence on a statement, the reason of a difference.
    decimals : int
        Decimals that the paper prints.

    Examples
    --------
    >>> found = beside("robustness/log/raw/average", 0.4931, std_error=0.003)
    >>> found.verdict, round(found.tolerance, 4)
    ('within noise', 0.0134)
    """

    key: str
    place: str
    what: str
    paper: float | None
    ours: float | None
    tolerance: float | None
    verdict: str
    why: str = ""
    decimals: int = 3

    def to_dict(self) -> dict[str, Any]:
        """
        Plain Python objects.

        Returns
        -------
        dict
            By attribute.
        """
        return asdict(self)


def beside(key: str, ours: float, std_error: float = 0.0, why: str = "") -> Check:
    """
    A mean of ours beside a printed number.

    Parameters
    ----------
    key : str
        Which, in `PRINTED`.
    ours : float
        Our number.
    std_error : float, default=0.0
        Its Monte-Carlo standard error; 0 where it is exact.
    why : str, default=""
        What there is to say.

    Returns
    -------
    Check
        With tolerance 3·√(se² of the paper + se² of ours) + half a unit of the last printed decimal.

    Examples
    --------
    >>> beside("calibrated-yet-grouping/brier", 0.16).verdict
    'reproduced'
    >>> beside("robustness/log/recalibrated/forest", 0.584, 0.008).verdict
    'not reproduced'
    """
    printed = PRINTED[key]
    tolerance = _SIGMAS * hypot(printed.std_error, std_error) + printed.half_unit
    apart = abs(ours - printed.value)
    same = apart <= printed.half_unit * (1 + 1e-9)
    near = not isnan(apart) and apart <= tolerance
    verdict = "reproduced" if same else "within noise" if near else "not reproduced"
    return Check(
        key, printed.place, printed.what, printed.value, float(ours), tolerance, verdict, why, printed.decimals
    )


def decided(key: str, ours: float, why: str = "", *, level: float = 0.05) -> Check:
    """
    A p-value beside a printed one: within noise if both lead to the same decision.

    Parameters
    ----------
    key : str
        Which, in `PRINTED`.
    ours : float
        Our p-value.
    why : str, default=""
        What there is to say.
    level : float, default=0.05
        Of the test.

    Returns
    -------
    Check
        Without a tolerance.

    Examples
    --------
    >>> decided("tests/reliability_plugin/stacking/p", 3e-6).verdict  # printed: below 1e-4
    'reproduced'
    >>> decided("tests/reliability_plugin/stacking/p", 2e-4).verdict
    'within noise'
    """
    printed = PRINTED[key]
    agree = (ours < level) == (printed.value < level)
    same = ours < printed.value if printed.bound else abs(ours - printed.value) <= printed.half_unit * (1 + 1e-9)
    told = why or f"Both are {'below' if ours < level else 'above'} {level:g}." if agree else why
    verdict = "reproduced" if same else "within noise" if agree else "not reproduced"
    return Check(key, printed.place, printed.what, printed.value, float(ours), None, verdict, told, printed.decimals)


def among(key: str, values: Iterable[float], why: str = "") -> Check:
    """
    A number of a single split whose seed is not known: where it falls among ours.

    Parameters
    ----------
    key : str
        Which, in `PRINTED`.
    values : iterable of float
        The number in each of our splits.
    why : str, default=""
        What there is to say beside its place.

    Returns
    -------
    Check
        `ours` is the median. Within noise if it lies between the smallest and the largest, up to rounding.

    Examples
    --------
    >>> among("gains/log/raw/glm", [0.5, 0.6, 0.8]).why
    'Larger than in 2 of 3 splits (0.50 to 0.80).'
    """
    printed, found = PRINTED[key], np.sort(np.asarray(list(values), dtype=np.float64))
    low, high = found[0] - printed.half_unit, found[-1] + printed.half_unit
    below, digits = int((found < printed.value).sum()), printed.decimals
    place = f"Larger than in {below} of {found.size} splits ({found[0]:.{digits}f} to {found[-1]:.{digits}f})."
    verdict = "within noise" if low <= printed.value <= high else "not reproduced"
    told = " ".join(part for part in (place.replace("-", "−"), why) if part)
    middle = float(np.median(found))
    return Check(key, printed.place, printed.what, printed.value, middle, None, verdict, told, digits)


def claimed(key: str, holds: bool, evidence: str) -> Check:
    """
    A statement of the paper, and whether it holds.

    Parameters
    ----------
    key : str
        Which, in `CLAIMS`.
    holds : bool
        Whether our numbers bear it out.
    evidence : str
        These numbers, in a sentence.

    Returns
    -------
    Check
        Without numbers of its own.

    Examples
    --------
    >>> claimed("quantising", True, "0.0131 against 0.0122.").verdict
    'reproduced'
    """
    claim = CLAIMS[key]
    verdict = "reproduced" if holds else "not reproduced"
    return Check(key, claim.place, claim.what, None, None, None, verdict, evidence)


def checks_table(key: str, title: str, checks: Iterable[Check], note: str = "") -> Table:
    """
    Numbers beside the paper's, as people read them: as many decimals as the paper has, and one more for ours.

    Parameters
    ----------
    key, title : str
        Of the table.
    checks : iterable of Check
        Its rows.
    note : str, default=""
        What stands below it.

    Returns
    -------
    Table
        The last column is left out where there is nothing to say.

    Examples
    --------
    >>> checks_table("t", "Table", [beside("robustness/log/raw/average", 0.4931, 0.003)]).shown()
    [['log loss, raw, average', '0.496', '0.4931', '−0.0029', '0.0134', '≈ within noise']]
    """
    rows = list(checks)
    columns = [Column("what", "number"), *(Column(name, head, "loss") for name, head in _NUMBERS), _VERDICT]
    cells = [(check.what, *_figures(check), marked(check.verdict), check.why) for check in rows]
    told = any(check.why for check in rows)
    columns += [Column("why", "why")] if told else []
    return Table(key, title, tuple(columns), tuple(row if told else row[:-1] for row in cells), note)


_NUMBERS = (("paper", "paper"), ("ours", "ours"), ("difference", "difference"), ("tolerance", "tolerance"))
_VERDICT = Column("verdict", "verdict")


def claims_table(key: str, title: str, checks: Iterable[Check], note: str = "") -> Table:
    """
    Statements of the paper, and whether they hold.

    Parameters
    ----------
    key, title : str
        Of the table.
    checks : iterable of Check
        Its rows.
    note : str, default=""
        What stands below it.

    Returns
    -------
    Table
        Statement, verdict, evidence.

    Examples
    --------
    >>> claims_table("t", "Table", [claimed("quantising", True, "More.")]).shown()
    [['Quantising a score increases its grouping', '✓ reproduced', 'More.']]
    """
    columns = (Column("what", "statement"), _VERDICT, Column("why", "what we find"))
    return Table(key, title, columns, tuple((c.what, marked(c.verdict), c.why) for c in checks), note)


def counted(checks: Iterable[Check]) -> dict[str, int]:
    """
    How many checks have each verdict.

    Parameters
    ----------
    checks : iterable of Check
        Some.

    Returns
    -------
    dict of str to int
        By verdict, none left out.

    Examples
    --------
    >>> counted([beside("calibrated-yet-grouping/brier", 0.16)])
    {'reproduced': 1, 'within noise': 0, 'not reproduced': 0}
    """
    found = [check.verdict for check in checks]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def marked(verdict: str) -> str:
    """
    A verdict with a sign, so that it is seen at a glance.

    Parameters
    ----------
    verdict : str
        In `VERDICTS`.

    Returns
    -------
    str
        Sign and words.

    Examples
    --------
    >>> marked("reproduced")
    '✓ reproduced'
    """
    return f"{_MARKS[verdict]} {verdict}"


def scientific(value: float, decimals: int = 1) -> str:
    """
    A very small or large number in a sentence.

    Parameters
    ----------
    value : float
        At least 0.
    decimals : int, default=1
        Of its digits.

    Returns
    -------
    str
        Digits, and a power of ten.

    Examples
    --------
    >>> scientific(1e-6), scientific(0.00021), scientific(4.4e-16, 0), scientific(0.0)
    ('10⁻⁶', '2.1·10⁻⁴', '4·10⁻¹⁶', '0')
    """
    if value == 0.0:
        return "0"
    digits, power = f"{value:.{decimals}e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if float(digits) == 1.0 else f"{digits}·10{raised}"


def _figures(check: Check) -> tuple[str, str, str, str]:
    """Paper, ours, difference and tolerance as text."""
    digits = check.decimals + 1
    if check.paper is None or check.ours is None:
        return ("", "", "", "")
    bound = PRINTED[check.key].bound if check.key in PRINTED else False
    texts = (
        f"{'< ' if bound else ''}{check.paper:.{check.decimals}f}",
        f"{check.ours:.{digits}f}",
        "–" if bound else f"{check.ours - check.paper:+.{digits}f}",
        "–" if check.tolerance is None else f"{check.tolerance:.{digits}f}",
    )
    first, second, third, fourth = (text.replace("-", "−") for text in texts)
    return first, second, third, fourth
