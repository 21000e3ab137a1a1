"""stagewise_decomposition(): what each stage of a model adds, along the filtration of its scores (section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import (
    parse_choice,
    parse_clip,
    parse_confidence,
    parse_count,
    parse_law,
    parse_random_state,
    refuse,
)
from scoreprism._core.numerics import law_logits
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_columns, freeze
from scoreprism._core.workers import run_all
from scoreprism._document.result import TermTable
from scoreprism._document.result_json import encode
from scoreprism._estimation.decompose import decompose
from scoreprism._findings.finding import Finding, collect_findings
from scoreprism._findings.wording import plural, write_count, write_fixed
from scoreprism._fitting.chain_fit import ChainFit, decompose_each
from scoreprism._fitting.information import LevelTask
from scoreprism._parameters import described
from scoreprism._sample.features import parse_features
from scoreprism._sample.level import FeatureBlock, Level
from scoreprism._sample.sample import Sample
from scoreprism._sample.staged_models import (
    StagePath,
    Stages,
    announce_by_stage,
    attach_outcomes,
    choose_positions,
    has_stages,
    parse_stages,
)
from scoreprism.decomposition import Chain, Decomposition, FiniteModel
from scoreprism.ensembles._stage_tables import Amount, StageColumns, decompose_states, describe_stages, make_columns
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.references import StackedReference

#: Number of stages of the chain by default.
GRID = 12
#: Learners of the levels of stages: in tests on known laws, boosting added noise and time but removed no bias.
_MEMBERS = ("calibrated", "logistic", "polynomial")


# ── results ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class StageTable(StageColumns):
    """
    Loss, reliability and refinement of every stage.

    Attributes
    ----------
    numbers : array of shape (T,)
        Number of each stage.
    loss, std_error : array of shape (T,)
        Loss of the stage as it is, and its standard error.
    reliability, refinement : array of shape (T,)
        Its terms, which add up to the loss.
    reliability_low, reliability_high, refinement_low, refinement_high : array of shape (T,)
        Ends of their intervals.

    Examples
    --------
    >>> one = np.ones(1)
    >>> StageTable(one, one, one, one, one, one, one, one, one, None).least_loss
    0
    """

    numbers: NDArray[Any]
    loss: FloatArray
    std_error: FloatArray
    reliability: FloatArray
    reliability_low: FloatArray
    reliability_high: FloatArray
    refinement: FloatArray
    refinement_low: FloatArray
    refinement_high: FloatArray
    _backend: str | None

    @property
    def least_loss(self) -> int:
        """Position of the stage with the smallest loss."""
        return int(np.argmin(self.loss))

    @property
    def least_refinement(self) -> int:
        """Position of the stage with the smallest loss after recalibration."""
        return int(np.argmin(self.refinement))

    def _title(self) -> str:
        best = self.numbers[self.least_refinement]
        return (
            f"StageTable: {describe_stages(self.numbers)}; least loss at {self.numbers[self.least_loss]:g}, "
            f"least refinement at {best:g}"
        )

    def _shown_columns(self) -> dict[str, list[Any]]:
        return self._lines("loss", "std_error", "reliability", "refinement")


@dataclass(frozen=True, eq=False, repr=False)
class StagewiseDecomposition(TermTable):
    """
    The losses of a model's stages, and the information that each adds to the stages before it.

    Made by `stagewise_decomposition`. The terms are those of the first stage's loss along the filtration
    F_t = σ(S_1, …, S_t): its reliability, a gain per step, and the loss left given the whole path.

    Attributes
    ----------
    names : tuple of str
        Terms of the chain in order.
    decomposition : Decomposition
        The chain; its terms add up to the loss of the first stage of the grid.
    stages : StageTable
        Loss, reliability and refinement of every stage.
    grid : tuple of int or float
        Stages of the chain.
    compression : Amount or None
        Cost of keeping only the last score of the path: loss of C(S_T) minus loss of Q_T. None where the
        grid has one stage only, or does not end at the last, or where features are a level.
    checks : dict of str to list of Amount
        For the Brier loss. "gap": gain minus E(η_{t+1} − η_t)² (Doob–Pythagoras), "drift": mean of η_{t+1} − η_t,
        "tilt": covariance of η_{t+1} − η_t with η_t. All are 0 for a martingale, up to their standard errors.
    increments : dict of str to list of Amount
        For the Brier loss. "square": E(η_{t+1} − η_t)², corrected for the noise of fitted probabilities.
    confidence_level : float
        Confidence level.
    n : int
        Number of rows.

    Examples
    --------
    >>> from scoreprism import FiniteModel
    >>> from scoreprism.ensembles import stagewise_decomposition
    >>> model = FiniteModel([0.25] * 4, [0.1, 0.3, 0.6, 0.9])
    >>> result = stagewise_decomposition(model, [[0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.6, 0.9]], loss="brier")
    >>> {name: round(value, 4) for name, value in result.terms.items()}
    {'reliability': 0.0013, 'gain 1 → 2': 0.0163, 'remaining': 0.1575}
    """

    decomposition: Decomposition
    stages: StageTable
    grid: tuple[float, ...]
    compression: Amount | None
    checks: dict[str, list[Amount]]
    increments: dict[str, list[Amount]]
    confidence_level: float

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.decomposition.n

    @property
    def loss(self) -> ProperLoss:
        """The loss."""
        return self.decomposition.loss

    @property
    def terms(self) -> dict[str, float]:
        """Estimate of each term; they add up to the loss of the first stage."""
        return self.decomposition.terms

    @property
    def std_error(self) -> dict[str, float]:
        """Standard error of each term."""
        return self.decomposition.std_error

    @property
    def gains(self) -> dict[str, float]:
        """The gains alone: what each stage of the grid adds to the ones before it."""
        return {name: value for name, value in self.terms.items() if name.startswith("gain ")}

    def interval(self, term: str, confidence_level: float | None = None) -> Any:
        """
        Interval of a term of the chain.

        Parameters
        ----------
        term : str
            One of `names`.
        confidence_level : float, optional
            Confidence level; that of the result by default.

        Returns
        -------
        Interval
            For gains, conditional on the fitted models.
        """
        return self.decomposition.interval(
            parse_choice(term, self.names, "term"), confidence_level or self.confidence_level
        )

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            The chain, the stages, compression and checks; numbers that are not finite are strings.
        """
        several = {**self.checks, **self.increments}
        content: dict[str, Any] = encode(
            {
                "decomposition": self.decomposition.to_dict(),
                "grid": list(self.grid),
                "stages": self.stages.to_dict(),
                "compression": None if self.compression is None else self.compression.to_dict(),
                "checks": {key: [amount.to_dict() for amount in line] for key, line in several.items()},
            }
        )
        return content

    def _columns(self) -> dict[str, list[Any]]:
        exact = self.decomposition._population
        columns: dict[str, list[Any]] = {"term": list(self.names), "estimate": list(self.terms.values())}
        if not exact:
            ends = [self.decomposition._shown_interval(name, self.confidence_level) for name in self.names]
            columns["std_error"] = list(self.std_error.values())
            columns["low"], columns["high"] = [e.low for e in ends], [e.high for e in ends]
        if self.increments:
            columns["squared_increment"] = self._align(self.increments["square"], "value")
            columns["gap"] = self._align(self.checks["gap"], "value")
            if not exact:
                columns["gap_std_error"] = self._align(self.checks["gap"], "std_error")
        columns["what"] = self._describe_terms()
        return columns

    def _align(self, amounts: list[Amount], field: str) -> list[float]:
        """Amounts of the steps, aligned with the terms they belong to."""
        after = len(self.names) - 1 - len(amounts)
        return [math.nan, *(getattr(one, field) for one in amounts), *([math.nan] * after)]

    def _describe_terms(self) -> list[str]:
        """Meaning of each term; for the log loss in terms of information theory."""
        symbol = {"log": "I(Y; {b} | {a}) in nats", "brier": "E(η{b} − η{a})²"}.get(self.loss.name, "E d(Q{a}, Q{b})")
        words = ["E d(S, Q), recalibration of the first stage"]
        labels = [f"{number:g}" for number in self.grid]
        pairs = list(pairwise(labels))
        if len(self.names) - 2 > len(pairs):
            pairs.append((labels[-1], "X"))
        for a, b in pairs:
            prefix = "F" if self.loss.name == "log" else ""
            words.append(symbol.format(a=f"{prefix}{a}", b=f"{prefix}{b}"))
        last = "X" if self.names[-1] == "irreducible" else f"F{labels[-1]}"
        words.append(f"H(Y | {last}) in nats" if self.loss.name == "log" else f"loss left given {last}")
        return words

    def _title(self) -> str:
        t, chain = self.stages, self.decomposition
        least, after = t.least_loss, t.least_refinement
        rows = f"{plural(t.numbers.size, 'stage')} on {write_count(self.n)} rows"
        raw = f"least loss {write_fixed(t.loss[least], 5)} at stage {t.numbers[least]:g}"
        best = f"least after recalibration {write_fixed(t.refinement[after], 5)} at stage {t.numbers[after]:g}"
        along = f"of stage {self.grid[0]:g}, along {plural(len(self.grid), 'stage')}"
        return f"{self.loss!s} loss {write_fixed(chain.risk, 5)} {along}\n[{rows}; {raw}, {best}]"

    def _findings(self) -> Sequence[Finding]:
        if self.compression is None:
            return self.decomposition.findings
        c = self.compression
        low, high = (None, None) if self.decomposition._population else (c.low, c.high)
        return (Finding("path_loses", value=c.value, low=low, high=high), *self.decomposition.findings)


# ── the function ────────────────────────────────────────────────────────────────────────────────────


@described()
def stagewise_decomposition(
    y_true: ArrayLike | Sample | FiniteModel,
    stages: Any = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    grid: int | Sequence[float] | None = None,
    calibrator: object = "auto",
    reference: object = "auto",
    features: bool | None = None,
    prediction: ArrayLike | None = None,
    cv: object = 5,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> StagewiseDecomposition:
    """
    Loss, reliability and refinement of every stage of a model, and the information that each stage adds.

    At every stage the loss is split into reliability and refinement, in the same folds. Along a grid of stages the
    loss of the first is split by the filtration F_t = σ(S_1, …, S_t), Q_t = P(Y | F_t): reliability of the first
    stage, a gain E d(Q_t, Q_{t+1}) per step, and the loss left given the whole path. Under log loss the gains are
    I(Y; F_{t+1} | F_t) in nats; under the Brier loss they are E(η_{t+1} − η_t)², which is checked.

    Parameters
    ----------
    y_true : array-like of shape (n,), Sample or FiniteModel
        Outcomes of rows the model was not trained on; everything at once, its models numbered as stages; or a finite
        population, for which `stages` hold scores per state and everything is exact.
    stages : mapping, sequence, generator or fitted model, optional
        Probabilities by stage (stages of a sequence are numbered from 1); a sequence of `Level` (known
        Q_t: nothing is fitted); a generator such as ``model.staged_predict_proba(X)``; a fitted booster of
        scikit-learn, xgboost or lightgbm; or a list of checkpoints, fitted models or functions of `X`. Left out beside
        a `Sample`.
    X : array-like or frame of shape (n, p), optional
        Features: what models are applied to; with scores they add the level Q = P(Y | path, X) on top.
    grid : int or sequence of numbers, optional
        Stages of the chain: how many at most (12 by default, at geometric distances), or which.
    calibrator : str, Calibrator or classifier, default="auto"
        How C = P(Y | S_t) is fitted, as in `decompose`.
    reference : str, StackedReference or classifier, default="auto"
        How the levels are fitted. "auto": a lean stack for stages, the full one for features.
    features : bool, optional
        Whether `X` is a level of the chain; by default it is beside scores, and is not where a model needs it.
    prediction : array-like of shape (n,) or (n, K), optional
        With levels: a prediction known at the first stage; by default the first level itself.
    cv : int, splitter or iterable, default=5
        Folds, the same for all stages.
    n_jobs : int, optional
        Processes; the result does not depend on it.

    Returns
    -------
    StagewiseDecomposition
        Stages, gains, checks, figures.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import stagewise_decomposition
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 3))
    >>> y = (rng.random(1000) < 1 / (1 + np.exp(-z.sum(axis=1)))).astype(int)
    >>> stages = [1 / (1 + np.exp(-z[:, : t + 1].sum(axis=1))) for t in range(3)]
    >>> result = stagewise_decomposition(y, stages, random_state=0)
    >>> list(result.gains)
    ['gain 1 → 2', 'gain 2 → 3']
    >>> bool(abs(sum(result.terms.values()) - result.decomposition.risk) < 1e-12)
    True
    """
    confidence, chosen = parse_confidence(confidence_level), get_loss(loss)
    read = parse_stages(y_true, stages, X)
    positions = _parse_grid(grid, read.numbers, is_known=read.is_known)
    if isinstance(y_true, FiniteModel):
        return _decompose_exactly(read, y_true, chosen, positions, confidence)
    rows: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups}
    rows |= {"pos_label": pos_label, "classes": classes}
    if read.is_known:
        return _decompose_known(read, y_true, prediction, chosen, confidence, clip, rows)
    if prediction is not None:
        refuse("`prediction` must come with levels", "scores, whose first stage is the prediction", "Leave it out.")
    beside = not _needs_features(stages) if features is None else features
    path = attach_outcomes(read, y_true, X if beside else None, **rows)
    above = tuple(level for level in path.sample.levels if beside and level.name == "Q")
    path = replace(path, sample=replace(path.sample, levels=above))
    distance = parse_clip(clip, path.sample.k)
    seed = int(parse_random_state(random_state).integers(2**62))
    options = {"cv": parse_splits(cv, path), "random_state": seed, "calibrator": calibrator}
    decomposition = _decompose_chain(path, positions, reference, chosen, distance, options | {"n_jobs": n_jobs})
    table, last = _decompose_stages(path, chosen, confidence, options | {"clip": distance}, n_jobs)
    compression = None
    if not above and _is_whole_path(positions, len(path.laws)):
        compression = Amount.of(
            last - decomposition._rows[:, -1], decomposition._weight, decomposition._groups, confidence
        )
    return _make_result(decomposition, table, path.numbers[positions], compression, confidence)


def _is_whole_path(positions: IntArray, count: int) -> bool:
    """Whether the chain ends at the last score, so that the two can be compared."""
    return bool(positions.size > 1 and positions[-1] == count - 1)


def _needs_features(stages: Any) -> bool:
    """Whether stages are read with the features: a model, checkpoints."""
    parts = list(stages.values()) if isinstance(stages, dict) else stages
    first = parts[0] if isinstance(parts, (list, tuple)) and parts else parts
    return has_stages(stages) or hasattr(first, "predict_proba") or callable(first)


def _parse_grid(grid: Any, numbers: FloatArray, *, is_known: bool) -> IntArray:
    """Positions of the stages of the chain."""
    if grid is None:
        return np.arange(numbers.size, dtype=np.intp) if is_known else choose_positions(numbers.size, GRID)
    if is_known:
        refuse("`grid` must be left out for levels", repr(grid), "Pass only the levels that are meant.")
    if isinstance(grid, (int, np.integer)) and not isinstance(grid, bool):
        return choose_positions(numbers.size, parse_count(grid, "grid", 1))
    chosen = [float(number) for number in grid] if np.ndim(grid) == 1 else []
    known = {number: i for i, number in enumerate(numbers.tolist())}
    missing = [number for number in chosen if number not in known]
    if not chosen or missing or len(set(chosen)) < len(chosen):
        got = f"{missing or grid}" if chosen else repr(grid)
        refuse("`grid` must be a number of stages, or numbers of existing stages", got, "For example [1, 10].")
    return np.array(sorted(known[number] for number in chosen), dtype=np.intp)


def parse_splits(cv: Any, path: StagePath) -> Any:
    """Splits of the rows as passed, drawn once for all stages."""
    if cv is None or isinstance(cv, (bool, int, np.integer, str, float)):
        return cv
    from sklearn.model_selection import check_cv

    origin = path.stages[0].fit_rows().origin
    labels, groups = (path.sample.y, path.sample.groups) if origin is None else (origin.labels, origin.groups)
    try:
        return list(check_cv(cv).split(np.zeros((len(labels), 1)), labels, groups))
    except (TypeError, ValueError) as error:
        refuse("`cv` must be a number of folds, a splitter or pairs of row numbers", f"{error}", "For example 5.")


# ── every stage ─────────────────────────────────────────────────────────────────────────────────────

#: Loss, standard error, terms and ends of one stage; row values of its refinement, if requested; findings.
_Line = tuple[list[float], FloatArray | None, list[Finding]]


def _decompose_stage(
    job: tuple[Sample, bool], loss: ProperLoss, confidence_level: float, options: dict[str, Any]
) -> _Line:
    """Decompose one stage; its findings are returned, since workers cannot warn."""
    sample, keep = job
    with collect_findings() as findings:
        d = decompose(sample, loss=loss, **options)
        reliability, refinement = (d.interval(name, confidence_level) for name in d.names)
        error = d._moments.std_error(dict.fromkeys(range(2), 1.0))
    numbers = [d.risk, error, d.terms["reliability"], reliability.low, reliability.high]
    numbers += [d.terms["refinement"], refinement.low, refinement.high]
    return numbers, d._rows[:, -1] if keep else None, findings


def _decompose_stages(
    path: StagePath, loss: ProperLoss, confidence_level: float, options: dict[str, Any], n_jobs: int | None
) -> tuple[StageTable, FloatArray]:
    """The table of stages, and the rows of the last one's refinement."""
    jobs = [(stage, number == path.numbers[-1]) for stage, number in zip(path.stages, path.numbers, strict=True)]
    one = partial(_decompose_stage, loss=loss, confidence_level=confidence_level, options=options)
    lines: list[_Line] = list(run_all(one, jobs, n_jobs, "stages"))
    announce_by_stage(path, [findings for _, _, findings in lines])
    columns = make_columns(StageTable, [line for line, _, _ in lines])
    rows = [line for _, line, _ in lines if line is not None]
    return StageTable(numbers=freeze(path.numbers), _backend=path.sample.backend, **columns), rows[0]


# ── the chain ───────────────────────────────────────────────────────────────────────────────────────


def _logits(law: FloatArray) -> FloatArray:
    """Log-odds, or log-ratios to the last class, kept finite."""
    logits = law_logits(law)
    return logits[:, None] if law.ndim == 1 else logits[:, :-1] - logits[:, -1:]


def _decompose_chain(
    path: StagePath,
    positions: IntArray,
    reference: object,
    loss: ProperLoss,
    clip: float | None,
    options: dict[str, Any],
) -> Decomposition:
    """The loss of the first stage of the grid, along the filtration of the stages."""
    sample, numbers = path.sample, path.numbers[positions].tolist()
    # with the first score, increments carry the information of all scores but are hardly collinear, unlike scores of
    # neighbouring stages, where a ridge would shrink exactly the differences that matter
    steps = [fine - coarse for coarse, fine in pairwise(_logits(path.laws[i]) for i in positions)]
    increments = dict(zip((f"stage {number:g}" for number in numbers[1:]), steps, strict=True))
    blocks = [FeatureBlock(name, table, parse_features(table, sample.n, name)) for name, table in increments.items()]
    first = replace(path.stages[positions[0]], levels=(*blocks, *sample.levels))
    lean = StackedReference(_MEMBERS) if isinstance(reference, str) and reference == "auto" else None
    if any(isinstance(level, FeatureBlock) for level in first.levels):
        options = options | {"reference": reference if lean is None or sample.levels else lean}
    fit = ChainFit.of(first, **options)
    if lean is not None and sample.levels:
        own = [
            replace(level, reference=lean) if isinstance(level, LevelTask) and level.name != "Q" else level
            for level in fit.levels
        ]
        fit = replace(fit, levels=own)
    decomposition = decompose_each(fit.fit([loss], clip), {str(loss): loss}, "debiased", clip)[str(loss)]
    terms, levels = _name_chain(numbers, features=bool(sample.levels))
    return replace(decomposition._rename_terms(terms, levels), findings=(*path.findings, *decomposition.findings))


def _name_chain(numbers: Sequence[float], *, features: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the terms and the levels of a chain of stages."""
    steps = [f"gain {a:g} → {b:g}" for a, b in pairwise(numbers)]
    end = ["path → X", "irreducible"] if features else ["remaining"]
    levels = [f"S{numbers[0]:g}", *(f"Q{number:g}" for number in numbers), *(["Q"] if features else [])]
    return ("reliability", *steps, *end), tuple(levels)


def _make_result(
    decomposition: Decomposition,
    table: StageTable,
    grid: NDArray[Any],
    compression: Amount | None,
    confidence_level: float,
) -> StagewiseDecomposition:
    checks, increments = _check_martingale(decomposition, grid.size, confidence_level)
    return StagewiseDecomposition(
        decomposition.names, table._backend, decomposition, table, tuple(grid.tolist()), compression, checks,
        increments, confidence_level,
    )  # fmt: skip


# ── is the path of laws a martingale? (corollary 5.5) ───────────────────────────────────────────────


def _check_martingale(
    decomposition: Decomposition, steps: int, confidence_level: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Doob–Pythagoras and the martingale, for the Brier loss: from the laws Q_t and the scatter of fold models."""
    chain = decomposition.chain
    if decomposition.loss.name != "brier" or chain is None:
        return {}, {}
    weight, groups = chain.sample.weight, chain.sample.groups
    mean = partial(
        Amount.of, weight=weight, groups=groups, confidence_level=confidence_level, population=chain.population
    )
    rows, laws = decomposition._rows, [_narrow(one.law, chain) for one in chain.levels]
    amounts: dict[str, list[Amount]] = {"gap": [], "drift": [], "tilt": [], "square": []}
    for t in range(1, steps):
        coarse, delta = laws[t], laws[t + 1] - laws[t]
        noise, cross = _measure_noise(chain, t)
        square = (delta**2).sum(axis=1) - noise
        centred = coarse - np.average(coarse, axis=0, weights=weight)
        amounts["square"].append(mean(square))
        amounts["gap"].append(mean(rows[:, t] - square))
        amounts["drift"].append(mean(delta[:, -1]))
        amounts["tilt"].append(mean((delta * centred).sum(axis=1) - cross))
    return amounts, {"square": amounts.pop("square")}


def _narrow(law: FloatArray, chain: Chain) -> FloatArray:
    """Classes in the last axis; one column for two, as the Brier loss of two classes counts one."""
    wide = chain.levels[0].law.ndim == 2
    return law[..., None] if not wide else law[..., 1:] if law.shape[-1] == 2 else law


def _measure_noise(chain: Chain, t: int) -> tuple[FloatArray | float, FloatArray | float]:
    """Noise of Q̂_{t+1} − Q̂_t, squared and times that of Q̂_t, from the spread of fold models; 0 for known laws."""
    below, above = chain.levels[t].folds, chain.levels[t + 1].folds
    if below is None or above is None:
        return 0.0, 0.0
    factor = chain.levels[t + 1].factor
    coarse, delta = _narrow(below, chain), _narrow(above - below, chain)
    apart, around = delta - delta.mean(axis=0), coarse - coarse.mean(axis=0)
    return factor * (apart**2).sum(axis=(0, 2)), factor * (apart * around).sum(axis=(0, 2))


# ── laws that are known ─────────────────────────────────────────────────────────────────────────────


def _decompose_known(
    read: Stages,
    y_true: Any,
    prediction: Any,
    loss: ProperLoss,
    confidence_level: float,
    clip: float | None,
    rows: dict[str, Any],
) -> StagewiseDecomposition:
    """Decompose along known laws."""
    terms, names = _name_chain(read.numbers.tolist(), features=False)
    law = read.levels[0].law if prediction is None else getattr(prediction, "law", prediction)
    first = Level(names[0], parse_law(law, "prediction"))
    levels = [first, *(Level(name, one.law, one.folds) for name, one in zip(names[1:], read.levels, strict=True))]
    chain = Chain(y_true, levels, names=terms, **rows)
    decomposition = chain.decompose(loss, clip=clip)
    sample, losses = chain.sample, chain.clip_at(decomposition.clip)._losses(loss)[1:]
    amounts = [Amount.of(line, sample.weight, sample.groups, confidence_level) for line in losses]
    value, error, low, high = np.array([(a.value, a.std_error, a.low, a.high) for a in amounts]).T
    none = np.zeros(value.size)
    table = StageTable(freeze(read.numbers), value, error, none, none, none, value, low, high, sample.backend)
    return _make_result(decomposition, table, read.numbers, None, confidence_level)


def _decompose_exactly(
    read: Stages, model: FiniteModel, loss: ProperLoss, positions: IntArray, confidence_level: float
) -> StagewiseDecomposition:
    """Scores on the states of a finite population: Q_t are averages over cells of the path."""
    if read.is_known:
        refuse("stages of a finite population must be scores", "levels", "Pass the scores of each state.")
    laws = [law.values for law in read.laws]
    numbers, path = read.numbers[positions], [as_columns(laws[i]) for i in positions]
    terms, names = _name_chain(numbers.tolist(), features=False)
    partitions = {name: np.concatenate(path[: t + 1], axis=1) for t, name in enumerate(names[1:])}
    decomposition = model.decompose(laws[positions[0]], partitions, loss, names=terms)._rename_terms(terms, names)
    risk, a, b = decompose_states(model, laws, loss)
    table = StageTable(freeze(read.numbers), risk, np.zeros(risk.size), a, a, a, b, b, b, None)
    lost = float(b[-1] - decomposition.terms["remaining"])
    compression = Amount(lost, 0.0, lost, lost, confidence_level) if _is_whole_path(positions, len(laws)) else None
    return _make_result(decomposition, table, numbers, compression, confidence_level)
