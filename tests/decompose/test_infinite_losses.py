"""A loss that is infinite: reported so, and beside it the same terms at a stated floor, marked everywhere."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism import Chain, Decomposition, FiniteModel, Level, compare, decompose, decompose_by, scale
from scoreprism.exceptions import InfiniteLossWarning, InputError, ScoreprismWarning
from scoreprism.losses import from_loss, get_loss
from tests.findings import select

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
#: 1/(2n) of 1250 rows, as it is said.
FLOOR, MARK = 1 / 2500, "with scores kept 0.0004 from 0 and 1"

pytestmark = pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")


def make_report(*args, **options):
    from scoreprism.report import make_report as make

    return make(*args, **options)


def call(*args, **options):
    from tests.cli.test_cli import call as run

    return run(*args, **options)


def forest(n=1250, trees=20, seed=0, *, power=3.0, bold=1.0):
    """A score as forests give it, shares of twenty votes: exact zeros where the chance is small."""
    rng = np.random.default_rng(seed)
    p = rng.random(n) ** power
    y = (rng.random(n) < p).astype(int)
    s = p**bold / (p**bold + (1 - p) ** bold)
    return y, np.round(s * trees) / trees, p


def classes(n=900, seed=0):
    """Shares of votes for three classes."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([0.6, 0.6, 0.6], n)
    y = (rng.random((n, 1)) > law.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    votes = np.round(law * 20)
    return y, votes / votes.sum(axis=1, keepdims=True)


def wrong_rows(y, s):
    """Rows that had probability 0 for what happened: by hand."""
    return np.flatnonzero(np.where(y == 1, s, 1 - s) == 0.0)


# ── Python ──────────────────────────────────────────────────────────────────────────────────────────


LOSSES = {
    "log": get_loss("log"),
    "tsallis": get_loss("tsallis", alpha=0.5),
    "beta": get_loss("beta", a=0.0, b=1.0),
    "custom": from_loss(lambda p, y: -np.log(p[np.arange(y.size), y]), name="mine"),
}


@pytest.mark.parametrize(
    ("loss", "form"), [*((loss, "debiased") for loss in LOSSES), ("log", "difference"), ("log", "plugin")]
)
def test_terms_at_the_floor_are_those_of_clip(loss, form):
    y, s, _ = forest(300, bold=2.0)
    options = {"loss": LOSSES[loss], "form": form, "random_state": 0}
    found, clipped = decompose(y, s, **options), decompose(y, s, clip=1 / 600, **options)
    assert found.risk == math.inf
    assert found.clip is None
    twin = found.floored
    assert (twin.clip, twin.risk, twin.terms, twin.std_error) == (
        1 / 600,
        clipped.risk,
        clipped.terms,
        clipped.std_error,
    )  # to the last bit
    for method in ("bracket", "envelope", "clt"):
        assert twin.interval("reliability", method=method) == clipped.interval("reliability", method=method)
    assert twin.resolution_form.terms == clipped.resolution_form.terms
    np.testing.assert_array_equal(twin.rows, clipped.rows)
    assert twin.floored is clipped.floored is None


def test_resamples_at_the_floor_are_those_of_clip():
    y, s, _ = forest(200)
    how = {"method": "bca", "n_resamples": 20}
    found, clipped = decompose(y, s, random_state=0), decompose(y, s, clip=1 / 400, random_state=0)
    assert found.floored.interval("reliability", **how) == clipped.interval("reliability", **how)


def test_several_classes_and_features_at_the_floor():
    y, s = classes()
    how = {"repeats": 1, "cv": 2, "random_state": 0}
    found = decompose(y, s, np.arange(900) % 7, **how)
    clipped = decompose(y, s, np.arange(900) % 7, clip=1 / 1800, **how)
    assert found.risk == math.inf
    assert found.floored.terms == clipped.terms
    assert found.floored._moved == int((s < 1 / 1800).any(axis=1).sum())


def test_what_was_said_of_an_infinite_loss_stays():
    y, s, _ = forest()
    with pytest.warns(InfiniteLossWarning, match=r"infinite: in 2 of 1,250 rows \(rows 58, 695\)"):
        found = decompose(y, s, random_state=0)
    assert wrong_rows(y, s).tolist() == [58, 695]
    interval = found.interval("reliability")
    assert np.isnan([interval.low, interval.high, found.std_error["reliability"]]).all()
    (said,) = select(found.findings, "infinite_loss")
    assert (said.n, said.facts["total"], said.facts["rows"]) == (2, 1250, [58, 695])
    assert said.text == (
        "The log loss is infinite: in 2 of 1,250 rows (rows 58, 695) the observed outcome had probability 0. First keep "
        "scores away from 0 and 1 (any recalibration map except the identity does), or pass clip=1e-6 to judge them at "
        "that distance."
    )


def test_where_there_is_no_floor():
    y, s, p = forest()
    assert decompose(y, s, loss="brier", random_state=0).floored is None
    assert decompose(y, p, random_state=0).floored is None
    assert decompose(y, s, clip=1e-6, random_state=0).floored is None
    model = FiniteModel([0.5, 0.5], [[0.5, 0.5], [0.2, 0.8]])
    exact = model.decompose([0.5, 1.0], [["x1", "x2"]], loss="log")
    assert exact.risk == math.inf
    assert exact.floored is None  # a population has no n


def test_n_counts_rows_that_have_weight():
    y, s, _ = forest(400)
    weight = np.where(np.arange(400) % 4 == 0, 0.0, np.random.default_rng(0).gamma(2.0, 5.0, 400))
    weight[wrong_rows(y, s)] = 1.0
    found = decompose(y, s, sample_weight=weight, groups=np.arange(400) // 4, random_state=0)
    assert found.floored.clip == 0.5 / np.count_nonzero(weight)  # neither their sum nor the number of groups
    at = found.floored.clip
    assert found.floored._moved == int((((s < at) | (s > 1 - at)) & (weight > 0)).sum())


def test_a_chain_corp_and_the_resolution_form_have_a_floor():
    y, s, c = [1, 0, 1, 0], [0.0, 0.5, 0.5, 0.5], [0.7, 0.2, 0.6, 0.4]
    chain = Chain(y, [Level("S", s), Level("C", c)])
    assert chain.decompose("log").floored.terms == chain.decompose("log", clip=1 / 8).terms
    assert chain.decompose("brier").floored is None
    corp = scoreprism.corp_decomposition(y, s)
    assert corp.floored.terms == scoreprism.corp_decomposition(y, s, clip=1 / 8).terms
    other = scoreprism.resolution_decomposition(y, s, c)
    assert other.floored.terms == scoreprism.resolution_decomposition(y, s, c, clip=1 / 8).terms
    # (−log ⅛ − 3 log ½)/4 = (log 8 + 3 log 2)/4 = 1.5 log 2
    assert chain.decompose("log").floored.risk == pytest.approx(1.5 * math.log(2))


def test_tables_show_both():
    y, s, _ = forest()
    found = decompose(y, s, random_state=0)
    text, twin = repr(found), found.floored
    assert text.startswith("log loss ∞ = reliability + refinement\n")
    assert f"log loss {twin.risk:.5f} = reliability + refinement, {MARK}\n" in text
    moved = int(((s < FLOOR) | (s > 1 - FLOOR)).sum())
    assert f"1,250 rows, of which {moved} moved]" in text
    assert not select(found.document().findings, "clipped")
    (floored,) = select(found.document().findings, "floored")
    assert floored == twin.findings[0]
    assert (floored.n, floored.facts) == (moved, {"floor": FLOOR, "total": 1250})
    assert twin.notes[0] == f"The terms are computed {MARK}, which moves {moved} of 1,250 rows."
    page = found._repr_html_()
    assert page.count("<table") == 2
    assert MARK in page
    frame = found.to_frame("polars")
    assert frame.height == 2
    assert frame["estimate"][0] == math.inf
    assert frame["floored_estimate"].to_list() == list(twin.terms.values())
    assert frame["floor"].to_list() == [FLOOR, FLOOR]
    assert "floor" not in decompose(y, s, loss="brier", random_state=0).to_frame("polars").columns


def test_advice_says_infinity_first_and_marks_the_rest():
    y, s, _ = forest(1250, bold=3.0)
    first, floored, *others = decompose(y, s, random_state=0).summary().findings
    assert (first.kind, floored.kind, first.facts["total"]) == ("infinite_loss", "floored", 1250)
    assert floored.facts["floor"] == FLOOR
    assert [one.kind for one in others] == ["recalibrate", "rest_unsplit"]
    assert all(one.facts["floor"] == FLOOR for one in others)
    clipped = decompose(y, s, clip=FLOOR, random_state=0).summary().findings
    assert [(one.kind, one.low, one.high, one.value) for one in others] == [
        (one.kind, one.low, one.high, one.value) for one in clipped
    ]
    summary = decompose(y, s, random_state=0).summary()
    assert summary.to_dict()["floored"]["floor"] == FLOOR
    assert repr(summary).count("what reduces it") == 2
    assert repr(summary).count("→ The log loss is infinite") == 1
    assert repr(summary).count(f"The terms are computed {MARK}") == 1


def test_json_comes_back_with_its_floor():
    y, s, _ = forest()
    found = decompose(y, s, random_state=0)
    back = Decomposition.from_json(found.to_json())
    assert repr(back) == repr(found)
    assert back.floored.terms == found.floored.terms
    assert back.summary().findings == found.summary().findings
    assert back.summary().advice == found.summary().advice
    assert "floored" not in json.loads(decompose(y, s, loss="brier", random_state=0).to_json())


@pytest.mark.parametrize("damage", [{"floored": {}}, {"moved": None}, {"clip": None}, None, 7])
def test_a_floor_in_json_is_checked(damage):
    y, s, _ = forest(100, bold=3.0)
    data = json.loads(decompose(y, s, random_state=0).to_json())
    floored = data["floored"] | damage if isinstance(damage, dict) else damage
    if damage == {"moved": None}:
        del floored["moved"]
    with pytest.raises(InputError) as caught:
        Decomposition.from_json(json.dumps(data | {"floored": floored}))
    assert str(caught.value) == (
        "the parts of the summary must fit together; got ValueError: a decomposition at a floor without its floor. "
        "Do not edit the JSON by hand."
    )


# ── several models, several parts ───────────────────────────────────────────────────────────────────


def test_models_are_compared_at_one_floor():
    y, s, p = forest()
    other = forest(1250, 10)[1]
    found = compare(y, {"twenty": s, "ten": other, "good": p}, random_state=0)
    floors = {name: d.floored.clip for name, d in found.decompositions.items()}
    assert floors == dict.fromkeys(floors, FLOOR)  # also of the one that is finite
    assert math.isfinite(found["good"].risk)
    assert found.ranking() == ("good", "twenty", "ten")
    gap = found.difference("twenty", "ten")
    assert math.isnan(gap.risk)
    clipped = compare(y, {"twenty": s, "ten": other, "good": p}, clip=FLOOR, random_state=0)
    for pair in (("twenty", "ten"), ("ten", "good")):
        mine, theirs = found.difference(*pair).floored, clipped.difference(*pair)
        assert (mine.risk, mine.terms, mine.std_error) == (theirs.risk, theirs.terms, theirs.std_error)
    assert f"rows, {MARK}\n" in repr(gap)
    assert f", smallest first, {MARK}\n" in repr(found)
    assert found.floored.ranking() == clipped.ranking()
    # what is finite speaks for itself
    assert not select(found["good"].summary().findings, "floored", "infinite_loss")
    assert not any("floor" in one.facts for one in found["good"].summary().findings)
    assert MARK not in repr(found["good"])
    assert compare(y, {"good": p, "also": p**1.1}, random_state=0).floored is None


def test_refinement_is_the_same_beside_an_infinite_loss():
    """Refinement is the loss of Ĉ, which the floor does not touch here: one estimate, and one interval."""
    y, s, p = forest(400, bold=2.0)
    # the last is 0 in rows where the forest is 0 too, and right there
    scores = {"forest": s, "smooth": np.clip(p, 0.01, 0.99), "exact": np.where(p < 0.0001, 0.0, p)}
    found = compare(y, scores, loss="log", random_state=0)
    assert [found[name].risk == math.inf for name in scores] == [True, False, False]
    for one in (found["forest"], found.difference("forest", "smooth")):
        assert one.interval("refinement") == one.floored.interval("refinement")
        assert one.interval("refinement").method.startswith("any shape")
    for one in (found["forest"], found.difference("forest", "smooth"), found.difference("forest", "exact")):
        assert np.isfinite(one.interval("refinement").low)
        assert np.isnan([one.interval("reliability").low, one.interval("reliability").high]).all()


def test_an_unknown_option_of_compare_is_that_of_decompose():
    with pytest.raises(TypeError, match=r"decompose\(\) got an unexpected keyword argument 'nonsense'"):
        compare([0, 1] * 5, {"a": [0.1] * 10}, nonsense=1)


def test_segments_are_judged_at_one_floor():
    y, s, _ = forest()
    part = np.arange(1250) % 3
    found = decompose_by(y, s, segments=part, random_state=0)
    infinite = {label for label in range(3) if wrong_rows(y[part == label], s[part == label]).size}
    assert infinite
    assert infinite != {0, 1, 2}
    assert {label for label, d in found.decompositions.items() if math.isinf(d.risk)} == infinite
    assert {d.floored.clip for d in found.decompositions.values()} == {FLOOR}
    for label in range(3):
        alone = decompose(y[part == label], s[part == label], clip=FLOOR, random_state=0)
        assert found[label].floored.terms == alone.terms
    assert MARK in repr(found)
    assert not any(math.isnan(p) for p in found.floored.pvalues().values())


# ── the report ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def report():
    y, s, p = forest(1250, bold=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)
        return make_report(
            y,
            {"forest": s},
            pl.DataFrame({"x": p, "noise": np.arange(1250) % 5}),
            segments={"side": np.arange(1250) % 2},
            sections=["verdict", "grouping", "segments", "method"],
            cv=2,
        )


def keyed(sections):
    """Tables and figures by their keys."""
    return {block.key: block for section in sections for block in section.blocks if hasattr(block, "key")}


def test_report_goes_on_after_an_infinite_loss(report):
    infinite, mark, *others = report.models["forest"].findings
    y, s, _ = forest(1250, bold=2.0)
    rows = wrong_rows(y, s)
    assert (infinite.kind, infinite.n) == ("infinite_loss", rows.size)
    assert list(infinite.facts["rows"]) == rows[: len(infinite.facts["rows"])].tolist()
    twin = report.models["forest"].decompositions["log"].floored
    assert (mark.kind, mark.facts["floor"], mark.n) == ("floored", FLOOR, twin._moved)
    gain = next(one for one in others if one.kind == "recalibrate")
    assert gain.low == twin.lower_bound("reliability").value
    assert gain.value == twin.risk
    assert [one.kind for one in report["verdict"].findings][:3] == ["infinite_loss", "floored", "recalibrate"]
    assert (
        report.headline.index("infinite") < report.headline.index(MARK[1:]) < report.headline.index(f"{gain.low:.3g}")
    )
    assert f"{twin.risk:.4g}" in report.headline
    assert report.settings["floor"] == FLOOR


def test_figures_and_tables_of_the_report_are_there_and_marked(report):
    drawn = keyed(report.sections)
    assert drawn["waterfall"].title.endswith(MARK)
    assert drawn["segments-figure-1-1"].title.endswith(MARK)
    rows = {row[0]: row for row in drawn["terms"].rows}
    assert list(rows) == ["log", f"log, {MARK}", "brier"]
    assert rows["log"][1:3] == (math.inf, math.inf)
    assert rows[f"log, {MARK}"][1] == report.models["forest"].decompositions["log"].floored.risk
    heads = [column.title for column in drawn["segments-1-1"].columns]
    assert heads[heads.index("log loss") + 1] == MARK
    marked = [block.title for key, block in drawn.items() if key.startswith(("features-", "grouping-models"))]
    assert all(MARK in title for title in marked)


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_every_form_of_the_report_is_marked(report, form):
    assert MARK in getattr(report, f"to_{form}")()


def report_csv(report):
    return report.to_csv()


def test_json_of_the_report_fits_its_schema(report):
    jsonschema = pytest.importorskip("jsonschema")
    data = json.loads(report.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(data)
    log, brier = (data["models"]["forest"]["losses"][name] for name in ("log", "brier"))
    assert "floored" not in brier
    assert log["risk"] == "inf"
    twin = report.models["forest"].decompositions["log"].floored
    assert log["floored"]["floor"] == FLOOR
    assert log["floored"]["risk"] == twin.risk
    assert log["floored"]["terms"]["reliability"]["estimate"] == twin.terms["reliability"]
    damaged = {**log, "floored": {**log["floored"], "floor": 0}}
    data["models"]["forest"]["losses"]["log"] = damaged
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(data)


def test_csv_has_a_line_for_both(report):
    rows = pl.read_csv(report_csv(report).encode())
    assert rows["loss"].unique(maintain_order=True).to_list() == ["log", f"log, {MARK}", "brier"]
    first = rows.filter(pl.col("term") == "reliability")
    assert first["estimate"][0] == math.inf
    assert math.isfinite(first["lower_bound"][1])


def test_report_on_several_models():
    y, s, p = forest()
    ten = forest(1250, 10)[1]
    sections = ["verdict", "models"]
    found = make_report(y, {"twenty": s, "good": p, "ten": ten}, sections=sections)
    clipped = compare(y, {"twenty": s, "good": p, "ten": ten}, clip=FLOOR, random_state=0)
    assert found.headline.startswith("good has the smallest log loss, ")
    assert [m for m in found.models if found.models[m].findings[0].kind == "infinite_loss"] == ["twenty", "ten"]
    assert "twenty and ten is infinite" in found.headline
    blocks = keyed(found.sections)
    glance = blocks["glance"]
    assert [column.title for column in glance.columns][2:4] == ["log loss", MARK]
    assert [row[3] for row in glance.rows] == [clipped[name].risk for name in ("good", "twenty", "ten")]
    assert [row[0] for row in glance.rows] == list(clipped.ranking())
    assert blocks["plane"].title == f"Resolution plane, {MARK}"
    assert blocks["waterfall"].title.endswith(MARK)
    gap = clipped.difference("ten", "twenty")
    row = next(r for r in blocks["differences-floored"].rows if r[:2] == ("ten − twenty", "loss"))
    assert row[2] == gap.risk
    only = make_report(y, {"twenty": s, "ten": ten}, sections=sections)
    assert only.headline.startswith("The log loss of every model is infinite")
    assert MARK in only.headline
    assert [one.kind for one in only["models"].lead] == ["infinite_loss", "infinite_loss", "best_model", "not_worse"]
    assert only["models"].lead[2].facts["floor"] == FLOOR


def test_an_impossible_outcome_refutes_calibration_in_clusters():
    """Rows of clusters are judged by the bound, which is undefined: what cannot happen did, so p is 0."""
    y, s, _ = forest(600)
    found = make_report(y, s, groups=np.arange(600) // 2, sections=["verdict"])
    assert found.models["model"].tests["calibration"].pvalue == 0.0


# ── the command line ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, s, p = forest()
    pl.DataFrame({"y": y, "forest": s, "ten": forest(1250, 10)[1], "good": p}).write_csv("scores.csv")
    return "scores.csv"


ONE = ("--target", "y", "--score", "forest")


def test_diagnose_shows_terms_and_names_the_option(file):
    found = call("diagnose", file, *ONE)
    flat = " ".join(found.stdout.split())
    assert "The log loss of forest is infinite" in flat
    assert f"{MARK[1:]}, it is " in flat
    note = f"note: the log loss of forest is infinite; its terms are shown {MARK}. Use --clip to choose the distance; "
    assert f"{note}gates then use it too\n" in found.stderr
    assert "clip=" not in found.stdout + found.stderr
    assert "--clip" not in call("diagnose", file, *ONE, "--clip", "0.001").stderr


def test_gates_on_an_infinite_loss_fail_without_clip(file):
    gate = ("--max-reliability", "10", "--gate-on", "lower")  # tests/cli/test_cli.py has every --gate-on
    failed = call("diagnose", file, *ONE, *gate, code=1)
    assert (
        "gate failed: The lower 95 % bound of the reliability of forest (log loss) is infinite, above --max-reliability 10 "
        "(--clip 1e-6 judges it at that distance from 0 and 1)"
    ) in failed.stderr
    call("diagnose", file, *ONE, *gate, "--clip", "0.0004")


def test_compare_on_the_command_line(file):
    found = call("compare", file, "--target", "y", "--score", "forest", "--score", "ten", "--score", "good")
    flat = " ".join(found.stdout.split())
    assert f"Paired differences of the log loss and its terms, {MARK}" in flat
    assert "All models at a glance (log loss)" in flat
    assert "note: the log loss of forest, ten is infinite" in found.stderr


def test_an_infinite_reference_names_the_option(file):
    failed = call("diagnose", file, "--target", "y", "--score", "good", "--q", "forest", code=2)
    assert (
        "level 'Q' must have a finite log loss in every row; it is infinite in 2 of 1250 rows (58, 695)"
        in failed.stderr
    )
    assert failed.stderr.rstrip().endswith(" --clip 1e-6 (or another distance from 0).")


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────


def rows(n=4000, *, exact=True):
    y, s, p = forest(n)
    score = s if exact else np.where(p < 0.004, 0.0, p)  # many distinct scores, and exact zeros among them
    half = np.arange(n) // (n // 2)
    return pl.DataFrame({"y": y, "p": score, "q": np.clip(p, 1e-3, 1 - 1e-3), "g": np.arange(n) % 2, "t": half})


@pytest.mark.parametrize("exact", [True, False], ids=["distinct", "cells"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_at_the_floor_are_those_of_clip(exact, weighted):
    data = rows(exact=exact).with_columns(w=pl.Series(np.random.default_rng(1).gamma(2.0, 1.0, 4000)))
    how = {"target": "y", "score": "p", "loss": "log", "segments": "g", "time": "t", "random_state": 0}
    how |= {"sample_weight": "w", "calibrator": "platt"} if weighted else {}  # the default maps once
    found, clipped = scale.decompose(data, **how), scale.decompose(data, clip=1 / 8000, **how)
    assert found.sums.exact == exact
    assert found.risk == math.inf
    twin = found.floored
    assert twin.clip == 1 / 8000
    # within the one cell that lies astride the floor; without one, up to rounding
    near = 1e-12 + 2 * abs(twin.quantisation_error - clipped.quantisation_error)
    for name in found.names:
        assert twin.terms[name] == pytest.approx(clipped.terms[name], abs=near)
        assert twin.std_error[name] == pytest.approx(clipped.std_error[name], rel=1e-6)
    score = data["p"].to_numpy()
    assert twin._moved == int(((score < twin.clip) | (score > 1 - twin.clip)).sum())
    for label in (0, 1):
        assert found.segments[label].floored.clip == twin.clip
        assert found.segments.floored[label].risk == pytest.approx(clipped.segments[label].risk, abs=near)
    mine, theirs = found.drift().floored, clipped.drift()
    assert mine.change("reliability", 1) == pytest.approx(theirs.change("reliability", 1), abs=4 * near)
    assert f"{twin._mark}\n" in repr(found.drift())
    for way in ("mix", "stale"):
        ours, wanted = (getattr(drift, way)() for drift in (mine, theirs))
        for part, values in wanted.value.items():
            np.testing.assert_allclose(ours.value[part], values, atol=1e-9)
    back = scale.ScaledDecomposition.from_json(found.to_json())
    assert back.floored.terms == twin.terms


def test_a_floor_inside_a_cell_is_bounded():
    """Scores below and above the floor in one cell: the loss of S is exact but for that cell, whose error is bounded."""
    rng = np.random.default_rng(0)
    s = np.concatenate([np.zeros(200), rng.uniform(1e-5, 6e-4, 1800), rng.random(2000)])
    y = (rng.random(4000) < np.maximum(s, 0.02)).astype(int)
    found = scale.decompose(pl.DataFrame({"y": y, "p": s}), target="y", score="p", loss="log", cells=64)
    truth = float(get_loss("log").loss(np.clip(s, 1 / 8000, 1 - 1 / 8000), y).mean())
    assert found.risk == math.inf
    assert found.floored.risk != truth
    assert found.floored.risk == pytest.approx(truth, abs=found.floored.quantisation_error)


def test_sums_with_a_finer_law_say_what_was_not_moved():
    found = scale.decompose(rows(), target="y", score="p", q="q", loss="log", random_state=0)
    (unmoved,) = select(found.floored.findings, "unclipped_levels")
    assert unmoved.text == "Q is used as it was summed: only S and C are kept away from 0 and 1."
    assert sum(found.floored.terms.values()) == pytest.approx(found.floored.risk)


@pytest.mark.parametrize("calibrator", ["temperature", "auto"])
def test_several_classes_at_scale(calibrator):
    y, s = classes()
    data = pl.DataFrame(
        {"y": y, **{f"p{k}": s[:, k] for k in range(3)}, "g": np.arange(900) % 2, "f": np.arange(900) % 4}
    )
    how = {"target": "y", "score": ["p0", "p1", "p2"], "classes": [0, 1, 2], "calibrator": calibrator, "loss": "log"}
    how |= {"segments": "g", "fold_column": "f", "random_state": 0}
    found, clipped = scale.decompose(data, **how), scale.decompose(data, clip=1 / 1800, **how)
    assert found.risk == math.inf
    assert found.floored.terms == pytest.approx(clipped.terms, rel=0, abs=1e-14)  # sums of two passes
    assert found.floored._moved == int((s < 1 / 1800).any(axis=1).sum())
    assert {d.floored.clip for d in found.segments.decompositions.values()} == {1 / 1800}
    assert found.segments.floored[0].terms == clipped.segments[0].terms


def test_report_from_sums_goes_on():
    data = rows()
    found = make_report(scale.aggregate(data, target="y", score="p", segments="g", time="t"))
    mark = "with scores kept 0.00013 from 0 and 1"  # 1/8000
    assert found.headline.startswith("The log loss of p is infinite")
    assert f"W{mark[1:]}, it is " in found.headline
    drift = found.tables["drift-1-2"]
    assert drift.title.startswith("Changes of the terms of the log loss")
    assert drift.title.endswith(mark)
    assert mark in keyed(found.sections)["segments-1-1"].note
    assert all(cell is not None for row in drift.rows for cell in row)
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(found.to_json()))
    assert mark in found.to_html()
    assert found.models["p"].tests["calibration"].pvalue == 0.0


# ── how often what is said is false ─────────────────────────────────────────────────────────────────


@pytest.mark.statistical
def test_recalibrate_at_the_floor_is_rarely_said_in_vain():
    """
    Votes of twenty trees that are calibrated but for zeros: the chance behind a vote of 0 is 0.004.

    The claim is that recalibration gains at least the bound, of the loss of the floored score: the truth is
    E d(clip(S), C) with C = P(Y | S), known here. The bound is at 95 %, so at most 5 % of samples may exceed it.
    """
    rng, false, said, samples, n = np.random.default_rng(1), 0, 0, 200, 1000
    levels = np.arange(21) / 20
    truth_c = np.where(levels == 0.0, 0.004, np.where(levels == 1.0, 0.996, levels))
    share = np.r_[0.4, np.full(19, 0.5 / 19), 0.1]
    log = get_loss("log")
    gain = float(share @ log.divergence(np.clip(levels, 0.5 / n, 1 - 0.5 / n), truth_c))
    for _ in range(samples):
        place = rng.choice(21, n, p=share)
        y = (rng.random(n) < truth_c[place]).astype(int)
        found = decompose(y, levels[place], calibrator="isotonic", random_state=0)
        if found.floored is None:
            continue
        said += 1
        false += found.floored.lower_bound("reliability").value > gain
    assert said > 100
    assert false <= 0.05 * said + 3 * math.sqrt(0.05 * 0.95 * said)
