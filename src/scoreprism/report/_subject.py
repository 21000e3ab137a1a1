"""The models of a report, whose laws are fitted once, and everything that sections ask of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone

from scoreprism._core.simplex import FloatArray, IntArray, as_vector
from scoreprism._findings.finding import MIN_GAIN, Finding, collect_findings, doubts
from scoreprism._findings.wording import call_model
from scoreprism._fitting.candidates import FittedScore
from scoreprism._fitting.chain_fit import ChainFit, decompose_each
from scoreprism._kernels.holm import holm_by_name
from scoreprism._sample.features import parse_features
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import Calibrator, SelectedCalibrator, get_calibrator
from scoreprism.curves import (
    DecisionLoss,
    MurphyDecomposition,
    ReliabilityCurve,
    RocCurve,
    reliability_curve,
    roc_curve,
)
from scoreprism.decomposition import Chain, Decomposition
from scoreprism.exceptions import ContradictedOrderWarning, ScoreOrderWarning, ScoreprismError
from scoreprism.inference import TestResult, calibration_test, grouping_test
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable, evaluate
from scoreprism.report._map_trials import CHOOSER, FEW_CLASSES, LEAN, MapTable, judge_maps
from scoreprism.report._pieces import make_comparable
from scoreprism.report._score_sums import EDGE, ScoreSums

if TYPE_CHECKING:
    from scoreprism.report._sum_subject import SumSubject

#: Rows beyond which there are fewer draws, and beyond which a test goes by large-sample laws.
MANY, SOME = 50_000, 200_000
#: Classes that cost a test or a resample as much as two do; of more classes, rows count in proportion.
FREE = 10
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
#: What people look at first of more than two classes.
SCORES = ("accuracy", "top_k_accuracy", "log_loss", "brier_score", "macro_auc", "confidence_ece")
#: Classes of which the first five are counted, and beyond which no curve of every class is smoothed in every resample.
_TOP, _SMOOTHED = 5, 20
#: How often it is drawn, by rows: resamples of metrics, redraws of the band of a curve (narrow where rows are many),
#: and outcomes for the test. The standard error of a 2.5 % quantile of 400 normal draws is 0.13 of their standard
#: deviation, 3.4 % of the length of the interval; of 200, 4.8 %.
DRAWS = {
    "metrics": {0: 1000, MANY: 400, SOME: 200},
    "band": {0: 1000, MANY: 250, SOME: 100},
    "test": {0: 999, MANY: 199},
}


class BaseSubject:
    """What a model judged by its rows and one judged by sums have in common."""

    name: str
    decompositions: Mapping[str, Decomposition]  # one per loss
    findings: tuple[Finding, ...]  # what was warned of on the way
    level: float  # confidence level of its intervals

    @property
    def called(self) -> str:
        """Its name in titles and sentences."""
        return call_model(self.name)

    @property
    def main(self) -> Decomposition:
        """The decomposition of the first loss."""
        return next(iter(self.decompositions.values()))

    def basis(self, loss: str) -> Decomposition:
        """What conclusions on a loss go by: its decomposition, at a floor where it is infinite."""
        found = self.decompositions[loss]
        return found._stand_in or found


#: A model, by its rows or by sums over them: both have the same tests, metrics, curve and grades.
Subject: TypeAlias = "RowSubject | SumSubject"


@dataclass(frozen=True, eq=False)
class Case:
    """Models of the same rows, and how they are judged."""

    models: Mapping[str, Any]  # subjects by name, at least one: all with rows, or all from sums
    losses: dict[str, ProperLoss]  # sections about one loss are about the first
    level: float  # confidence level
    seed: int  # seed of everything random
    min_gain: float = MIN_GAIN  # share of the loss below which a gain is not worth a change
    notes: tuple[str, ...] = ()  # what was done to the data before
    findings: tuple[Finding, ...] = ()  # what was warned of while sections were made
    sample: Sample | None = None  # the rows of all models; None where only sums over them are known
    clip: float | None = None  # how far laws are kept from 0
    cv: object = 5  # folds
    n_jobs: int | None = None  # processes
    # how far laws are kept from 0 and 1, beside what was asked for, by each loss that is infinite for some model
    floors: Mapping[str, float] = field(default_factory=dict)

    @property
    def first(self) -> Any:
        """The model that single-model figures show."""
        return next(iter(self.models.values()))

    @property
    def loss(self) -> str:
        """The loss of sections about one loss."""
        return next(iter(self.losses))

    @property
    def side_by_side(self) -> dict[str, Decomposition]:
        """Decompositions by the first loss, to be drawn together: all at the floor, where one is infinite."""
        return make_comparable({name: model.decompositions[self.loss] for name, model in self.models.items()})

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return bool(self.first.k == 2)

    @property
    def has_rows(self) -> bool:
        """Whether losses of several models are known row by row, so that their difference has an interval."""
        return self.sample is not None

    @property
    def alpha(self) -> float:
        """The error that the confidence level leaves, without the dust of the subtraction."""
        return round(1.0 - self.level, 12)

    @cached_property
    def pvalues(self) -> dict[str, dict[str, float]]:
        """P-values of the tests of "calibration" and "grouping" by model, adjusted over the models (Holm)."""
        tests = {about: {name: getattr(model, about) for name, model in self.models.items()}
                 for about in ("calibration", "grouping")}  # fmt: skip
        return {
            about: holm_by_name({name: test.pvalue for name, test in by_model.items() if test is not None})
            for about, by_model in tests.items()
        }

    @cached_property
    def conclusions(self) -> dict[str, tuple[Finding, ...]]:
        """What to do about each model, from bounds and from tests."""
        calibration, grouping = self.pvalues["calibration"], self.pvalues["grouping"]
        return {
            name: model.decompositions[self.loss]._draw_conclusions(
                self.level, self.min_gain, calibration[name], grouping.get(name)
            )
            for name, model in self.models.items()
        }

    def is_refuted(self, model: Subject) -> bool:
        """Whether the test of calibration rejects."""
        return bool(self.pvalues["calibration"][model.name] <= self.alpha)

    def is_miscalibrated(self, model: Subject) -> bool:
        """Whether miscalibration is shown, by the test or by the bound of its term."""
        main = model.basis(self.loss)
        doubted = any(level <= 1 for level in doubts(main.findings)) or not math.isfinite(main.risk)
        bound = 0.0 if doubted else main._inference("reliability").lower_bound(self.level).value
        return self.is_refuted(model) or bound > 0.0

    def label(self, model: Subject) -> str | None:
        """The name of a model in tables; None where it is the only one."""
        return model.name if len(self.models) > 1 else None

    @property
    def mark(self) -> str:
        """The note on numbers at the floor of the first loss; empty where none is infinite."""
        marks = (model.basis(self.loss)._mark for model in self.models.values())
        return next((mark for mark in marks if mark), "")


@dataclass(frozen=True, eq=False)
class RowSubject(BaseSubject):
    """A model whose rows are known: its laws, and what is asked of them."""

    name: str
    whole: Chain  # the laws on all rows
    score_law: FittedScore | None  # C with all of its models, where levels may be fitted above it; None for many rows
    decompositions: dict[str, Decomposition]
    findings: tuple[Finding, ...]
    level: float
    seed: int
    losses: dict[str, ProperLoss]
    maps_asked: tuple[str | Calibrator, ...] = ()

    @property
    def fit(self) -> ChainFit:
        """How the laws were fitted."""
        assert isinstance(self.whole.fit, ChainFit)  # noqa: S101 - they were
        return self.whole.fit

    @cached_property
    def chain(self) -> Chain:
        """The laws on the rows that are judged: all, unless the user's splits leave some out."""
        weight = self.whole.sample.weight
        return self.whole if weight is None or weight.all() else self.whole.take(np.flatnonzero(weight))

    @property
    def sample(self) -> Sample:
        """The rows that are judged."""
        return self.chain.sample

    @property
    def n(self) -> int:
        """Rows that are judged."""
        return self.sample.n

    @property
    def k(self) -> int:
        """Number of classes."""
        return self.sample.k

    @property
    def law(self) -> FloatArray:
        """The prediction S: one column for two classes."""
        return self._law(0)

    @property
    def calibrated(self) -> FloatArray:
        """The law C = P(Y | S), out of sample."""
        return self._law(1)

    def _law(self, level: int) -> FloatArray:
        law = self.chain.levels[level].law
        return as_vector(law) if self.k == 2 else law

    @cached_property
    def features(self) -> FeatureBlock | None:
        """The features, parsed; None where there are none."""
        return find_features(self.sample)

    @property
    def labels(self) -> list[str]:
        """The classes, in words."""
        names = self.sample.classes
        return [str(label) for label in (range(self.k) if names is None else names.tolist())]

    @property
    def clustered(self) -> bool:
        """Whether rows come in clusters."""
        return self.sample.groups is not None

    @property
    def outcomes(self) -> IntArray:
        """Rows of each class."""
        return np.bincount(self.sample.y, minlength=self.k)

    @cached_property
    def calibration(self) -> TestResult:
        """The test of whether it is calibrated."""
        return run_calibration_test(self.sample, self.main, self.seed)

    @cached_property
    def _grouping(self) -> tuple[TestResult | None, Finding | None]:
        if self.features is None:
            return None, None
        return run_grouping_test(replace(self.sample, levels=(self.features,)), self.main, self.seed)

    @property
    def grouping(self) -> TestResult | None:
        """The test of whether features add to the score; None without features, or with too few rows."""
        return self._grouping[0]

    @property
    def untested(self) -> Finding | None:
        """Why there is no test of grouping, where features were given."""
        return self._grouping[1]

    @property
    def certain(self) -> int:
        """Rows whose score is 0 or 1, which have no log-odds."""
        return int(((self.law == 0.0) | (self.law == 1.0)).sum()) if self.k == 2 else 0

    @cached_property
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination; of those that these rows do not allow, why not."""
        if self.k == 2:
            return self._measure(BINARY_METRICS)
        found = self._measure(SEVERAL_METRICS if self.k <= _SMOOTHED else SEVERAL_METRICS[:1] + SEVERAL_METRICS[2:])
        estimates = {**self.scores.estimates, **found.estimates}
        intervals = {**self.scores.intervals, **found.intervals}
        return replace(found, names=tuple(estimates), estimates=estimates, intervals=intervals)

    @cached_property
    def scores(self) -> MetricTable:
        """How good the predictions of more than two classes are, by what people look at first."""
        return self._measure([name for name in SCORES if self.k > _TOP or name != "top_k_accuracy"])

    def _measure(self, names: Sequence[str]) -> MetricTable:
        """Metrics of the rows; of those that the rows do not allow, why not."""
        clip = {"clip": EDGE} if self.certain else {}
        chosen = {name: clip if name.startswith("calibration_") else {} for name in names}
        count = choose_draws("metrics", count_work(self.n, self.k))
        asked = partial(evaluate, self.sample, confidence_level=self.level, random_state=self.seed, n_resamples=count)
        try:
            return asked(metrics=chosen)
        except ScoreprismError:
            failed: dict[str, Finding] = {}
        for name, options in chosen.items():
            try:
                asked(metrics={name: options})
            except ScoreprismError as error:
                failed[name] = Finding("unavailable", model=self.name, subject=name, facts={"reason": str(error)})
        found = asked(metrics={name: options for name, options in chosen.items() if name not in failed})
        return replace(found, findings=(*found.findings, *failed.values()))

    @property
    def tests(self) -> list[TestResult]:
        """The test, the classical ones beside it, and that of what features add."""
        found = [self.calibration]
        if self.k == 2 and not self.clustered and self.n <= SOME:  # beyond, the test has it among its parts
            classical = ("spiegelhalter", "hosmer-lemeshow") if self.n <= MANY else ("spiegelhalter",)
            found += [calibration_test(self.sample, method=name) for name in classical]
        return found if self.grouping is None else [*found, self.grouping]

    @property
    def origins(self) -> list[Finding]:
        """Where its laws came from."""
        return [*self.fit.findings, *self.fit.find_origins()]

    @cached_property
    def cells(self) -> ScoreSums:
        """The score by its values, or the largest of several."""
        sample = self._top
        return ScoreSums.of_rows(as_vector(sample.prediction), sample.y == 1, sample.weight)

    @cached_property
    def _top(self) -> Sample:
        """The rows themselves, or whether the most likely of several classes is right."""
        return self.sample if self.k == 2 else self.sample.top_label()

    @cached_property
    def reliability(self) -> ReliabilityCurve:
        """Observed rates against scores, with a band around the diagonal."""
        count = choose_draws("band", self.n)
        return reliability_curve(self._top, n_resamples=count, random_state=self.seed, name=self.name)

    @cached_property
    def roc(self) -> RocCurve:
        """Hits against false alarms."""
        return roc_curve(self.sample, name=self.name)

    @cached_property
    def murphy(self) -> MurphyDecomposition:
        """The terms as functions of the decision threshold."""
        return MurphyDecomposition.from_chain(self.chain, confidence_level=self.level, name=self.name)

    @cached_property
    def decision_loss(self) -> DecisionLoss:
        """The most that miscalibration costs at any decision threshold."""
        return self.murphy.decision_loss()

    @cached_property
    def maps(self) -> MapTable:
        """What recalibration by each map would do, out of sample."""
        return judge_maps(self.fit, self.losses, self.maps_asked, self.level)

    @cached_property
    def map(self) -> Calibrator:
        """The map to deploy, fitted on all rows; of two classes, 1 is the one that scores are probabilities of."""
        classes = self.sample.classes
        labels = self.sample.y if classes is None or self.k == 2 else classes[self.sample.y]
        wanted = self.maps.honest if self.maps_asked else CHOOSER
        asked = [clone(get_calibrator(one)) for one in self.maps_asked] or [SelectedCalibrator(random_state=self.seed)]
        chosen: Calibrator = next(one for one in asked if one.name == wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictedOrderWarning)  # the section says it
            warnings.simplefilter("ignore", ScoreOrderWarning)  # issued for the sample, with the names of its labels
            chosen.fit(self.map_input, labels, sample_weight=self.sample.weight)
        if classes is not None and self.k == 2 and chosen.provenance_ is not None:
            named = tuple(str(label) for label in classes.tolist())  # what the codes 0 and 1 stand for
            chosen.provenance_ = replace(chosen.provenance_, labels=named)
        return chosen

    @property
    def map_name(self) -> str:
        """The name of the map to deploy; of one that chooses, that of its choice."""
        return str(getattr(self.map, "selected_", self.map.name))

    @property
    def map_input(self) -> FloatArray:
        """The prediction with its columns in the order of sorted labels, as maps take it."""
        classes = self.sample.classes
        return self.law if classes is None or self.k == 2 else self.law[:, np.argsort(classes, kind="stable")]


def find_features(sample: Sample) -> FeatureBlock | None:
    """The features of a sample, parsed; None where there are none."""
    blocks = [level for level in sample.levels if isinstance(level, FeatureBlock) and level.name == "Q"]
    if blocks or sample.X is None:
        return blocks[0] if blocks else None
    return FeatureBlock("Q", sample.X, parse_features(sample.X, sample.n))  # beside a law Q that was given


def fit_subject(
    fit: ChainFit,
    losses: dict[str, ProperLoss],
    *,
    clip: float | None,
    floors: Mapping[str, float],
    level: float,
    seed: int,
    maps: tuple[str | Calibrator, ...] = (),
    before: tuple[Finding, ...] = (),
) -> RowSubject:
    """Fit the laws of one model; its warnings, and those from `before`, are kept for the reader of the report."""
    with collect_findings() as warned:
        score_law, fitted = fit.fit_score(losses.values(), clip, floors)
        chain = fitted.link(score_law, fitted.fit_levels(score_law))
        found = decompose_each(chain, losses, "debiased", clip)
    many = chain.sample.n > MANY
    if many:
        fitted.__dict__.pop("cells", None)  # made again when they are asked for
        found = {name: drop_arrays(one) for name, one in found.items()}
    findings = (*before, *(one for one in warned if one not in before))
    if not maps and chain.k > FEW_CLASSES:
        maps = LEAN
    return RowSubject(fit.sample.name, chain, None if many else score_law, found, findings, level, seed, losses, maps)


def drop_arrays(found: Decomposition) -> Decomposition:
    """A decomposition whose resolution form, once it is asked for, keeps no rows: 50 MB a million of them."""
    floored = None if found.floored is None else drop_arrays(found.floored)
    return replace(found, _resolution=partial(_without_rows, found), floored=floored)


def _without_rows(found: Decomposition) -> Decomposition:
    return replace(replace(found, _resolution=None).resolution_form, _row_losses=None, chain=None)


# ── tests: exact ones where they can be had, else bounds ─────────────────────────────────────────────


def from_bound(result: Decomposition, term: str, method: str) -> TestResult:
    """The statistic behind the lower bound of a term, as a test that it is 0."""
    if term == result.names[0] and result.risk == math.inf:
        return TestResult(math.inf, 0.0, method, f"the {term} term is 0", result.n, 0, about="Calibration")
    inference = result._inference(term)
    shift, error = inference.lower_statistic()
    about = "Calibration" if term == "reliability" else "Grouping"
    z = shift / error if error > 0 else 0.0
    return TestResult(z, inference.pvalue(), method, f"the {term} term is 0", result.n, 0, about=about)


def count_work(n: int, k: int) -> int:
    """The rows, by which draws and resamples are rationed; those of many classes count several times."""
    return n * max(k, FREE) // FREE


def choose_draws(what: str, rows: int) -> int:
    """How often it is drawn, of so many rows."""
    return next(draws for most, draws in reversed(DRAWS[what].items()) if rows > most)


def run_calibration_test(sample: Sample, result: Decomposition, seed: int) -> TestResult:
    """Is a score calibrated? An exact test of few rows, one of cells for many, a robust bound for clusters."""
    if sample.groups is not None:  # draws of rows would take them as independent
        return from_bound(result, "reliability", "cluster-robust bound")
    work = count_work(sample.n, sample.k)
    if work <= SOME:
        return calibration_test(sample, n_resamples=choose_draws("test", work), random_state=seed)
    classical = calibration_test(sample, method="spiegelhalter")
    return run_test_of_many(result, classical.statistic, classical.pvalue)


#: What the test of cells is called, and how often it draws outcomes.
OF_CELLS, _DRAWS_OF_CELLS = "min-p of cells", 399


def run_test_of_many(result: Decomposition, statistic: float, pvalue: float) -> TestResult:
    """
    The test of rows that are too many to draw the outcome of each: of cells, or else the smaller of two p-values.

    These are the bound of the reliability and Spiegelhalter's test, whose statistic and p-value are passed.
    """
    bound = from_bound(result, "reliability", "bound")
    parts = {
        "bound": {"statistic": bound.statistic, "pvalue": bound.pvalue},
        "spiegelhalter": {"statistic": statistic, "pvalue": pvalue},
    }
    words, n = "P(Y | S) = S: outcomes are drawn from the scores", result.n
    known = [part["pvalue"] for part in parts.values() if not math.isnan(part["pvalue"])]
    smallest = min(known, default=math.nan)
    adjusted = min(len(known) * smallest, 1.0) if known else smallest
    cells = result.calibration_pvalue if result.n_classes == 2 else None
    if cells is None or math.isnan(cells):
        return TestResult(smallest, adjusted, "bound or spiegelhalter", words, n, 0, parts)
    parts[OF_CELLS] = {"statistic": math.nan, "pvalue": cells}
    if cells <= 1.0 / (_DRAWS_OF_CELLS + 1.0) and adjusted < cells:  # no draw can say less; large-sample laws go on
        cells = adjusted
    return TestResult(cells, cells, OF_CELLS, words, n, _DRAWS_OF_CELLS, parts)


def run_grouping_test(sample: Sample, result: Decomposition, seed: int) -> tuple[TestResult | None, Finding | None]:
    """Do the features of a sample know more than its score? And where that cannot be tested, why."""
    clustered = sample.groups is not None
    if clustered or sample.n > MANY:
        return from_bound(result, result.names[1], "cluster-robust bound" if clustered else "bound"), None
    try:
        return grouping_test(sample, random_state=seed), None
    except ScoreprismError as error:
        return None, Finding("unavailable", subject="The test of what the features add", facts={"reason": str(error)})
