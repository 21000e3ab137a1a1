"""recalibrate_stages(): the loss of every stage before and after recalibration, and what a map may lose (sec. 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_clip, parse_confidence, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, as_columns, freeze
from scoreprism._core.workers import run_all
from scoreprism._estimation.decompose import decompose
from scoreprism._findings.finding import Finding, announce, collect_findings
from scoreprism._fitting.chain_fit import ChainFit, decompose_each
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism._sample.staged_models import Stages, announce_by_stage, attach_outcomes, parse_stages
from scoreprism.decomposition import FiniteModel
from scoreprism.ensembles._stage_tables import Amount, StageColumns, decompose_states, describe_stages, make_columns
from scoreprism.ensembles._stagewise_chain import parse_splits
from scoreprism.losses import ProperLoss, get_loss

#: A map that merges more than this share of the pairs of different scores loses resolution.
_MERGED = 0.01
#: The map for two classes, and for more.
_DEFAULTS = {True: "isotonic", False: "temperature"}


@dataclass(frozen=True, eq=False, repr=False)
class StageRecalibration(StageColumns):
    """
    Stages before and after recalibration.

    Made by `recalibrate_stages`.

    Attributes
    ----------
    numbers : array of shape (T,)
        Number of each stage.
    loss : array of shape (T,)
        Loss of the score S̃_t as it is.
    divergence, divergence_low, divergence_high : array of shape (T,)
        E d(S̃_t, S_t), the gain from recalibration, and its interval.
    recalibrated_loss : array of shape (T,)
        E ℓ(S_t), the loss after recalibration; both add up to `loss`.
    merged : array of shape (T,)
        Share of the pairs of different scores that the map makes equal.
    cost, cost_std_error : array of shape (T,)
        Loss after this map minus that after the best map of the same score.
    path_cost : array of shape (T,)
        On a finite population: loss of P(Y | S_1, …, S_t) minus that of P(Y | S̃_1, …, S̃_t), the information that
        merging scores takes from the path; NaN where it was not computed.
    laws : list of arrays
        The recalibrated scores; cross-fitted (NaN in rows of weight 0), or exact on a finite population.
    calibrator : str
        The map.
    loss_name : str
        The loss.

    Examples
    --------
    >>> from scoreprism import FiniteModel
    >>> model = FiniteModel([0.25] * 4, [0.2, 0.2, 0.6, 0.6])
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     result = recalibrate_stages(model, [[0.1, 0.3, 0.5, 0.9]], loss="brier")
    >>> result.merged.round(3), result.cost
    (array([0.333]), array([0.]))
    """

    numbers: NDArray[Any]
    loss: FloatArray
    divergence: FloatArray
    divergence_low: FloatArray
    divergence_high: FloatArray
    recalibrated_loss: FloatArray
    merged: FloatArray
    cost: FloatArray
    cost_std_error: FloatArray
    path_cost: FloatArray
    laws: list[FloatArray]
    calibrator: str
    loss_name: str
    _backend: str | None

    @property
    def _merging(self) -> NDArray[Any]:
        """Stages whose map loses resolution."""
        return self.numbers[self.merged > _MERGED]

    def _title(self) -> str:
        what = f"{self.loss_name} loss before and after {self.calibrator}"
        return f"StageRecalibration: {what}; {describe_stages(self.numbers)}"

    def _shown_columns(self) -> dict[str, list[Any]]:
        columns = self._lines("loss", "divergence", "recalibrated_loss", "merged", "cost", "cost_std_error")
        share = [one if isinstance(one, str) else f"{100 * one:.1f} %" for one in columns.pop("merged")]
        names = {"divergence": "reliability", "recalibrated_loss": "recalibrated"}
        renamed = {names.get(name, name): line for name, line in columns.items()}
        renamed["merged"] = share
        if np.isfinite(self.path_cost).all():
            renamed |= {key: line for key, line in self._lines("path_cost").items() if key != "stage"}
            renamed.pop("cost_std_error")
        return renamed

    def _footer(self) -> list[str]:
        worst = int(np.argmax(self.merged))
        if self.merged[worst] == 0.0:
            return ["No different scores are made equal."]
        text = f"merged: share of the pairs of different scores that are made equal, most at {self.numbers[worst]:g}"
        return [f"{text}; cost: what the map loses against the best map of the same score."]


@described()
def recalibrate_stages(
    y_true: ArrayLike | Sample | FiniteModel,
    stages: Any = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    calibrator: object = None,
    cv: object = 5,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> StageRecalibration:
    """
    Recalibrate every stage: how much the loss falls, and whether the map loses resolution.

    For S_t = P(Y | S̃_t), E ℓ(S̃_t) = E d(S̃_t, S_t) + E ℓ(S_t) at every stage. A map that makes different scores equal
    can lose resolution, which issues a warning.

    Parameters
    ----------
    y_true : array-like of shape (n,), Sample or FiniteModel
        Outcomes; everything at once, its models numbered as stages; or a finite population, with scores per state,
        where S_t is exact.
    stages : mapping, sequence, generator or fitted model, optional
        As for `stagewise_decomposition`.
    X : array-like or frame of shape (n, p), optional
        Features, for models.
    calibrator : str, Calibrator or classifier, optional
        The map; by default isotonic for two classes, temperature scaling for more.
    cv : int, splitter or iterable, default=5
        Folds.
    n_jobs : int, optional
        Processes.

    Returns
    -------
    StageRecalibration
        A line per stage, and the recalibrated scores.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> result = recalibrate_stages(y, [q, q**2 / (q**2 + (1 - q) ** 2)], calibrator="platt", random_state=0)
    >>> bool(np.allclose(result.divergence + result.recalibrated_loss, result.loss))
    True
    """
    confidence, chosen = parse_confidence(confidence_level), get_loss(loss)
    read = parse_stages(y_true, stages, X)
    if read.is_known:
        refuse("stages to be recalibrated must be scores", "levels", "Pass the probabilities.")
    if isinstance(y_true, FiniteModel):
        return _announce_merging(_recalibrate_exactly(read, y_true, chosen))
    path = attach_outcomes(
        read, y_true, sample_weight=sample_weight, groups=groups, pos_label=pos_label, classes=classes
    )
    sample = path.sample
    used = _DEFAULTS[sample.k == 2] if calibrator is None else calibrator
    seed = int(parse_random_state(random_state).integers(2**62))
    options = {"cv": parse_splits(cv, path), "random_state": seed}
    distance = parse_clip(clip, sample.k)
    one = partial(
        _recalibrate_stage, calibrator=used, loss=chosen, confidence_level=confidence, clip=distance, options=options
    )
    lines: list[_Line] = list(run_all(one, path.stages, n_jobs, "stages"))
    announce_by_stage(path, [findings for _, _, findings in lines])
    name = used if isinstance(used, str) else getattr(used, "name", type(used).__name__)
    return _announce_merging(
        StageRecalibration(
            numbers=freeze(path.numbers), path_cost=np.full(path.numbers.size, np.nan),
            laws=[law for _, law, _ in lines], calibrator=str(name), loss_name=str(chosen), _backend=sample.backend,
            **make_columns(StageRecalibration, [line for line, _, _ in lines]),
        )
    )  # fmt: skip


#: Numbers, recalibrated law and warnings of one stage.
_Line = tuple[list[float], FloatArray, list[Finding]]


def _recalibrate_stage(
    sample: Sample,
    calibrator: object,
    loss: ProperLoss,
    confidence_level: float,
    clip: float | None,
    options: dict[str, Any],
) -> _Line:
    """One stage: its numbers, its recalibrated law, and its findings, since workers cannot warn."""
    with collect_findings() as findings:
        fit = ChainFit.of(sample, calibrator=calibrator, **options)
        chain = fit.fit([loss], clip)
        d = decompose_each(chain, {str(loss): loss}, "debiased", clip)[str(loss)]
        best = decompose(sample, loss=loss, clip=clip, **options)
        ends = d.interval("reliability", confidence_level)
        whole = fit.maps[0].share(fit.rows).fit(fit.rows)(fit.rows.score)
    cost = Amount.of(d._rows[:, 1] - best._rows[:, 1], d._weight, d._groups, confidence_level)
    merged = measure_merging(fit.rows.score, whole)
    numbers = [d.risk, d.terms["reliability"], ends.low, ends.high, d.terms["refinement"], merged]
    law = sample.by_given_row(chain.levels[1].law)
    return [*numbers, cost.value, cost.std_error], law, findings


def measure_merging(score: FloatArray, law: FloatArray, prob: FloatArray | None = None) -> float:
    """Share of the pairs of different scores that a map makes equal."""
    mass = np.full(score.shape[0], 1.0 / score.shape[0]) if prob is None else prob
    mantissa, exponent = np.frexp(score)
    near = np.ldexp(mantissa.round(14), exponent)  # scores that differ by rounding are the same
    before, after = _find_tie_probability(near, mass), _find_tie_probability(law, mass)
    return float(max(after - before, 0.0) / (1.0 - before)) if before < 1.0 else 0.0


def _find_tie_probability(values: FloatArray, mass: FloatArray) -> float:
    """Probability that two rows have the same value."""
    code = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    share = np.sort(np.bincount(code, mass))  # so that the sum does not depend on the order of values
    return float(share @ share)


def _recalibrate_exactly(read: Stages, model: FiniteModel, loss: ProperLoss) -> StageRecalibration:
    """Stages on the states of a finite population."""
    laws = [law.values for law in read.laws]
    columns = [as_columns(law) for law in laws]
    after = [model.level(column).round(14) for column in columns]
    wide = [as_columns(law) for law in after]
    paths = [_find_expected_loss(model, columns[: t + 1], loss) for t in range(len(laws))]
    merged_paths = [_find_expected_loss(model, wide[: t + 1], loss) for t in range(len(laws))]
    risk, divergence, left = decompose_states(model, laws, loss)
    merged = np.array([measure_merging(a, b, model.prob) for a, b in zip(laws, after, strict=True)])
    own = np.array([_find_expected_loss(model, [column], loss) for column in wide])
    cost = np.where(np.abs(own - left) < 1e-14, 0.0, own - left)
    return StageRecalibration(
        freeze(read.numbers), risk, divergence, divergence, divergence, left, merged, cost, np.zeros(risk.size),
        np.array(merged_paths) - np.array(paths), after, "P(Y | S)", str(loss), None,
    )  # fmt: skip


def _find_expected_loss(model: FiniteModel, columns: list[FloatArray], loss: ProperLoss) -> float:
    """Expected loss of P(Y | columns)."""
    return float(model.prob @ loss.entropy(model.level(np.concatenate(columns, axis=1))))


def _announce_merging(result: StageRecalibration) -> StageRecalibration:
    """Warn where a map loses resolution."""
    count = int(result._merging.size)
    if count:
        worst = int(np.argmax(result.merged))
        facts = {"stage": float(result.numbers[worst]), "stages": int(result.numbers.size)}
        facts |= {"cost": float(result.cost[worst]), "std_error": float(result.cost_std_error[worst])}
        share = float(result.merged[worst])
        announce(Finding("lost_resolution", value=share, n=count, subject=result.calibrator, facts=facts))
    return result
