"""What pipeline_bootstrap was asked for, parsed; and how its numbers become results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import outside, parse_choice, parse_clip, plain, refuse, require_rows
from scoreprism._core.frames import require_aligned, take_rows
from scoreprism._core.simplex import FloatArray
from scoreprism._fitting.chain_fit import fit_laws, parse_losses
from scoreprism._sample.models import predicted
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import DoubleUseWarning
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._bootstrap_result import GAIN, LOSS, RECALIBRATED, PipelineBootstrap
from scoreprism.pipelines._digest import digest, digest_of_scores
from scoreprism.pipelines._estimators import fit_estimator, inner_validation, reseeded, weight_key
from scoreprism.pipelines._material import Part, parse_parts, two_of_each
from scoreprism.pipelines._replicates import Chosen, Setup, quiet

#: What is refitted.
REFIT = ("calibrator", "all")
#: Mean shift of replicates, in standard errors, from which on a note tells of it.
_SHIFTED = 0.5
#: Replicates below which quantiles and standard errors are rough.
_FEW = 50

Scores = tuple[FloatArray, FloatArray, NDArray[Any]]


@dataclass(frozen=True)
class Asked:
    """The arguments of `pipeline_bootstrap`, parsed."""

    estimator: Any
    calibrator: object
    train: Part | None
    calibration: Part
    test: Part
    refit: str
    losses: dict[str, ProperLoss]
    reference: object
    q: Any
    counts: str
    resample_test: bool
    clip: float | None
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        estimator: Any,
        calibrator: object,
        splits: tuple[Any, Any, Any],
        refit: str,
        losses: Any,
        reference: object,
        q: Any,
        groups: object,
        resample: str,
        resample_test: object,
        clip: float | None,
    ) -> Asked:
        """Parse."""
        parse_choice(refit, REFIT, "refit")
        parse_choice(resample, ("auto", "rows", "weights"), "resample")
        if not isinstance(resample_test, bool):
            refuse("`resample_test` must be True or False", plain(resample_test), "Pass one of these.")
        if q is not None and reference is not None:
            refuse("pass `reference`, to have Q fitted, or `q`, where it is known", "both", "Leave one of them out.")
        parts = _parse_splits(splits, refit, groups)
        _require_classifier(estimator, fitted=parts[0] is None)
        counts, notes = _resampling(estimator, parts[0], resample, refit)
        return cls(
            estimator, calibrator, *parts, refit, parse_losses(losses), reference,
            _with_weight(q, splits[2], parts[2]), counts, resample_test, clip,
            (*_double_use([part for part in parts if part is not None]), *notes),
        )  # fmt: skip

    @cached_property
    def _known(self) -> dict[int, Scores]:
        """Scores by seed, once they were asked for."""
        return {}

    def scores(self, seed: int) -> Scores:
        """What the classifier as it is, or trained with this seed, says of the calibration and test rows."""
        if seed not in self._known:
            self._known[seed] = self._scores(self.estimator if self.train is None else self._trained(seed))
        return self._known[seed]

    def digest_of_scores(self, seed: int) -> str:
        """A hash of these: it sees what differs in a classifier beyond its parameters and its code."""
        return digest_of_scores(self.scores(seed)[:2])

    @cached_property
    def identity(self) -> dict[str, str]:
        """What makes a checkpoint one of this very problem, part by part; scores, which need a fit, come on top."""
        packages = ("scoreprism", "numpy", "scipy", "scikit-learn")
        found = {part.name: part.digest for part in (self.train, self.calibration, self.test) if part is not None}
        return found | {
            "estimator": digest(type(self.estimator) if self.train is None else self.estimator),
            "calibrator": digest(self.calibrator),
            "loss": digest([[name, loss] for name, loss in self.losses.items()]),
            "refit": self.refit,
            "reference": digest([self.reference, self.q, self.reference is not None and self.resample_test]),
            "resample": self.counts,
            "clip": repr(self.clip),
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        }

    def _scores(self, model: Any) -> Scores:
        """Scores of the calibration and the test rows, and the labels of their columns."""
        calibration, labels, *_ = predicted(model, self.calibration.X, y=self.calibration.y)
        test = predicted(model, self.test.X, y=self.test.y).law
        if labels is None:
            rule = "a classifier must tell the labels of its probabilities in classes_"
            refuse(rule, f"{type(model).__name__}, which does not", "Wrap it in a class that does.")
        present = {*np.unique(self.calibration.y).tolist(), *np.unique(self.test.y).tolist()}
        if not present <= set(labels):
            found = f"{sorted(map(str, present))} beside the classes {list(map(str, labels))} of the classifier"
            refuse("`calibration` and `test` must hold labels the classifier was trained on", found, "Mend the labels.")
        return calibration, test, np.asarray(labels)

    def setup(self, seed: int) -> tuple[Setup, dict[str, Decomposition]]:
        """The pipeline as it is, fitted, with its decompositions."""
        scores = self.scores(seed)
        chosen = Chosen(self.calibrator, self.reference, self.q, scores[2])
        problem = chosen.problem(self.calibration, self.test, scores[:2], seed)
        parse_clip(self.clip, problem.data.k)
        if not two_of_each(self.calibration)(np.ones(self.calibration.n)):
            rule = "`calibration` must hold at least two rows of each class, and five rows or clusters"
            refuse(rule, f"{self.calibration.n} rows", "Use a larger split.")
        decompositions = fit_laws(problem, self.losses, self.clip).decomposed(self.losses, "debiased", self.clip)
        again = self.refit == "all"
        setup = Setup(
            estimator=self.estimator if again else None,
            train=self.train if again else None,
            calibration=self.calibration if again else self.calibration.without_features(),
            test=self.test if again else self.test.without_features(),
            chosen=chosen,
            problem=problem,
            losses=self.losses,
            clip=self.clip,
            counts=self.counts,
            judged=self.reference is None or self.resample_test,
            seed=seed,
        )
        return setup, decompositions

    def _trained(self, seed: int) -> Any:
        assert self.train is not None  # noqa: S101 - otherwise scores are given
        copy = reseeded(self.estimator, np.random.default_rng(seed))
        with quiet(warn=True):
            return fit_estimator(copy, self.train.X, self.train.y, self.train.weight, "")


def _require_classifier(estimator: Any, *, fitted: bool) -> None:
    """One that came fitted has only to score rows."""
    rule = f"`estimator` must be a classifier with {'' if fitted else 'fit and '}predict_proba"
    if isinstance(estimator, type):
        refuse(rule, f"the class {estimator.__name__}", f"Pass {estimator.__name__}().")
    needed = ("predict_proba",) if fitted else ("fit", "predict_proba", "get_params")
    missing = [word for word in needed if not hasattr(estimator, word)]
    if missing:
        remedy = "Wrap it in scikit-learn's CalibratedClassifierCV."
        refuse(rule, f"{type(estimator).__name__} without {missing[0]}", remedy)


def _parse_splits(splits: tuple[Any, Any, Any], refit: str, groups: object) -> tuple[Part | None, Part, Part]:
    train, calibration, test = splits
    if train is None and refit == "all":
        refuse("`refit`='all' must have training rows", "train=None", "Pass `train`=(X, y), or `refit`='calibrator'.")
    if train is not None:
        first, second, third = parse_parts(groups, (train, "train"), (calibration, "calibration"), (test, "test"))
        return first, second, third
    if isinstance(groups, (tuple, list)) and len(groups) == 3:
        groups = tuple(groups[1:])
    second, third = parse_parts(groups, (calibration, "calibration"), (test, "test"))
    return None, second, third


def _with_weight(q: Any, value: Any, test: Part) -> Any:
    """The law that is known, of the test rows that have weight."""
    if q is None:
        return None
    require_aligned({"test y": value[1], "q": q})
    require_rows(parse_law(q, "q").shape[0], test.given, "q", "test y")
    return q if test.kept is None else take_rows(q, test.kept)


def _resampling(estimator: Any, train: Part | None, resample: str, refit: str) -> tuple[str, tuple[str, ...]]:
    """Whether the classifier gets repeated rows or counts as weights, and what there is to say of it."""
    if train is None:
        return "rows", ()
    key, name = weight_key(estimator), type(estimator).__name__
    if train.weight is not None and key is None:
        rule = "a classifier must take `sample_weight` in fit, where there are weights"
        refuse(rule, f"{name}, which does not", "Use another one, or leave the weights out.")
    if refit != "all":
        return "rows", ()
    if resample == "weights" and key is None:
        refuse("`resample`='weights' must have a classifier that takes `sample_weight`", name, "Use `resample`='rows'.")
    inner = inner_validation(estimator, train.n)
    chosen = resample if resample != "auto" else "weights" if inner is not None and key is not None else "rows"
    if inner is None or chosen == "weights":
        return chosen, ()
    return chosen, (
        f"{name} validates itself on a part of its rows ({inner}); copies of a row stand on both sides there, and "
        "resampled classifiers overfit" + (": resample='weights' avoids it" if key is not None else ""),
    )


def _double_use(parts: Sequence[Part]) -> Iterator[str]:
    """Splits that are the same rows."""
    for one, other in combinations(parts, 2):
        if one.n == other.n and one.digest == other.digest:
            note = f"{one.name} and {other.name} are the same rows: the terms are too good, or describe nothing"
            warnings.warn(note, DoubleUseWarning, stacklevel=outside())
            yield note


def conclude(
    asked: Asked, setup: Setup, found: Decomposition, values: FloatArray, drawn: FloatArray, redrawn: int
) -> PipelineBootstrap:
    """The result for one loss."""
    result = PipelineBootstrap(
        names=(*found.names, LOSS, RECALIBRATED, GAIN),
        _backend=asked.test.backend,
        loss=found.loss,
        refit=asked.refit,
        resample_test=asked.resample_test,
        decomposition=found,
        n_redrawn=redrawn,
        seed=setup.seed,
        notes=(*asked.notes, *found.notes),
        _stages=setup.stages,
        _original=values,
        _values=drawn,
    )
    return replace(result, notes=(*result.notes, *_cautions(result, reference=asked.reference is not None)))


def _cautions(result: PipelineBootstrap, *, reference: bool) -> Iterator[str]:
    """What a reader must know about the replicates."""
    if result.n_redrawn:
        yield f"{result.n_redrawn} draws held too few rows of a class and were drawn again"
    if result.n_resamples < _FEW:
        yield f"only {result.n_resamples} replicates: standard errors and intervals are rough"
    if reference:
        yield (
            "grouping and irreducible loss, with their intervals, are those that the reference can see: a better one "
            "would find more grouping, and no interval allows for that"
        )
    shift = result.shift["reliability"]
    if result.refit == "all" and abs(shift) > _SHIFTED:
        yield (
            f"the reliability of resampled pipelines lies {abs(shift):.1f} standard errors "
            f"{'above' if shift > 0 else 'below'} that of this one: classifiers trained on copies of rows are other "
            "classifiers, and the interval describes them only roughly"
        )
