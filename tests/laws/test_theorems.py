"""Every theorem, proposition, corollary, lemma and example of the paper, exactly, on finite populations.

Test names carry the labels of the paper (``thm:onelevel`` is ``test_thm_onelevel``). Expectations are written out
here as sums over states; nothing of `Decomposition` is used on the right-hand sides.
"""

from __future__ import annotations

import numpy as np
import pytest

from scoreprism import LOSSES, FiniteModel, Level, get_loss
from scoreprism.decomposition import resolution_decomposition
from scoreprism.losses import Brier, LogLoss
from tests.conftest import classes_of, random_model


def as_matrix(law):
    """A law with a column for each class."""
    return np.column_stack([1 - law, law]) if law.ndim == 1 else law


CASES = [(name, k) for name in LOSSES for k in classes_of(get_loss(name), 2, 4)]
every_case = pytest.mark.parametrize(("name", "k"), CASES)
every_form = pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
X = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])  # features: pairs of states
S = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])  # score levels: pairs of feature cells
Z = np.arange(12)  # the latent state itself


def expectation(model, values):
    return float(model.prob @ values)


def prediction(seed, k, cells=S):
    """A law in the interior that depends on `cells` only."""
    law = np.random.default_rng(seed).dirichlet(np.ones(k) * 2, int(cells.max()) + 1)
    return law[cells][:, 1] if k == 2 else law[cells]


def risk(model, loss, p):
    """E ℓ(p, Y), state by state."""
    return expectation(model, loss.risk(p, model.law))


def conditional_mean(model, law, cells):
    """E[law | cells], written out."""
    matrix = as_matrix(law)
    out = np.empty_like(matrix)
    for cell in np.unique(cells):
        inside = cells == cell
        out[inside] = (model.prob[inside] @ matrix[inside]) / model.prob[inside].sum()
    return out


def check(result, expected, total):
    assert list(result.terms.values())[: len(expected)] == pytest.approx(expected, abs=1e-12)
    assert result.risk == pytest.approx(total, abs=1e-12)
    assert sum(result.terms.values()) == pytest.approx(total, abs=1e-12)
    assert result.residual == pytest.approx(0.0, abs=1e-12)
    assert all(v == 0.0 for v in result.std_error.values())


# ── section 2 ───────────────────────────────────────────────────────────────────────────────────────────


@every_case
@every_form
def test_thm_onelevel(name, k, form):
    """E ℓ(T,Y) = E d(T,Q_A) + E ℰ(Q_A) for any A-measurable T."""
    loss, model, t = get_loss(name), random_model(1, k=k), prediction(2, k, X)
    qa = model.level(X)
    expected = [expectation(model, loss.divergence(t, qa)), expectation(model, loss.entropy(qa))]
    check(model.decompose(t, {"A": X}, loss, form), expected, risk(model, loss, t))


@every_case
@every_form
def test_thm_chain(name, k, form):
    """E ℓ(T,Y) = E d(T,Q_A) + E d(Q_A,Q_B) + E ℰ(Q_B) for A ⊆ B; equation (1) is T=S, A=σ(S), B=σ(X)."""
    loss, model, t = get_loss(name), random_model(3, k=k), prediction(4, k)
    qa, qb = model.level(S), model.level(X)
    expected = [
        expectation(model, loss.divergence(t, qa)),
        expectation(model, loss.divergence(qa, qb)),
        expectation(model, loss.entropy(qb)),
    ]
    result = model.decompose(t, {"C": S, "Q": X}, loss, form)
    assert result.names[:3] == ("reliability", "grouping", "irreducible")
    check(result, expected, risk(model, loss, t))
    assert model.decompose(t, {"A": S, "B": X}, loss, form).names[:3] == ("reliability", "A → B", "irreducible")


@every_case
def test_lemma_grouping_zero(name, k):
    """`rem:grouping-zero`: for a strictly proper loss E d(C,Q) = 0 exactly if Q is σ(S)-measurable; both directions."""
    loss = get_loss(name)
    model = random_model(5, k=k)
    sufficient = FiniteModel(model.prob, model.level(S))  # the law depends on the score only
    t = prediction(6, k)
    assert sufficient.decompose(t, [S, X], loss).terms["grouping"] == pytest.approx(0.0, abs=1e-14)
    if loss.strictly_proper:
        assert model.decompose(t, [S, X], loss).terms["grouping"] > 1e-4
        assert np.abs(model.level(S) - model.level(X)).max() > 1e-3


def test_ex_calibrated_yet_grouping():
    """A constant, calibrated score with Brier grouping 0.16; log: (log 2 − H(0.9)), H(0.9) by hand."""
    model = FiniteModel([0.5, 0.5], [0.9, 0.1])
    brier = model.decompose([0.5, 0.5], [[0, 0], [1, 2]], "brier")
    assert brier.terms == pytest.approx({"reliability": 0.0, "grouping": 0.16, "irreducible": 0.09}, abs=1e-14)
    log = model.decompose([0.5, 0.5], [[0, 0], [1, 2]], "log")
    h = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    assert log.terms == pytest.approx({"reliability": 0.0, "grouping": np.log(2) - h, "irreducible": h}, abs=1e-14)
    assert log.terms["grouping"] == pytest.approx(0.3680642072, abs=5e-11)  # the digits
    assert log.terms["irreducible"] == pytest.approx(0.3250829734, abs=5e-11)


@every_case
@every_form
def test_prop_urc(name, k, form):
    """E ℓ(S,Y) = ℰ(Q̄) − E d(Q̄,C) + E d(S,C), on rows state × label."""
    loss, model, t = get_loss(name), random_model(7, k=k), prediction(8, k)
    state, label, weight = model._rows()
    c = model.level(S)
    result = resolution_decomposition(
        label, t[state], c[state], loss=loss, form=form, sample_weight=weight, classes=np.arange(k)
    )
    marginal = model.level(np.zeros(12))
    expected = {
        "reliability": expectation(model, loss.divergence(t, c)),
        "resolution": expectation(model, loss.divergence(marginal, c)),
        "uncertainty": float(loss.entropy(marginal)[0]),
    }
    for term, value in expected.items():
        assert result.terms[term] == pytest.approx(value, abs=1e-12)
    total = expected["uncertainty"] - expected["resolution"] + expected["reliability"]
    assert result.risk == pytest.approx(total, abs=1e-12)
    assert risk(model, loss, t) == pytest.approx(total, abs=1e-12)


@every_case
@every_form
def test_thm_four(name, k, form):
    """Reliability, grouping, chance heterogeneity and intrinsic noise along σ(S) ⊆ σ(X) ⊆ σ(Z)."""
    loss, model, t = get_loss(name), random_model(9, k=k), prediction(10, k)
    c, q, pi = model.level(S), model.level(X), model.level(Z)
    assert np.allclose(pi, model.law, atol=1e-15)
    expected = [
        expectation(model, loss.divergence(t, c)),
        expectation(model, loss.divergence(c, q)),
        expectation(model, loss.divergence(q, pi)),
        expectation(model, loss.entropy(pi)),
    ]
    result = model.decompose(t, [S, X, Z], loss, form)
    assert result.names[:4] == ("reliability", "grouping", "heterogeneity", "noise")
    check(result, expected, risk(model, loss, t))


def test_four_term_example():
    """Digits given in the project's issue for states x with P = (.3,.2,.3,.2) and a latent coin U."""
    px, u = np.array([0.3, 0.2, 0.3, 0.2]), np.array([0.5, 0.25, 0.5, 0.5])
    pi = np.array([[0.05, 0.15], [0.2, 0.6], [0.3, 0.5], [0.7, 0.9]])
    model = FiniteModel((px[:, None] * np.stack([1 - u, u], axis=1)).ravel(), pi.ravel())
    s, x = np.repeat([0.2, 0.2, 0.5, 0.9], 2), np.repeat(np.arange(4), 2)
    brier = model.decompose(s, [s, x, np.arange(8)], "brier")
    assert list(brier.terms.values()) == pytest.approx([0.0052, 0.0048, 0.01175, 0.16125], abs=1e-13)
    assert brier.risk == pytest.approx(0.183, abs=1e-13)
    log = model.decompose(s, [s, x, np.arange(8)], "log")
    assert list(log.terms.values()) == pytest.approx(
        [0.01556278034, 0.01599899098, 0.03059069075, 0.4910910465], abs=5e-11
    )
    assert log.risk == pytest.approx(0.5532435086, abs=5e-11)


@pytest.mark.parametrize("seed", range(5))
def test_cor_brier(seed):
    """Brier: squared differences; E(C−Q)² = E Var(Q|S); E[C(1−C)] = E[Q(1−Q)] + E(C−Q)²; E[Q(1−Q)] splits over Z."""
    model, t = random_model(seed), prediction(seed + 50, 2)
    c, q, pi = model.level(S), model.level(X), model.law
    result = model.decompose(t, [S, X], "brier").terms
    assert result["reliability"] == pytest.approx(expectation(model, (t - c) ** 2), abs=1e-14)
    assert result["irreducible"] == pytest.approx(expectation(model, q * (1 - q)), abs=1e-14)
    variance = conditional_mean(model, q, S)  # E[Q | S]
    second = np.concatenate([[model.prob[s == S] @ q[s == S] ** 2 / model.prob[s == S].sum()] for s in range(3)])[S]
    conditional_variance = second - variance[:, 1] ** 2
    assert result["grouping"] == pytest.approx(expectation(model, conditional_variance), abs=1e-14)
    total_variance = expectation(model, c * (1 - c)) - expectation(model, q * (1 - q))
    assert result["grouping"] == pytest.approx(total_variance, abs=1e-14)
    latent = expectation(model, (q - pi) ** 2) + expectation(model, pi * (1 - pi))
    assert result["irreducible"] == pytest.approx(latent, abs=1e-14)


def conditional_entropy(joint):
    """H(Y | A) in nats from the table of P(a, y)."""
    pa = joint.sum(axis=1, keepdims=True)
    return -float(np.sum(joint * np.log(joint / pa)))


@pytest.mark.parametrize("k", [2, 3])
def test_cor_logloss_info(k):
    """Log loss: E KL(C‖S) + I(Y;X|S) + H(Y|X); the information computed from joint tables, not from divergences."""
    model, t = random_model(11, k=k), prediction(12, k)
    terms = model.decompose(t, [S, X], "log").terms
    joint = model.prob[:, None] * as_matrix(model.law)
    given_s = np.stack([joint[s == S].sum(axis=0) for s in range(3)])
    given_x = np.stack([joint[x == X].sum(axis=0) for x in range(6)])
    information = conditional_entropy(given_s) - conditional_entropy(given_x)  # I(Y;X|S), since S = s(X)
    assert terms["grouping"] == pytest.approx(information, abs=1e-13)
    assert terms["irreducible"] == pytest.approx(conditional_entropy(given_x), abs=1e-13)
    c = as_matrix(model.level(S))
    kl = np.sum(c * np.log(c / as_matrix(t)), axis=1)
    assert terms["reliability"] == pytest.approx(expectation(model, kl), abs=1e-13)


# ── section 3 ───────────────────────────────────────────────────────────────────────────────────────────


@every_case
def test_prop_calib_regret(name, k):
    """Reliability is a proper regret: zero at S = C, positive otherwise if strict; calibration implies global balance."""
    loss, model, t = get_loss(name), random_model(13, k=k), prediction(14, k)
    c = model.level(S)
    assert model.decompose(c, [S], loss).terms["reliability"] == pytest.approx(0.0, abs=1e-14)
    assert model.decompose(t, [S], loss).terms["reliability"] >= 0.0
    if loss.strictly_proper:
        assert model.decompose(t, [S], loss).terms["reliability"] > 1e-4
    assert model.prob @ as_matrix(c) == pytest.approx(
        model.prob @ as_matrix(model.law), abs=1e-14
    )  # E[S] = E[onehot(Y)]


def test_global_balance_does_not_imply_calibration():
    """`sec:well-calibrated`: S = (0.7, 0.3) against Q = (0.3, 0.7) has E[S] = E[Y] = 0.5 and is badly calibrated."""
    model = FiniteModel([0.5, 0.5], [0.3, 0.7])
    score = np.array([0.7, 0.3])
    assert expectation(model, score) == expectation(model, model.law)
    assert model.decompose(score, [score], "brier").terms["reliability"] == pytest.approx(0.16, abs=1e-15)


# ── section 4 ───────────────────────────────────────────────────────────────────────────────────────────


@every_case
def test_prop_pop_opt_recal(name, k):
    """C minimises the risk among σ(S)-measurable predictions; the excess risk of g(S) is E d(g(S), C)."""
    loss, model = get_loss(name), random_model(15, k=k)
    c = model.level(S)
    best = risk(model, loss, c)
    assert best == pytest.approx(expectation(model, loss.entropy(c)), abs=1e-13)
    for seed in range(20):
        g = prediction(100 + seed, k)
        excess = risk(model, loss, g) - best
        assert excess >= -1e-14
        assert excess == pytest.approx(expectation(model, loss.divergence(g, c)), abs=1e-13)


def test_recalibration_leaves_grouping_alone():
    """What recalibration cannot fix: grouping depends on σ(S) only, so a one-to-one g(S) has the same."""
    model, t = random_model(16), prediction(17, 2)
    for name in LOSSES:
        before, after = model.decompose(t, [S, X], name), model.decompose(t**2, [S, X], name)
        assert after.terms["grouping"] == pytest.approx(before.terms["grouping"], abs=1e-14)


def test_prop_monotone_preserves_roc():
    """{g(S) ≥ τ} = {S ≥ τ'}; ROC and AUC of a strictly increasing g(S) are those of S (scikit-learn's roc_curve)."""
    from sklearn.metrics import roc_auc_score, roc_curve

    model = random_model(18)
    state, label, weight = model._rows()
    s = np.random.default_rng(19).random(12)

    def flat(v):
        return np.clip(v, 0.3, 0.7)  # nondecreasing, with ties

    for tau in np.linspace(0, 1, 41):
        chosen = flat(s) >= tau
        threshold = s[chosen].min() if chosen.any() else np.inf
        assert np.array_equal(chosen, s >= threshold)
    strict = s**3
    assert roc_auc_score(label, strict[state], sample_weight=weight) == roc_auc_score(
        label, s[state], sample_weight=weight
    )
    for ours, raw in zip(
        roc_curve(label, strict[state], sample_weight=weight)[:2],
        roc_curve(label, s[state], sample_weight=weight)[:2],
        strict=True,
    ):
        assert np.array_equal(ours, raw)
    points = set(
        zip(
            *(v.round(12) for v in roc_curve(label, s[state], sample_weight=weight, drop_intermediate=False)[:2]),
            strict=True,
        )
    )
    tied = set(
        zip(
            *(v.round(12) for v in roc_curve(label, flat(s)[state], sample_weight=weight, drop_intermediate=False)[:2]),
            strict=True,
        )
    )
    assert tied <= points  # every threshold rule of g(S) is one of S


# ── section 5 ───────────────────────────────────────────────────────────────────────────────────────────


def average_model():
    """The four states (S¹, S²) ∈ {.25, .75}² of `ex:avg-breaks-calibration`."""
    s1, s2 = np.array([0.25, 0.25, 0.75, 0.75]), np.array([0.25, 0.75, 0.25, 0.75])
    return FiniteModel([0.25] * 4, [0.0, 0.5, 0.5, 1.0]), s1, s2


def test_ex_avg_breaks_calibration():
    """Two calibrated scores whose average is not; fractions of the issue: 3/16 = 0 + 1/16 + 1/8, 5/32 = 1/32 + 0 + 1/8."""
    model, s1, s2 = average_model()
    members = np.arange(4)
    for s in (s1, s2):
        assert model.level(s) == pytest.approx(s, abs=1e-15)
        terms = model.decompose(s, [s, members], "brier")
        assert list(terms.terms.values()) == pytest.approx([0, 1 / 16, 1 / 8], abs=1e-15)
        assert terms.risk == pytest.approx(3 / 16, abs=1e-15)
    mean = (s1 + s2) / 2
    assert model.level(mean)[0] == 0.0  # E[Y | mean = 0.25] = 0 ≠ 0.25
    brier = model.decompose(mean, [mean, members], "brier")
    assert list(brier.terms.values()) == pytest.approx([1 / 32, 0, 1 / 8], abs=1e-15)
    assert brier.risk == pytest.approx(5 / 32, abs=1e-15)
    log = model.decompose(mean, [mean, members], "log")
    assert log.terms["reliability"] == pytest.approx(0.5 * np.log(4 / 3), abs=1e-14)  # KL(0‖1/4) = log(4/3), twice 1/4
    assert log.terms["reliability"] == pytest.approx(0.1438410362, abs=5e-11)


def test_calibration_gap_of_an_average():
    """E[S̄(Y − S̄)] = E(S₁ − S₂)²/4 for calibrated members (docs/design.md)."""
    model, s1, s2 = average_model()
    mean = (s1 + s2) / 2
    gap = expectation(model, mean * (model.law - mean))
    assert gap == pytest.approx(expectation(model, (s1 - s2) ** 2) / 4, abs=1e-15)


def test_prop_agg_preserve():
    """If C_S = φ(S_ens), then C_ens = φ(S_ens), and S_ens is calibrated exactly if φ is the identity."""
    model, s1, s2 = average_model()
    mean = (s1 + s2) / 2
    phi = {0.25: 0.0, 0.5: 0.5, 0.75: 1.0}
    c_vector, c_mean = model.level(np.arange(4)), model.level(mean)
    assert c_vector == pytest.approx([phi[v] for v in mean], abs=1e-15)
    assert c_mean == pytest.approx([phi[v] for v in mean], abs=1e-15)  # sufficient: no projection loss
    assert np.abs(c_mean - mean).max() > 0.2  # φ is not the identity: not calibrated
    stretched = 2 * mean - 0.5  # an aggregator with φ = identity
    assert model.level(stretched) == pytest.approx(stretched, abs=1e-15)
    # where C_S is not a function of the aggregate, projecting costs E d(C_ens, C_S) > 0
    other = FiniteModel([0.25] * 4, [0.1, 0.4, 0.6, 0.9])
    chain = other.decompose(mean, {"ens": mean, "vector": np.arange(4)}, "brier")
    assert chain.terms["ens → vector"] == pytest.approx(
        0.5 * 0.01, abs=1e-15
    )  # (0.5−0.4)² and (0.5−0.6)² with probability ¼ each


def filtration(seed, k=2):
    """σ-algebras F_0 ⊆ … ⊆ F_4 on 16 states, from nothing to everything."""
    model = random_model(seed, 16, k)
    return model, {f"Q{t}": np.arange(16) // 2 ** (4 - t) for t in range(5)}


@every_case
@every_form
def test_thm_boosting_telescope(name, k, form):
    """E ℓ(T,Y) = E d(T,Q_0) + Σ_t E d(Q_t,Q_{t+1}) + E ℰ(Q_T)."""
    loss = get_loss(name)
    model, levels = filtration(20, k)
    t = prediction(21, k, np.zeros(16, dtype=int))
    q = [model.level(cells) for cells in levels.values()]
    expected = [expectation(model, loss.divergence(t, q[0]))]
    expected += [expectation(model, loss.divergence(a, b)) for a, b in zip(q[:-1], q[1:], strict=True)]
    expected += [expectation(model, loss.entropy(q[-1]))]
    result = model.decompose(t, levels, loss, form)
    assert result.names[:6] == (
        "reliability", "Q0 → Q1", "Q1 → Q2", "Q2 → Q3", "Q3 → Q4", "irreducible",
    )  # fmt: skip
    check(result, expected, risk(model, loss, t))


def test_cor_filtration_logloss_info():
    """Log-loss increments are I(Y; F_{t+1} | F_t), from joint tables; they sum to I(Y; F_T | F_0)."""
    model, levels = filtration(22, 3)
    t = prediction(23, 3, np.zeros(16, dtype=int))
    terms = list(model.decompose(t, levels, "log").terms.values())
    joint = model.prob[:, None] * model.law
    h = [conditional_entropy(np.stack([joint[c == v].sum(axis=0) for v in np.unique(c)])) for c in levels.values()]
    assert terms[1:5] == pytest.approx([a - b for a, b in zip(h[:-1], h[1:], strict=True)], abs=1e-13)
    assert terms[5] == pytest.approx(h[-1], abs=1e-13)


def test_cor_boosting_brier():
    """Doob–Pythagoras: E(Y−η_{t+1})² = E(Y−η_t)² − E(η_{t+1}−η_t)², and conditional variance falls by as much."""
    model, levels = filtration(24)
    eta = [model.level(cells) for cells in levels.values()]
    error = [expectation(model, model.law * (1 - e) ** 2 + (1 - model.law) * e**2) for e in eta]
    for t in range(4):
        gain = expectation(model, (eta[t + 1] - eta[t]) ** 2)
        assert error[t + 1] == pytest.approx(error[t] - gain, abs=1e-14)
        assert error[t] == pytest.approx(expectation(model, eta[t] * (1 - eta[t])), abs=1e-14)  # E Var(Y | F_t)
        assert gain > 0
    terms = model.decompose(eta[0], levels, "brier").terms
    assert terms["Q1 → Q2"] == pytest.approx(error[1] - error[2], abs=1e-14)


def test_martingale():
    """E[η_{t+1} | F_t] = η_t."""
    model, levels = filtration(25)
    cells = list(levels.values())
    eta = [model.level(c) for c in cells]
    for t in range(4):
        assert conditional_mean(model, eta[t + 1], cells[t])[:, 1] == pytest.approx(eta[t], abs=1e-14)


@every_case
def test_stagewise_recalibration(name, k):
    """E ℓ(S̃,Y) = E d(S̃,S) + E ℓ(S,Y) with S = P(Y | S̃); S is calibrated with respect to its own output."""
    loss, model, raw = get_loss(name), random_model(26, k=k), prediction(27, k)
    recalibrated = model.level(S)
    gap = risk(model, loss, raw) - risk(model, loss, recalibrated)
    assert gap == pytest.approx(expectation(model, loss.divergence(raw, recalibrated)), abs=1e-13)
    own = model.level(recalibrated if k == 2 else recalibrated.round(14))
    assert own == pytest.approx(recalibrated, abs=1e-13)


def test_recalibration_may_collapse_scores():
    """The warning of `sec:boosting`: distinct scores with the same conditional law become one, never more."""
    model = FiniteModel([0.25] * 4, [0.2, 0.2, 0.6, 0.6])
    raw = np.array([0.1, 0.3, 0.5, 0.9])
    assert np.unique(raw).size == 4
    assert np.unique(model.level(raw)).size == 2


# ── appendix B ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", [2, 4])
def test_lem_vector_qa(k):
    """E[onehot(Y) | A] lies in the simplex and its coordinates are P(Y=j | A), counted out of the joint law."""
    model = random_model(28, k=k)
    law = as_matrix(model.level(S))
    assert (law >= 0).all()
    assert law.sum(axis=1) == pytest.approx(np.ones(12), abs=1e-14)
    joint = model.prob[:, None] * as_matrix(model.law)
    for cell in range(3):
        inside = cell == S
        assert law[inside][0] == pytest.approx(joint[inside].sum(axis=0) / model.prob[inside].sum(), abs=1e-14)


def test_lem_unique_version():
    """Versions differ on null sets only: a state of probability zero changes no term, whatever its law."""
    prob = np.array([0.5, 0.5, 0.0])
    for law in (0.0, 0.3, 1.0):
        model = FiniteModel(prob, [0.2, 0.6, law])
        result = model.decompose([0.3, 0.3, 0.9], [[0, 0, 1], [0, 1, 2]], "log").terms
        reference = FiniteModel(prob[:2], [0.2, 0.6]).decompose([0.3, 0.3], [[0, 0], [0, 1]], "log").terms
        assert result == pytest.approx(reference, abs=1e-15)


@pytest.mark.parametrize("k", [2, 4])
def test_tower_property(k):
    """Q_A = E[Q_B | A] coordinate by coordinate for A ⊆ B."""
    model = random_model(29, k=k)
    assert as_matrix(model.level(S)) == pytest.approx(conditional_mean(model, model.level(X), S), abs=1e-14)
    assert as_matrix(model.level(np.zeros(12)))[0] == pytest.approx(model.prob @ as_matrix(model.law), abs=1e-14)


# ── where exact laws meet data ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loss", [Brier(), LogLoss()], ids=str)
def test_in_sample_level_sets_make_all_forms_agree(loss):
    """Laws that are averages over the rows at hand are exact for these rows: all three forms agree to 1e-12."""
    from scoreprism import Chain

    rng = np.random.default_rng(30)
    x = rng.integers(0, 20, 400)
    y = rng.random(400) < (x + 1) / 22
    s = x // 4

    def level(codes):
        return (np.bincount(codes, y) / np.bincount(codes))[codes]

    # cells in which everything or nothing happened are fine: their losses are 0
    chain = Chain(y, [Level("S", (s + 1) / 7), Level("C", level(s)), Level("Q", level(x))])
    debiased, difference, plugin = (chain.decompose(loss, form).terms for form in ("debiased", "difference", "plugin"))
    assert difference == pytest.approx(debiased, abs=1e-12)
    assert plugin.pop("residual") == pytest.approx(0.0, abs=1e-12)
    assert plugin == pytest.approx(debiased, abs=1e-12)
