"""A report as the library would make it, and one whose every word is hostile: what the renderings are tested with."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from matplotlib.figure import Figure as Page
from scipy.special import expit

from scoreprism import Finding, decompose_by
from scoreprism.curves import GroupingCurve, MurphyDecomposition, net_benefit, reliability_curve, roc_curve
from scoreprism.datasets import load_german_credit
from scoreprism.displays import (
    DecompositionDisplay,
    GroupingDisplay,
    MurphyDecompositionDisplay,
    NetBenefitDisplay,
    ReliabilityDisplay,
    ResolutionPlaneDisplay,
    RocDisplay,
    TriptychDisplay,
)
from scoreprism.inference import calibration_test
from scoreprism.metrics import evaluate
from scoreprism.report import (
    SECTIONS,
    Callout,
    Column,
    Figure,
    ModelResult,
    Origin,
    Paragraph,
    Range,
    Report,
    Section,
    Table,
    make_report,
)
from tests.chains import decompose_losses


def blank(width, height):
    """Axes of a new figure that pyplot does not know."""
    return Page(figsize=(width, height), layout="constrained").subplots()


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
#: What a column, a label or a file may be called.
NAMES = (
    HOSTILE,
    '" autofocus onfocus=alert(3) x="',
    "[red]not markup[/red] [link=x]y[/link] :smile:",
    '=HYPERLINK("x")',
    "a | b \\ `c` *d* _e_ [f](javascript:alert(4)) www.example.org @someone",
    "right\u202eto left",
    "escape \x1b[31mred\x07 \x00",
    "dollars $x_1$ and $\\frac{",
    "half a letter \ud83d",
    "语言 שלום 😀",
    "../../etc/passwd; DROP TABLE scores; --",
    "W" * 200,
)


def term_table(key, title, results, note=""):
    columns = (
        Column("term", "term"),
        Column("estimate", "estimate", "number"),
        Column("known", "known at 95 %", "number"),
        Column("share", "share", "share"),
        Column("reduces", "what reduces it"),
    )
    meaning = {
        "reliability": "recalibration on held-out data",
        "grouping": "a better score: model, features used, ensembling",
        "irreducible": "richer features or better data",
    }
    interval = results.interval("reliability")
    known = {
        "reliability": Range(interval.low, interval.high),
        "grouping": Range(max(results.lower_bound("grouping").value, 0.0), None),
        "irreducible": Range(None, results.upper_bound("irreducible").value),
    }
    told = {name: None if name in results.muted else value for name, value in results.terms.items()}
    rows = tuple(
        (name, value, known[name], None if value is None else value / results.risk, meaning[name])
        for name, value in told.items()
    )
    return Table(key, title, columns, rows, note)


@cache
def material():
    """Predictions of two models, and everything computed of them."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = load_german_credit()
    X = data.X.select(
        "duration_months", "credit_amount", "installment_rate", "age_years", "existing_credits"
    ).to_numpy()
    X = np.column_stack([X, *(data.X["checking_status"].to_numpy() == code for code in ("A11", "A12", "A14"))]).astype(
        float
    )
    order = np.random.default_rng(0).permutation(1000)
    train, test = order[:450], order[450:]
    scores = {}
    for name, model in {
        "Logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "Random forest": RandomForestClassifier(60, min_samples_leaf=3, random_state=0),
    }.items():
        scores[name] = np.clip(model.fit(X[train], data.y[train]).predict_proba(X[test])[:, 1], 0.01, 0.99)
    y, X = data.y[test], X[test]
    segment = np.where(X[:, 3] < 30, "younger than 30", "30 and older")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {
            name: ModelResult(
                decompose_losses(y, s, X, losses=("log", "brier"), random_state=0),
                {"calibration": calibration_test(y, s, n_resamples=199, random_state=0)},
                evaluate(y, s, metrics=["auc", "ici", "calibration_slope"], random_state=0, n_resamples=50),
            )
            for name, s in scores.items()
        }
        segments = decompose_by(y, scores["Logistic regression"], segments=segment, random_state=0)
        chain = models["Logistic regression"].decompositions["log"].chain
        murphy = MurphyDecomposition.from_chain(chain)
        grouping = GroupingCurve.from_chain(chain)
    return y, X, scores, models, segments, murphy, grouping


def on(size, make):
    """A figure of a display, of a size that suits a phone."""

    def draw():
        axes = blank(*size)
        make(axes)
        return axes.figure

    return draw


def figures(rename=lambda name: name):
    y, _, scores, models, segments, murphy, grouping = material()
    scores = {rename(name): s for name, s in scores.items()}
    first, s = next(iter(scores.items()))
    log = next(iter(models.values())).decompositions["log"]
    reliability = ReliabilityDisplay([reliability_curve(y, s, name=first, random_state=0, n_resamples=50)])
    benefit = NetBenefitDisplay([net_benefit(y, s, name=name) for name, s in scores.items()])
    roc = RocDisplay([roc_curve(y, s, name=name) for name, s in scores.items()])
    small = {"x": [0.0, 0.5, 1.0], "y": [0.02, 0.41, 0.95]}

    def numbers(key, rows=3):
        columns = (Column("model", "model"), *(Column(name, name, "short") for name in small))
        return Table(
            f"{key}_data",
            "Points",
            columns,
            tuple((first, *row) for row in list(zip(*small.values(), strict=True)) * (rows // 3)),
        )

    def triptych():
        found = TriptychDisplay.from_predictions(y, scores, band=None, ax=blank(7.4, 2.9))
        return found.figure_

    def plane(axes):
        ResolutionPlaneDisplay.from_predictions(y, scores, loss="log", ax=axes)

    def segment_bars(axes):
        DecompositionDisplay({rename(str(k)): d for k, d in segments.decompositions.items()}).plot(axes)

    made = {
        "waterfall": ("The loss, term by term", on((4.6, 2.3), lambda ax: DecompositionDisplay(log).plot(ax))),
        "reliability": ("Reliability diagram", on((4.2, 4.0), reliability.plot)),
        "grouping": (
            "Chances among rows of similar scores",
            on((4.4, 3.3), lambda ax: GroupingDisplay(grouping).plot(ax)),
        ),
        "murphy": (
            "Terms at every decision threshold",
            on((4.4, 3.3), lambda ax: MurphyDecompositionDisplay(murphy).plot(ax)),
        ),
        "benefit": ("Net benefit", on((4.8, 3.5), benefit.plot)),
        "roc": ("ROC", on((3.9, 3.9), roc.plot)),
        "triptych": ("Performance, calibration, discrimination", triptych),
        "segments": ("Terms by segment", on((4.6, 2.2), segment_bars)),
        "plane": ("Resolution plane", on((4.4, 3.5), plane)),
    }
    words = "The curve lies above the diagonal below 0.3 and under it above: the model is a little too sure of itself."
    return {
        key: Figure(key, title, words, draw, numbers(key, 600 if key == "roc" else 12))
        for key, (title, draw) in made.items()
    }


def wide_table(rename):
    names = ["model", "n", "events", "loss", "reliability", "grouping", "irreducible", "auc", "slope"]
    kinds = ["text", "count", "count", "number", "number", "number", "number", "short", "short"]
    columns = tuple(Column(name, name, kind) for name, kind in zip(names, kinds, strict=True))
    rows = tuple(
        (rename(name), 550, 168, 0.53122, 0.01214, -0.00003, 0.5191, 0.761, 0.911)
        for name in ("Logistic regression", "Random forest")
    )
    return Table("models", "All models, log loss", columns, rows, "Differences are judged on the same rows.")


def grade_table():
    columns = (
        Column("grade", "grade"),
        Column("rows", "rows", "count"),
        Column("mean", "mean score", "share"),
        Column("rate", "event rate", "share"),
        Column("known", "Jeffreys 95 %", "share"),
        Column("p", "p-value", "pvalue"),
    )
    rows = (
        (
            f"{low:.1f} to {low + 0.2:.1f}",
            110 + int(10 * low),
            low + 0.09,
            low + 0.11,
            Range(low + 0.03, low + 0.2),
            0.03 + low / 2,
        )
        for low in (0.0, 0.2, 0.4, 0.6, 0.8)
    )
    return Table(
        "grades", "Scores in bins", columns, tuple(rows), "Intervals are Jeffreys intervals of each bin by itself."
    )


def method_table():
    columns = (Column("what", "what"), Column("value", "value"))
    rows = (
        ("rows", "550, of which 168 events"),
        ("seed", "0"),
        (
            "reliability",
            "mean of ℓ(S, y) − ℓ(C, y) − v_S + v_C, C cross-fitted in 5 folds with the map of the smallest loss",
        ),
        (
            "grouping",
            "mean of ℓ(C, y) − ℓ(Q, y) − v_C + v_Q, Q a stack of logistic regression, boosting and forest, cross-fitted",
        ),
        (
            "reference",
            "Dimitriadis, Gneiting & Jordan (2021), Stable reliability diagrams for probabilistic classifiers, PNAS 118(8)",
        ),
    )
    return Table("method", "How it was computed", columns, rows)


def sample_report(rename=lambda name: name, words=lambda text: text):
    """A report with all eight sections of two classes, whose names and texts may be replaced."""
    models = material()[3]
    drawn = figures(rename)
    first = rename("Logistic regression")
    log = next(iter(models.values())).decompositions["log"]
    few = Finding("few_rows", n=550, subject=words("default"), facts={"count": 168})
    blocks = {
        "verdict": (
            Paragraph(words("550 rows, 168 events.")),
            Callout(Finding("recalibrate", low=0.00412, value=0.515)),
            Callout(Finding("information_gain", term="grouping", model=first, low=0.0113, value=0.538)),
            Callout(few),
            drawn["waterfall"],
            term_table("terms", f"{first}, log loss", log, "Bounds are one-sided."),
            Callout(Finding("segments_none", model=words("the score"), n=2)),
        ),
        "calibration": (drawn["reliability"], grade_table()),
        "recalibration": (wide_table(rename),),
        "grouping": (drawn["grouping"],),
        "decisions": (drawn["murphy"], drawn["benefit"], drawn["roc"], drawn["triptych"]),
        "segments": (drawn["segments"],),
        "models": (drawn["plane"],),
        "method": (
            method_table(),
            Callout(Finding("left_out", model=words("m"), subject=words("a map"), facts={"reason": words("no rows")})),
        ),
    }
    leads = {
        "verdict": (),
        "calibration": (Finding("calibration_refuted", model=words("the score"), pvalue=0.03),),
        "segments": (Finding("segment_miscalibrated", n=2, facts={"segments": [words("age 30 and older")]}),),
    }
    other = (Finding("calibration_not_refuted", model=words("the score"), pvalue=0.3),)
    sections = tuple(
        Section(key, title, leads.get(key, other), blocks[key])
        for key, title in SECTIONS.items()
        if key in blocks  # of two classes, none of them has a section
    )
    origin = Origin(rename("german_credit.csv"), "5f" * 32, {"rows": 550, "dropped": 0, "columns": [rename("score")]})
    headline = "The model is nearly calibrated; most of what can be gained lies in a better use of the features."
    return Report(
        kind="report",
        title=rename("Credit default, holdout 2024"),
        headline=words(headline),
        sections=sections,
        origin=origin,
        settings={"seed": 0, "confidence_level": 0.95, "losses": ["log", "brier"]},
        versions={"scoreprism": "0.1.0", "numpy": "2.0.0"},
        models={rename(name): model for name, model in models.items()},
    )


def real_report():
    """What `make_report` makes of four models: all sections, from few rows, few folds, few maps and one loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (rng.random(400) < expit(X[:, 0] + X[:, 1])).astype(int)
    names = ("logistic", "forest", "average of both", "gradient boosting with 500 trees of depth 4, version 2")
    scores = {name: expit((1 + 0.4 * i) * X[:, 0] + 0.2 * rng.normal(size=400)) for i, name in enumerate(names)}
    days = np.datetime64("2024-01-01") + rng.integers(0, 360, 400).astype("timedelta64[D]")
    segments = {"region": rng.choice(["north", "south"], 400)}
    few = {"loss": "log", "calibrators": ["platt", "isotonic"], "cv": 2}
    return make_report(y, scores, X, segments=segments, time=days, random_state=0, **few)


def hostile_report():
    """The same with names that want to be elements, markup, formulas, escapes."""
    names = {}

    def rename(name):
        return names.setdefault(name, f"{NAMES[len(names) % len(NAMES)]} {len(names)}")

    counter = iter(range(10**6))
    return sample_report(rename, lambda text: f"{NAMES[next(counter) % len(NAMES)]} {text}")


@cache
def page_of(name):
    """The page of one of these reports, which takes more than a second to draw."""
    return {"sample": sample_report, "hostile": hostile_report, "real": real_report}[name]().to_html()
