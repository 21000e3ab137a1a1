"""Logistic regression as R's ``glm`` fits it, which matters where a category is separated."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from scoreprism._core.simplex import FloatArray

#: ``glm.control`` of R.
_STEPS, _TOLERANCE = 25, 1e-8
#: Columns count as dependent below this: ``glm.fit`` of R takes a thousandth of its tolerance.
_RANK = 1e-11


class GLM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    Logistic regression without a penalty, by Fisher scoring from μ = (y + ½)/2, at most 25 steps.

    Where a category has one outcome only, the maximum of the likelihood lies at infinity. Solvers then differ in where
    they stop, and with it in the probabilities that they give to such rows.

    Attributes
    ----------
    classes_ : array of shape (2,)
        Labels; probabilities are of the second.
    coef_ : array of shape (p + 1,)
        Intercept and slopes.
    n_iter_ : int
        Steps taken.

    Examples
    --------
    >>> model = GLM().fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 1, 1])          # x = 1 is separated
    >>> model.predict_proba([[0.0], [1.0]])[:, 1].round(6), model.n_iter_ > 15
    (array([0.5, 1. ]), True)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """
        Fit.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Numbers.
        y : array-like of shape (n,)
            Two labels.

        Returns
        -------
        GLM
            Itself.
        """
        self.classes_ = np.unique(y)
        design = _design(X)
        outcome = (np.asarray(y) == self.classes_[1]).astype(np.float64)
        mu = (outcome + 0.5) / 2.0
        eta, before = np.log(mu / (1.0 - mu)), np.inf
        for step in range(1, _STEPS + 1):
            weight = np.sqrt(mu * (1.0 - mu))
            target = eta + (outcome - mu) / weight**2
            self.coef_ = np.linalg.lstsq(design * weight[:, None], target * weight, rcond=_RANK)[0]
            self.n_iter_ = step
            eta = design @ self.coef_
            mu = expit(eta)
            deviance = -2.0 * float(np.sum(np.log(np.where(outcome > 0, mu, 1.0 - mu))))
            if abs(deviance - before) / (abs(deviance) + 0.1) < _TOLERANCE:
                break
            before = deviance
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """
        Probabilities of both classes.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Numbers.

        Returns
        -------
        array of shape (n, 2)
            In the order of `classes_`.
        """
        p = expit(_design(X) @ self.coef_)
        return np.column_stack([1.0 - p, p])


def expit(eta: FloatArray) -> FloatArray:
    """
    R's inverse logit, which stays a rounding error away from 0 and 1.

    Parameters
    ----------
    eta : array
        Log-odds.

    Returns
    -------
    array
        Probabilities.

    Examples
    --------
    >>> bool(expit(np.array([800.0]))[0] < 1.0)
    True
    """
    eps = float(np.finfo(np.float64).eps)
    return np.clip(1.0 / (1.0 + np.exp(-np.clip(eta, -700.0, 700.0))), eps, 1.0 - eps)


def _design(X: Any) -> FloatArray:
    rows = np.asarray(X, dtype=np.float64)
    return np.column_stack([np.ones(len(rows)), rows])
