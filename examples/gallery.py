"""Draw every display with one, three and ten models, on light and on dark paper, large and small, onto one page.

``python examples/gallery.py [folder]`` writes PNG files and an ``index.html`` to look at; with ``--docs`` it draws the
figures of docs/displays.md and those of ensembles, pipelines and parametric maps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from scipy.special import expit
from sklearn.naive_bayes import GaussianNB

from scoreprism.datasets import CopulaLaw
from scoreprism.displays import DISPLAYS, CurveDisplay
from scoreprism.ensembles import aggregation_decomposition
from scoreprism.inference import map_inference
from scoreprism.pipelines import pipeline_bootstrap

NAMES = ("logistic regression", "boosting", "random forest", "neural net", "naive Bayes")
NAMES += ("nearest neighbours", "splines", "ridge", "one tree", "all of them, averaged")
ROWS = 3000
#: Displays that are made from predictions.
CURVES = [kind for kind, display in DISPLAYS.items() if issubclass(display, CurveDisplay)]
RANDOM = {"reliability", "triptych", "decomposition", "murphy-decomposition", "grouping"}
PAPERS = {"light": "default", "dark": "dark_background"}
WIDE = {"triptych", "murphy-decomposition"}
FIGURES = Path(__file__).parents[1] / "docs" / "figures"
#: Displays in docs/displays.md, and how many models they show there.
DOCS = dict.fromkeys(CURVES, 1) | {"triptych": 3, "resolution-plane": 10, "murphy": 3, "decomposition": 3}
RECALIBRATED = {"recalibrate": "monotone-spline", "terms": ["reliability", "grouping"]}


def score(X, i):
    """Models of more or less confidence, which see more or less of the second feature."""
    return expit((3 + 0.7 * i) * (X[:, 0] - 0.45) + 1.5 * (i % 3) * (X[:, 1] - 0.5))


def given(kind, count, X, q):
    """Scores and options for a display of so many models."""
    options = {"random_state": 0} if kind in RANDOM else {}
    if DISPLAYS[kind].features:
        options["q"] = q
    names = NAMES[:count]
    scores = {name: score(X, i) for i, name in enumerate(names)}
    alone = count == 1 and kind != "resolution-plane"
    return (scores[names[0]] if alone else scores), options


def draw(kind, count, paper, size, law, path, **more):
    """One figure; `size` in inches, or None for its own."""
    X, y, q = law
    scores, options = given(kind, count, X, q)
    options |= more
    with plt.style.context(PAPERS[paper]):
        ax = None if size is None else plt.figure(figsize=size, layout="constrained").subplots()
        display = DISPLAYS[kind].from_predictions(y, scores, ax=ax, **options)
        display.figure_.savefig(path, dpi=110)
    plt.close("all")


def for_docs():
    """The figures of docs/displays.md."""
    law = CopulaLaw(rho=0.0).sample(ROWS, random_state=0)
    for kind, count in DOCS.items():
        more = RECALIBRATED if kind == "decomposition" else {}
        draw(kind, count, "light", None, law, FIGURES / f"{kind}.png", **more)
        print("drew", f"docs/figures/{kind}.png")


def for_results():
    """Figures of results that are not made from predictions: docs/ensembles.md, pipelines.md, map_inference.md."""
    X, y, _ = CopulaLaw(rho=0.0).sample(ROWS, random_state=0)
    pair = {"first feature": expit(4 * X[:, 0] - 2), "second feature": expit(4 * X[:, 1] - 2)}
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    results = {
        "aggregation": aggregation_decomposition(y, pair, X=X, random_state=0),
        "bootstrap": pipeline_bootstrap(
            GaussianNB(), *parts, calibrator="platt", refit="all", n_resamples=200, random_state=0
        ),
        "map-inference": map_inference(y[:1000], score(X, 4)[:1000], calibrator="platt"),
    }
    for name, result in results.items():
        result.plot().figure_.savefig(FIGURES / f"{name}.png", dpi=110)
        print("drew", f"docs/figures/{name}.png")


def main(folder="gallery"):
    if folder == "--docs":
        for_results()
        return for_docs()
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    law = CopulaLaw(rho=0.0).sample(ROWS, random_state=0)
    page = ["<!doctype html><meta charset=utf-8><title>scoreprism: gallery</title>"]
    page.append("<style>body{font-family:sans-serif;background:#ddd}img{margin:4px;vertical-align:top}</style>")
    for kind in CURVES:
        page.append(f"<h2>{kind}</h2>")
        small = (9, 3) if kind in WIDE else (4, 3)
        for count, paper, size in [
            (1, "light", None), (3, "light", None), (10, "light", None), (1, "light", small), (3, "light", small),
            (10, "light", small), (3, "dark", None),
        ]:  # fmt: skip
            name = f"{kind}-{count}-{paper}{'-small' if size else ''}.png"
            draw(kind, count, paper, size, law, out / name)
            page.append(f'<img src="{name}" alt="{name}">')
        print("drew", kind)
    (out / "index.html").write_text("\n".join(page), encoding="utf-8")
    print("look at", out / "index.html")
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
