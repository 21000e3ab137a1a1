"""Every display: data, artists, labels, colours, and words that neither overlap nor leave the figure."""

import copy
import functools
import inspect
from datetime import date, timedelta
from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from scipy.special import expit
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import scoreprism
from scoreprism import (
    FiniteModel,
    Sample,
    calibration_test,
    corp_decomposition,
    decompose,
    required_sample_size,
    scale,
)
from scoreprism.curves import (
    calibration_map,
    decision_loss,
    grouping_curve,
    murphy_curve,
    murphy_decomposition,
    net_benefit,
    reliability_curve,
    resolution_plane,
    roc_curve,
    score_distribution,
)
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import (
    DISPLAYS,
    CurveDisplay,
    DecompositionDisplay,
    ReliabilityDisplay,
    TriptychDisplay,
    house_style,
)
from scoreprism.ensembles import averaging_gap, recalibrate_stages, select_stage, stagewise_decomposition
from scoreprism.exceptions import InputError
from scoreprism.metrics import METRICS, ece, evaluate
from scoreprism.monitoring import CalibrationMonitor
from scoreprism.pipelines import paired_comparison, pipeline_bootstrap, splits_summary
from scoreprism.references import partition_lower_bound

NAMES = ("logistic regression", "boosting", "forest", "net", "bayes", "neighbours", "spline", "ridge", "tree", "all")
RANDOM = {"reliability", "classwise-reliability", "triptych", "decomposition", "murphy-decomposition", "grouping"}
RESAMPLED = {"reliability", "classwise-reliability", "triptych"}
#: Displays whose laws are fitted in folds, by a mixture of maps unless one is named.
FITTED = {"murphy-decomposition", "grouping"}
#: Displays that are made from predictions, and those that a result makes of itself.
CURVES = [kind for kind, display in DISPLAYS.items() if issubclass(display, CurveDisplay)]


@functools.cache
def sample_of_law():
    return CopulaLaw(rho=0.0).sample(400, random_state=0)


@pytest.fixture(scope="module")
def law():
    return sample_of_law()


def score(X, i):
    return expit((1.5 + 0.5 * i) * (2 * X[:, 0] - 1) + (i % 3) * (X[:, 1] - 0.5) + 0.3 * (i % 2))


def given(kind, law, count):
    """What `from_predictions` of a display gets for so many models, and its options."""
    X, _, q = law
    options = {"random_state": 0} if kind in RANDOM else {}
    if kind in RESAMPLED:
        options["n_resamples"] = 40
    if kind in FITTED:
        options |= {"calibrator": "platt", "cv": 2}
    if DISPLAYS[kind].features:
        options["q"] = q
    if count == 1:
        return ({"logistic": score(X, 0)} if kind == "resolution-plane" else score(X, 0)), options
    return {name: score(X, i) for i, name in enumerate(NAMES[:count])}, options


def watch(days):
    """A monitor of a year of scores that are too high from the middle on."""
    rng, monitor = np.random.default_rng(0), CalibrationMonitor()
    for day in range(days):
        p = rng.beta(2, 9, 100)
        chance = p if day < days // 2 else p / (p + (1.0 - p) * np.exp(0.4))
        monitor.update(rng.random(100) < chance, p, period=date(2025, 1, 1) + timedelta(day))
    return monitor


@functools.cache
def result_of(kind, count):
    """A result with so many stages, methods, periods or models."""
    X, y, _ = CopulaLaw(rho=0.0).sample(600, random_state=0)
    rng = np.random.default_rng(0)
    stages = {t: expit(0.4 * t * (2 * X[:, 0] - 1)) for t in range(1, count + 2)}
    methods = NAMES[: count + 1]
    table = pl.DataFrame(
        [
            {"split": i, "method": name, "raw": 0.5 + 0.01 * j, "reliability_plugin": 0.02 + 0.01 * j}
            for i in range(8)
            for j, name in enumerate(methods)
        ]
    ).with_columns(pl.col("raw", "reliability_plugin") + 0.01 * pl.Series(rng.normal(size=8 * len(methods))))
    p = rng.random(3000).round(2)  # a hundred scores need no cells
    rows = pl.DataFrame({"y": rng.random(3000) < p, "p": p, "month": np.arange(3000) * (count + 1) // 3000})
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    options = {"loss": "brier", "calibrator": "platt", "cv": 2, "random_state": 0}
    makers = {
        "metrics": lambda: evaluate(y, stages[1], metrics=list(METRICS)[: count + 1], n_resamples=20),
        "stagewise": lambda: stagewise_decomposition(y, stages, reference="logistic", **options),
        "stage-selection": lambda: select_stage(y, stages, loss="brier", calibrator="platt", cv=3, random_state=0),
        "stage-recalibration": lambda: recalibrate_stages(y, stages, **options),
        "pipeline-bootstrap": lambda: pipeline_bootstrap(
            GaussianNB(), *parts, calibrator="platt", loss="brier", n_resamples=5 * count, random_state=0
        ),
        "paired-comparison": lambda: paired_comparison(table, baseline=methods[0], metric="raw", test_ratio=0.25),
        "splits": lambda: splits_summary(table),
        "drift": lambda: scale.decompose(
            rows, target="y", score="p", time="month", loss="brier", calibrator="platt"
        ).drift(),
        "monitor": lambda: watch({1: 5, 3: 60, 10: 400}.get(count, 20)),
        "estimates": {
            1: lambda: ece(y, stages[1]),
            3: lambda: averaging_gap(y, list(stages.values())),
            10: lambda: partition_lower_bound(y, stages[1], X, loss="brier"),
        }.get(count),
        "test": lambda: calibration_test(y, stages[1], method={1: "kuiper"}.get(count, "min-p"), n_resamples=99),
        "sample-size": lambda: required_sample_size(reliability=0.1**count),
        "contributions": lambda: decompose(y, stages[1], loss="brier").contributions(np.arange(600) % (count + 1)),
    }
    return makers[kind]()


@functools.cache
def computed(kind, count):
    """The display of so many models, whose curves take longer to compute than to draw again."""
    law = sample_of_law()
    scores, options = given(kind, law, count)
    return DISPLAYS[kind].from_predictions(law[1], scores, **options)


def drawn(kind, law, count, ax=None, **more):
    if kind not in CURVES:
        return result_of(kind, count).plot(ax=ax, **more)
    if not more:
        return copy.copy(computed(kind, count)).plot(ax)
    scores, options = given(kind, law, count)
    return DISPLAYS[kind].from_predictions(law[1], scores, ax=ax, **options, **more)


#: Kinds of displays that changed matplotlib's own settings as they were drawn.
RESTYLED = set()


@functools.cache
def drawn_once(kind, count):
    """A display at its own size, for tests that only look at it."""
    before = dict(mpl.rcParams)
    display = drawn(kind, sample_of_law(), count)
    if dict(mpl.rcParams) != before:
        RESTYLED.add(kind)
    return display


def texts_of(figure):
    """The words that are drawn: titles, labels, ticks inside the limits, legends, annotations."""
    found = []
    for ax in figure.axes:
        if legend := ax.get_legend():
            found += legend.get_texts()
        if not ax.axison:
            continue
        found += [ax.title, ax._left_title, ax._right_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(limits)
            room = 1e-6 * (high - low)
            ticks = axis.get_major_ticks(len(axis.get_majorticklocs()))
            found += [tick.label1 for tick in ticks if low - room <= tick.get_loc() <= high + room]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def collisions(figure):
    figure.draw_without_rendering()  # the layout, and where words are
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    touching = []
    for (a, one), (b, other) in combinations(boxes, 2):
        width = min(one.x1, other.x1) - max(one.x0, other.x0)
        height = min(one.y1, other.y1) - max(one.y0, other.y0)
        if width > 0.5 and height > 0.5:
            touching.append((a, b))
    frame = figure.bbox
    lost = [w for w, b in boxes if b.x0 < -1 or b.y0 < -1 or b.x1 > frame.x1 + 1 or b.y1 > frame.y1 + 1]
    return touching, lost


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", CURVES)
def test_a_sample_gives_the_figure_of_its_arrays(law, kind, count):
    scores, options = given(kind, law, count)
    plain = computed(kind, count)
    rows = {key: options.pop(key) for key in ("q",) if key in options}
    sample = Sample.of(law[1], scores, **rows)
    display = DISPLAYS[kind].from_predictions(sample, **options)
    assert display.names == plain.names
    assert display.to_frame("polars").equals(plain.to_frame("polars"), null_equal=True)
    with pytest.raises(InputError, match="a Sample holds predictions, features and weights already"):
        DISPLAYS[kind].from_predictions(sample, scores, **options)


def test_a_sample_of_several_classes_is_drawn_one_against_the_rest():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    y = (rng.random(200)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    display = ReliabilityDisplay.from_predictions(Sample.of(y, {"m": p}), band=None)
    assert display.names == ["m, 0", "m, 1", "m, 2"]


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("kind", DISPLAYS)
def test_no_word_covers_another_at_four_by_three_inches(kind, count, law):
    figure = plt.figure(figsize=(4, 3), layout="constrained")
    display = drawn(kind, law, count, ax=figure.subplots())
    assert display.figure_ is figure
    assert collisions(figure) == ([], [])


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("kind", DISPLAYS)
def test_no_word_covers_another_at_its_own_size(kind, count):
    assert collisions(drawn_once(kind, count).figure_) == ([], [])


@pytest.mark.parametrize("kind", ["roc", "calibration-map"])
@pytest.mark.parametrize("count", [4, 7])
def test_curves_of_many_models_stay_square(kind, count, law):
    """At the sizes of a report; long names keep their beginning and their end, and each takes one line."""
    X, y, _ = law
    scores = {f"gradient boosting, 500 trees of depth four, version {i}": score(X, i) for i in range(count)}
    figure = plt.figure(figsize=(4.1, 4.3 + 0.17 * (count - 3)), layout="constrained")
    DISPLAYS[kind].from_predictions(y, scores, ax=figure.subplots())
    assert collisions(figure) == ([], [])
    (axes,) = figure.axes
    box = axes.get_window_extent()
    assert box.width == pytest.approx(box.height)
    assert box.width > 0.6 * figure.bbox.width
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert all(word.startswith("gradient") and "\n" not in word for word in words)
    assert all(f"ion {i}" in word for i, word in enumerate(words))


def test_names_of_many_bars_keep_to_their_bars(law):
    _, y, q = law
    name = "branch office number {} in the north of the country"
    found = {name.format(i): corp_decomposition(y[i:], q[i:], loss="brier") for i in range(8)}  # numbers of rows differ
    figure = plt.figure(figsize=(4.7, 1.4 + 0.34 * 8), layout="constrained")
    DecompositionDisplay(found).plot(figure.subplots())
    assert collisions(figure) == ([], [])


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.InfiniteLossWarning")
def test_a_legend_stays_below_a_label_of_two_lines():
    """Where a loss is infinite, the label says at which floor its terms are drawn."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 300)
    y = (rng.random(300) < p).astype(int)
    found = scoreprism.compare(y, {"a": p, "b": np.where(p < 0.4, 0.0, p)}, loss="log", random_state=0).floored
    figure = plt.figure(figsize=(4.7, 2.1), layout="constrained")
    DecompositionDisplay(found.decompositions).plot(figure.subplots(), terms=["reliability"])
    assert "\nwith scores kept" in figure.axes[0].get_xlabel()
    assert figure.axes[0].get_legend() is not None
    assert collisions(figure) == ([], [])


# ── data and artists ────────────────────────────────────────────────────────────────────────────────


def test_the_table_names_every_display_of_the_module():
    public = {getattr(scoreprism.displays, name) for name in scoreprism.displays.__all__ if name.endswith("Display")}
    assert set(DISPLAYS.values()) == {display for display in public if not inspect.isabstract(display)}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", DISPLAYS)
def test_attributes_hold_the_data_and_artists_end_in_an_underscore(kind, count):
    display = drawn_once(kind, count)
    assert display.ax_.figure is display.figure_
    labelled = [ax for ax in display.figure_.axes if ax.axison and ax.xaxis.get_tick_params().get("labelbottom", True)]
    assert labelled
    assert all(ax.get_xlabel() for ax in labelled)  # panels above each other share the axis of the lowest
    named = [name for name, value in vars(display).items() if isinstance(value, mpl.artist.Artist)]
    assert named
    assert all(name.endswith("_") for name in named)
    assert display.names
    assert all(name in repr(display) for name in display.names)
    assert display.curves if kind in CURVES else display.result is result_of(kind, count)


@pytest.mark.parametrize("kind", DISPLAYS)
def test_the_frame_holds_what_is_drawn(kind):
    display = drawn_once(kind, 3)
    frame = display.to_frame("pandas")
    if kind in CURVES:
        assert set(frame["model"]) == set(display.names)
        assert len(frame) >= 3
    else:
        assert frame.equals(display.result.to_frame("pandas"))
    assert type(display.to_frame()).__module__.startswith("polars")


def test_lines_are_the_numbers_of_the_curve(law):
    """Drawn points against the curve functions, which test_curves.py holds to their definitions."""
    X, y, q = law
    s = score(X, 1)
    x, z = drawn("murphy", law, 1).line_[0].get_data()
    np.testing.assert_array_equal(np.column_stack([x, z])[::7], _polyline(murphy_curve(y, score(X, 0)))[::7])
    line = DISPLAYS["reliability"].from_predictions(y, s, band=None).line_[0]
    found = reliability_curve(y, s, band=None)
    np.testing.assert_array_equal(line.get_data(), (found.x, found.y))
    display = DISPLAYS["roc"].from_predictions(y, s)
    np.testing.assert_array_equal(display.line_[0].get_data(), (roc_curve(y, s).fpr, roc_curve(y, s).tpr))
    plane = DISPLAYS["resolution-plane"].from_predictions(y, {"s": s}, loss="brier")
    corp = corp_decomposition(y, s, loss="brier").terms
    assert plane.line_[0].get_xydata().tolist() == [[corp["reliability"], corp["resolution"]]]
    benefit = DISPLAYS["net-benefit"].from_predictions(y, s).line_[0].get_ydata()
    np.testing.assert_array_equal(benefit, net_benefit(y, s).benefit)
    edge = DISPLAYS["murphy-decomposition"].from_predictions(y, s, q=q, random_state=3).line_[0]
    np.testing.assert_allclose(
        edge.get_ydata(), murphy_curve(y, s).at(edge.get_xdata()), atol=1e-14
    )  # rounding of sums


def _polyline(curve):
    return np.column_stack([curve.theta, curve.loss])


def test_names_of_crowded_models_leave_other_words_alone():
    """Names used to cover the word "better" in the corner and the ticks beside it."""
    X, y, _ = CopulaLaw(rho=0.0).sample(4000, random_state=0)
    logits = {"x1": 4 * X[:, 0] - 2, "x2": 4 * X[:, 1] - 2, "both": 3 * (X[:, 0] + X[:, 1]) - 3}
    words = {0.5: "timid", 1.0: "plain", 1.6: "bold", 2.4: "very bold"}
    models = {f"{data}, {word}": expit(t * z) for data, z in logits.items() for t, word in words.items()}
    display = DISPLAYS["resolution-plane"].from_predictions(y, models, loss="brier")
    assert collisions(display.figure_) == ([], [])


def test_a_finite_population_has_no_rows():
    exact = FiniteModel([0.5, 0.5], [0.9, 0.1]).decompose([0.5, 0.5], {"C": [0, 0], "Q": [0, 1]}, loss="brier")
    assert exact.plot().ax_.get_xlabel() == "brier loss, exact"


def test_a_percent_sign_stays_with_its_number(law):
    X, y, _ = law
    label = decision_loss(y, score(X, 1), random_state=0).plot().ax_.get_xlabel()
    assert label == "loss from miscalibration, upper bound at\n95 %"


def test_the_waterfall_ends_where_the_terms_end(law):
    X, y, q = law
    found = decompose(y, score(X, 2), q=q, random_state=0)
    display = found.plot()
    loss, *bars = display.bar_
    assert loss.get_width() == found.risk
    assert [-bar.get_width() for bar in bars] == pytest.approx(list(found.terms.values()), abs=1e-15)
    starts = [bar.get_x() for bar in bars]
    assert starts[0] == found.risk
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert starts[1:] == pytest.approx(ends[:-1], abs=1e-15)  # rounding of one subtraction
    assert ends[-1] == pytest.approx(0, abs=1e-15)
    interval = found.interval("reliability")
    expected = sorted([found.risk - interval.low, found.risk - interval.high])
    assert sorted(display.interval_[0].get_xdata()) == expected


def test_a_cut_waterfall_shows_a_small_term():
    for seed in range(5):  # the last bar ends at 0 but for rounding, on either side
        rng = np.random.default_rng(seed)
        q = rng.uniform(0.05, 0.95, 2000)
        found = decompose(rng.random(2000) < q, q, calibrator="platt", random_state=0)
        whole, cut = found.plot(), found.plot(cut=True)
        assert whole.ax_.get_xlim()[0] <= 0.0
        assert cut.ax_.get_xlim()[0] > 0.8 * found.risk
        assert ", from 0." in cut.ax_.get_xlabel()


def test_the_waterfall_goes_up_where_a_term_is_subtracted(law):
    X, y, _ = law
    found = corp_decomposition(y, score(X, 2), loss="brier")
    _, miscalibration, discrimination, uncertainty = found.plot().bar_
    assert miscalibration.get_width() < 0 < discrimination.get_width()
    assert uncertainty.get_x() == pytest.approx(found.terms["uncertainty"], abs=1e-15)


def test_bars_before_and_after_recalibration(law):
    X, y, q = law
    bold = expit(8 * (X[:, 0] - 0.5))
    display = DecompositionDisplay.from_predictions(y, {"bold": bold}, q=q, recalibrate="platt", random_state=0)
    before, after = display.decompositions.values()
    assert display.names == ["bold", "bold, recalibrated"]
    assert after.risk < before.risk
    assert after.terms["reliability"] < 0.2 * before.terms["reliability"]  # a map with two parameters fits this law
    assert after.terms["irreducible"] == pytest.approx(before.terms["irreducible"], abs=0.02)
    widths = [bar.get_width() for bar in display.bar_]
    assert widths == pytest.approx([d.terms[t] for d in (before, after) for t in reversed(d.names)], abs=1e-15)
    fewer = display.plot(terms=["reliability", "grouping"])
    assert len(fewer.bar_) == 4


def test_results_draw_themselves(law):
    X, y, q = law
    s = score(X, 0)
    curves = [
        murphy_curve(y, s), murphy_decomposition(y, s, q=q, random_state=0), roc_curve(y, s), net_benefit(y, s),
        score_distribution(y, s), grouping_curve(y, s, q=q, random_state=0), calibration_map(y, s, calibrator="platt"),
        reliability_curve(y, s, n_resamples=20, random_state=0), resolution_plane(y, {"s": s}),
    ]  # fmt: skip
    kinds = {type(curve.plot()).__name__ for curve in curves}
    assert len(kinds) == len(curves)
    pair = scoreprism.compare(y, {"a": s, "b": s**2}, random_state=0).plot()
    assert pair.names == ["a", "b"]
    segments = scoreprism.decompose_by(y, s, segments=np.where(X[:, 1] > 0.5, "high", "low"), random_state=0).plot()
    assert sorted(segments.names) == ["high", "low"]


# ── the three ways to make one ──────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def models(law):
    X, y, _ = law
    words = np.where(y == 1, "yes", "no")
    plain = LogisticRegression().fit(X[:200], words[:200])
    boosted = GradientBoostingClassifier(n_estimators=12, random_state=0).fit(X[:200], words[:200])
    return X[200:], words[200:], {"plain": plain, "boosted": boosted}, law[2][200:]


@pytest.mark.parametrize("kind", CURVES)
def test_from_estimator_is_from_predictions_of_its_probabilities(kind, models):
    X, y, both, q = models
    options = settled(kind, q)
    one = both["boosted"]
    display = DISPLAYS[kind].from_estimator(one, X, y, pos_label="yes", **options)
    scores = one.predict_proba(X)[:, 1]
    if kind == "resolution-plane":
        scores = {"GradientBoostingClassifier": scores}
    same = DISPLAYS[kind].from_predictions(y, scores, pos_label="yes", **options)
    first, second = display.to_frame("pandas"), same.to_frame("pandas")
    numbers = [column for column in first if first[column].dtype.kind == "f"]
    np.testing.assert_allclose(first[numbers], second[numbers], rtol=1e-12)  # one column and two round differently


def settled(kind, q):
    """Options that make a display quick and the same every time."""
    options = {"random_state": 0} if kind in RANDOM else {}
    if kind in RESAMPLED:
        options["n_resamples"] = 20
    if kind in FITTED:
        options |= {"calibrator": "platt", "cv": 2}
    return options | ({"q": q} if DISPLAYS[kind].features else {})


def test_an_estimator_brings_its_features(models):
    X, y, both, _ = models
    options = {"pos_label": "yes", "reference": "logistic", "random_state": 0}
    display = DecompositionDisplay.from_estimator(both["plain"], X, y, **options)
    (found,) = display.decompositions.values()
    direct = decompose(y, both["plain"], X, **options)  # the same seed, the same numbers
    assert found.terms == pytest.approx(direct.terms, rel=1e-12)


@pytest.mark.parametrize("kind", CURVES)
def test_several_estimators_in_one_figure(kind, models):
    X, y, both, q = models
    display = DISPLAYS[kind].from_estimator(both, X, y, pos_label="yes", **settled(kind, q))
    assert {"plain", "boosted"} <= {name.split(",")[0] for name in display.names}


@pytest.mark.parametrize("kind", CURVES)
def test_from_cv_results(kind, law):
    X, y, q = law
    model = GradientBoostingClassifier(n_estimators=5, random_state=0)
    cv = cross_validate(model, X, y, cv=3, return_estimator=True, return_indices=True)
    weight = np.random.default_rng(0).integers(1, 4, y.size)
    display = DISPLAYS[kind].from_cv_results(cv, X, y, sample_weight=weight, **settled(kind, q))
    folds = [f"GradientBoostingClassifier, fold {i}" for i in (1, 2, 3)]
    assert display.names == (["GradientBoostingClassifier"] if DISPLAYS[kind].pools_folds else folds)
    words = [text.get_text() for ax in display.figure_.axes if ax.get_legend() for text in ax.get_legend().get_texts()]
    if not DISPLAYS[kind].pools_folds and kind != "classwise-reliability":  # where each has a panel
        assert sum("3 folds" in word.replace("\n", " ") for word in words) == 1  # folds look alike, and are named once
        assert (
            len(
                {line.get_edgecolor() if hasattr(line, "get_edgecolor") else line.get_color() for line in display.line_}
            )
            == 1
        )


def test_weights_of_folds_are_those_of_their_rows(law):
    X, y, _ = law
    cv = cross_validate(LogisticRegression(), X, y, cv=3, return_estimator=True, return_indices=True)
    weight = np.random.default_rng(0).random(y.size)
    display = DISPLAYS["roc"].from_cv_results(cv, X, y, sample_weight=weight)
    test = cv["indices"]["test"][1]
    fold = cv["estimator"][1].predict_proba(X[test])[:, 1]
    assert display.curves[1].auc == roc_curve(y[test], fold, sample_weight=weight[test]).auc


def test_every_kind_of_model_can_be_drawn(law):
    X, y, _ = law
    train, test = slice(0, 250), slice(250, None)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    for model in (
        make_pipeline(StandardScaler(), forest),
        make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=5, random_state=0)),
        VotingClassifier([("a", LogisticRegression()), ("b", forest)], voting="soft"),
        StackingClassifier([("a", LogisticRegression()), ("b", forest)], cv=3),
        BaggingClassifier(tree, 3, random_state=0),
        GridSearchCV(tree, {"max_depth": [2, 3]}, cv=3),
    ):
        fitted = model.fit(X[train], y[train])
        display = DISPLAYS["roc"].from_estimator(fitted, X[test], y[test])
        assert display.curves[0].auc == roc_curve(y[test], fitted.predict_proba(X[test])[:, 1]).auc
    with pytest.raises(InputError, match="CalibratedClassifierCV"):
        DISPLAYS["roc"].from_estimator(LinearSVC().fit(X[train], y[train]), X[test], y[test])


def test_folds_that_share_rows_are_not_pooled(law):
    X, y, _ = law
    cv = ShuffleSplit(4, test_size=0.5, random_state=0)
    results = cross_validate(LogisticRegression(), X, y, cv=cv, return_estimator=True, return_indices=True)
    with pytest.raises(InputError, match="each row must be tested once"):
        DecompositionDisplay.from_cv_results(results, X, y)


def test_the_same_seed_gives_the_numbers_of_the_function(law):
    X, y, q = law
    s = score(X, 1)
    band = ReliabilityDisplay.from_predictions(y, {"a": s, "b": s}, n_resamples=50, random_state=7).curves
    np.testing.assert_array_equal(band[0].low, reliability_curve(y, s, n_resamples=50, random_state=7).low)
    np.testing.assert_array_equal(band[0].low, band[1].low)
    one, two = DecompositionDisplay.from_predictions(y, {"a": s, "b": s}, q=q).curves  # no seed: still the same folds
    assert one.terms == two.terms


# ── several classes ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1.0, 2.0, 3.0], 600)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row) for row in law]]
    return y, law


@pytest.mark.parametrize("kind", [kind for kind in CURVES if kind not in ("decomposition", "resolution-plane")])
def test_several_classes_are_drawn_one_against_the_rest(kind, three):
    y, law = three
    options = settled(kind, law)
    display = DISPLAYS[kind].from_predictions(y, law, **options)
    assert display.names == ["a", "b", "c"]
    one = dict(options)
    if "q" in one:
        one["q"] = law[:, 1]
    alone = DISPLAYS[kind].from_predictions((y == "b").astype(int), {"b": law[:, 1]}, **one).to_frame("pandas")
    found = display.to_frame("pandas")
    found = found[found["model"] == "b"].reset_index(drop=True)
    numbers = [column for column in alone if alone[column].dtype.kind == "f"]
    if kind not in {"grouping", "calibration-map"}:  # their defaults depend on the number of curves
        np.testing.assert_array_equal(found[numbers], alone[numbers])
    single = DISPLAYS[kind].from_predictions(y, law, pos_label="b", **options)
    assert {name.split(",")[0] for name in single.names} == {"b"}


def test_figures_of_several_classes_as_they_are(three):
    y, law = three
    display = DISPLAYS["decomposition"].from_predictions(y, law, cv=2, random_state=0)
    assert display.curves[0].n_classes == 3
    plane = DISPLAYS["resolution-plane"].from_predictions(y, {"m": law}, method="crossfit", cv=2, random_state=0)
    assert plane.curves[0].n == 600
    with pytest.raises(InputError, match='Pass method="crossfit"'):
        DISPLAYS["resolution-plane"].from_predictions(y, {"m": law})
    with pytest.raises(InputError, match="The classes are"):
        DISPLAYS["roc"].from_predictions(y, law, pos_label="d")


# ── recalibration ───────────────────────────────────────────────────────────────────────────────────


def test_recalibration_uses_the_calibration_split_where_there_is_one():
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    y = (rng.random(3000) < p).astype(int)
    bold = p**3 / (p**3 + (1 - p) ** 3)
    options = {"calibration": (bold[1500:], y[1500:]), "recalibrate": "platt", "loss": "brier", "random_state": 0}
    before, after = DecompositionDisplay.from_predictions(y[:1500], bold[:1500], **options).decompositions.values()
    assert abs(after.terms["reliability"]) < 0.1 * before.terms["reliability"]
    assert after.terms["refinement"] == pytest.approx(before.terms["refinement"], abs=0.003)  # a map keeps information
    clustered = DecompositionDisplay.from_predictions(
        y, bold, groups=np.arange(3000) // 3, recalibrate="platt", loss="brier", random_state=0
    )
    assert clustered.names == ["as it is", "recalibrated"]


# ── awkward data ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["decomposition", "resolution-plane"])
def test_an_infinite_loss_is_refused_and_leaves_no_figure(kind, law):
    _, y, q = law
    sure = np.where(q < 0.4, 0.0, q)
    with pytest.warns(scoreprism.exceptions.ScoreprismWarning), pytest.raises(InputError, match="clip=1e-6"):
        DISPLAYS[kind].from_predictions(y, {"sure": sure})
    assert not plt.get_fignums()


def test_a_constant_score_is_a_point_that_can_be_seen(law):
    y = law[1]
    display = ReliabilityDisplay.from_predictions(y, np.full(y.size, 0.5), n_resamples=20, random_state=0)
    assert display.line_[0].get_marker() == "o"
    display = DISPLAYS["calibration-map"].from_predictions(y, np.full(y.size, 0.5), calibrator="isotonic")
    assert display.line_[0].get_marker() == "o"


def test_nothing_to_see_is_drawn_without_a_complaint(law):
    """One outcome has no uncertainty, and a constant score no terms: limits must not collapse (warnings are errors)."""
    plane = DISPLAYS["resolution-plane"].from_predictions(
        np.ones(50, int), {"a": np.linspace(0.1, 0.9, 50)}, classes=[0, 1]
    )
    assert np.ptp(plane.ax_.get_xlim()) > 0
    flat = np.full(law[1].size, 0.5)
    stages = stagewise_decomposition(law[1], [flat, flat], loss="brier", calibrator="platt", random_state=0).plot()
    assert np.ptp(stages.axes_[0].get_ylim()) > 0


def test_rare_events_are_looked_at_closely():
    rng = np.random.default_rng(0)
    s = rng.beta(0.5, 40, 4000)
    y = (rng.random(4000) < s).astype(int)
    display = ReliabilityDisplay.from_predictions(y, s, n_resamples=20, random_state=0)
    assert display.ax_.get_xlim()[1] < 0.3
    assert display.plot(zoom=None).ax_.get_xlim() == (0, 1)
    assert display.plot(zoom=(0, 0.02)).ax_.get_ylim() == (0, 0.02)
    assert DISPLAYS["net-benefit"].from_predictions(y, s).ax_.get_xlim()[1] < 0.5
    mirrored = ReliabilityDisplay.from_predictions(1 - y, 1 - s, n_resamples=20, random_state=0)
    assert mirrored.ax_.get_xlim()[0] > 0.7
    with pytest.raises(InputError, match="zoom must be"):
        display.plot(zoom=(0.3, 0.1))


def test_bars_of_subtracted_terms_go_left_of_zero(law):
    X, y, _ = law
    pair = {name: corp_decomposition(y, score(X, i), loss="brier") for i, name in enumerate("ab")}
    display = DecompositionDisplay(pair).plot()
    assert min(bar.get_width() for bar in display.bar_) < 0
    shown = [float(label.get_text()) for label in display.label_]
    assert shown == pytest.approx([d.risk for d in pair.values()], abs=5e-5)  # at least four decimals
    low, high = display.ax_.get_xlim()
    assert low <= min(bar.get_x() + bar.get_width() for bar in display.bar_)
    assert high > max(label.xy[0] for label in display.label_)


def test_an_estimate_below_zero_stands_beside_its_interval():
    """Tables say "0 (0 to 0.03; estimate −0.01)" of a term that is corrected for noise; figures have the same words."""
    score = np.repeat([0.25, 0.5, 0.75], 40)
    y = np.tile([1, 0, 0, 0], 10).tolist() + [0, 1] * 20 + np.tile([0, 1, 1, 1], 10).tolist()  # calibrated exactly
    found = decompose(y, score, loss="brier", random_state=0)
    assert found.terms["reliability"] < 0.0 == found.interval("reliability").low
    _, label, _ = (label.get_text() for label in DecompositionDisplay(found).plot().label_)
    assert label.startswith("0  [0.0")
    assert f"; estimate −{-found.terms['reliability']:.4f}"[:-1] in label


def test_segments_say_how_many_rows_they_have(law):
    X, y, _ = law
    found = scoreprism.decompose_by(
        y, score(X, 0), segments=np.where(X[:, 1] > 0.7, "high", "low"), random_state=0
    ).plot()
    words = [text.get_text() for text in found.ax_.get_yticklabels()]
    assert {int(word.split("n = ")[1]) for word in words} == {int((X[:, 1] > 0.7).sum()), int((X[:, 1] <= 0.7).sum())}
    assert "rows" not in found.ax_.get_xlabel()


def test_frames_of_unlike_curves_are_filled_up(law):
    X, y, _ = law
    s = score(X, 0)
    mixed = ReliabilityDisplay([
        reliability_curve(y, s, method="bins", name="bins"),
        reliability_curve(y, s, band=None, name="isotonic"),
    ])  # fmt: skip
    frame = mixed.to_frame("pandas")
    assert set(frame["part"]) == {"curve", "band"}
    assert frame[(frame["model"] == "isotonic") & (frame["part"] == "band")].empty


# ── other people's figures ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", DISPLAYS)
def test_words_stay_inside_figures_without_a_layout(kind, law):
    figure, ax = plt.subplots(figsize=(6.4, 4.8))  # matplotlib's own size
    drawn(kind, law, 3, ax=ax)
    assert collisions(figure)[1] == []


def test_a_title_has_its_place(law):
    display = drawn("roc", law, 3)
    display.ax_.set_title("a title of the user's")
    assert collisions(display.figure_) == ([], [])


@pytest.mark.parametrize("kind", ["roc", "murphy", "net-benefit", "reliability"])
def test_a_second_display_on_the_same_axes_goes_on(kind, law):
    X, y, _ = law
    options = {"band": None} if kind == "reliability" else {}
    first = DISPLAYS[kind].from_predictions(y, score(X, 0), name="first", **options)
    lines = len(first.ax_.lines)
    second = DISPLAYS[kind].from_predictions(y, score(X, 1), name="second", ax=first.ax_, **options)
    assert first.line_[0].get_color() != second.line_[0].get_color()
    words = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert [word.split(",")[0] for word in words if word.startswith(("first", "second"))] == ["first", "second"]
    references = sum("reference" in (line.get_gid() or "") for line in first.ax_.lines)
    assert references == (2 if kind == "net-benefit" else 1)
    assert len(first.ax_.lines) > lines


@pytest.mark.parametrize("kind", DISPLAYS)
def test_parts_of_a_figure_will_do(kind, law):
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    ax = figure.subfigures(1, 2)[0].subplots()
    drawn(kind, law, 3, ax=ax)
    figure.canvas.draw()


def test_three_axes_for_a_triptych(law):
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
    display = drawn("triptych", law, 3, ax=axes)
    assert list(display.axes_) == list(axes)
    figure.canvas.draw()
    heights = {round(ax.get_position().height, 3) for ax in axes}
    assert len(heights) == 1
    assert collisions(figure) == ([], [])


# ── style ───────────────────────────────────────────────────────────────────────────────────────────

#: Machado, Oliveira and Fernandes 2009, severity 1: linear sRGB as dichromats see it.
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB (D65) of linear sRGB."""
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """Contrast ratio (WCAG 2)."""
    a, b = (linear(colour) @ [0.2126, 0.7152, 0.0722] + 0.05 for colour in (one, other))
    return max(a, b) / min(a, b)


def on_paper(paper, kind, law, count):
    """A display on axes of a colour."""
    _, ax = plt.subplots(facecolor=paper, subplot_kw={"facecolor": paper})
    return drawn(kind, law, count, ax=ax)


@pytest.mark.parametrize("paper", ["white", "#16181d"])
@pytest.mark.parametrize("vision", VISION)
def test_colours_can_be_told_apart_by_everyone(vision, paper, law):
    display = on_paper(paper, "roc", law, 5)
    palette = [line.get_color() for line in display.line_]
    seen = [lab(np.array(VISION[vision]) @ linear(colour)) for colour in palette]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 14  # 2.3 is the least anyone sees
    assert all(contrast(colour, paper) >= 3 for colour in palette)  # WCAG 2.1, 1.4.11: graphical objects
    assert contrast(display.ax_.xaxis.label.get_color(), paper) >= 7
    (diagonal,) = [line for line in display.ax_.lines if "reference" in (line.get_gid() or "")]
    assert contrast(diagonal.get_color(), paper) >= 4.5  # the same, text
    terms = [bar.get_facecolor() for bar in on_paper(paper, "decomposition", law, 1).bar_[1:]]
    assert len(terms) == 3
    seen = [lab(np.array(VISION[vision]) @ linear(colour)) for colour in terms]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 30  # areas that touch each other


def test_twenty_models_have_twenty_looks(law):
    X, y, _ = law
    lines = DISPLAYS["roc"].from_predictions(y, {f"model {i}": score(X, i) for i in range(20)}).line_
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines}) == 20
    planes = DISPLAYS["resolution-plane"].from_predictions(y, {f"model {i}": score(X, i) for i in range(20)}).line_
    assert len({(line.get_color(), line.get_marker()) for line in planes}) == 20


@pytest.mark.parametrize("kind", DISPLAYS)
def test_the_global_style_stays_as_it_was(kind):
    drawn_once(kind, 3)
    assert kind not in RESTYLED


def test_dark_paper_gets_light_ink(law):
    with plt.style.context("dark_background"):
        display = drawn("murphy", law, 1)
    assert contrast(display.ax_.xaxis.label.get_color(), "black") >= 7
    light, dark = drawn("murphy", law, 1).line_[0].get_color(), display.line_[0].get_color()
    assert light != dark
    figure, ax = plt.subplots()
    ax.set_facecolor("none")
    figure.set_facecolor("#101010")
    assert drawn("murphy", law, 1, ax=ax).line_[0].get_color() == dark
    figure = plt.figure(facecolor="#101010")
    ax = figure.subfigures(1, 2)[0].subplots()
    ax.set_facecolor("none")
    assert drawn("murphy", law, 1, ax=ax).line_[0].get_color() == dark


def test_the_house_style_is_a_file_for_a_while():
    with house_style():
        assert mpl.rcParams["axes.spines.top"] is False
    assert mpl.rcParams["axes.spines.top"] is True


@pytest.mark.parametrize("before", [True, False])
def test_the_house_style_keeps_what_a_backend_switches_on(before, monkeypatch):
    """The backend of notebooks is loaded by the first figure, and calls `interactive(True)` then."""
    monkeypatch.setitem(mpl.rcParams, "interactive", before)
    with house_style():
        assert mpl.is_interactive() is before
    assert mpl.is_interactive() is before
    with house_style():
        mpl.interactive(True)
    assert mpl.is_interactive()
    with pytest.raises(ZeroDivisionError), house_style():
        raise ZeroDivisionError
    assert mpl.is_interactive()


def test_curve_kwargs_reach_the_lines(law):
    assert {line.get_linewidth() for line in drawn("murphy", law, 3, curve_kwargs={"lw": 4}).line_} == {4}
    each = [{"color": "red"}, {"color": "lime", "linestyle": ":"}, {}]
    lines = drawn("roc", law, 3, curve_kwargs=each).line_
    assert [line.get_color() for line in lines[:2]] == ["red", "lime"]
    assert lines[1].get_linestyle() == ":"


def test_a_million_rows_do_not_make_a_million_points(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.random(1_000_000)
    y = (rng.random(s.size) < s).astype(int)
    display = TriptychDisplay.from_predictions(y, s, band=None)
    assert max(len(line.get_xdata()) for ax in display.axes_ for line in ax.lines) <= 1600
    display.figure_.savefig(tmp_path / "triptych.svg")
    assert (tmp_path / "triptych.svg").stat().st_size < 300_000


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────


def test_errors_say_what_to_do(law):
    X, y, _ = law
    s = score(X, 0)
    cases = [
        (lambda: drawn("murphy", law, 1, ax=3), "ax must be matplotlib Axes; got int"),
        (lambda: drawn("triptych", law, 1, ax=3), "ax must be one Axes or three; got 1"),
        (lambda: drawn("roc", law, 1, ax=plt.subplots(subplot_kw={"projection": "polar"})[1]), "got the projection 'polar'"),
        (lambda: drawn("roc", law, 3, curve_kwargs="red"), "curve_kwargs must be a dict, or a list"),
        (lambda: drawn("roc", law, 1, curve_kwargs={"colour": "red"}), "Did you mean 'color'?"),
        (lambda: drawn("reliability", law, 1, nbins=3), "Did you mean 'n_bins'?"),
        (lambda: drawn("decomposition", law, 1, curve_kwargs=[{}]), "curve_kwargs of bars must be a dict"),
        (lambda: ReliabilityDisplay.from_predictions(y, {1: s, "1": s}), "models must have different names"),
        (lambda: DISPLAYS["roc"](3), "must be made of RocCurve objects; got int"),
        (lambda: drawn("roc", law, 3, curve_kwargs=[{}]), "curve_kwargs must be a dict, or a list of one dict for each"),
        (lambda: ReliabilityDisplay.from_predictions(y, {}), "y_proba must hold at least one model"),
        (lambda: ReliabilityDisplay.from_predictions(y, {"a": s}, name="b"), "name must go with one model; got a mapping as y_proba"),
        (lambda: ReliabilityDisplay([]), "ReliabilityDisplay must be made of ReliabilityCurve objects; got none"),
        (lambda: ReliabilityDisplay(murphy_curve(y, s)), "must be made of ReliabilityCurve objects; got MurphyCurve"),
        (lambda: DISPLAYS["roc"].from_cv_results({}, X, y), "cv_results must hold estimators and indices"),
        (lambda: DISPLAYS["grouping"].from_predictions(y, s), "a grouping curve must have the levels S, C and Q"),
        (lambda: TriptychDisplay.from_predictions(y, s, band=None, ax=plt.subplots(1, 2)[1]), "one Axes or three; got 2"),
        (lambda: decompose(y, s, random_state=0).plot(kind="pie"), "kind must be one of"),
        (lambda: DISPLAYS["murphy-decomposition"].from_predictions(y, s, calibratr="platt"), "each option must be one of"),
        (lambda: ReliabilityDisplay.from_estimator(LogisticRegression(), X, y), "must be fitted"),
    ]  # fmt: skip
    for call, words in cases:
        with pytest.raises(InputError, match=".*") as caught:
            call()
        assert words in str(caught.value)


def test_matplotlib_is_imported_when_a_figure_is_drawn_and_boosters_when_they_are_read():
    import subprocess
    import sys

    late = ("matplotlib", "xgboost", "lightgbm")
    code = f"import sys, scoreprism.displays, scoreprism.ensembles; print([m for m in {late} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
