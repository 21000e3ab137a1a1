"""Chains and decompositions as arithmetic on rows: forms, weights, names, slices, comparisons, delivery."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoreprism import Chain, Decomposition, FiniteModel, Level, Sample, get_loss, resolution_decomposition
from scoreprism.exceptions import InfiniteLossError, InfiniteLossWarning, InputError, LabelError, UnavailableError
from scoreprism.losses import LogLoss, from_loss
from scoreprism.report import Column, Table
from tests.conftest import EVERY_LOSS, classes_of, laws

every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
FORMS = ("debiased", "difference", "plugin")


def sample(seed=0, n=300, k=2, folds=True):
    """A chain with fitted-looking laws: outcomes from q, a distorted score, a noisy calibrated law with fold laws."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(k), n)
    y = np.array([rng.choice(k, p=row) for row in q])
    s, c = 0.8 * q + 0.2 / k, 0.9 * q + 0.1 / k
    laws_of_folds = 0.95 * c + 0.05 * rng.dirichlet(np.ones(k), (5, n))
    if k == 2:
        s, c, q, laws_of_folds = s[:, 1], c[:, 1], q[:, 1], laws_of_folds[..., 1]
    q = np.clip(q, 1e-6, 1 - 1e-6) if k == 2 else 0.999 * q + 0.001 / k
    return y, [Level("S", s), Level("C", c, laws_of_folds if folds else None), Level("Q", q)], rng


@st.composite
def chains(draw, loss):
    """Outcomes and laws in the interior, so that every loss is finite; fold laws on the fitted levels."""
    k = draw(st.sampled_from(classes_of(loss, 2, 3)))
    n = draw(st.integers(2, 6))
    y = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    depth = draw(st.integers(2, 4))
    levels = []
    for t in range(depth):
        folds = np.stack([draw(laws(k, n, interior=True)) for _ in range(2)]) if t and draw(st.booleans()) else None
        levels.append(Level(f"L{t}", draw(laws(k, n, interior=True)), folds))
    weight = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=float)
    weight[0] += 1
    return y, levels, weight, k


def rows_of(level, index):
    return Level(level.name, level.law[index], None if level.folds is None else level.folds[:, index])


@every_loss
@settings(max_examples=20)  # of each of 18 losses: the sums are the same for all of them
@given(data=st.data())
def test_telescoping_closes(loss, data):
    """Rows sum to the loss of the prediction, row by row and on average, for any laws whatever, in every form."""
    y, levels, weight, k = data.draw(chains(loss))
    chain = Chain(y, levels, sample_weight=weight, classes=np.arange(k))
    observed = loss.loss(levels[0].law, y)
    mean = np.average(observed, weights=weight)
    for form in FORMS:
        d = chain.decompose(loss, form)
        np.testing.assert_allclose(d.rows.sum(axis=1), observed, rtol=1e-12, atol=1e-12, err_msg=form)
        assert sum(d.terms.values()) == pytest.approx(mean, rel=1e-12, abs=1e-12), form
        assert d.risk == pytest.approx(mean, rel=1e-12, abs=1e-12), form
        means = np.average(d.rows, weights=weight, axis=0)
        assert list(d.terms.values()) == pytest.approx(means.tolist(), rel=1e-10, abs=1e-10), form


@every_loss
@settings(max_examples=20)
@given(data=st.data())
def test_rows_may_be_permuted_repeated_dropped_and_scaled(loss, data):
    """Permutation; integer weights = repetition; zero weight = absent row; the scale of weights does not matter."""
    y, levels, weight, k = data.draw(chains(loss))
    classes = np.arange(k)
    full = Chain(y, levels, sample_weight=weight, classes=classes).decompose(loss)
    terms = full.terms

    def again(index, w):
        return Chain(y[index], [rows_of(level, index) for level in levels], sample_weight=w, classes=classes).decompose(
            loss
        )

    order = np.array(data.draw(st.permutations(range(len(y)))))
    permuted = again(order, weight[order])
    assert permuted.terms == pytest.approx(terms, rel=1e-12, abs=1e-12)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    assert again(repeated, None).terms == pytest.approx(terms, rel=1e-12, abs=1e-12)
    held = np.flatnonzero(weight)
    dropped = again(held, weight[held])
    assert dropped.terms == pytest.approx(terms, rel=1e-12, abs=1e-12)
    assert dropped.std_error == pytest.approx(full.std_error, rel=1e-9, abs=1e-12, nan_ok=True)
    scaled = again(np.arange(len(y)), weight * 1e-7)
    assert scaled.terms == pytest.approx(terms, rel=1e-12, abs=1e-12)
    assert scaled.std_error == pytest.approx(full.std_error, rel=1e-9, abs=1e-12, nan_ok=True)


def test_forms_are_the_formulas_of_the_design():
    """docs/design.md, 'How the rows are filled', written out for a chain of three with spreads."""
    y, (s, c, q), _ = sample()
    loss = get_loss("log")
    ls, lc, lq = (loss.loss(level.law, y) for level in (s, c, q))
    centre = c.folds.mean(axis=0)
    v = sum(loss.divergence(fold, centre) for fold in c.folds)
    chain = Chain(y, [s, c, q])
    np.testing.assert_allclose(
        chain.decompose("log", "difference").rows, np.stack([ls - lc, lc - lq, lq], axis=1), atol=1e-14
    )
    np.testing.assert_allclose(
        chain.decompose("log").rows, np.stack([ls - lc + v, lc - lq - v, lq], axis=1), atol=1e-14
    )
    plugin = np.stack([loss.divergence(s.law, c.law), loss.divergence(c.law, q.law), loss.entropy(q.law)], axis=1)
    d = chain.decompose("log", "plugin")
    np.testing.assert_allclose(d.rows[:, :3], plugin, atol=1e-14)
    np.testing.assert_allclose(d.rows[:, 3], ls - plugin.sum(axis=1), atol=1e-13)
    assert d.names == ("reliability", "grouping", "irreducible", "residual")
    assert d.residual == d.terms["residual"] != 0.0
    assert chain.decompose("log").residual == 0.0
    np.testing.assert_allclose(chain.decompose("log").level_losses, np.stack([ls, lc, lq], axis=1))
    np.testing.assert_allclose(chain.decompose("log").level_spreads, np.stack([0 * v, v, 0 * v], axis=1))


def test_three_classes_and_two_columns():
    y, levels, _ = sample(k=3)
    d = Chain(y, levels).decompose("brier")
    assert d.n_classes == 3
    assert "Σ_k" in repr(d)  # the scale of the Brier loss is said
    y, levels, _ = sample(k=2)
    wide = [
        Level(v.name, np.stack([1 - v.law, v.law], 1), None if v.folds is None else np.stack([1 - v.folds, v.folds], 2))
        for v in levels
    ]
    mixed = [levels[0], wide[1], levels[2]]
    for loss in ("brier", "log", "elementary", "tsallis"):
        expected = Chain(y, levels).decompose(loss).terms
        assert Chain(y, wide).decompose(loss).terms == pytest.approx(expected, abs=1e-13)
        assert Chain(y, mixed).decompose(loss).terms == pytest.approx(expected, abs=1e-13)


def test_default_names():
    y, levels, _ = sample()

    def names(*chain):
        return Chain(y, [Level(name, levels[0].law) for name in chain]).names

    assert names("S", "C") == ("reliability", "refinement")
    assert names("S", "C", "Q") == ("reliability", "grouping", "irreducible")
    assert names("S", "C", "Q", "Π") == ("reliability", "grouping", "heterogeneity", "noise")
    assert names("S", "C", "Q", "more") == ("reliability", "C → Q", "Q → more", "irreducible")
    assert names("S", "C", "bureau", "all") == ("reliability", "C → bureau", "bureau → all", "irreducible")
    assert names("S", "C", "bureau", "Z") == ("reliability", "C → bureau", "bureau → Z", "noise")
    named = Chain(y, levels, names=("a", "b", "c")).decompose("brier")
    assert named.names == ("a", "b", "c")
    for wrong in ("abc", ("a", "b"), ("a", "b", "b"), ("a", "b", 3), ("a", "b", "weight")):
        with pytest.raises(InputError, match="names must be 3 different strings"):
            Chain(y, levels, names=wrong)
    assert named.interval("b").method == "bracket, conditional on the reference class"


def test_labels_and_positive_class():
    y, levels, _ = sample()
    expected = Chain(y, levels).decompose("elementary").terms
    words = np.where(y == 1, "bad", "good")
    assert Chain(words, levels, pos_label="bad").decompose("elementary").terms == expected
    assert Chain(2 * y - 1, levels).decompose("elementary").terms == expected
    assert Chain(y == 1, levels).decompose("elementary").terms == expected
    wide = [Level(v.name, np.stack([v.law, 1 - v.law], axis=1)) for v in levels]  # columns: bad, good (sorted)
    one_way = Chain(words, wide, pos_label="bad").decompose("elementary", "difference").terms
    assert one_way == pytest.approx(Chain(y, levels).decompose("elementary", "difference").terms, abs=1e-15)
    other = Chain(words, wide, classes=["bad", "good"]).decompose("log", "difference").terms
    assert other == pytest.approx(Chain(y, levels).decompose("log", "difference").terms, abs=1e-13)


@pytest.mark.parametrize("positive", ["bad", "good"])
@pytest.mark.parametrize("shapes", ["vvv", "mmm", "vmv", "mvv", "vvm"])
def test_positive_class_in_any_mix_of_forms(positive, shapes):
    """1-D laws speak of pos_label, columns are in sorted order; any mix gives the same numbers (v: vector, m: matrix)."""
    y, levels, _ = sample()
    words = np.where(y == 1, positive, "good" if positive == "bad" else "bad")

    def matrix(law):
        columns = [law, 1 - law] if positive == "bad" else [1 - law, law]  # sorted: bad, good
        return np.stack(columns, axis=-1)

    mixed = [
        Level(v.name, matrix(v.law), None if v.folds is None else matrix(v.folds)) if shape == "m" else v
        for v, shape in zip(levels, shapes, strict=True)
    ]
    for loss in ("log", "elementary"):
        expected = Chain(y, levels).decompose(loss).terms
        assert Chain(words, mixed, pos_label=positive).decompose(loss).terms == pytest.approx(expected, abs=1e-12)
    reference = resolution_decomposition(y, levels[0].law, levels[1]).terms
    turned = resolution_decomposition(words, mixed[0].law, mixed[1], pos_label=positive).terms
    assert turned == pytest.approx(reference, abs=1e-12)


def test_columns_named_after_labels_go_by_name():
    import pandas as pd
    import polars as pl

    y, levels, _ = sample(4, k=3)
    words = np.array(["low", "medium", "high"])[y]
    natural = ["low", "medium", "high"]  # not the sorted order
    for loss in ("log", "ranked-probability"):
        expected = Chain(y, levels).decompose(loss).terms
        named = [Level(v.name, pl.DataFrame(v.law, schema=natural), v.folds) for v in levels]
        assert Chain(words, named).decompose(loss).terms == pytest.approx(expected, abs=1e-13)
        mixed = [Level(v.name, v.law, v.folds) for v in levels[:2]]
        shuffled = pd.DataFrame(levels[2].law, columns=natural)[["medium", "high", "low"]]
        both = Chain(words, [*mixed, Level("Q", shuffled)], classes=natural)
        assert both.decompose(loss).terms == pytest.approx(expected, abs=1e-13)
        ordered = pd.Series(pd.Categorical(words, categories=natural, ordered=True))
        assert Chain(ordered, levels).decompose(loss).terms == pytest.approx(expected, abs=1e-13)
    with pytest.raises(
        LabelError, match="probabilities with and without column names must agree on the order of the classes"
    ):
        Chain(words, [named[0], *mixed[1:], levels[2]])
    wrong = Level("C", pl.DataFrame(levels[1].law, schema=["low", "medium", "hihg"]))
    with pytest.raises(LabelError, match="the columns of level 'C' must be named after all labels or none"):
        Chain(words, [named[0], wrong], classes=natural)


def test_what_predict_proba_returns_in_a_frame():
    """Default, repeated and nested column names are positions."""
    import pandas as pd

    y, levels, _ = sample(4, k=3)
    expected = Chain(y, levels).decompose("log").terms
    for columns in (None, ["p", "p", "p"], pd.MultiIndex.from_tuples([("p", 0), ("p", 1), ("p", 2)])):
        framed = [Level(v.name, pd.DataFrame(v.law, columns=columns), v.folds) for v in levels]
        assert Chain(y, framed).decompose("log").terms == expected
    shifted = Chain(y + 1, [Level(v.name, pd.DataFrame(v.law), v.folds) for v in levels])
    assert shifted.decompose("log").terms == expected


def test_single_class_outcomes_work_where_the_mathematics_does():
    d = Chain([1, 1, 1], [Level("S", [0.5, 0.6, 0.7]), Level("C", [0.8, 0.9, 1.0])]).decompose("log")
    assert d.risk == pytest.approx(-np.log([0.5, 0.6, 0.7]).mean())
    assert (
        Chain(["a", "a"], [Level("S", [0.5, 0.6]), Level("C", [0.8, 0.9])], pos_label="b").decompose("brier").risk > 0
    )


# ── infinite losses ─────────────────────────────────────────────────────────────────────────────────────


def test_infinite_loss_of_the_prediction_is_reported_not_hidden():
    chain = Chain([1, 0, 1], [Level("S", [0.0, 0.5, 0.5]), Level("C", [0.7, 0.2, 0.6])])
    with pytest.warns(InfiniteLossWarning) as caught:
        d = chain.decompose("log")
    assert str(caught[0].message) == (
        "The log loss is infinite: in 1 of 3 rows (row 0) the observed outcome had probability 0. First keep scores away "
        "from 0 and 1 (any recalibration map except the identity does), or pass clip=1e-6 to judge them at that "
        "distance."
    )
    assert [one.message.finding for one in caught] == [d.findings[0]]
    assert (d.findings[0].kind, d.findings[0].n, d.findings[0].facts["rows"]) == ("infinite_loss", 1, [0])
    assert caught[0].filename == __file__
    assert d.risk == d.terms["reliability"] == np.inf
    assert np.isfinite(d.terms["refinement"])
    interval = d.interval("reliability")
    assert np.isnan([interval.low, interval.high, d.std_error["reliability"]]).all()
    assert d.notes[0] == str(caught[0].message)
    assert "∞" in repr(d)
    clipped = chain.decompose("log", clip=1e-3)
    assert clipped.clip == 1e-3
    assert "clipped to at least 0.001" in repr(clipped)
    assert clipped.risk == pytest.approx(-(np.log(1e-3) + 2 * np.log(0.5)) / 3)
    assert Decomposition.from_json(d.to_json()).to_json() == d.to_json()


def test_two_infinite_losses_are_not_subtracted():
    chain = Chain([1, 0], [Level("S", [0.0, 0.5]), Level("C", [0.0, 0.5])])
    with pytest.raises(
        InfiniteLossError, match=r"level 'C' must have a finite log loss .* infinite in 1 of 2 rows \(0\)"
    ):
        chain.decompose("log")
    with pytest.warns(InfiniteLossWarning):
        assert chain.decompose("log", "plugin").terms["reliability"] == 0.0


def test_an_infinite_loss_without_weight_is_absent():
    levels = [Level("S", [0.0, 0.5, 0.5]), Level("C", [0.0, 0.2, 0.6])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = Chain([1, 0, 1], levels, sample_weight=[0, 1, 1]).decompose("log")
    reference = Chain([0, 1], [Level("S", [0.5, 0.5]), Level("C", [0.2, 0.6])]).decompose("log")
    assert d.terms == pytest.approx(reference.terms)
    assert d.std_error == pytest.approx(reference.std_error)


def test_a_level_that_predicts_worse_is_called_out():
    rng = np.random.default_rng(8)
    q = rng.random(200)
    y = rng.random(200) < q
    d = Chain(y, [Level("S", q), Level("C", 1 - q)]).decompose("brier")
    assert d.interval("reliability").high == 0.0
    [found] = d.findings
    assert (found.kind, found.term, found.subject) == ("not_calibrated_version", "reliability", "C")
    assert found.text == (
        "Level C predicts significantly worse than S itself: it is not a calibrated version of it, and a reliability "
        "of 0 means no more than that."
    )
    few = Chain(y, [Level("S", q), Level("C", q)], groups=np.arange(200) // 20).decompose("brier")
    assert [(one.kind, one.n) for one in few.findings] == [("few_units", 10)]
    assert few.notes == ("Only 10 independent groups: below about 30, standard errors and intervals are too small.",)


# ── slices and comparisons ──────────────────────────────────────────────────────────────────────────────


def test_contributions_add_up_and_are_not_decompositions():
    """By hand: in A, (.4−.4)² − (.6−.4)² = −.04; in B, (.4−.8)² − (.6−.8)² = .12. S=.4, Q=(.4,.8), C=.6 gives A a mean 'reliability' of −.04 (Brier)."""
    # rows state × label with weight prob · law
    y, q, weight = np.array([0, 1, 0, 1]), np.array([0.4, 0.4, 0.8, 0.8]), np.array([0.3, 0.2, 0.1, 0.4])
    levels = [Level("S", [0.4] * 4), Level("C", [0.6] * 4), Level("Q", q)]
    parts = Chain(y, levels, sample_weight=weight).decompose("brier").contributions(["A", "A", "B", "B"])
    assert parts.segments == ("A", "B")
    assert parts.mean[:, 0] == pytest.approx([-0.04, 0.12], abs=1e-15)
    assert parts.values[:, 0] == pytest.approx([-0.02, 0.06], abs=1e-15)
    assert parts.terms["reliability"] == pytest.approx(0.04, abs=1e-15)
    assert parts.weight.tolist() == [0.5, 0.5]
    frame = parts.to_frame()
    assert frame.columns == ["segment", "weight", "reliability", "grouping", "irreducible"]
    assert "not decompositions" in repr(parts)
    assert parts.to_dict()["A"]["weight"] == 0.5
    assert parts._repr_html_().startswith("<figure")


@pytest.mark.parametrize("form", FORMS)
def test_minus_is_paired(form):
    y, levels, rng = sample(1)
    other = [Level("S", np.clip(levels[0].law + 0.1, 0, 1)), *levels[1:]]
    weight = rng.random(len(y))
    a, b = (Chain(y, v, sample_weight=weight).decompose("brier", form) for v in (levels, other))
    d = a.minus(b)
    rows = a.rows - b.rows
    np.testing.assert_allclose(d.rows, rows)
    for i, name in enumerate(a.names):
        mean = np.average(rows[:, i], weights=weight)
        error = np.sqrt(np.sum(weight**2 * (rows[:, i] - mean) ** 2)) / weight.sum()
        assert d.terms[name] == pytest.approx(mean, abs=1e-13)
        assert d.std_error[name] == pytest.approx(error, rel=1e-9, abs=1e-15)
        assert d.interval(name, method="clt").low == pytest.approx(mean - 1.959963984540054 * error, abs=1e-12)
    assert d.risk == a.risk - b.risk
    assert d.to_frame().columns == ["term", "difference", "std_error", "low", "high"]
    assert set(d.to_dict()) == set(a.names)


def test_minus_refuses_other_rows():
    y, levels, _ = sample(1)
    a = Chain(y, levels).decompose("brier")
    with pytest.raises(InputError, match="same rows; got different outcomes"):
        a.minus(Chain(1 - y, levels).decompose("brier"))
    with pytest.raises(InputError, match="same rows; got different groups"):
        a.minus(Chain(y, levels, groups=np.arange(len(y)) // 2).decompose("brier"))
    with pytest.raises(InputError, match="same rows; got different weights"):
        a.minus(Chain(y, levels, sample_weight=np.ones(len(y))).decompose("brier"))
    with pytest.raises(InputError, match="the same loss; got brier and log"):
        a.minus(Chain(y, levels).decompose("log"))
    with pytest.raises(InputError, match="the same clip; got None and 0.1"):
        a.minus(Chain(y, levels).decompose("brier", clip=0.1))
    with pytest.raises(InputError, match="the same form"):
        a.minus(Chain(y, levels).decompose("brier", "plugin"))
    with pytest.raises(InputError, match="other must be a Decomposition; got float"):
        a.minus(0.1)
    with pytest.raises(UnavailableError, match="this decomposition is a summary"):
        a.minus(Decomposition.from_json(a.to_json()))


# ── delivery ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["log", "tsallis", from_loss(lambda p, y: (p - y) ** 2, name="mine")], ids=str)
def test_json_round_trip(form, loss):
    y, levels, _ = sample(2)
    d = Chain(y, levels, groups=np.arange(len(y)) // 3).decompose(loss, form)
    text = d.to_json()
    back = Decomposition.from_json(text)
    assert back.to_json() == text
    assert json.loads(text)["schema_version"] == 4
    assert (back.terms, back.std_error, back.risk, back.names) == (d.terms, d.std_error, d.risk, d.names)
    assert back.interval("grouping") == d.interval("grouping")
    assert back.lower_bound("grouping") == d.lower_bound("grouping")
    assert repr(back) == repr(d)
    assert str(back.loss) == str(d.loss)
    with pytest.raises(UnavailableError, match="this decomposition is a summary .*, which holds no rows"):
        _ = back.rows
    if str(loss) == "mine":
        with pytest.raises(UnavailableError, match="the loss 'mine' was loaded by name only"):
            back.loss.loss([0.5], [1])


def test_json_is_strict():
    y, levels, _ = sample(2)
    text = Chain(y, levels).decompose("log").to_json()
    data = json.loads(text)
    for change, message in [
        ({"schema_version": 2}, "schema_version 4; got 2"),
        ({"schema_version": 3}, "schema_version 4; got 3"),
        ({"findings": ["a note"]}, "must fit together"),
        ({"findings": [{"kind": "hearsay"}]}, "must fit together; got ValueError: a finding of the kind 'hearsay'"),
        ({"findings": [{"kind": "clipped", "mood": 1}]}, "must fit together; got ValueError: a finding of the kind"),
        ({"extra": 1}, "unknown or missing: extra"),
        ({"mean": [1.0]}, "must fit together"),
        ({"roles": ["x", "y", "z"]}, "must fit together"),
        ({"n": "many"}, "must fit together; got TypeError: n of the type str"),
        ({"loss": {}}, "must fit together; got KeyError"),
        ({"ends": 1}, "must fit together; got TypeError: ends of another kind"),
        ({"ends": {**data["ends"], "degenerate": 0.1}}, "must fit together"),
        ({"ends": {**data["ends"], "skewness": "much"}}, "must fit together; got TypeError: skewness of the type str"),
        ({"muted": "grouping"}, "must fit together; got TypeError: muted of the type str"),
        ({"muted": [1]}, "must fit together"),
        ({"calibration_pvalue": "small"}, "must fit together; got TypeError: calibration_pvalue of the type str"),
        ({"loss": {"name": "tsallis", "label": "", "parameters": {"beta": 1}}}, "takes the parameters: alpha"),
    ]:
        with pytest.raises(InputError, match=message):
            Decomposition.from_json(json.dumps({**data, **change}))
    with pytest.raises(InputError, match="the JSON of a decomposition must hold finite numbers; got NaN"):
        Decomposition.from_json(text.replace('"n": 300', '"n": NaN'))
    for bad in ("{", "[]", b"\xff\xfe\x00", 3):
        with pytest.raises(InputError, match="JSON"):
            Decomposition.from_json(bad)


def test_frames_follow_the_input():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    y, levels, _ = sample(3)
    assert isinstance(Chain(y, levels).decompose().to_frame(), pl.DataFrame)
    assert isinstance(Chain(pd.Series(y), levels).decompose().to_frame(), pd.DataFrame)
    from_law = [Level("S", pa.array(levels[0].law)), *levels[1:]]
    assert isinstance(Chain(y, from_law).decompose().to_frame(), pa.Table)
    frame = Chain(pd.Series(y), levels).decompose().to_frame("polars")
    assert frame.columns == ["term", "estimate", "std_error", "low", "high", "share"]
    assert frame["share"].sum() == pytest.approx(1.0)
    with pytest.raises(InputError, match="backend must be one of pandas, polars, pyarrow, modin, cudf; got 'excel'"):
        Chain(y, levels).decompose().to_frame("excel")


def test_a_loss_that_only_borrows_a_name_is_not_mistaken_for_it():
    class Mine(LogLoss):
        def __str__(self):
            return "my log"

    y, levels, _ = sample(2)
    back = Decomposition.from_json(Chain(y, levels).decompose(Mine()).to_json())
    assert type(back.loss).__name__ == "OpaqueLoss"
    assert str(back.loss) == "my log"


def test_html_is_escaped_and_text_is_aligned():
    y, levels, _ = sample(3)
    d = Chain(y, levels, names=("<b>x</b>", "b & c", "rest")).decompose("log")
    assert "&lt;b&gt;x&lt;/b&gt;" in d._repr_html_()
    assert "<b>" not in d._repr_html_()
    title, *table, details = repr(d).splitlines()  # a heading, a rule, three terms
    assert len({len(line) for line in table}) == 1
    assert set(table[1]) == {"─"}
    assert title.startswith("log loss ")
    assert details.startswith("[")
    assert max(map(len, (title, *table, details))) <= 80
    assert repr(Chain(y, levels)) == "Chain(S → C → Q, 300 rows)"
    assert repr(levels[1]) == "Level('C', 300 rows, 2 classes, 5 folds)"


def test_results_are_frozen():
    y, levels, _ = sample(3)
    d = Chain(y, levels, sample_weight=np.ones(len(y))).decompose("log")
    for array in (d.level_losses, d.level_spreads, d.sample_weight, levels[0].law):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.5
    weight, prob = np.ones(len(y)), np.array([0.5, 0.5])
    weighted, model = Chain(y, levels, sample_weight=weight), FiniteModel(prob, [0.1, 0.2])
    weight[:], prob[:] = 9.0, 7.0  # what the user does with his arrays afterwards is his business
    assert weighted.decompose("log").sample_weight[0] == 1.0
    assert model.prob.tolist() == [0.5, 0.5]
    with pytest.raises(AttributeError):
        d.risk = 0.0
    with pytest.raises(AttributeError):
        levels[0].law = None


def test_a_total_is_over_the_rows_that_have_weight():
    """Each counts once, whatever its weight; a row of weight zero is absent (docs/design.md, Conventions)."""
    law, values = np.array([0.2, 0.5, 0.8]), np.array([1.0, 10.0, 100.0])
    assert Sample.of([0, 1, 1], law).total(values) == 111.0
    assert Sample.of([0, 1, 1], law, sample_weight=[2.0, 0.0, 0.5]).total(values[[0, 2]]) == 101.0


@pytest.mark.parametrize(
    ("kind", "value", "digits", "shown"),
    [
        ("count", 12345, 5, "12,345"),
        ("whole", 12345, 5, "12345"),  # a whole number may be a name: only rows are counted in thousands
        ("count", "some", 5, "some"),
        ("number", 0.0123456789, 8, "0.01234568"),
        ("number", -0.0123456789, 5, "−0.01235"),
        ("number", 12345.678, 2, "12,345.68"),
        ("pvalue", 0.0123456789, 8, "0.012"),  # a p-value has three decimals beside finer terms
        ("pvalue", 9.9e-4, 8, "< 0.001"),
        ("pvalue", 1e-3, 8, "0.001"),
        ("share", 0.12345, 5, "12.3 %"),
        ("number", float("nan"), 5, "–"),
        ("number", float("-inf"), 5, "−∞"),
        ("number", -1e-9, 5, "0.00000"),  # no minus before nothing
    ],
)
def test_cells_of_tables(kind, value, digits, shown):
    """Shares in percent, rows in groups of three digits, everything else to five decimals or more."""
    columns = (Column("name", "name", "text"), Column("cell", "cell", kind))
    assert Table("one", "One", columns, (("a", value),), "", digits).shown() == [["a", shown]]


def test_a_page_shows_names_at_the_left_and_rules_the_head():
    """HTML: a heading for each column and each line, names at the left, numbers at the right, a line below the head."""
    import re

    y, levels, _ = sample()
    page = Chain(y, levels).decompose("brier")._repr_html_()
    columns = re.findall(r'<th scope="col" style="([^"]*)">', page)
    names = re.findall(r'<th scope="row" style="([^"]*)">', page)
    numbers = re.findall(r'<td style="([^"]*)">', page)
    assert (len(names), len(numbers)) == (3, 3 * (len(columns) - 1))
    assert ["text-align:left" in style for style in columns] == [True] + [False] * (len(columns) - 1)
    assert all("border-bottom" in style for style in columns)
    assert all("text-align:left" in style and "font-weight:normal" in style for style in names)
    assert all("text-align:right" in style for style in numbers)
    assert not any("border-bottom" in style for style in (*names, *numbers))
