"""German credit (section 6.2, appendix D.2): every number and statement beside ours, over the same kind of splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reproduction.checks import Check, among, checks_table, claimed, claims_table, marked
from reproduction.german_figures import curves_figure, distances, summary_figure
from reproduction.german_forest import clip_table, forest_clip, more_splits, more_table
from reproduction.german_robustness import robustness
from reproduction.german_spread import spreads
from reproduction.german_tests import (
    METRICS,
    OTHERS,
    Conclusions,
    compared,
    conclusions,
    consistency,
    line_of,
    maps_table,
    tests,
    tests_note,
)
from reproduction.members import APART, german_frame, german_main, german_splits, over_splits
from reproduction.printed import LOSSES, METHODS, PRINTED
from reproduction.work import Outcome, Work
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import load_german_credit
from scoreprism.report import Notice, Section, Table
from scoreprism.report._model import Block, Cell
from scoreprism.report._pieces import ends, enumerated, pvalue, table

#: A purpose of credit so rare that all its training rows may have one outcome.
_RARE = "A48"
#: A distance falls substantially if it falls by this share or more.
_SUBSTANTIAL = 1 / 3
#: Calibrators of the statement on other maps; the first is the paper's.
_MAPS = ("isotonic", "platt", "spline")


def german(work: Work) -> Outcome:
    """
    The German credit study.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Outcome
        Tables robustness, paired tests and gains, two figures, five statements.
    """
    means, paired, single, around = robustness(work), tests(work), gains(work), spreads(work)
    others = [conclusions(work, name) for name in _MAPS]
    claims = [_glm_improves(work), _losses_degrade(work), _stacking(work), _no_difference(work), _other_maps(others)]
    two_tables, contradiction = consistency(work)
    checks = (*(check for loss in means.values() for check in loss), *paired, *around, *single, *claims)
    blocks: tuple[Block, ...] = (
        Notice("note", _protocol(work)),
        claims_table("german-claims", "Statements about German credit", claims),
        *(told_below(f"german-{loss}", f"{word[0].upper()}{word[1:]}, means over splits (tab:robustness)", means[loss])
          for loss, word in LOSSES.items()),
        *more_table(work),
        clip_table(work),
        two_tables,
        Notice("warning", contradiction),
        told_below("german-tests", "Paired comparisons with the average (tab:germancredit-tests)", paired,
                   tests_note(work)),
        Notice("warning", _double_use(work)),
        told_below("german-spreads", "Standard deviations over splits, and of paired differences", around),
        curves_figure(work),
        summary_figure(work),
        gains_table(work, single),
        maps_table(others),
        Notice("note", _separated(work)),
    )  # fmt: skip
    return Outcome(Section("german", "German credit", _meaning(checks), blocks), checks, _numbers(work, checks))


def gains(work: Work) -> list[Check]:
    """
    All numbers of tab:germancredit-gains among those of our splits.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    list of Check
        In the order of the paper.
    """
    keys = [key for key in PRINTED if key.startswith("gains/")]
    frame = german_main(work)
    return [among(key, _column(frame, key)) for key in keys]


def told_below(key: str, title: str, checks: list[Check], note: str = "") -> Table:
    """
    Numbers beside the paper's; what there is to say stands below the table, which stays narrow.

    Parameters
    ----------
    key, title : str
        Of the table.
    checks : list of Check
        Its rows.
    note : str, default=""
        What else there is to say of all of them.

    Returns
    -------
    Table
        Without a column of reasons.
    """
    told: dict[str, list[str]] = {}
    for check in checks:
        if check.why:
            told.setdefault(check.why, []).append(check.what)
    lines = (why if len(rows) > 1 else f"{rows[0][0].upper()}{rows[0][1:]}: {why}" for why, rows in told.items())
    note = note or " ".join(lines)
    return checks_table(key, title, [replace(check, why="") for check in checks], note)


def gains_table(work: Work, checks: list[Check]) -> Table:
    """
    Where the numbers of the paper's one split fall among those of ours.

    Parameters
    ----------
    work : Work
        Where it is computed.
    checks : list of Check
        From `gains`.

    Returns
    -------
    Table
        One row for each number.
    """
    heads = [("what", "number", "text"), ("paper", "paper", "short"), ("median", "our median", "short"),
             ("range", "ours, all splits", "short"), ("larger", "larger than, of ours", "share"),
             ("verdict", "verdict", "text")]  # fmt: skip
    rows: list[list[Cell]] = []
    for check in checks:
        values = _column(german_main(work), check.key)
        printed = PRINTED[check.key]
        below = float(np.mean(values < printed.value))
        around = ends(float(values.min()), float(values.max()))
        rows.append(
            [
                check.what,
                f"{printed.value:.{printed.decimals}f}".replace("-", "−"),
                check.ours,
                around,
                below,
                marked(check.verdict),
            ]
        )
    note = (
        "“Larger than”: the share of our splits whose number is smaller. The paper does not say which split it shows."
    )
    return table("german-gains", "One split of the paper among ours (tab:germancredit-gains)", heads, rows, note)


def _column(frame: object, key: str) -> FloatArray:
    _, loss, column, method = key.split("/")
    return over_splits(frame, loss, method, column)


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def _glm_improves(work: Work) -> Check:
    """Of one split with an unknown seed: within noise if it is so in some of ours, reproduced if in the mean."""
    found = distances(work)
    raw, after = found["glm", "raw"], found["glm", "recalibrated"]
    closer, much = int((after < raw).sum()), int((after <= (1 - _SUBSTANTIAL) * raw).sum())
    evidence = (
        f"Mean distance of its curve from the diagonal {raw.mean():.3f} before and {after.mean():.3f} after; smaller "
        f"after in {closer} of {raw.size} splits, by a third or more in {much}. Rule: by a third or more, in the mean; "
        "within noise if in some splits."
    )
    in_mean = bool(after.mean() <= (1 - _SUBSTANTIAL) * raw.mean())
    check = claimed("glm-improves", in_mean, evidence)
    return replace(check, verdict="within noise") if much and not in_mean else check


def _losses_degrade(work: Work) -> Check:
    """Holds if some mean loss is larger after recalibration."""
    frame = german_main(work)
    gain = {loss: {m: float(over_splits(frame, loss, m, "gain").mean()) for m in METHODS} for loss in LOSSES}
    worse = {loss: [m for m in METHODS if gain[loss][m] < 0] for loss in LOSSES}
    parts = [
        f"{LOSSES[loss]} is larger after recalibration in the mean of {len(worse[loss])} of {len(METHODS)} methods "
        f"(average: {-gain[loss]['average']:+.4f})".replace("-", "−")
        for loss in LOSSES
    ]
    return claimed("losses-degrade", any(worse.values()), f"{'; '.join(parts)}. Rule: some mean.")


def _stacking(work: Work) -> Check:
    """Holds if Wilcoxon's test with Holm's correction says so, as in the paper."""
    line = line_of(compared(german_main(work), "reliability_plugin"), "stacking")
    other = german_frame(work, protocol=APART, redraws=work.plan.redraws)
    apart = line_of(compared(other, "reliability_plugin"), "stacking")
    evidence = (
        f"Under the paper's protocol Δ = {line.mean:+.4f}, {100 * line.win_rate:.0f} % wins, Wilcoxon with Holm "
        f"{pvalue(line.wilcoxon_p_holm)}; the corrected t-test has {pvalue(line.t_p_holm)}. With stack and calibrator "
        f"on different rows Δ = {apart.mean:+.4f}. Rule: the paper's test and protocol, at 0.05."
    ).replace("Δ = -", "Δ = −")
    return claimed("stacking-reliable", bool(line.mean < 0 and line.wilcoxon_p_holm < 0.05), evidence)


def _no_difference(work: Work) -> Check:
    """Holds if no one-sided test rejects, as in the paper."""
    found = compared(german_main(work), "recalibrated")
    least = min(found.lines, key=lambda line: line.wilcoxon_p_holm)
    both = compared(german_main(work), "recalibrated", "two-sided")
    also = [line for line in both.lines if line.wilcoxon_p_holm < 0.05]
    evidence = (
        f"Smallest p-value, Holm, one-sided: {least.method}, {pvalue(least.wilcoxon_p_holm)}. Rule: the paper's test, "
        "at 0.05."
    )
    if also:
        names = enumerated([f"{line.method} (Δ = {line.mean:+.4f})".replace("-", "−") for line in also])
        evidence += f" Two-sided Wilcoxon tests, which the paper does not make, find {names}."
    return claimed("no-loss-difference", least.wilcoxon_p_holm >= 0.05, evidence)


def _other_maps(found: list[Conclusions]) -> Check:
    """Holds if each of the three conclusions is the same with every map."""
    first = found[0]
    other = [
        f"with {one.name} {'' if one.words[word] else 'not '}so: {word}"
        for one in found[1:]
        for word in one.words
        if one.words[word] != first.words[word]
    ]
    same = sum(one.words[word] == first.words[word] for one in found[1:] for word in one.words)
    evidence = f"{same} of {len(first.words) * (len(found) - 1)} conclusions are those of isotonic regression."
    evidence += f" Otherwise: {'; '.join(other)}." if other else ""
    counts = enumerated([f"{one.worse} of {one.losses} with {one.name}" for one in found])
    evidence += (
        f" But how often differs: mean losses that recalibration makes worse are {counts}. Rule: all three conclusions "
        "the same, on German credit."
    )
    return claimed("other-maps", not other, evidence)


# ── sentences ───────────────────────────────────────────────────────────────────────────────────────


def _protocol(work: Work) -> str:
    plan = work.plan
    return (
        f"{plan.splits} splits of 1000 rows, each a permutation of its seed: 600 rows train a logistic regression as "
        f"R's glm and a forest of {plan.trees} trees, 200 calibrate (isotonic regression) and stack, 200 test. Scores "
        "are clipped at 10⁻⁶ before a loss is taken. Standard errors take splits for independent, as in the paper."
    )


def _double_use(work: Work) -> str:
    found = compared(german_main(work), "reliability_plugin")
    note = next(note for note in found.notes if "same rows" in note)
    line = line_of(found, "stacking")
    return f"{note[0].upper()}{note[1:]}. Its Δ reliability of {line.mean:+.4f} is to be read so.".replace("-0", "−0")


def separated(count: int) -> list[bool]:
    """
    Whether the rarest purpose has one outcome, or none, among the training rows of each split.

    Parameters
    ----------
    count : int
        Number of splits.

    Returns
    -------
    list of bool
        One for each.

    Examples
    --------
    >>> separated(3)
    [True, True, False]
    """
    data = load_german_credit()
    rare = np.asarray(data.X["purpose"]) == _RARE
    return [np.unique(data.y[train[rare[train]]]).size < 2 for train, _, _ in german_splits(count)]


def _separated(work: Work) -> str:
    apart = np.array(separated(work.plan.splits))
    loss = over_splits(german_main(work), "log", "glm", "raw")
    start = (
        f"Purpose {_RARE} has only one outcome, or none, among the training rows of {apart.sum()} of {apart.size} "
        "splits: the likelihood has no maximum then, and how sure the logistic regression is of such rows depends on "
        "where its solver stops."
    )
    if not 0 < apart.sum() < apart.size:
        return start
    there, elsewhere = loss[apart].mean(), loss[~apart].mean()
    return f"{start} Its raw log loss is {there:.3f} in these splits and {elsewhere:.3f} in the others."


def _meaning(checks: tuple[Check, ...]) -> str:
    count = {
        kind: [c for c in checks if c.paper is not None and c.key.startswith(kind)]
        for kind in ("robustness", "tests", "spread", "gains")
    }
    good = {kind: sum(c.verdict != "not reproduced" for c in found) for kind, found in count.items()}
    far = [c.what for c in count["robustness"] if c.verdict == "not reproduced"]
    missing = f" (not: {enumerated(far)})" if far else ""
    return (
        f"{good['robustness']} of {len(count['robustness'])} means over splits agree with the paper's{missing}, "
        f"{good['tests']} of {len(count['tests'])} numbers of its paired tests and {good['spread']} of "
        f"{len(count['spread'])} standard deviations; {good['gains']} of {len(count['gains'])} numbers of its single "
        "split lie among ours."
    )


def _numbers(work: Work, checks: tuple[Check, ...]) -> dict[str, float]:
    """Our numbers by the paper's keys, and those that it does not have."""
    found = {f"german/{check.key}": check.ours for check in checks if check.ours is not None}
    frame = german_main(work)
    for loss in LOSSES:
        for method in METHODS:
            found[f"german/noise-floor/{loss}/{method}"] = float(over_splits(frame, loss, method, "noise_floor").mean())
    for metric in METRICS:
        lines = compared(frame, metric)
        found |= {f"german/corrected-t/{metric}/{method}": line_of(lines, method).t_p_holm for method in OTHERS}
    further = more_splits(work) or {}
    found |= {f"german/more/{method}": float(values.mean()) for method, values in further.items()}
    clip = forest_clip(work)
    found |= {} if clip is None else {"german/forest-clip": clip}
    return found
