"""What the paper could not see: noise floor, debiased reliability, double use, the population, a reference law."""

from __future__ import annotations

from typing import Any

from scoreprism._kernels.paired_tests import corrected_t
from scoreprism.paper._beyond_figures import debiased_figure, double_use_figure, floor_figure, terms_figure
from scoreprism.paper._beyond_reference import (
    decompositions,
    estimates_sentence,
    known,
    reference_sentence,
    reference_table,
)
from scoreprism.paper._german_tests import OTHERS, compared, line_of
from scoreprism.paper._members import APART, HALF, PROTOCOLS, SAME, german_frame, german_main, over_splits
from scoreprism.paper._printed import LOSSES, METHODS
from scoreprism.paper._work import Outcome, Work
from scoreprism.pipelines import PairedComparison, PairedLine
from scoreprism.report import Notice, Section, Table
from scoreprism.report._model import Block, Cell
from scoreprism.report._pieces import ends, enumerated, pvalue, table

#: Numbers of one method under one loss: plug-in, floor, debiased, and the ends of its interval.
Row = tuple[float, float, float, float, float]


def beyond(work: Work) -> Outcome:
    """
    The noise floor, debiased reliability, double use, the population, and a reference law.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Outcome
        Without checks: the paper has none of these numbers.
    """
    from scoreprism.paper._population import claims_by_rho

    rows = reliabilities(work)
    paired = {name: compared(_frame(work, name), "reliability_plugin") for name in PROTOCOLS}
    by_rho, rho_numbers = claims_by_rho(work)
    blocks: tuple[Block, ...] = (
        _reliability_table(rows),
        floor_figure(german_main(work), _floor_description(rows)),
        debiased_figure(rows, _debiased_description(rows)),
        Notice("note", _interval_note(work)),
        _paired_table(work),
        double_use_figure(paired, _both_sentence(paired), _differences(paired)),
        Notice("warning", _flip_sentence(paired)),
        by_rho,
        reference_table(work),
        terms_figure(decompositions(work), estimates_sentence(work)),
        Notice("note", reference_sentence(work)),
    )
    meaning = f"{_floor_sentence(rows)} {_debiased_sentence(rows)}"
    numbers = _numbers(work, rows, paired) | rho_numbers
    return Outcome(Section("beyond", "What the paper could not see", meaning, blocks), (), numbers)


def _frame(work: Work, protocol: str, calibrator: str = "isotonic") -> Any:
    redraws = work.plan.redraws if calibrator == "isotonic" else 0
    return german_frame(work, calibrator=calibrator, protocol=protocol, redraws=redraws)


def reliabilities(work: Work) -> dict[tuple[str, str], Row]:
    """
    Mean plug-in reliability and noise floor under the paper's map, and debiased reliability under the default one.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    dict of (loss, method) to tuple of float
        Plug-in, floor, debiased, and the ends of its 95 % interval (corrected t).
    """
    paper, ours = german_main(work), _frame(work, SAME, "auto")
    ratio = float((ours["n_test"] / (ours["n_train"] + ours["n_calibration"])).mean())
    found = {}
    for loss in LOSSES:
        for method in METHODS:
            plugin, floor = (
                float(over_splits(paper, loss, method, c).mean()) for c in ("reliability_plugin", "noise_floor")
            )
            values = over_splits(ours, loss, method, "reliability")
            _, low, high = corrected_t(values, "two-sided", 0.95, ratio)
            found[loss, method] = (plugin, floor, float(values.mean()), low, high)
    return found


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────


def _reliability_table(rows: dict[tuple[str, str], Row]) -> Table:
    heads = [("loss", "loss", "text"), ("method", "method", "text"), ("plugin", "plug-in", "loss"),
             ("floor", "noise floor", "loss"), ("share", "floor, of the plug-in", "share"),
             ("debiased", "debiased (95 % interval)", "loss")]  # fmt: skip
    cells: list[list[Cell]] = [
        [LOSSES[loss], method, row[0], row[1], row[1] / row[0], ends(row[3], row[4], row[2])]
        for (loss, method), row in rows.items()
    ]
    note = (
        "Plug-in: the paper's column, by isotonic regression. Noise floor: what it would be for a perfectly calibrated "
        "score with the same values; labels of the calibration rows are redrawn from the scores themselves and the map "
        "is fitted again, the models and the stack are not. Debiased: what recalibration would gain."
    )
    return table("beyond-reliability", "How much of the reliability column is noise", heads, cells, note)


def _paired_table(work: Work) -> Table:
    heads = [("metric", "reliability", "text"), ("protocol", "stack and calibrator learn from", "text"),
             *((method, f"Δ {method}", "signed") for method in OTHERS), ("wins", "wins of stacking", "share"),
             ("wilcoxon", "Wilcoxon, Holm p", "pvalue"), ("t", "corrected t, Holm p", "pvalue")]  # fmt: skip
    cells: list[list[Cell]] = []
    metrics = (("plug-in, isotonic", "reliability_plugin", "isotonic"), ("debiased, mixture", "reliability", "auto"))
    for words, metric, calibrator in metrics:
        for protocol in PROTOCOLS:
            found = compared(_frame(work, protocol, calibrator), metric)
            stack = line_of(found, "stacking")
            deltas = [line_of(found, method).mean for method in OTHERS]
            cells.append([words, protocol, *deltas, stack.win_rate, stack.wilcoxon_p_holm, stack.t_p_holm])
    note = "Δ = method − average under log loss. Wins and p-values are of stacking, against the average."
    return table("beyond-paired", "Is stacking more reliable than averaging?", heads, cells, note)


def _differences(paired: dict[str, PairedComparison]) -> Table:
    heads = [("protocol", "stack and calibrator learn from", "text"), ("method", "method", "text"),
             ("mean", "Δ mean", "signed"), ("interval", "95 % interval", "signed"),
             ("wins", "wins", "share")]  # fmt: skip
    cells: list[list[Cell]] = [
        [name, line.method, line.mean, ends(line.low, line.high), line.win_rate]
        for name, found in paired.items()
        for line in found.lines
    ]
    return table("beyond-differences", "Differences from the average", heads, cells)


# ── sentences ───────────────────────────────────────────────────────────────────────────────────────


def _floor_sentence(rows: dict[tuple[str, str], Row]) -> str:
    shares = {method: rows["log", method][1] / rows["log", method][0] for method in METHODS}
    below = [method for method in METHODS if shares[method] > 1]
    start = (
        f"Under log loss a perfectly calibrated score would show {shares['average']:.0%} of the average's plug-in "
        f"reliability, {rows['log', 'average'][1]:.3f} of {rows['log', 'average'][0]:.3f}."
    ).replace("%", " %")
    if not below:
        return start
    return f"{start} The plug-in of {enumerated(below)} lies below what a calibrated score would show."


def _debiased_sentence(rows: dict[tuple[str, str], Row]) -> str:
    above = [method for method in METHODS if rows["log", method][3] > 0]
    values = ", ".join(f"{method} {rows['log', method][2]:+.3f}".replace("-", "−") for method in METHODS)
    shown = f"is above 0 for {enumerated(above)}" if above else "is not above 0 for any method"
    return f"Debiased reliability under log loss ({values}) {shown}, as far as 95 % intervals over splits tell."


def _floor_description(rows: dict[tuple[str, str], Row]) -> str:
    above = {LOSSES[loss]: [m for m in METHODS if rows[loss, m][0] > rows[loss, m][1]] for loss in LOSSES}
    told = "; ".join(f"{loss}: {enumerated(methods) if methods else 'none'}" for loss, methods in above.items())
    return f"Points are splits, diamonds their means, bars mean noise floors. Means above the floor, {told}."


def _debiased_description(rows: dict[tuple[str, str], Row]) -> str:
    low = {LOSSES[loss]: [m for m in METHODS if rows[loss, m][3] > 0] for loss in LOSSES}
    told = "; ".join(f"{loss}: {enumerated(methods) if methods else 'none'}" for loss, methods in low.items())
    return f"Means over splits; plug-in and noise floor as above. Debiased intervals that lie above 0, {told}."


def _interval_note(work: Work) -> str:
    return (
        f"Intervals are of the mean over {work.plan.splits} splits, widened for the rows that splits share (Nadeau & "
        "Bengio 2003), and cautious for reliabilities. Debiased reliability is raw loss − recalibrated loss + spread "
        "of the fitted map, with the default mixture of maps: it may be negative."
    )


def _both_sentence(paired: dict[str, PairedComparison]) -> str:
    parts = [
        f"{name}: " + ", ".join(f"{line.method} {line.mean:+.4f}" for line in found.lines)
        for name, found in paired.items()
    ]
    told = f"Every split, the mean and its interval; p by the corrected t-test. Means, {'; '.join(parts)}."
    return told.replace(" -", " −")


def _flip_sentence(paired: dict[str, PairedComparison]) -> str:
    same, half, apart = (line_of(paired[name], "stacking") for name in (SAME, HALF, APART))
    rows = PROTOCOLS[SAME][0]
    told = (
        f"Where stack and calibrator learn from the same {rows} rows, stacking's reliability differs from the "
        f"average's by {same.mean:+.4f} ({_percent(same)} wins, Wilcoxon {pvalue(same.wilcoxon_p_holm)}); from the "
        f"same {rows // 2} rows by {half.mean:+.4f} ({_percent(half)} wins); from {rows // 2} rows each, which are "
        f"not the same, by {apart.mean:+.4f} ({_percent(apart)} wins, {pvalue(apart.wilcoxon_p_holm)})"
    ).replace("-0", "−0")
    return f"{told}: {_cause(same.mean, half.mean, apart.mean)}"


def _percent(line: PairedLine) -> str:
    return f"{100 * line.win_rate:.0f} %"


def _cause(same: float, half: float, apart: float) -> str:
    """What turns the sign: fewer rows alone, or rows that are not shared."""
    if same * apart >= 0:
        return "the sign stays."
    if same * half > 0:
        return "the sign flips, and not because there are fewer rows."
    return "the sign flips, with fewer rows alone too."


def _numbers(work: Work, rows: dict[tuple[str, str], Row], paired: dict[str, PairedComparison]) -> dict[str, float]:
    found: dict[str, float] = {}
    for (loss, method), row in rows.items():
        names = ("plugin", "floor", "debiased", "debiased-low", "debiased-high")
        found |= {f"beyond/{name}/{loss}/{method}": value for name, value in zip(names, row, strict=True)}
    for method in OTHERS:
        found[f"beyond/half/{method}"] = line_of(paired[HALF], method).mean
        found[f"beyond/halves/{method}"] = line_of(paired[APART], method).mean
    for loss, methods in decompositions(work).items():
        for method, one in methods.items():
            reliability, grouping, irreducible = known(one)
            found |= {f"beyond/terms/{loss}/{method}/{name}": value for name, value in one.terms.items()}
            found[f"beyond/terms/{loss}/{method}/reliability-high"] = float(reliability.high or 0.0)
            found[f"beyond/terms/{loss}/{method}/grouping-low"] = float(grouping.low or 0.0)
            found[f"beyond/terms/{loss}/{method}/irreducible-high"] = float(irreducible.high or 0.0)
    return found
