"""Sample: parsed once, the same checks everywhere, and taken by every public function in the place of y_true."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import scoreprism
from scoreprism import Level, Sample, calibration_test, compare, corp_decomposition, decompose, grouping_test
from scoreprism.curves import murphy_decomposition, reliability_curve, roc_curve
from scoreprism.exceptions import HardLabelsWarning, InputError, ScoreOrderWarning
from scoreprism.inference import corp_bootstrap, map_inference
from scoreprism.metrics import auc, ece, evaluate, ici


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    q = 1 / (1 + np.exp(-X.sum(axis=1)))
    return X, (rng.random(n) < q).astype(int), 1 / (1 + np.exp(-1.5 * X[:, 0])), q


#: Public functions of (y_true, y_proba), each as a call that gives numbers.
FUNCTIONS = {
    "decompose": lambda *args, **options: list(decompose(*args, loss="brier", **options).terms.values()),
    "calibration_test": lambda *args, **options: (
        calibration_test(*args, random_state=0, n_resamples=99, **options).pvalue
    ),
    "corp_decomposition": lambda *args, **options: list(corp_decomposition(*args, **options).terms.values()),
    "corp_bootstrap": lambda *args, **options: corp_bootstrap(
        *args, n_resamples=20, random_state=0, **options
    ).replicates.tolist(),
    "map_inference": lambda *args, **options: list(map_inference(*args, calibrator="platt", **options).terms.values()),
    "ece": lambda *args, **options: float(ece(*args, **options)),
    "ici": lambda *args, **options: float(ici(*args, **options)),
    "auc": lambda *args, **options: float(auc(*args, **options)),
    "evaluate": lambda *args, **options: (
        evaluate(*args, metrics=["ece", "ici", "auc", "brier_score"], **options)
        .to_frame("polars")["estimate"]
        .to_list()
    ),
    "reliability_curve": lambda *args, **options: reliability_curve(*args, **options).to_dict()["points"]["y"],
    "roc_curve": lambda *args, **options: roc_curve(*args, **options).to_dict()["points"]["tpr"],
    "murphy_decomposition": lambda *args, **options: murphy_decomposition(*args, **options).values.tolist(),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


@every_function
def test_a_sample_gives_what_its_arrays_give(name):
    _, y, s, _ = rows()
    w = np.arange(300) % 3 + 1.0
    assert FUNCTIONS[name](Sample.of(y, s, sample_weight=w)) == FUNCTIONS[name](y, s, sample_weight=w)


@every_function
def test_further_arguments_beside_a_sample_are_refused(name):
    _, y, s, _ = rows()
    with pytest.raises(InputError, match="a Sample holds predictions, features and weights already; got further ones"):
        FUNCTIONS[name](Sample.of(y, s), s)


@every_function
def test_rows_in_another_order_are_refused_everywhere(name):
    _, y, s, _ = rows()
    outcome, score = pd.Series(y), pd.Series(s).sample(frac=1.0, random_state=0)
    with pytest.raises(InputError, match="y_true and y_proba must have their rows in the same order"):
        FUNCTIONS[name](outcome, score)


@every_function
def test_predicted_labels_and_reversed_scores_are_warned_of_everywhere(name):
    _, y, s, _ = rows()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FUNCTIONS[name](y, np.where(s > 0.5, 1.0, 0.0))
    assert HardLabelsWarning in [one.category for one in caught]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FUNCTIONS[name](y, 1 - s)
    assert ScoreOrderWarning in [one.category for one in caught]


@every_function
def test_rows_of_weight_0_are_absent_everywhere(name):
    """What is computed from all rows with some weights 0 is what is computed without these rows."""
    _, y, s, _ = rows()
    w = np.where(np.arange(300) % 4 == 0, 0.0, 1.5)
    held = w > 0
    found, expected = FUNCTIONS[name](y, s, sample_weight=w), FUNCTIONS[name](y[held], s[held], sample_weight=w[held])
    assert np.ravel(found) == pytest.approx(np.ravel(expected), rel=1e-12, abs=1e-12, nan_ok=True)


def test_several_models_are_one_sample():
    X, y, s, q = rows()
    sample = Sample.of(y, {"a": s, "b": q}, X)
    assert list(sample.predictions) == ["a", "b"]
    assert (sample.kind, sample.dtype, sample.namespace) == ("probability", np.float64, np)
    assert sample.model("b").prediction.tolist() == q.tolist()
    with pytest.raises(InputError) as caught:
        decompose(sample)
    assert str(caught.value) == (
        "a Sample must hold one model here; got 2: a, b. Pass sample.model('a'), or use compare."
    )
    with pytest.raises(InputError, match="name must be one of a, b; got 'c'"):
        sample.model("c")
    found = compare(y, {"a": s, "b": q}, random_state=0).decompositions["a"].risk
    assert decompose(sample.model("a")).risk == found


def test_values_come_back_in_the_rows_that_came():
    _, y, s, _ = rows(20)
    w = np.ones(20)
    w[[3, 7]] = 0
    sample = Sample.of(y, s, sample_weight=w)
    assert (sample.n, sample.n_given, sample.n_held) == (18, 20, 18)
    assert sample.kept.tolist() == [i for i in range(20) if i not in (3, 7)]
    back = sample.by_given_row(sample.prediction)
    assert np.isnan(back[[3, 7]]).all()
    assert np.delete(back, [3, 7]).tolist() == np.delete(s, [3, 7]).tolist()
    assert sample.describe(np.arange(18) == 3) == "1 of 18 rows (4)"  # the fourth row that is left was the fifth


def test_terms_are_weighted_means_of_the_rows_that_came():
    _, y, s, _ = rows(200)
    w = np.where(np.arange(200) < 20, 0.0, 2.0)
    d = decompose(y, s, sample_weight=w, loss="brier")
    assert d.n == 180
    assert d.rows.shape == (200, 2)
    assert d.sample_weight.tolist() == w.tolist()
    assert np.average(d.rows, axis=0, weights=w) == pytest.approx(list(d.terms.values()), abs=1e-14)
    segments = np.where(np.arange(200) % 2, "odd", "even")
    parts = d.contributions(segments).to_frame("polars")
    assert parts["reliability"].sum() == pytest.approx(d.terms["reliability"], abs=1e-14)


def test_splits_of_ones_own_speak_of_the_rows_that_came():
    """A splitter is given all rows, those of weight 0 too, so that its numbers mean what its maker meant."""
    _, y, s, _ = rows(200)
    w = np.where(np.arange(200) < 20, 0.0, 1.0)
    fold = np.arange(200) % 4
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    inside = [(train[train >= 20] - 20, test[test >= 20] - 20) for train, test in splits]
    found = decompose(y, s, sample_weight=w, cv=splits, loss="brier")
    expected = decompose(y[20:], s[20:], sample_weight=w[20:], cv=inside, loss="brier")
    assert found.terms == pytest.approx(expected.terms, abs=1e-14)


def test_one_class_against_the_rest_and_the_top_label():
    law = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    sample = Sample.of(["x", "y", "x"], law, q=law[::-1], classes=["x", "y", "z"])
    second = sample.one_vs_rest(1)
    assert second.y.tolist() == [0, 1, 0]
    assert second.prediction.tolist() == [0.3, 0.6, 0.2]
    assert second.levels[0].law.tolist() == [0.2, 0.6, 0.3]
    assert second.classes.tolist() == ["not y", "y"]
    top = sample.top_label()
    assert (top.y.tolist(), top.prediction.tolist()) == ([1, 1, 0], [0.5, 0.6, 0.6])


def test_what_belongs_to_rows_travels_with_them():
    X, y, s, q = rows(40)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    sample = Sample.of(
        y, s, frame, levels={"first": "a", "known": Level("q", q)}, groups=np.arange(40) // 2, segments=np.arange(40) % 3,
        time=[f"2026-01-{1 + i // 2:02d}" for i in range(40)],
    )  # fmt: skip
    some = sample.take(np.array([5, 0]))
    assert some.y.tolist() == y[[5, 0]].tolist()
    assert some.X["a"].to_list() == X[[5, 0], 0].tolist()
    assert [level.name for level in some.levels] == ["first", "known", "Q"]
    assert some.levels[0].columns[0].tolist() == X[[5, 0], 0].tolist()
    assert some.levels[1].law.tolist() == q[[5, 0]].tolist()
    assert some.groups.tolist() == [2, 0]
    assert some.segments["segment"].tolist() == [2, 0]
    assert some.time.astype(str).tolist() == ["2026-01-03T00:00:00.000000", "2026-01-01T00:00:00.000000"]


def test_a_fitted_model_is_applied_to_the_features():
    X, y, _, _ = rows()
    model = LogisticRegression().fit(X[:100], y[:100])
    sample = Sample.of(y[100:], model, X[100:])
    assert list(sample.predictions) == ["LogisticRegression"]
    assert sample.prediction[:, 1].tolist() == model.predict_proba(X[100:])[:, 1].tolist()


def test_grouping_test_takes_a_sample_with_features():
    X, y, s, _ = rows()
    assert grouping_test(Sample.of(y, s, X)).pvalue == grouping_test(y, s, X).pvalue
    with pytest.raises(InputError, match="grouping_test must have X; got None"):
        grouping_test(Sample.of(y, s))


def test_laws_of_a_chain_decompose_any_loss_and_travel():
    """One fit, every loss: what `decompose` gives for a loss is what the chain of another one gives."""
    X, y, s, _ = rows()
    first = decompose(y, s, X, loss="log", reference="logistic")
    again = first.chain.decompose("brier")
    asked = decompose(y, s, X, loss="brier", reference="logistic")
    assert again.terms == asked.terms
    assert again.interval("reliability", method="envelope") == asked.interval("reliability", method="envelope")
    assert again.notes == asked.notes
    back = pickle.loads(pickle.dumps(first))  # noqa: S301 - our own
    assert back.chain.decompose("brier").terms == asked.terms


def test_nothing_is_fitted_to_sums():
    _, y, s, _ = rows()
    table = pl.DataFrame({"y": y, "s": np.round(s, 2)})
    summed = scoreprism.scale.decompose(table, target="y", score="s", loss="brier")
    with pytest.raises(InputError, match="decompose must have single rows; got sums over rows"):
        decompose(summed.chain.sample)
    assert repr(summed.chain.sample) == "Sample(300 rows, summed, 2 classes, model model)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], None), "y_proba must be given; got None. Pass probabilities, a fitted classifier, or a Sample as y_true."),
        (([0, 1], {}), "y_proba must hold at least one model; got an empty mapping. For example {'forest': p}."),
        (([0, 1], {"1": [0.1, 0.2], 1: [0.1, 0.2]}), "models must have different names; got ['1', 1]. Rename one of them."),
        (
            ([0, 1], {"a": [0.1, 0.2], "b": [0.1, 0.2, 0.3]}),
            "y_proba['b'] and y_proba['a'] must have the same number of rows; got 3 and 2. Pass one entry per row in both.",
        ),
        (
            ([0, 1], {"a": [0.1, 0.2], "b": [[0.1, 0.2, 0.7]] * 2}),
            "y_proba['b'] must have as many classes as y_proba['a']; got 3 and 2. Write both over the same outcome.",
        ),
        (
            ([0, 1], {"a": [0.1, 0.2], "b": [0.1, 1.2]}),
            (
                "y_proba['b'] must hold probabilities between 0 and 1; got 1.2 in row 1 (1 of 2 rows outside). "
                "If these are logits, declare them with scoreprism.Logits."
            ),
        ),
    ],
)  # fmt: skip
def test_refusals(arguments, message):
    with pytest.raises(InputError) as caught:
        Sample.of(*arguments)
    assert str(caught.value) == message


def test_columns_of_a_shuffled_frame_are_refused_wherever_they_come(tmp_path):
    """Rows go by position: an index with the same labels in another order is a slip, whichever argument has it."""
    X, y, s, _ = rows(60)
    order = np.random.default_rng(0).permutation(60)
    segment, moment = pd.Series(np.arange(60) % 2), pd.Series(pd.date_range("2026-01-01", periods=60))
    first = pd.DataFrame(X)
    outcome, score = pd.Series(y), pd.Series(s)
    for options in (
        {"segments": segment.iloc[order]},
        {"segments": {"half": segment.iloc[order]}},
        {"time": moment.iloc[order]},
        {"levels": {"first": first.iloc[order]}},
    ):
        with pytest.raises(InputError, match="must have their rows in the same order"):
            Sample.of(outcome, score, **options)
    with pytest.raises(InputError, match="calibration scores and calibration y must have their rows in the same order"):
        decompose(outcome, score, calibration=(score, outcome.iloc[order]))


def test_a_level_of_features_may_be_called_as_a_latent_state_is():
    X, y, s, _ = rows(200)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    d = decompose(y, s, frame, levels={"first": "a", "Z": ["a", "b"]}, reference="logistic")
    assert d.names == ("reliability", "C → first", "first → Z", "irreducible")


def test_odd_calls_get_clear_answers():
    X, y, s, _ = rows(40)
    sample = Sample.of(y, s)
    for call, message in (
        (lambda: Sample(y, s), "a Sample is made by Sample.of; got arrays that nobody has parsed. "),
        (lambda: sample.take(np.array([True, False])), "`the mask` and the sample must have the same number of rows"),
        (lambda: sample.one_vs_rest(7), "code must be the position of a class, 0 to 1; got 7. See classes."),
        (lambda: sample.model("Model"), "name must be one of model; got 'Model'. Pass the name of a model."),
        (lambda: decompose(y, s, reference=pd.DataFrame(X)), "reference must come with features to learn from"),
        (lambda: decompose(y, s, calibrator=pd.DataFrame(X)), "calibrator must be one of "),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value).replace("`", "").startswith(message.replace("`", ""))
    assert sample.take([0, 1]).n == 2
    assert Sample.of(y, s, time=["2026-13-45"] * 40).time.dtype.kind in "UO"


def test_segments_of_a_sample_by_name_or_by_row():
    _, y, s, _ = rows(300)
    labels = np.where(np.arange(300) % 2, "odd", "even")
    w = np.where(np.arange(300) < 30, 0.0, 1.0)
    expected = scoreprism.decompose_by(y, s, segments=labels, sample_weight=w, loss="brier")
    sample = Sample.of(y, s, sample_weight=w, segments={"half": labels})
    for segments in ("half", labels, pd.DataFrame({"half": labels}), {"half": labels}):
        found = scoreprism.decompose_by(sample, segments=segments, loss="brier")
        assert {k: d.terms for k, d in found.decompositions.items()} == {
            k: d.terms for k, d in expected.decompositions.items()
        }


def test_segments_must_be_one_column():
    _, y, s, _ = rows(60)
    for given, message in (
        (
            None,
            "segments must give the segment of each row, by keyword; got None. Call decompose_by(y_true, y_proba, X, segments=labels).",
        ),
        ({"a": y, "b": y}, "segments must be one column of labels; got 2 columns. Call decompose_by once for each."),
        ({}, "segments must be one column of labels; got 0 columns. Call decompose_by once for each."),
    ):
        for arguments in ((y, s), (Sample.of(y, s),)):
            with pytest.raises(InputError) as caught:
                scoreprism.decompose_by(*arguments, segments=given)
            assert str(caught.value) == message


def test_resolution_and_the_partition_bound_take_a_sample():
    X, y, s, q = rows(300)
    for arguments in ((y, s), (Sample.of(y, s),)):
        with pytest.raises(InputError, match=r"calibrated must be given; got None\."):
            scoreprism.resolution_decomposition(*arguments)
    one = scoreprism.resolution_decomposition(y, s, q, loss="brier")
    assert scoreprism.resolution_decomposition(Sample.of(y, s), calibrated=q, loss="brier").terms == one.terms
    bound = scoreprism.references.partition_lower_bound(y, s, X, random_state=0)
    assert scoreprism.references.partition_lower_bound(Sample.of(y, s, X), random_state=0) == bound
