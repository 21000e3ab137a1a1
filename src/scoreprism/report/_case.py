"""The material of a report: everything the user passed, parsed once; laws fitted once per model, asked many things."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._progress import tracked
from scoreprism._validation import parse_confidence, parse_groups, parse_labels, parse_weights, plain, refuse
from scoreprism.calibrators import Calibrator, get_calibrator
from scoreprism.curves import MurphyDecomposition
from scoreprism.curves._murphy_decomposition import murphy_of
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._rows import Plan, Sheet
from scoreprism.estimation._chain import Problem
from scoreprism.estimation._decompose import Laws, fit_laws, parse_losses
from scoreprism.estimation._parse import Request, parse
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning
from scoreprism.frames import take_rows
from scoreprism.inference import TestResult
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable, evaluate
from scoreprism.report._evidence import FULL as MANY
from scoreprism.report._evidence import alpha_of, calibration_of, grouping_of
from scoreprism.report._maps import MapTable, judge_maps
from scoreprism.report._memory import lean, shared
from scoreprism.report._periods import sortable
from scoreprism.simplex import ArrayLike, FloatArray, IntArray, as_vector, n_classes

#: Summaries of calibration, for two classes and for more.
BINARY_METRICS = (
    "observed_expected_ratio",
    "calibration_in_the_large",
    "calibration_intercept",
    "calibration_slope",
    "ici",
    "e50",
    "e90",
    "emax",
    "ece",
    "auc",
)
SEVERAL_METRICS = ("global_balance", "classwise_ici", "classwise_ece", "confidence_ece", "top_label_ece")
#: Resamples behind the intervals of metrics for so many rows. The standard error of a 2.5 % quantile of 400 normal
#: draws is 0.13 of their standard deviation, 3.4 % of the length of the interval.
FEWER = 400
#: A date, or a date and a time, without a zone.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$")
#: How far scores of 0 and 1 are kept from the edge where log-odds are needed.
EDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """
    What a report is about.

    Attributes
    ----------
    models : dict of str to Model
        Each with its laws.
    losses : dict of str to ProperLoss
        The first is the one that single-loss sections speak of.
    X : frame, array or None
        Features.
    segments : dict of str to array
        Labels of each row, by grouping column.
    time : array or None
        Times or periods of the rows.
    level : float
        Confidence level.
    seed : int
        Seed of everything random.
    n_jobs : int or None
        Processes.
    clip : float or None
        How far laws are kept from 0.
    maps : tuple of str
        Calibrators to try; empty for those that fit the number of classes.
    notes : tuple of str
        What was done to the data before.
    warnings : tuple of str
        What was warned of while sections were made.
    """

    models: dict[str, Model]
    losses: dict[str, ProperLoss]
    X: Any
    segments: dict[str, NDArray[Any]]
    time: NDArray[Any] | None
    level: float
    seed: int
    n_jobs: int | None
    clip: float | None
    maps: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def first(self) -> Model:
        """The model that single-model figures show."""
        return next(iter(self.models.values()))

    @property
    def loss(self) -> str:
        """The loss that single-loss sections speak of."""
        return next(iter(self.losses))

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.first.k == 2

    @property
    def percent(self) -> str:
        """The confidence level in words."""
        return f"{100 * self.level:g} %"


@dataclass(frozen=True, eq=False)
class Model:
    """
    One model: its laws, and what is asked of them.

    Attributes
    ----------
    name : str
        Its name.
    laws : Laws
        What was fitted.
    decompositions : dict of str to Decomposition
        One per loss.
    warnings : tuple of str
        What was warned of on the way.
    request : Request
        As it came.
    """

    name: str
    laws: Laws
    decompositions: dict[str, Decomposition]
    warnings: tuple[str, ...]
    request: Request
    level: float
    seed: int
    maps_asked: tuple[str, ...] = ()
    losses: dict[str, ProperLoss] = field(default_factory=dict)

    @cached_property
    def chain(self) -> tuple[Sheet, Plan]:
        """Laws with their fold models, and names."""
        return self.laws.chain()

    @property
    def sheet(self) -> Sheet:
        """Outcomes, laws and weights."""
        return self.chain[0]

    @property
    def y(self) -> IntArray:
        """Codes of the outcomes."""
        return self.sheet.y

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.sheet.laws[0])

    @property
    def law(self) -> FloatArray:
        """The prediction S: one column for two classes."""
        return self._law(0)

    @property
    def calibrated(self) -> FloatArray:
        """The law C = P(Y | S), out of sample."""
        return self._law(1)

    def _law(self, level: int) -> FloatArray:
        law = self.sheet.laws[level]
        return as_vector(law) if self.k == 2 else law

    @property
    def weight(self) -> FloatArray | None:
        """Weights."""
        return self.sheet.weight

    @property
    def given(self) -> dict[str, Any]:
        """Options of curves and metrics on codes."""
        return {"sample_weight": self.weight} | ({"classes": list(range(self.k))} if self.k > 2 else {})

    @property
    def labels(self) -> list[str]:
        """The classes, in words."""
        names = self.sheet.classes
        return [str(label) for label in (range(self.k) if names is None else names.tolist())]

    @property
    def clustered(self) -> bool:
        """Whether rows come in clusters."""
        return self.sheet.groups is not None

    @property
    def rows(self) -> int:
        """Rows that have weight."""
        return int(self.y.size if self.weight is None else (self.weight > 0).sum())

    @property
    def _main(self) -> Decomposition:
        return next(iter(self.decompositions.values()))

    @cached_property
    def calibration(self) -> TestResult:
        """Is it calibrated?"""
        how = {"clustered": self.clustered, "seed": self.seed}
        return calibration_of(self.y, self.law, self.given, self._main, **how)  # type: ignore[arg-type]

    @property
    def refuted(self) -> bool:
        """Whether the test of calibration rejects."""
        return bool(self.calibration.pvalue <= alpha_of(self.level))

    @cached_property
    def miscalibrated(self) -> bool:
        """Whether miscalibration is shown, by the test or by the bound of its term."""
        doubted = any(level <= 1 for level, _ in self._main._doubts) or not np.isfinite(self._main.risk)
        return self.refuted or (not doubted and self._main.lower_bound("reliability", self.level).value > 0.0)

    @cached_property
    def _grouping(self) -> tuple[TestResult | None, str]:
        how = {"clustered": self.clustered, "seed": self.seed}
        return grouping_of(self.y, self.law, self.request.X, self.given, self._main, **how)  # type: ignore[arg-type]

    @property
    def grouping(self) -> TestResult | None:
        """Do the features know more than the score? None without features, or too few rows."""
        return self._grouping[0]

    @property
    def untested(self) -> str:
        """Why there is no test of grouping, where features were given."""
        return self._grouping[1]

    @property
    def certain(self) -> int:
        """Rows whose score is 0 or 1, which have no log-odds."""
        return int(((self.law == 0.0) | (self.law == 1.0)).sum()) if self.k == 2 else 0

    @cached_property
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination."""
        names = BINARY_METRICS if self.k == 2 else SEVERAL_METRICS
        clip = {"clip": EDGE} if self.certain else {}
        chosen = {name: clip if name.startswith("calibration_") else {} for name in names}
        return self._evaluated(chosen)

    def _evaluated(self, chosen: dict[str, dict[str, float]]) -> MetricTable:
        """As many metrics as these rows allow; of the others, why not."""

        def asked(some: dict[str, dict[str, float]]) -> MetricTable:
            count = FEWER if self.y.size > MANY else 1000
            how: dict[str, Any] = {"level": self.level, "random_state": self.seed, "n_resamples": count}
            return evaluate(self.y, self.law, metrics=some, **how, **self.given)

        try:
            return asked(chosen)
        except ScoreprismError:
            failed: dict[str, str] = {}
        for name, options in chosen.items():
            try:
                asked({name: options})
            except ScoreprismError as error:
                failed[name] = f"{self.name}: {name} is not given. {str(error)[0].upper()}{str(error)[1:]}"
        found = asked({name: options for name, options in chosen.items() if name not in failed})
        return replace(found, notes=(*found.notes, *failed.values()))

    @cached_property
    def murphy(self) -> MurphyDecomposition:
        """The terms as functions of the decision threshold."""
        return murphy_of(*self.chain, None, "debiased", self.level, self.name)

    @cached_property
    def maps(self) -> MapTable:
        """What recalibration by each map would do, out of sample."""
        return judge_maps(self.laws.problem, self.losses, self.maps_asked, self.level)

    @cached_property
    def best_map(self) -> Calibrator:
        """The best map, fitted on all rows; of two classes, 1 is the one that scores speak of."""
        classes = self.sheet.classes
        labels = self.y if classes is None or self.k == 2 else classes[self.y]
        return get_calibrator(self.maps.best).fit(self.law, labels, sample_weight=self.weight)


def parse_case(
    y_true: ArrayLike,
    y_proba: Any,
    X: Any,
    *,
    loss: Any,
    segments: Any,
    time: Any,
    level: float,
    random_state: object,
    clip: float | None,
    calibrators: Any,
    notes: tuple[str, ...],
    options: Mapping[str, Any],
) -> Case:
    """Parse everything, and fit the laws of every model on the same folds."""
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)) or random_state < 0:
        remedy = "It is printed in the report, so that anybody can make it again."
        refuse("random_state of a report must be a whole number", plain(random_state), remedy)
    seed, confidence = int(random_state), parse_confidence(level)
    losses = parse_losses(loss if isinstance(loss, (list, tuple)) else [loss])
    maps = tuple(calibrators or ())
    for name in maps:
        get_calibrator(name)
    n = parse_labels(y_true, "y_true").shape[0]
    given = _models(y_proba)
    rows = _weighted(options.get("sample_weight"), n)
    if rows is not None:
        notes = (*notes, f"{n - rows.size:,} rows of weight 0 were left out.")
        y_true, X, time = (part if part is None else take_rows(part, rows) for part in (y_true, X, time))
        given = {name: one if hasattr(one, "predict_proba") else take_rows(one, rows) for name, one in given.items()}
        segments = {name: take_rows(labels, rows) for name, labels in _named(segments).items()}
        by_row = {key: take_rows(options[key], rows) for key in _BY_ROW if options.get(key) is not None}
        options, n = {**options, **by_row}, rows.size
    ready = {str(name): _labels(labels, n, str(name)) for name, labels in _named(segments).items()}
    moments = None if time is None else _labels(time, n, "time", keep=True)
    models: dict[str, Model] = {}
    for name, score in tracked(given.items(), len(given), "models"):
        request = Request(y_true, score, X, random_state=seed, **options)
        before = next((model.laws.problem for model in models.values()), None)
        models[name] = _fitted(name, request, losses, clip, confidence, seed, maps, before)
    return Case(models, losses, X, ready, moments, confidence, seed, options.get("n_jobs"), clip, maps, tuple(notes))


#: Options that hold one entry per row.
_BY_ROW = ("q", "latent", "sample_weight", "groups")


def _weighted(weight: Any, n: int) -> IntArray | None:
    """Rows that have weight, where some have none: the others would only blur folds and halves."""
    parsed = None if weight is None else parse_weights(weight, n)
    return None if parsed is None or (parsed > 0).all() else np.flatnonzero(parsed)


def _models(y_proba: Any) -> dict[str, Any]:
    """Models by name; one that has none is called so."""
    if not isinstance(y_proba, Mapping):
        name = getattr(y_proba, "name", None)
        classifier = hasattr(y_proba, "predict_proba")
        return {type(y_proba).__name__ if classifier else name if isinstance(name, str) and name else "model": y_proba}
    if not y_proba:
        refuse("y_proba must hold at least one model", "an empty mapping", "For example {'forest': p}.")
    named = {str(name): score for name, score in y_proba.items()}
    if len(named) < len(y_proba):
        refuse("models must have different names", f"{list(y_proba)}", "Rename one of them.")
    return named


def _fitted(
    name: str,
    request: Request,
    losses: dict[str, ProperLoss],
    clip: float | None,
    level: float,
    seed: int,
    maps: tuple[str, ...],
    before: Problem | None = None,
) -> Model:
    """Fit the laws of one model; what is warned of is kept for the reader of the report."""
    with overheard() as said:
        laws = fit_laws(shared(parse(request), before), losses, clip)
        decompositions = laws.decomposed(losses, "debiased", clip)
    if laws.problem.sheet.n > MANY:
        laws, decompositions = lean(laws, decompositions)
    return Model(name, laws, decompositions, tuple(said), request, level, seed, maps, losses)


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Our own warnings, each once, in a list that is full when the block ends; those of others go their way."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ScoreprismWarning)
        yield said
    for warning in caught:
        if not issubclass(warning.category, ScoreprismWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif str(warning.message) not in said:
            said.append(str(warning.message))


def _named(segments: Any) -> Mapping[Any, Any]:
    """Columns of labels by name."""
    if segments is None:
        return {}
    if isinstance(segments, Mapping):
        return segments
    from scoreprism.frames import column_names, columns_of

    columns, names = columns_of(segments), column_names(segments)
    if columns is not None and names is not None:
        return dict(zip(names, columns, strict=True))
    return {"group": segments}


def _labels(values: Any, n: int, name: str, *, keep: bool = False) -> NDArray[Any]:
    """One label per row, as text unless times are meant."""
    parsed = parse_groups(values, n, name)
    if parsed is None:
        refuse(f"{name} must hold one label per row", "None", "Leave it out.")
    labels, codes = parsed
    return _moments(labels)[codes] if keep else sortable(labels)[codes]


def _moments(labels: NDArray[Any]) -> NDArray[Any]:
    """Dates and times, also those that came as objects or as ISO text; other labels stay as they are."""
    if labels.dtype.kind == "M":
        return labels
    texts = [str(label) for label in labels.tolist()]
    if labels.dtype.kind in "OUS" and all(_ISO.match(text) for text in texts):
        return np.array([text.replace(" ", "T")[:26] for text in texts], dtype="datetime64[us]")
    return labels
