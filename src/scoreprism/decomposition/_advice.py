"""What a decomposition means for its model: a table with bounds, and advice that follows from bounds alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scoreprism._document.tables import TermTable, marked
from scoreprism._kernels.term_intervals import quantile
from scoreprism.exceptions import UnavailableError

if TYPE_CHECKING:
    from scoreprism.decomposition._result import Decomposition

#: What reduces each term that has a name of its own.
MEANINGS = {
    "reliability": "recalibration on held-out data",
    "miscalibration": "recalibration on held-out data",
    "grouping": "a better score: model, features used, ensembling",
    "projection": "stacking, or keeping all members instead of one number",
    "irreducible": "richer features or better data",
    "refinement": "a better score, or better data",
    "heterogeneity": "features that tell latent states apart",
    "noise": "nothing: chance itself",
    "resolution": "what the score tells apart (subtracted)",
    "discrimination": "what the score tells apart (subtracted)",
    "uncertainty": "nothing: the outcome's own, before any score",
    "residual": "nothing: what plug-in estimates leave over",
}

#: Who gains from a step of information, and what is not shown where no gain is.
_GAINS = {
    "grouping": ("A better model of these features", "loss of information from the features to the score"),
    "projection": ("Keeping all members", "loss of information from the members to the aggregate"),
}

#: Power at which "how many rows it would take" is computed.
POWER = 0.8


@dataclass(frozen=True, eq=False, repr=False)
class Summary(TermTable):
    """
    A decomposition as people read it: estimates, what is known of them, shares, meanings, advice.

    Made by `Decomposition.summary`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    result : Decomposition
        What is summarised.
    level : float
        Confidence level of intervals and bounds.
    advice : tuple of str
        What to do, from the bounds.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> y = [0, 1, 0, 1, 1, 0]
    >>> chain = Chain(y, [Level("S", [0.2, 0.9, 0.2, 0.9, 0.9, 0.9]), Level("C", [0, 0.75, 0, 0.75, 0.75, 0.75])])
    >>> chain.decompose("brier").summary().advice[-1]
    'The rest, 0.125 (82 %), is the model or the data: pass X to tell them apart.'
    """

    result: Decomposition
    level: float
    advice: tuple[str, ...]

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term."""
        return self.result.terms

    def to_dict(self) -> dict[str, Any]:
        """
        The table and the advice as plain Python objects.

        Returns
        -------
        dict
            With ``terms`` and ``advice``; where the loss is infinite also ``floored``, the terms at a floor.
        """
        found = {"level": self.level, "terms": self._by_term(), "advice": list(self.advice)}
        twin = self.result._stand_in
        if twin is not None:
            found["floored"] = {"floor": twin.clip, "moved": twin._moved, "terms": twin.summary(self.level)._by_term()}
        return found

    def _columns(self) -> dict[str, list[Any]]:
        terms, risk = self.terms, self.result.risk
        finite = math.isfinite(risk) and risk != 0.0
        muted = self.result.muted
        return {
            "term": list(self.names),
            "estimate": [math.nan if name in muted else value for name, value in terms.items()],
            f"known at {100 * self.level:g} %": [_known(self.result, name, self.level) for name in self.names],
            "share": [value / risk if finite and name not in muted else math.nan for name, value in terms.items()],
            "what reduces it": [meaning(name) for name in self.names],
        }

    def _digits(self) -> int:
        return self.result._digits()

    def _twin(self) -> TermTable | None:
        twin = self.result._stand_in
        return None if twin is None else twin.summary(self.level)

    def _title(self) -> str:
        return self.result._title()

    def _footer(self) -> list[str]:
        return [*(f"→ {line}" for line in self.advice), *self.result._footer()]


def meaning(term: str) -> str:
    """What reduces a term."""
    if term in MEANINGS:
        return MEANINGS[term]
    coarse, arrow, fine = term.partition(" → ")
    if not arrow:
        return ""
    return "richer features or better data" if fine == "Y" else f"using what {fine!r} adds to {coarse!r}"


def _known(result: Decomposition, name: str, level: float) -> str:
    """An interval where one holds, else the bound that does."""
    if result._population:
        return "exact"
    role = result._roles[result.names.index(name)]
    if not math.isfinite(result.risk) and not math.isfinite(result.terms[name]):
        return "undefined"
    digits = result._digits()
    if role == "information":
        return f"≥ {max(result.lower_bound(name, level).value, 0.0):.{digits}f}"
    if role == "remaining":
        return f"≤ {result.upper_bound(name, level).value:.{digits}f}"
    try:
        interval = result.interval(name, level)
    except UnavailableError:
        return "no interval"
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def amount(value: float, risk: float) -> str:
    """A part of a loss, with its share."""
    percent = 100.0 * value / risk
    return f"{value:.3g} ({f'{percent:.2g}' if percent < 99.5 else f'{percent:.0f}'} %)"


def advise(result: Decomposition, level: float, pvalue: float | None = None) -> tuple[str, ...]:
    """Advice in plain words, from bounds and never from point estimates."""
    if result._population or result._roles[0] != "reliability" or result._signs[1] < 0:
        return ()
    twin = result._stand_in
    if twin is not None:
        return (*(() if math.isfinite(result.risk) else (INFINITE,)), *advise(twin, level, pvalue))
    if not math.isfinite(result.risk):
        return (INFINITE,)
    return tuple(marked(line, result._mark) for line in _advised(result, level, pvalue))


#: What is said first of an infinite loss.
INFINITE = (
    "The loss is infinite: the score gave probability 0 to something that happened. Keep scores away from 0 and 1 "
    "first; every recalibration map but the identity does."
)


def _advised(result: Decomposition, level: float, pvalue: float | None) -> tuple[str, ...]:
    """Advice on a finite loss."""
    if not result.risk > 0.0 or math.isnan(result.std_error[result.names[0]]):
        return ()
    if any(level == 0 for level, _ in result._doubts):
        return tuple(f"Do not act on these terms: {doubt}." for level, doubt in result._doubts if level == 0)
    names = result.names[: result._levels]  # without the residual of the plug-in form
    doubted = {level for level, _ in result._doubts}
    lines, shown = [], []
    for i, name in enumerate(names[:-1]):
        if {i, i + 1} & doubted:
            why = next(text for t, text in result._doubts if t in (i, i + 1))
            lines.append(f"Nothing is said of {name}: {why}")
            continue
        shown.append(result.lower_bound(name, level).value)
        say = _on_reliability(result, shown[-1], level, pvalue) if i == 0 else _on_information(result, name, shown[-1])
        lines.append(say)
    lines.append(_on_the_rest(result, names, level, doubted))
    if shown and len(names) > 2 and not any(value > 0.0 for value in shown):
        lines.insert(0, f"Nothing can be concluded at this n ({result.n_units} rows): no term is shown to be above 0.")
    return tuple(line for line in lines if line)


def _on_reliability(result: Decomposition, least: float, level: float, pvalue: float | None) -> str:
    calibrated = "" if result.loss.strictly_proper else " This loss does not see all miscalibration."
    if least > 0.0:
        return f"Recalibrate: that gains at least {amount(least, result.risk)} of the loss.{calibrated}"
    p = result.calibration_pvalue if pvalue is None else pvalue
    if p is not None and p <= 1.0 - level + 1e-12:
        return (
            f"The scores are not calibrated (p = {p:.2g}), but that recalibration lowers the loss is not shown: it "
            f"gains between 0 and {widest(result, level)}.{calibrated}"
        )
    needed = _rows_needed(result, 0, level)
    more = f"; were the estimate true, about {needed:,} rows would show it" if needed else ""
    said = ", ".join(f"at most {amount(end, result.risk)}{where}" for where, end in upper_ends(result, level))
    return f"No miscalibration is shown: recalibration gains {said}{more}.{calibrated}"


#: Ends of the reliability nearer to each other than this share are told as one.
_ALIKE = 0.1
#: What an upper end of the reliability assumes.
_SMOOTH, _ANY_SHAPE = " if the calibration curve is smooth", " whatever its shape"


def upper_ends(result: Decomposition, level: float) -> list[tuple[str, float]]:
    """What recalibration gains at most, and under which condition."""
    name = result.names[0]
    smooth = result.interval(name, level, "smooth").high
    if not result._inference(name).any_shape:
        fitted = result._ends is not None or bool(result._alternatives)  # a law that was given is taken as it is
        return [(_SMOOTH if fitted else "", smooth if result._ends else result.interval(name, level).high)]
    far = result.interval(name, level, "any-shape").high
    return [("", far)] if smooth >= (1.0 - _ALIKE) * far else [(_SMOOTH, smooth), (_ANY_SHAPE, far)]


def widest(result: Decomposition, level: float) -> str:
    """What recalibration gains at most, and the condition if there is one."""
    where, end = upper_ends(result, level)[-1]
    return f"{amount(end, result.risk)}{'' if where == _ANY_SHAPE else where}"


def _on_information(result: Decomposition, name: str, least: float) -> str:
    if name == "heterogeneity":
        return f"Latent states that no feature tells apart cost at least {amount(max(least, 0.0), result.risk)}."
    plain = (f"Going from {name.replace(' → ', ' to ')}", f"gain from {name}")
    who, what = _GAINS.get(name, plain)
    if least > 0.0:
        return f"{who} gains at least {amount(least, result.risk)} of the loss."
    return f"No {what} is shown: no data can rule it out, these do not prove it."


def _on_the_rest(result: Decomposition, names: tuple[str, ...], level: float, doubted: set[int]) -> str:
    name = names[-1]
    if name == "refinement":
        rest = amount(result.terms[name], result.risk)
        return f"The rest, {rest}, is the model or the data: {result._telling} to tell them apart."
    if name == "noise":
        return ""
    z = quantile(level, two_sided=False)
    reached = []
    for t in set(range(1, result._levels)) - doubted:
        steps = dict.fromkeys(range(t, result._levels), 1.0)  # the loss of level t
        reached.append(result._moments.value(steps) + z * result._moments.std_error(steps))
    best = min(reached, default=math.inf)
    if not best < result.risk:
        return "That a lower loss can be reached with what is known here is not shown."
    reach = f"A loss of {best:.3g} or less can be reached with what is known here"
    return f"{reach}; how much of it only richer features or better data could remove, no data can say."


def _rows_needed(result: Decomposition, index: int, level: float) -> int | None:
    """How many rows would show a term of the size estimated, were the estimate true; None if there is no saying."""
    name = result.names[index]
    value, error = result.terms[name], result.std_error[name]
    if not (value > 0.0 and error > 0.0):
        return None
    z = quantile(level, two_sided=False) + quantile(POWER, two_sided=False)
    n = result.n_units
    needed = n * (z * error / value) ** 2
    if not n < needed < 1e12:
        return None
    digits = 10 ** max(int(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / digits) * digits)
