"""Sums of rows that can be added, kept and decomposed: the whole, each segment and each period."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_random_state, refuse
from scoreprism._core.labels import key_order
from scoreprism._fitting.chain_fit import parse_loss
from scoreprism._fitting.learners import ForeignMap, parse_calibrator
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.fit_rows import FitRows, warn_of_reversed_scores
from scoreprism.losses import ProperLoss
from scoreprism.scale._column_settings import parse_count_of_folds
from scoreprism.scale._drift import Drift
from scoreprism.scale._scaled_result import ScaledDecomposition, SumChain, attach_parts, share_floor
from scoreprism.scale._sum_table import SumTable
from scoreprism.scale._sums_to_sample import Options, fit_sums


@dataclass(frozen=True, eq=False, repr=False)
class Sums(SumTable):
    """
    The sums of some rows, by score, outcome, fold, segment and period.

    Made by `aggregate`. Sums of different rows are added with ``+`` (or ``sum``), in any order: nightly jobs keep one
    file per day. With at most as many distinct scores as cells nothing is lost; otherwise rows are summed by cell.

    Attributes
    ----------
    settings : Settings
        What was read and how.
    exact : bool
        Whether lines are distinct scores; else they are cells.
    segments : tuple of tuple
        Values of ``settings.keys`` for each segment and period.
    folds : tuple
        Labels of folds; ``(None,)`` where they are drawn when laws are fitted.
    table : dict of str to array
        The sums, a line for each combination that occurs.
    absent : int
        Rows of weight zero, which are in no sum.

    Examples
    --------
    >>> import polars as pl
    >>> from scoreprism import scale
    >>> monday = pl.DataFrame({"default": [0, 1, 0], "score": [0.1, 0.8, 0.3]})
    >>> tuesday = pl.DataFrame({"default": [1, 1], "score": [0.8, 0.6]})
    >>> total = sum(scale.aggregate(day, target="default", score="score") for day in (monday, tuesday))
    >>> total
    Sums(5 rows, 4 distinct scores)
    >>> scale.Sums.from_json(total.to_json()).n
    5
    """

    def decompose(
        self,
        loss: str | ProperLoss = "log",
        *,
        calibrator: object = "auto",
        cv: int = 5,
        form: str = "debiased",
        random_state: object = 0,
        floor: float | None = None,
    ) -> ScaledDecomposition:
        """
        Fit the laws to the sums, and decompose one loss by them.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            The loss. Losses that were not summed are evaluated at the scores of the lines; with `q` or `latent` only
            summed ones are known. ``d.chain.decompose("brier")`` gives the next one by the same laws.
        calibrator, cv, form, random_state : object
            As for `scoreprism.scale.decompose`.
        floor : float, optional
            How far scores are kept from 0 and 1 in ``floored``; 1/(2n) by default, and only where the loss is infinite.
            Segments and periods have the floor of the whole.

        Returns
        -------
        ScaledDecomposition
            With ``segments`` and ``periods``, where the sums have any.
        """
        options = _parse(self, loss, calibrator, cv, form, random_state, floor)
        result = replace(_decompose(self.pooled(), options), sums=self)
        options = replace(options, floors=share_floor(result))
        _warn_of_order(self)
        for kind, place in self.settings.parts.items():
            names = self.settings.keys[place]
            labels = sorted({key[place] for key in self.segments}, key=key_order)
            parts = {label: dict(zip(names, label, strict=True)) for label in labels}

            def fit(part: dict[str, Any], options: Options = options) -> ScaledDecomposition:
                return _decompose(self.only(**part).pooled(), options)

            result = attach_parts(result, kind, parts, fit, f"laws by {', '.join(names)}")
        return result

    def drift(self, against: Any = "previous", *, loss: str | ProperLoss = "log", **options: Any) -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        against : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.
        loss : str or ProperLoss, default="log"
            The loss.
        **options : object
            What `decompose` takes.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.settings.time is None:
            refuse("drift must have periods", "sums without a time column", "Pass `time`= to aggregate or decompose.")
        return self.decompose(loss, **options).drift(against)


def _warn_of_order(sums: SumTable) -> None:
    """Warn where the score is lower where the event occurs, as for rows."""
    table, label = sums.table, sums.settings.pos_label
    score = table["key"] if sums.exact else table["s"] / table["w"]
    classes = np.array([0, 1] if label is None else [f"not {label}", label], dtype=object)
    data = FitRows(score, table["y"].astype(np.intp), table["w"], 2, "probability")
    warn_of_reversed_scores(data, classes, float(table["w"].sum()) ** 2 / float(table["w2"].sum()))


def _parse(
    sums: SumTable, loss: Any, calibrator: object, cv: object, form: str, random_state: object, floor: float | None
) -> Options:
    chosen = parse_loss(loss)
    chosen.require_classes(sums.table["key"])
    maps = parse_calibrator(calibrator, 2)
    if any(isinstance(learner, ForeignMap) for learner in maps):
        refuse("`calibrator` must be one of scoreprism's maps, which take sums", f"{calibrator!r}"[:80], "Use 'auto'.")
    form, count = parse_choice(form, FORMS, "form"), parse_count_of_folds(cv)
    seed = int(parse_random_state(random_state).integers(2**62))
    return Options(chosen, maps, count, form, seed, None if floor is None else {str(chosen): floor})


def _decompose(sums: SumTable, options: Options) -> ScaledDecomposition:
    """The rows of some sums without segments."""
    chain = SumChain.fitted_to(sums, *fit_sums(sums, options))
    return chain.decompose_at(
        options.loss, options.form, sums.settings.clip, chain.fit.mixture.floors.get(str(options.loss))
    )
