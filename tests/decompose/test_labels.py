"""Which column belongs to which label: every combination against a brute-force oracle, and refusals where it is open."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scoreprism import Chain, Level
from scoreprism.exceptions import InputError, LabelError

P = np.array([0.1, 0.8, 0.3, 0.6, 0.45])  # P(second label)
CODES = np.array([0, 1, 0, 1, 1])
TRUTH = float(np.mean((P - CODES) ** 2))
KINDS = {
    "0/1": (0, 1),
    "1/2": (1, 2),
    "-1/1": (-1, 1),
    "bool": (False, True),
    "float": (1.0, 2.0),
    "words": ("no", "yes"),
    "2/10": (2, 10),
    "text digits": ("2", "10"),
}


def frames(labels, order, kind):
    columns = {labels[0]: 1 - P, labels[1]: P}
    names = [labels[i] for i in order]
    table = np.stack([columns[name] for name in names], axis=1)
    if kind == "pandas":
        return pd.DataFrame(table, columns=names)
    return pl.DataFrame(table, schema=[str(name) for name in names])


def risk(y, law, **options):
    return Chain(y, [Level("S", law), Level("C", law)], **options).decompose("brier").risk


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("positive", [None, 0, 1])
@pytest.mark.parametrize("classes", [None, "given", "reversed"])
def test_named_columns_go_by_name(kind, library, order, positive, classes):
    labels = KINDS[kind]
    options = {}
    if positive is not None:
        options["pos_label"] = labels[positive]
    if classes is not None:
        options["classes"] = list(labels) if classes == "given" else list(labels[::-1])
    y = np.array([labels[c] for c in CODES])
    assert risk(y, frames(labels, order, library), **options) == pytest.approx(TRUTH, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positive", [None, 0, 1])
@pytest.mark.parametrize("classes", [None, "given", "reversed"])
def test_arrays_go_by_position(kind, positive, classes):
    """Columns follow `classes`, else sorted labels; one column speaks of pos_label, else of the second class."""
    labels = KINDS[kind]
    y = np.array([labels[c] for c in CODES])
    order = {None: sorted(labels), "given": list(labels), "reversed": list(labels[::-1])}[classes]
    by_label = {labels[0]: 1 - P, labels[1]: P}
    options = {} if classes is None else {"classes": order}
    if positive is not None:
        options["pos_label"] = labels[positive]
    wide = np.stack([by_label[label] for label in order], axis=1)
    assert risk(y, wide, **options) == pytest.approx(TRUTH, abs=1e-14)
    if positive is None and classes is None and kind not in ("0/1", "-1/1", "bool"):
        with pytest.raises(LabelError, match="which label is the positive class of 1-D probabilities"):
            risk(y, P)
        return
    spoken = labels[positive] if positive is not None else order[1]
    assert risk(y, by_label[spoken], **options) == pytest.approx(TRUTH, abs=1e-14)


@pytest.mark.parametrize(
    ("y", "columns"),
    [
        ([1.0, 2.0, 1.0, 2.0, 2.0], [2, 1]),
        ([False, True, False, True, True], [1, 0]),
        ([0, 1, 0, 1, 1], [True, False]),
        ([0, 1, 0, 1, 1], [1.0, 0.0]),
        ([0.0, 1.0, 0.0, 1.0, 1.0], ["1", "0"]),
        ([False, True, False, True, True], ["True", "False"]),
    ],
)
def test_equal_numbers_of_another_type_are_the_same_label(y, columns):
    law = pd.DataFrame(np.stack([P, 1 - P], axis=1), columns=columns)
    assert risk(y, law) == pytest.approx(TRUTH, abs=1e-14)
    assert risk(y, law, classes=sorted(set(y))) == pytest.approx(TRUTH, abs=1e-14)


def test_reordered_default_columns_are_names_again():
    """pandas 3 gives df[[1, 0]] a RangeIndex too: only 0, 1, 2, … are mere positions."""
    law = pd.DataFrame(np.stack([1 - P, P], axis=1))
    for turned in (law[[1, 0]], law.iloc[:, ::-1]):
        assert risk(CODES, turned) == pytest.approx(TRUTH, abs=1e-14)
    assert risk(CODES, law) == pytest.approx(TRUTH, abs=1e-14)


def test_every_order_of_three_named_columns():
    rng = np.random.default_rng(0)
    law, y = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    words = np.array(["b", "c", "a"])[y]
    truth = risk(y, law)
    for order in itertools.permutations(range(3)):
        named = pd.DataFrame(law[:, order], columns=[["b", "c", "a"][i] for i in order])
        assert risk(words, named) == pytest.approx(truth, abs=1e-14)
        assert risk(words, named, classes=["a", "b", "c"]) == pytest.approx(truth, abs=1e-14)
    assert risk(words, law, classes=["b", "c", "a"]) == pytest.approx(truth, abs=1e-14)


def test_laws_that_name_columns_beside_laws_that_do_not():
    y = np.array(["a", "b"])[CODES]
    positional = np.stack([1 - P, P], axis=1)
    named = pd.DataFrame({"b": P, "a": 1 - P})
    unrelated = pd.DataFrame(positional, columns=["p0", "p1"])
    for other in (positional, unrelated):
        with pytest.raises(
            LabelError, match="probabilities with and without column names must agree on the order of the classes"
        ):
            Chain(y, [Level("S", named), Level("C", other)])
        sorted_names = Chain(y, [Level("S", named[["a", "b"]]), Level("C", other)])
        both = Chain(y, [Level("S", named), Level("C", other)], classes=["a", "b"])
        for chain in (sorted_names, both):
            assert chain.decompose("brier").level_losses.mean(axis=0) == pytest.approx([TRUTH, TRUTH], abs=1e-14)
    ten = np.array([2, 10])[CODES]
    chain = Chain(ten, [Level("S", pd.DataFrame({"2": 1 - P, "10": P})), Level("C", positional)])
    assert chain.decompose("brier").level_losses.mean(axis=0) == pytest.approx([TRUTH, TRUTH], abs=1e-14)
    with pytest.raises(LabelError, match="probabilities with and without"):
        Chain(ten, [Level("S", pd.DataFrame({"10": P, "2": 1 - P})), Level("C", positional)])


def test_ordered_categories_set_the_order():
    words = pd.Categorical(np.array(["b", "a"])[CODES], categories=["b", "a"], ordered=True)
    law = np.stack([1 - P, P], axis=1)
    for y in (words, pd.Series(words), pl.Series(np.array(["b", "a"])[CODES], dtype=pl.Enum(["b", "a"]))):
        assert risk(y, law) == pytest.approx(TRUTH, abs=1e-14)
    with pytest.raises(LabelError, match="probabilities with and without"):
        Chain(pd.Series(words), [Level("S", pd.DataFrame({"a": P, "b": 1 - P})), Level("C", law)])


def test_one_column_must_be_that_of_the_positive_label():
    words = np.array(["no", "yes"])[CODES]
    assert risk(words, pl.DataFrame({"yes": P}), pos_label="yes") == pytest.approx(TRUTH, abs=1e-14)
    assert risk(CODES, pd.Series(P, name=1)) == pytest.approx(TRUTH, abs=1e-14)
    assert risk(CODES, pd.Series(P, name="score")) == pytest.approx(TRUTH, abs=1e-14)
    for y, law, options in [
        (words, pl.DataFrame({"no": 1 - P}), {"pos_label": "yes"}),
        (CODES, pd.Series(1 - P, name=0), {}),
    ]:
        with pytest.raises(LabelError, match="one column of probabilities must be that of the positive label"):
            risk(y, law, **options)


def test_single_class_outcomes():
    wide = np.stack([1 - P, P], axis=1)
    assert risk(["b"] * 5, P, pos_label="b") == pytest.approx(np.mean((1 - P) ** 2))
    assert risk(["b"] * 5, P, pos_label="c") == pytest.approx(np.mean(P**2))
    assert risk(["b"] * 5, wide, classes=["a", "b"]) == pytest.approx(np.mean((1 - P) ** 2))
    with pytest.raises(
        LabelError, match="y_true must show which label belongs to which of the 2 columns; got the single label"
    ):
        risk(["b"] * 5, wide, pos_label="b")
    named = pd.DataFrame({"0": 1 - P, "1": P})
    assert risk([1] * 5, named, pos_label=0) == pytest.approx(np.mean((1 - P) ** 2))
    assert Chain([1] * 5, [Level("S", named), Level("C", named)]).classes.tolist() == [0, 1]


def test_colliding_classes_and_folds_in_another_order():
    with pytest.raises(LabelError, match="classes must name 2 different labels"):
        risk(CODES, np.stack([1 - P, P], axis=1), classes=np.array([1, "1"], dtype=object))
    law = pd.DataFrame({"a": 1 - P, "b": P})
    with pytest.raises(InputError, match="the folds of level 'C' must have the columns of its probabilities"):
        Level("C", law, [law, law[["b", "a"]]])
    assert Level("C", law, [law, law]).folds.shape == (2, 5, 2)
