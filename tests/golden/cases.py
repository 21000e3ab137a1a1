"""What is recorded: every public function once or more, on small inputs."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from click.testing import CliRunner
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import scoreprism
from scoreprism import curves, datasets, ensembles, inference, metrics, pipelines, references, report, scale
from scoreprism.calibrators import CALIBRATORS, RecalibratedClassifier, from_json, get_calibrator
from scoreprism.decomposition import Decomposition
from tests.chains import decompose_losses
from tests.golden.inputs import INPUTS, binary, classes
from tests.golden.record import attempt, case

LOSSES = {2: ("brier", "log", "spherical", "beta", "elementary"), 3: ("brier", "log", "spherical", "tsallis")}
FORMS = ("debiased", "difference", "plugin")
METHODS = ("auto", "smooth", "bracket", "clt")

# ── decompositions ──────────────────────────────────────────────────────────────────────────────────


def everything(d: Decomposition) -> dict[str, Any]:
    """All that a decomposition says in numbers."""
    weight = d.sample_weight
    return {
        "risk": d.risk, "terms": d.terms, "errors": d.std_error, "levels": d.level_names, "muted": d.muted,
        "notes": d.notes, "level losses": attempt(lambda: d.level_losses),
        "spreads": attempt(lambda: np.average(d.level_spreads, axis=0, weights=weight)),
        "pvalue": attempt(lambda: d.calibration_pvalue),
        "intervals": {
            f"{term}, {method}": attempt(partial(d.interval, term, method=method))
            for term in d.names
            for method in METHODS
        },
        "lower": {term: attempt(partial(d.lower_bound, term)) for term in d.names},
        "upper": {term: attempt(partial(d.upper_bound, term)) for term in d.names},
    }  # fmt: skip


def decomposed(name: str, form: str) -> Any:
    args, options = INPUTS[name]()
    k = 2 if np.ndim(args[1]) == 1 or np.shape(args[1])[1] == 2 else 3
    chosen = LOSSES[k] if form == "debiased" else LOSSES[k][:2]
    found = decompose_losses(*args, losses=chosen, form=form, **options)
    return {loss: everything(d) for loss, d in found.items()}


SLOW = ("polars with categories and missing", "three classes with features", "levels of features", "pandas frames")
for _name in INPUTS:
    for _form in FORMS[:1] if _name in SLOW or "thousand" in _name else FORMS:
        case(f"decompose, {_name}, {_form}")(partial(decomposed, _name, _form))


@case("decompose, envelope, bca and texts")
def _() -> Any:
    y, s, X, _ = binary(300, 30)
    d = scoreprism.decompose(y, s, X)
    return {
        "envelope": d.interval("reliability", method="envelope"),
        "bca": d.interval("reliability", method="bca", n_resamples=99, random_state=0),
        "repr": repr(d), "html": d._repr_html_(), "summary": str(d.summary()), "summary dict": d.summary().to_dict(),
        "contributions": attempt(lambda: repr(d.contributions(X[:, 0] > 0))), "resolution": everything(d.resolution_form),
        "frame": d.to_frame().to_dict(as_series=False), "json": json.loads(d.to_json()),
        "again": repr(Decomposition.from_json(d.to_json())),
    }  # fmt: skip


@case("compare")
def _() -> Any:
    y, s, X, q = binary(400, 31)
    both = scoreprism.compare(y, {"a": s, "b": q.round(2)}, X)
    gap = both.difference("a", "b")
    ends = {
        f"{term}, {m}": attempt(partial(gap.interval, term, method=m)) for term in gap.names for m in ("auto", "clt")
    }
    return {
        "text": repr(both),
        "gap": repr(gap),
        "ends": ends,
        "parts": {n: everything(d) for n, d in both.decompositions.items()},
    }


@case("decompose_by")
def _() -> Any:
    y, s, X, _ = binary(700, 32)
    by = scoreprism.decompose_by(y, s, segments=np.where(X[:, 1] > 0.4, "high", "low"))
    return {"text": repr(by), "bounds": by.lower_bounds("reliability"), "p": attempt(lambda: by.pvalues("reliability"))}


@case("chains and classical forms")
def _() -> Any:
    y, s, X, q = binary(300, 33)
    chain = scoreprism.Chain(
        y, [scoreprism.Level("S", s), scoreprism.Level("C", expit(X[:, 0])), scoreprism.Level("Q", q)]
    )
    three = classes(300, 3, 5)
    return {
        "chain": {loss: everything(chain.decompose(loss)) for loss in ("brier", "log", "elementary")},
        "chain text": repr(chain.decompose("log")), "advice": chain.decompose("log").summary().advice,
        "corp": everything(scoreprism.corp_decomposition(y, s)), "corp text": repr(scoreprism.corp_decomposition(y, s)),
        "resolution": everything(scoreprism.resolution_decomposition(y, s, expit(X[:, 0]))),
        "three": everything(scoreprism.Chain(three[0], [scoreprism.Level("S", three[1]), scoreprism.Level("C", 0.5 * three[1] + 1 / 6)]).decompose("brier")),
    }  # fmt: skip


@case("finite model")
def _() -> Any:
    example = datasets.german_credit_population()
    law = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    model = scoreprism.FiniteModel([0.4, 0.3, 0.2, 0.1], law)
    parts = {"C": [0, 0, 1, 1], "X": [0, 1, 2, 3]}
    exact = {loss: model.decompose([0.2, 0.2, 0.6, 0.6], parts, loss=loss) for loss in ("brier", "log", "spherical")}
    return {
        "example": str(example)[:2000], "level": model.level([0, 0, 1, 1]), "text": repr(exact["log"]),
        "terms": {loss: (d.risk, d.terms, d.level_losses) for loss, d in exact.items()},
    }  # fmt: skip


@case("losses")
def _() -> Any:
    p, y = np.array([0.02, 0.3, 0.5, 0.97]), np.array([0, 1, 0, 1])
    three, code = np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]), np.array([2, 1])
    found: dict[str, Any] = {}
    for name in scoreprism.LOSSES:
        loss = scoreprism.get_loss(name)
        found[name] = {
            "two": loss.loss(p, y), "divergence": loss.divergence(p, p[::-1].copy()), "entropy": loss.entropy(p),
            "three": attempt(partial(loss.loss, three, code)), "text": repr(loss),
        }  # fmt: skip
    own = scoreprism.losses.from_entropy(lambda t: 1 - (t**2).sum(axis=1), lambda t: -2 * t, name="own")
    return found | {"own": {"loss": own.loss(p, y), "text": repr(own)}}


# ── maps ────────────────────────────────────────────────────────────────────────────────────────────


def fitted_map(name: str) -> Any:
    y, s, *_ = binary(500, 40)
    k, three, _ = classes(400, 3, 40)
    found: dict[str, Any] = {}
    grid = np.linspace(0.01, 0.99, 25)
    for title, rows in {"two": (s, y), "three": (three, k)}.items():
        fitted = attempt(lambda rows=rows: get_calibrator(name).fit(*rows))
        if isinstance(fitted, str):
            found[title] = fitted
            continue
        at = grid if title == "two" else three[:12]
        text = fitted.to_json()
        found[title] = {"law": fitted.calibrate(at), "again": from_json(text).calibrate(at), "repr": repr(fitted)}
        sql = str(attempt(partial(fitted.to_sql, "score" if title == "two" else ["a", "b", "c"])))
        found[title]["sql"] = len(re.findall("CASE|ln|exp", sql)), sql[-300:]  # how it is made, and its end
        if name not in ("dirichlet", "polynomial"):  # weights of theirs in flat directions are known to 1e-7 only
            found[title]["json"] = json.loads(text)
    return found


for _name in CALIBRATORS:
    case(f"map, {_name}")(partial(fitted_map, _name))


@case("recalibrated classifier")
def _() -> Any:
    y, _, X, _ = binary(300, 41)
    model = RecalibratedClassifier(RandomForestClassifier(20, random_state=0)).fit(X, y)
    return {"law": model.predict_proba(X)[:30], "map": str(model.calibrator_ if hasattr(model, "calibrator_") else "")}


# ── metrics, tests, curves ──────────────────────────────────────────────────────────────────────────


@case("metrics")
def _() -> Any:
    y, s, *_ = binary(300, 50)
    k, three, _ = classes(250, 3, 50)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    two = metrics.evaluate(y, s, n_resamples=50, random_state=0)
    return {
        "two": two.to_dict() if hasattr(two, "to_dict") else repr(two), "text": repr(two),
        "weights": repr(metrics.evaluate(y, s, n_resamples=50, random_state=0, sample_weight=weight)),
        "three": repr(metrics.evaluate(k, three, n_resamples=50, random_state=0)),
        "transport": metrics.transport_cost(s, np.sort(s)[::-1].copy()).__dict__,
    }  # fmt: skip


@case("tests")
def _() -> Any:
    y, s, X, _ = binary(300, 51)
    k, three, logits = classes(250, 3, 51)
    found: dict[str, Any] = {}
    for name in inference.CALIBRATION_TESTS:
        run = partial(inference.calibration_test, method=name, n_resamples=99, random_state=0)
        found[name] = {"two": attempt(partial(run, y, s)), "three": attempt(partial(run, k, three))}
    found["grouping"] = inference.grouping_test(y, s, X), inference.grouping_test(k, three, logits)
    found["bootstrap"] = repr(inference.corp_bootstrap(y, s, n_resamples=50, random_state=0))
    found["rows needed"] = inference.required_sample_size(reliability=0.01, loss="brier", y_proba=s)
    for name in ("platt", "beta", "temperature", "monotone-spline"):
        found[f"map inference, {name}"] = attempt(
            lambda name=name: repr(inference.map_inference(y, s, calibrator=name))
        )
    found["partition"] = references.partition_lower_bound(y, s, X, random_state=0)
    return found


def curve(call: Callable[[], Any]) -> Any:
    """A curve's arrays and its words."""
    found = call()
    arrays = {key: value for key, value in vars(found).items() if not key.startswith("_") and not callable(value)}
    return {"values": arrays, "text": repr(found)[:4000]}


@case("curves")
def _() -> Any:
    y, s, X, _ = binary(300, 52)
    rng = np.random.default_rng(0)
    calls: dict[str, Callable[[], Any]] = {
        "map": lambda: curves.calibration_map(y, s), "loss": lambda: curves.decision_loss(y, s),
        "grouping": lambda: curves.grouping_curve(y, s, X), "murphy": lambda: curves.murphy_curve(y, s),
        "terms": lambda: curves.murphy_decomposition(y, s), "benefit": lambda: curves.net_benefit(y, s),
        "roc": lambda: curves.roc_curve(y, s), "distribution": lambda: curves.score_distribution(y, s),
        "plane": lambda: curves.resolution_plane(y, {"a": s, "b": s**2}),
        "weighted murphy": lambda: curves.murphy_curve(y, s, sample_weight=rng.uniform(0.5, 2.0, 300)),
    }  # fmt: skip
    for method, band in (("isotonic", "consistency"), ("isotonic", "confidence"), ("spline", "confidence"),
                         ("kernel", "confidence"), ("bins", "confidence")):  # fmt: skip
        calls[f"{method}, {band}"] = partial(
            curves.reliability_curve, y, s, method=method, band=band, n_resamples=40, random_state=0
        )
    return {name: attempt(partial(curve, call)) for name, call in calls.items()}


# ── ensembles, pipelines ────────────────────────────────────────────────────────────────────────────


@case("ensembles")
def _() -> Any:
    y, _, X, _ = binary(400, 60)
    pair = {"one": expit(1.2 * X[:, 0]), "two": expit(X[:, 1])}
    found = ensembles.aggregation_decomposition(y, pair)
    pools = {
        name: pool(pair, [0.4, 0.6])
        for name, pool in (("weighted", ensembles.weighted_average), ("log", ensembles.log_pool))
    }
    combined = {
        name: made().fit(pair, y).combine(pair)[:20] if hasattr(made(), "combine") else ""
        for name, made in ensembles.COMBINERS.items()
    }
    return {
        "text": repr(found), "actions": repr(found.actions), "advice": found.advice, "terms": everything(found.decomposition),
        "gap": repr(ensembles.averaging_gap(y, pair)), "sufficiency": ensembles.sufficiency_test(y, pair),
        "pools": pools, "combined": combined,
    }  # fmt: skip


@case("stages")
def _() -> Any:
    y, _, X, _ = binary(500, 61)
    some = {i: expit(0.2 * i * X[250:, 0] + 0.1 * i * (i > 4) * X[250:, 1]) for i in (1, 3, 5, 8, 10)}
    return {
        "terms": repr(ensembles.stagewise_decomposition(y[250:], some, reference="logistic")),
        "chosen": repr(ensembles.select_stage(y[250:], some)),
        "recalibrated": repr(ensembles.recalibrate_stages(y[250:], some)),
        "loss": ensembles.refinement_loss(y[250:], some[10]),
        "refined": ensembles.RefinedBoostingClassifier(random_state=0).fit(X[:250], y[:250]).predict_proba(X[250:280]),
    }  # fmt: skip


@case("pipelines")
def _() -> Any:
    y, _, X, _ = binary(600, 62)
    parts = (X[:250], y[:250]), (X[250:400], y[250:400]), (X[400:], y[400:])
    boot = pipelines.pipeline_bootstrap(
        LogisticRegression(), *parts, calibrator="platt", n_resamples=20, random_state=0
    )
    models = {"logistic": LogisticRegression(), "bayes": GaussianNB()}
    alone = pipelines.repeated_splits({"logistic": LogisticRegression()}, X, y, n_splits=4, random_state=0)
    both = pipelines.repeated_splits(models, X, y, n_splits=4, random_state=0)
    return {
        "bootstrap": repr(boot), "frame": alone.to_frame().to_dict(as_series=False),
        "summary": repr(pipelines.splits_summary(alone)),
        "paired": pipelines.paired_comparison(both, baseline="logistic").to_dict(),
    }  # fmt: skip


# ── scale ───────────────────────────────────────────────────────────────────────────────────────────


@cache
def table(n: int = 6000) -> pl.DataFrame:
    y, s, X, q = binary(n, 70)
    rng = np.random.default_rng(70)
    return pl.DataFrame({
        "y": y, "s": s, "q": q, "part": np.where(X[:, 1] > 0, "a", "b"), "w": rng.uniform(0.5, 2.0, n),
        "day": np.datetime64("2024-01-01") + rng.integers(0, 90, n).astype("timedelta64[D]"),
    })  # fmt: skip


def both(sums: scale.Sums) -> dict[str, Any]:
    return {loss: everything(sums.decompose(loss)) for loss in ("log", "brier")}


@case("scale")
def _() -> Any:
    rows = table()
    found = {
        name: both(scale.aggregate(rows, target="y", score="s", **options))
        for name, options in {
            "exact": {}, "few cells": {"cells": 64}, "weights": {"sample_weight": "w"}, "q": {"q": "q"},
        }.items()
    }  # fmt: skip
    parts = scale.aggregate(rows, target="y", score="s", segments="part")
    found["text"] = {loss: repr(parts.decompose(loss)) for loss in ("log", "brier")}
    sums = scale.aggregate(rows, target="y", score="s")
    found["json"] = {
        key: value for key, value in json.loads(sums.to_json()).items() if isinstance(value, (int, float, str))
    }
    return found


@case("scale, DuckDB")
def _() -> Any:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("rows", table().to_arrow())
        return both(scale.aggregate(connection.sql("SELECT * FROM rows"), target="y", score="s"))


@case("drift")
def _() -> Any:
    drift = scale.decompose(table(), target="y", score="s", time="day", period="month").drift()
    return {
        "text": repr(drift), "values": drift.to_dict(), "p": drift.pvalues(),
        "mix": repr(drift.mix()), "stale": repr(drift.stale()),
    }  # fmt: skip


@case("scale, three classes")
def _() -> Any:
    y, s, _ = classes(3000, 3, 71)
    rows = pl.DataFrame({"y": np.array(["a", "b", "c"])[y], "a": s[:, 0], "b": s[:, 1], "c": s[:, 2]})
    options: Any = {"target": "y", "score": ["a", "b", "c"]}
    return {loss: everything(scale.decompose(rows, loss=loss, **options)) for loss in ("log", "brier")}


# ── reports and commands ────────────────────────────────────────────────────────────────────────────


def reported(**options: Any) -> Any:
    made = report.make_report(**options)
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for ending in ("html", "json", "md", "txt"):
            file = Path(folder) / f"report.{ending}"
            done = attempt(lambda file=file: made.save(file))
            found[ending] = _steady(file.read_text()) if file.exists() else done
        found["text"] = _steady(str(made))
    return found


def _steady(text: str) -> str:
    """Without what differs from run to run, or by the last bits: times, versions, digests, the paths of figures."""
    text = re.sub(r"<svg.*?</svg>", "<svg/>", text, flags=re.DOTALL)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?", "TIME", text)
    return re.sub(r"\b\d+\.\d+\.\d+(\.dev\d+)?\b", "VERSION", text)


def _report(features: bool = False, **options: Any) -> Any:
    y, s, X, q = binary(400, 80)
    return reported(y_true=y, y_proba={"s": s} | ({"q": q} if features else {}), X=X if features else None, **options)


case("report, one model")(_report)
case("report, two models with features")(partial(_report, features=True))


@case("report, segments, groups and weights")
def _() -> Any:
    y, s, X, _ = binary(600, 81)
    segments = pd.DataFrame({"sex": np.where(X[:, 1] > 0, "f", "m")})
    rng = np.random.default_rng(0)
    return reported(
        y_true=y, y_proba=s, segments=segments, groups=np.arange(600) // 3, sample_weight=rng.uniform(0.5, 2, 600)
    )


@case("report, three classes")
def _() -> Any:
    y, s, _ = classes(400, 3, 82)
    return reported(y_true=np.array(["a", "b", "c"])[y], y_proba=s, classes=["a", "b", "c"])


@case("report, infinite loss")
def _() -> Any:
    (y, s), _ = INPUTS["infinite loss"]()
    return reported(y_true=y, y_proba=s)


@case("report, from sums")
def _() -> Any:
    made = report.make_report(scale.aggregate(table(), target="y", score="s", segments="part"))
    return _steady(str(made))


COMMANDS = (
    "--help", "diagnose --help", "report --help", "losses", "calibrators", "diagnose rows.csv --target y --score s",
    "diagnose rows.csv --target y --score s --format json", "compare rows.csv --target y --score s --score q",
    "test rows.csv --target y --score s", "recalibrate rows.csv --target y --score s --save map.json",
    "apply map.json rows.csv --score s -o out.csv", "export map.json",
    "diagnose rows.csv --target y --score s --max-reliability 0.001 --fail-if-miscalibrated",
    "diagnose rows.csv --target nothing --score s", "diagnose missing.csv --target y --score s",
    "diagnose rows.csv --target y --score part",
)  # fmt: skip


@case("commands")
def _() -> Any:
    from scoreprism.cli import main

    runner, found = CliRunner(), {}
    with runner.isolated_filesystem():
        table(6000).head(500).drop("day").write_csv("rows.csv")
        for command in COMMANDS:
            done = runner.invoke(main, command.split())
            found[command] = {"code": done.exit_code, "said": _steady(done.output).replace(str(Path.cwd()), "HERE")}
        found["out"] = Path("out.csv").read_text()[:1000]
    return found


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


@case("refusals")
def _() -> Any:
    y, s, X, q = binary(60, 90)
    k, three, _ = classes(60, 3, 90)
    bad = {
        "logits": (y, np.log(s / (1 - s))), "percent": (y, 100 * s), "short": (y, s[:-1]), "empty": ([], []),
        "missing": (y, np.where(np.arange(60) == 3, np.nan, s)), "text": (y, ["a"] * 60), "one class": (np.ones(60), s),
        "three labels": (k, s), "sums": (k, 0.5 * three), "labels": (y, y), "columns": (y, three), "2-d y": (np.c_[y, y], s),
        "missing y": (np.where(np.arange(60) == 3, np.nan, y), s), "reversed": (y, 1 - q),
    }  # fmt: skip
    options: dict[str, dict[str, Any]] = {
        "loss": {"loss": "hinge"}, "cv": {"cv": 1}, "many folds": {"cv": 100}, "calibrator": {"calibrator": "plat"},
        "negative weight": {"sample_weight": -s}, "no weight": {"sample_weight": 0 * s}, "groups": {"groups": [1, 2]},
        "one group": {"groups": np.zeros(60)}, "reference": {"reference": 3}, "q and X": {"q": q, "X": X}, "form": {"form": "x"},
        "clip": {"clip": 0.7}, "pos_label": {"pos_label": "yes"}, "classes": {"classes": [0, 0]}, "jobs": {"n_jobs": "two"},
        "seed": {"random_state": "a"}, "repeats": {"repeats": 0}, "shuffled index": {"X": pd.DataFrame(X, index=np.arange(60)[::-1])},
        "empty levels": {"levels": {}}, "level name": {"levels": {"S": X}}, "calibration": {"calibration": s},
    }  # fmt: skip
    functions: dict[str, Callable[..., Any]] = {
        "decompose": scoreprism.decompose, "corp": scoreprism.corp_decomposition, "test": scoreprism.calibration_test,
        "ece": metrics.ece, "roc": curves.roc_curve, "curve": partial(curves.reliability_curve, n_resamples=20, random_state=0),
        "report": scoreprism.make_report,
    }  # fmt: skip
    found: dict[str, Any] = {
        f"{name}, {what}": attempt(lambda f=f, pair=pair: str(type(f(*pair)).__name__))
        for name, f in functions.items()
        for what, pair in bad.items()
        if not (name == "report" and what in ("reversed", "labels", "missing y", "2-d y"))
    }
    for what, kw in options.items():
        args = (y, pd.Series(s)) if what == "shuffled index" else (y, s)
        found[f"option {what}"] = attempt(lambda args=args, kw=kw: type(scoreprism.decompose(*args, **kw)).__name__)
    d = scoreprism.decompose(y, s)
    for what, call in {
        "term": lambda: d.interval("grouping"), "method": lambda: d.interval("reliability", method="x"),
        "level": lambda: d.interval("reliability", 95), "upper": lambda: d.upper_bound("refinement", 0.0),
        "json": lambda: Decomposition.from_json("{}"), "map": lambda: from_json("{}"), "name": lambda: get_calibrator("x"),
        "minus": lambda: d.minus(scoreprism.decompose(y, s, loss="brier")), "get_loss": lambda: scoreprism.get_loss("x"),
    }.items():  # fmt: skip
        found[f"result, {what}"] = attempt(call)
    return found
