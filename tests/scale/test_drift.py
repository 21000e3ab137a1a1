"""Drift between periods: changes, intervals, tests, the split of a change, maps that have gone stale, the figure."""

from __future__ import annotations

import json
import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from scoreprism import scale
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss

mpl.use("Agg")


def made(powers, n=1500, seed=0, label=lambda k: k, **more):
    """Uniform scores whose true rate is a power of them, one power for each period."""
    rng = np.random.default_rng(seed)
    p, period = rng.random(n * len(powers)), np.repeat(np.arange(len(powers)), n)
    y = (rng.random(p.size) < p ** np.array(powers)[period]).astype(int)
    rows = pl.DataFrame({"y": y, "p": p, "t": [label(int(k)) for k in period]})
    return rows, scale.decompose(rows, target="y", score="p", time="t", **{"loss": "brier", "cells": 64, **more})


@pytest.fixture(scope="module")
def found():
    return made((1.0, 1.0, 1.6))[1]


@pytest.fixture(scope="module")
def drift(found):
    return found.drift()


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


# ── changes ─────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_add_up_to_that_of_the_loss(found, drift):
    for period in (1, 2):
        total = sum(drift.change(name, period) for name in drift.names)
        assert math.isclose(total, found.periods[period].risk - found.periods[period - 1].risk, abs_tol=1e-12)
        assert math.isclose(total, drift.change("loss", period), abs_tol=1e-12)
    assert math.isclose(drift.terms["reliability"], drift.change("reliability", 1) + drift.change("reliability", 2))


@pytest.mark.parametrize(
    ("baseline", "pairs"),
    [("previous", ((1, 0), (2, 1))), ("first", ((1, 0), (2, 0))), (1, ((0, 1), (2, 1))), (2, ((0, 2), (1, 2)))],
)
def test_what_is_compared_with_what(found, baseline, pairs):
    assert found.drift(baseline).pairs == pairs


def test_a_period_may_be_called_first():
    _, found = made((1.0, 1.6), 400, label=lambda k: ("alpha", "first")[k], calibrator="platt")
    assert found.drift("first").pairs == (("alpha", "first"),)  # the period, not the rule
    assert found.drift("previous").pairs == (("first", "alpha"),)


def test_rows_without_a_period_are_compared_with_nothing():
    _, found = made((1.0, 1.6, 1.0), 400, label=lambda k: (0, 1, None)[k], calibrator="platt")
    assert set(found.periods) == {0, 1, None}
    assert found.drift().pairs == ((1, 0),)


def test_interval_of_the_loss_is_that_of_two_independent_means(drift):
    # brute force on the rows: variance of each mean, added
    rows, _ = made((1.0, 1.0, 1.6))
    loss = rows.with_columns(l=(pl.col("y") - pl.col("p")) ** 2)
    parts = [loss.filter(pl.col("t") == t)["l"].to_numpy() for t in (1, 2)]
    error = math.hypot(*(part.std() / math.sqrt(part.size) for part in parts))
    interval = drift.interval("loss", 2)
    assert math.isclose(interval.high - interval.low, 2 * 1.959963985 * error, rel_tol=1e-8)
    z = (parts[1].mean() - parts[0].mean()) / error
    assert math.isclose(drift.pvalues("loss", adjusted=False)[2], 2 * norm.sf(abs(z)), rel_tol=1e-6)


def test_interval_of_a_term_is_mover_of_the_two_brackets(found, drift):
    for name in drift.names:
        for later in (1, 2):
            after, before = found.periods[later], found.periods[later - 1]
            x, y, one, two = after.terms[name], before.terms[name], after.interval(name), before.interval(name)
            got = drift.interval(name, later)
            # Zou and Donner (2008), from the published ends; the distance to an end that was cut at 0 is not negative
            below, above = max(x - one.low, 0.0), max(y - two.low, 0.0)
            assert math.isclose(got.low, x - y - math.hypot(below, two.high - y), abs_tol=1e-12)
            assert math.isclose(got.high, x - y + math.hypot(one.high - x, above), abs_tol=1e-12)
    assert min(found.periods[t].terms["reliability"] for t in (0, 1)) < 0.0  # a cut end was among them


def test_interval_and_p_value_agree(drift):
    for name in (*drift.names, "loss"):
        for period, p in drift.pvalues(name, adjusted=False).items():
            if 1e-10 < p < 1.0:
                for level, inside in ((1 - 0.98 * p, True), (1 - 1.02 * p, False)):
                    interval = drift.interval(name, period, level)
                    assert (interval.low <= 0.0 <= interval.high) is inside


def test_what_changed_is_found_and_what_did_not_is_not(drift):
    p = drift.pvalues("reliability")
    assert p[2] < 1e-4
    assert p[1] > 0.05
    raw = drift.pvalues("reliability", adjusted=False)
    assert math.isclose(p[2], 2 * raw[2])  # Holm: the smallest of two counts twice


def test_p_value_far_out_and_of_no_change():
    rows, found = made((1.0, 9.0), 30_000, calibrator="platt")
    assert found.drift().pvalues("loss")[1] < 1e-300
    twice = pl.concat([rows.filter(pl.col("t") == 0).with_columns(t=pl.lit(t)) for t in (0, 1)])
    same = scale.decompose(twice, target="y", score="p", time="t", loss="brier", calibrator="platt").drift()
    assert [same.pvalues(name)[1] for name in (*same.names, "loss")] == pytest.approx([1.0, 1.0, 1.0], abs=1e-9)


def test_a_change_is_put_together_from_the_intervals_of_both_periods(drift):
    """Zou and Donner's rule by hand, on ends that hold for any shape; where an end is cut the distance is to the cut."""
    after, before = drift.periods[2], drift.periods[1]
    one, two = (found.interval("reliability") for found in (after, before))
    assert one.method == two.method == "any shape"
    change = after.terms["reliability"] - before.terms["reliability"]
    below = math.hypot(after.terms["reliability"] - one.low, two.high - before.terms["reliability"])
    above = math.hypot(one.high - after.terms["reliability"], max(before.terms["reliability"] - two.low, 0.0))
    found = drift.interval("reliability", 2)
    assert (found.low, found.high) == pytest.approx((change - below, change + above), abs=1e-12)
    assert found.method == "from both intervals (MOVER)"


# ── periods ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_period_of_few_rows_is_left_out_and_told():
    rows, _ = made((1.0, 1.0, 1.0), 300)
    few = rows.filter((pl.col("t") != 1) | (pl.col("y") == 1))
    drift = scale.decompose(few, target="y", score="p", time="t", loss="brier").drift()
    assert drift.pairs == ((2, 0),)
    assert "period 1 was left out: the target must hold both outcomes" in repr(drift)
    assert list(drift.to_dict()["skipped"]) == ["1"]
    display = drift.plot()
    assert display.skipped_[0].get_xdata().tolist() == [1]


def test_periods_are_in_order_when_segments_start_at_different_times():
    rows, _ = made((1.0, 1.0, 1.0, 1.0), 300, label=lambda k: f"2026-{k + 1:02d}")
    rows = rows.with_columns(region=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("a")).otherwise(pl.lit("b")))
    late = rows.filter((pl.col("region") == "b") | (pl.col("t") > "2026-02"))  # region a starts in March
    drift = scale.decompose(late, target="y", score="p", time="t", segments="region", loss="brier").drift()
    assert [after for after, _ in drift.pairs] == ["2026-02", "2026-03", "2026-04"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda found: found.drift("last"),
            r"baseline must be one of previous, first, or a period: 0, 1, 2; got 'last'",
        ),
        (lambda found: found.drift().interval("grouping", 1), r"term must be one of"),
        (lambda found: found.drift().interval("loss", 0), r"the period must be one of 1, 2; got 0"),
    ],
)
def test_refusals(found, call, message):
    with pytest.raises(InputError, match=message):
        call(found)


def test_one_period_is_no_drift():
    with pytest.raises(InputError, match=r"drift must have at least two periods; got 1"):
        made((1.0,), 300)[1].drift()


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────


def test_frame_and_json_hold_every_change(drift):
    frame = drift.to_frame("polars")
    assert frame.shape == (6, 10)
    assert frame.columns == ["period", "baseline", "term", "before", "after", "change", "low", "high", "p", "p_holm"]
    assert np.allclose(frame["after"] - frame["before"], frame["change"])
    read = json.loads(drift.to_json())
    assert [line["change"] for line in read["changes"]] == frame["change"].to_list()
    assert read["loss"] == "brier"


def test_repr_has_a_line_for_each_period(drift):
    text = repr(drift).splitlines()
    assert text[0] == "brier loss, changes from the period before"
    lines = [line for line in text if line.startswith(("1 ", "2 "))]
    sheets = sum(line.startswith("period ") for line in text)  # a table that is too wide is shown in parts
    assert [line.split()[0] for line in lines] == ["1", "2"] * sheets
    shown = " ".join(lines)
    for name in ("loss", "reliability", "refinement"):
        for period in (1, 2):
            low, high = drift.interval(name, period).low, drift.interval(name, period).high
            star = "*" if drift.pvalues(name)[period] < 0.05 else ""
            cell = f"{drift.change(name, period):+.5f}{star} ({low:+.5f} to {high:+.5f})"
            assert cell.replace("-", "−") in shown
    assert "*" in shown
    assert text[-1] == "In brackets: 95 % intervals, each by itself; *: p < 0.05 by Holm's method over 2 changes."
    assert "<table" in drift._repr_html_()


def test_an_infinite_loss_has_no_change():
    rows, _ = made((1.0, 1.0), 400)
    broken = rows.with_columns(p=pl.when(pl.int_range(pl.len()) % 400 == 0).then(pl.lit(0.0)).otherwise("p"))
    broken = broken.with_columns(y=pl.when(pl.col("p") == 0.0).then(pl.lit(1)).otherwise("y"))
    with pytest.warns(UserWarning, match="infinite"):
        drift = scale.decompose(broken, target="y", score="p", time="t", loss="log").drift()
    assert math.isnan(drift.change("loss", 1))
    assert math.isnan(drift.pvalues("loss")[1])
    assert all(math.isnan(part[0]) for part in drift.mix().value.values())  # an infinite loss has no split
    assert json.loads(drift.to_json())["changes"][0]["change"] == "nan"
    with pytest.raises(InputError, match="a figure must show a finite term"):
        drift.plot()


# ── mix and maps ────────────────────────────────────────────────────────────────────────────────────────


def test_mix_and_outcomes_add_up_to_the_change(drift):
    mix = drift.mix()
    for i, period in enumerate((1, 2)):
        total = mix.value["mix"][i] + mix.value["outcomes"][i]
        assert math.isclose(total, drift.change("loss", period), abs_tol=1e-12)
    assert mix.low["outcomes"][0] < 0.0 < mix.high["outcomes"][0]
    assert json.loads(mix.to_json()) == mix.to_dict()
    assert mix.to_dict()["parts"][0]["part"] == "mix"


def test_mix_is_standardisation_by_strata_of_the_score():
    # brute force on rows: two scores, so two strata
    rng = np.random.default_rng(1)
    share, rate = (0.5, 0.8), ((0.2, 0.6), (0.3, 0.6))
    t = np.repeat([0, 1], 2000)
    s = np.where(rng.random(4000) < np.array(share)[t], 0.2, 0.7)
    y = (rng.random(4000) < np.array(rate)[t, (s > 0.5).astype(int)]).astype(int)
    rows = pl.DataFrame({"y": y, "s": s, "t": t})
    mix = scale.decompose(rows, target="y", score="s", time="t", loss="brier").drift().mix()
    loss = (s - y) ** 2
    expected = sum(loss[(t == 0) & (s == v)].mean() * (s[t == 1] == v).mean() for v in (0.2, 0.7))
    assert math.isclose(mix.value["mix"][0], expected - loss[t == 0].mean(), abs_tol=1e-12)
    assert math.isclose(mix.value["outcomes"][0], loss[t == 1].mean() - expected, abs_tol=1e-12)
    again = [_bootstrapped(rng, s, loss, t) for _ in range(300)]
    assert mix.std_error["mix"][0] == pytest.approx(np.std([m for m, _ in again]), rel=0.2)
    assert mix.std_error["outcomes"][0] == pytest.approx(np.std([law for _, law in again]), rel=0.2)


def _bootstrapped(rng, s, loss, t):
    old, new = (rng.choice(np.flatnonzero(t == k), 2000) for k in (0, 1))
    expected = sum(loss[old][s[old] == v].mean() * (s[new] == v).mean() for v in (0.2, 0.7))
    return expected - loss[old].mean(), loss[new].mean() - expected


@pytest.mark.parametrize(("weighted", "clip"), [(False, None), (True, None), (True, 0.1)])
def test_errors_of_a_mix_are_those_of_its_influence(weighted, clip):
    """By hand, from the influence of every row; weights that go with the loss, so that no product of them is 0."""
    rng = np.random.default_rng(4)
    t, s = np.repeat([0, 1], 400), rng.choice([0.05, 0.3, 0.7], 800)
    y = (rng.random(800) < s + 0.1 * t).astype(int)
    w = np.where(y == 1, 3.0, 0.5) if weighted else np.ones(800)
    rows = pl.DataFrame({"y": y, "s": s, "t": t, "w": w})
    options = {"loss": "tsallis" if clip else "log", "clip": clip, "calibrator": "platt"}
    mix = scale.decompose(rows, target="y", score="s", time="t", sample_weight="w", **options).drift().mix()
    p = s if clip is None else np.clip(s, clip, 1.0 - clip)
    loss = get_loss(options["loss"]).evaluate(p, y)
    old, new = ({k: v[t == at] for k, v in {"s": s, "l": loss, "w": w}.items()} for at in (0, 1))
    mean = {v: np.average(old["l"][old["s"] == v], weights=old["w"][old["s"] == v]) for v in np.unique(s)}
    share = [{v: part["w"][part["s"] == v].sum() / part["w"].sum() for v in mean} for part in (old, new)]
    base, now = (np.array([mean[v] for v in part["s"]]) for part in (old, new))
    ratio = np.array([share[1][v] / share[0][v] for v in old["s"]])
    risks = [np.average(part["l"], weights=part["w"]) for part in (old, new)]
    expected = np.average(now, weights=new["w"])

    def error(first, second):
        parts = (np.sum((part["w"] * rows) ** 2) / part["w"].sum() ** 2 for part, rows in ((old, first), (new, second)))
        return math.sqrt(sum(parts))

    assert mix.value["mix"][0] == pytest.approx(expected - risks[0], abs=1e-12)
    assert mix.std_error["mix"][0] == pytest.approx(
        error(ratio * (old["l"] - base) - (old["l"] - risks[0]), now - expected), rel=1e-9
    )
    law = new["l"] - now - (risks[1] - expected)
    assert mix.std_error["outcomes"][0] == pytest.approx(error(ratio * (old["l"] - base), law), rel=1e-9)


@pytest.mark.parametrize("scores", [1000, 1003])
def test_strata_hold_enough_rows(scores):
    """Standardisation by strata of the baseline with at least 35 of its rows each, a last one that is smaller joined."""
    rng = np.random.default_rng(5)
    grid = np.linspace(0.1, 0.9, scores)
    old, new = np.tile(grid, 7), rng.choice(grid, 5000, p=grid / grid.sum())
    s, t = np.concatenate([old, new]), np.repeat([0, 1], [old.size, new.size])
    y = (rng.random(s.size) < s**1.3).astype(int)
    rows = pl.DataFrame({"y": y, "s": s, "t": t})
    mix = scale.decompose(rows, target="y", score="s", time="t", loss="brier", calibrator="platt").drift().mix()
    place = np.searchsorted(grid, s)
    wanted = math.ceil(max(30, 7 * scores / 200) / 7)  # scores that make a stratum
    stratum = np.minimum(place // wanted, scores // wanted - 1)
    loss, size = (y - s) ** 2, int(stratum.max()) + 1
    mean = np.bincount(stratum[t == 0], loss[t == 0], size) / np.bincount(stratum[t == 0])
    expected = np.bincount(stratum[t == 1], minlength=size) @ mean / new.size
    assert size > 150
    assert mix.value["mix"][0] == pytest.approx(expected - loss[t == 0].mean(), abs=1e-12)


@pytest.mark.parametrize("ends", [(0.2, 0.9), (0.02, 0.5)])
def test_scores_that_the_baseline_does_not_reach_are_told(ends):
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0.2, 0.5, 500), rng.uniform(*ends, 500)])
    rows = pl.DataFrame({"y": (rng.random(1000) < p).astype(int), "p": p, "t": np.repeat([0, 1], 500)})
    mix = scale.decompose(rows, target="y", score="p", time="t", loss="brier").drift().mix()
    (found,) = mix.document().findings
    beyond = np.mean((p[500:] < p[:500].min()) | (p[500:] > p[:500].max()))
    assert (found.kind, found.facts) == ("unreached_scores", {"after": "1", "before": "0"})
    assert found.value == pytest.approx(beyond, abs=0.02)
    assert " of the rows of period 1 have scores that do not occur in period 0: " in found.text


def test_a_map_of_the_baseline_is_right_until_the_law_changes():
    _, found = made((1.6, 1.6, 0.8), 4000)
    stale = found.drift("first").stale()
    assert stale.low["gains"][0] > 0.0  # nothing changed: the map still helps
    assert stale.high["loses"][0] < 0.005
    assert stale.high["gains"][1] < 0.0  # and now it does harm
    assert stale.low["loses"][1] > 0.005
    # what the map gains and loses is the reliability of the score itself
    total = stale.value["gains"] + stale.value["loses"]
    own = [found.periods[t].terms["reliability"] for t in (1, 2)]
    assert np.allclose(total, own, atol=1e-12)


# ── the figure ──────────────────────────────────────────────────────────────────────────────────────────


def test_figure_shows_the_numbers(found, drift):
    display = drift.plot()
    assert [ax.get_title("left") for ax in display.axes_] == ["brier loss", "reliability", "refinement"]
    drawn = display.line_[1].get_ydata()
    assert np.allclose(drawn, [found.periods[t].terms["reliability"] for t in range(3)])
    assert np.isfinite(display.changed_[1].get_ydata()).tolist() == [False, False, True]
    ends = display.interval_[1].get_segments()[2][:, 1]
    assert np.allclose(
        ends, [found.periods[2].interval("reliability").low, found.periods[2].interval("reliability").high]
    )


def test_parts_of_a_change_have_a_figure(drift):
    parts = drift.mix()
    display = parts.plot()
    assert [ax.get_title("left") for ax in display.axes_] == ["mix", "outcomes"]
    for line, bars, name in zip(display.line_, display.interval_, parts.names, strict=True):
        assert np.allclose(line.get_ydata(), parts.value[name])
        assert np.allclose(
            [segment[:, 1] for segment in bars.get_segments()], np.column_stack([parts.low[name], parts.high[name]])
        )


@pytest.mark.parametrize("count", [2, 12, 60])
def test_labels_of_periods_do_not_overlap(count):
    _, found = made((1.0,) * count, 250, label=lambda k: f"{2021 + k // 12}-{k % 12 + 1:02d}", calibrator="platt")
    display = found.drift().plot()
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.ax_.get_xticklabels() if label.get_text()]
    assert all(one.x1 < two.x0 for one, two in zip(boxes, boxes[1:], strict=False))
    assert len(boxes) >= min(count, 5)


def test_figure_in_axes_of_the_user_and_on_dark_paper(drift):
    with plt.style.context("dark_background"):
        figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
        display = drift.plot(axes[0], terms=["reliability"])
        figure.canvas.draw()
    assert len(display.axes_) == 1
    assert display.axes_[0].title.get_color() != "#222222"
    with pytest.raises(InputError, match="axes of a grid to divide"):
        drift.plot(plt.figure().add_axes((0, 0, 1, 1)))


def test_a_decomposition_from_sums_has_the_figure_of_any_other(found):
    assert type(found.plot()).__name__ == "DecompositionDisplay"
