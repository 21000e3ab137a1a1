"""Every way in: what is accepted gives the same numbers, what is not is refused with rule, arrival and remedy."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import scoreprism
from scoreprism import Chain, FiniteModel, Level, calibration_test, corp_decomposition, decompose, make_report
from scoreprism.curves import reliability_curve
from scoreprism.exceptions import InputError, LabelError, NestingError, ScoreprismError
from scoreprism.losses import Brier, LogLoss
from scoreprism.metrics import evaluate, ici

P = [0.25, 0.5, 0.75, 1.0]
Y = [0, 1, 1, 1]
EXPECTED = corp_decomposition(Y, P, loss="brier").terms


def memory_map(tmp_path):
    path = tmp_path / "p.npy"
    np.save(path, np.array(P))
    return np.load(path, mmap_mode="r")


def read_only():
    p = np.array(P)
    p.flags.writeable = False
    return p


@pytest.mark.parametrize(
    "p",
    [
        P,
        tuple(P),
        np.array(P),
        np.array(P, dtype=np.float32),
        np.array(P, dtype=np.float16),
        np.array(P, dtype=np.longdouble),
        np.array(P)[:, None],
        np.stack([1 - np.array(P), P], axis=1),
        np.asfortranarray(np.stack([1 - np.array(P), P], axis=1)),
        np.repeat(P, 2)[::2],
        np.array(P[::-1])[::-1],
        np.array(P, dtype=">f8"),
        np.ma.array(P, mask=False),
        read_only(),
        pd.Series(P, index=[5, 3, 3, 1]),
        pd.Series(P, dtype="Float64"),
        pd.DataFrame({"no": 1 - np.array(P), "yes": P}),
        pl.Series(P),
        pl.DataFrame({"no": 1 - np.array(P), "yes": P}),
        pa.array(P),
        pa.chunked_array([P[:1], P[1:]]),
        pa.table({"no": 1 - np.array(P), "yes": P}),
    ],
    ids=lambda v: type(v).__module__.split(".")[0] + "-" + type(v).__name__ + "-" + str(getattr(v, "dtype", "")),
)
def test_probabilities_in_every_form(p):
    assert corp_decomposition(Y, p, loss="brier").terms == pytest.approx(EXPECTED, abs=1e-15)


def test_memory_mapped_probabilities(tmp_path):
    assert corp_decomposition(Y, memory_map(tmp_path), loss="brier").terms == EXPECTED


def test_integer_probabilities():
    assert Brier().loss(np.array([0, 1, 1]), [0, 0, 1]).tolist() == [0.0, 1.0, 0.0]
    assert Brier().loss(np.array([True, False]), [1, 1]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (Y, {}),
        ([False, True, True, True], {}),
        ([-1, 1, 1, 1], {}),
        ([0.0, 1.0, 1.0, 1.0], {}),
        (np.array(Y, dtype=np.uint8), {}),
        (np.array(Y, dtype=object), {}),
        (["no", "yes", "yes", "yes"], {"pos_label": "yes"}),
        ([2, 1, 1, 1], {"pos_label": 1}),
        ([2, 1, 1, 1], {"classes": [2, 1]}),
        (np.array(["no", "yes", "yes", "yes"], dtype=object), {"classes": ["no", "yes"]}),
        (pd.Series(["no", "yes", "yes", "yes"], dtype="category"), {"pos_label": "yes"}),
        (pd.Series(["no", "yes", "yes", "yes"], dtype="string"), {"pos_label": "yes"}),
        (pd.Series(Y, dtype="Int64"), {}),
        (pd.Series([False, True, True, True], dtype="boolean"), {}),
        (pl.Series(["no", "yes", "yes", "yes"], dtype=pl.Categorical), {"pos_label": "yes"}),
        (pl.Series(Y), {}),
        (pa.array(["no", "yes", "yes", "yes"]), {"pos_label": "yes"}),
        (
            pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-02", "2026-01-02"]).to_numpy(),
            {"classes": np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")},
        ),
    ],
    ids=lambda v: (
        type(v).__module__.split(".")[0] + "-" + str(getattr(v, "dtype", v)) if not isinstance(v, dict) else ",".join(v)
    ),
)
def test_labels_in_every_form(y, options):
    assert corp_decomposition(y, P, loss="brier", **options).terms == EXPECTED


NAN, INF = float("nan"), float("inf")
LOGITS = "If these are logits, declare them with scoreprism.Logits."
MISSING = "Drop or impute these rows first."


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (
            [0.1, NAN, 0.3, NAN],
            f"y_proba must be finite; got nan in row 1 (2 of 4 rows with NaN or infinities). {MISSING}",
        ),
        (
            [0.1, 0.2, INF, 0.3],
            f"y_proba must be finite; got inf in row 2 (1 of 4 rows with NaN or infinities). {MISSING}",
        ),
        (
            [0.1, None, 0.3, 0.4],
            f"y_proba must have no missing values; got 1 of 4 rows missing or NaN (row 1). {MISSING}",
        ),
        (
            pd.Series([0.1, pd.NA, 0.3, 0.4], dtype="Float64"),
            f"y_proba must have no missing values; got 1 of 4 rows missing or NaN (row 1). {MISSING}",
        ),
        (
            pl.Series([0.1, None, 0.3, None]),
            f"y_proba must have no missing values; got 2 of 4 rows missing or NaN (row 1, 3). {MISSING}",
        ),
        (
            pa.array([0.1, None, 0.3, 0.4]),
            f"y_proba must have no missing values; got 1 of 4 rows missing or NaN (row 1). {MISSING}",
        ),
        (
            np.ma.array(P, mask=[0, 0, 1, 0]),
            f"y_proba must have no missing values; got 1 of 4 rows missing or NaN (row 2). {MISSING}",
        ),
        (
            [0.1, -2.5, 0.3, 4.0],
            f"y_proba must hold probabilities between 0 and 1; got -2.5 in row 1 (2 of 4 rows outside). {LOGITS}",
        ),
        (
            [0.1, 1.0 + 1e-9, 0.3, 0.4],
            "y_proba must hold probabilities between 0 and 1; got 1.000000001 in row 1 (1 of 4 rows outside). If this is rounding, use np.clip(p, 0, 1).",
        ),
        (
            [12.0, 50.0, 99.0, 3.0],
            "y_proba must hold probabilities between 0 and 1; got 12.0 in row 0 (4 of 4 rows outside). If these are percentages, divide by 100.",
        ),
        (
            [[0.5, 0.5], [0.3, 0.3], [1, 0], [0, 1]],
            f"y_proba must have rows that sum to 1 within 1e-06; got 0.6 in row 1 (1 of 4 rows). Divide each row by its sum if that is what you mean. {LOGITS}",
        ),
        (
            np.array(P) + 0j,
            "y_proba must hold real numbers; got complex numbers. Convert with .astype(float) if these are numbers.",
        ),
        (
            ["0.1", "0.2", "0.3", "0.4"],
            "y_proba must hold real numbers; got strings. Convert with .astype(float) if these are numbers.",
        ),
        (
            np.array(P, dtype=object),
            "y_proba must hold real numbers; got dtype object. Convert with .astype(float) if these are numbers.",
        ),
        (
            sparse.csr_array([[0.5, 0.5]] * 4),
            "y_proba must be a dense array; got a sparse csr_array. Call .toarray() first.",
        ),
        (
            [0.1, 0.2, 0.3],
            "y_true and y_proba must have the same number of rows; got 4 and 3. Pass one entry per row in both.",
        ),
        ([], "y_proba must not be empty; got shape (0,). Pass at least one row."),
        (
            np.zeros((4, 0)),
            "y_proba must have shape (n,) or (n, K); got shape (4, 0). Pass one row per case, one column per class.",
        ),
        (
            np.zeros((4, 2, 2)),
            "y_proba must have shape (n,) or (n, K); got shape (4, 2, 2). Pass one row per case, one column per class.",
        ),
        (
            None,
            "y_proba must be given; got None. Pass probabilities, a fitted classifier, or a Sample as y_true.",
        ),
        (pl.LazyFrame({"a": P}), "scoreprism reads eager frames here; got a lazy LazyFrame. Call .collect() first."),
    ],
    ids=range(21),
)
def test_bad_probabilities(p, message):
    with pytest.raises(InputError) as caught:
        corp_decomposition(Y, p)
    assert str(caught.value) == message


def test_ragged_probabilities():
    with pytest.raises(
        InputError, match="y_proba must be a rectangular array; got list .* Give every row the same length."
    ):
        corp_decomposition(Y, [[0.1, 0.9], [0.5], [0.2, 0.8], [0, 1]])


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1, NAN, 1], {}, f"y_true must have no missing values; got 1 of 4 rows missing or NaN (row 2). {MISSING}"),
        (
            ["a", None, "b", "a"],
            {},
            f"y_true must have no missing values; got 1 of 4 rows missing or NaN (row 1). {MISSING}",
        ),
        (
            pd.Series([0, pd.NA, 1, 1], dtype="Int64"),
            {},
            f"y_true must have no missing values; got 1 of 4 rows missing or NaN (row 1). {MISSING}",
        ),
        ([[0], [1], [1], [1]], {}, "y_true must be one-dimensional; got shape (4, 1). Use .ravel()."),
        (
            np.eye(2)[[0, 1, 1, 1]],
            {},
            "y_true must be one-dimensional; got shape (4, 2). Use .argmax(axis=1) for one-hot rows.",
        ),
        ([], {}, "y_true must not be empty; got 0 rows. Pass at least one row."),
        (
            [0, "a", 1, "b"],
            {},
            "y_true must hold labels of one sortable kind; got a mix of int, str. Convert them to one type.",
        ),
        (pl.Series([[0], [1], [1], [1]]), {}, None),
        ([0, 1, 0, 1], {"pos_label": np.array([0, 1])}, None),
        (
            np.array([0, "a", 1, "b"], dtype=object),
            {},
            "y_true must hold labels of one sortable kind; got a mix of int, str. Convert them to one type.",
        ),
        (
            [0, 1, 2, 1],
            {},
            "y_true must have at most as many labels as the probabilities have classes (2); got 3 labels: [0, 1, 2]. Pass probabilities of shape (n, K), or y_true == label for one class against the rest.",
        ),
        (
            ["no", "yes", "no", "yes"],
            {},
            "y_true must show which label is the positive class of 1-D probabilities; got the labels ['no', 'yes']. Pass pos_label='yes' (or the other one).",
        ),
        (
            [1, 2, 1, 2],
            {},
            "y_true must show which label is the positive class of 1-D probabilities; got the labels [1, 2]. Pass pos_label=2 (or the other one).",
        ),
        (
            ["no", "yes", "no", "yes"],
            {"pos_label": "YES"},
            "pos_label must be one of the labels of y_true; got 'YES' beside ['no', 'yes']. Pass one of these.",
        ),
        (
            [0, 1, 0, 1],
            {"pos_label": "1"},
            "pos_label must be one of the labels of y_true; got '1' beside [0, 1]. Pass one of these.",
        ),
        (
            [0, 0, 0, 0],
            {"pos_label": "1"},
            "pos_label must be of the same kind as the labels; got '1' beside [0]. Pass one of the labels.",
        ),
        (
            [0, 1, 0, 1],
            {"classes": [0, 1, 2]},
            "classes must name 2 different labels, one per column; got [0, 1, 2]. List them in column order.",
        ),
        (
            [0, 1, 0, 1],
            {"classes": [1, 1]},
            "classes must name 2 different labels, one per column; got [1, 1]. List them in column order.",
        ),
        (
            [0, 1, 0, 1],
            {"classes": [1, 2]},
            "y_true must only hold labels that the probabilities have a class for; got [0] beside the classes [1, 2]. Correct the labels, pos_label or classes.",
        ),
        (
            [0, 1, 0, 1],
            {"classes": [0, 1], "pos_label": 2},
            "pos_label must be one of classes; got 2 beside [0, 1]. Pass one of these.",
        ),
        (
            np.array(Y) + 0j,
            {},
            "y_true must hold sortable labels; got dtype complex128. Use integers, booleans or strings.",
        ),
    ],
    ids=range(21),
)
def test_bad_labels(y, options, message):
    with pytest.raises(InputError) as caught:
        corp_decomposition(y, P, **options)
    if message is not None:
        assert str(caught.value) == message


def test_labels_of_several_classes():
    p = np.full((3, 3), 1 / 3)
    levels = [Level("S", p), Level("C", p)]
    assert Chain(["a", "b", "c"], levels).classes.tolist() == ["a", "b", "c"]
    assert Chain([0, 2, 2], levels).classes.tolist() == [0, 1, 2]  # codes from 0: no choice to make
    assert Chain(["x", "z", "z"], levels, classes=["x", "y", "z"]).decompose("log").risk == pytest.approx(np.log(3))
    for y in ([1, 2, 2], ["x", "z", "z"]):  # 1…3 or 0…2? which letter is missing?
        with pytest.raises(LabelError, match="y_true must show which label belongs to which of the 3 columns"):
            Chain(y, levels)
    with pytest.raises(LabelError, match="pos_label must be left out for more than two classes"):
        Chain([0, 1, 2], levels, pos_label=1)
    with pytest.raises(
        LabelError, match=r"at most as many labels as the probabilities have classes \(3\); got 4 labels"
    ):
        Chain([0, 1, 2, 3], [Level("S", np.full((4, 3), 1 / 3)), Level("C", np.full((4, 3), 1 / 3))])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1, 1, 1], "sample_weight must be nonnegative; got -1 in row 1 (1 of 4 rows). Use 0 to leave a row out."),
        (
            [1, NAN, 1, 1],
            f"sample_weight must be finite; got nan in row 1 (1 of 4 rows with NaN or infinities). {MISSING}",
        ),
        ([0, 0, 0, 0], "sample_weight must not be all zero; got 4 zeros. Give at least one row a positive weight."),
        (
            [1, 1],
            "sample_weight and y_true must have the same number of rows; got 2 and 4. Pass one entry per row in both.",
        ),
        (
            [1e-310, 1e-320, 0, 0],
            (
                "sample_weight must not be subnormal; got 1e-310 as the largest. "
                "Multiply the weights by a constant: only their ratios matter."
            ),
        ),
        (np.ones((4, 2)), "sample_weight must be one-dimensional; got shape (4, 2). Pass one weight per row."),
        (
            ["a"] * 4,
            "sample_weight must hold real numbers; got strings. Convert with .astype(float) if these are numbers.",
        ),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(InputError) as caught:
        corp_decomposition(Y, P, sample_weight=weight)
    assert str(caught.value) == message


def test_weights_of_extreme_size():
    for scale in (1e-12, 1e12, 1e-300, 1e308):
        terms = corp_decomposition(Y, P, loss="brier", sample_weight=np.full(4, scale)).terms
        assert terms == pytest.approx(EXPECTED, rel=1e-9, abs=1e-12)


def test_bad_levels_and_chains():
    good = Level("S", P)
    for arguments, message in [
        (("", P), "the name of a level must be a nonempty string; got ''"),
        ((3, P), "the name of a level must be a nonempty string; got 3"),
        (("C", [2.0]), "the law of level 'C' must hold probabilities between 0 and 1; got 2.0 in row 0"),
        (("C", P, [P]), "the folds of level 'C' must hold at least two fold models; got 1"),
        (("C", P, [[0.1, 0.2]] * 3), r"the folds of level 'C' must have shape \(F, 4\); got shape \(3, 2\)"),
        (("C", P, [P, [0.1, 0.2, 0.3, 1.4]]), r"the folds of level 'C'\[1\] must hold probabilities"),
    ]:
        with pytest.raises(InputError, match=message):
            Level(*arguments)
    for levels, message in [
        ([good], "levels must hold the prediction and at least one further level; got 1"),
        (good, "levels must be a sequence of Level; got Level"),
        ([good, P], "levels must be a sequence of Level; got a list among them"),
        ([good, Level("C", P[:3])], "level 'C' and level 'S' must have the same number of rows; got 3 and 4"),
        (
            [good, Level("C", np.full((4, 3), 1 / 3))],
            "all levels must have the same number of classes; got 2 in 'S' and 3 in 'C'",
        ),
        ([good, Level("S", P)], "levels must have different names; got S, S"),
    ]:
        with pytest.raises(InputError, match=message):
            Chain(Y, levels)
    for names in (["a"], "ab", 3, [["a"], ["b"]], ["a", "a"], ["a", "weight"]):
        with pytest.raises(
            InputError, match="names must be 2 different strings, none of them among residual, segment, term, weight"
        ):
            Chain(Y, [good, Level("C", P)], names=names)
    chain = Chain(Y, [good, Level("C", P)])
    with pytest.raises(
        InputError, match=r"form must be one of debiased, difference, plugin; got 'plug'. Did you mean 'plugin'\?"
    ):
        chain.decompose("brier", "plug")
    for clip in (0, 0.6, -1, "x", True):
        with pytest.raises(InputError, match="clip must be a distance from 0, above 0 and at most 1/2"):
            chain.decompose("brier", clip=clip)
        with pytest.raises(InputError, match="clip must be a distance from 0, above 0 and at most 1/2"):
            make_report(chain.sample, clip=clip)
    with pytest.raises(InputError, match="groups and y_true must have the same number of rows; got 2 and 4"):
        Chain(Y, [good, Level("C", P)], groups=[1, 2])
    with pytest.raises(InputError, match="segments must give the segment of each row; got None"):
        chain.decompose("brier").contributions(None)


def test_bad_finite_models():
    for prob, law, message in [
        ([0.5, 0.6], [0.1, 0.2], "prob must be nonnegative and sum to 1; got a sum of 1.1"),
        ([1.5, -0.5], [0.1, 0.2], "prob must be nonnegative and sum to 1"),
        ([0.5, 0.5], [0.1, 0.2, 0.3], "prob and law must have the same number of rows; got 2 and 3"),
        ([[0.5, 0.5]], [0.1], "prob must be one-dimensional"),
        ([0.5, 0.5], [0.1, 1.2], "law must hold probabilities between 0 and 1"),
    ]:
        with pytest.raises(InputError, match=message):
            FiniteModel(prob, law)
    model = FiniteModel([0.25] * 4, [0.1, 0.2, 0.3, 0.4])
    with pytest.raises(
        NestingError,
        match="level 'Q' must refine level 'C'; got states 0 and 2, which 'Q' puts together and level 'C' separates",
    ):
        model.decompose([0.1, 0.1, 0.2, 0.2], [[0, 0, 1, 1], [0, 1, 0, 1]])
    with pytest.raises(
        NestingError,
        match="the prediction must be constant on each cell of level 'C'; got 0.1 and 0.2 in the cell of state 0",
    ):
        model.decompose([0.1, 0.2, 0.2, 0.2], [[0, 0, 1, 1]])
    with pytest.raises(InputError, match="partition and law must have the same number of rows; got 2 and 4"):
        model.level([0, 1])
    with pytest.raises(InputError, match="partitions must be a list, or a mapping from level name to labels; got str"):
        model.decompose([0.1] * 4, "abcd")
    with pytest.raises(InputError, match="partitions must hold at least one labelling of the states; got none"):
        model.decompose([0.1] * 4, [])
    with pytest.raises(InputError, match="prediction must have as many classes as the model; got 3 and 2"):
        model.decompose(np.full((4, 3), 1 / 3), [[0, 0, 0, 0]])
    pairs = [("a", 1), ("a", 1), ("a", 2), ("b", 2)]
    np.testing.assert_allclose(model.level(pairs), [0.15, 0.15, 0.3, 0.4])


def test_bad_loss_arguments():
    with pytest.raises(InputError, match="p and y must have the same number of rows; got 2 and 3"):
        LogLoss().loss([0.1, 0.2], [0, 1, 1])
    with pytest.raises(InputError, match="p and q must have the same number of rows; got 2 and 3"):
        LogLoss().divergence([0.1, 0.2], [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"p and q must have the same number of classes; got \(2,\) and \(2, 3\)"):
        LogLoss().divergence([0.1, 0.2], np.full((2, 3), 1 / 3))
    with pytest.raises(InputError, match="y must hold class codes 0 to 1; got 2 in row 1"):
        LogLoss().loss([0.1, 0.2], [0, 2])
    with pytest.raises(InputError, match="y must hold class codes 0 to 1; got 0.5 in row 0"):
        LogLoss().loss([0.1, 0.2], [0.5, 1])
    with pytest.raises(InputError, match="y must hold class codes 0 to 1; got -1 in row 0"):
        LogLoss().loss([0.1, 0.2], np.array([-1, 1]))
    with pytest.raises(InputError, match="q must hold probabilities between 0 and 1; got 1.2 in row 1"):
        LogLoss().entropy([0.1, 1.2])
    with pytest.raises(InputError, match="c must be one-dimensional"):
        LogLoss().weight(np.full((2, 2), 0.5))
    with pytest.raises(InputError, match="p must hold probabilities between 0 and 1; got -0.1 in row 140001"):
        LogLoss().loss(np.where(np.arange(140_002) == 140_001, -0.1, 0.5), np.zeros(140_002, dtype=int))


def test_rounding_above_one():
    """1-D: refused with the remedy. In a row that sums to one it is rounding, and costs nothing."""
    above = np.nextafter(1, 2)
    with pytest.raises(
        InputError, match=r"got 1.0000000000000002 in row 0 .* If this is rounding, use np.clip\(p, 0, 1\)."
    ):
        LogLoss().loss([above], [1])
    assert LogLoss().loss([[above, 0.0]], [0])[0] == 0.0
    with pytest.raises(InputError, match="got 1.0000001 in row 0"):
        LogLoss().loss([[1.0000001, 0.0]], [0])


def test_odd_arguments_get_clear_errors():
    from scoreprism.datasets import CopulaLaw

    for attempt, message in [
        (lambda: Brier().loss([0.5], []), "p and y must have the same number of rows; got 1 and 0"),
        (lambda: Brier().loss([0.5], [1e300]), r"y must hold class codes 0 to 1; got 1e\+300 in row 0"),
        (lambda: FiniteModel([], [0.5]), "prob and law must have the same number of rows; got 0 and 1"),
        (lambda: FiniteModel([0.5, 0.5], [0.1, 0.2]).level(np.zeros((2, 0))), "partition must be one-dimensional"),
        (
            lambda: CopulaLaw().sample(3, random_state="a"),
            "random_state must be a nonnegative integer, a numpy Generator or None",
        ),
        (
            lambda: Level("S", pl.Series([[0.1], [0.2]])),
            "the law of level 'S' must hold real numbers; got dtype object",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            attempt()


def test_all_errors_are_value_errors():
    assert issubclass(ScoreprismError, ValueError)


def test_parts_of_an_error():
    with pytest.raises(InputError) as caught:
        decompose([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8], sample_weight=[1, 1, -1, 1])
    error = caught.value
    assert error.rule == "`sample_weight` must be nonnegative"
    assert error.argument == "sample_weight"
    assert str(error) == f"sample_weight must be nonnegative; got {error.got}. {error.remedy}"
    with pytest.raises(LabelError) as caught:
        decompose(["no", "yes"], [0.1, 0.9])
    assert caught.value.argument == "y_true"
    assert caught.value.remedy == "Pass `pos_label`='yes' (or the other one)."
    assert str(caught.value).endswith("Pass pos_label='yes' (or the other one).")


def test_an_error_of_one_text():
    error = InputError("file `a`: something is wrong")
    assert str(error) == "file `a`: something is wrong"
    assert (error.rule, error.got, error.remedy, error.argument) == ("", "", "", "")


@pytest.mark.parametrize("kind", [InputError, LabelError, NestingError])
def test_errors_travel_between_processes(kind):
    for error in (kind("`clip` must be small", "2", ("Pass `clip`=1e-6", "leave it out"), "floor"), kind("one text")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
        assert type(again) is kind
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__


def test_swapped_arguments_are_suspected():
    y, p = [0, 1, 1, 0], [0.1, 0.8, 0.7, 0.3]
    with pytest.raises(LabelError, match="Are y_true and y_proba in each other's place?"):
        scoreprism.decompose(p, y)


def test_a_single_number_is_no_row():
    """In one place, for all that take rows; losses evaluate single numbers, too."""
    for call in (corp_decomposition, calibration_test, ici, reliability_curve, evaluate, decompose):
        for y, p in ((1, 0.3), ([1], 0.3), ([1], np.array(0.3))):
            with pytest.raises(InputError) as caught:
                call(y, p)
            assert (
                str(caught.value) == "y_proba must hold one row per case; got a single number. Pass [p] for one case."
            )
        with pytest.raises(InputError) as caught:
            call(np.int64(1), [0.3])
        assert str(caught.value) == "y_true must hold one label per row; got the single value 1. Pass a list."
    assert Brier().loss(0.3, 1) == pytest.approx(0.49)  # (1 − 0.3)²
    assert Brier().weight(0.3) == pytest.approx(2.0)


def weights_of(weight):
    """Weights as a chain keeps them, rows without weight too."""
    return Chain(Y, [Level("S", P), Level("C", P)], sample_weight=weight).sample.weight


def test_ordinary_weights_are_left_as_they_are():
    weights = np.array([0.3, 1.7, 2.2, 0.9])
    for w in (weights, 1e-3 * weights, 1e6 * weights, np.array([1.0, 0.0, 1e-12, 3.0])):
        assert np.array_equal(weights_of(w), w)
    assert np.array_equal(weights_of(np.full(4, 1e-200)), np.ones(4))
    assert np.array_equal(weights_of([1e-200, 0.0, 3e-200, 0.0]), [0.5, 0.0, 1.5, 0.0])
    assert np.array_equal(weights_of([1.0, 1e-200, 1e-100, 0.0]), [1.0, 0.0, 1e-100, 0.0])


def test_numbers_behind_a_mask_are_not_read():
    with pytest.raises(InputError, match="y must have no missing values; got 1 of 2 rows"):
        Brier().loss([0.3, 0.4], np.ma.masked_array([0, 1], mask=[False, True]))
