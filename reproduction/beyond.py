"""What the paper could not see: noise floor, debiased reliability, double use, the population, a reference law."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.stats import t as student

from reproduction.german import OTHERS, compare_methods, find_line
from reproduction.members import APART, CLIP, HALF, PROTOCOLS, SAME, fit_members, run_protocol, take_values
from reproduction.pieces import INK, figure, minus, pvalue, table
from reproduction.population import name_numbers, tabulate_population
from reproduction.statements import LOSSES, METHODS
from reproduction.work import Outcome, Work, once
from scoreprism import decompose
from scoreprism.datasets import load_german_credit
from scoreprism.decomposition import Decomposition
from scoreprism.ensembles import Stacking, average
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.pipelines import PairedComparison, splits_summary
from scoreprism.report import Figure, Paragraph, Section, Table

#: Folds that scores are out of, and folds inside them that the stack learns from.
_OUTER, _INNER = 10, 5
_LEVEL = 0.95
#: What the label of an axis says where extreme splits are drawn at its ends.
_EDGES = "beyond the edges"


def run(work: Work) -> Outcome:
    """Look at the noise floor, debiased reliability, double use, the population, and a reference law; no checks."""
    reliability = measure_reliability(work)
    paired = {name: compare_methods(run_protocol(work, "isotonic", name), "reliability_plugin") for name in PROTOCOLS}
    interval_note = (
        f"Intervals are of the mean over {work.plan.splits} splits, widened for the rows that splits share (Nadeau & "
        "Bengio 2003), and cautious for reliabilities. Debiased reliability is raw loss − recalibrated loss + spread "
        "of the fitted map, with the default mixture of maps: it may be negative."
    )
    blocks = (
        _tabulate_reliability(reliability),
        _draw_floor(work),
        Paragraph(interval_note),
        _tabulate_paired(work),
        _draw_double_use(paired),
        Paragraph(explain_double_use(paired)),
        tabulate_population(work),
        _tabulate_terms(work),
    )
    lead = (
        "How much of the paper's reliability column is noise, and what its one significant result owes to double use."
    )
    numbers = {f"beyond/{name}/{loss}/{method}": value for (loss, method), row in reliability.items()
               for name, value in row.items()}  # fmt: skip
    for method in OTHERS:
        numbers[f"beyond/half/{method}"] = find_line(paired[HALF], method).mean
        numbers[f"beyond/halves/{method}"] = find_line(paired[APART], method).mean
    for loss, methods in split_terms(work).items():
        for method, one in methods.items():
            key = f"beyond/terms/{loss}/{method}"
            numbers |= {f"{key}/{name}": value for name, value in one.terms.items()}
            numbers |= {f"{key}/{name}": value for name, value in find_bounds(one).items()}
    section = Section("beyond", "What the paper could not see", (), (Paragraph(lead), *blocks))
    return Outcome(section, (), numbers | name_numbers(work))


# ── the noise floor ─────────────────────────────────────────────────────────────────────────────────


def measure_reliability(work: Work) -> dict[tuple[str, str], dict[str, float]]:
    """
    Measure mean plug-in reliability and noise floor under the paper's map, and debiased reliability under the default.

    The interval of the last is that of the corrected t-test: splits share rows.
    """
    paper, ours = run_protocol(work), run_protocol(work, "auto")
    ratio = float((ours["n_test"] / (ours["n_train"] + ours["n_calibration"])).mean())
    found = {}
    for loss in LOSSES:
        for method in METHODS:
            values = take_values(ours, loss, method, "reliability")
            error = np.sqrt((1.0 / values.size + ratio) * values.var(ddof=1))
            half = float(student(values.size - 1).ppf(0.5 + 0.5 * _LEVEL) * error)
            found[loss, method] = {
                "plugin": float(take_values(paper, loss, method, "reliability_plugin").mean()),
                "floor": float(take_values(paper, loss, method, "noise_floor").mean()),
                "debiased": float(values.mean()),
                "debiased-low": float(values.mean()) - half,
                "debiased-high": float(values.mean()) + half,
            }
    return found


def _tabulate_reliability(found: dict[tuple[str, str], dict[str, float]]) -> Table:
    rows = [
        {"loss": LOSSES[loss], "method": method, "floor, of the plug-in": row["floor"] / row["plugin"]} | row
        for (loss, method), row in found.items()
    ]
    note = (
        "Plug-in: the paper's column, by isotonic regression. Noise floor: what it would be for a perfectly calibrated "
        "score with the same values; labels of the calibration rows are redrawn from the scores themselves and the map "
        "is fitted again, the models and the stack are not. Debiased, with its 95 % interval: what recalibration would "
        "gain."
    )
    kinds = {"floor, of the plug-in": "share"}
    return table("beyond-reliability", "How much of the reliability column is noise", rows, note, kinds)


def _draw_floor(work: Work) -> Figure:
    # The debiased reliability under a map that reaches 0 and 1 is ruled by single rows: it is left out here.
    summary = splits_summary(run_protocol(work).drop("reliability"))

    def draw(axes: Any) -> None:
        for ax, loss in zip(axes, LOSSES, strict=True):
            summary.plot(ax=ax, loss=loss)
            ax.set_title(LOSSES[loss], loc="left", color=INK.ink, pad=9)
            ax.set_xlabel(ax.get_xlabel().replace(f" ({loss})", ""))
        _keep_last_legend(axes)

    title = "Plug-in reliability in every split, and what a calibrated score would show"
    description = "Points are splits, diamonds their means, bars mean noise floors."
    return figure("beyond-noise-floor", title, description, draw, size=(6.8, 5.8), shape=(2, 1))


def _keep_last_legend(axes: Any) -> None:
    """Leave the legend below the last of several panels that have the same."""
    for ax in axes[:-1]:
        ax.get_legend().remove()
        ax.set_xlabel("\n".join(line for line in ax.get_xlabel().split("\n") if _EDGES in line))


# ── double use ──────────────────────────────────────────────────────────────────────────────────────


def _tabulate_paired(work: Work) -> Table:
    rows = []
    metrics = (("plug-in, isotonic", "reliability_plugin", "isotonic"), ("debiased, mixture", "reliability", "auto"))
    for words, metric, calibrator in metrics:
        for protocol in PROTOCOLS:
            found = compare_methods(run_protocol(work, calibrator, protocol), metric)
            stack = find_line(found, "stacking")
            rows.append(
                {"reliability": words, "stack and calibrator learn from": protocol}
                | {f"Δ {line.method}": line.mean for line in found.lines}
                | {"wins of stacking": stack.win_rate}
                | {"Wilcoxon, Holm p": stack.wilcoxon_p_holm, "corrected t, Holm p": stack.t_p_holm}
            )
    kinds = {"wins of stacking": "share", "Wilcoxon, Holm p": "pvalue", "corrected t, Holm p": "pvalue"}
    note = "Δ = method − average under log loss. Wins and p-values are of stacking, against the average."
    return table("beyond-paired", "Is stacking more reliable than averaging?", rows, note, kinds)


def _draw_double_use(paired: dict[str, PairedComparison]) -> Figure:
    rows = [
        {"learn from": name, "method": line.method, "Δ mean": line.mean, "low": line.low, "high": line.high}
        for name, found in paired.items()
        for line in found.lines
    ]

    def draw(axes: Any) -> None:
        for ax, (name, comparison) in zip(axes, paired.items(), strict=True):
            comparison.plot(ax=ax)
            ax.set_title(f"stack and calibrator: {name}", loc="left", color=INK.ink, pad=9)
        if not any(_EDGES in ax.get_xlabel() for ax in axes):  # what is drawn at an edge must stay there
            ends = [end for ax in axes for end in ax.get_xlim()]
            for ax in axes:
                ax.set_xlim(min(ends), max(ends))
        _keep_last_legend(axes)

    title = "Reliability against the average's: stack and calibrator on the same rows, and on different ones"
    description = "Every split, the mean and its interval; p by the corrected t-test."
    return figure("beyond-double-use", title, description, draw, rows, size=(6.8, 8.1), shape=(3, 1))


def explain_double_use(paired: dict[str, PairedComparison]) -> str:
    """Say how stacking's difference from the average depends on the rows that stack and calibrator learn from."""
    same, half, apart = (find_line(paired[name], "stacking") for name in (SAME, HALF, APART))
    rows = PROTOCOLS[SAME][0]
    wins = [f"{100 * line.win_rate:.0f} % wins" for line in (same, half, apart)]
    told = (
        f"Where stack and calibrator learn from the same {rows} rows, stacking's reliability differs from the "
        f"average's by {same.mean:+.4f} ({wins[0]}, Wilcoxon {pvalue(same.wilcoxon_p_holm)}); from the same "
        f"{rows // 2} rows by {half.mean:+.4f} ({wins[1]}); from {rows // 2} rows each, which are not the same, by "
        f"{apart.mean:+.4f} ({wins[2]}, {pvalue(apart.wilcoxon_p_holm)})"
    )
    if same.mean * apart.mean >= 0:
        cause = "the sign stays"
    elif same.mean * half.mean > 0:
        cause = "the sign flips, and not because there are fewer rows"
    else:
        cause = "the sign flips, with fewer rows alone too"
    return f"{minus(told)}: {cause}."


# ── a reference law ─────────────────────────────────────────────────────────────────────────────────


def score_fold(task: dict[str, int]) -> dict[str, Any]:
    """Score one fold by methods that have not seen it; the stack learns from out-of-fold scores of the others."""
    from sklearn.model_selection import StratifiedKFold

    y, fold = load_german_credit().y, task["fold"]

    def score_members(rows: np.ndarray) -> np.ndarray:
        return np.column_stack(list(fit_members(rows, task["trees"], fold).values()))

    train, test = list(StratifiedKFold(_OUTER, shuffle=True, random_state=0).split(y, y))[fold]
    learned = np.empty((train.size, 2))
    for one, other in StratifiedKFold(_INNER, shuffle=True, random_state=fold).split(train, y[train]):
        learned[other] = score_members(train[one])[train[other]]
    members = score_members(train)[test]
    stack = Stacking(on="probability").fit(learned, y[train])
    found = {"glm": members[:, 0], "forest": members[:, 1], "average": average(list(members.T))}
    return {"rows": test, **found, "stacking": stack.predict_proba(members)[:, 1]}


@once
def split_terms(work: Work) -> dict[str, dict[str, Decomposition]]:
    """Split the losses of every method into three terms, by loss, then by method."""
    tasks = [{"fold": fold, "trees": work.plan.trees} for fold in range(_OUTER)]
    data, found = load_german_credit(), work.run("german-folds", score_fold, tasks, "German credit: folds")
    scores = {method: np.empty(data.y.size) for method in METHODS}
    for part in found:
        for method, S in scores.items():
            S[part["rows"]] = part[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)  # the table says what is known
        chains = {
            method: decompose(data.y, S, data.X, clip=CLIP, random_state=0, n_jobs=work.n_jobs).chain
            for method, S in scores.items()
        }
        return {loss: {method: chains[method].decompose(loss, clip=CLIP) for method in METHODS} for loss in LOSSES}


def find_bounds(one: Decomposition) -> dict[str, float]:
    """Find what is known of the three terms: the end of an interval, a lower bound, an upper bound."""
    return {
        "reliability-high": one.interval("reliability", _LEVEL).high,
        "grouping-low": max(one.lower_bound("grouping", _LEVEL).value, 0.0),
        "irreducible-high": one.upper_bound("irreducible", _LEVEL).value,
    }


def _tabulate_terms(work: Work) -> Table:
    rows = [
        {"loss": LOSSES[loss], "method": method, "value": one.risk} | one.terms | find_bounds(one)
        for loss, methods in split_terms(work).items()
        for method, one in methods.items()
    ]
    note = (
        "Estimates, and what is known at 95 %, each method by itself. Grouping has no upper bound and irreducible loss "
        "no lower one: finer information could always explain more. These scores are of models of 900 rows, judged on "
        "all 1000; the intervals over splits are of models of 600, judged on 200 at a time."
    )
    title = f"Three terms with a reference law P(Y | X): scores out of {_OUTER} folds, all 1000 rows"
    return table("beyond-terms", title, rows, note)
