"""Statements about German credit on invented numbers: each can fail, and what is said follows the numbers."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from reproduction import PLANS, PRINTED, Work
from reproduction import beyond as own_words
from reproduction import german as german_module
from reproduction.german import gains, gains_table, separated
from reproduction.german_forest import clip_table, clipped_log_loss
from reproduction.german_robustness import LOSSES, layout
from reproduction.german_tests import METRICS, OTHERS, _contradiction, compared, conclusions, pairs
from reproduction.german_tests import tests as paired_tests
from reproduction.members import APART, HALF, SAME, Laws, german_features, german_frame, german_main, over_splits
from reproduction.printed import METHODS

TINY = replace(PLANS["quick"], splits=2, trees=3, redraws=2)

COUNT = 20
LEVELS = {
    "raw": 0.5,
    "recalibrated": 0.6,
    "reliability_plugin": 0.03,
    "reliability": 0.01,
    "noise_floor": 0.02,
    "lcs": 0.01,
}


def invented(**differences):
    """Twenty splits that are all alike but for ± 0.0001, and what is added: column__method=number or one for each split."""
    rows = []
    for r in range(COUNT):
        for loss in LOSSES:
            for k, method in enumerate(METHODS):
                values = {c: level + 1e-4 * np.cos(r + 7 * k + len(c)) for c, level in LEVELS.items()}
                for column in LEVELS:
                    for name in (f"{column}__{method}", f"{column}__{loss}__{method}"):
                        values[column] += np.broadcast_to(differences.get(name, 0.0), COUNT)[r]
                rows.append({"split": r, "loss": loss, "method": method, **values, "double_use": method == "stacking",
                             "n_train": 600, "n_calibration": 200, "n_test": 200})  # fmt: skip
    return pl.DataFrame(rows)


def told_by(frame, halves=None, **others):
    """Work that has these frames already: the paper's, that of independent halves, and by calibrator."""
    work = Work(replace(TINY, splits=COUNT))
    kept = {("isotonic", SAME, 2): frame, ("isotonic", APART, 2): frame if halves is None else halves}
    kept |= {(name, SAME, 0): other for name, other in others.items()}
    for (calibrator, protocol, redraws), made in kept.items():  # the names under which `german_frame` keeps them
        work.once(f"german-frame-{calibrator}-{protocol}-{redraws}", lambda made=made: made)
    return work


def graded(*lost):
    """Differences of 1, …, 20 thousandths: gains but for those that are lost."""
    size = np.arange(1, COUNT + 1)
    return np.where(np.isin(size, lost), 0.001, -0.001) * size


#: One-sided p of 0.032 and 0.0096: with Holm's correction for three methods 0.096 and 0.029.
MIXED, LIKELY = graded(20, 19, 16), graded(20, 13, 10)


def test_p_values_are_wilcoxon_s_one_sided_and_holm_s():
    """scipy's signed-rank test against methods that are no better; Holm's steps written out."""
    adds = {f"{column}__log__{m}": MIXED + 0.003 * k for column in METRICS for k, m in enumerate(OTHERS)}
    frame = invented(**adds)
    found = {check.key: check for check in paired_tests(told_by(frame))}
    for column in METRICS:
        base = over_splits(frame, "log", "average", column)
        deltas = {m: over_splits(frame, "log", m, column) - base for m in OTHERS}
        p = {m: stats.wilcoxon(delta, alternative="less").pvalue for m, delta in deltas.items()}
        worst = 0.0
        for steps, m in zip((3, 2, 1), sorted(p, key=p.get), strict=True):
            worst = min(1.0, max(worst, steps * p[m]))
            assert found[f"tests/{column}/{m}/p"].ours == pytest.approx(worst, rel=1e-9)
        for m, delta in deltas.items():
            wins, printed = np.mean(delta < 0), PRINTED[f"tests/{column}/{m}/wins"]
            errors = np.sqrt(printed.value * (1 - printed.value) / 100), np.sqrt(wins * (1 - wins) / COUNT)
            assert found[printed.key].tolerance == pytest.approx(3 * np.hypot(*errors) + 0.005)


@pytest.mark.parametrize(
    ("delta", "verdict"),
    [(-0.01, "reproduced"), (0.01, "not reproduced"), (MIXED, "not reproduced"), (LIKELY, "reproduced")],
)
def test_stacking_is_more_reliable_if_the_corrected_test_says_so(delta, verdict):
    work = told_by(
        invented(reliability_plugin__log__stacking=delta), halves=invented(reliability_plugin__stacking=0.02)
    )
    check = german_module._stacking(work)
    assert check.verdict == verdict
    assert "on different rows Δ = +0.0200." in check.why


@pytest.mark.parametrize(("delta", "verdict"), [(-0.01, "not reproduced"), (MIXED, "reproduced"), (0.01, "reproduced")])
def test_no_difference_is_judged_one_sided_with_correction(delta, verdict):
    work = told_by(invented(recalibrated__log__glm=delta, raw__log__forest=-0.1, recalibrated__brier__forest=-0.1))
    check = german_module._no_difference(work)
    assert check.verdict == verdict
    assert ("Two-sided" in check.why) == (delta is not MIXED)
    assert check.why.startswith("Smallest p-value, Holm, one-sided: ")


def test_a_p_value_below_a_twentieth_is_a_difference():
    check = german_module._no_difference(told_by(invented(recalibrated__log__glm=LIKELY)))
    assert check.verdict == "not reproduced"


def test_losses_degrade_if_one_mean_does():
    assert german_module._losses_degrade(told_by(invented())).verdict == "reproduced"  # 0.5 before, 0.6 after
    better = {f"recalibrated__{method}": -0.2 for method in METHODS}
    check = german_module._losses_degrade(told_by(invented(**better)))
    assert check.verdict == "not reproduced"
    assert "in the mean of 0 of 4 methods (average: −0.1" in check.why
    assert german_module._losses_degrade(told_by(invented(**better, raw__brier__glm=-0.2))).verdict == "reproduced"


@pytest.mark.parametrize(
    ("after", "verdict"),
    [([0.1, 0.1, 0.19], "reproduced"), ([0.1, 0.1, 0.25], "within noise"), ([0.3, 0.3, 0.3], "not reproduced"),
     ([0.14, 0.14, 0.14], "not reproduced")],  # a third less is 0.1333
)  # fmt: skip
def test_the_curve_is_closer_by_a_third_in_the_mean_or_in_some_splits(after, verdict):
    work = Work(TINY)
    sides = {("glm", "raw"): np.full(3, 0.2), ("glm", "recalibrated"): np.array(after)}
    sides |= {("forest", "raw"): np.full(3, 0.2), ("forest", "recalibrated"): np.full(3, 0.2)}
    work.once("german-distances", lambda: sides)
    assert german_module._glm_improves(work).verdict == verdict


def test_other_maps_lead_to_the_same_conclusions_or_not():
    reliable = invented(reliability_plugin__log__stacking=-0.01)
    assert _other_maps_of(reliable, reliable).verdict == "reproduced"
    for other, words in (
        (invented(reliability_plugin__log__stacking=MIXED), "not so: stacking is significantly more reliable"),
        (reliable.with_columns(raw=pl.col("raw") + 0.2), "not so: recalibration makes"),
        (invented(reliability_plugin__log__stacking=-0.01, recalibrated__log__forest=-0.01),
         "not so: no method is significantly better in recalibrated log loss"),
    ):  # fmt: skip
        check = _other_maps_of(reliable, other)
        assert check.verdict == "not reproduced"
        assert check.why.startswith(
            f"5 of 6 conclusions are those of isotonic regression. Otherwise: with spline {words}"
        )


def _other_maps_of(paper, spline):
    work = told_by(paper, platt=paper, spline=spline)
    return german_module._other_maps([conclusions(work, name) for name in ("isotonic", "platt", "spline")])


def test_the_layout_has_standard_deviations_of_samples():
    values = 0.5 + np.arange(COUNT) * 0.01
    frame = invented(raw__log__glm=values - LEVELS["raw"])
    shown = layout(told_by(frame)).rows[METHODS.index("glm")][1]
    found = over_splits(frame, "log", "glm", "raw")
    assert shown == f"{found.mean():.3f} ± {found.std(ddof=1):.3f}"
    assert shown != f"{found.mean():.3f} ± {found.std():.3f}"


def test_one_split_among_ours():
    """0.73 is printed for the logistic regression's raw log loss: five of these twenty splits are below."""
    work = told_by(invented(raw__log__glm=np.where(np.arange(COUNT) < 5, 0.1, 0.4)))
    row = next(row for row in gains_table(work, gains(work)).rows if row[0] == PRINTED["gains/log/raw/glm"].what)
    assert (row[1], row[4]) == ("0.73", 0.25)


def test_the_loss_of_separated_splits_is_told_apart():
    apart = np.array(separated(COUNT))
    told = german_module._separated(told_by(invented(raw__log__glm=np.where(apart, 0.3, 0.0))))
    assert f"of {apart.sum()} of {COUNT} splits" in told
    assert told.endswith("Its raw log loss is 0.800 in these splits and 0.500 in the others.")


def test_which_of_the_two_tables_ours_agree_with():
    """By hand: ours are those of the paired table; from tab:robustness the forest's −.052 is .0336 away, three se .0289."""
    adds = {f"{p.metric}__log__{p.method}": p.mean for p in pairs(told_by(invented()))}
    found = pairs(told_by(invented(**adds)))
    assert [p.ours.mean for p in found] == pytest.approx([p.mean for p in found], abs=1e-4)
    assert "paired table in 6 cases and of tab:robustness in 5; they are nearer to the paired table in 6" in _contradiction(found)  # fmt: skip


def test_what_surprises_cost_and_what_another_clip_would_do():
    """One certain and wrong row of 200 costs −log(10⁻⁶)/200 = 0.069."""
    C, y = np.full((COUNT, 200), 0.5), np.zeros((COUNT, 200), dtype=int)
    C[:, 0], y[:, 0] = 0.0, 1
    work = told_by(invented())
    work.once("german-laws", lambda: dict.fromkeys(METHODS, Laws(C, C, y)))
    assert clip_table(work).rows[0][2:5] == pytest.approx(
        (clipped_log_loss(Laws(C, C, y), 1e-6), 1.0, 0.0690776), abs=1e-6
    )
    assert "No clip brings the forest to 0.549." in clip_table(work).note
    C = np.where(C > 0, 0.39, 0.0)  # 0.561 at the usual clip, 0.507 at 0.05
    work = told_by(invented())
    work.once("german-laws", lambda: dict.fromkeys(METHODS, Laws(C, C, y)))
    found = clip_table(work)
    assert found.rows[METHODS.index("forest")][5] == pytest.approx(0.549)
    assert "would bring the forest to 0.549; average, glm and stacking would then be too low." in found.note


def test_what_is_said_of_the_noise_floor_and_of_double_use():
    row = {"average": (0.02, 0.01, 0.004, -0.001, 0.009), "glm": (0.02, 0.03, 0.005, 0.001, 0.009)}
    row |= dict.fromkeys(("forest", "stacking"), row["average"])
    rows = {(loss, method): row[method] for loss in LOSSES for method in METHODS}
    told = own_words._floor_sentence(rows)
    assert "would show 50 % of the average's plug-in reliability, 0.010 of 0.020." in told
    assert told.endswith("The plug-in of glm lies below what a calibrated score would show.")
    assert "is above 0 for glm, as far as" in own_words._debiased_sentence(rows)
    less, more = (compared(invented(reliability_plugin__log__stacking=d), "reliability_plugin") for d in (-0.01, 0.01))
    told = own_words._flip_sentence({SAME: less, HALF: less, APART: more})
    assert "the same 200 rows, stacking's reliability differs from the average's by −0.0100 (100 % wins" in told
    assert "from 100 rows each, which are not the same, by +0.0100 (0 % wins" in told
    assert told.endswith("the sign flips, and not because there are fewer rows.")
    for half, apart, words in ((more, more, "with fewer rows alone too."), (more, less, "the sign stays.")):
        assert own_words._flip_sentence({SAME: less, HALF: half, APART: apart}).endswith(words)


def test_the_noise_floor_is_of_as_many_redraws_as_asked():
    work = Work(TINY)
    floors = [over_splits(german_frame(work, redraws=redraws), "log", "glm", "noise_floor") for redraws in (1, 2)]
    assert (floors[0] != floors[1]).all()
    assert over_splits(german_main(work), "log", "glm", "noise_floor").tolist() == floors[1].tolist()


def test_features_are_dummies_of_every_level():
    """13 words of 54 levels and 7 numbers: rows of all dummies sum to 13; the forest's have every level."""
    X, words = german_features(), 13
    assert (X["forest"][:, :54].sum(axis=1) == words).all()
    assert set(np.unique(X["forest"][:, :54])) == {0.0, 1.0}
    assert (X["glm"][:, : 54 - words].sum(axis=1) < words).any()
    assert (X["glm"][:, 54 - words :] == X["forest"][:, 54:]).all()
