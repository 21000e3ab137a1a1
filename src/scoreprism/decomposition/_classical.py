"""The two classical forms: uncertainty − resolution + reliability, and its in-sample isotonic version CORP."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from scoreprism._core.arrays import parse_folds, parse_law
from scoreprism._core.checks import refuse, require_rows
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, frozen, n_classes, unify
from scoreprism._kernels.isotonic import isotonic_fit, isotonic_sums
from scoreprism.decomposition._intervals import Moments
from scoreprism.decomposition._pools import corp_losses
from scoreprism.decomposition._result import Decomposition, Kept
from scoreprism.decomposition._rows import (
    Plan,
    Question,
    Sheet,
    assemble,
    conclude,
    evaluate,
    infinite_rows,
    mean_loss,
    with_floor,
)
from scoreprism.exceptions import InputError
from scoreprism.losses import ProperLoss


def with_climatology(sheet: Sheet, *finer: FloatArray) -> Sheet:
    """The laws of a sheet, further laws, and Q̄, the marginal law of the outcome, on every row."""
    k = n_classes(sheet.laws[0])
    mass = np.bincount(sheet.y, sheet.weight, k)
    marginal = mass / mass.sum()
    constant = np.full(sheet.n, marginal[1]) if sheet.laws[0].ndim == 1 else np.tile(marginal, (sheet.n, 1))
    laws = unify([*sheet.laws, *finer, constant])
    missing = len(laws) - len(sheet.folds)
    return replace(
        sheet,
        laws=laws,
        folds=[*sheet.folds, *([None] * missing)],
        fits=(*sheet.fits, *([None] * missing)) if sheet.fits else (),
        factors=(*sheet.factors, *([1.0] * missing)) if sheet.factors else (),
    )


#: CORP as a chain: the prediction, its in-sample isotonic law, the marginal law.
_CORP = Plan(
    ("S", "isotonic", "Q̄"),
    ("miscalibration", "discrimination", "uncertainty"),
    ("in-sample", "in-sample", "uncertainty"),
    (1, -1, 1),
    ("in-sample isotonic: miscalibration is biased upwards (about +0.0055 Brier for a calibrated score at n = 1000)",),
)


@dataclass(frozen=True, eq=False)
class _CorpRows:
    """The rows of CORP, evaluated when first asked for: its terms do not need them."""

    sheet: Sheet
    asked: Question

    @cached_property
    def kept(self) -> Kept:
        fitted = isotonic_fit(as_vector(self.sheet.laws[0]), self.sheet.y.astype(float), self.sheet.weight)
        used = with_climatology(self.sheet, fitted).clipped(self.asked.clip)
        losses, spreads, _ = evaluate(used, self.asked.loss)
        return Kept(frozen(losses), frozen(spreads))

    def evaluate(self) -> Kept:
        return self.kept

    def covariance(self) -> FloatArray:
        return Moments.of(self.kept.losses, self.kept.extras, self.sheet.weight, None).covariance


def in_sample(sheet: Sheet, asked: Question) -> Decomposition:
    """
    CORP from sums.

    The isotonic law takes one value a block and the marginal law one in all: their mean losses need the weight and
    the events of each block, not the rows.
    """
    blocks = isotonic_sums(as_vector(sheet.laws[0]), sheet.y == 1, sheet.weight)
    isotonic, constant = corp_losses(asked.loss, *blocks, asked.clip)
    used = sheet.clipped(asked.clip)
    risk = mean_loss(asked.loss.evaluate(used.laws[0], used.y), used.weight)
    rows = _CorpRows(sheet, asked)
    notes = []
    if not math.isfinite(risk + isotonic + constant):
        notes = infinite_rows(rows.kept.losses, used, _CORP, asked)
    mean = np.array([risk - isotonic, isotonic - constant, constant, 0.0, 0.0, 0.0])
    return conclude(used, _CORP, asked, Moments(mean, rows.covariance), risk, rows.evaluate, notes)


def two_class_sheet(
    y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None, pos_label: object, classes: ArrayLike | None
) -> Sheet:
    """The sheet of a prediction that isotonic regression can order."""
    law = parse_law(y_proba, "y_proba")
    if n_classes(law) != 2:
        raise InputError(
            f"CORP must have two classes, because isotonic regression needs an order; got {n_classes(law)}. "
            "Use resolution_decomposition with a multiclass calibrator."
        )
    return Sheet.of(
        y_true,
        [GivenLaw("y_proba", law, None, column_names(y_proba))],
        sample_weight=sample_weight,
        pos_label=pos_label,
        classes=classes,
        backend=backend_of(y_proba),
    )


def resolution_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    calibrated: ArrayLike,
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
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities S.
    calibrated : array-like of shape (n,) or (n, K), or Level
        The calibrated law C = P(Y | S); a `Level` may bring the laws of its fold models.
    loss : str or ProperLoss, default="log"
        The loss.
    form : {"debiased", "difference", "plugin"}, default="debiased"
        How rows are filled.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep laws at least this far from 0.

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
    prediction = GivenLaw("y_proba", parse_law(y_proba, "y_proba"), None, column_names(y_proba))
    source = getattr(calibrated, "law", calibrated)
    law, raw = parse_law(source, "calibrated"), getattr(calibrated, "folds", None)
    require_rows(law.shape[0], prediction.values.shape[0], "calibrated", "y_true")
    if n_classes(law) != n_classes(prediction.values):
        found = f"shapes {law.shape} and {prediction.values.shape}"
        refuse("`calibrated` must have as many classes as `y_proba`", found, "Recalibrate all classes.")
    folds = None if raw is None else parse_folds(raw, law, "calibrated.folds")
    columns = calibrated.given.columns if hasattr(calibrated, "given") else column_names(source)
    sheet = Sheet.of(
        y_true,
        [prediction, GivenLaw("calibrated", law, folds, columns)],
        sample_weight=sample_weight,
        groups=groups,
        pos_label=pos_label,
        classes=classes,
        backend=backend_of(y_proba),
    )
    names = ("reliability", "resolution", "uncertainty")
    again = partial(assemble, with_climatology(sheet), Plan(("S", "C", "Q̄"), names, names, (1, -1, 1)), loss, form)
    return with_floor(again(clip), sheet, again)


def corp_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    loss: str | ProperLoss = "log",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
) -> Decomposition:
    """
    CORP: miscalibration − discrimination + uncertainty by in-sample isotonic regression.

    The decomposition of Dimitriadis, Gneiting & Jordan (2021), the one of R's reliabilitydiag and, to 1e-10, of
    PyPI's model-diagnostics, offered because people compare with it. The isotonic law is fitted on the rows
    it is judged on, so miscalibration is biased upwards, by about 0.0055 (Brier) for a calibrated score at
    n = 1000, and no interval follows from the rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    loss : str or ProperLoss, default="log"
        The loss.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (2,), optional
        Labels in column order.
    clip : float, optional
        Keep laws at least this far from 0.

    Returns
    -------
    Decomposition
        Terms ``miscalibration``, ``discrimination`` (subtracted) and ``uncertainty``.

    Examples
    --------
    >>> d = corp_decomposition([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], loss="brier")
    >>> {name: round(value, 7) for name, value in d.terms.items()}
    {'miscalibration': 0.1016667, 'discrimination': 0.125, 'uncertainty': 0.25}
    """
    sheet = two_class_sheet(y_true, y_proba, sample_weight, pos_label, classes)

    def again(distance: float | None) -> Decomposition:
        return in_sample(sheet, Question.of(loss, "difference", distance, 2))

    return with_floor(again(clip), sheet, again)
