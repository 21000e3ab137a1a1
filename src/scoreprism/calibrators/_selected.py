"""The map to deploy: the simplest of several that is as good as the best, by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from scoreprism._core.checks import outside, parse_choice, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._maps.order import judge_order, put_in_order
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import Split, enough_rows, make_folds
from scoreprism._spelling import spell
from scoreprism.calibrators._calibrator import Calibrator, get_calibrator, one_of, rules
from scoreprism.calibrators._kernel_smoothing import KernelCalibrator
from scoreprism.calibrators._parametric import (
    BetaCalibrator,
    IdentityCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from scoreprism.calibrators._softmax_maps import MatrixScalingCalibrator, PolynomialCalibrator, VectorScalingCalibrator
from scoreprism.calibrators._splines import MonotoneSplineCalibrator, NaturalSplineCalibrator
from scoreprism.calibrators._stepwise import IsotonicCalibrator
from scoreprism.exceptions import ContradictedOrderWarning
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
            PolynomialCalibrator(),
        ),
    },
}
#: How many standard errors better a map that may reverse the order must be for a warning.
_CONTRADICTION = 2.0


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
    random_state : int, Generator or None, default=0
        Seed of the folds.
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

    name = "selected"
    multiclass = True
    _rules = rules(loss=lambda value, _name: get_loss(value), order=one_of(*_CANDIDATES))
    losses_: dict[str, float]
    std_errors_: dict[str, float]
    contradiction_: dict[str, Any] | None
    _kept = ("selected_", "losses_", "std_errors_", "order_kept_", "ties_added_", "contradiction_", "calibrator_")

    def __init__(
        self,
        *,
        candidates: str | Sequence[str | Calibrator] = "auto",
        order: str = "keep",
        loss: str | ProperLoss = "log",
        cv: Any = 5,
        random_state: object = 0,
        kind: str = "probability",
    ) -> None:
        self.candidates = candidates
        self.order = order
        self.loss = loss
        self.cv = cv
        self.random_state = random_state
        self.kind = kind

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SelectedCalibrator:
        """
        Choose the map and fit it.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Scores of held-out rows, as for every calibrator.
        y : array-like of shape (n,)
            Outcomes; any labels.
        sample_weight : array-like of shape (n,), optional
            Nonnegative weights.

        Returns
        -------
        SelectedCalibrator
            The calibrator itself.
        """
        super().fit(scores, y, sample_weight)
        if self.contradiction_ is not None:
            warnings.warn(self.describe_contradiction(), ContradictedOrderWarning, stacklevel=outside())
        return self

    def describe_contradiction(self, remedy: str = "pass `order`='any' to follow them") -> str:
        """
        What the data say against the order that the map keeps.

        Parameters
        ----------
        remedy : str, default="pass `order`='any' to follow them"
            What can be done about it.

        Returns
        -------
        str
            The sentence of the warning, with its figures; empty where ``contradiction_`` is None.
        """
        check_is_fitted(self)
        found = self.contradiction_
        if found is None:
            return ""
        what = "the order of the scores" if len(self.classes_) == 2 else "the order of the classes within rows"
        figures = f"{found['gain']:.2g} lower (standard error {found['std_error']:.2g})"
        return (
            f"The data contradict {what}: out of fold, {found['map']}, which may reverse it, has a "
            f"{get_loss(self.loss).name} loss {figures} than the best map that keeps it. "
            f"The order is kept; {spell(remedy)}."
        )

    @property
    def _keeps_order(self) -> bool:
        return parse_choice(self.order, _CANDIDATES, "order") == "keep"

    def _fit(self, data: FitRows) -> Map:
        loss = get_loss(self.loss)
        named = self.named_candidates(data.k, data.kind)
        self.selected_, self.losses_, self.std_errors_, self.contradiction_ = next(iter(named)), {}, {}, None
        if enough_rows(data.codes, self.cv):
            folds = make_folds(self.cv, data, self.random_state)
            judge: list[_Judge] = [lambda law, held: loss.evaluate(law, held.codes)]
            rows = {name: _row_losses(candidate, data, folds, judge)[0] for name, candidate in named.items()}
            self.selected_, best, self.losses_, self.std_errors_ = _choose(rows, data.weight)
            if self._keeps_order and isinstance(self.candidates, str) and self.candidates == "auto":
                self.contradiction_ = self._contradicted(data, folds, loss, rows[best])
        winner: Calibrator = clone(named[self.selected_])
        winner.map_ = winner._fit_parsed(data)
        for name in ("classes_", "n_features_in_", "reduction_"):
            if hasattr(self, name):  # not where another calibrator calls this one for a part of its own fit
                setattr(winner, name, getattr(self, name))
        self.calibrator_ = winner
        self.order_kept_, self.ties_added_ = judge_order(winner.map_, data.score)
        return winner.map_

    def named_candidates(self, k: int, kind: str = "probability") -> dict[str, Calibrator]:
        """
        The candidates for a number of classes, simplest first.

        Parameters
        ----------
        k : int
            Number of classes.
        kind : {"probability", "logit"}, default="probability"
            What scores are.

        Returns
        -------
        dict of str to Calibrator
            Copies, not fitted; a repeated name is numbered.
        """
        order = parse_choice(self.order, _CANDIDATES, "order")
        if isinstance(self.candidates, str) and self.candidates == "auto":
            made = [clone(one) for one in _CANDIDATES[order][k == 2] if k <= one.most_classes]
        else:
            listed_ = [self.candidates] if isinstance(self.candidates, (str, Calibrator)) else self.candidates
            made = [clone(get_calibrator(candidate)) for candidate in listed_]
        if not made:
            refuse("`candidates` must not be empty", "none", "Pass calibrators or their names, or 'auto'.")
        named: dict[str, Calibrator] = {}
        for candidate in made:
            self._check(candidate, k, order)
            twins = sum(1 for name in named if name.partition(" ")[0] == candidate.name)
            if "random_state" in candidate.get_params(deep=False):
                candidate.set_params(random_state=self.random_state)
            named[candidate.name if not twins else f"{candidate.name} {twins + 1}"] = candidate.set_params(kind=kind)
        return named

    def _check(self, candidate: Calibrator, k: int, order: str) -> None:
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

    def _contradicted(
        self, data: FitRows, folds: Sequence[Split], loss: ProperLoss, kept: FloatArray
    ) -> dict[str, Any] | None:
        """The map that reverses the order and clearly gains by that, if there is one."""
        free = [one for one in _CANDIDATES["any"][data.k == 2] if data.k <= one.most_classes]
        rivals = [one for one in free if not (one.monotone or isinstance(one, PlattCalibrator))]
        lines = {one.name: _freed(clone(one).set_params(kind=data.kind), data, folds, loss) for one in rivals}
        if data.k == 2:
            turned = replace(data, score=-data.score if data.kind == "logit" else 1.0 - data.score)
            falling = _freed(IsotonicCalibrator(kind=data.kind), turned, folds, loss, falling=True)
            lines["falling isotonic"] = falling
        found = []
        for name, (rows, ordered) in lines.items():
            # better than the best that keeps the order, and than itself put in order: a map may also win by its shape
            pairs = [_paired(other, rows, data.weight) for other in (kept, ordered)]
            if all(gain > _CONTRADICTION * error > 0.0 for gain, error in pairs):
                found.append((name, *pairs[0]))
        if not found:
            return None
        name, gain, error = max(found, key=lambda one: one[1])
        return {"map": name, "gain": gain, "std_error": error}


def _choose(
    rows: dict[str, FloatArray], weight: FloatArray | None
) -> tuple[str, str, dict[str, float], dict[str, float]]:
    """The first candidate within one standard error of the paired difference to the best; the best; how all did."""
    losses = {name: _mean(losses, weight) for name, losses in rows.items()}
    best = min(losses, key=lambda name: losses[name])
    pairs = {name: _paired(losses, rows[best], weight) for name, losses in rows.items()}
    alike = 1e-9 * abs(losses[best])  # maps that are the same up to rounding
    chosen = next((name for name, (gap, error) in pairs.items() if gap <= error + alike), best)
    return chosen, best, losses, {name: error for name, (_, error) in pairs.items()}


def _mean(rows: FloatArray, weight: FloatArray | None) -> float:
    """The mean of rows that were tested; infinite losses make it infinite."""
    tested = ~np.isnan(rows)
    return float(np.average(rows[tested], weights=None if weight is None else weight[tested]))


def _paired(rows: FloatArray, others: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """The mean difference of two lines of losses, and its standard error."""
    with np.errstate(invalid="ignore"):
        gap = rows - others
    tested = ~np.isnan(rows)
    gap, w = gap[tested], np.ones(int(tested.sum())) if weight is None else weight[tested]
    if np.isnan(gap).any():  # both infinite in some row: they cannot be told apart there
        return float("nan"), float("nan")
    mean = float(np.average(gap, weights=w))
    if not np.isfinite(mean):
        return mean, float("nan")
    return mean, float(np.sqrt((w**2 * (gap - mean) ** 2).sum())) / float(w.sum())


#: The loss of each row that was held out, from its law.
_Judge = Callable[[FloatArray, FitRows], FloatArray]


def _row_losses(candidate: Calibrator, data: FitRows, folds: Sequence[Split], judges: Sequence[_Judge]) -> FloatArray:
    """A line for each judge: the mean loss of each row under fits that did not see it; NaN where there are none."""
    shared = candidate._parsed()._shared(data)
    total, times = np.zeros((len(judges), data.codes.size)), np.zeros(data.codes.size)
    for train, test in folds:
        held = data.part(test)
        law = clone(shared)._fit(data.part(train))(held.score)
        total[:, test] += [judge(law, held) for judge in judges]
        times[test] += 1.0
    with np.errstate(invalid="ignore"):
        rows: FloatArray = total / np.where(times > 0.0, times, np.nan)
    return rows


def _freed(
    candidate: Calibrator, data: FitRows, folds: Sequence[Split], loss: ProperLoss, *, falling: bool = False
) -> FloatArray:
    """Losses of a map that may reverse the order, and of its values put in the order of the scores."""

    def as_it_is(law: FloatArray, held: FitRows) -> FloatArray:
        return loss.evaluate(law, held.codes)

    def ordered(law: FloatArray, held: FitRows) -> FloatArray:
        return as_it_is(put_in_order(law, -held.score if falling else held.score, held.weight), held)

    return _row_losses(candidate, data, folds, [as_it_is, ordered])
