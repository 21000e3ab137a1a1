"""The synthetic experiment (section 6.1, appendix D.1): averaging breaks calibration, recalibration keeps grouping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reproduction.checks import Check, claimed, claims_table
from reproduction.population import at_zero, claims_by_rho, exceeds, population, signed
from reproduction.synthetic_figures import components, lcs_by_rho, maps, mean_and_error, panels, surface
from reproduction.synthetic_runs import (
    POOLED,
    SCORES,
    WAYS,
    MapCurve,
    lcs_runs,
    map_curves,
    terms_runs,
)
from reproduction.synthetic_scores import NAMES
from reproduction.work import Outcome, Work
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw
from scoreprism.report import Figure, Notice, Section
from scoreprism.report._pieces import enumerated, table, thinned

Runs = dict[str, FloatArray]

#: A score counts as nearly calibrated if the root of its exact LCS is below this: two percentage points.
NEARLY = 0.02
#: "Far less" and "far more" mean this many times.
FAR = 3.0
#: A reliability counts as close to zero, and a grouping as unchanged, up to this.
CLOSE = 0.001


def synthetic(work: Work) -> Outcome:
    """
    Section 6.1 and appendix D.1 of the paper.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Outcome
        Section, checks and numbers.
    """
    exact, zero = population(work), at_zero(work)
    runs, curves, terms = lcs_runs(work), map_curves(work), terms_runs(work)
    checks = (*_averaging_checks(exact, zero, runs), *_component_checks(terms))
    blocks = (
        claims_table("synthetic-claims", "Statements of section 6.1", checks),
        _surface_figure(),
        _maps_figure(curves, work),
        _lcs_figure(runs, exact, work),
        _components_figure(terms, work),
        Notice("note", _by_construction(terms)),
    )
    section = Section("synthetic", "Synthetic data", _meaning(exact, zero, terms), blocks)
    return Outcome(section, checks, _numbers(work, runs, exact, curves, terms))


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def _averaging_checks(exact: Sequence[dict[str, float]], zero: dict[str, float], runs: Runs) -> Iterator[Check]:
    x1, x2, pooled = (zero[f"lcs/{key}"] for key in POOLED)
    roots = [float(np.sqrt(lcs)) for lcs in (x1, x2)]
    told = (
        f"Exact LCS {x1:.6f} and {x2:.6f}: root mean square distances of {roots[0]:.4f} and {roots[1]:.4f} from the "
        f"calibrated probability. Rule: both below {NEARLY:g}."
    )
    yield claimed("members-calibrated", max(roots) < NEARLY, told)
    told = (
        f"Exact LCS of the average {pooled:.5f}, {pooled / max(x1, x2):.0f} times that of the worse member. "
        f"Rule: more than {FAR:g} times both."
    )
    yield claimed("average-worse", exceeds(zero, FAR), told)
    yield claimed("average-worse-every-rho", all(exceeds(row) for row in exact), _every_rho(exact, runs))


def _every_rho(exact: Sequence[dict[str, float]], runs: Runs) -> str:
    """At which correlations the average is worse, exactly and as estimated."""
    rhos = [row["rho"] for row in exact]
    above, far = [exceeds(row) for row in exact], [exceeds(row, FAR) for row in exact]
    members = np.maximum(runs["x1"].mean(axis=1), runs["x2"].mean(axis=1))
    seen = (runs["average"].mean(axis=1) > members).tolist()
    fails = [rho for rho, holds in zip(rhos, above, strict=True) if not holds]
    told = f"In the population the average has a larger LCS than both members {_where(rhos, above)}"
    told += f", but not at ρ = {enumerated([signed(rho) for rho in fails])}" if fails else ""
    told += f"; more than {FAR:g} times both {_where(rhos, far)}. As estimated it is larger {_where(rhos, seen)}"
    wrong = [i for i, (truth, looks) in enumerate(zip(above, seen, strict=True)) if looks and not truth]
    if wrong:  # the estimate, not the population, is what a figure shows
        i, worse = wrong[0], max(("x1", "x2"), key=lambda key: exact[wrong[0]][f"lcs/{key}"])
        bias = {key: float(runs[key][i].mean()) - exact[i][f"lcs/{key}"] for key in (worse, "average")}
        told += f": at ρ = {signed(rhos[i])} estimates differ from exact values by {_listed(bias, '+.5f')}"
    return f"{told}. Rule: larger than both at every ρ, exactly; the paper names no range."


def _where(rhos: Sequence[float], holds: Sequence[bool]) -> str:
    """At how many correlations something holds, and from which to which where these are neighbours."""
    places = [i for i, one in enumerate(holds) if one]
    if not places:
        return "at no ρ"
    if len(places) == len(rhos):
        return f"at all {len(rhos)} values of ρ"
    count = f"at {len(places)} of {len(rhos)} values of ρ"
    if places[-1] - places[0] + 1 > len(places):
        return count
    return f"{count} (from {signed(rhos[places[0]])} to {signed(rhos[places[-1]])})"


def _component_checks(terms: Runs) -> Iterator[Check]:
    yield _removed(terms)
    yield _eliminated(terms)
    moved = {key: _mean(terms, key, "after", "grouping") - _mean(terms, key, "before", "grouping") for key in SCORES}
    share = {key: 100 * moved[key] / _mean(terms, key, "before", "grouping") for key in SCORES}
    told = (
        f"Exact change by isotonic maps: {_listed(moved, '+.5f')}. It cannot fall. Rule: at most {CLOSE:g} for all. "
        f"In percent of the grouping before: {_listed(share, '.1f')}."
    )
    yield claimed("grouping-unchanged", max(moved.values()) <= CLOSE, told)
    poor, rich = (_mean(terms, key, "before", "grouping") for key in ("x1", "x12"))
    told = f"Exact grouping {poor:.5f} of x₁, {rich:.5f} of x₁₂. Rule: the first is more than {FAR:g} times the second."
    yield claimed("richer-score", poor > FAR * rich, told)
    pairs = [(_mean(terms, key, "before", "grouping"), _mean(terms, f"{key}-rounded", "before", "grouping"))
             for key in ("x12", "x1")]  # fmt: skip
    (fine, coarse), (fine1, coarse1) = pairs
    told = f"Exact grouping rises from {fine:.5f} to {coarse:.5f} for x₁₂ and from {fine1:.5f} to {coarse1:.5f} for x₁."
    rises = all(after > before for before, after in pairs)
    yield claimed("quantising", rises, told if rises else told.replace("rises", "goes"))


def _removed(terms: Runs) -> Check:
    """Whether the exact reliability ends close to zero, for the paper's three scores."""
    before, after = _reliabilities(terms)
    changes = [f"{NAMES[key]} {before[key]:.5f} → {after[key]:.5f}" for key in before]
    told = f"Exact reliability: {', '.join(changes)}. Rule: at most {CLOSE:g} after it."
    already = [NAMES[key] for key in before if before[key] <= CLOSE]
    if already:
        told += f" So it was before for {enumerated(already)}."
    return claimed("reliability-removed", max(after.values()) <= CLOSE, told)


def _eliminated(terms: Runs) -> Check:
    """Whether the exact reliability falls at all, for the paper's three scores."""
    before, after = _reliabilities(terms)
    rises = [NAMES[key] for key in before if after[key] >= before[key]]
    falls = [NAMES[key] for key in before if after[key] < before[key]]
    told = f"Exact reliability falls for {enumerated(falls) if falls else 'no score'}"
    if rises:
        told += (
            f"; it rises for {enumerated(rises)}: there was less to remove before than the noise of the fitted map "
            "puts in its place"
        )
    told += ". Estimated as the paper does, it is 0 after recalibration by construction. Rule: it falls for all three."
    return claimed("reliability-eliminated", not rises, told)


def _reliabilities(terms: Runs) -> tuple[dict[str, float], dict[str, float]]:
    """Exact, before and after, for the paper's three scores."""
    before, after = (
        {key: _mean(terms, key, when, "reliability") for key in SCORES[:3]} for when in ("before", "after")
    )
    return before, after


def _mean(terms: Runs, key: str, when: str, term: str, way: str = "exact") -> float:
    return float(terms[f"{key}/{when}/{way}/{term}"].mean())


def _listed(values: dict[str, float], form: str) -> str:
    return ", ".join(f"{NAMES[key]} {value:{form}}" for key, value in values.items()).replace("-", "−")


def _by_construction(terms: Runs) -> str:
    """What the paper's estimate after recalibration is, and what stands in its place."""
    apart = max(float(np.abs(terms[f"{key}/after/paper/reliability"]).max()) for key in SCORES)
    moved = max(
        float(np.abs(terms[f"{key}/after/paper/grouping"] - terms[f"{key}/before/paper/grouping"]).max())
        for key in SCORES
    )
    return (
        "Estimated as the paper does, with Ĉ fitted again on the calibration rows, both statements on recalibration "
        f"hold by construction: isotonic regression of an isotonic fit is that fit, so reliability is {apart:.1g} and "
        f"the change of grouping {moved:.1g} in every run. The bars after recalibration therefore use Ĉ "
        "fitted on a fourth split of the same size."
    )


def _meaning(exact: Sequence[dict[str, float]], zero: dict[str, float], terms: Runs) -> str:
    ratio = zero["lcs/average"] / max(zero["lcs/x1"], zero["lcs/x2"])
    peak = max(exact, key=lambda row: row["lcs/average"])
    above = _where([row["rho"] for row in exact], [exceeds(row) for row in exact])
    before, after = (_mean(terms, "x1", when, "reliability") for when in ("before", "after"))
    return (
        f"At ρ = 0 the average of two models has an exact LCS {ratio:.0f} times that of the worse of them; it is "
        f"largest at ρ = {signed(peak['rho'])}, and above both members {above}. Isotonic recalibration "
        f"{'raises' if after > before else 'lowers'} the exact reliability of x₁ from {before:.5f} to {after:.5f}."
    )


# ── figures and tables ──────────────────────────────────────────────────────────────────────────────


def _surface_figure() -> Figure:
    law, points = CopulaLaw(), np.linspace(0.0, 1.0, 5)
    q = [[float(law.q([[x1, x2]])[0]) for x2 in points] for x1 in points]
    columns = [("x1", "x₁", "text"), *((f"x2-{x2:g}", f"x₂ = {x2:g}", "short") for x2 in points)]
    data = table("surface-data", "Q on a grid", columns, [[f"{x1:g}", *row] for x1, row in zip(points, q, strict=True)])
    description = (
        f"Contours of Q over the unit square: {q[0][0]:.2f} at (0, 0), {q[-1][0]:.2f} at (1, 0), {q[0][-1]:.2f} at "
        f"(0, 1) and {q[-1][-1]:.2f} at (1, 1). Beside them scatterplots of simulated rows at ρ = −0.7, 0 and 0.7."
    )
    words = ("The true probability and simulated data (fig:true-surface)", description)
    return panels("true-surface", words, surface, data, size=(6.4, 6.2), shape=(2, 2))


def _maps_figure(curves: dict[str, MapCurve], work: Work) -> Figure:
    columns = [("score", "score", "text"), ("s", "S", "short"), ("map", "ĝ", "short"), ("exact", "C, exactly", "short")]
    rows: list[list[str | float]] = [
        [NAMES[key], *(float(part[i]) for part in curve)]
        for key, curve in curves.items()
        for i in thinned(curve.score.size, 7)
    ]
    apart = {key: float(np.abs(curve.fitted - curve.exact).max()) for key, curve in curves.items()}
    off = {key: float(np.abs(curve.exact - curve.score).max()) for key, curve in curves.items()}
    description = (
        f"Monotone splines (logit link, penalty by REML) fitted on {work.plan.rows:,} calibration rows, beside the "
        f"exact C. Largest distance of C from the diagonal: {_listed(off, '.3f')}. Largest distance of the fitted map "
        f"from C: {_listed(apart, '.3f')}."
    )
    words = ("Calibration maps at ρ = 0 (fig:averaging, left)", description)
    data = table("averaging-maps-data", "Calibration maps", columns, rows)
    return panels("averaging-maps", words, lambda axes: maps(axes[0], curves), data, size=(4.6, 4.4))


def _lcs_figure(runs: Runs, exact: Sequence[dict[str, float]], work: Work) -> Figure:
    columns = [("rho", "ρ", "text"), *((f"{key}-{way}", f"{NAMES[key]}, {way}", "number")
               for key in POOLED for way in ("estimated", "exact"))]  # fmt: skip
    means = {key: mean_and_error(runs[key]) for key in POOLED}
    rows = []
    for i, row in enumerate(exact):
        cells: list[str | float] = [signed(row["rho"])]
        for key in POOLED:
            cells += [float(means[key][0][i]), row[f"lcs/{key}"]]
        rows.append(cells)
    peak = max(exact, key=lambda row: row["lcs/average"])
    above = _where([row["rho"] for row in exact], [exceeds(row) for row in exact])
    description = (
        f"Exactly, the average has its largest LCS at ρ = {signed(peak['rho'])} ({peak['lcs/average']:.4f}), where the "
        f"members have {peak['lcs/x1']:.5f} and {peak['lcs/x2']:.5f}; it is above both {above}. Points: local "
        f"regression on {work.plan.rows:,} test rows, mean of {work.plan.runs} runs ± 2 standard errors."
    )
    words = ("Local calibration score against ρ (fig:averaging, right)", description)
    data = table("averaging-lcs-data", "LCS by ρ", columns, rows)
    return panels("averaging-lcs", words, lambda axes: lcs_by_rho(axes[0], runs, exact), data, size=(6.6, 3.9))


def _components_figure(terms: Runs, work: Work) -> Figure:
    columns = [("score", "score", "text"), ("when", "recalibration", "text"),
               *((f"{term}-{way}", f"{term}, {_WAYS[way]}", "number")
                 for term in ("reliability", "grouping") for way in WAYS)]  # fmt: skip
    kinds = [(term, way) for term in ("reliability", "grouping") for way in WAYS]
    rows = [
        [NAMES[key], when, *(_mean(terms, key, when, term, way) for term, way in kinds)]
        for key in SCORES
        for when in ("before", "after")
    ]
    note = (
        f"ρ = 0, {work.plan.rows:,} rows in each split, mean of {work.plan.runs} runs. Rounded: to the middle of five "
        "intervals of equal length (0.1, 0.3, 0.5, 0.7, 0.9). Maps and Ĉ: isotonic regression."
    )
    shown = {key: _mean(terms, key, "before", "grouping") for key in SCORES}
    description = (
        f"Exact grouping before: {_listed(shown, '.4f')}. Bars: estimates on test rows with known Q and an isotonic Ĉ, "
        "of the calibration rows before and of fresh rows after; lines: ± 2 standard errors; diamonds: exact values."
    )
    words = ("Reducible Brier terms before and after recalibration (fig:brier-reducible)", description)
    data = table("brier-terms", "Reducible Brier terms", columns, rows, note)
    return panels("brier-reducible", words, lambda axes: components(axes, terms), data, size=(7.4, 3.7), shape=(1, 2))


_WAYS = {"paper": "as the paper", "fresh": "Ĉ of fresh rows", "exact": "exact"}


def _numbers(
    work: Work, runs: Runs, exact: Sequence[dict[str, float]], curves: dict[str, MapCurve], terms: Runs
) -> dict[str, float]:
    """All that a later run is compared with."""
    found = {f"synthetic/{key}": float(values.mean()) for key, values in terms.items()}
    for key in POOLED:
        for row, mean in zip(exact, runs[key].mean(axis=1), strict=True):
            found[f"synthetic/lcs/{key}/{row['rho']:+.2f}"] = float(mean)
        found[f"synthetic/map/{key}"] = float(np.abs(curves[key].fitted - curves[key].exact).max())
    return found | claims_by_rho(work)[1]
