"""select_stage() and refinement_loss(): early stopping by the loss after recalibration (Berta et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_confidence, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, clip_law, freeze
from scoreprism._core.workers import run_all
from scoreprism._document.result import TermTable
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import plural, write_count
from scoreprism._fitting.crossfit import make_crossfit
from scoreprism._fitting.parse_learners import MapLearner, OwnMap, parse_calibrator
from scoreprism._kernels.term_intervals import quantile
from scoreprism._parameters import described
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.sample import Sample
from scoreprism._sample.staged_models import StagePath, attach_outcomes, parse_stages
from scoreprism.calibrators import Calibrator, OneVsRestCalibrator, get_calibrator
from scoreprism.ensembles._stage_tables import Amount, StageColumns, describe_stages, make_columns
from scoreprism.losses import ProperLoss, get_loss

#: How a stage is chosen from the curve: the least; the first within one standard error of it; or
#: the least, unless the stage with the least raw loss is within half a standard error of it.
RULES = ("best", "one-se", "guarded")
#: Standard errors by which "guarded" must improve on the raw choice.
_AHEAD = 0.5
#: The map "fast", for every round of a booster: two parameters for two classes, one for more.
FAST = {True: "platt", False: "temperature"}


# ── results ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class SelectionTable(StageColumns):
    """
    Losses of every stage before and after recalibration, by which a stage was selected.

    Attributes
    ----------
    numbers : array of shape (T,)
        Number of each stage.
    raw_loss, raw_std_error : array of shape (T,)
        Loss of the stage as it is.
    recalibrated_loss, recalibrated_std_error : array of shape (T,)
        Loss after a cross-fitted recalibration.
    behind, behind_std_error : array of shape (T,)
        How much it exceeds the least such loss, and the paired standard error.

    Examples
    --------
    >>> one = np.ones(1)
    >>> SelectionTable(one, one, one, one, one, one, one, None)
    SelectionTable: 1 stage, number 1
    stage  raw loss  raw std error  recalibrated loss   behind  behind std error
    ────────────────────────────────────────────────────────────────────────────
    1       1.00000        1.00000            1.00000  1.00000           1.00000
    """

    numbers: NDArray[Any]
    raw_loss: FloatArray
    raw_std_error: FloatArray
    recalibrated_loss: FloatArray
    recalibrated_std_error: FloatArray
    behind: FloatArray
    behind_std_error: FloatArray
    _backend: str | None

    def _title(self) -> str:
        return f"SelectionTable: {describe_stages(self.numbers)}"

    def _shown_columns(self) -> dict[str, list[Any]]:
        return self._lines("raw_loss", "raw_std_error", "recalibrated_loss", "behind", "behind_std_error")


@dataclass(frozen=True, eq=False, repr=False)
class StageSelection(TermTable):
    """
    The stage to stop at, by loss after recalibration and by raw loss.

    Made by `select_stage`.

    Attributes
    ----------
    names : tuple of str
        "refined" and "raw": the two choices.
    stage : int or float
        The stage chosen by the loss after recalibration; stages are integers unless fractions were passed.
    raw_stage : int or float
        The stage with the smallest raw loss.
    stages : SelectionTable
        Both curves.
    gain : Amount
        Loss at the raw choice minus loss at the refined choice, both recalibrated; choices and maps are made without
        the rows they are evaluated on, so that it estimates the gain on new rows. It need not be 0 where
        `stage` and `raw_stage` are the same: without a fold the choices may differ (`chosen`).
    gain_over_raw : Amount
        The same against the raw choice without recalibration.
    alike : tuple of int or float
        Stages whose loss after recalibration does not differ significantly from the smallest.
    chosen : tuple of pairs
        The refined and the raw choice without each fold.
    rule, calibrator : str
        How the stage was taken from the curve, and the map.
    loss : ProperLoss
        The loss.
    confidence_level : float
        Confidence level.
    n : int
        Number of rows.
    findings : tuple of Finding
        Findings of the selection.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import select_stage
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> bold = q**4 / (q**4 + (1 - q) ** 4)                           # knows all there is, and overstates it
    >>> result = select_stage(y, [0.5 + 0.5 * (q - 0.5) + 0.2 * (rng.random(500) - 0.5), bold], random_state=0)
    >>> result.stage, result.raw_stage
    (2, 1)
    """

    stage: float
    raw_stage: float
    stages: SelectionTable
    gain: Amount
    gain_over_raw: Amount
    alike: tuple[float, ...]
    chosen: tuple[tuple[float, float], ...]
    rule: str
    calibrator: str
    loss: ProperLoss
    confidence_level: float
    n: int
    findings: tuple[Finding, ...] = ()

    @property
    def terms(self) -> dict[str, float]:
        """Loss after recalibration at both choices."""
        return dict(zip(self.names, (self._at(self.stage)[1], self._at(self.raw_stage)[1]), strict=True))

    def _at(self, stage: float) -> tuple[float, float]:
        i = int(np.flatnonzero(self.stages.numbers == stage)[0])
        return float(self.stages.raw_loss[i]), float(self.stages.recalibrated_loss[i])

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Choices, gains and curves; numbers that are not finite are strings.
        """
        plain = ("stage", "raw_stage", "rule", "calibrator", "confidence_level", "n")
        content: dict[str, Any] = {
            **{key: getattr(self, key) for key in plain},
            "loss": str(self.loss),
            "alike": list(self.alike),
            "chosen": [list(pair) for pair in self.chosen],
            "gain": self.gain.to_dict(),
            "gain_over_raw": self.gain_over_raw.to_dict(),
            "findings": [one.to_dict() for one in self._findings()],
            "stages": self.stages.to_dict(),
        }
        encoded: dict[str, Any] = encode(content)
        return encoded

    def _columns(self) -> dict[str, list[Any]]:
        pairs = [self._at(self.stage), self._at(self.raw_stage)]
        return {
            "choice": ["refined", "raw"],
            "stage": [f"{self.stage:g}", f"{self.raw_stage:g}"],
            "loss": [raw for raw, _ in pairs],
            "recalibrated": [after for _, after in pairs],
        }

    def _title(self) -> str:
        how = {
            "one-se": "within one standard error of the least",
            "guarded": "the least clearly below the raw choice's",
        }
        words = f"{how.get(self.rule, 'the least')} {self.loss!s} loss after recalibration"
        size = f"{plural(self.stages.numbers.size, 'stage')} on {write_count(self.n)} rows"
        raw = f"stage {self.raw_stage:g} has the least raw loss"
        return f"Stage {self.stage:g}: {words}\n  [{self.calibrator}, cross-fitted; {size}; {raw}]"

    def _findings(self) -> Sequence[Finding]:
        refined, raw = (_write_span(pair[side] for pair in self.chosen) for side in (0, 1))
        facts = {"refined": refined, "raw": raw}
        chosen = Finding("stage_choice", subject=f"{self.stage:g}", n=len(self.chosen), facts=facts)
        if any(one != other for one, other in self.chosen):
            chosen = replace(chosen, value=self.gain.value, low=self.gain.low, high=self.gain.high)
        return (chosen, *self._find_alike(), *self.findings)

    def _find_alike(self) -> list[Finding]:
        """Stages that cannot be separated from the best."""
        total = int(self.stages.numbers.size)
        facts = {"total": total, "first": min(self.alike), "last": max(self.alike)}
        return [] if total == 1 else [Finding("stages_alike", n=len(self.alike), facts=facts)]


def _write_span(stages: Iterable[float]) -> str:
    """Write the range of stages, or all of them if they are few."""
    different = sorted(set(stages))
    if len(different) <= 3:
        return ", ".join(f"{stage:g}" for stage in different)
    return f"{different[0]:g} to {different[-1]:g}"


# ── the functions ───────────────────────────────────────────────────────────────────────────────────


@described()
def select_stage(
    y_true: ArrayLike | Sample,
    stages: Any = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    calibrator: object = "fast",
    rule: str = "best",
    cv: object = 5,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> StageSelection:
    """
    Choose a stage by its loss after recalibration, instead of its loss as it is (refine, then calibrate).

    Boosting keeps refining a score while it becomes overconfident; the raw loss stops it when the second outweighs
    the first, although recalibration would correct that. The loss after a cross-fitted recalibration measures
    refinement alone.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes of rows the model was not trained on; or everything at once, its models numbered as stages.
    stages : mapping, sequence, generator or fitted model, optional
        As for `stagewise_decomposition`.
    X : array-like or frame of shape (n, p), optional
        Features, for models.
    calibrator : str, Calibrator or classifier, default="fast"
        The map. "fast" is Platt's for two classes, temperature scaling for more; any other of `CALIBRATORS`.
    rule : {"best", "one-se", "guarded"}, default="best"
        The stage with the least loss after recalibration; the first that is not more than one (paired) standard
        error behind it; or the least, unless the stage with the least raw loss is within half a standard error of it.
    cv : int or splitter, default=5
        Folds of the maps, and of the nested choice behind the gain.
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
    >>> result = select_stage(y[1000:], model.fit(X[:1000], y[:1000]), X[1000:], random_state=0)
    >>> bool(result.stage >= result.raw_stage)
    True
    """
    confidence, chosen, how = parse_confidence(confidence_level), get_loss(loss), parse_choice(rule, RULES, "rule")
    read = parse_stages(y_true, stages, X)
    if read.is_known:
        refuse("select_stage must have scores", "levels, which need no recalibration", "Pass the probabilities.")
    path = attach_outcomes(
        read, y_true, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes
    )
    return select_along(path, chosen, calibrator, how, cv, confidence, random_state, n_jobs)


@described()
def refinement_loss(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
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
    y_true : array-like of shape (n,), or Sample
        Outcomes, or everything at once.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    calibrator : str, Calibrator or classifier, default="fast"
        The map, as for `select_stage`.
    cv : int or splitter, default=5
        Folds.
    groups : array-like of shape (n,), optional
        Clusters, which stay in one fold.
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
    sample = Sample.of(
        y_true, y_proba, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes
    )
    folds, learner = Folds.of(sample, None, cv, random_state), parse_map(calibrator, sample.k)
    return folds.mean(get_loss(loss).loss(folds.recalibrate(sample.fit_rows().score, learner), sample.y))


# ── choosing ────────────────────────────────────────────────────────────────────────────────────────


def select_along(
    path: StagePath,
    loss: ProperLoss,
    calibrator: object,
    rule: str,
    cv: object,
    confidence_level: float,
    seed: object,
    n_jobs: int | None,
) -> StageSelection:
    """Select a stage of a parsed path."""
    sample = path.sample
    folds, learner = Folds.of(sample, path.laws[0], cv, seed), parse_map(calibrator, sample.k)
    one = partial(_measure_stage, folds=folds, learner=learner, loss=loss, keep=rule != "best")
    raw, after, nested = map(np.stack, zip(*run_all(one, path.laws, n_jobs, "stages"), strict=True))
    curves = Curves(folds, raw, after)
    best, choice = curves.least(after), curves.choose(after, rule)
    table = curves.table(path, best, confidence_level)
    picked = [curves.choose_without(f, nested[:, f], rule) for f in range(folds.count)]
    alike = table.behind - quantile(confidence_level, two_sided=True) * table.behind_std_error <= 0.0
    number = path.numbers.tolist()
    return StageSelection(
        ("refined", "raw"), sample.backend, number[choice], number[curves.least(raw)], table,
        *curves.gains(picked, confidence_level), tuple(number[t] for t in np.flatnonzero(alike)),
        tuple((number[a], number[b]) for a, b in picked), rule, learner.name, loss, confidence_level, sample.n,
        (*path.findings, *_find_infinite(table)),
    )  # fmt: skip


def _find_infinite(table: SelectionTable) -> list[Finding]:
    count = int(np.isinf(table.raw_loss).sum())
    return [Finding("infinite_stages", n=count)] if count else []


def _measure_stage(
    score: FloatArray, folds: Folds, learner: MapLearner, loss: ProperLoss, *, keep: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Row losses of a stage before and after recalibration, and those behind the choices without each fold."""
    raw, after = loss.loss(score, folds.codes), loss.loss(folds.recalibrate(score, learner), folds.codes)
    nested = folds.evaluate_nested(score, learner, loss)
    if keep:
        return raw, after, nested
    return raw, after, np.array([folds.mean(line, ~np.isnan(line)) for line in nested])


@dataclass(frozen=True)
class Curves:
    """Row losses of every stage before and after recalibration."""

    folds: Folds
    raw: FloatArray
    after: FloatArray

    def _means(self, lines: FloatArray, mask: Any = None) -> FloatArray:
        return np.array([self.folds.mean(line, mask) for line in lines])

    def least(self, lines: FloatArray, mask: Any = None) -> int:
        """The stage whose mean loss is least; the first of equals."""
        return int(np.argmin(self._means(lines, mask)))

    def amount(self, rows: FloatArray, confidence_level: float, mask: Any = None) -> Amount:
        """Mean of rows, with its standard error."""
        some, weight, groups = slice(None) if mask is None else mask, self.folds.weight, self.folds.groups
        return Amount.of(
            rows[some],
            None if weight is None else weight[some],
            None if groups is None else groups[some],
            confidence_level,
        )

    def choose(self, lines: FloatArray, rule: str, mask: Any = None) -> int:
        """The stage chosen by a rule."""
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

    def choose_without(self, fold: int, nested: FloatArray, rule: str) -> tuple[int, int]:
        """The refined and the raw choice made without a fold."""
        others = self.folds.fold != fold
        refined = int(np.argmin(nested)) if nested.ndim == 1 else self.choose(nested, rule, others)
        return refined, self.least(self.raw, others)

    def gains(self, picked: Sequence[tuple[int, int]], confidence_level: float) -> tuple[Amount, Amount]:
        """The gain of the refined choices over the raw ones on rows used for neither."""
        refined, raw = (np.array([pair[side] for pair in picked])[self.folds.fold] for side in (0, 1))
        rows = np.arange(self.raw.shape[1])
        losses = self.after[refined, rows]
        over_recalibrated = self.amount(self.after[raw, rows] - losses, confidence_level)
        return over_recalibrated, self.amount(self.raw[raw, rows] - losses, confidence_level)

    def table(self, path: StagePath, best: int, confidence_level: float) -> SelectionTable:
        """Both curves with their standard errors."""
        lines: list[list[float]] = []
        for raw, after in zip(self.raw, self.after, strict=True):
            amounts = [self.amount(rows, confidence_level) for rows in (raw, after, after - self.after[best])]
            lines.append([number for amount in amounts for number in (amount.value, amount.std_error)])
        columns = make_columns(SelectionTable, lines)
        return SelectionTable(numbers=freeze(path.numbers), _backend=path.sample.backend, **columns)


# ── maps in folds ───────────────────────────────────────────────────────────────────────────────────


def parse_map(calibrator: object, k: int) -> MapLearner:
    """One map for all stages: a chooser is one that selects in every fit, not several to be mixed."""
    if isinstance(calibrator, str) and calibrator == "fast":
        calibrator = FAST[k == 2]
    if not isinstance(calibrator, (str, Calibrator)):
        return parse_calibrator(calibrator, k)[0]
    chosen = get_calibrator(calibrator)
    chosen = chosen if k == 2 or chosen.multiclass else OneVsRestCalibrator(chosen)
    return OwnMap(chosen.name, chosen._parse_parameters().set_params(kind="probability"))


@dataclass(frozen=True)
class Folds:
    """The rows of a sample and their folds."""

    rows: FitRows  # of the score by which the folds were dealt
    fold: IntArray
    weight: FloatArray | None
    groups: IntArray | None

    @property
    def codes(self) -> IntArray:
        """Outcomes, 0 … K−1."""
        return self.rows.codes

    @property
    def count(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @staticmethod
    def of(sample: Sample, score: FloatArray | None, cv: object, random_state: object) -> Folds:
        """Deal every row to exactly one fold, as nested choices require."""
        # rows are dealt in order of the score; a constant score gives calls with different scores the same folds,
        # and ties are dealt in order of the rows
        data = sample.model(next(iter(sample.predictions))).fit_rows()
        data = replace(data, score=np.full(data.score.shape, 1.0 / sample.k) if score is None else score)
        if np.unique(sample.y).size < 2:
            refuse("`y_true` must hold at least two classes", "one", "Pass rows in which each class occurs.")
        seed = int(parse_random_state(random_state).integers(2**62))
        plan = make_crossfit(cv, data, sample.groups, seed)
        if plan.factor != 1.0 or not plan.whole:
            refuse("`cv` must put every row into one fold", "other splits", "Pass a number of folds, or KFold.")
        fold = np.unique(plan.home, return_inverse=True)[1]  # folds of rows without weight are none
        return Folds(data, fold, sample.weight, sample.groups)

    def recalibrate(self, score: FloatArray, learner: MapLearner) -> FloatArray:
        """Recalibrate each row by a map fitted without its fold."""
        data = replace(self.rows, score=score)
        shared, law = learner.share(data), np.empty(score.shape)
        for f in range(self.count):
            test = self.fold == f
            law[test] = shared.fit(data.part(np.flatnonzero(~test)))(score[test])
        return law

    def evaluate_nested(self, score: FloatArray, learner: MapLearner, loss: ProperLoss) -> FloatArray:
        """Row f: for every row of another fold j, the loss of a map fitted without f and j; NaN in f itself."""
        if self.count < 3:
            rule = "`cv` must have at least 3 folds, for choices are nested in them"
            refuse(rule, f"{self.count}", "For example `cv`=5.")
        data = replace(self.rows, score=score)
        shared = learner.share(data)
        lines = np.full((self.count, score.shape[0]), np.nan)
        for f in range(self.count):
            for j in range(f):  # a map without f and j serves both lines
                rows = np.flatnonzero((self.fold != f) & (self.fold != j))
                two = np.unique(self.codes[rows]).size > 1
                # if only one class is left without the two folds, keep the score, clipped away from 0 and 1
                fitted = shared.fit(data.part(rows)) if two else partial(clip_law, distance=data.distance)
                for line, tested in ((f, j), (j, f)):
                    rows = np.flatnonzero(self.fold == tested)
                    lines[line, rows] = loss.loss(fitted(score[rows]), self.codes[rows])
        return lines

    def mean(self, rows: FloatArray, mask: Any = None) -> float:
        """The (weighted) mean of some rows."""
        some = slice(None) if mask is None else mask
        return float(np.average(rows[some], weights=None if self.weight is None else self.weight[some]))
