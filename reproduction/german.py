"""German credit (section 6.2, appendix D.2): every number and statement beside ours, over the same kind of splits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from reproduction.checks import RULES, Check, judge, tabulate_checks
from reproduction.members import (
    APART,
    CLIP,
    Laws,
    collect_laws,
    fit_split,
    make_splits,
    recalibrate_methods,
    run_protocol,
    take_values,
)
from reproduction.pieces import (
    INK,
    colour,
    figure,
    list_rows,
    list_words,
    minus,
    pvalue,
    share_legend,
    table,
    thin,
)
from reproduction.statements import LOSSES, METHODS, STATEMENTS, Statement, select
from reproduction.work import Outcome, Work, once
from scoreprism.calibrators import MonotoneSplineCalibrator
from scoreprism.datasets import load_german_credit
from scoreprism.exceptions import DoubleUseWarning
from scoreprism.pipelines import PairedComparison, PairedLine, paired_comparison
from scoreprism.report import Figure, Paragraph, Section, Table

#: What is compared with the average: columns of the frame, in words; and the methods.
METRICS = {"recalibrated": "recalibrated log loss", "reliability_plugin": "reliability (log)"}
OTHERS = METHODS[1:]
#: The number of the paper that ours do not reach.
FOREST = "robustness/log/recalibrated/forest"
#: Calibrators of the statement on other maps; the first is the paper's.
_MAPS = ("isotonic", "platt", "spline")
#: Of the tests.
_ALPHA = 0.05
#: A distance falls substantially if it falls by this share or more.
_SUBSTANTIAL = 1 / 3
#: A mean loss that moves by less than this is as it was.
_UNCHANGED = 5e-5
#: Before and after recalibration, and the colour of each: the paper's green and red, told apart by everyone.
SIDES = {"raw": 2, "recalibrated": 1}
#: Tables of the page: name, heading, and how the names of their numbers begin.
_TABLES = (
    ("german-log", "Log loss, means over splits (tab:robustness)", "robustness/log/"),
    ("german-brier", "Brier, means over splits (tab:robustness)", "robustness/brier/"),
    ("german-tests", "Paired comparisons with the average (tab:germancredit-tests)", "tests/"),
    ("german-spreads", "Standard deviations over splits, and of paired differences", "spread/"),
    ("german-gains", "One split of the paper among ours, whose median is shown (tab:germancredit-gains)", "gains/"),
)


def run(work: Work) -> Outcome:
    """Run the German credit study."""
    frame, plan = run_protocol(work), work.plan
    numbers = [judge_number(work, one) for one in select("german", *RULES) if one.rule != "claim"]
    others = [draw_conclusions(run_protocol(work, name)) for name in _MAPS]
    claims = [
        judge_curve(work),
        judge_losses(frame),
        judge_stacking(frame, run_protocol(work, "isotonic", APART)),
        judge_differences(frame),
        judge_maps(others),
    ]
    protocol = (
        f"{plan.splits} splits of 1000 rows, each a permutation of its seed: 600 rows train a logistic regression as "
        f"R's glm and a forest of {plan.trees} trees, 200 calibrate (isotonic regression) and stack, 200 test. Scores "
        "are clipped at 10⁻⁶ before a loss is taken. Standard errors take splits for independent, as in the paper; "
        "they share rows, for which the corrected t-test (Nadeau & Bengio 2003) allows."
    )
    blocks = (
        Paragraph(protocol),
        tabulate_checks("german-claims", "Statements about German credit", claims),
        *(
            tabulate_checks(key, title, [one for one in numbers if one.key.startswith(start)])
            for key, title, start in _TABLES
        ),
        compare_tables(frame),
        draw_curves(work),
        draw_summary(work),
        tabulate_conclusions(others),
    )
    lead = "100 numbers of three tables, and five statements. The paper's single split is looked up among ours."
    section = Section("german", "German credit", (), (Paragraph(lead), *blocks))
    return Outcome(section, [*numbers, *claims], _name_numbers(work, numbers))


def _name_numbers(work: Work, checks: list[Check]) -> dict[str, float]:
    """Name our numbers by the paper's keys, and those that it does not have."""
    found, frame = {f"german/{check.key}": check.ours for check in checks}, run_protocol(work)
    for loss, method in product(LOSSES, METHODS):
        found[f"german/noise-floor/{loss}/{method}"] = take_values(frame, loss, method, "noise_floor").mean()
    for metric in METRICS:
        lines = compare_methods(frame, metric).lines
        found |= {f"german/corrected-t/{metric}/{line.method}": line.t_p_holm for line in lines}
    if work.plan.more:
        found |= {f"german/more/{method}": values.mean() for method, values in run_more(work).items()}
    clip = match_clip(collect_laws(work)["forest"], STATEMENTS[FOREST].value)
    return found | ({} if clip is None else {"german/forest-clip": clip})


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────


def judge_number(work: Work, statement: Statement) -> Check:
    """Set one number beside the paper's; the table says where ours comes from."""
    frame, source = run_protocol(work), statement.source.split("/")
    if statement.rule.startswith("p-"):
        line = find_line(compare_methods(frame, source[2]), source[1])
        fewer = f"From {line.n_splits} of the paper's {statement.runs} splits."
        return judge(statement.key, line.wilcoxon_p_holm, fewer if line.n_splits < statement.runs else "")
    values = take_values(frame, *source)
    check = judge(statement.key, values, explain_forest(work) if statement.key == FOREST else "")
    if statement.rule == "spread" and check.verdict == "not reproduced":
        return replace(check, why=explain_spread(frame, check))
    return check


def compare_methods(frame: Any, metric: str, alternative: str = "less") -> PairedComparison:
    """Compare methods with the average under log loss, without a warning: the page says what it would say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubleUseWarning)
        return paired_comparison(frame, baseline="average", metric=metric, loss="log", alternative=alternative)


def find_line(found: PairedComparison, method: str) -> PairedLine:
    """Find the line of a method."""
    return found[f"{method}, log"]


def explain_spread(frame: Any, check: Check) -> str:
    """Say how far off a standard deviation is, and what it implies with the others."""
    statement = STATEMENTS[check.key]
    loss, method, column, *baseline = statement.source.split("/")
    told = f"Ours is {abs(check.ours - check.paper) / check.tolerance:.2f} tolerances away."
    splits = take_values(frame, loss, method, column).size
    if splits < statement.runs:
        few = "so few tell little of heavy tails, and of the tolerance."
        told += f" From {splits} of the paper's {statement.runs} splits: {few}"
    if not baseline:
        return told
    one, base = (STATEMENTS[f"spread/robustness/log/{column}/{name}"].value for name in (method, "average"))
    implied = (one**2 + base**2 - check.paper**2) / (2 * one * base)
    ours = float(np.corrcoef([take_values(frame, "log", name, column) for name in (method, "average")])[0, 1])
    return minus(
        f"{told} With the standard deviations of tab:robustness it implies a correlation of {implied:+.2f} between "
        f"{method} and average; ours is {ours:+.2f}."
    )


def explain_forest(work: Work) -> str:
    """Say what the paper's other table implies for the forest, and what more splits do."""
    printed, values = STATEMENTS[FOREST].value, take_values(run_protocol(work), "log", "forest", "recalibrated")
    implied = (
        STATEMENTS["robustness/log/recalibrated/average"].value + STATEMENTS["tests/recalibrated/forest/mean"].value
    )
    ours, far = values.mean(), _count_tolerances(values)
    told = (
        f"The paper's paired table implies {implied:.3f} for it (average plus difference), which is "
        f"{abs(ours - implied):.3f} from ours and {abs(printed - implied):.3f} from the printed {printed:.3f}. "
        f"Ours is {far:.2f} tolerances from the printed one"
    )
    if work.plan.more:
        more = run_more(work)["forest"]
        told += f"; over {more.size} splits, {more.mean():.3f} and {_count_tolerances(more):.2f} tolerances"
    elif 0.75 < far < 1.25:
        told += ": so near to 1 that another seed of the forest may decide otherwise"
    return f"{told}."


def _count_tolerances(values: np.ndarray) -> float:
    check = judge(FOREST, values)
    return abs(check.ours - check.paper) / check.tolerance


# ── the forest's number: more splits, another clip ──────────────────────────────────────────────────


@once
def run_more(work: Work) -> dict[str, np.ndarray]:
    """Find recalibrated log losses over more splits than the paper's, by method."""
    tasks = [{"split": work.plan.splits + r, "trees": work.plan.trees} for r in range(work.plan.more)]
    found = work.run("german-more", recalibrate_split, tasks, "German credit: more splits")
    before = {method: take_values(run_protocol(work), "log", method, "recalibrated") for method in METHODS}
    return {method: np.append(before[method], [one[method] for one in found]) for method in METHODS}


def recalibrate_split(task: dict[str, int]) -> dict[str, float]:
    """Find the recalibrated log loss of every method in one split."""
    y = load_german_credit().y
    _, calibration, test = make_splits(task["split"] + 1)[-1]
    laws = recalibrate_methods(fit_split(task), y, calibration, test)
    return {method: clip_log_loss(Laws(raw, after, y[test]), CLIP) for method, (raw, after) in laws.items()}


def clip_log_loss(laws: Laws, clip: float) -> float:
    """Find the mean log loss after recalibration, scores kept so far from 0 and 1."""
    C = np.clip(laws.recalibrated, clip, 1.0 - clip)
    return float(-np.log(np.where(laws.y == 1, C, 1.0 - C)).mean())


def match_clip(laws: Laws, wanted: float) -> float | None:
    """Find the clip that brings the mean recalibrated log loss to a number, between the usual one and 0.05."""
    from scipy.optimize import brentq

    def exceed(exponent: float) -> float:
        return clip_log_loss(laws, float(np.exp(exponent))) - wanted

    ends = (float(np.log(CLIP)), float(np.log(0.05)))
    return float(np.exp(brentq(exceed, *ends))) if exceed(ends[0]) > 0.0 > exceed(ends[1]) else None


def compare_tables(frame: Any) -> Table:
    """Compare the paper's two tables with each other: over the same splits they must give the same differences."""
    rows = []
    for metric, method in product(METRICS, OTHERS):
        one, base = (STATEMENTS[f"robustness/log/{metric}/{name}"] for name in (method, "average"))
        direct = STATEMENTS[f"tests/{metric}/{method}/mean"]
        row = {"Δ of": METRICS[metric], "method": method, "tab:robustness": minus(f"{one.value - base.value:+.3f}")}
        row["tab:germancredit-tests"] = minus(f"{direct.value:+.4f}")
        row["apart"] = round(abs(one.value - base.value - direct.value), 10)
        row["rounding allows"] = one.half_unit + base.half_unit + direct.half_unit
        rows.append(row | {"ours": take_values(frame, "log", method, metric, "average").mean()})
    far = sum(row["apart"] > row["rounding allows"] for row in rows)
    note = (
        "Over the same splits the mean of paired differences is the difference of means. In the paper they are further "
        f"apart than rounding allows in {far} of {len(rows)} cases: its two tables cannot come from the same splits."
    )
    return table("german-two-tables", "The same differences in two tables of the paper", rows, note)


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def judge_curve(work: Work) -> Check:
    """Of one split with an unknown seed: within noise if it is so in some of ours, reproduced if in the mean."""
    before, after = measure_distances(work)
    enough = (1 - _SUBSTANTIAL) * before
    much, in_mean = int((after <= enough).sum()), bool(after.mean() <= enough.mean())
    facts = {"before": before.mean(), "after": after.mean(), "closer": int((after < before).sum())}
    holds = "within noise" if much and not in_mean else in_mean
    return judge("glm-improves", holds, splits=before.size, much=much, **facts)


def measure_distances(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Measure how far the curve of the logistic regression is from the diagonal in every split, before and after."""
    laws = collect_laws(work)["glm"]
    before, after = (
        np.array(
            [
                np.abs(MonotoneSplineCalibrator().fit(S, y).calibrate(S) - S).mean()
                for S, y in zip(scores, laws.y, strict=True)
            ]
        )
        for scores in (laws.raw, laws.recalibrated)
    )
    return before, after


def judge_losses(frame: Any) -> Check:
    """Holds if some mean loss is larger after recalibration."""
    gain = {loss: {m: float(take_values(frame, loss, m, "gain").mean()) for m in METHODS} for loss in LOSSES}
    parts = [
        f"{LOSSES[loss]} is larger after recalibration in the mean of {sum(value < 0 for value in found.values())} of "
        f"{len(METHODS)} methods (average: {-found['average']:+.4f})"
        for loss, found in gain.items()
    ]
    worse = any(value < 0 for found in gain.values() for value in found.values())
    return judge("losses-degrade", worse, losses="; ".join(parts))


def judge_stacking(frame: Any, halves: Any) -> Check:
    """Holds if Wilcoxon's test with Holm's correction says so, as in the paper; halves are told, not judged."""
    same, apart = (find_line(compare_methods(one, "reliability_plugin"), "stacking") for one in (frame, halves))
    facts = {"wins": 100 * same.win_rate, "p": pvalue(same.wilcoxon_p_holm), "t": pvalue(same.t_p_holm)}
    holds = bool(same.mean < 0 and same.wilcoxon_p_holm < _ALPHA)
    return judge("stacking-reliable", holds, same=same, apart=apart, **facts)


def judge_differences(frame: Any) -> Check:
    """Holds if no one-sided test rejects, as in the paper."""
    least = min(compare_methods(frame, "recalibrated").lines, key=lambda line: line.wilcoxon_p_holm)
    both = compare_methods(frame, "recalibrated", "two-sided")
    also = [f"{line.method} (Δ = {line.mean:+.4f})" for line in both.lines if line.wilcoxon_p_holm < _ALPHA]
    told = f" Two-sided Wilcoxon tests, which the paper does not make, find {list_words(also)}." if also else ""
    p = least.wilcoxon_p_holm
    return judge("no-loss-difference", p >= _ALPHA, method=least.method, p=pvalue(p), also=told)


def draw_conclusions(frame: Any) -> dict[str, Any]:
    """Draw the paper's conclusions with one calibrator: numbers, and whether each of them holds."""
    stacking = find_line(compare_methods(frame, "reliability_plugin"), "stacking")
    lines = compare_methods(frame, "recalibrated").lines
    best = min(lines, key=lambda line: (line.wilcoxon_p_holm, line.mean))
    gains = [float(take_values(frame, loss, method, "gain").mean()) for loss, method in product(LOSSES, METHODS)]
    worse = sum(gain < -_UNCHANGED for gain in gains)
    return {
        "Δ reliability of stacking": stacking.mean,
        "wins": stacking.win_rate,
        "its Holm p": stacking.wilcoxon_p_holm,
        "largest reliability of the stack": take_values(frame, "log", "stacking", "reliability_plugin").max(),
        "best in recalibrated log loss": minus(f"{best.method} ({best.mean:+.4f})"),
        "Holm p of the best": best.wilcoxon_p_holm,
        "recalibrated − raw, average": -take_values(frame, "log", "average", "gain").mean(),
        "mean losses made worse": f"{worse} of {len(gains)}",
        "stacking is significantly more reliable": stacking.mean < 0 and stacking.wilcoxon_p_holm < _ALPHA,
        "no method is significantly better in recalibrated log loss": best.wilcoxon_p_holm >= _ALPHA,
        "recalibration makes some mean loss worse": worse > 0,
    }


def judge_maps(found: list[dict[str, Any]]) -> Check:
    """Holds if each of the three conclusions is the same with every map as with the first."""
    pairs = [(name, one, word) for name, one in zip(_MAPS, found, strict=True) for word in list(one)[-3:]][3:]
    other = [
        f"with {name} {'' if one[word] else 'not '}so: {word}"
        for name, one, word in pairs
        if one[word] != found[0][word]
    ]
    worse = [f"{one['mean losses made worse']} with {name}" for name, one in zip(_MAPS, found, strict=True)]
    facts = {"otherwise": f" Otherwise: {'; '.join(other)}." if other else "", "worse": list_words(worse)}
    return judge("other-maps", not other, same=len(pairs) - len(other), count=len(pairs), **facts)


def tabulate_conclusions(found: list[dict[str, Any]]) -> Table:
    """Make a table of the numbers behind the conclusions with several calibrators."""
    rows = [{"calibrator": name, **dict(list(one.items())[:-3])} for name, one in zip(_MAPS, found, strict=True)]
    note = (
        "With platt the plug-in reliability of the stack is 0 by construction: the stack is itself a logistic "
        "regression, fitted to the same rows."
    )
    kinds = {"wins": "share", "its Holm p": "pvalue", "Holm p of the best": "pvalue"}
    return table("german-other-maps", "The same conclusions with other calibrators (log loss)", rows, note, kinds)


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def draw_curves(work: Work) -> Figure:
    """Draw calibration curves on the test rows of the first split (fig:germancredit:reliability)."""
    curves = {}
    for method, laws in collect_laws(work).items():
        for side in SIDES:
            S = getattr(laws, side)[0]
            s = np.linspace(S.min(), S.max(), 101)
            curves[method, side] = s, MonotoneSplineCalibrator().fit(S, laws.y[0]).calibrate(s)
    rows = [
        {"method": method, "score": side, "s": s[i], "curve": g[i]}
        for (method, side), (s, g) in curves.items()
        for i in thin(s.size, 6)
    ]

    def draw(axes: Any) -> None:
        for ax, (method, laws) in zip(axes, collect_laws(work).items(), strict=True):
            ax.plot([0, 1], [0, 1], color=INK.quiet, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
            for side, number in SIDES.items():
                style = "-" if side == "raw" else (0, (5, 1.5))
                ax.plot(*curves[method, side], linestyle=style, color=colour(number), linewidth=2.0, label=side)
            rug = {"linestyle": "none", "marker": "|", "markersize": 4, "color": INK.quiet, "alpha": 0.5}
            ax.plot(laws.raw[0], np.full(laws.raw[0].size, -0.025), **rug)
            ax.set(xlim=(0, 1), ylim=(-0.05, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
            ax.set_title(method, loc="left", color=INK.ink)
        for below, left in zip(axes[2:], axes[::2], strict=True):
            below.set_xlabel("score")
            left.set_ylabel("share of bad credits")
        share_legend(axes)

    title = "Calibration curves on the test rows of the split of seed 0 (fig:germancredit:reliability)"
    description = "Monotone splines of the outcomes of 200 test rows on the scores, before and after recalibration."
    options = {"size": (6.8, 6.6), "shape": (2, 2), "sharex": True, "sharey": True}
    return figure("german-calibration-curves", title, description, draw, rows, **options)


def draw_summary(work: Work) -> Figure:
    """Draw LCS and losses over all splits, with the paper's one split (fig:germancredit:summary)."""
    frame = run_protocol(work)
    panels = {"LCS": ("brier", {"lcs": 0}), "Brier": ("brier", SIDES), "log loss": ("log", SIDES)}
    rows = []
    for name, (loss, columns) in panels.items():
        for method, column in product(METHODS, columns):
            values = take_values(frame, loss, method, column)
            row = {"panel": name, "method": method, "score": column}
            rows.append(row | {"mean over splits": values.mean(), "sd": values.std(ddof=1)})

    def draw(axes: Any) -> None:
        for ax, (name, (loss, columns)) in zip(axes, panels.items(), strict=True):
            _draw_strips(ax, frame, loss, columns)
            ax.set_title(name, loc="left", color=INK.ink)
        share_legend(axes[1:])

    title = "LCS and proper losses before and after recalibration (fig:germancredit:summary)"
    description = (
        f"For every method the middle half and the middle 90 % of {work.plan.splits} splits, the mean as a dot, and the "
        "paper's single split as a diamond."
    )
    options = {"size": (7.4, 3.7), "shape": (1, 3), "sharey": True}
    return figure("german-summary-metrics", title, description, draw, rows, **options)


def _draw_strips(ax: Any, frame: Any, loss: str, columns: Mapping[str, int]) -> None:
    diamond = {"linestyle": "none", "marker": "D", "markersize": 4.5, "color": INK.paper, "markeredgecolor": INK.ink}
    for row, method in enumerate(METHODS):
        for i, (column, number) in enumerate(columns.items()):
            y = row + 0.34 * (i - 0.5 * (len(columns) - 1))
            values, look = take_values(frame, loss, method, column), {"color": colour(number)}
            outer, quarter, three, far = np.quantile(values, (0.05, 0.25, 0.75, 0.95))
            label = column if row == 0 else None
            ax.plot([outer, far], [y, y], linewidth=1.2, **look)
            ax.plot([quarter, three], [y, y], linewidth=5.0, solid_capstyle="butt", alpha=0.55, label=label, **look)
            ax.plot(values.mean(), y, marker="o", markersize=4.5, markeredgecolor=INK.paper, zorder=5, **look)
            last = row == len(METHODS) - 1 and i == len(columns) - 1
            paper = STATEMENTS[f"gains/{loss}/{column}/{method}"].value
            ax.plot(paper, y, zorder=6, label="the paper's split" if last else None, **diamond)
    list_rows(ax, METHODS)
    ax.locator_params(axis="x", nbins=4)
