"""select_stage() and refinement_loss(): early stopping by what recalibration leaves (Berta et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scoreprism._core.arrays import parse_law, warn_of_hard_labels
from scoreprism._core.checks import parse_choice, parse_confidence, refuse
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen
from scoreprism._core.workers import run_all
from scoreprism._fitting.learners import MapLearner
from scoreprism.ensembles._selection import SelectionTable, StageSelection
from scoreprism.ensembles._stage_inputs import Path, Stages, follow, read_stages
from scoreprism.ensembles._stage_maps import Folds, parse_map
from scoreprism.ensembles._stage_results import Amount
from scoreprism.ensembles._stage_tables import named_columns, plural
from scoreprism.losses import ProperLoss, get_loss

#: How a stage is taken from the curve: the least; the first that is not told apart from it by one standard error; or
#: the least, unless the stage with the least raw loss is within half a standard error of it.
RULES = ("best", "one-se", "guarded")
#: Standard errors that "guarded" asks for before it leaves the raw choice.
_AHEAD = 0.5


def select_stage(
    stages: Any,
    y_true: ArrayLike,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    calibrator: object = "fast",
    rule: str = "best",
    cv: object = 5,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> StageSelection:
    """
    Choose a stage by its loss after recalibration, instead of its loss as it is (refine, then calibrate).

    Boosting goes on refining a score while it becomes overconfident; the raw loss stops it when the second outweighs
    the first, although recalibration would mend it. The loss after a cross-fitted recalibration sees refinement alone.

    Parameters
    ----------
    stages : mapping, sequence, generator or fitted model
        As for `stagewise_decomposition`.
    y_true : array-like of shape (n,)
        Outcomes of rows the model was not trained on.
    X : array-like or frame of shape (n, p), optional
        Features, for models.
    loss : str or ProperLoss, default="log"
        The loss.
    calibrator : str, Calibrator or classifier, default="fast"
        The map. "fast" is Platt's for two classes, temperature scaling for more; any other of `CALIBRATORS`.
    rule : {"best", "one-se", "guarded"}, default="best"
        The stage with the least loss after recalibration; the first that is not more than one (paired) standard
        error behind it; or the least, unless the stage with the least raw loss is within half a standard error of it.
    cv : int or splitter, default=5
        Folds of the maps, and of the nested choice that the gain is judged by.
    level : float, default=0.95
        Confidence level of the intervals.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    random_state : int, Generator or None, default=0
        Seed of the folds.
    n_jobs : int, optional
        Processes; the result does not depend on it.

    Returns
    -------
    StageSelection
        The stage, both curves, and what the choice gains.

    Examples
    --------
    >>> from sklearn.datasets import make_hastie_10_2
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from scoreprism.ensembles import select_stage
    >>> X, y = make_hastie_10_2(2000, random_state=0)
    >>> model = GradientBoostingClassifier(learning_rate=1.0, max_depth=3, n_estimators=60, random_state=0)
    >>> found = select_stage(model.fit(X[:1000], y[:1000]), y[1000:], X[1000:], random_state=0)
    >>> bool(found.stage >= found.raw_stage)
    True
    """
    confidence, chosen, how = parse_confidence(level), get_loss(loss), parse_choice(rule, RULES, "rule")
    read = read_stages(stages, X, y_true)
    if read.given:
        refuse("select_stage must have scores", "levels, which need no recalibration", "Pass the probabilities.")
    path = follow(
        read, y_true, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes
    )  # fmt: skip
    return selected(path, chosen, calibrator, how, cv, confidence, random_state, n_jobs)


def selected(
    path: Path, loss: ProperLoss, calibrator: object, rule: str, cv: object, level: float, seed: object, n_jobs: Any
) -> StageSelection:
    """The selection of a parsed path."""
    folds, learner = Folds.of(path, cv, seed), parse_map(calibrator, path.k)
    one = partial(_judged, folds=folds, learner=learner, loss=loss, keep=rule != "best")
    found = list(run_all(one, path.laws, n_jobs, "stages"))
    raw, after = np.stack([line[0] for line in found]), np.stack([line[1] for line in found])
    nested = np.stack([line[2] for line in found])
    curve = Curves(folds, raw, after)
    best, choice = curve.least(after), curve.choice(after, rule)
    table = curve.table(path, best, level)
    picked = [curve.without(f, nested[:, f], rule) for f in range(folds.count)]
    gains = curve.gains(picked, level)
    reach = [table.behind[t] - _z(level) * table.behind_std_error[t] <= 0.0 for t in range(raw.shape[0])]
    number = path.numbers.tolist()
    return StageSelection(
        ("refined", "raw"), path.backend, number[choice], number[curve.least(raw)], table, *gains,
        tuple(number[t] for t in np.flatnonzero(reach)), tuple((number[a], number[b]) for a, b in picked), rule,
        learner.name, loss, level, path.codes.size, (*path.notes, *_infinite(table)),
    )  # fmt: skip


def _z(level: float) -> float:
    from scoreprism._kernels.term_intervals import quantile

    return quantile(level, two_sided=True)


def _infinite(table: SelectionTable) -> list[str]:
    count = int(np.isinf(table.raw_loss).sum())
    has = f"{plural(count, 'stage')} {'has' if count == 1 else 'have'}"
    return [f"{has} an infinite raw loss: probability 0 for what happened"] if count else []


def _judged(
    score: FloatArray, folds: Folds, learner: MapLearner, loss: ProperLoss, *, keep: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows of the loss of a stage as it is and recalibrated; and what choices without each fold go by."""
    raw, after = loss.loss(score, folds.codes), loss.loss(folds.law(score, learner), folds.codes)
    nested = folds.nested(score, learner, loss)
    if keep:
        return raw, after, nested
    return raw, after, np.array([folds.mean(line, ~np.isnan(line)) for line in nested])


@dataclass(frozen=True)
class Curves:
    """Rows of the losses of every stage, as they are and recalibrated."""

    folds: Folds
    raw: FloatArray
    after: FloatArray

    def _means(self, lines: FloatArray, mask: Any = None) -> FloatArray:
        return np.array([self.folds.mean(line, mask) for line in lines])

    def least(self, lines: FloatArray, mask: Any = None) -> int:
        """The stage whose mean loss is least; the first of equals."""
        return int(np.argmin(self._means(lines, mask)))

    def amount(self, rows: FloatArray, level: float, mask: Any = None) -> Amount:
        """Mean of rows, with its standard error."""
        some = slice(None) if mask is None else mask
        weight, groups = self.folds.weight, self.folds.groups
        return Amount.of(
            rows[some], None if weight is None else weight[some], None if groups is None else groups[some], level
        )

    def choice(self, lines: FloatArray, rule: str, mask: Any = None) -> int:
        """The stage that a rule takes."""
        best = self.least(lines, mask)
        if rule == "best":
            return best
        if rule == "guarded":
            raw = self.least(self.raw, mask)
            lead = self.amount(lines[raw] - lines[best], 0.95, mask)
            return best if lead.value > _AHEAD * lead.std_error else raw
        for t in range(best):
            gap = self.amount(lines[t] - lines[best], 0.95, mask)
            if gap.value <= gap.std_error:
                return t
        return best

    def without(self, fold: int, nested: FloatArray, rule: str) -> tuple[int, int]:
        """The refined and the raw choice of someone who has not seen a fold."""
        others = self.folds.fold != fold
        refined = int(np.argmin(nested)) if nested.ndim == 1 else self.choice(nested, rule, others)
        return refined, self.least(self.raw, others)

    def gains(self, picked: Sequence[tuple[int, int]], level: float) -> tuple[Amount, Amount]:
        """What the refined choices gain over the raw ones on rows that neither has seen."""
        refined, raw = (np.array([pair[side] for pair in picked])[self.folds.fold] for side in (0, 1))
        rows = np.arange(self.raw.shape[1])
        ours = self.after[refined, rows]
        return self.amount(self.after[raw, rows] - ours, level), self.amount(self.raw[raw, rows] - ours, level)

    def table(self, path: Path, best: int, level: float) -> SelectionTable:
        """Both curves with their standard errors."""
        lines: list[list[float]] = []
        for raw, after in zip(self.raw, self.after, strict=True):
            amounts = [self.amount(rows, level) for rows in (raw, after, after - self.after[best])]
            lines.append([number for amount in amounts for number in (amount.value, amount.std_error)])
        columns = named_columns(SelectionTable, lines)
        return SelectionTable(numbers=frozen(path.numbers), _backend=path.backend, **columns)


def refinement_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str | ProperLoss = "log",
    calibrator: object = "fast",
    cv: object = 5,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
) -> float:
    """
    Loss after a cross-fitted recalibration: what a model is worth once it is recalibrated.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    loss : str or ProperLoss, default="log"
        The loss.
    calibrator : str, Calibrator or classifier, default="fast"
        The map, as for `select_stage`.
    cv : int or splitter, default=5
        Folds.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters, which stay in one fold.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    random_state : int, Generator or None, default=0
        Seed of the folds: the same for all models, so that scores can be compared.

    Returns
    -------
    float
        The mean loss.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import make_scorer
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> bold = q**2 / (q**2 + (1 - q) ** 2)
    >>> bool(abs(refinement_loss(y, bold) - refinement_loss(y, q)) < 1e-3)
    True
    >>> scorer = make_scorer(refinement_loss, response_method="predict_proba", greater_is_better=False)
    """
    law = parse_law(y_proba, "y_proba")
    warn_of_hard_labels(law)
    given = GivenLaw("y_proba", law, None, column_names(y_proba))
    read = Stages(np.ones(1, dtype=np.int64), [given], backend=backend_of(y_proba), rows={"y_proba": y_proba})
    path = follow(read, y_true, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes)
    folds, learner = Folds.of(path, cv, random_state, blind=True), parse_map(calibrator, path.k)
    return folds.mean(get_loss(loss).loss(folds.law(path.laws[0], learner), path.codes))
