"""Scale: sums of rows give what the rows give; addition in any order and through JSON; what is quantised stays small."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import scale
from scoreprism.exceptions import InfiniteLossError, InfiniteLossWarning, InputError, LabelError, UnavailableError
from scoreprism.losses import from_entropy
from tests.findings import select


def rows(n: int = 6000, digits: int | None = 2, seed: int = 0) -> pl.DataFrame:
    """Scores with ties (or none), a finer law, weights, folds, segments, dates."""
    rng = np.random.default_rng(seed)
    x = rng.beta(1.5, 2.5, n)
    q = np.clip(x + 0.15 * rng.normal(size=n), 0.02, 0.98)
    pi = np.clip(q + 0.1 * rng.normal(size=n), 0.01, 0.99)
    s = 1.0 / (1.0 + np.exp(-1.4 * np.log(x / (1.0 - x))))
    s = s if digits is None else np.clip(np.round(s, digits), 0.01, 0.99)
    return pl.DataFrame(
        {
            "y": (rng.random(n) < pi).astype(np.int8),
            "s": s,
            "q": q,
            "pi": pi,
            "w": rng.exponential(size=n).round(2),
            "fold": rng.integers(0, 4, n),
            "region": rng.choice(["north", "south", "west"], n),
            "day": [date(2026, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 90, n)],
        }
    )


def plain(data: pl.DataFrame, **options):
    """`decompose` of the rows with the folds of the column."""
    fold = data["fold"].to_numpy()
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    return scoreprism.decompose(data["y"].to_numpy(), data["s"].to_numpy(), cv=cv, **options)


def assert_same(ours, theirs, tolerance: float = 1e-12) -> None:
    """Terms, errors, intervals, bounds, resolution form, alternatives."""
    assert ours.names == theirs.names
    assert (ours.n, ours.n_units, ours.n_classes) == (theirs.n, theirs.n_units, theirs.n_classes)
    assert ours.risk == pytest.approx(theirs.risk, abs=tolerance)
    for name in ours.names:
        assert ours.terms[name] == pytest.approx(theirs.terms[name], abs=tolerance)
        assert ours.std_error[name] == pytest.approx(theirs.std_error[name], abs=tolerance)
        one, other = ours.interval(name), theirs.interval(name)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=tolerance)
    assert ours.lower_bound("reliability").value == pytest.approx(
        theirs.lower_bound("reliability").value, abs=tolerance
    )
    assert ours.interval("reliability", method="envelope").high == pytest.approx(
        theirs.interval("reliability", method="envelope").high, abs=tolerance
    )
    for name, value in ours.resolution_form.terms.items():
        assert value == pytest.approx(theirs.resolution_form.terms[name], abs=tolerance)


# ── sums and rows ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [(), ("q",), ("q", "latent")])
@pytest.mark.parametrize("form", ["debiased", "difference"])
def test_sums_of_few_scores_give_what_the_rows_give(weighted, levels, form):
    data = rows()
    columns = {"q": "q", "latent": "pi"}
    sums = scale.aggregate(
        data, target="y", score="s", fold_column="fold", sample_weight="w" if weighted else None,
        **{level: columns[level] for level in levels},
    )  # fmt: skip
    given = {level: data[columns[level]].to_numpy() for level in levels}
    weight = data["w"].to_numpy() if weighted else None
    assert sums.exact
    for loss in ("log", "brier"):
        found = sums.decompose(loss, form=form)
        assert found.quantisation_error == 0.0
        assert_same(found, plain(data, loss=loss, sample_weight=weight, form=form, **given))


def test_plugin_form_and_other_calibrators():
    data = rows()
    for calibrator in ("isotonic", "platt", "beta", "kernel"):
        options = {"form": "plugin", "calibrator": calibrator, "loss": "brier"}
        ours = scale.decompose(data, target="y", score="s", fold_column="fold", **options)
        assert_same(ours, plain(data, **options))


def test_any_loss_of_few_scores():
    data = rows()
    own = from_entropy(lambda q: q[:, 1] - q[:, 1] ** 3, name="lopsided")
    sums = scale.aggregate(data, target="y", score="s", fold_column="fold")
    for loss in ("tsallis", "beta", "elementary", "spherical", "ranked-probability", own):
        assert_same(sums.decompose(loss), plain(data, loss=loss), 1e-11)


def test_the_next_loss_by_the_same_laws():
    """`d.chain` holds the laws that were fitted: another loss by them is that of a fit of its own."""
    sums = scale.aggregate(rows(digits=None), target="y", score="s", cells=64)
    first = sums.decompose("log")
    second, own = first.chain.decompose("brier"), sums.decompose("brier")
    assert_same(second, own)
    assert second.quantisation_error == own.quantisation_error > 0.0
    assert [one.kind for one in second.findings] == [one.kind for one in own.findings]
    clipped = scale.aggregate(rows(), target="y", score="s", clip=0.1).decompose("log").chain
    assert clipped.decompose("brier").clip == 0.1
    with pytest.raises(InputError, match="clip must be that of the sums; got 0.2 and 0.1"):
        clipped.decompose("brier", clip=0.2)


def test_a_decomposition_is_of_one_loss():
    with pytest.raises(InputError, match="loss must be one loss; got a list of 2"):
        scale.decompose(rows(100), target="y", score="s", loss=["log", "brier"])


def test_segments_and_periods_have_laws_of_their_own():
    data = rows(9000)
    ours = scale.decompose(data, target="y", score="s", fold_column="fold", segments="region", time="day", loss="brier")
    assert list(ours.segments) == ["north", "south", "west"]
    assert list(ours.periods) == ["2026-01", "2026-02", "2026-03"]
    north = data.filter(pl.col("region") == "north")
    assert_same(ours.segments["north"], plain(north, loss="brier"))
    march = data.filter(pl.col("day") >= date(2026, 3, 1))
    assert_same(ours.periods["2026-03"], plain(march, loss="brier"))
    assert_same(
        ours.sums.select(region="north", day="2026-03").decompose(loss="brier"),
        plain(north.filter(pl.col("day") >= date(2026, 3, 1)), loss="brier"),
    )
    assert ours.segments.terms["reliability"] == pytest.approx(
        np.average([d.terms["reliability"] for d in ours.segments.decompositions.values()],
                   weights=[d.n for d in ours.segments.decompositions.values()]))  # fmt: skip


def test_a_segment_column_may_have_any_name():
    data = rows(1000).with_columns(pl.col("region").alias("self"))
    found = scale.decompose(data, target="y", score="s", segments="self", loss="brier", calibrator="platt")
    assert list(found.segments) == ["north", "south", "west"]
    assert found.sums.select(self="north").n == data.filter(pl.col("self") == "north").height


def test_segments_that_cannot_be_decomposed_are_named():
    data = rows(2000).with_columns(region=pl.when(pl.col("y") == 1).then(pl.lit("ones")).otherwise(pl.lit("zeros")))
    with pytest.raises(InputError, match="no segment could be decomposed"):
        scale.decompose(data, target="y", score="s", segments="region")
    mixed = pl.concat([rows(2000), rows(20, seed=3).with_columns(region=pl.lit("tiny"), y=pl.lit(1, pl.Int8))])
    found = scale.decompose(mixed, target="y", score="s", segments="region", loss="log").segments
    assert found.skipped == {"tiny": "the target must hold both outcomes; got only 1. Pass more rows."}


def test_drawn_folds_are_the_same_for_every_order_of_rows():
    data = rows()
    first = scale.decompose(data, target="y", score="s", loss="log")
    again = scale.decompose(data.sample(fraction=1.0, shuffle=True, seed=1), target="y", score="s", loss="log")
    other = scale.decompose(data, target="y", score="s", loss="log", random_state=1)
    assert_same(first, again)
    assert first.terms["reliability"] != other.terms["reliability"]
    assert [(one.n, one.facts["times"]) for one in select(first.findings, "folds_drawn")] == [(5, 20)]
    assert "5 folds drawn within cells, 20 times: rows are treated as independent." in first.notes


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_two_rows_do_not_depend_on_rounding(seed):
    """Their scores are the two rows' again: rounding left a hair's breadth, and more scores than there are."""
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 4, 1500)
    data = pl.DataFrame({"y": (rng.random(1500) < score).astype(np.int8), "s": score, "fold": np.arange(1500) % 5})
    data = data.with_columns(w=pl.Series(rng.uniform(0.5, 2, 1500))).with_columns(thrice=3 * pl.col("w"))
    columns = {"target": "y", "score": "s", "fold_column": "fold", "loss": "log"}
    assert_same(*(scale.decompose(data, sample_weight=w, **columns) for w in ("w", "thrice")))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_folds_of_rows_give_the_numbers_of_rows(monkeypatch, weighted):
    """The partitions that `decompose` draws, as shares of the groups of sums: the same terms, ends and bounds."""
    data = rows(3000)
    y, s = data["y"].to_numpy(), data["s"].to_numpy()
    weight = data["w"].to_numpy() if weighted else None
    partitions = scoreprism.decompose(y, s, sample_weight=weight).chain.fit.partitions

    def shared(sums, cv, seed):
        table = sums.table
        place = {key: i for i, key in enumerate(zip(table["key"], table["y"], strict=True))}
        held = np.flatnonzero(np.ones(s.size) if weight is None else weight)
        group = np.array([place[key] for key in zip(s[held], y[held], strict=True)])
        ours = None if weight is None else weight[held]
        found = [[np.bincount(group, (home == k) * (1.0 if ours is None else ours), table["n"].size)
                  for k in range(cv)] for home in partitions.home]  # fmt: skip
        return np.array(found) / table["w"]

    monkeypatch.setattr("scoreprism.scale._sums_to_sample.draw_folds", shared)
    for loss in ("log", "brier"):
        ours = scale.decompose(data, target="y", score="s", loss=loss, sample_weight="w" if weighted else None)
        theirs = scoreprism.decompose(y, s, loss=loss, sample_weight=weight)
        assert ours.terms["reliability"] == pytest.approx(theirs.terms["reliability"], abs=1e-12)
        if not weighted:  # what a fold holds of Σw² is taken to be as much as of Σw
            assert_same(ours, theirs, 1e-11)


def test_drawn_folds_scatter_as_those_of_rows_do():
    """Ten seeds each: the same mean within what both scatter by, and the scatter itself of the same size."""
    data = rows(3000)
    y, s = data["y"].to_numpy(), data["s"].to_numpy()
    partial = scale.aggregate(data, target="y", score="s")
    ours = [partial.decompose(loss="log", random_state=seed) for seed in range(10)]
    theirs = [scoreprism.decompose(y, s, loss="log", random_state=seed) for seed in range(10)]
    for ask in (lambda d: d.terms["reliability"], lambda d: d.interval("reliability").high):
        first, second = np.array([ask(d) for d in ours]), np.array([ask(d) for d in theirs])
        error = math.hypot(first.std(ddof=1), second.std(ddof=1)) / math.sqrt(10)
        assert abs(first.mean() - second.mean()) < 4.0 * error
        assert 0.25 < first.std() / second.std() < 4.0
    assert np.std([d.terms["reliability"] for d in ours]) < 0.15 * ours[0].std_error["reliability"]  # 8.9, bar 1


@pytest.mark.parametrize("digits", [2, None])
def test_drawn_folds_share_out_the_sums_in_every_partition(digits):
    found = scale.decompose(rows(3000, digits), target="y", score="s", sample_weight="w", cells=128)
    table, pooling = found.sums.table, found.chain.fit.pooling
    worth = table["w"].sum() / table["w2"].sum()  # fits count rows, not weights
    for held, power, factor in ((pooling.mass, "w", worth), (pooling.squares, "w2", worth**2)):
        assert held.shape[:2] == (20, 5)
        for y in (0, 1):
            total = np.full(20, factor * table[power][table["y"] == y].sum())
            np.testing.assert_allclose(held[:, :, y].sum(axis=(1, 2)), total, rtol=1e-12)
    moments = (pooling.mass.sum(axis=(1, 2)) * pooling.points.center).sum(axis=1)  # Σw·s, whatever the cells
    expected = worth * (table["w"] * table["key"] if found.sums.exact else table["s"]).sum()
    np.testing.assert_allclose(moments, np.full(20, expected), rtol=1e-10)


def test_a_row_that_outweighs_its_group_is_in_one_fold():
    light = pl.DataFrame({"y": [0, 1] * 400, "s": [0.3, 0.6] * 400, "w": [1e-6] * 800})
    light = pl.concat([light, light.with_columns(s=pl.col("s") + 0.1)])  # scores that no heavy row has
    heavy = pl.DataFrame({"y": [0, 1], "s": [0.3, 0.6], "w": [1.0, 1.0]})
    found = scale.decompose(pl.concat([light, heavy]), target="y", score="s", sample_weight="w", calibrator="identity")
    pooling = found.chain.fit.pooling
    assert pooling.points.center.tolist() == pytest.approx([0.3, 0.4, 0.6, 0.7])
    for y, (heavy_score, light_score) in enumerate([(0, 1), (2, 3)]):
        heavy, light = pooling.mass[:, :, y, heavy_score], pooling.mass[:, :, y, light_score]
        assert np.isin(heavy / heavy.sum(axis=1, keepdims=True), (0.0, 1.0)).all()  # worth one row
        assert not np.isin(light / light.sum(axis=1, keepdims=True), (0.0, 1.0)).all()


def test_weights_of_zero_are_absent():
    data = rows(3000).with_columns(w=pl.when(pl.col("s") > 0.6).then(0.0).otherwise(1.0))
    ours = scale.decompose(data, target="y", score="s", sample_weight="w", fold_column="fold", loss="log")
    theirs = plain(data, sample_weight=data["w"].to_numpy(), loss="log")
    assert ours.n == (data["w"] > 0).sum()
    assert ours.sums.n == 3000
    assert_same(ours, theirs)
    assert ours._mass == pytest.approx(data["w"].sum())


@pytest.mark.parametrize("sure", [0.5, 0.0005])
def test_few_surprises_are_counted_in_rows(sure):
    """By hand: 4000 rows of two scores, each wrong as often as it says."""
    data = rows(4000)
    s = np.where(np.arange(4000) % 2 == 0, sure, 1.0 - sure)
    y = (np.arange(4000) % 2 == 1) ^ (np.arange(4000) < (2000 if sure == 0.5 else 2))
    data = data.with_columns(s=pl.Series(s), y=pl.Series(y).cast(pl.Int8), fold=pl.int_range(pl.len()) // 2 % 4)
    options = {"loss": "brier", "calibrator": "platt"}
    ours, theirs = scale.decompose(data, target="y", score="s", fold_column="fold", **options), plain(data, **options)
    said = [[one.value for one in select(found.findings, "few_surprises")] for found in (ours, theirs)]
    assert said[0] == pytest.approx(said[1], abs=1e-9)
    assert bool(said[0]) == (sure < 0.5)


# ── infinite losses ─────────────────────────────────────────────────────────────────────────────────


def test_infinite_losses_are_infinite_and_clip_helps():
    data = rows(4000).with_columns(s=pl.when(pl.int_range(pl.len()) < 40).then(0.0).otherwise(pl.col("s")))
    sure = int(data.head(40)["y"].sum())
    assert sure > 0
    with pytest.warns(InfiniteLossWarning, match=f"^The log loss is infinite: in {sure} of 4,000 rows"):
        found = scale.decompose(data, target="y", score="s", loss="log", fold_column="fold")
    assert found.risk == math.inf
    first = found.summary().findings[0]
    assert (first.kind, first.n, first.facts["total"]) == ("infinite_loss", sure, 4000)
    clipped = scale.aggregate(data, target="y", score="s", fold_column="fold", clip=0.001)
    for loss in ("log", "brier"):
        assert_same(clipped.decompose(loss), plain(data, loss=loss, clip=0.001))
    finite = scale.decompose(data, target="y", score="s", loss="brier", fold_column="fold")
    assert_same(finite, plain(data, loss="brier"))


@pytest.mark.parametrize("weighted", [False, True])
def test_clip_holds_at_both_ends_in_the_engine(weighted):
    data = rows(4000)
    weight = {"sample_weight": "w"} if weighted else {}
    ours = scale.decompose(data, target="y", score="s", q="q", fold_column="fold", clip=0.3, loss="log", **weight)
    given = {"sample_weight": data["w"].to_numpy()} if weighted else {}
    assert_same(ours, plain(data, loss="log", q=data["q"].to_numpy(), clip=0.3, **given))


def test_infinite_losses_of_a_given_law():
    data = rows(4000).with_columns(q=pl.when(pl.int_range(pl.len()) < 40).then(0.0).otherwise(pl.col("q")))
    with pytest.raises(InfiniteLossError, match="level 'Q' must have a finite log loss in every row"):
        scale.decompose(data, target="y", score="s", q="q", loss="log", fold_column="fold")
    assert_same(
        scale.decompose(data, target="y", score="s", q="q", loss="brier", fold_column="fold"),
        plain(data, loss="brier", q=data["q"].to_numpy()),
    )


def test_a_level_of_sums_has_only_the_losses_that_were_summed():
    found = scale.decompose(rows(2000), target="y", score="s", q="q", loss="log")
    with pytest.raises(UnavailableError, match="the brier loss of level 'Q' was not summed"):
        found.chain.decompose("brier")
    plain_sums = scale.decompose(rows(2000), target="y", score="s", loss="log")
    assert plain_sums.chain.decompose("brier").names == ("reliability", "refinement")  # S and C are at hand


def test_a_score_that_is_no_name_is_refused():
    with pytest.raises(InputError, match="score must be the name of a column; got None"):
        scale.aggregate(rows(100), target="y", score=None)


def test_infinite_losses_by_cell():
    data = rows(4000, digits=None).with_columns(s=pl.when(pl.int_range(pl.len()) < 40).then(0.0).otherwise(pl.col("s")))
    with pytest.warns(InfiniteLossWarning):
        found = scale.decompose(data, target="y", score="s", loss="log", cells=64)
    assert not found.sums.exact
    assert found.risk == math.inf


# ── addition ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("digits", [2, None])
def test_partials_add_up_in_any_order_and_through_json(digits):
    data = rows(digits=digits)
    options = {
        "target": "y",
        "score": "s",
        "q": "q",
        "sample_weight": "w",
        "segments": "region",
        "time": "day",
        "cells": 256,
    }
    whole = scale.aggregate(data, **options)
    assert whole.exact == (digits == 2)
    rng = np.random.default_rng(5)
    owner = rng.integers(0, 4, data.height)
    parts = [scale.aggregate(data.filter(owner == i), **options) for i in range(4)]
    parts = [scale.Sums.from_json(parts[i].to_json()) for i in rng.permutation(4)]
    first, second = sum(parts[:2]), sum(parts[2:])
    for total in (sum(parts), first + second, second + first):
        assert (total.exact, total.segments, total.folds, total.n) == (
            whole.exact,
            whole.segments,
            whole.folds,
            whole.n,
        )
        assert set(total.table) == set(whole.table)
        for name, column in total.table.items():
            np.testing.assert_allclose(column, whole.table[name], rtol=1e-12, atol=0.0, err_msg=name)
        np.testing.assert_array_equal(total.table["n"], whole.table["n"])
    assert_same(sum(parts).decompose(loss="log"), whole.decompose(loss="log"))


def test_few_scores_become_cells_when_there_are_too_many():
    data = rows(digits=None).head(600)
    options = {"target": "y", "score": "s", "cells": 500, "sample_weight": "w"}
    first, second = scale.aggregate(data.head(300), **options), scale.aggregate(data.tail(300), **options)
    assert first.exact
    assert second.exact
    total, direct = first + second, scale.aggregate(data, **options)
    assert not total.exact
    assert not direct.exact
    for name, column in direct.table.items():
        np.testing.assert_allclose(total.table[name], column, rtol=1e-12, err_msg=name)
    assert ((first + direct) + second).n == (second + (direct + first)).n == 1200


@pytest.mark.parametrize(("scores", "exact"), [(8, True), (9, False)])
def test_as_many_scores_as_cells_are_exact(scores, exact):
    data = pl.DataFrame({"y": [0, 1] * 18, "s": [(i % scores + 1) / 10 for i in range(36)]})
    whole = scale.aggregate(data, target="y", score="s", cells=8)
    parts = [scale.aggregate(part, target="y", score="s", cells=8) for part in (data.head(5), data.tail(31))]
    assert (whole.exact, sum(parts).exact) == (exact, exact)


def test_only_like_partials_are_added():
    data = rows(500)
    one = scale.aggregate(data, target="y", score="s")
    with pytest.raises(InputError, match="sums must have the same cells to be added; got 1024 and 512. Add like"):
        one + scale.aggregate(data, target="y", score="s", cells=512)
    with pytest.raises(InputError, match="must have the same sample_weight to be added; got None and w"):
        one + scale.aggregate(data, target="y", score="s", sample_weight="w")
    with pytest.raises(TypeError):
        one + 1
    assert 0 + one is one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: "no json", r"the sums must be JSON; got 'no json' \(Expecting value"),
        (lambda d: "[]", "the sums must be JSON that Sums.to_json wrote"),
        (lambda d: json.dumps({**d, "version": 99}), "the sums must be of version 3; got version 99"),
        (lambda d: json.dumps({"partial_version": 2}), "the sums must be of version 3; got version 2. Sum the rows again"),
        (lambda d: json.dumps({**d, "table": {}}), "the parts of the sums must fit together; got KeyError"),
        (lambda d: json.dumps({**d, "table": {**d["table"], "n": [1]}}), "the parts of the sums must fit together"),
        (lambda d: json.dumps({**d, "table": {**d["table"], "n": [-1] * len(d["table"]["n"])}}), "must fit together"),
        (lambda d: json.dumps({**d, "segments": []}), "the parts of the sums must fit together"),
        (lambda d: json.dumps({**d, "settings": {**d["settings"], "losses": [{"name": "x", "parameters": {}}]}}), "loss"),
    ],
)  # fmt: skip
def test_broken_json_is_refused(change, message):
    data = scale.aggregate(rows(300), target="y", score="s").to_dict()
    with pytest.raises(InputError, match=message):
        scale.Sums.from_json(change(data))


def test_json_keeps_every_bit():
    partial = scale.aggregate(
        rows(900, digits=None), target="y", score="s", sample_weight="w", cells=128, segments="region"
    )
    again = scale.Sums.from_json(partial.to_json())
    assert again.settings == partial.settings
    for name, column in partial.table.items():
        np.testing.assert_array_equal(again.table[name], column)


# ── the grid ────────────────────────────────────────────────────────────────────────────────────────


def test_cells_keep_the_order_of_scores_and_both_ends_apart():
    """Scores of a cell are between steps of √(2s), mirrored at one half; 0 and 1 have cells of their own."""
    rng = np.random.default_rng(0)
    tiny, near_one = 10.0 ** rng.uniform(-300, 0, 5000), 1 - 10.0 ** rng.uniform(-15, 0, 5000)
    ends = [0.0, 5e-324, np.nextafter(0.5, 0), 0.5, 1 - 2**-53, 1.0]
    data = pl.DataFrame({"s": np.concatenate([rng.random(5000), tiny, near_one, ends])}).with_columns(y=pl.lit(0))
    for cells in (8, 63, 1000, 1024, 2**20):
        table = scale.aggregate(data, target="y", score="s", cells=cells).coarsen().table
        key, low, high = table["key"].astype(int), table["lo"], table["hi"]
        assert (low[1:] > high[:-1]).all()
        assert (key[0], high[0]) == (0, 0.0)
        assert (key[-1], low[-1]) == (cells + 1, 1.0)
        assert (key[1], key[-2]) == (1, cells)
        root = np.arange(cells + 1) * (2.0 / cells)
        half = np.where(root <= 1.0, root, 2.0 - root) ** 2 / 2.0
        borders = np.where(root <= 1.0, half, 1.0 - half)
        assert (low[1:-1] >= borders[key[1:-1] - 1] * (1 - 1e-9)).all()
        assert (high[1:-1] <= borders[key[1:-1]] * (1 + 1e-9) + 1e-16).all()


def test_lines_keep_mean_and_variance_of_a_cell_and_stay_inside():
    found = scale.decompose(rows(4000, digits=None), target="y", score="s", cells=32, calibrator="platt")
    lines, table = found.chain.lines, found.sums.table
    size = table["n"].size
    for power, column in ((0, "w"), (1, "s"), (2, "s2")):
        total = np.bincount(lines.group, lines.share * table["w"][lines.group] * lines.score**power, size)
        np.testing.assert_allclose(total, table[column], rtol=1e-10)
    assert (lines.score >= table["lo"][lines.group]).all()
    assert (lines.score <= table["hi"][lines.group]).all()
    assert (lines.share >= 0).all()


def test_pairs_of_lines_bound_the_mean_of_functions_with_one_sign_of_the_third_derivative():
    """Chebyshev–Markov: −log s and −log(1 − s), whose third derivatives keep their sign, against the rows themselves."""
    data = rows(20_000, digits=None).filter(pl.col("s").is_between(1e-6, 1 - 1e-6))
    found = scale.decompose(data, target="y", score="s", cells=16, calibrator="platt")
    lines, table = found.chain.lines, found.sums.table
    s, y = data["s"].to_numpy(), data["y"].to_numpy()
    inside = (table["lo"] <= s[:, None]) & (s[:, None] <= table["hi"]) & (y[:, None] == table["y"])
    owner = inside.argmax(axis=1)
    for function in (lambda p: -np.log(p), lambda p: -np.log1p(-p)):
        truth = np.bincount(owner, function(s), table["n"].size)
        value = function(lines.score) * lines.share * table["w"][lines.group]
        sides = [np.bincount(lines.group, value * (lines.side == side) * 2.0, table["n"].size) for side in (1.0, -1.0)]
        wide = np.bincount(lines.group, lines.side != 0, table["n"].size) > 0
        low, high = np.minimum(*sides)[wide], np.maximum(*sides)[wide]
        assert wide.sum() > 20
        assert (low <= truth[wide] * (1 + 1e-12)).all()
        assert (truth[wide] <= high * (1 + 1e-12)).all()


def test_the_quantisation_error_is_half_of_what_the_pairs_differ_by():
    partial = scale.aggregate(rows(4000, digits=None), target="y", score="s", cells=32, fold_column="fold")
    log, brier = (partial.decompose(loss, calibrator="identity") for loss in ("log", "brier"))  # C is S, known by hand
    lines, table = log.chain.lines, partial.table
    hit = np.where(table["y"][lines.group] == 1, lines.score, 1.0 - lines.score)
    value = -np.log(hit) * lines.share  # shares of both pairs add up to 1
    pairs = [np.bincount(lines.group, value * (lines.side == side), table["n"].size) for side in (1.0, -1.0)]
    expected = np.abs(table["w"] * (pairs[0] - pairs[1])).sum() / table["w"].sum()
    assert expected > 1e-6
    assert log.quantisation_error == pytest.approx(expected, rel=1e-3)  # C is kept off 0 and 1
    assert brier.quantisation_error < 1e-15  # two moments of a cell are kept: squares are exact


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("calibrator", ["auto", "isotonic", "platt"])
def test_cells_are_near_the_rows(calibrator):
    data = rows(30_000, digits=None, seed=2)
    sums = scale.aggregate(data, target="y", score="s", q="q", fold_column="fold")
    assert not sums.exact
    for loss in ("log", "brier"):
        found = sums.decompose(loss, calibrator=calibrator)
        theirs = plain(data, loss=loss, q=data["q"].to_numpy(), calibrator=calibrator)
        assert found.risk == pytest.approx(theirs.risk, abs=1e-13)  # the loss of S is summed row by row
        for term in found.names:
            error = theirs.std_error[term]
            assert abs(found.terms[term] - theirs.terms[term]) < 0.1 * error
            assert found.std_error[term] == pytest.approx(error, rel=0.01)
        assert 0.0 < found.quantisation_error < 0.1 * min(theirs.std_error.values())


def test_finer_cells_are_nearer(monkeypatch):
    monkeypatch.setattr("scoreprism._fitting.fitted_laws._FEW", 10**6)  # rows, each a cell of its own
    data = rows(20_000, digits=None, seed=4)
    theirs = plain(data, loss="log", calibrator="platt").terms["reliability"]
    errors, bounds = [], []
    for cells in (16, 64, 256, 1024):
        found = scale.decompose(
            data, target="y", score="s", fold_column="fold", calibrator="platt", cells=cells, loss="log"
        )
        errors.append(abs(found.terms["reliability"] - theirs))
        bounds.append(found.quantisation_error)
    assert bounds == sorted(bounds, reverse=True)
    assert errors[-1] < 1e-3 * errors[0]


def test_other_losses_are_evaluated_on_cells(monkeypatch):
    monkeypatch.setattr("scoreprism._fitting.fitted_laws._FEW", 10**6)  # rows, each a cell of its own
    data = rows(20_000, digits=None, seed=5)
    for loss in ("tsallis", "spherical"):
        found = scale.decompose(data, target="y", score="s", fold_column="fold", loss=loss, calibrator="platt")
        theirs = plain(data, loss=loss, calibrator="platt")
        assert found.risk == pytest.approx(theirs.risk, abs=1e-7)
        assert found.terms["reliability"] == pytest.approx(theirs.terms["reliability"], abs=1e-6)


# ── results ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_without_rows():
    found = scale.decompose(rows(), target="y", score="s", loss="brier", segments="region", time="day")
    with pytest.raises(UnavailableError, match="which holds no rows"):
        _ = found.rows
    with pytest.raises(UnavailableError, match="a bootstrap refits C and Q on resampled rows"):
        found.interval("reliability", method="bca")
    assert "Recalibrate" in str(found.summary())
    again = scale.ScaledDecomposition.from_json(found.to_json())
    assert again.terms == found.terms == scoreprism.Decomposition.from_json(found.to_json()).terms
    assert again.n_units == found.n_units
    assert again.segments["north"].interval("reliability") == found.segments["north"].interval("reliability")
    assert again.to_json() == found.to_json()
    kept = json.loads(found.to_json())
    assert set(kept["scale"]["segments"]["segments"]) == {"north", "south", "west"}
    assert kept["scale"]["quantisation_error"] == 0.0
    assert found.to_frame().height == 2


def test_huge_counts_cost_nothing():
    """Ten thousand million rows: counts are numbers, not arrays."""
    partial = scale.aggregate(rows(digits=2), target="y", score="s")
    from dataclasses import replace

    sums = {name for name in partial.table if name not in ("key", "y", "segment", "fold")}
    many = replace(partial, table={k: v * 2e6 if k in sums else v for k, v in partial.table.items()})
    found = many.decompose(loss="brier")
    assert found.n == found.n_units == 12_000_000_000
    assert found.std_error["reliability"] < 1e-5
    assert found.summary().advice


@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
def test_periods_of_dates(every):
    """Against Python's own calendar, over leap years and turns of centuries."""
    days = [date(1999, 12, 20) + timedelta(days=i) for i in range(0, 2200, 3)] + [date(1969, 12, 28), date(2100, 3, 1)]
    frame = pl.DataFrame({"t": days, "y": [0, 1] * (len(days) // 2), "s": [0.3] * len(days)})
    partial = scale.aggregate(frame, target="y", score="s", time="t", period=every)
    expected = {
        "day": lambda d: d.isoformat(),
        "week": lambda d: (d - timedelta(days=d.weekday())).isoformat(),
        "month": lambda d: f"{d:%Y-%m}",
        "quarter": lambda d: f"{d.year}-Q{(d.month + 2) // 3}",
        "year": lambda d: str(d.year),
    }[every]
    assert list(partial.periods) == sorted({expected(d) for d in days})


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"score": "z"}, InputError, "score must name a column of the data; got 'z'. There are y, s, q"),
        ({"score": "S"}, InputError, "score must name a column of the data; got 'S'"),
        ({"target": "region"}, InputError, "pos_label must name the positive class"),
        ({"score": "region"}, InputError, "score must hold numbers; got column 'region' of type String"),
        ({"q": "s"}, InputError, "every column must have one role; got 's' in several"),
        ({"latent": "pi"}, InputError, "latent must stand above q; got latent alone"),
        ({"cells": 2}, InputError, "cells must be"),
        ({"cells": 2**30}, InputError, "cells must be at most 1,048,576"),
        ({"segments": []}, InputError, "segments must name one or more columns"),
        ({"segments": ["region", "region"]}, InputError, "segments must name each column once"),
        ({"period": "month"}, InputError, "period must come with time"),
        ({"time": "region", "period": "month"}, InputError, "period must come with a column of dates"),
        ({"time": "day", "period": "fortnight"}, InputError, "period must be one of"),
        ({"time": "q"}, InputError, "time must hold periods or dates"),
        ({"fold_column": "fold", "fold_key": "fold"}, InputError, "folds must come from fold_column or fold_key; got both"),
        ({"fold_key": "region"}, InputError, "fold_key must be a column of whole numbers"),
        ({"loss": []}, InputError, "loss must be one loss"),
        ({"loss": "lag"}, InputError, "loss"),
        ({"form": "plug"}, InputError, "form must be one of"),
        ({"form": "plugin", "q": "q"}, InputError, "form='plugin' must have the probabilities of all rows"),
        ({"q": "q", "loss": "tsallis"}, InputError, "with q or latent, a loss must be one that engines evaluate; got tsallis.* Use brier, log"),
        ({"calibrator": "magic"}, InputError, "calibrator must be one of"),
        ({"clip": 0.7}, InputError, "clip"),
        ({"cv": 1}, InputError, "cv must be"),
        ({"pos_label": "yes"}, InputError, "pos_label must be a label of column 'y'"),
        ({"target": "fold"}, LabelError, "target 'fold' must be 0 or 1"),
        ({"score": "w"}, InputError, "score 'w' must hold probabilities from 0 to 1"),
        ({"engine": "polar"}, InputError, "engine must be one of polars, duckdb, dask, spark, ibis"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        scale.decompose(rows(400), **{"target": "y", "score": "s", **options})


def test_a_classifier_of_another_maker_is_no_map_of_sums():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(InputError, match="calibrator must be one of scoreprism's maps, which take sums"):
        scale.decompose(rows(400), target="y", score="s", calibrator=LogisticRegression())


def test_labels_that_are_words():
    data = rows(2000).with_columns(word=pl.when(pl.col("y") == 1).then(pl.lit("bad")).otherwise(pl.lit("good")))
    ours = scale.decompose(data, target="word", score="s", pos_label="bad", fold_column="fold", loss="log")
    assert_same(ours, plain(data, loss="log"))
    three = data.with_columns(word=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("other")).otherwise(pl.col("word")))
    with pytest.raises(LabelError, match="target 'word' must hold two labels; got 'bad', 'good', 'other'"):
        scale.decompose(three, target="word", score="s", pos_label="bad")
    signed = data.with_columns(y=pl.col("y") * 2 - 1)
    assert_same(scale.decompose(signed, target="y", score="s", fold_column="fold", loss="log"), plain(data, loss="log"))
    mixed = data.with_columns(y=pl.when(pl.int_range(pl.len()) < 9).then(-1).otherwise(pl.col("y")))
    with pytest.raises(LabelError, match="target 'y' must hold two labels; got 1, -1, 0. Filter"):
        scale.decompose(mixed, target="y", score="s")
