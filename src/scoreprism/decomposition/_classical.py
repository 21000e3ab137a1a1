"""The two classical forms: uncertainty − resolution + reliability, and its in-sample isotonic version CORP."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from scoreprism._core.checks import parse_folds, parse_law, refuse, require_rows
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, clip_law, freeze, n_classes
from scoreprism._findings.finding import Finding
from scoreprism._kernels.isotonic import isotonic_fit, isotonic_sums
from scoreprism._kernels.term_intervals import Moments
from scoreprism._sample.cells import block_losses
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample, parse_laws
from scoreprism.decomposition._chain import Chain, Term
from scoreprism.decomposition._result import Decomposition, RowLosses
from scoreprism.losses import ProperLoss

#: CORP as a chain: the prediction, its in-sample isotonic law, the marginal law.
_CORP = (
    Term("reliability", "in-sample"),
    Term("resolution", "in-sample", -1),
    Term("uncertainty", "uncertainty"),
)
_BIASED = Finding("in_sample_bias")


class CorpChain(Chain):
    """S → isotonic → Q̄; the laws are fitted on first use, since the terms need only sums."""

    level_names = ("S", "isotonic", "Q̄")
    k = 2

    def __init__(self, sample: Sample) -> None:
        if sample.k != 2:
            refuse(
                "CORP must have two classes, because isotonic regression needs an order",
                f"{sample.k}",
                "Use resolution_decomposition with a multiclass calibrator.",
            )
        self.sample, self.terms, self.findings, self.population, self.fit = sample, _CORP, (_BIASED,), False, None

    @cached_property
    def levels(self) -> tuple[Level, ...]:  # type: ignore[override]
        sample = self.sample
        fitted = isotonic_fit(as_vector(sample.prediction), sample.y.astype(float), sample.weight)
        pair = (Level.of("S", sample.prediction), Level.of("isotonic", fitted))
        return Chain.of(sample, pair).with_marginal().levels

    def _assemble(self, loss: ProperLoss, form: str, clip: float | None) -> Decomposition:
        """
        CORP from sums.

        The isotonic law takes one value a block and the marginal law one in all: their mean losses need the weight and
        the events of each block, not the rows.
        """
        sample, score = self.sample, as_vector(self.sample.prediction)
        blocks = isotonic_sums(score, sample.y == 1, sample.weight)
        isotonic, constant = block_losses(loss, *blocks, clip)
        risk = sample.mean(loss.evaluate(score if clip is None else clip_law(score, clip), sample.y))
        rows = _CorpRows(self, loss, clip)
        infinite = not math.isfinite(risk + isotonic + constant)
        infinite_rows = self._find_infinite_rows(rows().losses, loss, form) if infinite else []
        mean = np.array([risk - isotonic, isotonic - constant, constant, 0.0, 0.0, 0.0])
        return self._conclude(loss, form, clip, Moments(mean, rows.covariance), risk, rows, infinite_rows)


class _CorpRows:
    """The rows of CORP, evaluated on first use."""

    def __init__(self, chain: CorpChain, loss: ProperLoss, clip: float | None) -> None:
        self.chain, self.loss, self.clip = chain, loss, clip

    @cached_property
    def _evaluated(self) -> RowLosses:
        losses = Chain.of(self.chain.sample, self.chain.levels, _CORP).clip_at(self.clip)._losses(self.loss)
        return RowLosses(freeze(losses), freeze(np.zeros(losses.shape)))

    def __call__(self) -> RowLosses:
        return self._evaluated

    def covariance(self) -> FloatArray:
        return Moments.of(*self._evaluated[:2], self.chain.sample.weight, None).covariance


def resolution_decomposition(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    calibrated: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    form: str = "debiased",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
) -> Decomposition:
    r"""
    Uncertainty − resolution + reliability (paper, proposition "Uncertainty–resolution–reliability form").

    :math:`E\,\ell(S,Y) = \mathcal E(\bar Q) - E\,d(\bar Q, C) + E\,d(S, C)`, with :math:`\bar Q` the marginal
    law of the outcome.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes. A `Sample` stands for all arguments by row but `calibrated`.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities S.
    calibrated : array-like of shape (n,) or (n, K), or Level
        C = P(Y | S) of every row; a `Level` may hold the probabilities of its fold models too.
    loss : str or ProperLoss, default="log"
        The loss.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How terms are estimated; see `Chain.decompose`.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Groups of dependent rows.
    pos_label : label, optional
        Positive class: one-dimensional `y_proba` is P(Y = pos_label).
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep probabilities at least this far from 0.

    Returns
    -------
    Decomposition
        Terms ``reliability``, ``resolution`` (subtracted) and ``uncertainty``.

    Examples
    --------
    >>> d = resolution_decomposition([0, 1, 0, 1], [0.2, 0.8, 0.8, 0.8], [0, 2 / 3, 2 / 3, 2 / 3], loss="brier")
    >>> {name: round(value, 4) for name, value in d.terms.items()}
    {'reliability': 0.0233, 'resolution': 0.0833, 'uncertainty': 0.25}
    """
    if calibrated is None:
        refuse("`calibrated` must be given", "None", "Pass the calibrated probability of every row.")
    if isinstance(y_true, Sample):
        options = {"sample_weight": sample_weight, "groups": groups, "pos_label": pos_label, "classes": classes}
        rows = Sample.of(y_true, y_proba, **options)  # type: ignore[arg-type]
        level = calibrated if isinstance(calibrated, Level) else Level("C", calibrated)
        require_rows(level.law.shape[0], rows.n_given, "calibrated", "y_true")
        if n_classes(level.law) != rows.k:
            rule = "`calibrated` must have as many classes as the Sample"
            refuse(rule, f"{n_classes(level.law)} and {rows.k}", "Recalibrate all classes.")
        level = level if rows.kept is None else level.take(rows.kept)
        pair = Chain.of(rows, (Level.of("S", rows.prediction), level.change(name="C")))
        return pair.with_marginal().decompose(loss, form, clip=clip)
    prediction = GivenLaw("y_proba", parse_law(y_proba, "y_proba"), None, column_names(y_proba))
    source = getattr(calibrated, "law", calibrated)
    law, raw = parse_law(source, "calibrated"), getattr(calibrated, "folds", None)
    require_rows(law.shape[0], prediction.values.shape[0], "calibrated", "y_true")
    if n_classes(law) != n_classes(prediction.values):
        got = f"shapes {law.shape} and {prediction.values.shape}"
        refuse("`calibrated` must have as many classes as `y_proba`", got, "Recalibrate all classes.")
    folds = None if raw is None else parse_folds(raw, law, "calibrated.folds")
    columns = calibrated.given.columns if hasattr(calibrated, "given") else column_names(source)
    sample, (score, level) = parse_laws(
        y_true,
        [prediction, GivenLaw("calibrated", law, folds, columns)],
        sample_weight=sample_weight,
        groups=groups,
        pos_label=pos_label,
        classes=classes,
        backend=backend_of(y_proba),
    )
    pair = Chain.of(sample, (score.change(name="S"), level.change(name="C")))
    return pair.with_marginal().decompose(loss, form, clip=clip)


def corp_decomposition(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
) -> Decomposition:
    """
    CORP: uncertainty − resolution + reliability by in-sample isotonic regression.

    The decomposition of Dimitriadis, Gneiting & Jordan (2021), the one of R's reliabilitydiag and, to 1e-10, of
    PyPI's model-diagnostics, offered because people compare with it. CORP calls the terms uncertainty (UNC),
    discrimination (DSC) and miscalibration (MCB). The isotonic map is fitted on the rows it is evaluated on, so
    reliability is biased upwards, by about 0.0055 (Brier) for a calibrated score at n = 1000, and no interval follows
    from the rows.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes. A `Sample` stands for all arguments by row.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    loss : str or ProperLoss, default="log"
        The loss.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        Positive class: one-dimensional `y_proba` is P(Y = pos_label).
    classes : array-like of shape (2,), optional
        Labels in column order.
    clip : float, optional
        Keep probabilities at least this far from 0.

    Returns
    -------
    Decomposition
        Terms ``reliability``, ``resolution`` (subtracted) and ``uncertainty``.

    Examples
    --------
    >>> d = corp_decomposition([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], loss="brier")
    >>> {name: round(value, 7) for name, value in d.terms.items()}
    {'reliability': 0.1016667, 'resolution': 0.125, 'uncertainty': 0.25}
    """
    sample = Sample.of(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return CorpChain(sample).decompose(loss, "difference", clip=clip)
