"""One sample, decomposed: the functions that cells repeat. Each takes a generator and returns numbers by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

import scoreprism
from benchmarks.statistics.cells import Numbers
from benchmarks.statistics.peers import glest_grouping, has_glest, split_half_plugin
from benchmarks.statistics.scenarios import LOSSES, SCENARIOS, Draw, mean_q
from scoreprism._findings.finding import Finding, select
from scoreprism.decomposition import Decomposition
from scoreprism.losses import get_loss


def decomposed(
    draw: Draw, rng: np.random.Generator, losses: Sequence[str] = LOSSES, **options: Any
) -> Mapping[str, Decomposition]:
    """All losses of one sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overfitting: the findings of the result say it too
        seed = int(rng.integers(2**31))
        first = scoreprism.decompose(draw.y, draw.s, loss=losses[0], random_state=seed, **options)
        others = [first.chain.decompose(loss) for loss in losses[1:]]
    return {str(one.loss): one for one in (first, *others)}


def recorded(found: Mapping[str, Decomposition], *, envelope: bool = False) -> Numbers:
    return {f"{loss}.{key}": value for loss, one in found.items() for key, value in _of_one(one, envelope).items()}


def _of_one(result: Decomposition, envelope: bool) -> Numbers:
    """Estimates, intervals, bounds and claims of a decomposition."""
    terms, wide = result.terms, result.interval("reliability")
    numbers = {
        "gap": abs(sum(terms.values()) - result.risk),
        "rel": terms["reliability"],
        "rel.low": wide.low,
        "rel.high": wide.high,
        "rel.smooth": result.interval("reliability", method="smooth").high,
        "rel.lower": result.lower_bound("reliability").value,
    } | claims(result)
    if envelope:
        for method in ("bracket", "envelope"):
            other = result.interval("reliability", method=method)
            numbers |= {f"{method}.low": other.low, f"{method}.high": other.high}
    spreads = np.average(result.level_spreads, axis=0, weights=result.sample_weight)
    numbers["spread.C"] = spreads[1]
    if "grouping" in terms:
        two_sided = result.interval("grouping")
        numbers |= {
            "grp": terms["grouping"],
            "grp.low": two_sided.low,
            "grp.high": two_sided.high,
            "grp.lower": result.lower_bound("grouping").value,
            "irr": terms["irreducible"],
            "irr.upper": result.upper_bound("irreducible").value,
            "spread.Q": spreads[2],
            "guard": float(bool(select(result.findings, "overfit", "level_overfits"))),
            "muted": float("grouping" in result.muted),
        }
    return numbers


#: What a reader is told: kinds of findings, and which of their numbers is claimed; a claim that is not made is NaN.
CLAIMS = {
    "at least": (("recalibrate", "recalibrate_size_open", "not_material"), "low"),
    "at most": (("no_miscalibration", "recalibrate_size_open", "not_material"), "high"),
    "better": (("information_gain", "information_size_open"), "low"),
    "reached": (("reachable_loss",), "high"),
}
#: What can be reached is told where no gain is worth a change: with this share of the loss, always.
_ALL_OF_IT = 0.99


def claims(result: Decomposition) -> Numbers:
    """The numbers that are claimed: whether they are true is judged where the law is known."""
    told = [*result.conclusions(), *select(result.conclusions(min_gain=_ALL_OF_IT), "reachable_loss")]
    numbers: Numbers = {}
    for name, (kinds, number) in CLAIMS.items():
        found = [getattr(one, number) for one in select(told, *kinds) if _is_claimed(one, number)]
        numbers[f"said.{name}"] = float(found[0]) if found else np.nan
    return numbers


def _is_claimed(finding: Finding, number: str) -> bool:
    """Whether a number is claimed whatever the law: not a lower end of 0, nor an upper one for smooth curves only."""
    if number == "low":
        return finding.term in ("reliability", "grouping") and (finding.low or 0.0) > 0.0
    ends = finding.facts.get("ends")
    return ends is None or ends[-1][0] != "smooth"


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────


def scores(rng: np.random.Generator, scenario: str, n: int) -> Numbers:
    """Without features: reliability, its intervals, and the paper's plug-in of the same sample."""
    draw = SCENARIOS[scenario].sample(n, rng)
    numbers = recorded(decomposed(draw, rng), envelope=True)
    return numbers | {f"{loss}.plugin": split_half_plugin(draw.y, draw.s, loss) for loss in LOSSES}


def oracle(rng: np.random.Generator, scenario: str, n: int) -> Numbers:
    """With the true law given as ``q=``."""
    draw = SCENARIOS[scenario].sample(n, rng)
    return recorded(decomposed(draw, rng, q=draw.q))


def features(
    rng: np.random.Generator, scenario: str, n: int, reference: str = "auto", *, peer: bool = False, groups: bool = True
) -> Numbers:
    """
    With the reference law fitted on features; also glest's grouping loss of the same sample, where asked for.

    `chance` is how far the mean loss of the true law is from its expectation: luck that every irreducible term has.
    """
    draw = SCENARIOS[scenario].sample(n, rng)
    options: dict[str, Any] = {"sample_weight": draw.weight, "groups": draw.groups if groups else None}
    numbers = recorded(decomposed(draw, rng, X=draw.X, reference=make_reference(reference), **options))
    for loss in LOSSES:
        rows = get_loss(loss).loss(draw.q, draw.y)
        chance = float(np.average(rows, weights=draw.weight)) - SCENARIOS[scenario].truth(loss).irreducible
        numbers[f"{loss}.chance"] = chance
    if peer and has_glest():
        numbers["brier.glest"] = glest_grouping(draw.X, draw.y, draw.s, int(rng.integers(2**31)))
    return numbers


def make_reference(name: str) -> Any:
    if name != "lightgbm":
        return name
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1, n_jobs=1)


def multiclass_null(rng: np.random.Generator, n: int) -> Numbers:
    draw = SCENARIOS["3-class null"].sample(n, rng)
    return recorded(decomposed(draw, rng))


def identity(rng: np.random.Generator, n: int) -> Numbers:
    """The largest gap between terms and mean loss over all losses, with laws fitted, and with laws drawn at random."""
    from scoreprism.losses import LOSSES as ALL

    draw = SCENARIOS["b"].sample(n, rng)
    wild = draw._replace(s=rng.uniform(0.01, 0.99, n), q=rng.uniform(0.01, 0.99, n))
    numbers: Numbers = {}
    for kind, sample in (("fitted", draw), ("random", wild)):
        found = decomposed(sample, rng, tuple(ALL), q=sample.q)
        numbers[kind] = max(abs(sum(one.terms.values()) - one.risk) for one in found.values())
    return numbers


def grouping_size(rng: np.random.Generator, n: int, null: str) -> Numbers:
    """Under no grouping: scenario q2, or the score of b with an outcome that knows X₁ only."""
    draw = SCENARIOS["q2" if null == "q2" else "b"].sample(n, rng)
    if null != "q2":
        draw = draw._replace(y=(rng.random(n) < expit(mean_q()(draw.X[:, 0]))).astype(np.intp))
    return _rejects(draw, rng)


def grouping_power(rng: np.random.Generator, n: int) -> Numbers:
    draw = SCENARIOS["b"].sample(n, rng)
    return _rejects(draw._replace(s=expit(2.5 * (draw.X.sum(axis=1) - 1))), rng)


def _rejects(draw: Draw, rng: np.random.Generator) -> Numbers:
    found = scoreprism.grouping_test(draw.y, draw.s, draw.X, random_state=int(rng.integers(2**31)))
    return {"reject": float(found.pvalue <= 0.05)}


def calibration_rate(rng: np.random.Generator, kind: str, simulations: int, **arguments: Any) -> Numbers:
    """Rejections of the calibration test over several samples at once, by `benchmarks.tests_power`."""
    from benchmarks import tests_power

    seed = int(rng.integers(2**31))
    function = tests_power.size if kind == "size" else tests_power.power
    return {"reject": function(**arguments, simulations=simulations, seed=seed, n_jobs=1).rate}
