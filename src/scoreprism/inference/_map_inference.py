"""map_inference(): standard errors of parametric recalibration maps by M-estimation (paper, appendix C)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from scoreprism._calibration_test.calibration_tests import TestResult
from scoreprism._core.checks import parse_choice, parse_confidence, parse_flag, parse_law, refuse, write_plain
from scoreprism._core.frames import backend_of
from scoreprism._core.numerics import TINY, sigmoid
from scoreprism._core.simplex import ArrayLike, FloatArray, as_vector, n_classes
from scoreprism._document.result import Result, TermTable
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding, Noted
from scoreprism._findings.wording import write_pvalue
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._parameters import described
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.exceptions import ScoreOrderWarning
from scoreprism.inference._map_sandwich import PARAMETRIC, Sandwich, Scheme, make_sandwich, make_scheme
from scoreprism.inference._map_summaries import MAP_SUMMARIES, Functional, MapSummary, make_rows, summarise, take_root
from scoreprism.losses import ProperLoss, get_loss

#: With fewer rows than this the result has a caution.
_FEW = 50


@dataclass(frozen=True, eq=False, repr=False)
class MapBand(Result):
    """
    Recalibrated probabilities with pointwise intervals.

    Made by `MapInference.calibrate`.

    Attributes
    ----------
    score : array of shape (m,) or (m, K)
        Scores.
    calibrated : array of shape (m,) or (m, K)
        Recalibrated probabilities.
    low, high : array of shape (m,) or (m, K)
        Ends of the intervals, normal on the logit scale.
    confidence_level : float
        Confidence level of each point.
    calibrator : Calibrator
        The fitted map.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.inference import map_inference
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(500)
    >>> band = map_inference(rng.random(500) < s, s, calibrator="platt").calibrate([0.2, 0.8])
    >>> bool(((band.low < [0.2, 0.8]) & (band.high > [0.2, 0.8])).all())
    True
    """

    score: FloatArray
    calibrated: FloatArray
    low: FloatArray
    high: FloatArray
    confidence_level: float
    calibrator: Calibrator = field(repr=False)
    _support: tuple[float, float]
    _backend: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain values.

        Returns
        -------
        dict
            Ready for JSON.
        """
        columns = {name: getattr(self, name).tolist() for name in ("score", "calibrated", "low", "high")}
        encoded: dict[str, Any] = encode(columns | {"confidence_level": self.confidence_level})
        return encoded

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, Any] = {}
        for name in ("score", "calibrated", "low", "high"):
            values = getattr(self, name)
            parts = {name: values} if values.ndim == 1 else {f"{name}_{j}": v for j, v in enumerate(values.T)}
            columns |= {key: value.tolist() for key, value in parts.items()}
        return columns

    def _title(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return f"MapBand: {self.score.shape[0]} scores, pointwise {100 * self.confidence_level:g} % intervals"


@dataclass(frozen=True, eq=False, repr=False)
class MapInference(Noted, TermTable):
    """
    A parametric recalibration map with standard errors.

    Made by `map_inference`.

    Attributes
    ----------
    names : tuple of str
        Parameters.
    calibrator : Calibrator
        The fitted map.
    covariance, model_covariance : array of shape (p, p)
        Sandwich and model-based covariance of the parameters; of log T for a temperature.
    confidence_level : float
        Confidence level.
    n : int
        Rows with weight.
    n_groups : int or None
        Clusters.
    factor : float
        Small-sample factor in the sandwich.
    findings : tuple of Finding
        Caveats.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.inference import map_inference
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> result = map_inference(rng.random(1000) < s, s, calibrator="platt")
    >>> result.terms["slope"] == result.calibrator.slope_, result.test.pvalue > 0.05
    (True, True)
    """

    calibrator: Calibrator
    confidence_level: float
    n: int
    n_groups: int | None
    findings: tuple[Finding, ...]
    _scheme: Scheme = field(repr=False)
    _sandwich: Sandwich = field(repr=False)
    _score: FloatArray = field(repr=False)
    _weight: FloatArray = field(repr=False)

    @property
    def covariance(self) -> FloatArray:
        """Sandwich covariance."""
        return self._sandwich.robust.copy()

    @property
    def model_covariance(self) -> FloatArray:
        """Covariance if the map holds and rows are independent."""
        return self._sandwich.model.copy()

    @property
    def factor(self) -> float:
        """Small-sample factor."""
        return self._sandwich.factor

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest score of the rows; two classes."""
        return float(self._score.min()), float(self._score.max())

    @property
    def terms(self) -> dict[str, float]:
        """Estimates of the parameters."""
        return dict(zip(self.names, self._report_parameters(self._scheme.theta).tolist(), strict=True))

    @property
    def std_errors(self) -> dict[str, float]:
        """Standard errors, from the sandwich."""
        return dict(zip(self.names, self._find_errors(self._sandwich.robust).tolist(), strict=True))

    def interval(self, name: str, confidence_level: float | None = None) -> Interval:
        """
        Wald interval of a parameter; of log T for a temperature, so that it stays positive.

        Parameters
        ----------
        name : str
            A parameter.
        confidence_level : float, optional
            Confidence level; that of the call by default.

        Returns
        -------
        Interval
            Its ends.
        """
        i = self.names.index(parse_choice(name, self.names, "name"))
        confidence = self.confidence_level if confidence_level is None else parse_confidence(confidence_level)
        half = self._find_quantile(confidence) * math.sqrt(self._sandwich.robust[i, i])
        ends = self._report_parameters(self._scheme.theta[i] + np.array([-half, half]))
        return Interval(float(ends.min()), float(ends.max()), confidence, "wald, sandwich")

    @cached_property
    def test(self) -> TestResult:
        """Wald test that the map is the identity: chi-squared, or F with G − 1 degrees of freedom for G clusters."""
        from scipy.special import chdtrc, fdtrc

        gap = self._scheme.theta - self._scheme.identity
        whiten = take_root(self._sandwich.robust)[1]
        df = whiten.shape[1]
        statistic = float(np.sum((gap @ whiten) ** 2))
        p = chdtrc(df, statistic) if self.n_groups is None else fdtrc(df, self.n_groups - 1, statistic / df)
        claim = ", ".join(f"{name} = {write_plain(v)}" for name, v in zip(self.names, self._identity, strict=True))
        parts = {"degrees": {"df": float(df)}}
        return TestResult(statistic, float(p), "wald", f"the map is the identity: {claim}", self.n, 0, parts)

    def calibrate(self, y_proba: ArrayLike, *, confidence_level: float | None = None) -> MapBand:
        """
        Recalibrate any scores, with pointwise intervals by the delta method on the logit scale.

        Parameters
        ----------
        y_proba : array-like of shape (m,) or (m, K)
            Scores.
        confidence_level : float, optional
            Confidence level; that of the call by default.

        Returns
        -------
        MapBand
            Recalibrated probabilities and intervals; of two classes as vectors, of the second class.
        """
        score = parse_law(y_proba, "y_proba")
        k = n_classes(self._score)
        if n_classes(score) != k:
            refuse(f"`y_proba` must have {k} classes, as in the fit", f"{n_classes(score)}", "Pass the same columns.")
        score = as_vector(score) if k == 2 else score
        confidence = self.confidence_level if confidence_level is None else parse_confidence(confidence_level)
        cov = self._sandwich.robust
        laws, errors = [], []
        for _, p, design in self._scheme.blocks(score, self._scheme.theta):
            rest = design - np.einsum("nk,nkp->np", p, design)[:, None]
            rest /= np.maximum(1.0 - p, TINY)[:, :, None]  # the derivative of log p_k − log(1 − p_k)
            laws.append(p)
            errors.append(np.sqrt(np.maximum(np.einsum("nkp,pq,nkq->nk", rest, cov, rest, optimize=True), 0.0)))
        p, half = np.concatenate(laws), self._find_quantile(confidence) * np.concatenate(errors)
        center = np.log(np.maximum(p, TINY)) - np.log(np.maximum(1.0 - p, TINY))
        low, high = sigmoid(center - half), sigmoid(center + half)
        if k == 2:
            p, low, high = p[:, 1], low[:, 1], high[:, 1]
        backend = backend_of(y_proba) or self._backend
        return MapBand(score, p, low, high, confidence, self.calibrator, self.support, backend)

    def summary(
        self,
        kind: str = "ici",
        *,
        loss: str | ProperLoss = "log",
        method: str = "profile",
        confidence_level: float | None = None,
    ) -> MapSummary:
        """
        How far the map is from the identity, over the scores.

        Parameters
        ----------
        kind : {"ici", "lcs", "rms", "reliability"}, default="ici"
            E|g(S) − S| (half the sum over classes for K ≥ 3), E(g(S) − S)² (summed over classes for K ≥ 3), its
            root, or E d(S, g(S)).
        loss : str or ProperLoss, default="log"
            The loss of "reliability".
        method : {"profile", "delta"}, default="profile"
            The extremes of the summary over the Wald ellipsoid of one degree of freedom, with the sampling of the
            scores added, and 0 for the lower end where the identity is not rejected; or estimate ± z · standard error,
            which breaks down near the identity. Far from it they agree.
        confidence_level : float, optional
            Confidence level; that of the call by default.

        Returns
        -------
        MapSummary
            Estimate, standard error, bias and interval.
        """
        word = parse_choice(kind, MAP_SUMMARIES, "kind")
        how = parse_choice(method, ("profile", "delta"), "method")
        confidence = self.confidence_level if confidence_level is None else parse_confidence(confidence_level)
        chosen_loss = get_loss(loss) if word == "reliability" else None
        if chosen_loss is not None:
            chosen_loss.require_classes(self._score)
        functional = Functional(self._scheme, self._score, self._weight, make_rows(word, chosen_loss), word == "rms")
        name = word if chosen_loss is None else f"reliability ({chosen_loss!s})"
        near = not self.test.pvalue < 1.0 - confidence
        level: dict[str, Any] = {"confidence_level": confidence, "z": self._find_quantile(confidence)}
        return summarise(functional, self._sandwich, name, how, near=near, **level)

    def to_dict(self) -> dict[str, Any]:
        """
        Parameters, covariances and the test as plain Python objects.

        Returns
        -------
        dict
            Ready for JSON.
        """
        fields: dict[str, Any] = encode(
            {
                "calibrator": self.calibrator.name,
                "parameters": self._columns(),
                "covariance": self._sandwich.robust.tolist(),
                "model_covariance": self._sandwich.model.tolist(),
                "test": self.test.to_dict(),
                "confidence_level": self.confidence_level,
                "n": self.n,
                "n_groups": self.n_groups,
                "factor": self.factor,
                "findings": [one.to_dict() for one in self.findings],
            }
        )
        return fields

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def _identity(self) -> list[float]:
        return list(self._report_parameters(self._scheme.identity).tolist())

    def _report_parameters(self, theta: FloatArray) -> FloatArray:
        """Reported parameters: T instead of −log T."""
        return np.exp(-theta) if self._scheme.log else theta

    def _find_errors(self, covariance: FloatArray) -> FloatArray:
        errors: FloatArray = np.sqrt(np.diag(covariance))
        return errors * self._report_parameters(self._scheme.theta) if self._scheme.log else errors

    def _find_quantile(self, confidence_level: float) -> float:
        """Normal quantile, or Student's with G − 1 degrees of freedom for G clusters."""
        if self.n_groups is None:
            return quantile(confidence_level, two_sided=True)
        from scipy.special import stdtrit

        return float(stdtrit(self.n_groups - 1, 0.5 + confidence_level / 2.0))

    def _columns(self) -> dict[str, list[Any]]:
        ends = [self.interval(name) for name in self.names]
        return {
            "parameter": list(self.names),
            "estimate": list(self.terms.values()),
            "std_error": list(self.std_errors.values()),
            "model_std_error": self._find_errors(self._sandwich.model).tolist(),
            "low": [end.low for end in ends],
            "high": [end.high for end in ends],
            "identity": self._identity,
        }

    def _title(self) -> str:
        rows = f"{self.n} rows" if self.n_groups is None else f"{self.n} rows in {self.n_groups} groups"
        level = f"{100 * self.confidence_level:g} %"
        return f"{type(self.calibrator).__name__} on {rows}, sandwich standard errors, {level} intervals"

    def _footer(self) -> list[str]:
        return [f"Identity: {write_pvalue(self.test.pvalue)} (Wald)"]

    def _findings(self) -> Sequence[Finding]:
        return self.findings


@described()
def map_inference(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    calibrator: str | Calibrator,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    confidence_level: float = 0.95,
    small_sample: bool = True,
) -> MapInference:
    """
    Standard errors of a parametric recalibration map, by M-estimation.

    Parameters
    ----------
    calibrator : str or Calibrator
        "platt", "temperature", "beta", "vector-scaling", "matrix-scaling", "dirichlet" or "polynomial", or such a
        calibrator: fitted here, or already fitted on the same rows.
    y_proba : array-like of shape (n,) or (n, K), optional
        Probabilities from a model that was not fitted on these rows; omit with a Sample.
    groups : array-like of shape (n,), optional
        Clusters: rows of a group may depend on each other.
    small_sample : bool, default=True
        Multiply the sandwich by n/(n − p), or G/(G − 1) · (n − 1)/(n − p) for G groups; False gives HC0.

    Returns
    -------
    MapInference
        Parameters with intervals, a test of the identity map, the map with a band, and summaries.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.inference import map_inference
    >>> rng = np.random.default_rng(1)
    >>> s = rng.random(2000)
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-0.5 * np.log(s / (1 - s))))     # twice too confident
    >>> result = map_inference(y, s, calibrator="temperature")
    >>> bool(result.interval("temperature").low < 2 < result.interval("temperature").high)
    True
    """
    confidence = parse_confidence(confidence_level)
    corrected = parse_flag(small_sample, "small_sample")
    if isinstance(y_true, (str, Calibrator)):
        remedy = "Call map_inference(y_true, y_proba, calibrator=…)."
        refuse("`y_true` must be outcomes", f"the calibrator {y_true!r}", remedy)
    chosen = get_calibrator(calibrator)
    _require_parametric(chosen)
    sample = Sample.of(
        y_true, y_proba, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes
    )
    data, clusters = _get_rows(sample)
    fitted = chosen
    if not chosen.__sklearn_is_fitted__():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreOrderWarning)  # `Sample` has warned already
            fitted = clone(chosen).fit(data.score, data.codes, data.weight)
    if len(fitted.classes_) != data.k:
        what = f"{len(fitted.classes_)} classes and {data.k} in y_proba"
        refuse("a fitted calibrator must have the classes of the rows", what, "Pass the rows it was fitted on.")
    _require_overlap(fitted)
    labels = tuple(str(label) for label in np.asarray(sample.classes).tolist())
    scheme = make_scheme(fitted, data, labels)
    sandwich = make_sandwich(scheme, fitted, data, clusters, small_sample=corrected)
    law = data.score
    certain = int(((law == 0.0) | (law == 1.0)).reshape(sample.n, -1).any(axis=1).sum())
    findings = [Finding("read_as", n=certain)] if certain else []
    findings += [Finding("few_rows", n=sample.n)] if sample.n < _FEW else []
    return MapInference(
        names=scheme.names,
        _backend=sample.backend,
        calibrator=fitted,
        confidence_level=confidence,
        n=sample.n,
        n_groups=None if clusters is None else int(clusters.max()) + 1,
        findings=(*scheme.findings, *findings),
        _scheme=scheme,
        _sandwich=sandwich,
        _score=law,
        _weight=np.ones(sample.n) if data.weight is None else data.weight,
    )


def _require_parametric(chosen: Calibrator) -> None:
    """Refuse maps that are not M-estimators."""
    if chosen.name not in PARAMETRIC:
        refuse(
            f"`calibrator` must be a smooth parametric map, one of {', '.join(PARAMETRIC)}",
            chosen.name,
            "Use a bootstrap for the others.",
        )
    if chosen.kind != "probability":
        refuse("`calibrator` must take probabilities", "kind='logit'", "Apply scipy.special.expit or softmax first.")


def _get_rows(sample: Sample) -> tuple[FitRows, Any]:
    """The rows (two classes as a vector, weights that count as rows) and their groups."""
    law, groups = sample.prediction, sample.groups
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
        if groups.max() < 1:
            refuse("`groups` must be at least two", "one group", "Leave groups out, if rows are independent.")
    score = as_vector(law) if sample.k == 2 else law
    return FitRows(score, sample.y, sample.weight, sample.k, "probability"), groups


def _require_overlap(calibrator: Calibrator) -> None:
    """Refuse separated classes, for which the likelihood has no maximum."""
    if getattr(calibrator, "separated_", False):
        refuse(
            "standard errors of a map must have classes that overlap, because parameters are infinite otherwise",
            "scores that separate the classes",
            "Pass more rows.",
        )
