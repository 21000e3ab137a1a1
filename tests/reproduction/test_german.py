"""German credit and what the paper could not see: the paper's protocol, its numbers beside ours, and our own section."""

import warnings
from dataclasses import replace
from functools import partial
from html import unescape

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from reproduction import PLANS, STATEMENTS, Work, beyond, german, members
from reproduction.checks import judge, relative_error
from reproduction.german import (
    clip_log_loss,
    compare_tables,
    draw_conclusions,
    explain_forest,
    explain_spread,
    match_clip,
    recalibrate_split,
    run_more,
)
from reproduction.members import (
    CLIP,
    GLM,
    Laws,
    Recorded,
    collect_laws,
    collect_scores,
    encode_features,
    fit_split,
    make_models,
    make_splits,
    name_rows,
    run_protocol,
    take_values,
)
from reproduction.statements import METHODS, select
from scoreprism import decompose
from scoreprism.calibrators import IsotonicCalibrator
from scoreprism.datasets import load_german_credit
from scoreprism.pipelines import paired_comparison, repeated_splits
from scoreprism.report import Figure, Origin, Report, Table
from tests.figures.test_displays import collisions

TINY = replace(PLANS["quick"], splits=4, trees=10, redraws=2)


@pytest.fixture(scope="module")
def work():
    return Work(TINY)


@pytest.fixture(scope="module")
def outcome(work):
    return german.run(work)


@pytest.fixture(scope="module")
def own(work):
    """Our own section, with a plain reference law; the population is another module's, tested there."""
    by_rho = Table("by-rho", "By ρ", (), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beyond, "decompose", partial(decompose, reference="logistic"))
        patch.setattr(beyond, "tabulate_population", lambda _: by_rho)
        patch.setattr(beyond, "name_numbers", lambda given: {"population/lcs": float(given is work)})
        return beyond.run(work)


# ── models and splits ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("split", [0, 9])
def test_glm_takes_the_steps_of_fisher_scoring(split):
    """statsmodels 0.14: GLM(Binomial).fit starts at μ = (y + ½)/2 too; the same number of steps, separated or not."""
    sm = pytest.importorskip("statsmodels.api")
    train, y = make_splits(split + 1)[split][0], load_german_credit().y
    rows = encode_features()["glm"][train]
    model = GLM().fit(rows, y[train])
    design = sm.add_constant(rows, has_constant="add")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sm.GLM(y[train], design, family=sm.families.Binomial()).fit(maxiter=model.n_iter_, tol=0.0)
    eta = np.log(theirs.fittedvalues) - np.log1p(-theirs.fittedvalues)
    assert design @ model.coef_ == pytest.approx(np.asarray(eta), abs=1e-4)


def test_glm_stops_where_the_likelihood_has_no_maximum():
    """By hand: x = 0 has both outcomes, deviance 2·2·log 2; x = 1 has one, and its deviance goes to 0 step by step."""
    model = GLM().fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 1, 1])
    p = model.predict_proba([[0.0], [0.0], [1.0], [1.0]])[:, 1]
    assert -2 * np.log([1 - p[0], *p[1:]]).sum() == pytest.approx(4 * np.log(2), abs=1e-6)
    assert 15 < model.n_iter_ <= 25
    assert GLM().fit([[0.0], [1.0], [0.0], [1.0]], ["a", "a", "b", "b"]).classes_.tolist() == ["a", "b"]


def test_splits_are_permutations_of_their_seeds():
    for seed, parts in enumerate(make_splits(3)):
        assert [part.size for part in parts] == [600, 200, 200]
        assert np.concatenate(parts).tolist() == np.random.default_rng(seed).permutation(1000).tolist()


def test_recorded_models_know_their_split_by_its_rows():
    rows = [np.array([0, 2]), np.array([1, 0])]
    record = {name_rows(rows[0]): np.array([0.1, 0.2, 0.3]), name_rows(rows[1]): np.array([0.4, 0.5, 0.6])}
    copy = clone(Recorded(record))
    assert copy.record is record  # not copied for every split
    assert copy.fit(np.array([[0], [1]]), [0, 1]).predict_proba(np.array([[2], [0]]))[:, 1].tolist() == [0.6, 0.4]
    assert clone(Recorded(record)).fit(np.array([[2], [0]]), [0, 1]).scores_[1] == 0.2
    with pytest.raises(KeyError):
        Recorded(record).fit(np.array([[1], [2]]), [0, 1])


def test_recorded_models_give_what_refitting_gives(work):
    """repeated_splits with the models themselves, on one of the splits and with the seed of its forest."""
    r, X = 2, encode_features()
    textbook = IsotonicCalibrator(interpolation="linear", shrink=False, clip=0)
    options = {"calibrator": textbook, "clip": 1e-6, "noise_floor": 0, "splits": [make_splits(r + 1)[r]]}
    first = X["glm"].shape[1]
    places = {"glm": list(range(first)), "forest": list(range(first, first + X["forest"].shape[1]))}
    models = {
        name: make_pipeline(make_column_transformer(("passthrough", places[name])), model)
        for name, model in make_models(10, r).items()
    }
    refitted = repeated_splits(models, pd.DataFrame(np.hstack(list(X.values()))), load_german_credit().y, **options)
    for row in refitted.to_frame().itertuples():
        for column in ("raw", "recalibrated", "reliability_plugin", "lcs"):
            recorded = take_values(run_protocol(work), row.loss, row.method, column)[r]
            assert getattr(row, column) == pytest.approx(recorded, abs=1e-12)


def test_models_are_fitted_once_and_the_same_in_every_process(work):
    assert collect_scores(work) is collect_scores(work)
    assert fit_split({"split": 1, "trees": 10})["forest"].tolist() == collect_scores(work)["forest"][1].tolist()


def test_laws_are_those_behind_the_frame(work):
    frame = run_protocol(work)
    for method, laws in collect_laws(work).items():
        C = np.clip(laws.recalibrated, CLIP, 1 - CLIP)
        losses = -np.log(np.where(laws.y == 1, C, 1 - C)).mean(axis=1)
        assert losses == pytest.approx(take_values(frame, "log", method, "recalibrated"), abs=1e-12)
        assert ((laws.raw - laws.recalibrated) ** 2).mean(axis=1) == pytest.approx(
            take_values(frame, "brier", method, "lcs"), abs=1e-12
        )
    assert list(collect_laws(work)) == list(METHODS)
    gain = take_values(frame, "log", "glm", "gain")
    assert gain.tolist() == (take_values(frame, "log", "glm", "raw") - take_values(frame, "log", "glm", "recalibrated")).tolist()  # fmt: skip


# ── the forest's number ─────────────────────────────────────────────────────────────────────────────


def test_a_certain_and_wrong_row_costs_minus_log_clip_over_200():
    C, y = np.full((1, 200), 0.5), np.zeros((1, 200), dtype=int)
    C[0, 0], y[0, 0] = 0.0, 1
    laws = Laws(C, C, y)
    for clip in (1e-6, 1e-3):
        assert clip_log_loss(laws, clip) == pytest.approx((199 * np.log(2) - np.log(clip)) / 200, abs=1e-12)
    wanted = clip_log_loss(laws, 1e-4)
    assert match_clip(laws, wanted) == pytest.approx(1e-4, rel=1e-6)
    assert match_clip(laws, 5.0) is None


def test_what_the_paper_says_of_the_forest_twice(work):
    """tab:robustness .549; average .601 there with −.0184 of tab:germancredit-tests: .5826."""
    told = explain_forest(work)
    assert "implies 0.583 for it" in told
    assert "0.034 from the printed 0.549" in told


def test_two_tables_of_the_paper_contradict_each_other(work):
    """From the printed numbers alone: .640 − .601 = .039 is not .0281, and so on for all six."""
    found = compare_tables(run_protocol(work))
    shown = [dict(zip([column.key for column in found.columns], row, strict=True)) for row in found.rows]
    assert [row["tab:robustness"] for row in shown] == ["+0.039", "−0.052", "−0.012", "+0.005", "+0.012", "−0.007"]
    assert [row["apart"] for row in shown] == pytest.approx([0.0109, 0.0336, 0.014, 0.0091, 0.0014, 0.0015])
    assert all(row["rounding allows"] == pytest.approx(0.00105) for row in shown)
    assert "in 6 of 6 cases" in found.note


# ── the section ─────────────────────────────────────────────────────────────────────────────────────


def test_every_number_and_statement_of_the_part_is_checked(outcome):
    keys = [check.key for check in outcome.checks]
    claims = [one.key for one in select("german", "claim")]
    numbers = [key for key, one in STATEMENTS.items() if one.experiment == "german" and key not in claims]
    assert keys == [*numbers, *claims]
    assert claims == ["glm-improves", "losses-degrade", "stacking-reliable", "no-loss-difference", "other-maps"]
    assert len(numbers) == 24 + 18 + 28 + 30
    assert all(np.isfinite(value) for value in outcome.numbers.values())
    assert {f"german/{key}" for key in numbers} <= outcome.numbers.keys()


def test_checks_hold_the_numbers_of_the_frame(work, outcome):
    frame, by_key = run_protocol(work), {check.key: check for check in outcome.checks}
    delta = take_values(frame, "log", "stacking", "reliability_plugin")
    delta = delta - take_values(frame, "log", "average", "reliability_plugin")
    line = by_key["tests/reliability_plugin/stacking/mean"]
    assert line.ours == pytest.approx(delta.mean(), abs=1e-14)
    errors = STATEMENTS[line.key].std_error, delta.std(ddof=1) / 2  # four splits
    assert line.tolerance == pytest.approx(3 * np.hypot(*errors) + 0.00005)
    assert by_key["tests/reliability_plugin/stacking/wins"].ours == np.mean(delta < 0)
    lcs = take_values(frame, "brier", "glm", "lcs")
    assert by_key["gains/brier/lcs/glm"].ours == np.median(lcs)
    raw = take_values(frame, "brier", "forest", "raw")
    assert by_key["robustness/brier/raw/forest"].ours == pytest.approx(raw.mean(), abs=1e-14)
    assert "From 4 of the paper's 100 splits." in by_key["tests/recalibrated/glm/p"].why


def test_standard_deviations_have_the_error_that_their_tails_give(work, outcome):
    """Var s² = (μ₄ − σ⁴)/n, so that s has the standard error √((κ − 1)/4n)·s; exponential values have κ = 9."""
    values = np.random.default_rng(0).exponential(size=(4000, 100))
    assert relative_error(values.ravel(), 100) == pytest.approx(np.sqrt(8 / 400), rel=0.05)
    assert values.std(axis=1, ddof=1).std() == pytest.approx(np.sqrt(8 / 400), rel=0.1)
    by_key = {check.key: check for check in outcome.checks}
    delta = [take_values(run_protocol(work), "log", name, "reliability_plugin") for name in ("glm", "average")]
    delta = delta[0] - delta[1]
    line = by_key["spread/tests/reliability_plugin/glm"]
    assert line.ours == pytest.approx(delta.std(ddof=1), abs=1e-14)
    error = np.hypot(relative_error(delta, 100) * 0.0388, relative_error(delta, 4) * line.ours)
    assert line.tolerance == pytest.approx(3 * error + 0.00005)


def test_a_standard_deviation_that_is_off_says_what_it_implies(work):
    """0.026² + 0.014² − 2·c·0.026·0.014 = 0.0388²: c = −0.87."""
    frame = run_protocol(work)
    told = explain_spread(frame, judge("spread/tests/reliability_plugin/glm", 0.001 * np.arange(4)))
    assert "a correlation of −0.87 between glm and average" in told
    assert "From 4 of the paper's 100 splits" in told


def test_platts_map_of_the_stack_is_the_identity(work):
    """Both are logistic regressions of the same rows: the maximum of the likelihood is already reached."""
    found = [
        draw_conclusions(run_protocol(work, name))["largest reliability of the stack"] for name in ("platt", "isotonic")
    ]
    assert found[0] < 1e-5 < found[1]


def test_the_sections_are_pages_with_unique_names(outcome, own):
    report = Report("Paper", "Beside ours.", (outcome.section, own.section), {}, Origin(), {}, {})
    html = report.to_html()
    for section in (outcome.section, own.section):
        shown = [block for block in section.blocks if isinstance(block, (Table, Figure))]
        assert len({block.key for block in shown}) == len(shown)
        for block in shown:
            assert block.title in unescape(html)


def test_figures_have_no_text_upon_text(outcome, own):
    figures = [block for one in (outcome, own) for block in one.section.blocks if isinstance(block, Figure)]
    assert len(figures) == 4
    for figure in figures:
        drawn = figure.draw()
        FigureCanvasAgg(drawn)  # lays it out when drawn, which a figure without a canvas does not
        assert collisions(drawn) == ([], []), figure.key


# ── what the paper could not see ────────────────────────────────────────────────────────────────────


def test_debiased_reliability_has_the_interval_of_the_corrected_t(work, own):
    """That of `paired_comparison` with a method that is 0 everywhere."""
    frame = run_protocol(work, "auto")
    values = take_values(frame, "log", "glm", "reliability")
    row = beyond.measure_reliability(work)["log", "glm"]
    assert row["debiased"] == pytest.approx(values.mean())
    pair = frame.filter((frame["loss"] == "log") & (frame["method"] == "glm")).to_pandas()
    pair = pd.concat([pair, pair.assign(method="nothing", reliability=0.0)])
    line = paired_comparison(pair, baseline="nothing", metric="reliability", loss="log")["glm, log"]
    assert (row["debiased-low"], row["debiased-high"]) == pytest.approx((line.low, line.high))
    assert row["floor"] == pytest.approx(take_values(run_protocol(work), "log", "glm", "noise_floor").mean())
    assert own.numbers["beyond/debiased/log/glm"] == row["debiased"]
    assert own.numbers["population/lcs"] == 1.0
    assert own.checks == ()


def test_halves_are_another_protocol(work, own):
    frames = [run_protocol(work, "isotonic", protocol) for protocol in (members.SAME, members.APART)]
    assert [frame.filter(frame["method"] == "stacking")["double_use"].any() for frame in frames] == [True, False]
    delta = [take_values(frames[1], "log", m, "reliability_plugin").mean() for m in ("stacking", "average")]
    assert own.numbers["beyond/halves/stacking"] == pytest.approx(delta[0] - delta[1])


def test_folds_do_not_see_their_own_outcomes(monkeypatch):
    """Outcomes of the fold reversed: the same scores, of the stack as well."""
    data = load_german_credit()
    task = {"fold": 3, "trees": 3}
    before = beyond.score_fold(task)
    turned = data.y.copy()
    turned[before["rows"]] = 1 - turned[before["rows"]]
    folds = [(np.setdiff1d(np.arange(1000), before["rows"]), before["rows"])] * 10

    class Fixed:
        def __init__(self, count, **options):
            self.count, self.options = count, options

        def split(self, X, y):
            from sklearn.model_selection._split import StratifiedKFold as Real

            return iter(folds) if self.count == 10 else Real(self.count, **self.options).split(X, y)

    monkeypatch.setattr("sklearn.model_selection.StratifiedKFold", Fixed)
    for module in (beyond, members):
        monkeypatch.setattr(module, "load_german_credit", lambda: data._replace(y=turned))
    after = beyond.score_fold(task)
    for method in METHODS:
        assert after[method].tolist() == before[method].tolist()
    assert before["average"] == pytest.approx((before["glm"] + before["forest"]) / 2)


def test_terms_add_up_and_are_told_by_bounds(work, own):
    for loss, methods in beyond.split_terms(work).items():
        for method, one in methods.items():
            assert sum(one.terms.values()) == pytest.approx(one.risk, abs=1e-10)
            bounds = beyond.find_bounds(one)
            assert own.numbers[f"beyond/terms/{loss}/{method}/grouping-low"] == bounds["grouping-low"] >= 0
            assert bounds["irreducible-high"] == one.upper_bound("irreducible").value


def test_more_splits_follow_the_same_protocol(work):
    """A split judged by itself has the recalibrated log loss that `repeated_splits` gives it."""
    one = recalibrate_split({"split": 1, "trees": work.plan.trees})
    frame = run_protocol(work)
    assert one == {m: pytest.approx(take_values(frame, "log", m, "recalibrated")[1], abs=1e-12) for m in METHODS}
    further = Work(replace(work.plan, more=2), work.folder)
    values = run_more(further)
    assert values["forest"].size == work.plan.splits + 2
    assert values["glm"][: work.plan.splits] == pytest.approx(take_values(frame, "log", "glm", "recalibrated"))
    assert f"over {values['forest'].size} splits, {values['forest'].mean():.3f} and" in explain_forest(further)


def test_the_same_half_is_half_of_the_calibration_rows_for_both(work):
    """With 100 rows for stack and calibrator: scores of the stack are those of its first 100 calibration rows."""
    frame = run_protocol(work, protocol=members.HALF)
    _, calibration, test = make_splits(1)[0]
    given = {name: scores[0] for name, scores in collect_scores(work).items()}
    y = load_german_credit().y
    _, after = members.recalibrate_methods(given, y, calibration[:100], test)["stacking"]
    C = np.clip(after, CLIP, 1 - CLIP)
    by_hand = -np.log(np.where(y[test] == 1, C, 1 - C)).mean()
    assert take_values(frame, "log", "stacking", "recalibrated")[0] == pytest.approx(by_hand, abs=1e-12)
    assert set(frame["n_calibration"]) == {100}
