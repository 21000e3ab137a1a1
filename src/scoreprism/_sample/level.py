"""Information levels as a user gives them: a law, or features to fit one on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_folds, parse_law, refuse, write_plain
from scoreprism._core.frames import backend_of, column_names, take_rows
from scoreprism._core.labels import GivenLaw
from scoreprism._core.lazy_laws import ClippedLaw, LazyLaw, as_whole_array, take_rows_of_law
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, clip_law, freeze, n_classes
from scoreprism._core.workers import map_threads
from scoreprism._sample.wide_columns import WideColumns
from scoreprism.exceptions import UnavailableError
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Level:
    """
    P(Y | information) at one level of information, with a name.

    The probabilities may come from an oracle, a cross-fitted estimator or the user. Arrays of float64 are not copied:
    do not modify them while the level is in use.

    Parameters
    ----------
    name : str
        Name, such as ``"C"``.
    law : array-like of shape (n,) or (n, K)
        Probabilities of each row.
    folds : array-like of shape (F, n) or (F, n, K), optional
        Probabilities on every row of the F models of an F-fold cross-fit, each trained without one fold. Their
        scatter around their mean, summed over folds, measures the noise of the fit (a jackknife: members of a bagged
        ensemble or repeats of a fit would be overcounted). Leave out for probabilities that were not fitted.

    Examples
    --------
    >>> Level("C", [0.2, 0.7])
    Level('C', 2 rows, 2 classes)
    """

    name: str
    raw: Any  # the law: an array, or one that is computed when it is needed
    folds: Any = None
    # factor of the sum of the divergences of `folds`: (F − 1)/F for delete-block refits of a law that was fitted on all
    # of its rows
    factor: float = 1.0
    fits: Any = None  # a law fitted in several partitions of the rows; `law` and `folds` then show the first
    is_summed: bool = False  # known only by the sums of its losses (`Cells`); `law` is a placeholder
    columns: tuple[Any, ...] | None = None  # names of the columns it came in
    backend: str | None = None  # dataframe library it came in

    def __init__(self, name: str, law: ArrayLike, folds: ArrayLike | None = None) -> None:
        if not isinstance(name, str) or not name:
            refuse("the name of a level must be a nonempty string", write_plain(name), "For example Level('C', law).")
        parsed = parse_law(law, f"the law of level {name!r}")
        fitted = None if folds is None else freeze(parse_folds(folds, parsed, f"the folds of level {name!r}"))
        columns = column_names(law)
        for fold in folds if isinstance(folds, (list, tuple)) else ():
            if parsed.ndim == 2 and column_names(fold) not in (None, columns):
                remedy = "Give all frames the columns of the first, in its order."
                rule = f"the folds of level {name!r} must have the columns of its probabilities"
                refuse(rule, f"{column_names(fold)}", remedy)
        values = {"name": name, "raw": freeze(parsed), "folds": fitted, "columns": columns, "backend": backend_of(law)}
        self.__dict__.update(values)

    @classmethod
    def of(cls, name: str, law: FloatArray, **rest: Any) -> Level:
        """
        Make a level from probabilities that are already parsed or fitted.

        Parameters
        ----------
        name : str
            Name.
        law : array of shape (n,) or (n, K)
            Probabilities.
        **rest : object
            Further attributes: `folds`, `factor`, `fits`, `is_summed`.

        Returns
        -------
        Level
            Nothing is checked.
        """
        level = object.__new__(cls)
        level.__dict__.update(rest, name=name, raw=law)
        return level

    def change(self, **values: Any) -> Level:
        """
        Copy with some attributes changed.

        Parameters
        ----------
        **values : object
            Attributes by name.

        Returns
        -------
        Level
            Nothing is checked.
        """
        level = object.__new__(type(self))
        level.__dict__.update(self.__dict__ | values)
        return level

    @property
    def law(self) -> FloatArray:
        """Probabilities of each row."""
        law: FloatArray = as_whole_array(self.raw)
        return law

    @property
    def given(self) -> GivenLaw:
        """The parsed law with what its frame said of it."""
        return GivenLaw(f"level {self.name!r}", self.raw, self.folds, self.columns)

    def take(self, rows: IntArray) -> Level:
        """
        Select rows.

        Parameters
        ----------
        rows : array
            Row numbers.

        Returns
        -------
        Level
            With these rows.
        """
        law, folds = self.raw, self.folds
        if folds is not None:
            folds = folds.take(rows) if isinstance(law, LazyLaw) else folds[:, rows]
        fits = None if self.fits is None else self.fits.rows(rows)
        return self.change(raw=take_rows_of_law(law, rows), folds=folds, fits=fits)

    def clip_at(self, distance: float) -> Level:
        """
        Clip the probabilities.

        Parameters
        ----------
        distance : float
            Smallest probability allowed.

        Returns
        -------
        Level
            With clipped probabilities.
        """
        if isinstance(self.raw, LazyLaw):
            fits = None if self.fits is None else self.fits.clip_at(distance)
            return self.change(raw=ClippedLaw(self.raw, distance), folds=None, fits=fits)
        folds = None if self.folds is None else np.stack([clip_law(law, distance) for law in self.folds])
        fits = None if self.fits is None else self.fits.clip_at(distance)
        return self.change(raw=clip_law(self.raw, distance), folds=folds, fits=fits)

    def losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """
        Loss in every row; the mean over partitions where the level was fitted in several.

        Parameters
        ----------
        loss : ProperLoss
            The loss.
        y : array of shape (n,)
            Outcome codes.

        Returns
        -------
        array of shape (n,)
            Losses.
        """
        loss.require_classes(self.raw)
        return self._losses(loss, y)

    def _losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """The same of a loss that is known to be for these classes."""
        if self.is_summed:
            raise UnavailableError(
                f"the {loss!s} loss of level {self.name!r} was not summed, and its rows are not at hand. "
                "Sum the rows again with this loss."
            )
        return loss.evaluate(self.raw, y) if self.fits is None else np.asarray(self.fits.losses(loss, y))

    def __repr__(self) -> str:
        fitted = "" if self.folds is None else f", {self.folds.shape[0]} folds"
        return f"Level({self.name!r}, {self.raw.shape[0]} rows, {n_classes(self.raw)} classes{fitted})"


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """A level to be fitted: the features that are new at it."""

    name: str
    table: Any  # as passed, for foreign classifiers
    columns: Sequence[NDArray[Any]]  # parsed: numbers, or text

    def take(self, rows: IntArray) -> FeatureBlock:
        """The block on some of the rows."""
        if isinstance(self.columns, WideColumns):
            columns: Sequence[NDArray[Any]] = self.columns.take(rows)
        else:
            columns = [column[rows] for column in self.columns]
        return replace(self, table=take_rows(self.table, rows), columns=columns)


def spread(loss: ProperLoss, folds: FloatArray, factor: float = 1.0) -> FloatArray:
    """The spread of a fitted law in every row: ``factor · Σ_k d(fold law k, mean of the fold laws)``."""
    if not isinstance(folds, np.ndarray):
        return factor * _spread_by_block(loss, folds)
    centre = folds.mean(axis=0)
    total = np.zeros(centre.shape[0])
    for fold in folds:
        total += loss.evaluate_divergence(fold, centre)
    return total if factor == 1.0 else factor * total


def _spread_by_block(loss: ProperLoss, folds: Any) -> FloatArray:
    """The same of laws that are computed when they are needed, without the factor."""
    total = np.zeros(folds.shape[1])

    def add(rows: slice) -> None:
        parts = folds.read(rows)
        centre = sum(parts[1:], parts[0]) / len(parts)
        for part in parts:
            total[rows] += loss.evaluate_divergence(part, centre)

    work = total.size * folds.shape[2] if isinstance(folds.scores.place, np.ndarray) else 0
    map_threads(add, list(folds[0].blocks()), work)
    return total
