"""Examples and theorems of the paper, exactly: a row for each statement, and what the two examples come to."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.checks import Check, beside, checks_table, marked, scientific
from reproduction.drawing import grid_figure
from reproduction.identities import EXACT, average_model
from reproduction.statements import STATEMENTS, Statement
from reproduction.work import Outcome, Work
from scoreprism._core.simplex import FloatArray
from scoreprism.displays._style import Inks
from scoreprism.finite import FiniteModel
from scoreprism.report import Figure, Section, Table
from scoreprism.report._pieces import enumerated, table

_TERMS = ("reliability", "grouping", "irreducible")


def theorems(work: Work) -> Outcome:
    """
    All statements on finite populations, and the examples beside what the paper prints.

    Parameters
    ----------
    work : Work
        Where to run.

    Returns
    -------
    Outcome
        A check for each statement.
    """
    errors = work.run("statements", _largest, [one.label for one in STATEMENTS], "statements")
    found = [(one, int(cases), float(error)) for one, (cases, error) in zip(STATEMENTS, errors, strict=True)]
    proofs = [_check(statement, error) for statement, _, error in found]
    values = _values()
    examples = _examples(values)
    blocks = (
        _statements_table(found),
        checks_table("examples-printed", "The two examples beside the paper", examples),
        _values_table(values),
        _figure(values),
    )
    section = Section("theorems", "Examples and theorems, exactly", _meaning(found, examples), blocks)
    numbers = {f"theorems/{example}/{name}": value for (example, name), (value, _) in values.items()}
    return Outcome(section, (*proofs, *examples), numbers)


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def _largest(label: str) -> tuple[int, float]:
    return next(one for one in STATEMENTS if one.label == label).largest()


def _check(statement: Statement, error: float) -> Check:
    verdict = "reproduced" if error < EXACT else "not reproduced"
    return Check(f"theorems/{statement.label}", statement.place, statement.what, 0.0, error, EXACT, verdict)


def _statements_table(found: list[tuple[Statement, int, float]]) -> Table:
    columns = [("place", "statement", "text"), ("what", "what it says", "text"), ("by", "computed by", "text"),
               ("cases", "cases", "count"), ("error", "largest error", "text"),
               ("verdict", "verdict", "text")]  # fmt: skip
    rows = [
        (one.number, one.what, one.computed_by, cases, scientific(error, 0), marked(_check(one, error).verdict))
        for one, cases, error in found
    ]
    note = (
        "Cases are losses × numbers of classes × forms of the decomposition × random populations of 16 states. The "
        "error is the largest difference between the two sides, the right one summed over states without the library's "
        "decomposition; of an inequality or an “only if”, by how much it is violated. A statement holds if it is below "
        f"{scientific(EXACT, 0)}."
    )
    return table("statements", "Every statement of the paper on finite populations", columns, rows, note)


def _meaning(found: list[tuple[Statement, int, float]], examples: list[Check]) -> str:
    broken = [one.place for one, _, error in found if error >= EXACT]
    tried, worst = sum(cases for _, cases, _ in found), max(error for _, _, error in found)
    same = sum(check.verdict == "reproduced" for check in examples)
    holds = (
        f"All {len(found)} statements hold to rounding: in {tried:,} cases the largest error is {scientific(worst, 0)}."
        if not broken
        else f"{len(found) - len(broken)} of {len(found)} statements hold to rounding; not {enumerated(broken)}."
    )
    return f"{holds} Of the {len(examples)} numbers printed in the two examples, {same} are the same."


# ── examples ────────────────────────────────────────────────────────────────────────────────────────


def _values() -> dict[tuple[str, str], tuple[float, str]]:
    """What the examples come to, by example and name: computed, and as a formula."""
    constant, states = np.array([0.5, 0.5]), np.arange(2)
    lost = FiniteModel([0.5, 0.5], [0.9, 0.1])
    model, first, second = average_model()
    mean = (first + second) / 2
    calibrated = model.level(mean)
    pair = np.arange(4)
    return (
        _terms("2.4", "constant", lost, constant, states, "brier", ("0", "4/25", "9/100"))
        | _terms("2.4", "constant", lost, constant, states, "log", ("0", "log 2 − H(0.9)", "H(0.9)"))
        | _terms("5.2", "member", model, first, pair, "brier", ("0", "1/16", "1/8"))
        | _terms("5.2", "average", model, mean, pair, "brier", ("1/32", "0", "1/8"))
        | _terms("5.2", "recalibrated average", model, calibrated, pair, "brier", ("0", "0", "1/8"))
        | _terms("5.2", "average", model, mean, pair, "log", ("log(4/3)/2", "0", "log(2)/2"))
        | {
            ("5.2", "P(average = 0.25)"): (float(model.prob[mean == 0.25].sum()), "1/4"),
            ("5.2", "P(Y=1 | average = 0.25)"): (float(calibrated[mean == 0.25][0]), "0"),
        }
    )


def _terms(
    example: str, name: str, model: FiniteModel, score: FloatArray, finest: Any, loss: str, formulas: tuple[str, ...]
) -> dict[tuple[str, str], tuple[float, str]]:
    terms = model.decompose(score, [score, finest], loss).terms
    return {
        (example, f"{name}/{loss}/{term}"): (terms[term], formula)
        for term, formula in zip(_TERMS, formulas, strict=True)
    }


def _examples(values: dict[tuple[str, str], tuple[float, str]]) -> list[Check]:
    printed = {
        "calibrated-yet-grouping/brier": ("2.4", "constant/brier/grouping"),
        "calibrated-yet-grouping/reliability": ("2.4", "constant/brier/reliability"),
        "avg-breaks-calibration/mass": ("5.2", "P(average = 0.25)"),
        "avg-breaks-calibration/calibrated": ("5.2", "P(Y=1 | average = 0.25)"),
    }
    return [beside(key, values[name][0]) for key, name in printed.items()]


def _values_table(values: dict[tuple[str, str], tuple[float, str]]) -> Table:
    """One row for each score and loss."""
    cells: dict[tuple[str, str, str], list[str]] = {}
    for (example, name), (value, formula) in values.items():
        if "/" in name:
            score, loss, _ = name.split("/")
            row = cells.setdefault((example, score, "log loss" if loss == "log" else "Brier"), [])
            row.append(f"{value:.5f} = {formula}" if value else "0")
    columns = [("example", "example", "text"), ("score", "score", "text"), ("loss", "loss", "text"),
               *((term, term, "text") for term in _TERMS)]  # fmt: skip
    rows = [(*key, *row) for key, row in cells.items()]
    note = "The paper prints reliability and Brier grouping of Example 2.4 only. H is the entropy of a coin, in nats."
    return table("example-values", "What the two examples come to", columns, rows, note)


def _figure(values: dict[tuple[str, str], tuple[float, str]]) -> Figure:
    model, first, second = average_model()
    mean = (first + second) / 2
    bars = {
        name: [values["5.2", f"{key}/brier/{term}"][0] for term in _TERMS]
        for name, key in (("each\nmember", "member"), ("their\naverage", "average"),
                          ("average,\nrecalibrated", "recalibrated average"))
    }  # fmt: skip
    calibrated = model.level(mean)

    def draw(axes: Any) -> None:
        _draw_calibration(axes[0, 0], np.unique(first), mean, calibrated)
        _draw_bars(axes[0, 1], bars)

    member, average, repaired = (sum(parts) for parts in bars.values())
    description = (
        f"Left: both members lie on the diagonal; where their average is {mean.min():g} the event has probability "
        f"{calibrated.min():g}, where it is {mean.max():g}, {calibrated.max():g}. Right: Brier score {member:.4f} of "
        f"each member, {average:.4f} of the average, {repaired:.4f} of the average once recalibrated."
    )
    rows = [
        (float(a), float(b), float(m), float(c)) for a, b, m, c in zip(first, second, mean, calibrated, strict=True)
    ]
    columns = [("first", "first score", "short"), ("second", "second score", "short"), ("mean", "average", "short"),
               ("calibrated", "P(Y=1 | average)", "short")]  # fmt: skip
    data = table("example-average-data", "The four states of Example 5.2", columns, rows)
    title = "Example 5.2: averaging two calibrated scores breaks calibration, and gains information"
    return grid_figure("example-average", title, description, draw, data, size=(7.4, 3.4), shape=(1, 2))


def _draw_calibration(ax: Any, members: FloatArray, mean: FloatArray, calibrated: FloatArray) -> None:
    inks = Inks.of(ax)
    ax.plot([0, 1], [0, 1], color=inks.faint, linewidth=1)
    values, place = np.unique(mean, return_index=True)
    for s, c in zip(values, calibrated[place], strict=True):
        if s != c:
            ax.annotate("", (s, c), (s, s), arrowprops={"arrowstyle": "->", "color": inks.line("reliability"),
                                                        "shrinkA": 6, "shrinkB": 6, "linewidth": 1.4})  # fmt: skip
    ax.plot(members, members, "o", markersize=11, markerfacecolor="none", markeredgewidth=1.4,
            color=inks.model(0)["color"], label="each member")  # fmt: skip
    ax.plot(values, calibrated[place], "s", color=inks.model(1)["color"], label="their average")
    ax.set(xlabel="score", ylabel="P(Y=1 | score)", title="Calibration", xlim=(-0.04, 1.04), ylim=(-0.06, 1.06))
    ax.set_aspect("equal")
    ax.legend(loc="upper left")
    inks.dress(ax)


def _draw_bars(ax: Any, bars: dict[str, list[float]]) -> None:
    inks, below = Inks.of(ax), np.zeros(len(bars))
    for i in reversed(range(len(_TERMS))):
        heights = np.array([parts[i] for parts in bars.values()])
        ax.bar(range(len(bars)), heights, 0.58, bottom=below, color=inks.term(_TERMS[i]), label=_TERMS[i])
        for x, (height, base) in enumerate(zip(heights, below, strict=True)):
            if height > 0:
                ax.text(x + 0.33, base + height / 2, f"1/{1 / height:.0f}", va="center", color=inks.ink)
        below += heights
    ax.set_xticks(range(len(bars)), list(bars))
    ax.set_xlim(-0.45, len(bars) - 0.3)
    ax.set(ylabel="Brier score", title="Where the loss comes from", ylim=(0, float(below.max()) * 1.32))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="upper right", ncols=3, columnspacing=1.0, handlelength=1.0)
    inks.dress(ax)
