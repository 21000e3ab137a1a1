"""The map to deploy: the simplest of several that is as good as the best, by cross-validation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import parse_choice, parse_count, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._findings.finding import Finding, announce
from scoreprism._maps.order import judge_order, put_in_order
from scoreprism._maps.parts import Map
from scoreprism._parameters import described
from scoreprism._sample.batch import Batch
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import Split, has_enough_rows, is_count, make_folds, random_folds
from scoreprism.calibrators._calibrator import Calibrator, get_calibrator, one_of, rules, with_parameters
from scoreprism.calibrators._kernel_smoothing import KernelCalibrator
from scoreprism.calibrators._parametric import (
    BetaCalibrator,
    IdentityCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from scoreprism.calibrators._softmax_maps import (
    MatrixScalingCalibrator,
    PolynomialCalibrator,
    StructuredMatrixCalibrator,
    VectorScalingCalibrator,
)
from scoreprism.calibrators._splines import MonotoneSplineCalibrator, NaturalSplineCalibrator
from scoreprism.calibrators._stepwise import IsotonicCalibrator
from scoreprism.losses import ProperLoss, get_loss

#: What ``candidates="auto"`` chooses among, simplest first, by order and by whether there are two classes.
_CANDIDATES: dict[str, dict[bool, tuple[Calibrator, ...]]] = {
    "keep": {
        True: (
            IdentityCalibrator(),
            PlattCalibrator(increasing=True),
            BetaCalibrator(),
            MonotoneSplineCalibrator(),
            IsotonicCalibrator(),
        ),
        False: (IdentityCalibrator(), TemperatureCalibrator()),
    },
    "any": {
        True: (
            IdentityCalibrator(),
            PlattCalibrator(),
            NaturalSplineCalibrator(),
            IsotonicCalibrator(),
            KernelCalibrator(bandwidth="under"),
        ),
        False: (
            IdentityCalibrator(),
            TemperatureCalibrator(),
            VectorScalingCalibrator(),
            MatrixScalingCalibrator(),
            StructuredMatrixCalibrator(),
            PolynomialCalibrator(),
        ),
    },
}
#: How many standard errors better a map that may reverse the order must be for a warning.
_CONTRADICTION = 2.0


def _parse_cv(value: object, name: str) -> Any:
    """Parse a number of folds, or user-defined splits."""
    return parse_count(value, name, 2) if is_count(value) else value


def _parse_seed(value: object, _name: str) -> object:
    """What `numpy.random.default_rng` takes, as it came: each fit draws its own folds from it."""
    parse_random_state(value)
    return value


@with_parameters
class SelectedCalibrator(Calibrator):
    """
    The map to deploy: the simplest candidate that cross-validation cannot tell from the best.

    Each candidate is fitted on the training part of each random fold. Of the out-of-fold losses the smallest is found,
    and the first candidate is taken whose loss lies within one standard error of the paired difference to it. It is
    fitted again on all rows. With fewer rows than folds, or a single row of a class, nothing can be compared and the
    first candidate is taken.

    Parameters
    ----------
    candidates : "auto" or sequence of str or Calibrator, default="auto"
        What to choose among, simplest first. "auto" is the identity (no recalibration), Platt's map, the beta map, the
        monotone spline and the shrunken centred isotonic map; for more than two classes the identity and temperature
        scaling. With ``order="any"`` it is the identity, Platt's map, the natural spline, the isotonic and a kernel
        map; for more classes the identity, temperature, vector and matrix scaling and the polynomial map.
    order : {"keep", "any"}, default="keep"
        "keep": no two scores change places, and with more than two classes the classes of a row keep their order.
        Platt's slope is then at least 0, and candidates that may reverse the order are refused. "any": whatever
        fits best, which may rank cases differently from the score.
    loss : str or ProperLoss, default="log"
        The loss to minimise.
    cv : int, splitter or iterable, default=5
        Number of random folds (not stratified, every class in each training part), or splits of your own.
    kind : {"probability", "logit"}, default="probability"
        What scores are; overrides that of the candidates.

    Attributes
    ----------
    selected_ : str
        Name of the map that was chosen.
    calibrator_ : Calibrator
        That map, fitted.
    losses_ : dict
        Mean out-of-fold loss of each candidate.
    std_errors_ : dict
        Standard error of the paired difference of each candidate to the one with the smallest loss.
    order_kept_ : bool
        Whether the fitted map keeps the order of the scores it saw (of the classes within each row).
    ties_added_ : bool
        Whether it makes different scores equal, so that the AUC may move a little.
    contradiction_ : dict or None
        Where the data contradict an order that is kept: the ``map`` that reverses it, the out-of-fold ``gain`` over
        the best map that keeps it, and the ``std_error`` of that gain. None elsewhere, or where it was not looked for
        (``order="any"``, or candidates of your own).

    Warns
    -----
    ContradictedOrderWarning
        If a map that reverses the order (isotonic in the other direction, or a flexible one) is better out of fold by
        more than two standard errors than the best map that keeps it, and than its own values put in order.

    See Also
    --------
    scoreprism.decompose : For diagnosis; it mixes maps that follow any shape, and has candidates of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import SelectedCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(3000)
    >>> SelectedCalibrator().fit(s, rng.random(3000) < s).selected_
    'identity'
    >>> SelectedCalibrator().fit(s, rng.random(3000) < s**2).selected_
    'beta'
    """

    candidates: str | Sequence[str | Calibrator] = "auto"
    order: str = "keep"
    loss: str | ProperLoss = "log"
    cv: Any = 5
    random_state: object = 0
    kind: str = "probability"

    name = "selected"
    multiclass = True
    _rules = rules(
        loss=lambda value, _name: get_loss(value), order=one_of(*_CANDIDATES), cv=_parse_cv, random_state=_parse_seed
    )
    losses_: dict[str, float] = field(init=False)
    std_errors_: dict[str, float] = field(init=False)
    contradiction_: dict[str, Any] | None = field(init=False)
    _kept = ("selected_", "losses_", "std_errors_", "order_kept_", "ties_added_", "contradiction_", "calibrator_")

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SelectedCalibrator:
        super().fit(scores, y, sample_weight)
        if self.contradiction is not None:
            announce(self.contradiction)
        return self

    @property
    def contradiction(self) -> Finding | None:
        """What the data say against the order that the map keeps; None where they do not contradict it."""
        check_is_fitted(self)
        contradiction = self.contradiction_
        if contradiction is None:
            return None
        facts = {
            "std_error": contradiction["std_error"],
            "loss": get_loss(self.loss).name,
            "classes": len(self.classes_) > 2,
        }
        return Finding("order_contradicted", value=contradiction["gain"], subject=contradiction["map"], facts=facts)

    @property
    def _keeps_order(self) -> bool:
        return parse_choice(self.order, _CANDIDATES, "order") == "keep"

    @property
    def _deals_rows(self) -> bool:
        return True

    def _fit(self, data: FitRows) -> Map:
        candidates = self._parse_candidates(data)
        self.selected_, self.losses_, self.std_errors_, self.contradiction_ = next(iter(candidates)), {}, {}, None
        if has_enough_rows(data.codes, self.cv):
            trial = self._trial(data)
            rows = _try_out(candidates, trial)
            self.selected_, best, self.losses_, self.std_errors_ = _choose(rows, trial)
            if self.order == "keep" and _is_auto(self.candidates):
                self.contradiction_ = _find_contradiction(trial, rows[best])
        given, requested = candidates[self.selected_]
        winner: Calibrator = clone(given)
        winner.map_ = winner._fit_as(copy(requested), data)
        for name in ("classes_", "n_features_in_", "reduction_"):
            if hasattr(self, name):  # not where another calibrator calls this one for a part of its own fit
                setattr(winner, name, getattr(self, name))
        self.calibrator_ = winner
        self.order_kept_, self.ties_added_ = judge_order(winner.map_, data.score)
        return winner.map_

    def _fit_many_rows(self, batch: Batch, parts: Sequence[FitRows]) -> FloatArray:
        candidates = self._parse_candidates(parts[0])
        laws = []
        for m, part in enumerate(parts):
            chosen = next(iter(candidates))
            if has_enough_rows(part.codes, self.cv):
                trial = _pool(self._trial(part), batch.center)
                chosen = _choose(_try_out(candidates, trial), trial)[0]
            laws.append(copy(candidates[chosen][1])._fit(batch.part(m))(batch.center))
        return np.stack(laws)

    def _trial(self, data: FitRows) -> _Trial:
        """The rows in the folds that candidates are tried out in."""
        loss = cast("ProperLoss", self.loss)
        if isinstance(self.cv, int):
            folds = random_folds(data.codes, self.cv, np.random.default_rng(self.random_state))  # type: ignore[arg-type]
        else:
            folds = make_folds(self.cv, data, self.random_state)
        weight = np.ones(data.codes.size) if data.weight is None else data.weight
        return _Trial(data, folds, loss, weight, weight**2)

    def _parse_candidates(self, data: FitRows) -> dict[str, _Pair]:
        """The candidates for the classes and the kind of some scores; the other parameters have been parsed."""
        cast("ProperLoss", self.loss).require_classes(data.score)
        if _is_auto(self.candidates):
            own = _parse_own_candidates(data.k, data.kind, self.order).items()
            n = data.codes.size
            return {name: (clone(one), parsed) for name, (one, parsed) in own if one._is_tried(data.k, n)}
        return _parse_pairs(_name_candidates(self.candidates, data.k, data.kind, self.order, self.random_state))

    @described()
    def named_candidates(self, k: int, kind: str = "probability", n: int | None = None) -> dict[str, Calibrator]:
        """
        The candidates for a number of classes, simplest first.

        Parameters
        ----------
        k : int
            Number of classes.
        n : int, optional
            Number of rows, where maps of many weights need some; by default there are enough.

        Returns
        -------
        dict of str to Calibrator
            Copies, not fitted; a repeated name is numbered.
        """
        order = parse_choice(self.order, _CANDIDATES, "order")
        return _name_candidates(self.candidates, k, kind, order, self.random_state, sys.maxsize if n is None else n)


# ── candidates ──────────────────────────────────────────────────────────────────────────────────────


def _is_auto(candidates: object) -> bool:
    return isinstance(candidates, str) and candidates == "auto"


def _name_candidates(
    candidates: Any, k: int, kind: str, order: str, random_state: object, n: int = sys.maxsize
) -> dict[str, Calibrator]:
    """Copies of the candidates by name; a repeated name is numbered."""
    if _is_auto(candidates):
        usable = [clone(candidate) for candidate in _CANDIDATES[order][k == 2] if candidate._is_tried(k, n)]
    else:
        listed = [candidates] if isinstance(candidates, (str, Calibrator)) else candidates
        usable = [clone(get_calibrator(candidate)) for candidate in listed]
    if not usable:
        refuse("`candidates` must not be empty", "none", "Pass calibrators or their names, or 'auto'.")
    by_name: dict[str, Calibrator] = {}
    for candidate in usable:
        _check(candidate, k, order)
        twins = sum(1 for name in by_name if name.partition(" ")[0] == candidate.name)
        name = candidate.name if not twins else f"{candidate.name} {twins + 1}"
        draws = "random_state" in candidate.get_params(deep=False)
        by_name[name] = candidate.set_params(kind=kind, **({"random_state": random_state} if draws else {}))
    return by_name


def _check(candidate: Calibrator, k: int, order: str) -> None:
    """Refuse a candidate that does not take the classes, or may reverse an order that must be kept."""
    if k > 2 and not candidate.multiclass:
        remedy = "Wrap it in OneVsRestCalibrator, or leave it out."
        refuse(f"`candidates` must take {k} classes", candidate.name, remedy)
    if order == "keep" and isinstance(candidate, PlattCalibrator):
        candidate.set_params(increasing=True)
    if order == "keep" and not candidate._keeps_order:
        refuse(
            "`candidates` must keep the order of scores, unless `order`='any'",
            f"{candidate.name}, which may reverse it",
            "Pass `order`='any', or leave it out.",
        )


#: A candidate as it was passed, and as a copy with parsed parameters.
_Pair = tuple[Calibrator, Calibrator]


def _parse_pairs(named: Mapping[str, Calibrator]) -> dict[str, _Pair]:
    return {name: (candidate, candidate._parse_parameters()) for name, candidate in named.items()}


@lru_cache(maxsize=64)
def _parse_own_candidates(k: int, kind: str, order: str) -> dict[str, _Pair]:
    """Our own candidates, none of which draws: parsed once, not in every fold of every report."""
    return _parse_pairs(_name_candidates("auto", k, kind, order, 0))


# ── trials ──────────────────────────────────────────────────────────────────────────────────────────


class _Trial(NamedTuple):
    """Rows, or lines that stand for several rows of the same score, outcome and fold; and their folds."""

    data: FitRows
    folds: Sequence[Split]
    loss: ProperLoss
    weight: FloatArray  # of each line, and the sum of the squared weights of its rows
    squares: FloatArray


def _pool(trial: _Trial, centers: FloatArray) -> _Trial:
    """The same with the rows that share fold, outcome and cell of the score as one line, where that saves lines."""
    data, count = trial.data, len(trial.folds)
    fold = np.full(data.codes.size, -1)
    for number, (_, test) in enumerate(trial.folds):
        fold[test] = number
    if sum(test.size for _, test in trial.folds) != data.codes.size or fold.min() < 0:
        return trial  # user-defined splits
    middle = 0.5 * (centers[1:] + centers[:-1])
    place = (np.searchsorted(middle, data.score) * data.k + data.codes) * count + fold
    lines, line = np.unique(place, return_inverse=True)
    if lines.size == data.codes.size:
        return trial
    weight, squares = (np.bincount(line, values, lines.size).astype(float) for values in (trial.weight, trial.squares))
    cell, rest = np.divmod(lines, data.k * count)
    codes, fold = np.divmod(rest, count)
    folds = [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(count)]
    pooled = FitRows(centers[cell], codes, weight, data.k, data.kind)
    return _Trial(pooled, folds, trial.loss, weight, squares)


def _choose(rows: dict[str, FloatArray], trial: _Trial) -> tuple[str, str, dict[str, float], dict[str, float]]:
    """The first candidate within one standard error of the paired difference to the best; the best; how all did."""
    losses = {name: _mean(losses, trial) for name, losses in rows.items()}
    best = min(losses, key=lambda name: losses[name])
    pairs = {name: _compare_paired(losses, rows[best], trial) for name, losses in rows.items()}
    alike = 1e-9 * abs(losses[best])  # maps that are the same up to rounding
    chosen = next((name for name, (gap, error) in pairs.items() if gap <= error + alike), best)
    return chosen, best, losses, {name: error for name, (_, error) in pairs.items()}


def _mean(rows: FloatArray, trial: _Trial) -> float:
    """The mean of rows that were tested; infinite losses make it infinite."""
    tested = ~np.isnan(rows)
    return float(np.average(rows[tested], weights=None if trial.data.weight is None else trial.weight[tested]))


def _compare_paired(rows: FloatArray, others: FloatArray, trial: _Trial) -> tuple[float, float]:
    """The mean difference of two lines of losses, and its standard error."""
    with np.errstate(invalid="ignore"):
        gap = rows - others
    tested = ~np.isnan(rows)
    gap, w, squares = gap[tested], trial.weight[tested], trial.squares[tested]
    if np.isnan(gap).any():  # both infinite in some row: they cannot be told apart there
        return float("nan"), float("nan")
    mean = float(np.average(gap, weights=w))
    if not np.isfinite(mean):
        return mean, float("nan")
    return mean, float(np.sqrt((squares * (gap - mean) ** 2).sum())) / float(w.sum())


def _try_out(candidates: dict[str, _Pair], trial: _Trial) -> dict[str, FloatArray]:
    """The losses of each candidate, out of fold."""
    return {name: _find_losses(parsed, trial)[0] for name, (_, parsed) in candidates.items()}


def _find_losses(candidate: Calibrator, trial: _Trial, direction: float | None = None) -> FloatArray:
    """
    The mean loss of each row under fits that did not see it, one line; NaN where there are none.

    With a direction, a second line: the same of the fitted values put in the order of the scores (1), or in the
    opposite order (−1).
    """
    data, shared = trial.data, candidate._share_choices(trial.data)
    total, times = np.zeros((1 if direction is None else 2, data.codes.size)), np.zeros(data.codes.size)
    for train, test in trial.folds:
        held = data.part(test)
        law = copy(shared)._fit(data.part(train))(held.score)
        laws = [law] if direction is None else [law, put_in_order(law, direction * held.score, held.weight)]
        total[:, test] += [trial.loss.evaluate(probabilities, held.codes) for probabilities in laws]
        times[test] += 1.0
    with np.errstate(invalid="ignore"):
        losses: FloatArray = total / np.where(times > 0.0, times, np.nan)
    return losses


def _find_contradiction(trial: _Trial, in_order: FloatArray) -> dict[str, Any] | None:
    """The map that clearly gains by reversing the order over the best that keeps it (losses `in_order`), if any."""
    data = trial.data
    free = [parsed for _, parsed in _parse_own_candidates(data.k, data.kind, "any").values()]
    rivals = [rival for rival in free if not (rival.monotone or isinstance(rival, PlattCalibrator))]
    lines = {rival.name: _find_losses(rival, trial, 1.0) for rival in rivals}
    if data.k == 2:
        turned = replace(data, score=-data.score if data.kind == "logit" else 1.0 - data.score)
        isotonic = IsotonicCalibrator(kind=data.kind)._parse_parameters()
        lines["falling isotonic"] = _find_losses(isotonic, trial._replace(data=turned), -1.0)
    gains = []
    for name, (rows, ordered) in lines.items():
        # better than the best that keeps the order, and than itself put in order: a map may also win by its shape
        pairs = [_compare_paired(other, rows, trial) for other in (in_order, ordered)]
        if all(gain > _CONTRADICTION * error > 0.0 for gain, error in pairs):
            gains.append((name, *pairs[0]))
    if not gains:
        return None
    name, gain, error = max(gains, key=lambda entry: entry[1])
    return {"map": name, "gain": gain, "std_error": error}
