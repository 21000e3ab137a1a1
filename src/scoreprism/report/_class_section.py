"""The section on more than two classes: which are miscalibrated, and which confusions and classes cost most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scoreprism._calibration_test.class_tests import LEAST, ClassTest, find_class_tests
from scoreprism._core.simplex import FloatArray, IntArray, clip_law, pick
from scoreprism._document.model import Block, Figure, Paragraph, Section, Table, make_table
from scoreprism._findings.finding import MIN_GAIN, Finding
from scoreprism._findings.wording import write_amount, write_count, write_share
from scoreprism.curves import reliability_curve
from scoreprism.decomposition import Decomposition
from scoreprism.displays import ClasswiseReliabilityDisplay
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.report._pieces import figure
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case, RowSubject, choose_draws

#: Lines of a table, panels of a figure, models that are shown.
_LINES, _PANELS, _MODELS = 10, 9, 3
#: Redraws of the band of a panel.
_REDRAWS = 200


@dataclass(frozen=True)
class ClassLine:
    """One class, or several together, against the rest."""

    name: str
    test: ClassTest
    cases: int  # observed
    predicted: float  # mean probability
    observed: float  # share of the rows
    gain: float  # what recalibration of these probabilities takes off the loss, out of sample

    @property
    def direction(self) -> str:
        """How its probabilities are wrong."""
        if math.isinf(self.test.column.level):
            return "0 or 1, and wrong"
        if not self.test.column.is_of_level:
            return "too extreme" if self.test.column.spread < 0.0 else "too moderate"
        if self.observed == 0.0:
            return "too high"
        off = self.predicted / self.observed - 1.0
        return f"too {'high' if off > 0 else 'low'} by {write_share(abs(off))}"


class Confusions(NamedTuple):
    """Rows by observed and predicted class: the pairs that occur, by loss."""

    observed: IntArray
    predicted: IntArray
    rows: IntArray
    share: FloatArray  # of the loss
    given: FloatArray  # mean probability given to the observed class


def make_classes(case: Case) -> Section | None:
    """The third section: models whose rows are known; the first ones."""
    if case.binary or not case.has_rows:
        return None
    lead: list[Finding] = []
    blocks: list[Block] = []
    for number, model in enumerate(list(case.models.values())[:_MODELS], start=1):
        basis = model.basis(case.loss)
        lines = judge_classes(case, model, basis)
        worst = [line for line in lines if not line.test.is_rare][:_PANELS]
        blocks += [_tabulate_classes(case, model, basis, lines, number)]
        blocks += [_make_figure(case, model, worst, number)] if worst else []
        lead.append(_find_miscalibrated(case, model, lines))
        if math.isfinite(basis.risk) and basis.risk > 0.0:
            cells = cross_classes(case, model, basis)
            blocks += [_tabulate_confusions(case, model, cells, number), _tabulate_terms(case, model, basis, number)]
            lead += _find_confusion(case, model, cells)
    blocks.append(Paragraph(_explain(case)))
    return Section("classes", SECTIONS["classes"], tuple(lead), tuple(blocks))


# ── what is found ───────────────────────────────────────────────────────────────────────────────────


def judge_classes(case: Case, model: RowSubject, basis: Decomposition) -> list[ClassLine]:
    """Every class with enough expected cases, largest gain first; then those with fewer in one line."""
    sample, law, share = model.sample, model.law, _find_share(model)
    before, after = (clip_law(one, basis.clip) for one in (law, model.calibrated))
    gains = split_gain(case.losses[case.loss], before, after, sample.y, share)
    expected, observed = share @ law, np.bincount(sample.y, share, model.k)
    lines = []
    for test in find_class_tests(law, sample.y, sample.weight, sample.groups):
        at = list(test.codes)
        name = _name_rare(len(at)) if test.is_rare else model.labels[at[0]]
        sums = (float(values[at].sum()) for values in (expected, observed, gains))
        lines.append(ClassLine(name, test, int(model.outcomes[at].sum()), *sums))
    return sorted(lines, key=lambda line: (line.test.is_rare, -line.gain))


def split_gain(loss: ProperLoss, law: FloatArray, fitted: FloatArray, y: IntArray, share: FloatArray) -> FloatArray:
    """
    What recalibration of the probabilities of each class takes off a loss; together they are ℓ(S, Y) − ℓ(C, Y).

    Log loss: 1{Y = k} log(C_k/S_k) + S_k − C_k. Other losses go by Brier's: (S_k − 1{Y = k})² − (C_k − 1{Y = k})².
    Given S, the mean of each is a divergence of C_k from S_k, and so is not negative but for noise.
    """
    k = law.shape[1]
    if loss == get_loss("log"):
        with np.errstate(divide="ignore"):
            ratio = np.log(pick(fitted, y)) - np.log(pick(law, y))
        return np.asarray(np.bincount(y, share * ratio, k) + share @ law - share @ fitted)
    squares = np.einsum("i,ij,ij->j", share, law, law) - np.einsum("i,ij,ij->j", share, fitted, fitted)
    return np.asarray(squares - 2.0 * np.bincount(y, share * (pick(law, y) - pick(fitted, y)), k))


def cross_classes(case: Case, model: RowSubject, basis: Decomposition) -> Confusions:
    """The rows by observed and predicted class, the costliest pairs first."""
    share, y = _find_share(model), model.sample.y
    losses = case.losses[case.loss].evaluate(clip_law(model.law, basis.clip), y)
    predicted = model.law.argmax(axis=1)
    code, at = np.unique(y * model.k + predicted, return_inverse=True)
    rows = np.bincount(at)
    cost = np.bincount(at, share * losses)
    given = np.bincount(at, share * pick(model.law, y)) / np.bincount(at, share)
    order = np.argsort(-cost, kind="stable")
    observed, said = np.divmod(code[order], model.k)
    return Confusions(observed, said, rows[order], cost[order] / cost.sum(), given[order])


def _find_share(model: RowSubject) -> FloatArray:
    """Weights of the rows that sum to one."""
    weight = np.ones(model.n) if model.sample.weight is None else model.sample.weight
    share: FloatArray = weight / weight.sum()
    return share


def _name_rare(count: int) -> str:
    return f"{count} {'class' if count == 1 else 'classes'} with fewer than {LEAST} expected cases"


def _find_miscalibrated(case: Case, model: RowSubject, lines: Sequence[ClassLine]) -> Finding:
    """Which classes are miscalibrated, those that cost most first."""
    judged = [line for line in lines if not line.test.is_rare]
    wrong = [line.name for line in judged if line.test.pvalue <= case.alpha]
    facts: dict[str, Any] = {"least": LEAST, "rare": model.k - len(judged)}
    facts |= {"classes": wrong} if wrong else {}
    kind = "class_miscalibrated" if wrong else "classes_none"
    return Finding(kind, model=case.label(model), n=len(judged), confidence_level=case.level, facts=facts)


def _find_confusion(case: Case, model: RowSubject, cells: Confusions) -> list[Finding]:
    """The pair of classes whose confusion costs most, where that matters."""
    wrong = np.flatnonzero(cells.observed != cells.predicted)
    if wrong.size == 0 or cells.share[wrong[0]] < MIN_GAIN:
        return []
    worst = wrong[0]
    observed, predicted = model.labels[cells.observed[worst]], model.labels[cells.predicted[worst]]
    facts = {"predicted": predicted, "all": float(cells.share[wrong].sum())}
    about: dict[str, Any] = {"value": float(cells.share[worst]), "n": int(cells.rows[worst]), "facts": facts}
    return [Finding("costly_confusion", model=case.label(model), subject=observed, **about)]


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────


def _tabulate_classes(
    case: Case, model: RowSubject, basis: Decomposition, lines: Sequence[ClassLine], number: int
) -> Table:
    """The classes with the largest gains, the others in one line, the rare ones in another."""
    single = [line for line in lines if not line.test.is_rare]
    shown, others = (single, []) if len(single) <= _LINES + 1 else (single[:_LINES], single[_LINES:])
    rare = [line for line in lines if line.test.is_rare]
    gained = sum(line.gain for line in lines)
    rows = []
    for line in [*shown, *rare]:
        direction = line.direction if line.test.pvalue <= case.alpha else "–"
        rows.append((line.name, line.cases, line.predicted, line.observed, direction, line.gain, line.test.pvalue))
    if others:
        sums = (sum(getattr(line, key) for line in others) for key in ("cases", "predicted", "observed"))
        wrong = sum(line.test.pvalue <= case.alpha for line in others)
        words = f"{write_count(wrong)} miscalibrated"
        gain = sum(line.gain for line in others)
        rows.insert(len(shown), (f"{write_count(len(others))} other classes", *sums, words, gain, None))
    columns = [
        ("class", "class", "text"), ("cases", "cases", "count"), ("predicted", "mean probability", "digits"),
        ("observed", "observed share", "digits"), ("direction", "probabilities", "text"),
        ("gain", "recalibration gains", "amount"), ("pvalue", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    title = f"Classes of {model.called} against the rest, the largest gains first"
    return make_table(f"classes-{number}", title, columns, rows, _explain_gains(case, basis, gained))


def _explain_gains(case: Case, basis: Decomposition, gained: float) -> str:
    loss = case.loss if case.losses[case.loss] == get_loss("log") else "brier"
    note = f"Gains are out of sample and add up to {write_amount(gained)} of the {loss} loss"
    reliability = basis.terms["reliability"]
    if loss == case.loss and math.isfinite(reliability):
        note += f" (the reliability, {write_amount(reliability)}, is corrected for the noise of the fit)"
    return f"{note}. P-values are adjusted for all classes that are tested."


def _make_figure(case: Case, model: RowSubject, worst: Sequence[ClassLine], number: int) -> Figure:
    """Reliability diagrams of the worst classes as small multiples."""
    which = "each class" if len(worst) == model.k else f"the {len(worst)} classes with the largest gains"
    described = (
        f"Observed frequency against predicted probability of {which}, each against the rest, by isotonic regression, "
        "with the pointwise 90 % band of a calibrated score. Each panel shows the scores of nearly all expected cases."
    )
    draws = min(_REDRAWS, choose_draws("band", model.n))

    def draw(ax: Any) -> None:  # curves are found where they are drawn: in a terminal nobody sees them
        options: dict[str, Any] = {"n_resamples": draws, "random_state": case.seed}
        curves = [
            reliability_curve(model.sample.one_vs_rest(line.test.codes[0]), name=line.name, **options) for line in worst
        ]
        ClasswiseReliabilityDisplay(curves).plot(ax)

    title = f"Reliability of {which} of {model.called}"
    return figure(f"class-reliability-{number}", title, described, draw, size=(4.8, 0.2 + 1.6 * -(-len(worst) // 3)))


def _tabulate_confusions(case: Case, model: RowSubject, cells: Confusions, number: int) -> Table:
    """The costliest pairs of observed and predicted class; the other pairs, and right predictions, in a line each."""
    is_right = cells.observed == cells.predicted
    wrong = np.flatnonzero(~is_right)
    rows: list[tuple[Any, ...]] = [
        (model.labels[cells.observed[i]], model.labels[cells.predicted[i]], int(cells.rows[i]), float(cells.share[i]),
         float(cells.given[i])) for i in wrong[:_LINES]
    ]  # fmt: skip
    rest = [("other pairs", f"{write_count(wrong.size - _LINES)} pairs", wrong[_LINES:])] if wrong.size > _LINES else []
    rest += [("as predicted", "right", np.flatnonzero(is_right))] if is_right.any() else []
    for observed, predicted, at in rest:
        count = cells.rows[at]
        given = float(count @ cells.given[at]) / float(count.sum())
        rows.append((observed, predicted, int(count.sum()), float(cells.share[at].sum()), given))
    columns = [
        ("observed", "observed class", "text"), ("predicted", "predicted class", "text"), ("rows", "rows", "count"),
        ("share", "share of the loss", "share"), ("given", "mean probability given to it", "digits"),
    ]  # fmt: skip
    title = f"Confusions of {model.called} that carry the {case.loss} loss"
    return make_table(
        f"confusions-{number}",
        title,
        columns,
        rows,
        "Predicted is the class of the largest probability; “it” is the observed class.",
    )


def _tabulate_terms(case: Case, model: RowSubject, basis: Decomposition, number: int) -> Table:
    """What the rows of each observed class contribute to the loss and its terms."""
    y, k = model.whole.sample.y, model.k
    weight = np.ones(y.size) if model.whole.sample.weight is None else model.whole.sample.weight
    share = weight / weight.sum()
    values = np.stack([np.bincount(y, share * line, k) for line in basis._rows.T], axis=1)
    cases, cost = np.bincount(y[weight > 0.0], minlength=k), values.sum(axis=1)
    order = np.argsort(-cost, kind="stable")
    shown = order if k <= _LINES + 1 else order[:_LINES]
    muted = [name in basis.muted for name in basis.names]
    groups = [(model.labels[i], [i]) for i in shown]
    groups += [(f"{write_count(k - _LINES)} other classes", order[_LINES:].tolist())] if shown.size < k else []
    rows = [
        (name, int(cases[at].sum()), float(cost[at].sum() / cost.sum()),
         *(None if is_muted else float(value) for value, is_muted in zip(values[at].sum(axis=0), muted, strict=True)))
        for name, at in groups
    ]  # fmt: skip
    columns = [
        ("class", "observed class", "text"), ("cases", "cases", "count"), ("share", "share of the loss", "share"),
        *((name, name, "amount") for name in basis.names),
    ]  # fmt: skip
    note = (
        "Contributions add up to the terms. They do not say whether a class is calibrated (the table of classes does): "
        "rows are chosen by their outcome here, and to what happened even a calibrated score gave less than certainty. "
        "So one may be negative, or large without a fault of the score."
    )
    title = f"What the rows of each observed class contribute to the {case.loss} loss of {model.called}"
    return make_table(f"class-terms-{number}", title, columns, rows, note)


def _explain(case: Case) -> str:
    """How classes are tested."""
    how = (
        "cluster-robust, by a normal law"
        if case.first.clustered
        else "with tails by a saddlepoint approximation, which holds for rare classes"
    )
    text = (
        "Each class is tested against the rest: whether it occurs as often as predicted, and whether its probabilities "
        f"are too extreme or too moderate ({how}). Classes with fewer than {LEAST} expected cases are judged together."
    )
    if len(case.models) > _MODELS:
        text += f" Shown for the first {_MODELS} models."
    return text
