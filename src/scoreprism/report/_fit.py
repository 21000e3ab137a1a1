"""One model of a report: its laws, fitted once, and everything that sections ask of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from scoreprism._core.checks import listed
from scoreprism._core.simplex import FloatArray, IntArray, as_vector, n_classes
from scoreprism._fitting.candidates import Problem
from scoreprism._fitting.chain_fit import Laws, Request, fit_laws, parse
from scoreprism.calibrators import Calibrator, SelectedCalibrator, get_calibrator
from scoreprism.curves import DecisionLoss, MurphyDecomposition
from scoreprism.curves._murphy_decomposition import murphy_of
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._rows import Plan, Sheet
from scoreprism.exceptions import ContradictedOrderWarning, ScoreprismError, ScoreprismWarning
from scoreprism.inference import TestResult
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable, evaluate
from scoreprism.report._evidence import FULL as MANY
from scoreprism.report._evidence import SOME, calibration_of, grouping_of
from scoreprism.report._judged import Judged
from scoreprism.report._maps import CHOOSER, MapTable, judge_maps
from scoreprism.report._memory import lean, shared

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
#: Resamples behind the intervals of metrics beyond so many rows. The standard error of a 2.5 % quantile of 400 normal
#: draws is 0.13 of their standard deviation, 3.4 % of the length of the interval; of 200, 4.8 %.
FEWER = ((SOME, 200), (MANY, 400))
#: How far scores of 0 and 1 are kept from the edge where log-odds are needed.
EDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Model(Judged):
    """One model: its laws, and what is asked of them."""

    name: str  # its name
    laws: Laws  # what was fitted
    decompositions: dict[str, Decomposition]  # one per loss
    warnings: tuple[str, ...]  # what was warned of on the way
    request: Request  # as it came
    level: float
    seed: int
    maps_asked: tuple[str | Calibrator, ...] = ()
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
    def outcomes(self) -> IntArray:
        """Rows of each class, those without weight left out."""
        held = self.y if self.weight is None else self.y[self.weight > 0]
        return np.bincount(held, minlength=self.k)

    def infinite_rows(self, loss: str) -> int:
        """Rows whose loss is infinite."""
        return int(np.isinf(self.decompositions[loss].level_losses[:, 0]).sum())

    def infinite_places(self, loss: str) -> str:
        """Which rows those are."""
        rows = np.flatnonzero(np.isinf(self.decompositions[loss].level_losses[:, 0]))
        return f"row {listed(rows)} of those used, counted from 0"

    @cached_property
    def calibration(self) -> TestResult:
        """Is it calibrated?"""
        how = {"clustered": self.clustered, "seed": self.seed}
        return calibration_of(self.y, self.law, self.given, self.main, **how)  # type: ignore[arg-type]

    @cached_property
    def _grouping(self) -> tuple[TestResult | None, str]:
        how = {"clustered": self.clustered, "seed": self.seed}
        return grouping_of(self.y, self.law, self.request.X, self.given, self.main, **how)  # type: ignore[arg-type]

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
            count = next((draws for rows, draws in FEWER if self.y.size > rows), 1000)
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
    def decision_loss(self) -> DecisionLoss:
        """The most that miscalibration costs at any decision threshold."""
        return self.murphy.decision_loss()

    @cached_property
    def maps(self) -> MapTable:
        """What recalibration by each map would do, out of sample."""
        return judge_maps(self.laws.problem, self.losses, self.maps_asked, self.level)

    @cached_property
    def map(self) -> Calibrator:
        """The map to deploy, fitted on all rows; of two classes, 1 is the one that scores speak of."""
        classes = self.sheet.classes
        labels = self.y if classes is None or self.k == 2 else classes[self.y]
        wanted = self.maps.honest if self.maps_asked else CHOOSER
        asked = [clone(get_calibrator(one)) for one in self.maps_asked] or [SelectedCalibrator(random_state=self.seed)]
        chosen: Calibrator = next(one for one in asked if one.name == wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictedOrderWarning)  # the section says it
            chosen.fit(self.map_input, labels, sample_weight=self.weight)
        if classes is not None and self.k == 2 and chosen.provenance_ is not None:
            named = tuple(str(label) for label in classes.tolist())  # what the codes 0 and 1 stand for
            chosen.provenance_ = replace(chosen.provenance_, labels=named)
        return chosen

    @property
    def map_input(self) -> FloatArray:
        """The prediction as the map takes it: its columns stand as labels sort, those of the model as in the file."""
        classes = self.sheet.classes
        return self.law if classes is None or self.k == 2 else self.law[:, np.argsort(classes, kind="stable")]


class Asked(NamedTuple):
    """One model, parsed; and what was warned of."""

    request: Request
    problem: Problem
    said: list[str]


def asked(request: Request, before: Problem | None = None) -> Asked:
    """Parse the request of one model; what is warned of is kept for the reader of the report."""
    with overheard() as said:
        problem = shared(parse(request), before)
    return Asked(request, problem, said)


def fitted(
    name: str,
    one: Asked,
    losses: dict[str, ProperLoss],
    clip: float | None,
    floors: Mapping[str, float],
    level: float,
    seed: int,
    maps: tuple[str | Calibrator, ...],
) -> Model:
    """Fit the laws of one model; what is warned of is kept for the reader of the report."""
    with overheard() as said:
        laws = fit_laws(one.problem, losses, clip, floors)
        decompositions = laws.decomposed(losses, "debiased", clip)
    if laws.problem.sheet.n > MANY:
        laws, decompositions = lean(laws, decompositions)
    heard = tuple(dict.fromkeys([*one.said, *said]))
    return Model(name, laws, decompositions, heard, one.request, level, seed, maps, losses)


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
