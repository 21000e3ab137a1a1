"""What comes back for several classes, and what was asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from scoreprism._core.checks import refuse
from scoreprism._document.result_json import SCALE, fitting_together, read_summary, require_kinds
from scoreprism.decomposition import Decomposition
from scoreprism.estimation import SegmentDecompositions
from scoreprism.losses import ProperLoss
from scoreprism.scale._classes import ClassColumns, Facts
from scoreprism.scale._gradients import Scaling
from scoreprism.scale._result import ScaledDecomposition

Losses = dict[str, ProperLoss]


@dataclass(frozen=True, eq=False, repr=False)
class ClassDecomposition(ScaledDecomposition):
    """
    A decomposition of several classes made where the data lives.

    Attributes
    ----------
    rows_in_all : int
        Rows of the data; ``n`` of them were used.
    risk_in_all : float
        Mean loss of the prediction over all rows, whatever was sampled.
    risk_std_error : float
        Its standard error.
    passes : int
        How often the data was read.
    parameters : dict of str to list
        ``slopes`` and ``intercepts`` of the fit to all rows (temperature: equal slopes 1/T); empty for a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> rng = np.random.default_rng(0)
    >>> law = rng.dirichlet([1, 1, 1], 5000)
    >>> rows = pl.DataFrame({f"p_{k}": law[:, k] for k in range(3)})
    >>> rows = rows.with_columns(y=(rng.random((5000, 1)) > law.cumsum(axis=1)).sum(axis=1), id=np.arange(5000))
    >>> d = scale.decompose(
    ...     rows, target="y", score=["p_0", "p_1", "p_2"], loss="log", calibrator="temperature", key="id"
    ... )
    >>> d.n == d.rows_in_all, bool(abs(d.parameters["slopes"][0] - 1) < 0.1)
    (True, True)
    """

    rows_in_all: int = 0
    risk_in_all: float = math.nan
    risk_std_error: float = math.nan
    passes: int = 0
    parameters: Mapping[str, Sequence[float]] | None = None

    def _scale(self) -> dict[str, Any]:
        more: dict[str, Any] = {"rows_in_all": self.rows_in_all, "risk_in_all": self.risk_in_all, "passes": self.passes}
        more |= {"risk_std_error": self.risk_std_error, "parameters": dict(self.parameters or {})}
        return {**super()._scale(), **more}

    @classmethod
    def from_json(cls, text: str | bytes) -> ClassDecomposition:
        """
        Read a summary back.

        Parameters
        ----------
        text : str or bytes
            What `to_json` wrote.

        Returns
        -------
        ClassDecomposition
            With all of its attributes, but no sums.
        """
        found: Any = super().from_json(text)
        more = read_summary(text)[SCALE]
        known = ("rows_in_all", "risk_in_all", "risk_std_error", "passes", "parameters")
        if not set(known) <= set(more):
            refuse("the JSON must be that of a ClassDecomposition", "another", "Use ScaledDecomposition.from_json.")
        with fitting_together():
            require_kinds(more, dict.fromkeys(("rows_in_all", "passes"), (int,)) | {"parameters": (dict,)})
            require_kinds(more, dict.fromkeys(("risk_in_all", "risk_std_error"), (float, int)))
        kept: ClassDecomposition = replace(found, **{name: more[name] for name in known})
        return kept


@dataclass(frozen=True)
class ClassRequest:
    """What was asked for, parsed as far as it can be without the data."""

    columns: ClassColumns
    losses: Losses
    calibrator: object
    scaling: Scaling | None
    cv: int
    form: str
    clip: float | None
    seed: int
    random_state: object
    sample: int
    single: bool


def class_scaled(
    found: Decomposition,
    facts: Facts,
    passes: int,
    parameters: Mapping[str, Sequence[float]] | None,
    risk: float,
    error: float,
) -> ClassDecomposition:
    given = {field.name: getattr(found, field.name) for field in fields(found)}
    return ClassDecomposition(
        **given,
        _total=float(facts.table["w"].sum()),
        _held=int(facts.table["n"].sum()),
        rows_in_all=facts.n,
        risk_in_all=risk,
        risk_std_error=error,
        passes=passes,
        parameters=parameters,
    )


def with_parts(one: ClassDecomposition, kind: str, parts: SegmentDecompositions) -> ClassDecomposition:
    """A decomposition with its segments, or its periods."""
    return replace(one, segments=parts) if kind == "segments" else replace(one, periods=parts)
