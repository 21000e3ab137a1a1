"""Every display: data, artists, labels, colours, and words that neither overlap nor leave the figure."""

from itertools import combinations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate

import scoreprism
from scoreprism import corp_decomposition, decompose
from scoreprism.curves import (
    calibration_map,
    grouping_curve,
    murphy_curve,
    murphy_decomposition,
    net_benefit,
    reliability_curve,
    resolution_plane,
    roc_curve,
    score_distribution,
    stagewise_curve,
)
from scoreprism.datasets import CopulaLaw
from scoreprism.displays import DISPLAYS, DecompositionDisplay, ReliabilityDisplay, TriptychDisplay, house_style
from scoreprism.displays._style import LINES, MARKERS, PALETTES, Inks
from scoreprism.exceptions import InputError
from scoreprism.simplex import sigmoid

NAMES = ("logistic regression", "boosting", "forest", "net", "bayes", "neighbours", "spline", "ridge", "tree", "all")
RANDOM = {"reliability", "triptych", "decomposition", "murphy-decomposition", "grouping", "stagewise"}
RESAMPLED = {"reliability", "triptych"}


@pytest.fixture(scope="module")
def law():
    return CopulaLaw(rho=0.0).sample(400, random_state=0)


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")


def score(X, i):
    return sigmoid((1.5 + 0.5 * i) * (2 * X[:, 0] - 1) + (i % 3) * (X[:, 1] - 0.5) + 0.3 * (i % 2))


def given(kind, law, count):
    """What `from_predictions` of a display gets for so many models, and its options."""
    X, _, q = law
    options = {"random_state": 0} if kind in RANDOM else {}
    if kind in RESAMPLED:
        options["n_resamples"] = 40
    if DISPLAYS[kind].features:
        options["q"] = q
    if kind == "stagewise":
        stages = [{t: np.clip(score(X, i) ** (t / 3), 0.01, 0.99) for t in (1, 3, 5)} for i in range(count)]
        return (stages[0] if count == 1 else dict(zip(NAMES, stages, strict=False))), options
    if count == 1:
        return ({"logistic": score(X, 0)} if kind == "resolution-plane" else score(X, 0)), options
    return {name: score(X, i) for i, name in enumerate(NAMES[:count])}, options


def drawn(kind, law, count, **more):
    scores, options = given(kind, law, count)
    return DISPLAYS[kind].from_predictions(law[1], scores, **options, **more)


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
    figure.canvas.draw()
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


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("kind", DISPLAYS)
def test_no_word_covers_another_at_four_by_three_inches(kind, count, law):
    wide = kind in {"triptych", "murphy-decomposition"} and (count > 1 or kind == "triptych")
    figure = plt.figure(figsize=(9, 3) if wide else (4, 3), layout="constrained")  # three panels: three inches each
    display = drawn(kind, law, count, ax=figure.subplots())
    assert display.figure_ is figure
    assert collisions(figure) == ([], [])


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("kind", DISPLAYS)
def test_no_word_covers_another_at_its_own_size(kind, count, law):
    assert collisions(drawn(kind, law, count).figure_) == ([], [])
