"""ChainFit: how the laws of a chain are fitted to a sample, once for all losses, and refitted on resampled rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import describe_place, namespace, to_host
from scoreprism._core.checks import parse_choice, parse_count, parse_law, parse_random_state, refuse, require_jobs
from scoreprism._core.frames import column_names, require_aligned
from scoreprism._core.labels import GivenLaw
from scoreprism._core.lazy_laws import ClassScores, LazyLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, n_classes
from scoreprism._findings.finding import Finding, announce
from scoreprism._fitting.calibration_check import CalibrationCheck
from scoreprism._fitting.candidates import (
    MANY_CLASSES,
    OVERFIT,
    Candidates,
    ClassTrees,
    FittedScore,
    Pooling,
    TopTree,
    fit_candidates,
    judge_candidate,
)
from scoreprism._fitting.crossfit import CrossFit, Partitions, make_partitions, no_crossfit
from scoreprism._fitting.fitted_laws import ScoreCells
from scoreprism._fitting.information import LevelTask, fit_levels, make_tasks
from scoreprism._fitting.parse_learners import (
    ForeignMap,
    MapLearner,
    Refinement,
    parse_calibrator,
    parse_reference,
)
from scoreprism._kernels.term_intervals import Alternative
from scoreprism._sample.features import Features
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import FeatureBlock, Level
from scoreprism._sample.sample import Sample, drop_absent_rows, find_floors, parse_laws
from scoreprism.decomposition import Chain, Decomposition
from scoreprism.exceptions import InputError, LabelError
from scoreprism.losses import LogLoss, ProperLoss, get_loss
from scoreprism.references import StackedReference

#: Partitions of the rows into folds that C is fitted in: for two classes, for more, and with a foreign calibrator.
PARTITIONS, PARTITIONS_OF_CLASSES, PARTITIONS_OF_FOREIGN = 20, 4, 4
#: How many of them levels above C are fitted in; one with a foreign classifier.
REPEATS = 3
#: Fewer rows than this in a calibration split, or fewer expected surprises in all, get a note.
FEW_ROWS, FEW_SURPRISES = 50, 10.0
#: Maps with a smaller share than this in every fold are not fitted again by a bootstrap.
_SMALL = 0.005

Losses = dict[str, ProperLoss]


@dataclass(frozen=True)
class Mixture:
    """How C was mixed from candidate maps, and the reliability by each candidate alone."""

    names: tuple[str, ...]
    shares: FloatArray  # (…, models, candidates); one line for a calibration split
    alternatives: Mapping[tuple[str, float | None], tuple[Alternative, ...]]  # by loss and clipping distance
    floors: Mapping[str, float]  # of infinite losses, and of those compared with them
    check: CalibrationCheck | None  # whether the score is calibrated at all; None where rows are dependent


@dataclass(frozen=True)
class ChainFit:
    """Everything that the laws of a chain are fitted with; `fit` gives the chain."""

    sample: Sample  # of one model; rows that no split tests have weight 0
    rows: FitRows  # what C is fitted on
    plan: CrossFit
    maps: Sequence[MapLearner]
    reference: Any
    levels: Sequence[Level | LevelTask]  # above C: laws passed by the user, and those to fit
    calibration: FitRows | None  # a split of its own to fit C on
    seed: int
    n_jobs: int | None
    findings: tuple[Finding, ...] = ()  # what is known before anything is fitted
    calibration_groups: IntArray | None = None  # groups of the calibration split, which share a block
    partitions: Partitions | None = None  # random partitions of the rows, of which `plan` is the first
    repeats: int = 1  # how many of them levels above C are fitted in
    ties: Sequence[NDArray[Any]] = ()  # features, which tell rows of the same score and outcome apart
    pooling: Pooling | None = None  # where lines are sums: their cells, and what they hold in each fold
    mixture: Mixture | None = None  # once C is fitted

    @staticmethod
    def of(
        sample: Sample,
        *,
        calibrator: object = "auto",
        reference: object = "auto",
        calibration: object = None,
        cv: object = 5,
        random_state: object = 0,
        n_jobs: int | None = None,
        repeats: int | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
    ) -> ChainFit:
        """What `decompose` fits to the rows of one model; `pos_label` and `classes` read a calibration split."""
        require_jobs(n_jobs)
        sample.require_rows("decompose")
        blocks = [level for level in sample.levels if isinstance(level, FeatureBlock)]
        if not blocks and not (isinstance(reference, str) and reference == "auto"):
            refuse(
                "`reference` must come with features to learn from", "no X and no levels", "Pass `X`, or leave it out."
            )
        name, rows = sample.name, sample.fit_rows()
        split_sample = None if calibration is None else parse_calibration(calibration, sample, pos_label, classes)
        split = None if split_sample is None else split_sample.fit_rows()
        if split is None:
            _require_two_classes(rows)
        seed = int(parse_random_state(random_state).integers(2**62))
        findings = (*sample.findings.get(name, ()), *(() if split is None else _inspect_split(split, rows)))
        maps, learner = parse_calibrator(calibrator, rows.k, rows.codes.size), parse_reference(reference)
        own = isinstance(learner, StackedReference)
        n_repeats = (REPEATS if own else 1) if repeats is None else parse_count(repeats, "repeats", 1)
        count = n_repeats if blocks else 1
        ties = [column for block in blocks for column in block.columns]
        if split is not None and not blocks:
            plan, partitions = no_crossfit(rows), None
        else:
            few = any(isinstance(one, ForeignMap) for one in maps)
            most = PARTITIONS_OF_FOREIGN if few else PARTITIONS if rows.k == 2 else PARTITIONS_OF_CLASSES
            most = (
                most // 2 if rows.k > MANY_CLASSES else most
            )  # estimates depend on it by 1 to 3 % of a standard error
            plan, partitions = make_partitions(cv, rows, sample.groups, seed, max(most, count), ties)
        if not plan.whole:
            findings += (Finding("partial_cv", n=int(plan.tested.sum()), facts={"total": sample.n}),)
            weight = np.ones(sample.n) if sample.weight is None else sample.weight
            sample = replace(sample, weight=np.where(plan.tested, weight, 0.0))
        return ChainFit(
            sample=sample,
            rows=rows,
            plan=plan,
            maps=maps,
            reference=learner,
            levels=make_tasks(sample, rows, own=own),
            calibration=split,
            seed=seed,
            n_jobs=n_jobs,
            findings=findings,
            calibration_groups=None if split_sample is None else split_sample.groups,
            partitions=partitions,
            ties=ties,
            repeats=1 if partitions is None else min(count, len(partitions.home)),
        )

    @property
    def plans(self) -> list[CrossFit]:
        """What levels above C are fitted in: the first partitions, or user-defined splits."""
        return [self.plan] if self.partitions is None else [self.partitions.plan(p) for p in range(self.repeats)]

    def list_partitions(self) -> list[CrossFit]:
        """What C is fitted in: all partitions, or user-defined splits."""
        if self.partitions is None:
            return [self.plan]
        return [self.partitions.plan(p) for p in range(len(self.partitions.home))]

    @cached_property
    def cells(self) -> ScoreCells:
        """Cells of a score of two classes."""
        if self.pooling is not None:
            return self.pooling.points
        weighted = None if self.rows.weight is None else self.rows.weight > 0
        return ScoreCells.of(self.rows.score, weighted)

    @cached_property
    def top_tree(self) -> TopTree:
        """Cells of the largest score of several classes, the same for all partitions."""
        return TopTree.of(self.rows)

    @cached_property
    def class_trees(self) -> ClassTrees:
        """Trees of the scores of several classes, the same for all partitions."""
        return ClassTrees.of(self.rows, len(self.plan.trains))

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def fit(
        self, losses: Iterable[ProperLoss] = (), clip: float | None = None, floors: Mapping[str, float] | None = None
    ) -> Chain:
        """The chain of all levels; candidates are also evaluated under `losses`."""
        score_law, fitted = self.fit_score(losses, clip, floors)
        return fitted.link(score_law, fit_levels(fitted, score_law))

    def fit_score(
        self, losses: Iterable[ProperLoss] = (), clip: float | None = None, floors: Mapping[str, float] | None = None
    ) -> tuple[FittedScore, ChainFit]:
        """The law C, mixed from candidates by their likelihood out of sample; and the fit, which knows its mixture."""
        wanted = list(losses)
        floors = find_floors([self.sample], wanted, clip) if floors is None else floors
        candidates = fit_candidates(self)
        wanted = wanted if candidates.are_judged_at_once else []
        looks = [(loss, clip) for loss in wanted]
        looks += [(loss, floors[str(loss)]) for loss in wanted if str(loss) in floors]
        looked = {(str(loss), distance): self._judge(candidates, loss, distance) for loss, distance in looks}
        shares = candidates.choose_shares(looked.get((str(LogLoss()), None), ()))
        check = None if self.sample.groups is not None else CalibrationCheck(self.sample)
        score_law = candidates.mix(shares)
        mixture = Mixture(candidates.names, shares, looked, floors, check)
        return score_law, replace(self, mixture=mixture)

    def fit_levels(self, score_law: FittedScore, most: int | None = None) -> list[Level]:
        """The first levels above C, each fitted model starting from its own law below."""
        return fit_levels(self, score_law, most)

    def _judge(self, candidates: Candidates, loss: ProperLoss, clip: float | None) -> tuple[Alternative, ...]:
        return tuple(judge_candidate(self.sample, *one, loss, clip) for one in candidates.alone())

    def judge_candidates(self, loss: ProperLoss, clip: float | None) -> tuple[Alternative, ...]:
        """The reliability by each candidate map alone, refitted unless it is known already."""
        known = None if self.mixture is None else self.mixture.alternatives.get((str(loss), clip))
        return self._judge(fit_candidates(self), loss, clip) if known is None else known

    def link(self, score_law: FittedScore, levels: Sequence[Level]) -> Chain:
        """The chain S → C → levels. It knows this fit once C has a mixture."""
        score = Level.of("S", self.sample.scores)
        fitted = score_law.fitted
        law = Level.of("C", fitted.law, folds=fitted.folds, factor=fitted.factor, fits=score_law.fits)
        if self.mixture is None:
            return Chain.of(self.sample, (score, law, *levels))
        unlikely = find_unlikely(fitted.law)
        findings = (
            *self.findings, *self.find_origins(), *self._find_place(), *expect_surprises(self.sample.total(unlikely)),
        )  # fmt: skip
        return Chain.of(self.sample, (score, law, *levels), findings=findings, fit=self)

    def _find_place(self) -> list[Finding]:
        """With which library and on which device scores were read by blocks, and what was computed elsewhere."""
        scores = self.rows.score
        if not isinstance(scores, ClassScores) or isinstance(scores.place, np.ndarray):
            return []
        moved = ["shifts"] if any(isinstance(one, Refinement) for one in self.maps) else []
        moved += [*(["levels"] if self.levels else []), *(["test"] if self.sample.groups is None else [])]
        return [Finding("computed_on", facts={**describe_place(scores.place), "moved": moved})]

    # ── fitting again ───────────────────────────────────────────────────────────────────────────────

    @property
    def can_resample(self) -> bool:
        """Whether resampled rows would change the laws: not where C has rows of its own, or rows are sums."""
        return self.calibration is None and self.sample.cells is None

    def reweight(self, counts: FloatArray) -> ChainFit:
        """The same with every row counted `counts` times; rows not drawn are absent, the others keep their folds."""
        weight = counts if self.rows.weight is None else counts * self.rows.weight
        tested = counts if self.sample.weight is None else counts * self.sample.weight
        drawn_rows = np.flatnonzero(weight)
        plan = replace(
            self.plan,
            trains=tuple(np.intersect1d(train, drawn_rows, assume_unique=True) for train in self.plan.trains),
            mixing=tuple((rows[weight[rows] > 0], models[weight[rows] > 0]) for rows, models in self.plan.mixing),
        )
        rows, sample = replace(self.rows, weight=weight), replace(self.sample, weight=tested)
        partitions = self.partitions
        if partitions is not None:
            partitions = replace(partitions, held=partitions.held[weight[partitions.held] > 0])
        return replace(self, rows=rows, sample=sample, plan=plan, partitions=partitions)

    def refit_term(self, index: int, counts: FloatArray, original: Decomposition) -> float:
        """A term with every row counted `counts` times, in the fold it always had (new folds would leak)."""
        assert self.mixture is not None  # noqa: S101 - what was decomposed was fitted
        shares = self.mixture.shares
        used = np.flatnonzero((shares >= _SMALL).reshape(-1, shares.shape[-1]).any(axis=0)).tolist()
        shares = shares[..., used] / shares[..., used].sum(axis=-1, keepdims=True)
        again = replace(self.reweight(counts), maps=[self.maps[i] for i in used], mixture=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score_law = fit_candidates(again).mix(shares)
            chain = again.link(score_law, fit_levels(again, score_law, index))
            result = chain.decompose_at(original.loss, original.form, original.clip)
        return float(list(result.terms.values())[index])

    # ── what only the fit knows of a decomposition ──────────────────────────────────────────────────

    def complete(self, result: Decomposition) -> Decomposition:
        """A decomposition by these laws with guards, candidates, and the test that advice relies on."""
        assert self.mixture is not None  # noqa: S101 - the chain was fitted
        result = _add_guards(result, self)
        known = self.mixture.alternatives.get((str(result.loss), result.clip))
        return replace(
            result,
            findings=(*result.findings, *_find_few_rows(result)),
            _calibration=self.mixture.check,
            _alternatives=partial(self.judge_candidates, result.loss, result.clip) if known is None else known,
        )

    def find_origins(self) -> list[Finding]:
        """Where the laws came from."""
        assert self.mixture is not None  # noqa: S101 - callers check it
        facts = {
            "laws": ["C = P(Y | S)"],
            **({"split": True} if self.calibration is not None else self._folds(of_score=True)),
        }
        if len(self.maps) > 1:
            mean = self.mixture.shares.reshape(-1, len(self.mixture.names)).mean(axis=0)
            ranked = sorted(zip(mean.tolist(), self.mixture.names, strict=True), key=lambda pair: -pair[0])
            facts["shares"] = {name: share for share, name in ranked if share >= 0.005}
        origins = [
            Finding("law_fitted", level=1, subject=self.maps[0].name if len(self.maps) == 1 else None, facts=facts)
        ]
        if self.calibration is not None or self.partitions is None:
            absent = [one.name for one in self.maps if isinstance(one, Refinement)]
            origins += [Finding("candidates_left_out", facts={"maps": absent})] if absent else []
        tasks = [level for level in self.levels if isinstance(level, LevelTask)]
        learners = [self._name_learner(task) for task in tasks]
        for by in dict.fromkeys(learners):
            fitted = [task.name for task, learner in zip(tasks, learners, strict=True) if learner == by]
            what = ["Q = P(Y | S, X)"] if fitted == ["Q"] and len(tasks) == 1 else fitted
            origins.append(Finding("law_fitted", level=2, subject=by, facts={"laws": what, **self._folds()}))
        user_laws = [level.name for level in self.levels if isinstance(level, Level)]
        return [*origins, *([Finding("law_given", facts={"laws": user_laws})] if user_laws else [])]

    def _name_learner(self, task: LevelTask) -> str:
        """What fits a level: some have a stack of their own, and of embeddings a stack has other members."""
        reference = task.reference or self.reference
        if isinstance(reference, StackedReference) and isinstance(task.known, Features):
            return f"a stack of {', '.join(reference.name_members(task.known))}"
        return type(reference).__name__

    def _folds(self, *, of_score: bool = False) -> dict[str, Any]:
        """How laws are fitted out of sample."""
        if self.plan.factor != 1.0:
            return {"splits": True}
        count = 1 if self.partitions is None else len(self.partitions.home) if of_score else self.repeats
        return {"folds": len(self.plan.trains), "times": count}


def find_unlikely(law: FloatArray) -> FloatArray:
    """The probability, row by row, that the likeliest outcome does not come true."""
    if law.ndim == 1:
        return np.minimum(law, 1.0 - law)
    if not isinstance(law, LazyLaw):
        return np.asarray(1.0 - law.max(axis=1))
    tops = (namespace(block).max(block, axis=1) for block in map(law.block, law.blocks()))
    return 1.0 - np.concatenate([to_host(top) for top in tops])


def decompose_each(chain: Chain, losses: Losses, form: str, clip: float | None) -> dict[str, Decomposition]:
    """Each loss by the laws of one chain, at the floors its fit knows of."""
    fit: Any = chain.fit
    floors = {} if fit is None else fit.mixture.floors
    return {name: chain.decompose_at(loss, form, clip, floors.get(name)) for name, loss in losses.items()}


#: Options of `decompose` that belong to the rows, and those that belong to the fit.
FIT_OPTIONS = ("calibrator", "reference", "calibration", "cv", "random_state", "n_jobs", "repeats")
ROW_OPTIONS = ("q", "latent", "levels", "sample_weight", "groups", "pos_label", "classes")


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of `decompose`: those of `Sample.of`, and those of `ChainFit.of`."""
    unknown = [name for name in options if name not in (*ROW_OPTIONS, *FIT_OPTIONS)]
    if unknown:
        raise TypeError(f"decompose() got an unexpected keyword argument {unknown[0]!r}")
    labels = ("pos_label", "classes")  # a calibration split is read by them too
    rows = {name: value for name, value in options.items() if name in ROW_OPTIONS}
    return rows, {name: value for name, value in options.items() if name in (*FIT_OPTIONS, *labels)}


def fit_chain(y_true: ArrayLike | Sample, y_proba: Any, X: ArrayLike | None, options: Mapping[str, Any]) -> Chain:
    """The chain that `decompose` would fit, for every loss: laws do not depend on it."""
    known = (*FIT_OPTIONS, *ROW_OPTIONS)
    of_rows, of_fit = split_options({parse_choice(key, known, "each option"): value for key, value in options.items()})
    return ChainFit.of(Sample.of(y_true, y_proba, X, **of_rows), **of_fit).fit()


def share_folds(fits: Sequence[ChainFit]) -> list[ChainFit]:
    """
    Several scores of the same rows in the same folds, so that what is common to them cancels in differences.

    Folds are dealt to rows in an order of their own, which goes by the score; here it goes by all scores together.
    A single fit, and fits with user-defined folds, are returned unchanged.
    """
    first = fits[0]
    dealt = [one.partitions for one in fits if one.partitions is not None and len(one.partitions.home) > 1]
    if len(fits) == 1 or len(dealt) < len(fits):
        return list(fits)
    ordered = sorted((one.rows.score for one in fits), key=lambda score: np.sort(score, axis=None).tobytes())
    joint = replace(first.rows, score=np.column_stack(ordered))  # independent of the order of the models
    count = max(len(partitions.home) for partitions in dealt)
    plan, partitions = make_partitions(dealt[0].folds, joint, first.sample.groups, first.seed, count, first.ties)
    if partitions is None:
        return list(fits)
    pairs = zip(fits, dealt, strict=True)
    return [replace(one, plan=plan, partitions=partitions.first(len(own.home))) for one, own in pairs]


def fit_alone(fit: ChainFit, learner: MapLearner, partitions: int) -> FittedScore:
    """The law of one map, fitted in a few partitions."""
    few = None if fit.partitions is None else fit.partitions.first(partitions)
    alone = fit_candidates(replace(fit, maps=[learner], partitions=few, repeats=1))
    return alone.mix(alone.choose_shares())


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────


def parse_loss(loss: object) -> ProperLoss:
    """The one loss of a decomposition."""
    if isinstance(loss, (list, tuple, set, dict)):
        remedy = "Pass one, and decompose the next by the same fit: d.chain.decompose('brier')."
        refuse("`loss` must be one loss", f"a {type(loss).__name__} of {len(loss)}", remedy)
    return get_loss(loss)  # type: ignore[arg-type]


def parse_losses(losses: Sequence[str | ProperLoss]) -> Losses:
    """Losses by name, each once."""
    chosen = [get_loss(loss) for loss in losses]
    by_name = {str(loss): loss for loss in chosen}
    if not chosen or len(by_name) < len(chosen):
        refuse("`loss` must name at least one loss, each once", f"{[str(v) for v in losses]}", "For example 'log'.")
    return by_name


def _require_two_classes(rows: FitRows) -> None:
    """Refuse samples of a single class, from which no map can be fitted."""
    if np.unique(rows.codes).size < 2:
        refuse(
            "`y_true` must hold at least two classes, for C = P(Y | S) to be fitted",
            f"one class in {rows.codes.size} rows",
            ("Pass more rows", "`calibration`=(scores, y) with a split that has both"),
        )


def parse_calibration(
    value: object, sample: Sample, pos_label: object = None, classes: ArrayLike | None = None
) -> Sample:
    """A separate calibration split: a sample, or scores, outcomes and perhaps weights, read as the sample is."""
    split = value if isinstance(value, Sample) else _read_split(value, sample, pos_label, classes)
    if sample.classes is not None and split.classes is not None and list(split.classes) != list(sample.classes):
        got = f"{split.classes.tolist()} beside {sample.classes.tolist()}"
        refuse("`calibration` must have the labels of `y_true`", got, "Pass `classes`=[…] in column order.", LabelError)
    if np.unique(split.y).size < 2:
        refuse("`calibration` must hold at least two classes", f"one class in {split.n} rows", "Use a larger split.")
    return split


def _read_split(value: object, sample: Sample, pos_label: object, classes: ArrayLike | None) -> Sample:
    """Arrays of a calibration split; labels and columns default to those of the sample."""
    rule = "`calibration` must be (scores, y) or (scores, y, sample_weight) of a held-out split"
    if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
        refuse(rule, f"{type(value).__name__} of length {np.size(value)}", "Pass two arrays.")  # type: ignore[arg-type]
    scores, y, *rest = value
    require_aligned({"calibration scores": scores, "calibration y": y, "calibration weights": (*rest, None)[0]})
    law = GivenLaw("calibration scores", parse_law(scores, "calibration scores"), None, column_names(scores))
    if n_classes(law.values) != sample.k:
        refuse(rule, f"{n_classes(law.values)} classes beside {sample.k}", "Score both splits by the same model.")
    if law.values.ndim == 1 and pos_label is None and sample.classes is not None:
        pos_label = sample.classes[1]
    if classes is None and law.values.ndim == 2 and (sample.k > 2 or (law.columns is None and pos_label is None)):
        classes = sample.classes  # a class may be missing from the split; a positive label turns the order of two
    try:
        weight = rest[0] if rest else None
        split = parse_laws(y, [law], sample_weight=weight, pos_label=pos_label, classes=classes)[0]
    except InputError as error:
        raise InputError(f"calibration=(scores, y): {error}") from None
    return drop_absent_rows(split)


def _inspect_split(calibration: FitRows, rows: FitRows) -> tuple[Finding, ...]:
    """Findings on a calibration split: that it is the judged rows themselves, or that it is small."""
    if np.array_equal(calibration.score, rows.score) and np.array_equal(calibration.codes, rows.codes):
        return (announce(Finding("calibration_reused", level=0)),)
    count = int(calibration.codes.size)
    return () if count >= FEW_ROWS else (Finding("few_calibration_rows", n=count),)


# ── guards ──────────────────────────────────────────────────────────────────────────────────────────


def expect_surprises(expected: float) -> list[Finding]:
    """A caution where nearly certain outcomes leave too few surprises for normal intervals."""
    return [] if expected >= FEW_SURPRISES else [Finding("few_surprises", value=float(expected))]


#: An estimate of what a level adds is muted where the spread of the level is more than this share of it.
_MOSTLY_NOISE = 0.25


def find_overfit(result: Decomposition, level: int, remedy: str = "rows") -> Finding | None:
    """That the law of a level has learned noise; None where it has not. Bounds above C allow for it: no doubt there."""
    spread = result._moments.value({result._levels + level: 1.0})
    loss = result._moments.value(dict.fromkeys(range(level, result._levels), 1.0))  # the steps from here on
    if not spread > OVERFIT * loss > 0.0:
        return None
    kind, facts = "overfit" if level == 1 else "level_overfits", {"usual": OVERFIT, "remedy": remedy}
    return Finding(kind, level=level, value=spread / loss, subject=result.level_names[level], facts=facts)


def _add_guards(result: Decomposition, fit: ChainFit) -> Decomposition:
    """
    Find which laws have learned noise, or predict worse than the level before.

    Advice does not build on a law C that overfits, nor on a level that is worse than the one below. Where a level above
    C is noisy, its bounds hold, which allow for that; only the estimate is muted.
    """
    own = isinstance(fit.reference, StackedReference)
    fitted = [1, *(2 + i for i, level in enumerate(fit.levels) if isinstance(level, LevelTask))]
    muted: list[str] = []
    guards: list[Finding] = []
    for t in fitted:
        name = result.level_names[t]
        overfit = find_overfit(result, t, "rows" if own or t == 1 else "reference")
        if overfit is not None:
            guards.append(announce(overfit))
        if t > 1:
            term = result.names[t - 1]
            if result._moments.value({result._levels + t: 1.0}) > _MOSTLY_NOISE * result.terms[term]:
                muted += [one for one in result.names[t - 1 : t + 1] if one not in muted]
                if overfit is None and result._inference(term).lower_bound(0.95).value > 0.0:
                    guards.append(Finding("size_unknown", term=term))
            if result._inference(term).reach(0.95) < 0.0:
                facts = {"coarser": result.level_names[t - 1], "own": own}
                guards.append(Finding("worse_than_coarser", level=t, subject=name, facts=facts))
    return replace(result, findings=(*result.findings, *guards), muted=tuple(muted))


#: Fewer rows than this carry the variance: intervals and bounds deserve a warning.
_FEW_EFFECTIVE = 10.0


def _find_few_rows(result: Decomposition) -> tuple[Finding, ...]:
    """A caution where few rows carry the variance of the reliability."""
    ends = result._ends
    if ends is None or not 0.0 < ends.effective_rows < _FEW_EFFECTIVE:
        return ()
    return (Finding("few_effective_rows", value=max(ends.effective_rows, 1.0)),)
