"""The two classical forms: uncertainty − resolution + reliability, and its in-sample isotonic version CORP."""

from __future__ import annotations

import numpy as np

from scoreprism._validation import (
    parse_folds,
    parse_groups,
    parse_law,
    parse_outcomes,
    parse_weights,
    refuse,
    require_rows,
)
from scoreprism.decomposition._result import Decomposition
from scoreprism.decomposition._rows import Plan, Sheet, assemble
from scoreprism.exceptions import InputError
from scoreprism.frames import backend_of
from scoreprism.isotonic import isotonic_fit
from scoreprism.losses import ProperLoss
from scoreprism.simplex import ArrayLike, FloatArray, as_vector, n_classes, one_hot, unify


def _classical_sheet(
    y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None, pos_label: object, classes: ArrayLike | None
) -> Sheet:
    law = parse_law(y_proba, "y_proba")
    outcomes = parse_outcomes(y_true, law, pos_label=pos_label, classes=classes)
    weight = parse_weights(sample_weight, law.shape[0])
    backend = backend_of(y_true) or backend_of(y_proba)
    return Sheet(outcomes.codes, [law[:, ::-1] if outcomes.flip else law], [None], weight, None, backend)


def _climatology(sheet: Sheet) -> FloatArray:
    """Q̄, the marginal law of the outcome, on every row."""
    k = n_classes(sheet.laws[0])
    marginal = np.average(one_hot(sheet.y, k), axis=0, weights=sheet.weight)
    if sheet.laws[0].ndim == 1:
        return np.full(sheet.n, marginal[1])
    return np.tile(marginal, (sheet.n, 1))


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
    sheet = _classical_sheet(y_true, y_proba, sample_weight, pos_label, classes)
    law = parse_law(getattr(calibrated, "law", calibrated), "calibrated")
    require_rows(law.shape[0], sheet.n, "calibrated", "y_true")
    if n_classes(law) != n_classes(sheet.laws[0]):
        refuse(
            "calibrated must have as many classes as y_proba",
            f"shapes {law.shape} and {sheet.laws[0].shape}",
            "Recalibrate all classes.",
        )
    raw = getattr(calibrated, "folds", None)
    folds = None if raw is None else parse_folds(raw, law, "calibrated.folds")
    clusters = parse_groups(groups, sheet.n)
    laws = unify([sheet.laws[0], law, _climatology(sheet)])
    if folds is not None and folds.ndim - 1 != laws[1].ndim:
        folds = np.stack(unify([*folds, laws[1]])[:-1])
    full = Sheet(
        sheet.y, laws, [None, folds, None], sheet.weight, None if clusters is None else clusters[1], sheet.backend
    )
    names = ("reliability", "resolution", "uncertainty")
    return assemble(full, Plan(("S", "C", "Q̄"), names, names, (1, -1, 1)), loss, form, clip)


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

    The decomposition of Dimitriadis, Gneiting & Jordan (2021), as R's reliabilitydiag and PyPI's
    model-diagnostics compute it, offered because people compare with it. The isotonic law is fitted on the rows
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
    sheet = _classical_sheet(y_true, y_proba, sample_weight, pos_label, classes)
    if n_classes(sheet.laws[0]) != 2:
        raise InputError(
            f"CORP must have two classes, because isotonic regression needs an order; got {n_classes(sheet.laws[0])}. "
            "Use resolution_decomposition with a multiclass calibrator."
        )
    score = as_vector(sheet.laws[0])
    fitted = isotonic_fit(score, sheet.y.astype(float), sheet.weight)
    laws = unify([sheet.laws[0], fitted, _climatology(sheet)])
    full = Sheet(sheet.y, laws, [None, None, None], sheet.weight, None, sheet.backend)
    note = (
        "in-sample isotonic: miscalibration is biased upwards (about +0.0055 Brier for a calibrated score at n = 1000)"
    )
    plan = Plan(
        ("S", "isotonic", "Q̄"),
        ("miscalibration", "discrimination", "uncertainty"),
        ("in-sample", "in-sample", "uncertainty"),
        (1, -1, 1),
        (note,),
    )
    return assemble(full, plan, loss, "difference", clip)
