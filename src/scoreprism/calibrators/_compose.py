"""Calibrators made of calibrators: one against the rest, and the best of several by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from scoreprism._validation import refuse
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._data import Data, Map
from scoreprism.calibrators._folds import Split, enough_rows, make_folds
from scoreprism.calibrators._isotonic import IsotonicCalibrator
from scoreprism.calibrators._kernel import KernelCalibrator
from scoreprism.calibrators._multiclass import MatrixScalingCalibrator, PolynomialCalibrator, VectorScalingCalibrator
from scoreprism.calibrators._parametric import PlattCalibrator, TemperatureCalibrator
from scoreprism.calibrators._parts import Part, require
from scoreprism.calibrators._smooth import NaturalSplineCalibrator
from scoreprism.calibrators._softmax import log_softmax
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.simplex import FloatArray

#: What ``candidates="auto"`` chooses among: for two classes, and for more (docs/calibrators.md has the measurements).
BINARY_CANDIDATES: tuple[Calibrator, ...] = (
    PlattCalibrator(),
    NaturalSplineCalibrator(),
    IsotonicCalibrator(),
    KernelCalibrator(bandwidth="under"),
)
MULTICLASS_CANDIDATES: tuple[Calibrator, ...] = (
    TemperatureCalibrator(),
    VectorScalingCalibrator(),
    MatrixScalingCalibrator(),
    PolynomialCalibrator(),
)


@dataclass(frozen=True)
class OneVsRestMap(Part):
    """Binary maps of the columns, divided by their sum."""

    tag = "one-vs-rest"

    kind: str
    maps: tuple[Part, ...]

    def check(self) -> None:
        require(all(callable(m) for m in self.maps) and len(self.maps) > 2, "OneVsRestMap.maps", "a map per class")

    def __call__(self, score: FloatArray) -> FloatArray:
        law = np.exp(log_softmax(score)) if self.kind == "logit" else score
        columns = [m(np.ascontiguousarray(law[:, j])) for j, m in enumerate(self.maps)]  # type: ignore[operator]
        joined = np.column_stack(columns)
        total = joined.sum(axis=1, keepdims=True)
        law_of_all: FloatArray = np.full_like(joined, 1.0 / joined.shape[1])
        np.divide(joined, total, out=law_of_all, where=total > 0.0)
        return law_of_all


class OneVsRestCalibrator(Calibrator):
    """
    A binary map for each class against the others, then divided by the sum.

    Parameters
    ----------
    calibrator : str or Calibrator, optional
        The binary calibrator or its name, copied for each class; by default `IsotonicCalibrator`.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Notes
    -----
    Dividing by the sum leaves the class-wise calibration that the binary maps achieved only approximately
    intact. With two classes it is the binary calibrator itself.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import BetaCalibrator, OneVsRestCalibrator
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 4000)
    >>> y = (rng.random(4000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    >>> rest = OneVsRestCalibrator(BetaCalibrator()).fit(law, y)
    >>> bool(np.abs(rest.predict_proba(law) - law).mean() < 0.02)
    True
    """

    name = "one-vs-rest"
    multiclass = True

    def __init__(self, calibrator: str | Calibrator | None = None, *, kind: str = "probability") -> None:
        self.calibrator = calibrator
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        from scoreprism.calibrators import get_calibrator

        binary = IsotonicCalibrator() if self.calibrator is None else get_calibrator(self.calibrator)
        if data.k == 2:
            return clone(binary).set_params(kind=data.kind)._fit(data)  # type: ignore[no-any-return]
        law = np.exp(log_softmax(data.score)) if data.kind == "logit" else data.score
        maps = []
        for j in range(data.k):
            column = Data(
                np.ascontiguousarray(law[:, j]), (data.codes == j).astype(np.intp), data.weight, 2, "probability"
            )
            maps.append(clone(binary).set_params(kind="probability")._fit(column))
        return OneVsRestMap(data.kind, tuple(maps))


class SelectedCalibrator(Calibrator):
    """
    The best of several calibrators by cross-validation: the default of decompositions.

    Each candidate is fitted on the training part of each random fold; the one with the smallest pooled out-of-fold
    loss is fitted again on all rows. It is selected once, not inside the folds. With fewer rows than folds, or a
    single row of a class, nothing can be compared and the first candidate is taken.

    Parameters
    ----------
    candidates : "auto" or sequence of str or Calibrator, default="auto"
        What to choose among. For two classes "auto" is Platt, the natural spline, the centred shrunken isotonic map
        and an undersmoothed kernel, for maps that are not monotone; for more, temperature, vector, matrix scaling and
        the polynomial map. The identity is not a candidate: where it wins, intervals collapse.
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
        Name of the winner.
    calibrator_ : Calibrator
        The winner, fitted.
    losses_ : dict
        Mean out-of-fold loss of each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import SelectedCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(3000)
    >>> y = rng.random(3000) < np.where(np.abs(s - 0.5) < 0.1, 0.9, s)
    >>> SelectedCalibrator(random_state=0).fit(s, y).selected_
    'kernel'
    """

    name = "selected"
    multiclass = True
    _kept = ("selected_", "losses_", "calibrator_")

    def __init__(
        self,
        *,
        candidates: str | Sequence[str | Calibrator] = "auto",
        loss: str | ProperLoss = "log",
        cv: Any = 5,
        random_state: object = 0,
        kind: str = "probability",
    ) -> None:
        self.candidates = candidates
        self.loss = loss
        self.cv = cv
        self.random_state = random_state
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        loss = get_loss(self.loss)
        named = self._named(data)
        self.losses_: dict[str, float] = {}
        if enough_rows(data.codes, self.cv):
            folds = make_folds(self.cv, data, self.random_state)
            self.losses_ = {name: _out_of_fold(candidate, data, folds, loss) for name, candidate in named.items()}
        self.selected_ = min(self.losses_ or [next(iter(named))], key=lambda name: self.losses_.get(name, 0.0))
        winner: Calibrator = clone(named[self.selected_])
        winner.map_ = winner._fit(data)
        for name in ("classes_", "n_features_in_", "reduction_"):
            if hasattr(self, name):  # not where another calibrator calls this one for a part of its own fit
                setattr(winner, name, getattr(self, name))
        self.calibrator_ = winner
        return winner.map_

    def _named(self, data: Data) -> dict[str, Calibrator]:
        """Candidates by name; a repeated name is numbered."""
        if isinstance(self.candidates, str) and self.candidates == "auto":
            made = [clone(one) for one in (BINARY_CANDIDATES if data.k == 2 else MULTICLASS_CANDIDATES)]
        else:
            from scoreprism.calibrators import get_calibrator

            listed_ = [self.candidates] if isinstance(self.candidates, (str, Calibrator)) else self.candidates
            made = [clone(get_calibrator(candidate)) for candidate in listed_]
        if not made:
            refuse("candidates must not be empty", "none", "Pass calibrators or their names, or 'auto'.")
        named: dict[str, Calibrator] = {}
        for candidate in made:
            if data.k > 2 and not candidate.multiclass:
                refuse(
                    f"candidates must take {data.k} classes",
                    candidate.name,
                    "Wrap it in OneVsRestCalibrator, or leave it out.",
                )
            twins = sum(1 for name in named if name.partition(" ")[0] == candidate.name)
            if "random_state" in candidate.get_params(deep=False):
                candidate.set_params(random_state=self.random_state)
            named[candidate.name if not twins else f"{candidate.name} {twins + 1}"] = candidate.set_params(
                kind=data.kind
            )
        return named


def _out_of_fold(candidate: Calibrator, data: Data, folds: Sequence[Split], loss: ProperLoss) -> float:
    """Mean loss of a calibrator over all rows, each predicted by the fit that did not see it."""
    shared = candidate._shared(data)
    total = tested = 0.0
    for train, test in folds:
        held = data.part(test)
        rows = loss.loss(clone(shared)._fit(data.part(train))(held.score), held.codes)
        total += float(rows.sum() if held.weight is None else held.weight @ rows)
        tested += held.total
    return total / tested
