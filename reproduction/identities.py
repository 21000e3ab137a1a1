"""Every theorem, lemma, proposition, corollary and example of the paper, as the largest error on finite populations.

Right-hand sides are sums over states, written out; nothing of `Decomposition` is used in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from reproduction.checks import EXACT
from scoreprism import FiniteModel
from scoreprism._kernels.term_intervals import FORMS
from scoreprism.decomposition import Decomposition, resolution_decomposition
from scoreprism.losses import LOSSES, ProperLoss, get_loss

_STATES = 16
#: F_0 ⊆ … ⊆ F_4: the partition of the states into 1, 2, 4, 8, 16 cells.
_FILTRATION = {f"Q{t}": np.arange(_STATES) // 2 ** (4 - t) for t in range(5)}
_S, _X, _Z = _FILTRATION["Q2"], _FILTRATION["Q3"], _FILTRATION["Q4"]


@dataclass(frozen=True)
class Case:
    """A random finite population with a loss, and a form of the decomposition."""

    loss: ProperLoss
    k: int
    form: str
    seed: int

    @cached_property
    def model(self) -> FiniteModel:
        """Uneven probabilities of 16 states; laws in the interior."""
        rng = np.random.default_rng([24, self.k, self.seed])
        return FiniteModel(rng.dirichlet(np.ones(_STATES)), _flat(rng.dirichlet(np.ones(self.k), _STATES)))

    def prediction(self, cells: np.ndarray = _S, draw: int = 0) -> np.ndarray:
        """A law that depends on the cell only."""
        rng = np.random.default_rng([42, self.k, self.seed, draw])
        return _flat(rng.dirichlet(np.full(self.k, 2.0), int(cells.max()) + 1))[cells]

    def given(self, cells: np.ndarray) -> np.ndarray:
        """P(Y | cells), state by state."""
        return _given(self.model, self.model.law, cells)

    def mean(self, values: np.ndarray) -> float:
        """Expectation over states."""
        return float(self.model.prob @ values)

    def regret(self, p: np.ndarray, q: np.ndarray) -> float:
        """E d(p, q)."""
        return self.mean(self.loss.divergence(p, q))

    def uncertainty(self, q: np.ndarray) -> float:
        """E ℰ(q)."""
        return self.mean(self.loss.entropy(q))

    def risk(self, p: np.ndarray) -> float:
        """E ℓ(p, Y)."""
        return self.mean(self.loss.risk(p, self.model.law))

    def split(self, p: np.ndarray, partitions: Mapping[str, Any]) -> Decomposition:
        """What the library says."""
        return self.model.decompose(p, partitions, self.loss, self.form)


#: Errors and the cases that they are tried on, by the label in the paper's source; ``paper.csv`` says what each states.
IDENTITIES: dict[str, tuple[Callable[[Case], float], list[Case]]] = {}
_PAIR, _ONE = ("brier", "log"), ("debiased",)


def identity(
    label: str, losses: Any = tuple(LOSSES), classes: Any = (2, 4), forms: Any = tuple(FORMS), models: int = 3
) -> Any:
    """Register the error of a statement: losses × numbers of classes that they are for × forms × populations."""
    cases = [
        Case(loss, k, form, seed)
        for loss, k, form, seed in product(map(get_loss, losses), classes, forms, range(models))
        if k == 2 or not loss.binary_only
    ]

    def register(error: Callable[[Case], float]) -> Callable[[Case], float]:
        IDENTITIES[label] = error, cases
        return error

    return register


def _flat(law: np.ndarray) -> np.ndarray:
    return law[:, 1] if law.shape[1] == 2 else law


def _matrix(law: np.ndarray) -> np.ndarray:
    """Write a law with one column a class."""
    return law if law.ndim == 2 else np.column_stack([1.0 - law, law])


def _given(model: FiniteModel, law: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """E[law | cells], written out."""
    found = np.empty_like(law)
    for cell in np.unique(cells):
        inside = cells == cell
        found[inside] = model.prob[inside] @ law[inside] / model.prob[inside].sum()
    return found


def _off(ours: Any, exact: Any) -> float:
    """Largest difference."""
    return float(np.abs(np.asarray(ours, dtype=np.float64) - np.asarray(exact, dtype=np.float64)).max())


def _telescope(case: Case, known: np.ndarray, partitions: dict[str, np.ndarray]) -> float:
    """Terms along a chain of partitions, their sum and the loss, against sums over states."""
    p = case.prediction(known)
    laws = [p, *(case.given(cells) for cells in partitions.values())]
    exact = [*(case.regret(a, b) for a, b in pairwise(laws)), case.uncertainty(laws[-1])]
    found = case.split(p, partitions)
    terms = list(found.terms.values())
    return max(
        _off(terms[: len(exact)], exact), _off([found.risk, sum(terms), sum(exact)], case.risk(p)), abs(found.residual)
    )


def _unseen(case: Case, term: float, p: np.ndarray, q: np.ndarray) -> float:
    """How far apart p and q are where a strictly proper loss does not see it: what an "only if" is violated by."""
    blind = case.loss.strictly_proper and term < EXACT
    return _off(p, q) if blind else max(0.0, -term)


def _entropy(joint: np.ndarray) -> float:
    """H(Y | A) in nats from the table of P(a, y)."""
    return -float(np.sum(joint * np.log(joint / joint.sum(axis=1, keepdims=True))))


def _entropy_given(case: Case, cells: np.ndarray) -> float:
    joint = case.model.prob[:, None] * _matrix(case.model.law)
    return _entropy(np.stack([joint[cells == cell].sum(axis=0) for cell in np.unique(cells)]))


#: Statements on chains: the cells that the prediction depends on, and the partitions below it.
_CHAINS = {
    "thm:onelevel": (_S, {"A": _X}),
    "thm:chain": (_FILTRATION["Q1"], {"A": _S, "B": _X}),
    "eq:clf-chain": (_S, {"C": _S, "Q": _X}),
    "thm:four": (_S, {"C": _S, "Q": _X, "Π": _Z}),
    "thm:boosting-telescope": (_FILTRATION["Q0"], _FILTRATION),
}
for _label, (_known, _partitions) in _CHAINS.items():
    identity(_label)(partial(_telescope, known=_known, partitions=_partitions))


# ── section 2 ───────────────────────────────────────────────────────────────────────────────────────


@identity("rem:grouping-zero", forms=_ONE)
def grouping_zero(case: Case) -> float:
    c, q, p = case.given(_S), case.given(_X), case.prediction()
    sufficient = FiniteModel(case.model.prob, c).decompose(p, {"C": _S, "Q": _X}, case.loss)
    grouping = case.split(p, {"C": _S, "Q": _X}).terms["grouping"]
    return max(abs(sufficient.terms["grouping"]), _unseen(case, grouping, c, q))


@identity("ex:calibrated-yet-grouping", losses=_PAIR, classes=(2,), models=1)
def calibrated_yet_grouping(case: Case) -> float:
    terms = FiniteModel([0.5, 0.5], [0.9, 0.1]).decompose([0.5, 0.5], [[0, 0], [0, 1]], case.loss, case.form).terms
    entropy = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    exact = (0, 0.16, 0.09) if case.loss.name == "brier" else (0, np.log(2) - entropy, entropy)
    return _off(list(terms.values())[:3], exact)


@identity("prop:urc")
def urc(case: Case) -> float:
    p, c, marginal = case.prediction(), case.given(_S), case.given(_FILTRATION["Q0"])
    joint = case.model.prob[:, None] * _matrix(case.model.law)
    state, label = np.nonzero(joint > 0)
    found = resolution_decomposition(
        label, p[state], c[state], loss=case.loss, form=case.form, sample_weight=joint[state, label],
        classes=np.arange(case.k),
    )  # fmt: skip
    exact = {
        "uncertainty": case.uncertainty(marginal), "resolution": case.regret(marginal, c),
        "reliability": case.regret(p, c),
    }  # fmt: skip
    total = exact["uncertainty"] - exact["resolution"] + exact["reliability"]
    return max(_off([found.terms[name] for name in exact], list(exact.values())), _off(total, case.risk(p)))


@identity("cor:brier", losses=("brier",), classes=(2,))
def brier(case: Case) -> float:
    p, c, q, pi = case.prediction(), case.given(_S), case.given(_X), case.model.law
    second = _given(case.model, q**2, _S)
    noise = case.mean(q * (1 - q))
    terms = case.split(p, {"C": _S, "Q": _X}).terms
    exact = (case.mean((p - c) ** 2), case.mean(second - c**2), noise)  # grouping as E Var(Q | S)
    return max(
        _off([terms["reliability"], terms["grouping"], terms["irreducible"]], exact),
        _off(case.mean(c * (1 - c)), noise + exact[1]),
        _off(noise, case.mean((q - pi) ** 2) + case.mean(pi * (1 - pi))),
    )


@identity("cor:logloss-info", losses=("log",))
def logloss_info(case: Case) -> float:
    p, c = case.prediction(), _matrix(case.given(_S))
    left = _entropy_given(case, _X)
    terms = case.split(p, {"C": _S, "Q": _X}).terms
    kl = case.mean(np.sum(c * np.log(c / _matrix(p)), axis=1))
    exact = (kl, _entropy_given(case, _S) - left, left)  # I(Y; X | S) = H(Y | S) − H(Y | X)
    return _off([terms["reliability"], terms["grouping"], terms["irreducible"]], exact)


# ── sections 3 and 4 ────────────────────────────────────────────────────────────────────────────────


@identity("prop:calib-regret")
def calib_regret(case: Case) -> float:
    p, c = case.prediction(), case.given(_S)
    found = case.split(p, {"C": _S}).terms
    perfect = case.split(c, {"C": _S}).terms["reliability"]
    balance = _off(case.model.prob @ _matrix(c), case.model.prob @ _matrix(case.model.law))
    identity = _off(sum(found.values()), case.regret(p, c) + case.uncertainty(c))
    return max(identity, abs(perfect), balance, _unseen(case, found["reliability"], p, c))


@identity("sec:well-calibrated", losses=("brier",), classes=(2,), models=1)
def balance(case: Case) -> float:
    model, score = FiniteModel([0.5, 0.5], [0.3, 0.7]), np.array([0.7, 0.3])
    terms = model.decompose(score, [score], "brier", case.form).terms
    return max(_off(model.prob @ score, model.prob @ model.law), _off(terms["reliability"], 0.16))


@identity("prop:pop-opt-recal", forms=_ONE)
def pop_opt_recal(case: Case) -> float:
    c = case.model.level(_S)
    best, worst = case.risk(c), _off(case.risk(c), case.uncertainty(case.given(_S)))
    for draw in range(1, 11):
        g = case.prediction(draw=draw)
        excess = case.risk(g) - best
        worst = max(worst, -excess, _off(excess, case.regret(g, c)))
    return worst


@identity("sec:recalibration")
def grouping_stays(case: Case) -> float:
    p = case.prediction()
    moved = p**2 if case.k == 2 else p**2 / (p**2).sum(axis=1, keepdims=True)  # one to one
    before, after = (case.split(score, {"C": score, "Q": _X}).terms["grouping"] for score in (p, moved))
    return _off(before, after)


@identity("prop:monotone-preserves-roc", losses=("log",), classes=(2,), forms=_ONE, models=10)
def monotone_roc(case: Case) -> float:
    """Isotonic regression and a strictly increasing map of a random score: rules, points of the curve, areas."""
    from sklearn.metrics import roc_auc_score, roc_curve

    from scoreprism.calibrators import IsotonicCalibrator

    s = np.random.default_rng([18, case.seed]).random(_STATES)
    joint = case.model.prob[:, None] * _matrix(case.model.law)
    state, label = np.nonzero(joint > 0)
    weight = joint[state, label]
    rows = weight * weight.size  # a weight counts as a number of rows
    flat = IsotonicCalibrator(interpolation="step", shrink=False, clip=0).fit(s[state], label, sample_weight=rows)
    tied, strict = flat.calibrate(s), s**3
    rules = max(_rule_gap(case.model.prob, s, tied, tau) for tau in np.unique(tied))
    raw, steep, kept = (
        np.stack(roc_curve(label, v[state], sample_weight=weight, drop_intermediate=False)[:2], axis=1)
        for v in (s, strict, tied)
    )
    points = float(np.abs(kept[:, None] - raw).max(axis=2).min(axis=1).max())
    areas = [roc_auc_score(label, v[state], sample_weight=weight) for v in (s, strict)]
    return max(rules, points, _off(steep, raw), _off(areas[0], areas[1]))


def _rule_gap(prob: np.ndarray, s: np.ndarray, g: np.ndarray, tau: float) -> float:
    """Probability that g(S) ≥ τ and S ≥ τ' differ, for the best τ'."""
    return min(float(prob @ ((g >= tau) != (s >= other))) for other in s)


# ── section 5 ───────────────────────────────────────────────────────────────────────────────────────


@identity("prop:agg-preserve", classes=(2,), forms=_ONE)
def agg_preserve(case: Case) -> float:
    """Nine pairs of scores and their average, of five values: C given the pair is φ(average), and it is not."""
    first, second = (np.repeat([0.25, 0.5, 0.75], 3), np.tile([0.25, 0.5, 0.75], 3))
    mean, rng = (first + second) / 2, np.random.default_rng([51, case.seed])
    prob, phi = rng.dirichlet(np.ones(9)), rng.random(5)
    law = phi[np.unique(mean, return_inverse=True)[1]]
    model, identity, other = FiniteModel(prob, law), FiniteModel(prob, mean), FiniteModel(prob, rng.random(9))
    kept = max(_off(model.level(mean), law), _off(identity.level(mean), mean))
    wrong = _unseen(case, model.decompose(mean, [mean], case.loss).terms["reliability"], mean, law)
    found = other.decompose(mean, {"ens": mean, "vector": np.arange(9)}, case.loss, names=("a", "projection", "b"))
    c = _given(other, other.law, np.unique(mean, return_inverse=True)[1])
    lost = float(prob @ (case.loss.risk(c, other.law) - case.loss.entropy(other.law)))
    return max(kept, wrong, _off(found.terms["projection"], lost))


@identity("ex:avg-breaks-calibration", losses=_PAIR, classes=(2,), models=1)
def avg_breaks(case: Case) -> float:
    model, first, second = make_average_model()
    mean, pair = (first + second) / 2, np.arange(4)
    exact = {"brier": ((0, 1 / 16, 1 / 8), (1 / 32, 0, 1 / 8)),
             "log": ((0, np.log(4) - 0.75 * np.log(3) - np.log(2) / 2, np.log(2) / 2),
                     (np.log(4 / 3) / 2, 0, np.log(2) / 2))}[case.loss.name]  # fmt: skip
    worst = max(_off(model.level(first), first), _off(model.level(second), second), _off(model.level(mean)[0], 0.0))
    for score, values in ((first, exact[0]), (second, exact[0]), (mean, exact[1])):
        terms = model.decompose(score, [score, pair], case.loss, case.form).terms
        worst = max(worst, _off(list(terms.values())[:3], values))
    return worst


def make_average_model() -> tuple[FiniteModel, np.ndarray, np.ndarray]:
    """Give the population of Example 5.2, of four states, and its two calibrated scores."""
    first, second = np.array([0.25, 0.25, 0.75, 0.75]), np.array([0.25, 0.75, 0.25, 0.75])
    return FiniteModel([0.25] * 4, [0.0, 0.5, 0.5, 1.0]), first, second


@identity("cor:filtration-logloss-info", losses=("log",))
def filtration_info(case: Case) -> float:
    terms = list(case.split(case.prediction(_FILTRATION["Q0"]), _FILTRATION).terms.values())
    h = [_entropy_given(case, cells) for cells in _FILTRATION.values()]
    return _off(terms[1:6], [*(a - b for a, b in pairwise(h)), h[-1]])


@identity("cor:boosting-brier", losses=("brier",), classes=(2,))
def pythagoras(case: Case) -> float:
    law, eta = case.model.law, [case.given(cells) for cells in _FILTRATION.values()]
    error = [case.mean(law * (1 - e) ** 2 + (1 - law) * e**2) for e in eta]
    gain = [case.mean((b - a) ** 2) for a, b in pairwise(eta)]
    terms = list(case.split(eta[0], _FILTRATION).terms.values())
    variance = [case.mean(e * (1 - e)) for e in eta]
    drops = -np.diff(error)
    return max(_off(drops, gain), _off(error, variance), _off(terms[1:5], drops), float(-min(gain)))


@identity("sec:boosting", losses=("brier",), forms=_ONE)
def martingale(case: Case) -> float:
    cells = list(_FILTRATION.values())
    eta = [case.model.level(c) for c in cells]
    return max(_off(_given(case.model, eta[t + 1], cells[t]), eta[t]) for t in range(4))


@identity("sec:boosting/stagewise", forms=_ONE)
def stagewise(case: Case) -> float:
    raw, recalibrated = case.prediction(), case.model.level(_S)
    gap = case.risk(raw) - case.risk(recalibrated)
    merged = np.unique(_matrix(recalibrated).round(14), axis=0, return_inverse=True)[1].reshape(-1)
    own = case.given(merged)  # P(Y | its own output)
    return max(_off(gap, case.regret(raw, recalibrated)), _off(own, recalibrated))


# ── appendix B ──────────────────────────────────────────────────────────────────────────────────────


@identity("lem:vector-QA", losses=("log",), forms=_ONE)
def vector_law(case: Case) -> float:
    law, joint = _matrix(case.model.level(_S)), case.model.prob[:, None] * _matrix(case.model.law)
    counted = np.stack([joint[s == _S].sum(axis=0) / case.model.prob[s == _S].sum() for s in range(4)])[_S]
    return max(_off(law, counted), _off(law.sum(axis=1), 1.0), float(-law.min()))


@identity("lem:unique-version", classes=(2,), models=1)
def unique_version(case: Case) -> float:
    """A state of probability zero changes no term, whatever its law."""
    kept = FiniteModel([0.5, 0.5], [0.2, 0.6]).decompose([0.3, 0.3], [[0, 0], [0, 1]], case.loss, case.form).terms
    worst = 0.0
    for law in (0.0, 0.3, 1.0):
        model = FiniteModel([0.5, 0.5, 0.0], [0.2, 0.6, law])
        terms = model.decompose([0.3, 0.3, 0.9], [[0, 0, 1], [0, 1, 2]], case.loss, case.form).terms
        worst = max(worst, _off(list(terms.values()), list(kept.values())))
    return worst


@identity("app:condlaw", losses=("log",), forms=_ONE)
def tower(case: Case) -> float:
    return _off(case.model.level(_S), _given(case.model, case.model.level(_X), _S))
