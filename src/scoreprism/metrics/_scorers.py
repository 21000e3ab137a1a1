"""Metrics, losses and terms of losses as scorers for scikit-learn's searches and cross-validation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from scoreprism._core.checks import abbreviate, parse_choice, refuse
from scoreprism._core.simplex import ArrayLike
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._sample.models import predict_probabilities
from scoreprism._sample.sample import Sample
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.losses import LOSSES, ProperLoss, get_loss
from scoreprism.metrics._rows import Rows
from scoreprism.metrics._table import METRICS, check_options

#: Terms of a loss that a scorer can return.
TERMS = ("reliability", "refinement", "resolution")
#: Options of `decompose` for the estimate of a term.
_TERM_OPTIONS = ("calibrator", "cv", "random_state")


class Scorer(BaseEstimator):  # type: ignore[misc]
    """
    A callable ``(estimator, X, y, sample_weight=None)`` that returns a float, greater for better predictions.

    Made by `scorer`. scikit-learn can clone and pickle it, and route `sample_weight` to it.

    Parameters
    ----------
    name : str
        A metric, a loss or a term of a loss.
    loss : str, ProperLoss or None, default=None
        The loss of a term.
    options : dict or None, default=None
        Options of the metric, or of the estimate of a term.

    Examples
    --------
    >>> Scorer("ece", options={"n_bins": 10})
    scorer('ece', n_bins=10)
    """

    # arguments of `score` besides X and y can be routed to it: the weights, but not the estimator
    __metadata_request__score: ClassVar[dict[str, str]] = {"estimator": UNUSED}

    def __init__(self, name: str, loss: Any = None, options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.loss = loss
        self.options = options

    def score(self, estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """
        The score of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``predict_proba``; its ``classes_`` say what the columns are.
        X : array-like or frame of shape (n, p)
            Features of rows it was not trained on.
        y : array-like of shape (n,)
            Outcomes.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        float
            Greater is better.
        """
        law, classes = predict_probabilities(estimator, X, "estimator")
        labels = None if classes is None else list(classes)
        with warnings.catch_warnings():
            # they concern intervals, which a score does not have, and predicted labels, which these are not
            warnings.simplefilter("ignore", ScoreprismWarning)
            return self._measure(Sample.of(y, law, sample_weight=sample_weight, classes=labels))

    __call__ = score

    def _measure(self, sample: Sample) -> float:
        """How good the predictions are: by the metric, the loss or the term."""
        options = dict(self.options or {})
        if self.name in METRICS:
            metric = METRICS[self.name]
            value = float(metric.of_rows(Rows.of(sample), **options))
            if self.name == "observed_expected_ratio":  # twice as many and half as many are as far from 1
                return -abs(math.log(value)) if value > 0.0 else -math.inf
            return value if metric.ideal == math.inf else -abs(value - metric.ideal)
        if self.name in LOSSES:
            loss = get_loss(self.name, **options)
            return -sample.mean(loss.evaluate(sample.prediction, sample.y))
        d = ChainFit.of(sample, **options).fit().decompose(get_loss("log" if self.loss is None else self.loss))
        return d.resolution_form.terms["resolution"] if self.name == "resolution" else -d.terms[self.name]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = ({} if self.loss is None else {"loss": self.loss}) | dict(self.options or {})
        words = [f"{key}={value!r}" for key, value in parameters.items()]
        return f"scorer({', '.join([repr(self.name), *words])})"[:N_CHAR_MAX]


def scorer(name: str, *, loss: str | ProperLoss | None = None, **options: Any) -> Scorer:
    r"""
    A scorer for ``scoring=`` of scikit-learn's GridSearchCV, cross_validate, cross_val_score, RFECV and their like.

    Greater is better: errors and losses are negated, `auc` and "resolution" are not. A metric whose best value is not
    0 counts by its distance from it: minus ``|slope − 1|`` for `calibration_slope`, minus ``|log(O/E)|`` for
    `observed_expected_ratio`; metrics that have a sign count by their size.

    Parameters
    ----------
    name : str
        A name in `METRICS`; a loss by its name in `LOSSES`; or "reliability", "refinement" or "resolution", terms of
        a loss without features as `decompose` estimates them on the rows that are scored.
    loss : str or ProperLoss, optional
        The loss of a term; the log loss by default.
    **options : object
        Options of the metric (``n_bins=10``), parameters of the loss (``alpha=1.5``), or for a term ``calibrator``,
        ``cv`` and ``random_state`` of `decompose`.

    Returns
    -------
    Scorer
        Called with ``(estimator, X, y, sample_weight=None)``. Weights are routed after
        ``.set_score_request(sample_weight=True)``.

    Notes
    -----
    A metric or a loss costs milliseconds. A term fits the calibrated probabilities in several partitions of the rows:
    with two classes about 0.1 s for 1000 rows and 0.3 s for 10 000; with three classes 0.9 s and 4.4 s, or 0.06 s and
    0.8 s with ``calibrator="temperature"``. Terms are estimated on each test fold, so a fold should hold some
    hundred rows.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> X, y = make_classification(600, random_state=0)
    >>> scoring = {"reliability": scorer("reliability", loss="log"), "ici": scorer("ici"), "log": scorer("log")}
    >>> result = cross_validate(LogisticRegression(), X, y, scoring=scoring)
    >>> bool((result["test_ici"] < 0).all())
    True
    """
    known = parse_choice(name, [*TERMS, *LOSSES, *METRICS], "name")
    if loss is not None and known not in TERMS:
        refuse(f"`loss` must go with a term ({', '.join(TERMS)})", f"{name!r}", "Leave it out.")
    if known in METRICS:
        check_options(known, options)
    elif known in LOSSES:
        get_loss(known, **options)
    else:
        get_loss("log" if loss is None else loss)
        wrong = [option for option in options if option not in _TERM_OPTIONS]
        if wrong:
            refuse(f"{known} takes the options {', '.join(_TERM_OPTIONS)}", abbreviate(wrong), "Correct their names.")
    return Scorer(known, loss, options or None)


#: Ready scorers by name: the terms of the log loss, every loss, every metric.
SCORERS: dict[str, Scorer] = {name: scorer(name) for name in (*TERMS, *LOSSES, *METRICS)}
