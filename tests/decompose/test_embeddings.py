"""Embeddings, more than 100 columns of numbers: what is kept, what is found, and what is not."""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp, softmax

from scoreprism import Logits, Sample, decompose, grouping_test
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss
from scoreprism.references import StackedReference
from scoreprism.report import make_report

#: Few rows for so many columns: laws of folds differ, which is said, and bounds allow for it.
pytestmark = pytest.mark.filterwarnings("ignore::scoreprism.exceptions.OverfitWarning")

#: Scores here are calibrated; a map of one number is enough where C is not what is tried.
QUICK = {"calibrator": "temperature"}
#: What the note says of the default for embeddings.
DEFAULT = "a stack of calibrated, probe, neighbours"


def mixture(n, d=128, k=3, seed=0, bumps=1):
    """Gaussians of unit variance around centres of each class: X, y, P(Y | first 4 columns) and P(Y | X), both exact."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(k, bumps, 12)) * (0.6 if bumps == 1 else 2.0)
    y, bump = rng.integers(0, k, n), rng.integers(0, bumps, n)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, :12] += centers[y, bump]

    def law(columns):
        at = centers[..., :columns]
        logs = np.einsum("nj,kbj->nkb", X[:, :columns], at) - 0.5 * (at**2).sum(axis=-1)
        return softmax(logs[:, :, 0] if bumps == 1 else logsumexp(logs, axis=2), axis=1)

    return X, y, law(4), law(12)


@cache
def true_grouping(k=3, bumps=1, n=200_000):
    _, _, c, q = mixture(n, 12, k, seed=1, bumps=bumps)
    return float(get_loss("log").divergence(c, q).mean())


def narrow(law):
    return law[:, 1] if law.shape[1] == 2 else law


def learner_of(d):
    """What the notes of a decomposition say of the reference."""
    return next(one.subject for one in d.findings if one.kind == "law_fitted" and one.level == 2)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_array_of_many_columns_is_kept_as_it_is(kind):
    X = np.random.default_rng(0).normal(size=(50, 101)).astype(kind)
    (block,) = Sample.of(np.arange(50) % 2, np.full(50, 0.5), X).levels
    assert np.shares_memory(block.columns[7], X)
    assert block.columns[7].dtype == kind
    assert block.take(np.array([3, 1])).columns[100].tolist() == X[[3, 1], 100].tolist()


@pytest.mark.parametrize("k", [2, 3])
def test_the_default_finds_most_of_the_grouping_and_its_bound_holds(k):
    X, y, c, _ = mixture(3000, k=k)
    d, truth = decompose(y, narrow(c), X), true_grouping(k)
    assert learner_of(d) == DEFAULT
    assert 0.6 * truth < d.terms["grouping"] < 1.1 * truth
    assert 0.3 * truth < d.lower_bound("grouping").value < truth


def test_nothing_is_found_where_the_score_knows_everything():
    X, y, _, q = mixture(3000)
    d = decompose(y, q, X)
    assert d.lower_bound("grouping").value <= 0.0
    assert abs(d.terms["grouping"]) < 0.01


def test_a_hundred_columns_keep_the_stack_of_few():
    X, y, c, _ = mixture(120, d=101, k=2)
    assert "boosting" in learner_of(decompose(y, c[:, 1], X[:, :100], cv=2))
    assert learner_of(decompose(y, c[:, 1], X, cv=2)) == DEFAULT
    frame = pd.DataFrame(X).assign(word=np.where(y == 1, "a", "b"))
    assert "boosting" in learner_of(decompose(y, c[:, 1], frame, cv=2))  # text is for the stack


def test_units_constants_missing_and_double_precision_change_next_to_nothing():
    X, y, c, _ = mixture(1500)
    whole = decompose(y, c, X, **QUICK).terms["grouping"]
    # single precision has seven digits; the search of the probe ends a millionth above its minimum
    assert decompose(y, c, X.astype(np.float64), **QUICK).terms["grouping"] == pytest.approx(whole, abs=1e-4)
    assert decompose(y, c, X.astype(np.float64) * 1e9 - 4e9, **QUICK).terms["grouping"] == pytest.approx(
        whole, abs=1e-3
    )
    more = np.column_stack([X, np.full((1500, 3), [0.0, 1e30, np.nan], dtype=np.float32)])
    assert decompose(y, c, more, **QUICK).terms["grouping"] == pytest.approx(whole, abs=1e-4)
    holes = X.copy()
    holes[::100, 20] = np.nan
    holes[1::100, 21] = np.inf
    assert decompose(y, c, holes, **QUICK).terms["grouping"] == pytest.approx(whole, abs=0.01)


def test_the_order_of_rows_and_turned_axes_hardly_matter():
    X, y, c, _ = mixture(1000)
    order = np.random.default_rng(1).permutation(1000)
    whole, permuted = decompose(y, c, X, **QUICK), decompose(y[order], c[order], X[order], **QUICK)
    assert permuted.terms["grouping"] == pytest.approx(whole.terms["grouping"], abs=2e-3)


def test_weights_of_zero_are_rows_that_are_absent():
    X, y, c, _ = mixture(1200)
    weight = np.r_[np.ones(1000), np.zeros(200)]
    found = decompose(y, c, X, sample_weight=weight, **QUICK).terms["grouping"]
    assert found == pytest.approx(decompose(y[:1000], c[:1000], X[:1000], **QUICK).terms["grouping"], abs=1e-4)


@pytest.mark.parametrize("columns", [12, 150])
def test_neighbours_see_what_no_line_separates(columns):
    """Two bumps for each class: on the 12 columns that say something; among 150 they are lost, and the bound holds."""
    X, y, c, _ = mixture(3000, max(columns, 12), bumps=2)
    X, truth = X[:, :columns], true_grouping(bumps=2)
    near = decompose(y, c, X, reference="neighbours", **QUICK)
    assert near.lower_bound("grouping").value < truth
    if columns == 12:
        assert near.terms["grouping"] > 0.5 * truth


def test_no_row_votes_for_itself():
    """Outcomes drawn without regard to X: a law that knew its own training rows would predict them too well."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 120)), rng.integers(0, 2, 800)
    law = StackedReference("neighbours").fit(X, y).predict_proba(X[:400] + 1e-9)
    assert np.abs(law - 0.5).max() < 0.2
    d = decompose(y, np.full(800, 0.5), X, reference="neighbours")
    assert abs(d.terms["grouping"]) < 0.01


def test_neighbours_of_two_classes_vote_for_the_class_that_occurred():
    """Y = 1 with probability .9 in two quadrants and .1 in the others: columns of two classes in their order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < np.where(X[:, 0] * X[:, 1] > 0, 0.9, 0.1)).astype(int)
    law = StackedReference("neighbours").fit(X, y).predict_proba(X)[:, 1]
    assert law[y == 0].mean() < 0.4 < 0.6 < law[y == 1].mean()


def test_new_rows_get_the_law_that_rows_of_a_fold_get():
    """Neighbours picked from one search of all rows, against a search for new rows; the stack has no other difference."""
    X, y, c, q = mixture(2000)
    fitted = StackedReference(("probe", "neighbours")).fit(X[:1500], y[:1500], y_proba=c[:1500])
    law = fitted.predict_proba(X[1500:], y_proba=c[1500:])
    loss = get_loss("log")
    new = np.mean(loss.evaluate(c[1500:], y[1500:]) - loss.evaluate(law, y[1500:]))
    assert new == pytest.approx(decompose(y, c, X).terms["grouping"], abs=0.08)  # 500 rows: a standard error of .02
    assert loss.divergence(law, q[1500:]).mean() < loss.divergence(c[1500:], q[1500:]).mean() / 2
    with pytest.raises(
        InputError,
        match=re.escape("columns of X must hold numbers, as in fit; got text in column 127. Pass the same features."),
    ):
        fitted.predict_proba(pd.DataFrame(X[:5]).assign(**{"127": list("abcde")}).drop(columns=127), y_proba=c[:5])


def test_a_hundred_classes_have_a_probe_of_low_rank():
    X, y, c, _ = mixture(2500, d=200, k=100)  # of fewer than 193 columns the rank is that of the columns
    truth = true_grouping(100, n=50_000)  # known to a hundredth of itself
    d = decompose(y, c, X, reference=StackedReference(("calibrated", "probe")), **QUICK)
    assert 0.2 * truth < d.terms["grouping"] < truth
    assert d.lower_bound("grouping").value < truth


def test_levels_of_few_columns_and_of_embeddings_nest():
    X, y, c, _ = mixture(1500)
    d = decompose(y, c, levels={"few": X[:, :6], "all": X, "again": X + np.float32(1)}, cv=3, **QUICK)
    assert [one.subject for one in d.findings if one.kind == "law_fitted" and one.level == 2][1] == DEFAULT
    assert d.terms[d.names[1]] > 0.0
    assert abs(d.terms[d.names[3]]) < 0.02  # the same columns, moved, say nothing more


def test_members_for_few_columns_take_many():
    """On 101 columns, of which the last is constant, the logistic member finds what it finds on 100."""
    X, y, c, _ = mixture(600, d=100, k=2)
    wide = np.column_stack([X.astype(np.float64), np.zeros(600)])
    found = [decompose(y, c[:, 1], one, reference="logistic").terms["grouping"] for one in (X, wide)]
    assert found[1] == pytest.approx(found[0], abs=2e-3)  # the ridge counts the constant column too


@pytest.mark.parametrize("method", ["projected-covariance", "bootstrap"])
def test_the_grouping_test_of_embeddings(method):
    X, y, c, q = mixture(600, d=101, k=2)
    lost = grouping_test(y, c[:, 1], X, method=method, n_resamples=19, random_state=0)
    assert lost.pvalue <= 0.05
    assert grouping_test(y, q[:, 1], X, method=method, n_resamples=19, random_state=0).pvalue > 0.05


def test_a_report_judges_unnamed_columns_together():
    X, y, c, _ = mixture(600, d=101, k=2)
    report = make_report(y, c[:, 1], X, sections=["grouping"], cv=2)
    assert not [one.key for one in report["grouping"].tables if one.key.startswith(("features", "regions"))]
    text = report.to_markdown() if hasattr(report, "to_markdown") else str(report)
    assert "The 101 features have no names: they are judged together, not each alone or by region." in text


def test_logits_and_an_embedding():
    X, y, c, _ = mixture(600)
    by_logits, by_law = decompose(y, Logits(np.log(c)), X, **QUICK), decompose(y, c, X, **QUICK)
    assert by_logits.terms["grouping"] == pytest.approx(by_law.terms["grouping"], abs=1e-4)
