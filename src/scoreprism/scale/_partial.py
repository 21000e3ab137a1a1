"""Partial: sums of rows that can be added, kept and decomposed: the whole, each segment and each period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_random_state, refuse
from scoreprism._core.labels import key_order
from scoreprism._findings.finding import Finding
from scoreprism._fitting.chain_fit import Losses, decompose_each, parse_losses
from scoreprism._fitting.learners import ForeignMap, parse_calibrator
from scoreprism._kernels.term_intervals import FORMS
from scoreprism._sample.fit_rows import FitRows, warn_of_reversed_scores
from scoreprism.decomposition import Decomposition
from scoreprism.losses import ProperLoss
from scoreprism.scale._column_settings import parse_count_of_folds
from scoreprism.scale._drift import Drift
from scoreprism.scale._expressions import by_row
from scoreprism.scale._scaled_result import ScaledDecomposition, add_sums, attach_parts, floors_of
from scoreprism.scale._sum_table import SumTable
from scoreprism.scale._sums_to_sample import Options, bound_quantisation, fit_sums


@dataclass(frozen=True, eq=False, repr=False)
class Partial(SumTable):
    """
    The sums of some rows, by score, outcome, fold, segment and period.

    Made by `summarize`. Partials of different rows are added with ``+`` (or ``sum``), in any order: nightly jobs keep
    one per day. With at most as many distinct scores as cells nothing is lost; else rows are summed by cell.

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
    >>> total = sum(scale.summarize(day, target="default", score="score") for day in (monday, tuesday))
    >>> total
    Partial(5 rows, 4 distinct scores)
    >>> scale.Partial.from_json(total.to_json()).n
    5
    """

    def decompose(
        self,
        *,
        loss: str | ProperLoss | Sequence[str | ProperLoss] | None = None,
        calibrator: object = "auto",
        cv: int = 5,
        form: str = "debiased",
        random_state: object = 0,
        floors: Mapping[str, float] | None = None,
    ) -> ScaledDecomposition | dict[str, ScaledDecomposition]:
        """
        Fit the laws to the sums, and decompose.

        Parameters
        ----------
        loss : str, ProperLoss or sequence of these, optional
            Losses; those that were summed by default.
        calibrator, cv, form, random_state : object
            As for `scoreprism.scale.decompose`.
        floors : mapping of str to float, optional
            How far scores are kept from 0 and 1 in ``floored``, by loss; 1/(2n) where the loss is infinite by default.
            Segments and periods have the floors of the whole.

        Returns
        -------
        ScaledDecomposition, or dict of str to ScaledDecomposition
            A mapping unless `loss` is one loss.
        """
        single = isinstance(loss, (str, ProperLoss))
        chosen: Any = list(self.settings.losses) if loss is None else [loss] if single else loss
        options = replace(_parse(self, parse_losses(chosen), calibrator, cv, form, random_state), floors=floors)
        results = {name: replace(found, partial=self) for name, found in _decompose(self.pooled(), options).items()}
        options = replace(options, floors=floors_of(results))
        _warn_of_order(self)
        for kind, place in self.settings.parts.items():
            names = self.settings.keys[place]
            labels = sorted({key[place] for key in self.segments}, key=key_order)
            parts = {label: dict(zip(names, label, strict=True)) for label in labels}

            def fit(chosen: dict[str, Any], options: Options = options) -> dict[str, ScaledDecomposition]:
                return _decompose(self.only(**chosen).pooled(), options)

            results = attach_parts(results, kind, parts, fit, f"laws by {', '.join(names)}")
        return next(iter(results.values())) if single else results

    def drift(self, *, loss: str | ProperLoss = "log", against: Any = "previous", **options: Any) -> Drift:
        """
        How the terms changed from period to period.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            The loss.
        against : {"previous", "first"} or period, default="previous"
            What each period is compared with: the one before, the first, or one that is named.
        **options : object
            What `decompose` takes.

        Returns
        -------
        Drift
            Changes with intervals.
        """
        if self.settings.time is None:
            refuse(
                "drift must have periods", "a partial without a time column", "Pass `time`= to summarize or decompose."
            )
        if not isinstance(loss, (str, ProperLoss)):
            refuse("drift takes one loss", f"{loss!r}"[:80], "Call it once for each.")
        found: Any = self.decompose(loss=loss, **options)
        return Drift.of(found.periods, against)


def _warn_of_order(partial: SumTable) -> None:
    """Say so where the score is lower where the event occurs, as for rows."""
    table, label = partial.table, partial.settings.pos_label
    score = table["key"] if partial.exact else table["s"] / table["w"]
    classes = np.array([0, 1] if label is None else [f"not {label}", label], dtype=object)
    data = FitRows(score, table["y"].astype(np.intp), table["w"], 2, "probability")
    warn_of_reversed_scores(data, classes, float(table["w"].sum()) ** 2 / float(table["w2"].sum()))


def _parse(
    partial: SumTable, losses: Losses, calibrator: object, cv: object, form: str, random_state: object
) -> Options:
    settings = partial.settings
    parse_choice(form, FORMS, "form")
    for loss in losses.values():
        loss.require_classes(partial.table["key"])
    if len(settings.levels) > 1:
        if form == "plugin":
            refuse(
                "`form`='plugin' must have the laws of all rows, which sums do not hold",
                f"the levels {', '.join(settings.levels)}",
                "Use `form`='debiased' or 'difference'.",
            )
        known = {str(loss) for loss in settings.losses if by_row(loss)}
        if not set(losses) <= known:
            found = ", ".join(sorted(set(losses) - known))
            refuse(
                "with `q` or `latent`, a loss must be one that was summed", found, f"Summed were {', '.join(known)}."
            )
    maps = parse_calibrator(calibrator, 2)
    if any(isinstance(learner, ForeignMap) for learner in maps):
        refuse("`calibrator` must be one of scoreprism's maps, which take sums", f"{calibrator!r}"[:80], "Use 'auto'.")
    count = parse_count_of_folds(cv)
    seed = int(parse_random_state(random_state).integers(2**62))
    return Options(losses, maps, count, form, seed)


# ── one decomposition ───────────────────────────────────────────────────────────────────────────────


def _decompose(partial: SumTable, options: Options) -> dict[str, ScaledDecomposition]:
    """Each loss of the rows of one partial, without segments."""
    lines, chain = fit_sums(partial, options)
    results = decompose_each(chain, options.losses, options.form, partial.settings.clip)

    def with_sums(name: str, found: Decomposition) -> ScaledDecomposition:
        error = bound_quantisation(partial, lines, chain, options.losses[name], found.clip)
        twin = None if found.floored is None else with_sums(name, _noted(found.floored, partial))
        return add_sums(replace(found, floored=twin), partial, error, options)

    return {name: with_sums(name, found) for name, found in results.items()}


def _noted(twin: Decomposition, partial: SumTable) -> Decomposition:
    """Levels above C are known by sums of their losses, which cannot be clipped after the fact."""
    above = partial.settings.levels[1:]
    unclipped = Finding("unclipped_levels", subject=", ".join(above))
    return replace(twin, findings=(*twin.findings, unclipped)) if above else twin
