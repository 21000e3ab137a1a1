"""What a decomposition means for its model: findings that follow from bounds and tests, never from point estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scoreprism._document.model import Cell, Range
from scoreprism._document.result import TermTable
from scoreprism._findings.finding import MIN_GAIN, Finding, doubts, of_severity, select, settle
from scoreprism._findings.wording import write_percent
from scoreprism._kernels.term_intervals import quantile

if TYPE_CHECKING:
    from scoreprism.decomposition._result import Decomposition

#: Power at which "how many rows it would take" is computed.
POWER = 0.8
#: Required sample sizes beyond this multiple of the rows are not reported.
_FAR = 100.0
#: Upper ends of the reliability nearer to each other than this share are reported as one.
_ALIKE = 0.1


def draw_conclusions(
    result: Decomposition,
    confidence_level: float,
    *,
    min_gain: float = MIN_GAIN,
    calibration_pvalue: float | None = None,
    grouping_pvalue: float | None = None,
) -> tuple[Finding, ...]:
    """
    What to do, and what is known, in the order in which it matters.

    A loss that is infinite comes first, and what follows is what its terms at a floor say. A doubt about the rows
    themselves (level 0) forbids every conclusion, one about a level those on the terms next to it. Of what is left,
    bounds decide; where a bound leaves a term open, a test may still refute that it is 0.
    """
    if result._population or result._roles[0] != "reliability" or result._signs[1] < 0:
        return ()
    infinite = () if math.isfinite(result.risk) else tuple(select(result.findings, "infinite_loss"))
    basis = result._stand_in or result
    if not math.isfinite(basis.risk) or not basis.risk > 0.0 or math.isnan(basis.std_error[basis.names[0]]):
        return infinite
    conclusions = settle(_conclude(basis, confidence_level, min_gain * basis.risk, calibration_pvalue, grouping_pvalue))
    if basis.floor is not None:
        at_floor = {"floor": basis.floor}
        conclusions = (*select(basis.findings, "floored"), *(one.with_facts(**at_floor) for one in conclusions))
    return (*infinite, *conclusions)


def _conclude(
    result: Decomposition, confidence_level: float, goal: float, calibration: float | None, grouping: float | None
) -> Iterator[Finding]:
    """Findings on a finite loss, before some overrule others; `goal` is the gain that is worth a change."""
    doubted = doubts(result.findings)
    if 0 in doubted:
        yield from (
            Finding("do_not_act", because=one) for one in of_severity(result.findings, "doubt") if not one.level
        )
        return
    names = result.names[: result._levels]  # without the residual of the plug-in form
    bounds: list[float] = []
    for i, name in enumerate(names[:-1]):
        if {i, i + 1} & doubted.keys():
            yield Finding("term_doubtful", term=name, because=doubted[i if i in doubted else i + 1])
            continue
        bounds.append(result._inference(name).lower_bound(confidence_level).value)
        if i == 0:
            yield from _judge_reliability(result, bounds[0], confidence_level, goal, calibration)
        else:
            yield from _judge_gain(result, name, bounds[-1], confidence_level, goal, grouping if i == 1 else None)
    yield from _judge_rest(
        result, names, confidence_level, set(doubted), gains=any(bound > 0.0 and bound >= goal for bound in bounds)
    )
    if bounds and len(names) > 2 and not any(bound > 0.0 for bound in bounds):
        unit = "row" if result._groups is None else "group"
        yield Finding("inconclusive", n=result.n_units, confidence_level=confidence_level, facts={"unit": unit})


def _judge_reliability(
    result: Decomposition, least: float, confidence_level: float, goal: float, pvalue: float | None
) -> Iterator[Finding]:
    blind = {} if result.loss.strictly_proper else {"blind": True}
    about: dict[str, Any] = {"term": result.names[0], "value": result.risk, "confidence_level": confidence_level}
    if least > 0.0 and least >= goal:
        yield Finding("recalibrate", low=least, **about, facts=blind)
        return
    p = result.calibration_pvalue if pvalue is None and least <= 0.0 else pvalue
    ends = upper_ends(result, confidence_level)
    condition, high = ends[-1]
    facts = {**blind, "ends": [list(end) for end in ends]}
    refuted = p is not None and p <= 1.0 - confidence_level + 1e-12
    small = high < goal and condition != "smooth"  # whatever the shape of P(Y | S)
    if least <= 0.0 and not refuted and small:
        yield Finding("calibrated_enough", high=high, pvalue=p, **about, facts=facts)
    elif least <= 0.0 and not refuted:
        yield Finding(
            "no_miscalibration",
            high=high,
            n=_count_needed(result, 0, confidence_level),
            pvalue=p,
            **about,
            facts=facts,
        )
    elif small:
        yield Finding("not_material", low=max(least, 0.0), high=high, pvalue=p, **about, facts=facts)
    else:
        more = {**facts, "min_gain": goal / result.risk}
        yield Finding("recalibrate_size_open", low=max(least, 0.0), high=high, pvalue=p, **about, facts=more)


def upper_ends(result: Decomposition, confidence_level: float) -> list[tuple[str, float]]:
    """What recalibration gains at most, each with the condition: "smooth", "any" shape of P(Y | S), or "" for none."""
    name = result.names[0]
    smooth = result._interval(name, confidence_level, "smooth").high
    if not result._inference(name).any_shape:
        fitted = result._ends is not None or bool(result._alternatives)  # a law passed by the user has no fitting error
        return [("smooth" if fitted else "", smooth if result._ends else result._interval(name, confidence_level).high)]
    far = result._interval(name, confidence_level, "any-shape").high
    return [("", far)] if smooth >= (1.0 - _ALIKE) * far else [("smooth", smooth), ("any", far)]


def _judge_gain(
    result: Decomposition, name: str, least: float, confidence_level: float, goal: float, pvalue: float | None
) -> Iterator[Finding]:
    about: dict[str, Any] = {"term": name, "value": result.risk, "confidence_level": confidence_level}
    if name == "heterogeneity":  # which nothing known here removes
        yield Finding("heterogeneity", low=max(least, 0.0), **about)
    elif least > 0.0 and least >= goal:
        yield Finding("information_gain", low=least, **about)
    elif least > 0.0:
        yield Finding("information_size_open", low=least, **about, facts={"min_gain": goal / result.risk})
    elif pvalue is not None and pvalue <= 1.0 - confidence_level + 1e-12:
        yield Finding("information_size_open", pvalue=pvalue, **about)
    else:
        yield Finding("no_information_gain", pvalue=pvalue, **about)


def _judge_rest(
    result: Decomposition, names: tuple[str, ...], confidence_level: float, doubted: set[int], *, gains: bool
) -> Iterator[Finding]:
    name = names[-1]
    if name == "refinement":
        yield Finding(
            "rest_unsplit",
            term=name,
            value=result.risk,
            subject=result.splits_the_rest,
            facts={"rest": result.terms[name]},
        )
    elif name != "noise" and gains:
        yield Finding("rest_unknowable", term=name)
    elif name != "noise":
        z = quantile(confidence_level, two_sided=False)
        reached = [math.inf]
        for t in set(range(1, result._levels)) - doubted:
            steps = dict.fromkeys(range(t, result._levels), 1.0)  # the loss of level t
            reached.append(result._moments.value(steps) + z * result._moments.std_error(steps))
        if min(reached) < result.risk:
            yield Finding(
                "reachable_loss", term=name, high=min(reached), value=result.risk, confidence_level=confidence_level
            )
        else:
            yield Finding("no_lower_loss", term=name, value=result.risk, confidence_level=confidence_level)


def _count_needed(result: Decomposition, index: int, confidence_level: float) -> int | None:
    """How many rows would establish a term of the size estimated, if it is right; None if that is unknown."""
    name = result.names[index]
    value, error = result.terms[name], result.std_error[name]
    if not (value > 0.0 and error > 0.0):
        return None
    z = quantile(confidence_level, two_sided=False) + quantile(POWER, two_sided=False)
    n = result.n_units
    needed = n * (z * error / value) ** 2
    if not n < needed < _FAR * n:
        return None
    digits = 10 ** max(int(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / digits) * digits)


# ── the table people read ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Summary(TermTable):
    """
    A decomposition as a table to read: estimates, intervals or bounds, shares, what reduces each term, and advice.

    Made by `Decomposition.summary`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    result : Decomposition
        The decomposition.
    confidence_level : float
        Confidence level of intervals and bounds.
    findings : tuple of Finding
        Conclusions from bounds and tests, the most important first.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> y = [0, 1, 0, 1, 1, 0]
    >>> chain = Chain(y, [Level("S", [0.2, 0.9, 0.2, 0.9, 0.9, 0.9]), Level("C", [0, 0.75, 0, 0.75, 0.75, 0.75])])
    >>> summary = chain.decompose("brier").summary()
    >>> [finding.kind for finding in summary.findings]
    ['no_miscalibration', 'rest_unsplit']
    >>> summary.advice[-1][:59]
    'What recalibration cannot remove, an estimated 0.125 (82 %)'
    """

    result: Decomposition
    confidence_level: float
    findings: tuple[Finding, ...]

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """
        Draw the decomposition at the confidence level of the summary.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **options : object
            What ``DecompositionDisplay.plot`` takes.

        Returns
        -------
        DecompositionDisplay
            With its axes and artists.
        """
        return self.result.plot(ax, **{"confidence_level": self.confidence_level, **options})

    @property
    def advice(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(one.text for one in self.findings)

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term."""
        return self.result.terms

    def to_dict(self) -> dict[str, Any]:
        """
        The table and the findings as plain Python objects.

        Returns
        -------
        dict
            With ``terms``, ``findings`` and ``advice``; where the loss is infinite also ``floored``, the terms at a
            floor.
        """
        plain: dict[str, Any] = {
            "confidence_level": self.confidence_level,
            "terms": self._by_term(),
            "advice": list(self.advice),
        }
        plain["findings"] = [one.to_dict() for one in self.findings]
        twin = self.result._stand_in
        if twin is not None:
            terms = twin._make_summary(self.confidence_level)._by_term()
            plain["floored"] = {"floor": twin.clip, "moved": twin._moved, "terms": terms}
        return plain

    def _columns(self) -> dict[str, list[Any]]:
        from scoreprism._findings.sentences import explain_term

        terms, risk, muted = self.terms, self.result.risk, self.result.muted
        finite = math.isfinite(risk) and risk != 0.0
        known = [self.result._known(name, self.confidence_level) for name in self.names]
        return {
            "term": list(self.names),
            "estimate": [math.nan if name in muted else value for name, value in terms.items()],
            "low": [one.low for one in known],
            "high": [one.high for one in known],
            "share": [value / risk if finite and name not in muted else math.nan for name, value in terms.items()],
            "what reduces it": [explain_term(name) for name in self.names],
        }

    def _shown_columns(self) -> dict[str, list[Any]]:
        columns = self._columns()
        known: list[Cell] = [Range(*ends) for ends in zip(columns.pop("low"), columns.pop("high"), strict=True)]
        shown = {"term": columns.pop("term"), "estimate": columns.pop("estimate")}
        if not self.result._population:
            shown[f"known at {write_percent(self.confidence_level)}"] = known
        return shown | columns

    def _kinds(self) -> Mapping[str, str]:
        return {f"known at {write_percent(self.confidence_level)}": "number"}

    def _decimals(self) -> int | None:
        return self.result._decimals()

    def _twin(self) -> TermTable | None:
        twin = self.result._stand_in
        return None if twin is None else twin._make_summary(self.confidence_level)

    def _title(self) -> str:
        return self.result._title()

    def _findings(self) -> Sequence[Finding]:
        return settle((*self.findings, *self.result._findings()))
