"""German credit and what the paper could not see: the paper's protocol, its numbers beside ours, and our own section."""

import sys
import types
import warnings
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from scoreprism._kernels.paired_tests import corrected_t
from scoreprism.calibrators import IsotonicCalibrator
from scoreprism.datasets import load_german_credit
from scoreprism.paper import CLAIMS, PLANS, PRINTED, Work
from scoreprism.paper import _beyond_reference as reference
from scoreprism.paper import _german as german_module
from scoreprism.paper import _members as members
from scoreprism.paper._beyond import _cause, beyond, reliabilities
from scoreprism.paper._checks import beside
from scoreprism.paper._german import german, separated
from scoreprism.paper._german_forest import (
    clipped_log_loss,
    forest_clip,
    implied,
    matching_clip,
    more_splits,
    more_table,
    recalibrated_losses,
    surprises,
)
from scoreprism.paper._german_robustness import robustness
from scoreprism.paper._german_spread import _reason as _spread_reason
from scoreprism.paper._german_spread import relative_error
from scoreprism.paper._german_tests import _contradiction, conclusions, pairs
from scoreprism.paper._glm import GLM
from scoreprism.paper._members import (
    CLIP,
    Laws,
    fit_split,
    german_features,
    german_frame,
    german_laws,
    german_main,
    german_models,
    german_splits,
    member_scores,
    over_splits,
)
from scoreprism.paper._printed import METHODS
from scoreprism.paper._recorded import Record, Recorded
from scoreprism.pipelines import repeated_splits
from scoreprism.report import Figure, Notice, Origin, Report, Table
from scoreprism.report._pieces import table
from tests.test_displays import collisions

TINY = replace(PLANS["quick"], splits=4, trees=10, redraws=2)


@pytest.fixture(scope="module")
def work():
    return Work(TINY)


@pytest.fixture(scope="module")
def outcome(work):
    return german(work)


@pytest.fixture(scope="module")
def own(work):
    """Our own section; the population is another module's, tested there."""
    stub = types.ModuleType("scoreprism.paper._population")
    by_rho = table("by-rho", "By ρ", [("rho", "ρ", "short")], [(0.5,)])
    stub.claims_by_rho = lambda given: (by_rho, {"population/lcs": float(given is work)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, stub.__name__, stub)
        return beyond(work)


# ── models and splits ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("split", [0, 9])
def test_glm_takes_the_steps_of_fisher_scoring(split):
    """statsmodels 0.14: GLM(Binomial).fit starts at μ = (y + ½)/2 too; the same number of steps, separated or not."""
    sm = pytest.importorskip("statsmodels.api")
    train, y = german_splits(split + 1)[split][0], load_german_credit().y
    rows = german_features()["glm"][train]
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
    for seed, parts in enumerate(german_splits(3)):
        assert [part.size for part in parts] == [600, 200, 200]
        assert np.concatenate(parts).tolist() == np.random.default_rng(seed).permutation(1000).tolist()


def test_recorded_models_know_their_split_by_its_rows():
    record = Record.of(np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), [np.array([0, 2]), np.array([1, 0])])
    copy = clone(Recorded(record))
    assert copy.record is record  # not copied for every split
    assert copy.fit(np.array([[0], [1]]), [0, 1]).predict_proba(np.array([[2], [0]]))[:, 1].tolist() == [0.6, 0.4]
    assert clone(Recorded(record)).fit(np.array([[2], [0]]), [0, 1]).split_ == 0
    with pytest.raises(KeyError):
        Recorded(record).fit(np.array([[1], [2]]), [0, 1])


def test_recorded_models_give_what_refitting_gives(work):
    """repeated_splits with the models themselves, on one of the splits and with the seed of its forest."""
    r, X = 2, german_features()
    textbook = IsotonicCalibrator(interpolation="linear", shrink=False, clip=0)
    options = {"calibrator": textbook, "clip": 1e-6, "noise_floor": 0, "splits": [german_splits(r + 1)[r]]}
    first = X["glm"].shape[1]
    places = {"glm": list(range(first)), "forest": list(range(first, first + X["forest"].shape[1]))}
    models = {
        name: make_pipeline(make_column_transformer(("passthrough", places[name])), model)
        for name, model in german_models(10, r).items()
    }
    refitted = repeated_splits(models, pd.DataFrame(np.hstack(list(X.values()))), load_german_credit().y, **options)
    for row in refitted.itertuples():
        for column in ("raw", "recalibrated", "reliability_plugin", "lcs"):
            recorded = over_splits(german_frame(work, redraws=2), row.loss, row.method, column)[r]
            assert getattr(row, column) == pytest.approx(recorded, abs=1e-12)


def test_models_are_fitted_once_and_the_same_in_every_process(work):
    assert member_scores(work) is member_scores(work)
    assert fit_split({"split": 1, "trees": 10})["forest"].tolist() == member_scores(work)["forest"][1].tolist()


def test_laws_are_those_behind_the_frame(work):
    frame = german_main(work)
    for method, laws in german_laws(work).items():
        C = np.clip(laws.recalibrated, CLIP, 1 - CLIP)
        losses = -np.log(np.where(laws.y == 1, C, 1 - C)).mean(axis=1)
        assert losses == pytest.approx(over_splits(frame, "log", method, "recalibrated"), abs=1e-12)
        assert ((laws.raw - laws.recalibrated) ** 2).mean(axis=1) == pytest.approx(
            over_splits(frame, "brier", method, "lcs"), abs=1e-12
        )
    assert list(german_laws(work)) == list(METHODS)
    gain = over_splits(frame, "log", "glm", "gain")
    assert gain.tolist() == (over_splits(frame, "log", "glm", "raw") - over_splits(frame, "log", "glm", "recalibrated")).tolist()  # fmt: skip


# ── the forest's number ─────────────────────────────────────────────────────────────────────────────


def test_a_certain_and_wrong_row_costs_minus_log_clip_over_200():
    C, y = np.full((1, 200), 0.5), np.zeros((1, 200), dtype=int)
    C[0, 0], y[0, 0] = 0.0, 1
    laws = Laws(C, C, y)
    assert surprises(laws).tolist() == [1]
    for clip in (1e-6, 1e-3):
        assert clipped_log_loss(laws, clip) == pytest.approx((199 * np.log(2) - np.log(clip)) / 200, abs=1e-12)
    wanted = clipped_log_loss(laws, 1e-4)
    assert matching_clip(laws, wanted) == pytest.approx(1e-4, rel=1e-6)
    assert matching_clip(laws, 5.0) is None


def test_what_the_paper_says_of_the_forest_twice(work):
    """tab:robustness .549; average .601 there with −.0184 of tab:germancredit-tests."""
    found = implied(work)
    assert (found.printed, round(found.implied, 4)) == (0.549, 0.5826)
    assert found.ours == over_splits(german_main(work), "log", "forest", "recalibrated").mean()
    why = {check.key: check.why for check in robustness(work)["log"]}
    assert "implies 0.583" in why["robustness/log/recalibrated/forest"]
    assert sum(bool(told) for told in why.values()) == 1
    clip = forest_clip(work)
    assert clip is None or clipped_log_loss(german_laws(work)["forest"], clip) == pytest.approx(0.549, abs=1e-9)


def test_two_tables_of_the_paper_contradict_each_other(work):
    """From the printed numbers alone: .640 − .601 = .039 is not .0281, and so on for all six."""
    found = pairs(work)
    assert [round(p.of_means, 3) for p in found] == [0.039, -0.052, -0.012, 0.005, 0.012, -0.007]
    assert [p.mean for p in found] == [0.0281, -0.0184, 0.0020, 0.0141, 0.0134, -0.0055]
    assert all(p.rounding == pytest.approx(0.00105) and p.apart > p.rounding for p in found)
    assert "in 6 of 6 cases, so that its two tables cannot come from the same splits" in _contradiction(found)
    same = [p._replace(of_means=p.mean) for p in found]
    assert "in 0 of 6 cases." in _contradiction(same)


def test_the_rare_purpose(work):
    """By hand: outcomes of purpose A48 among the first 600 rows of each permutation."""
    data = load_german_credit()
    rare = np.flatnonzero(data.X["purpose"].to_numpy() == "A48")
    expected = []
    for seed in range(20):
        train = set(np.random.default_rng(seed).permutation(1000)[:600].tolist())
        expected.append(len({int(data.y[row]) for row in rare.tolist() if row in train}) < 2)
    assert separated(20) == expected
    assert 0 < sum(expected) < 20


# ── the section ─────────────────────────────────────────────────────────────────────────────────────


def test_every_number_and_statement_of_the_part_is_checked(outcome):
    keys = [check.key for check in outcome.checks]
    numbers = {key for key in PRINTED if key.split("/")[0] in ("robustness", "tests", "gains", "spread")}
    claims = {key for key, claim in CLAIMS.items() if key in keys}
    assert len(keys) == len(set(keys))
    assert set(keys) == numbers | claims
    assert claims == {"glm-improves", "losses-degrade", "stacking-reliable", "no-loss-difference", "other-maps"}
    assert len(numbers) == 24 + 18 + 28 + 30
    assert all(np.isfinite(value) for value in outcome.numbers.values())
    assert {f"german/{key}" for key in numbers} <= outcome.numbers.keys()


def test_checks_hold_the_numbers_of_the_frame(work, outcome):
    frame, by_key = german_main(work), {check.key: check for check in outcome.checks}
    delta = over_splits(frame, "log", "stacking", "reliability_plugin")
    delta = delta - over_splits(frame, "log", "average", "reliability_plugin")
    line = by_key["tests/reliability_plugin/stacking/mean"]
    assert line.ours == pytest.approx(delta.mean(), abs=1e-14)
    errors = PRINTED[line.key].std_error, delta.std(ddof=1) / 2  # four splits
    assert line.tolerance == pytest.approx(3 * np.hypot(*errors) + 0.00005)
    assert by_key["tests/reliability_plugin/stacking/wins"].ours == np.mean(delta < 0)
    lcs = over_splits(frame, "brier", "glm", "lcs")
    assert by_key["gains/brier/lcs/glm"].ours == np.median(lcs)
    raw = over_splits(frame, "brier", "forest", "raw")
    assert by_key["robustness/brier/raw/forest"].ours == pytest.approx(raw.mean(), abs=1e-14)
    assert "From 4 of the paper's 100 splits." in by_key["tests/recalibrated/glm/p"].why


def test_standard_deviations_have_the_error_that_their_tails_give(work, outcome):
    """Var s² = (μ₄ − σ⁴)/n, so that s has the standard error √((κ − 1)/4n)·s; exponential values have κ = 9."""
    values = np.random.default_rng(0).exponential(size=(4000, 100))
    assert relative_error(values.ravel(), 100) == pytest.approx(np.sqrt(8 / 400), rel=0.05)
    assert values.std(axis=1, ddof=1).std() == pytest.approx(np.sqrt(8 / 400), rel=0.1)
    by_key = {check.key: check for check in outcome.checks}
    delta = [over_splits(german_main(work), "log", name, "reliability_plugin") for name in ("glm", "average")]
    delta = delta[0] - delta[1]
    line = by_key["spread/tests/reliability_plugin/glm"]
    assert line.ours == pytest.approx(delta.std(ddof=1), abs=1e-14)
    error = np.hypot(relative_error(delta, 100) * 0.0388, relative_error(delta, 4) * line.ours)
    assert line.tolerance == pytest.approx(3 * error + 0.00005)


def test_a_standard_deviation_that_is_off_says_what_it_implies(work):
    """0.026² + 0.014² − 2·c·0.026·0.014 = 0.0388²: c = −0.87."""
    check = beside("spread/tests/reliability_plugin/glm", 0.02, 0.001)
    told = _spread_reason(work, check)
    assert "a correlation of −0.87 between glm and average" in told
    assert "From 4 of the paper's 100 splits" in told


def test_curves_much_nearer_in_some_splits_are_within_noise(work, monkeypatch):
    before = np.array([0.06, 0.06, 0.06])
    for after, verdict in (([0.06, 0.06, 0.03], "within noise"), ([0.03, 0.03, 0.03], "reproduced"),
                           ([0.05, 0.05, 0.05], "not reproduced")):  # fmt: skip
        found = {("glm", "raw"): before, ("glm", "recalibrated"): np.array(after)}
        monkeypatch.setattr(german_module, "distances", lambda given, found=found: found)
        assert german_module._glm_improves(work).verdict == verdict


def test_platts_map_of_the_stack_is_the_identity(work):
    """Both are logistic regressions of the same rows: the maximum of the likelihood is already reached."""
    assert conclusions(work, "platt").stack_off < 1e-5 < conclusions(work, "isotonic").stack_off


def test_the_sections_are_pages_with_unique_names(outcome, own):
    report = Report("Paper", "Beside ours.", (outcome.section, own.section), {}, Origin(), {}, {})
    html = report.to_html()
    for section in (outcome.section, own.section):
        shown = [block for block in section.blocks if isinstance(block, (Table, Figure))]
        assert len({block.key for block in shown}) == len(shown)
        for block in shown:
            assert block.title in unescape(html)
    assert "learned from the same rows as the calibrator" in html
    assert sum(isinstance(block, Notice) and block.kind == "warning" for block in outcome.section.blocks) == 2


def test_figures_have_no_text_upon_text(outcome, own):
    figures = [block for one in (outcome, own) for block in one.section.blocks if isinstance(block, Figure)]
    assert len(figures) == 6
    for figure in figures:
        drawn = figure.draw()
        FigureCanvasAgg(drawn)  # lays it out when drawn, which a figure without a canvas does not
        assert collisions(drawn) == ([], []), figure.key


# ── what the paper could not see ────────────────────────────────────────────────────────────────────


def test_debiased_reliability_has_the_interval_of_the_corrected_t(work, own):
    frame = german_frame(work, calibrator="auto")
    values = over_splits(frame, "log", "glm", "reliability")
    row = reliabilities(work)["log", "glm"]
    assert row[2] == pytest.approx(values.mean())
    assert row[3:] == pytest.approx(corrected_t(values, "two-sided", 0.95, 200 / 800)[1:])
    assert row[1] == pytest.approx(over_splits(german_main(work), "log", "glm", "noise_floor").mean())
    assert own.numbers["beyond/debiased/log/glm"] == row[2]
    assert own.numbers["population/lcs"] == 1.0
    assert own.checks == ()


def test_halves_are_another_protocol(work, own):
    frames = [german_frame(work, protocol=protocol, redraws=2) for protocol in (members.SAME, members.APART)]
    assert [frame.filter(frame["method"] == "stacking")["double_use"].any() for frame in frames] == [True, False]
    delta = [over_splits(frames[1], "log", m, "reliability_plugin").mean() for m in ("stacking", "average")]
    assert own.numbers["beyond/halves/stacking"] == pytest.approx(delta[0] - delta[1])


def test_folds_do_not_see_their_own_outcomes(monkeypatch):
    """Outcomes of the fold reversed: the same scores, of the stack as well."""
    data = load_german_credit()
    task = {"fold": 3, "trees": 3}
    before = reference.fold_scores(task)
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
    for module in (reference, members):
        monkeypatch.setattr(module, "load_german_credit", lambda: data._replace(y=turned))
    after = reference.fold_scores(task)
    for method in METHODS:
        assert after[method].tolist() == before[method].tolist()
    assert before["average"] == pytest.approx((before["glm"] + before["forest"]) / 2)


def test_terms_add_up_and_are_told_by_bounds(work, own):
    for loss, methods in reference.decompositions(work).items():
        for method, one in methods.items():
            assert sum(one.terms.values()) == pytest.approx(one.risk, abs=1e-10)
            _, grouping, irreducible = reference.known(one)
            assert (grouping.high, irreducible.low) == (None, None)
            assert own.numbers[f"beyond/terms/{loss}/{method}/grouping-low"] == grouping.low >= 0
            assert irreducible.high == one.upper_bound("irreducible").value
    sentence = reference.reference_sentence(work)
    risks = {method: one.risk for method, one in reference.decompositions(work)["log"].items()}
    assert f"{min(risks.values()):.3f} ({min(risks, key=risks.get)})" in sentence


def test_more_splits_follow_the_same_protocol(work):
    """A split judged by itself has the recalibrated log loss that `repeated_splits` gives it."""
    one = recalibrated_losses({"split": 1, "trees": work.plan.trees})
    frame = german_main(work)
    assert one == {m: pytest.approx(over_splits(frame, "log", m, "recalibrated")[1], abs=1e-12) for m in METHODS}
    assert more_splits(work) is None
    further = Work(replace(work.plan, more=2), work.folder)
    values = more_splits(further)
    assert values["forest"].size == work.plan.splits + 2
    assert values["glm"][: work.plan.splits] == pytest.approx(over_splits(frame, "log", "glm", "recalibrated"))
    assert more_table(further)[0].rows[2][2] == f"{values['forest'].mean():.4f}"


@pytest.mark.parametrize(
    ("same", "half", "apart", "words"),
    [
        (-0.006, -0.01, 0.008, "the sign flips, and not because there are fewer rows."),
        (-0.006, 0.001, 0.008, "the sign flips, with fewer rows alone too."),
        (-0.006, 0.001, -0.008, "the sign stays."),
    ],
)
def test_what_turns_the_sign(same, half, apart, words):
    assert _cause(same, half, apart) == words


def test_the_same_half_is_half_of_the_calibration_rows_for_both(work):
    """With 100 rows for stack and calibrator: scores of the stack are those of its first 100 calibration rows."""
    frame = german_frame(work, protocol=members.HALF)
    _, calibration, test = german_splits(1)[0]
    given = {name: scores[0] for name, scores in member_scores(work).items()}
    y = load_german_credit().y
    _, after = members.judged(given, y, calibration[:100], test)["stacking"]
    C = np.clip(after, CLIP, 1 - CLIP)
    by_hand = -np.log(np.where(y[test] == 1, C, 1 - C)).mean()
    assert over_splits(frame, "log", "stacking", "recalibrated")[0] == pytest.approx(by_hand, abs=1e-12)
    assert set(frame["n_calibration"]) == {100}
