"""The results of a model's stages: a line per stage, and the chain of what each stage adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._document.result_json import encode
from scoreprism._document.tables import Drawable, TermTable
from scoreprism._kernels.term_intervals import Moments, quantile
from scoreprism.decomposition import Decomposition
from scoreprism.ensembles._stage_tables import StageColumns, counted, plural
from scoreprism.losses import ProperLoss


@dataclass(frozen=True)
class Amount:
    """
    A number with its standard error and interval.

    Attributes
    ----------
    value, std_error : float
        Estimate and standard error.
    low, high : float
        Ends of the interval.
    level : float
        Confidence level.

    Examples
    --------
    >>> Amount.of(np.array([0.0, 1.0, 2.0]), None, None, 0.95).value
    1.0
    """

    value: float
    std_error: float
    low: float
    high: float
    level: float

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        weight: FloatArray | None,
        groups: IntArray | None,
        level: float,
        *,
        population: bool = False,
    ) -> Amount:
        """
        The mean of rows, with a normal interval.

        Parameters
        ----------
        rows : array of shape (n,)
            One number per row.
        weight : array of shape (n,) or None
            Weights.
        groups : integer array of shape (n,) or None
            Clusters.
        level : float
            Confidence level.
        population : bool, default=False
            Whether the rows are the whole population.

        Returns
        -------
        Amount
            Mean ± z standard errors, cluster-robust.
        """
        moments = Moments.of(rows[None], np.empty((0, rows.size)), weight, groups, population=population)
        value, error = moments.value({0: 1.0}), moments.std_error({0: 1.0})
        margin = quantile(level, two_sided=True) * error
        return cls(value, error, value - margin, value + margin, level)

    def to_dict(self) -> dict[str, Any]:
        """
        The numbers by name.

        Returns
        -------
        dict
            Estimate, standard error, ends and level; numbers that are not finite are strings.
        """
        found: dict[str, Any] = encode(dict(vars(self)))
        return found


@dataclass(frozen=True, eq=False, repr=False)
class StageTable(StageColumns):
    """
    Loss, reliability and refinement of every stage.

    Attributes
    ----------
    numbers : array of shape (T,)
        Number of each stage.
    loss, std_error : array of shape (T,)
        Loss of the stage as it is, and its standard error.
    reliability, refinement : array of shape (T,)
        Its terms, which add up to the loss.
    reliability_low, reliability_high, refinement_low, refinement_high : array of shape (T,)
        Ends of their intervals.

    Examples
    --------
    >>> one = np.ones(1)
    >>> StageTable(one, one, one, one, one, one, one, one, one, None).least_loss
    0
    """

    numbers: NDArray[Any]
    loss: FloatArray
    std_error: FloatArray
    reliability: FloatArray
    reliability_low: FloatArray
    reliability_high: FloatArray
    refinement: FloatArray
    refinement_low: FloatArray
    refinement_high: FloatArray
    _backend: str | None

    @property
    def least_loss(self) -> int:
        """Position of the stage with the smallest loss."""
        return int(np.argmin(self.loss))

    @property
    def least_refinement(self) -> int:
        """Position of the stage with the smallest loss after recalibration."""
        return int(np.argmin(self.refinement))

    def _title(self) -> str:
        best = self.numbers[self.least_refinement]
        return (
            f"StageTable: {counted(self.numbers)}; least loss at {self.numbers[self.least_loss]:g}, "
            f"least refinement at {best:g}"
        )

    def _shown(self) -> dict[str, list[Any]]:
        return self._lines("loss", "std_error", "reliability", "refinement")


@dataclass(frozen=True, eq=False, repr=False)
class StagewiseDecomposition(Drawable, TermTable):
    """
    The stages of a model: their losses, and what each adds to what the stages before it knew.

    Made by `stagewise_decomposition`. The terms are those of the first stage's loss along the filtration
    F_t = σ(S_1, …, S_t): its reliability, a gain per step, and what the whole path leaves.

    Attributes
    ----------
    names : tuple of str
        Terms of the chain in order.
    decomposition : Decomposition
        The chain; its terms add up to the loss of the first stage of the grid.
    stages : StageTable
        Loss, reliability and refinement of every stage.
    grid : tuple of int or float
        Stages of the chain.
    compression : Amount or None
        What keeping only the last score loses of the whole path: loss of C(S_T) minus loss of Q_T. None where the
        grid has one stage only, or does not end at the last, or features stand above it.
    checks : dict of str to list of Amount
        For the Brier loss. "gap": gain minus E(η_{t+1} − η_t)² (Doob–Pythagoras), "drift": mean of η_{t+1} − η_t,
        "tilt": covariance of η_{t+1} − η_t with η_t. All are 0 for a martingale, up to their standard errors.
    increments : dict of str to list of Amount
        For the Brier loss. "square": E(η_{t+1} − η_t)², corrected for the noise of fitted laws.
    level : float
        Confidence level.
    n : int
        Number of rows.

    Examples
    --------
    >>> from scoreprism import FiniteModel
    >>> from scoreprism.ensembles import stagewise_decomposition
    >>> model = FiniteModel([0.25] * 4, [0.1, 0.3, 0.6, 0.9])
    >>> found = stagewise_decomposition([[0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.6, 0.9]], model, loss="brier")
    >>> {name: round(value, 4) for name, value in found.terms.items()}
    {'reliability': 0.0013, 'gain 1 → 2': 0.0163, 'remaining': 0.1575}
    """

    decomposition: Decomposition
    stages: StageTable
    grid: tuple[float, ...]
    compression: Amount | None
    checks: dict[str, list[Amount]]
    increments: dict[str, list[Amount]]
    level: float

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.decomposition.n

    @property
    def loss(self) -> ProperLoss:
        """The loss."""
        return self.decomposition.loss

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term; they add up to the loss of the first stage."""
        return self.decomposition.terms

    @property
    def std_error(self) -> dict[str, float]:
        """Standard error of each term."""
        return self.decomposition.std_error

    @property
    def gains(self) -> dict[str, float]:
        """The gains alone: what each stage of the grid adds to the ones before it."""
        return {name: value for name, value in self.terms.items() if name.startswith("gain ")}

    def interval(self, term: str, level: float | None = None) -> Any:
        """
        Interval of a term of the chain.

        Parameters
        ----------
        term : str
            One of `names`.
        level : float, optional
            Confidence level; that of the result by default.

        Returns
        -------
        Interval
            Conditional on the class of laws that was fitted, for gains.
        """
        return self.decomposition.interval(parse_choice(term, self.names, "term"), level or self.level)

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            The chain, the stages, compression and checks; numbers that are not finite are strings.
        """
        several = {**self.checks, **self.increments}
        found: dict[str, Any] = encode(
            {
                "decomposition": self.decomposition.to_dict(),
                "grid": list(self.grid),
                "stages": self.stages.to_dict(),
                "compression": None if self.compression is None else self.compression.to_dict(),
                "checks": {key: [amount.to_dict() for amount in line] for key, line in several.items()},
            }
        )
        return found

    def _columns(self) -> dict[str, list[Any]]:
        exact = self.decomposition._population
        columns: dict[str, list[Any]] = {"term": list(self.names), "estimate": list(self.terms.values())}
        if not exact:
            ends = [self.decomposition._shown_interval(name, self.level) for name in self.names]
            columns["std_error"] = list(self.std_error.values())
            columns["low"], columns["high"] = [e.low for e in ends], [e.high for e in ends]
        if self.increments:
            columns["squared_increment"] = self._aligned(self.increments["square"], "value")
            columns["gap"] = self._aligned(self.checks["gap"], "value")
            if not exact:
                columns["gap_std_error"] = self._aligned(self.checks["gap"], "std_error")
        columns["what"] = self._meanings()
        return columns

    def _aligned(self, amounts: list[Amount], field: str) -> list[float]:
        """Amounts of the steps, beside the terms they belong to."""
        after = len(self.names) - 1 - len(amounts)
        return [math.nan, *(getattr(one, field) for one in amounts), *([math.nan] * after)]

    def _meanings(self) -> list[str]:
        """What each term is, in the words of information theory for the log loss."""
        symbol = {"log": "I(Y; {b} | {a}) in nats", "brier": "E(η{b} − η{a})²"}.get(self.loss.name, "E d(Q{a}, Q{b})")
        words = ["E d(S, Q), recalibration of the first stage"]
        labels = [f"{number:g}" for number in self.grid]
        pairs = list(pairwise(labels))
        if len(self.names) - 2 > len(pairs):
            pairs.append((labels[-1], "X"))
        for a, b in pairs:
            prefix = "F" if self.loss.name == "log" else ""
            words.append(symbol.format(a=f"{prefix}{a}", b=f"{prefix}{b}"))
        last = "X" if self.names[-1] == "irreducible" else f"F{labels[-1]}"
        words.append(f"H(Y | {last}) in nats" if self.loss.name == "log" else f"loss left given {last}")
        return words

    def _title(self) -> str:
        t, chain = self.stages, self.decomposition
        return (
            f"{self.loss!s} loss {chain.risk:.5f} of stage {self.grid[0]:g}, along {plural(len(self.grid), 'stage')}\n"
            f"  [{plural(t.numbers.size, 'stage')} on {self.n} rows; least loss {t.loss[t.least_loss]:.5f} at stage "
            f"{t.numbers[t.least_loss]:g}, least after recalibration {t.refinement[t.least_refinement]:.5f} at stage "
            f"{t.numbers[t.least_refinement]:g}]"
        )

    def _footer(self) -> list[str]:
        notes = list(self.decomposition.notes)
        if self.compression is not None:
            c = self.compression
            ends = "" if self.decomposition._population else f" [{c.low:.5f}, {c.high:.5f}]"
            text = f"the last score alone loses {c.value:.5f}{ends} of what the whole path knows"
            notes.insert(0, text)
        return notes
