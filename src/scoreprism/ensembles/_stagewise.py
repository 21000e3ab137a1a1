"""stagewise_decomposition(): what each stage of a model adds, along the filtration of its scores (section 5.2)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import outside, parse_confidence, parse_count, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, frozen
from scoreprism._core.workers import run_all
from scoreprism._fitting.candidates import Block, calibrate, fit_levels
from scoreprism._fitting.chain_fit import Request, chain_of, decomposed_by, parse
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._chain import Chain, Level
from scoreprism.decomposition._finite import FiniteModel
from scoreprism.decomposition._rows import Sheet
from scoreprism.ensembles._martingale import martingale_checks
from scoreprism.ensembles._stage_inputs import Path, Stages, follow, geometric, has_stages, read_stages
from scoreprism.ensembles._stage_results import Amount, StageTable, StagewiseDecomposition
from scoreprism.ensembles._stage_tables import named_columns, plural
from scoreprism.estimation._decompose import decompose
from scoreprism.losses import ProperLoss, get_loss
from scoreprism.references import StackedReference

#: Stages of the chain unless others are asked for.
GRID = 12
#: What the levels of stages are fitted with: on exact laws, boosting added noise and time but took off no bias.
_MEMBERS = ("calibrated", "logistic", "polynomial")
#: Scores are kept so far from 0 and 1 before their logits are taken.
_NEAR = 1e-12


def stagewise_decomposition(
    stages: Any,
    y_true: ArrayLike | FiniteModel,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    grid: int | Sequence[float] | None = None,
    calibrator: object = "auto",
    reference: object = "auto",
    features: bool | None = None,
    prediction: ArrayLike | None = None,
    cv: object = 5,
    level: float = 0.95,
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
    stage, a gain E d(Q_t, Q_{t+1}) per step, and what the whole path leaves. Under log loss the gains are
    I(Y; F_{t+1} | F_t) in nats; under the Brier loss they are E(η_{t+1} − η_t)², which is checked.

    Parameters
    ----------
    stages : mapping, sequence, generator or fitted model
        Probabilities by stage (stages of a sequence are numbered from 1); a sequence of `Level` (laws Q_t that are
        known: nothing is fitted); a generator such as ``model.staged_predict_proba(X)``; a fitted booster of
        scikit-learn, xgboost or lightgbm; or a list of checkpoints, fitted models or functions of `X`.
    y_true : array-like of shape (n,), or FiniteModel
        Outcomes of rows the model was not trained on; with a finite population, `stages` hold scores per state and
        everything is exact.
    X : array-like or frame of shape (n, p), optional
        Features: what models are applied to; with scores they add the level Q = P(Y | path, X) on top.
    loss : str or ProperLoss, default="log"
        The loss.
    grid : int or sequence of numbers, optional
        Stages of the chain: how many at most (12 by default, at geometric distances), or which.
    calibrator : str, Calibrator or classifier, default="auto"
        How C = P(Y | S_t) is fitted, as in `decompose`.
    reference : str, StackedReference or classifier, default="auto"
        How the levels are fitted. "auto": a lean stack for stages, the full one for features.
    features : bool, optional
        Whether `X` is a level of the chain; by default it is beside scores, and is not where a model needs it.
    prediction : array-like of shape (n,) or (n, K), optional
        With levels: a prediction known at the first stage; by default the first law itself.
    cv : int, splitter or iterable, default=5
        Folds, the same for all stages.
    level : float, default=0.95
        Confidence level of the intervals.
    sample_weight : array-like of shape (n,), optional
        Weights.
    groups : array-like of shape (n,), optional
        Clusters of rows that are not independent.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep all laws at least this far from 0; nothing is clipped unless asked for.
    random_state : int, Generator or None, default=0
        Seed of the folds.
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
    >>> found = stagewise_decomposition(stages, y, random_state=0)
    >>> list(found.gains)
    ['gain 1 → 2', 'gain 2 → 3']
    >>> bool(abs(sum(found.terms.values()) - found.decomposition.risk) < 1e-12)
    True
    """
    confidence, chosen = parse_confidence(level), get_loss(loss)
    read = read_stages(stages, X, y_true)
    positions = _grid(grid, read.numbers, given=read.given)
    if isinstance(y_true, FiniteModel):
        return _exact(read, y_true, chosen, positions, confidence)
    rows = {"sample_weight": sample_weight, "groups": groups, "pos_label": pos_label, "classes": classes}
    if read.given:
        return _known(read, y_true, prediction, chosen, confidence, clip, rows)
    if prediction is not None:
        refuse("`prediction` must come with levels", "scores, whose first stage is the prediction", "Leave it out.")
    path = follow(read, y_true, **rows)
    seed = int(parse_random_state(random_state).integers(2**62))
    common = {"cv": parse_splits(cv, path), "random_state": seed, "calibrator": calibrator, **path.options()}
    beside = X if (features if features is not None else not _needs(stages)) else None
    chain, sheet = _chain(path, positions, beside, reference, chosen, clip, common | {"n_jobs": n_jobs})
    table, last = _every_stage(path, chosen, confidence, clip, common, n_jobs)
    compression = None
    if beside is None and _whole_path(positions, len(path.laws)):
        compression = Amount.of(last - chain.rows[:, -1], chain.sample_weight, chain._groups, confidence)
    return _result(chain, sheet, table, path, positions, compression, confidence)


def _whole_path(positions: IntArray, count: int) -> bool:
    """Whether the chain is a path that ends at the last score: only then can the two be compared."""
    return bool(positions.size > 1 and positions[-1] == count - 1)


def _needs(stages: Any) -> bool:
    """Whether stages are read with the features: a model, checkpoints."""
    found = list(stages.values()) if isinstance(stages, dict) else stages
    first = found[0] if isinstance(found, (list, tuple)) and found else found
    return has_stages(stages) or hasattr(first, "predict_proba") or callable(first)


def _grid(grid: Any, numbers: FloatArray, *, given: bool) -> IntArray:
    """Positions of the stages of the chain."""
    if grid is None:
        return np.arange(numbers.size, dtype=np.intp) if given else geometric(numbers.size, GRID)
    if given:
        refuse("`grid` must be left out for levels", repr(grid), "Pass only the levels that are meant.")
    if isinstance(grid, (int, np.integer)) and not isinstance(grid, bool):
        return geometric(numbers.size, parse_count(grid, "grid", 1))
    wanted = [float(number) for number in grid] if np.ndim(grid) == 1 else []
    known = {number: i for i, number in enumerate(numbers.tolist())}
    missing = [number for number in wanted if number not in known]
    if not wanted or missing or len(set(wanted)) < len(wanted):
        found = f"{missing or grid}" if wanted else repr(grid)
        refuse("`grid` must be a number of stages, or numbers of stages that there are", found, "For example [1, 10].")
    return np.array(sorted(known[number] for number in wanted), dtype=np.intp)


def parse_splits(cv: Any, path: Path) -> Any:
    """Splits, drawn once for all stages."""
    if cv is None or isinstance(cv, (bool, int, np.integer, str, float)):
        return cv
    from sklearn.model_selection import check_cv

    try:
        return list(check_cv(cv).split(np.zeros((path.codes.size, 1)), path.codes, path.sheet.groups))
    except (TypeError, ValueError) as error:
        refuse("`cv` must be a number of folds, a splitter or pairs of row numbers", f"{error}", "For example 5.")


# ── every stage ─────────────────────────────────────────────────────────────────────────────────────────

#: Loss, standard error, terms and ends of one stage; the rows of its refinement if they are asked for; warnings.
_Line = tuple[list[float], FloatArray | None, list[tuple[type[Warning], str]]]


def _stage(job: tuple[FloatArray, bool], codes: Any, loss: ProperLoss, level: float, options: dict[str, Any]) -> _Line:
    """One stage decomposed; warnings are handed back, for workers cannot speak."""
    law, keep = job
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        d = decompose(codes, law, loss=loss, **options)
        reliability, refinement = (d.interval(name, level) for name in d.names)
        error = d._moments.std_error(dict.fromkeys(range(2), 1.0))
    numbers = [d.risk, error, d.terms["reliability"], reliability.low, reliability.high]
    numbers += [d.terms["refinement"], refinement.low, refinement.high]
    said = [(one.category, str(one.message)) for one in caught]
    return numbers, d.rows[:, -1] if keep else None, said


def _every_stage(
    path: Path, loss: ProperLoss, level: float, clip: float | None, options: dict[str, Any], n_jobs: int | None
) -> tuple[StageTable, FloatArray]:
    """The table of stages, and the rows of the last one's refinement."""
    last = len(path.laws) - 1
    jobs = [(law, t == last) for t, law in enumerate(path.laws)]
    one = partial(_stage, codes=path.codes, loss=loss, level=level, options=options | {"clip": clip})
    found: list[_Line] = list(run_all(one, jobs, n_jobs, "stages"))
    repeat_warnings(path, [said for _, _, said in found])
    columns = named_columns(StageTable, [line for line, _, _ in found])
    rows = [line for _, line, _ in found if line is not None]
    return StageTable(numbers=frozen(path.numbers), _backend=path.backend, **columns), rows[0]


def repeat_warnings(path: Path, said: Sequence[Sequence[tuple[type[Warning], str]]]) -> None:
    """Say once for each kind of warning what stages said, and how many did."""
    kinds: dict[type[Warning], dict[float, str]] = {}
    for number, lines in zip(path.numbers.tolist(), said, strict=True):
        for kind, text in lines:
            kinds.setdefault(kind, {}).setdefault(number, text)
    for kind, found in kinds.items():
        first, text = next(iter(found.items()))
        where = f"stage {first:g}" + (f" and {plural(len(found) - 1, 'other')}" if len(found) > 1 else "")
        warnings.warn(f"{where}: {text}", kind, stacklevel=outside())


# ── the chain ───────────────────────────────────────────────────────────────────────────────────────────


def _increments(path: Path, positions: Any) -> list[FloatArray]:
    """
    What each stage of the grid adds to the logits of the one before.

    Together with the first score the increments know what the scores know, and they are hardly collinear, which the
    scores of neighbouring stages are: a ridge would shrink just the difference that counts.
    """
    logits = [_logits(path.laws[i]) for i in positions]
    return [fine - coarse for coarse, fine in pairwise(logits)]


def _logits(law: FloatArray) -> FloatArray:
    """Log-odds, or log-ratios to the last class, kept finite."""
    if law.ndim == 1:
        p = np.clip(law, _NEAR, 1.0 - _NEAR)
        return (np.log(p) - np.log1p(-p))[:, None]
    logs = np.log(np.maximum(law, _NEAR))
    return logs[:, :-1] - logs[:, -1:]


def _chain(
    path: Path, positions: Any, X: Any, reference: object, loss: ProperLoss, clip: float | None, options: dict[str, Any]
) -> tuple[Decomposition, Sheet]:
    """The loss of the first stage of the grid, along the filtration of the stages."""
    names = [f"stage {path.numbers[i]:g}" for i in positions]
    levels = dict(zip(names[1:], _increments(path, positions), strict=True))
    lean = StackedReference(_MEMBERS) if isinstance(reference, str) and reference == "auto" else None
    fitted: dict[str, Any] = {}
    if levels or X is not None:
        fitted["reference"] = lean if lean is not None and X is None else reference
    request = Request(path.codes, path.laws[positions[0]], X, levels=levels or None, **fitted, **options)
    problem = parse(request)
    if lean is not None and X is not None:
        own = [replace(b, reference=lean) if isinstance(b, Block) and b.name != "Q" else b for b in problem.levels]
        problem = replace(problem, levels=own)
    choice = calibrate(problem, {str(loss): loss}, clip)
    lines = fit_levels(problem, choice.winner)
    found = decomposed_by(problem, choice, lines, {str(loss): loss}, "debiased", clip)[str(loss)]
    sheet = chain_of(problem, choice.winner, lines, ())[0]
    terms, known = chain_names(path.numbers[positions].tolist(), features=X is not None)
    notes = (*path.notes, *found.notes)
    return replace(found, names=terms, level_names=known, notes=notes), sheet


def chain_names(numbers: Sequence[float], *, features: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the terms and the levels of a chain of stages."""
    steps = [f"gain {a:g} → {b:g}" for a, b in pairwise(numbers)]
    end = ["path → X", "irreducible"] if features else ["remaining"]
    levels = [f"S{numbers[0]:g}", *(f"Q{number:g}" for number in numbers), *(["Q"] if features else [])]
    return ("reliability", *steps, *end), tuple(levels)


def _result(
    chain: Decomposition, sheet: Sheet, table: StageTable, path: Path, positions: Any, compression: Any, level: float
) -> StagewiseDecomposition:
    checks, increments = martingale_checks(chain, sheet, len(positions), level)
    numbers = tuple(path.numbers[positions].tolist())
    return StagewiseDecomposition(
        chain.names, path.backend, chain, table, numbers, compression, checks, increments, level
    )


# ── laws that are known ─────────────────────────────────────────────────────────────────────────────────


def _known(
    read: Stages,
    y_true: Any,
    prediction: Any,
    loss: ProperLoss,
    level: float,
    clip: float | None,
    rows: dict[str, Any],
) -> StagewiseDecomposition:
    """The chain of laws that were given."""
    numbers = read.numbers.tolist()
    terms, known = chain_names(numbers, features=False)
    first = read.levels[0] if prediction is None else prediction
    law = first.law if isinstance(first, Level) else parse_law(first, "prediction")
    weight, groups = rows["sample_weight"], rows["groups"]
    levels = [Level(known[0], law), *(Level(n, v.law, v.folds) for n, v in zip(known[1:], read.levels, strict=True))]
    chain = Chain(y_true, levels, weight, groups, names=terms, pos_label=rows["pos_label"], classes=rows["classes"])
    found = chain.decompose(loss, clip=clip)
    path = Path(read.numbers, [v.law for v in read.levels], chain._sheet, (), chain._sheet.backend)
    losses = found.level_losses[:, 1:]
    amounts = [Amount.of(line, found.sample_weight, found._groups, level) for line in losses.T]
    value, error = (np.array([getattr(a, key) for a in amounts]) for key in ("value", "std_error"))
    low, high = (np.array([getattr(a, key) for a in amounts]) for key in ("low", "high"))
    nothing = np.zeros(value.size)
    table = StageTable(
        frozen(read.numbers), value, error, nothing, nothing, nothing, value, low, high, chain._sheet.backend
    )
    return _result(found, chain._sheet, table, path, np.arange(len(numbers)), None, level)


def _exact(read: Stages, model: FiniteModel, loss: ProperLoss, positions: Any, level: float) -> StagewiseDecomposition:
    """Scores on the states of a finite population: Q_t are averages over cells of the path."""
    laws = [law.values for law in read.laws]
    if read.given:
        refuse("stages of a finite population must be scores", "levels", "Pass the scores of each state.")
    columns = [law if law.ndim == 2 else law[:, None] for law in laws]
    grid = [columns[i] for i in positions]
    partitions = {f"Q{read.numbers[i]:g}": np.concatenate(grid[: t + 1], axis=1) for t, i in enumerate(positions)}
    terms, known = chain_names(read.numbers[positions].tolist(), features=False)
    found = replace(model.decompose(laws[positions[0]], partitions, loss, names=terms), level_names=known)
    each = [model.decompose(law, {"C": column}, loss) for law, column in zip(laws, columns, strict=True)]
    lines = {key: np.array([d.terms[key] for d in each]) for key in ("reliability", "refinement")}
    risk, none = np.array([d.risk for d in each]), np.zeros(len(each))
    a, b = lines["reliability"], lines["refinement"]
    table = StageTable(frozen(read.numbers), risk, none, a, a, a, b, b, b, None)
    lost = float(b[-1] - found.terms["remaining"])
    compression = Amount(lost, 0.0, lost, lost, level) if _whole_path(positions, len(laws)) else None
    state, label, weight = model._rows()
    averages = [model.level(cells)[state] for cells in partitions.values()]
    sheet = Sheet(label, [laws[positions[0]][state], *averages], [None] * (len(averages) + 1), weight)
    path = Path(read.numbers, laws, sheet, (), None)
    return _result(found, sheet, table, path, positions, compression, level)
