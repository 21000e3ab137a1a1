"""Every kind of bad or odd input on every public surface: refused in our words, or the number of the clean input.

One table of inputs (`INPUTS`) and one of surfaces (`SURFACES`). Each cell must end in one of two ways: an error of ours
that says rule, what arrived and remedy (scikit-learn's own where an estimator raises it), or the numbers of an
equivalent clean input. Never a silent NaN or infinity, another exception, or a warning of numpy.

A new function joins by adding a line to `SURFACES`; `test_every_public_surface_is_in_the_table` fails until it does.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import scoreprism as sp
from scoreprism import (
    calibrators,
    curves,
    displays,
    ensembles,
    inference,
    metrics,
    monitoring,
    pipelines,
    references,
    scale,
)
from scoreprism.cli import main
from scoreprism.exceptions import DoubleUseWarning, InputError, ScoreprismError, ScoreprismWarning

N = 60
RNG = np.random.default_rng(7)
P = RNG.uniform(0.05, 0.95, N)
OTHER = np.clip(P + RNG.normal(0, 0.1, N), 0.03, 0.97)
Y = (RNG.random(N) < P).astype(int)
X = np.column_stack([np.log(P / (1 - P)) + RNG.normal(0, 0.5, N), RNG.normal(size=N)])
W = RNG.uniform(0.5, 2.0, N)
SEGMENTS = np.arange(N) % 2
THREE = RNG.dirichlet(np.ones(3) * 2, N)
Y3 = np.array([RNG.choice(3, p=row) for row in THREE])


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Given:
    """What a surface is called with."""

    y: Any = None
    p: Any = None
    w: Any = None
    X: Any = None


CLEAN = Given(Y, P, None, X)
WEIGHTED = replace(CLEAN, w=W)


@dataclass(frozen=True)
class Input:
    """One line of the battery: what is passed, what must become of it, and the clean input it is compared with."""

    about: str  # law, labels, weight, features or rows: surfaces that take no such argument leave the line out
    given: Given
    want: str  # refused; same (as `clean`); either (of them); finite (or refused: there is no other way to write it)
    clean: Given = CLEAN


def put(values: Any, at: int, value: Any) -> Any:
    """A copy with one entry changed."""
    out = np.array(values, dtype=float)
    out[at] = value
    return out


def law(p: Any, want: str = "refused", clean: Any = P) -> Input:
    return Input("law", replace(CLEAN, p=p), want, replace(CLEAN, p=clean))


def labels(y: Any, want: str = "refused", clean: Any = Y) -> Input:
    return Input("labels", replace(CLEAN, y=y), want, replace(CLEAN, y=clean))


def weight(w: Any, want: str = "refused", clean: Any = W) -> Input:
    return Input("weight", replace(CLEAN, w=w), want, replace(CLEAN, w=clean))


def features(x: Any, want: str = "refused", clean: Any = X) -> Input:
    return Input("features", replace(CLEAN, X=x), want, replace(CLEAN, X=clean))


def rows(y: Any, p: Any, want: str, clean: Given = CLEAN, X: Any = X) -> Input:
    return Input("rows", Given(y, p, None, X), want, clean)


HARD = (P > 0.5).astype(float)
TWO = np.column_stack([1 - P, P])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PendingDeprecationWarning)  # numpy's, of matrices
    MATRIX = np.asmatrix(P).T
SINGLE = P.astype(np.float32)
EXTREME = np.where(Y == 1, np.where(P > 0.5, 1 - 1e-17, P), np.where(P < 0.5, 1e-320, P))
TINY = 1e-300 * np.arange(1, N + 1)
MANY = RNG.dirichlet(np.ones(9), N)
Y9 = np.arange(N) % 9
SCALED = W * (N / W.sum())

INPUTS: dict[str, Input] = {
    # probabilities that are none
    "law NaN": law(put(P, 3, np.nan)),
    "law inf": law(put(P, 3, np.inf)),
    "law -inf": law(put(P, 3, -np.inf)),
    "law None": law(None),
    "law None inside": law([*P[:-1], None]),
    "law masked": law(np.ma.masked_array(P, mask=np.arange(N) == 2)),
    "law strings": law(P.astype(str)),
    "law words": law(["a"] * N),
    "law bytes": law(P.astype("S8")),
    "law scalar": law(0.3),
    "law 0-d": law(np.array(0.3)),
    "law 3-d": law(np.stack([TWO, TWO])),
    "law transposed": law(TWO.T),
    "law row vector": law(P[None, :]),
    "law empty": law([]),
    "law of no columns": law(np.empty((N, 0))),
    "law percent": law(100 * P),
    "law logits": law(np.log(P / (1 - P))),
    "law above 1": law(put(P, 3, 1 + 1e-9)),
    "law below 0": law(put(P, 3, -1e-9)),
    "law sums": law(np.column_stack([1 - P, 0.9 * P])),
    "law too short": law(P[:-1]),
    "law too long": law(np.append(P, 0.5)),
    "law ragged": law([[0.5, 0.5]] * (N - 1) + [[0.5]]),
    "law complex": law(P + 0j),
    "law sparse": law(sparse.csr_array(TWO)),
    "law datetime": law(np.arange(N).astype("datetime64[s]")),
    "law timedelta": law(np.arange(N).astype("timedelta64[s]")),
    "law dict inside": law([{}] * N),
    "law string": law("0.3"),
    "law pandas NA": law(pd.Series([*P[:-1], pd.NA], dtype="Float64")),
    "law polars null": law(pl.Series([*P[:-1], None])),
    "law pyarrow null": law(pa.array([*P[:-1], None])),
    "law of another index": law(pd.Series(P, index=np.arange(N)[::-1]), "either"),
    # probabilities in other clothes
    "law list": law(P.tolist(), "same"),
    "law tuple": law(tuple(P.tolist()), "same"),
    "law column": law(P[:, None], "same"),
    "law two columns": law(TWO, "same"),
    "law two columns in Fortran order": law(np.asfortranarray(TWO), "same"),
    "law strided": law(np.repeat(P, 2)[::2], "same"),
    "law backwards": law(P[::-1].copy()[::-1], "same"),
    "law read-only": law(np.frombuffer(P.tobytes()), "same"),
    "law big-endian": law(P.astype(">f8"), "same"),
    "law float32": law(SINGLE, "same", SINGLE.astype(float)),
    "law float16": law(P.astype(np.float16), "same", P.astype(np.float16).astype(float)),
    "law longdouble": law(P.astype(np.longdouble), "same"),
    "law object": law(P.astype(object), "either"),
    "law masked nowhere": law(np.ma.masked_array(P), "same"),
    "law matrix": law(MATRIX, "either"),
    "law pandas": law(pd.Series(P), "same"),
    "law pandas nullable": law(pd.Series(P, dtype="Float64"), "same"),
    "law polars": law(pl.Series(P), "same"),
    "law pyarrow": law(pa.array(P), "same"),
    "law pyarrow chunks": law(pa.chunked_array([P[:20], P[20:]]), "same"),
    "law hard labels": law(HARD.astype(int), "either", HARD),
    "law bool": law(HARD.astype(bool), "either", HARD),
    "law extreme": law(EXTREME, "finite"),
    "law all tiny": law(TINY, "finite"),
    "law constant": law(np.full(N, 0.5), "finite"),
    # outcomes that are none
    "labels NaN": labels(put(Y, 3, np.nan)),
    "labels inf": labels(put(Y, 3, np.inf)),
    "labels None": labels(None),
    "labels None inside": labels([*Y[:-1].tolist(), None]),
    "labels masked": labels(np.ma.masked_array(Y, mask=np.arange(N) == 2)),
    "labels scalar": labels(1),
    "labels 0-d": labels(np.array(1)),
    "labels string": labels("1"),
    "labels one-hot": labels(np.column_stack([1 - Y, Y])),
    "labels 3-d": labels(Y.reshape(N, 1, 1)),
    "labels row vector": labels(Y[None, :]),
    "labels empty": labels([]),
    "labels too short": labels(Y[:-1]),
    "labels too long": labels(np.append(Y, 1)),
    "labels mixed": labels([*Y[:-1].tolist(), "a"]),
    "labels ragged": labels([[0]] * (N - 1) + [[0, 1]]),
    "labels complex": labels(Y + 0j),
    "labels sparse": labels(sparse.csr_array(Y[:, None])),
    "labels continuous": labels(P),
    "labels three": labels(np.arange(N) % 3),
    "labels dict inside": labels([{}] * N),
    "labels pandas NA": labels(pd.Series([*Y[:-1], pd.NA], dtype="Int64")),
    "labels polars null": labels(pl.Series([*Y[:-1].tolist(), None])),
    "labels pyarrow null": labels(pa.array([*Y[:-1].tolist(), None])),
    "labels of another index": Input(
        "labels", replace(CLEAN, y=pd.Series(Y, index=np.arange(N)[::-1]), p=pd.Series(P)), "either"
    ),
    "labels of a repeated index": Input(
        "labels", replace(CLEAN, y=pd.Series(Y, index=[0] * N), p=pd.Series(P)), "either"
    ),
    # outcomes in other clothes
    "labels list": labels(Y.tolist(), "same"),
    "labels float": labels(Y.astype(float), "same"),
    "labels bool": labels(Y.astype(bool), "same"),
    "labels int8": labels(Y.astype(np.int8), "same"),
    "labels uint64": labels(Y.astype(np.uint64), "same"),
    "labels column": labels(Y[:, None], "either"),
    "labels object": labels(Y.astype(object), "either"),
    "labels object bool": labels(Y.astype(bool).astype(object), "either"),
    "labels minus one": labels(2 * Y - 1, "same"),
    "labels text": labels(np.array(["no", "yes"])[Y], "either"),
    "labels text object": labels(np.array(["no", "yes"], dtype=object)[Y], "either"),
    "labels digits": labels(Y.astype(str), "either"),
    "labels bytes": labels(Y.astype("S1"), "either"),
    "labels large": labels(10**12 + Y, "either"),
    "labels datetime": labels(np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[Y], "either"),
    "labels categorical": labels(pd.Series(Y).astype("category"), "either"),
    "labels pandas": labels(pd.Series(Y), "same"),
    "labels pandas nullable": labels(pd.Series(Y, dtype="Int64"), "same"),
    "labels polars": labels(pl.Series(Y), "same"),
    "labels pyarrow": labels(pa.array(Y), "same"),
    "labels of one class": labels(np.zeros(N, dtype=int), "finite"),
    "labels with one event": labels(np.arange(N) == 5, "finite"),
    # weights that are none
    "weight NaN": weight(put(W, 3, np.nan)),
    "weight inf": weight(put(W, 3, np.inf)),
    "weight negative": weight(put(W, 3, -1.0)),
    "weight all zero": weight(np.zeros(N)),
    "weight None inside": weight([*W[:-1], None]),
    "weight masked": weight(np.ma.masked_array(W, mask=np.arange(N) == 2)),
    "weight scalar": weight(2.0),
    "weight 0-d": weight(np.array(2.0)),
    "weight too short": weight(W[:-1]),
    "weight too long": weight(np.append(W, 1.0)),
    "weight two columns": weight(np.column_stack([W, W])),
    "weight row vector": weight(W[None, :]),
    "weight empty": weight([]),
    "weight words": weight(["a"] * N),
    "weight strings": weight(W.astype(str)),
    "weight complex": weight(W + 0j),
    "weight sparse": weight(sparse.csr_array(W[:, None])),
    "weight datetime": weight(np.arange(N).astype("datetime64[s]")),
    "weight subnormal": weight(np.full(N, 1e-310)),
    "weight smallest": weight(np.full(N, 5e-324)),
    "weight pandas NA": weight(pd.Series([*W[:-1], pd.NA], dtype="Float64")),
    "weight polars null": weight(pl.Series([*W[:-1], None])),
    # weights in other clothes
    "weight list": weight(W.tolist(), "same"),
    "weight column": weight(W[:, None], "either"),
    "weight float32": weight(W.astype(np.float32), "same", W.astype(np.float32).astype(float)),
    "weight object": weight(W.astype(object), "either"),
    "weight pandas": weight(pd.Series(W), "same"),
    "weight polars": weight(pl.Series(W), "same"),
    "weight pyarrow": weight(pa.array(W), "same"),
    "weight 1e-200": weight(1e-200 * W, "same", SCALED),
    "weight 1e-290": weight(1e-290 * W, "same", SCALED),
    "weight 1e-25": weight(1e-25 * W, "same", SCALED),
    "weight 1e25": weight(1e25 * W, "same", SCALED),
    "weight 1e300": weight((1e300 * W).tolist(), "same", SCALED),
    "weight 1e308": weight(np.full(N, 1e308), "same", np.ones(N)),
    "weight 2**-700": weight(2.0**-700 * W, "same", SCALED),
    "weight on one row": weight((np.arange(N) == 3).astype(float), "finite"),
    "weight bool": weight(P > 0.3, "same", (P > 0.3).astype(float)),
    "weight of many sizes": weight(10.0 ** np.linspace(-40, 40, N), "finite"),
    "weight of all sizes": weight(10.0 ** np.linspace(-250, 250, N), "finite"),
    # features
    "features too short": features(X[:-1]),
    "features 3-d": features(np.stack([X, X], axis=2)),
    "features scalar": features(1.0),
    "features complex": features(X + 0j),
    "features ragged": features([[1.0, 2.0]] * (N - 1) + [[1.0]]),
    "features inf": features(np.where(np.arange(N)[:, None] == 3, np.inf, X), "finite"),
    "features huge": features(X * 1e300, "finite"),
    "features list": features(X.tolist(), "same"),
    "features in Fortran order": features(np.asfortranarray(X), "same"),
    # rows
    "rows none": rows([], [], "refused", X=X[:0]),
    "rows scalar": rows(1, 0.3, "refused", X=X[:1]),
    "rows one": rows(Y[:1], P[:1], "finite", X=X[:1]),
    "rows two": rows([0, 1], [0.3, 0.6], "finite", X=X[:2]),
    "rows swapped": rows(P, Y, "refused"),
    "rows of many classes": rows(Y9, MANY, "finite"),
    "rows of three classes": rows(Y3, THREE, "finite"),
    "rows of three classes, transposed": rows(Y3, THREE.T, "refused"),
    "rows of three classes, percent": rows(Y3, 100 * THREE, "refused"),
    "rows of three classes, logits": rows(Y3, np.log(THREE), "refused"),
    "rows of three classes, NaN": rows(Y3, np.where(np.arange(N)[:, None] == 3, np.nan, THREE), "refused"),
    "rows of three classes, in Fortran order": rows(Y3, np.asfortranarray(THREE), "either", Given(Y3, THREE, None, X)),
}


# ── surfaces ────────────────────────────────────────────────────────────────────────────────────────


class NotForThis(Exception):
    """An input that cannot be written in the form a surface takes."""


@dataclass(frozen=True)
class Surface:
    """One column of the battery."""

    call: Callable[[Given], Any]
    takes: tuple[str, ...] = ("law", "labels", "weight", "rows")
    peer: bool = False  # an estimator of scikit-learn's kind: its own ValueError or TypeError is a refusal
    apart: Mapping[str, str] = dataclasses.field(default_factory=dict)  # inputs that are another thing here, and why
    digits: float = 1e-9  # how near the numbers of the clean input must be
    slow: bool = False  # of the inputs that are read, only `TYPICAL` ones are tried
    fits_as: str = ""  # the surface that fits the same laws, where the hardest weights are tried once

    def lines(self) -> list[str]:
        """The lines of the battery that are for this column."""
        return [
            title
            for title, line in INPUTS.items()
            if line.about in self.takes
            and title not in self.apart
            and not (self.slow and line.want in ("same", "either") and title not in TYPICAL)
            and not (self.slow and title == "weight of many sizes")  # "of all sizes" is harder, and as long
            and not (self.fits_as and title == "weight of all sizes")  # fits that take a hundred steps
        ]


#: One way of writing clean rows of each kind, for surfaces that take long.
TYPICAL = (
    "law list",
    "law two columns",
    "law pandas nullable",
    "labels bool",
    "labels object",
    "labels text",
    "weight 1e-200",
    "weight 1e300",
)


def given_weight(g: Given) -> dict[str, Any]:
    return {} if g.w is None else {"sample_weight": g.w}


def simple(function: Callable[..., Any], **options: Any) -> Surface:
    """A function of outcomes, probabilities and weights."""
    return Surface(lambda g: function(g.y, g.p, **options, **given_weight(g)))


def calibrator(made: type) -> Surface:
    def call(g: Given) -> Any:
        fitted = made().fit(g.p, g.y, **given_weight(g))
        several = len(fitted.classes_) > 2
        again = THREE if several and len(fitted.classes_) == 3 else MANY if several else P[:9]
        return fitted.calibrate(again), fitted.predict_proba(again), fitted.predict_proba(g.p)

    return Surface(call, peer=True)


def members(g: Given) -> dict[str, Any]:
    """A mapping of two members, the second of the shape of the first where that makes sense."""
    shape = getattr(g.p, "shape", (N,))
    if len(shape) == 2 and shape[0] == N and shape[1] > 2:
        return {"a": g.p, "b": np.full(shape, 1 / shape[1])}
    if len(shape) == 2 and shape == (N, 2):
        return {"a": g.p, "b": np.column_stack([1 - OTHER, OTHER])}
    few = len(shape) == 1 and isinstance(g.p, (np.ndarray, list)) and len(g.p) in (1, 2)
    return {"a": g.p, "b": OTHER[: len(g.p)] if few else OTHER}


def positive(law: Any) -> Any:
    """P(Y = 1) of a law of two classes."""
    return law if np.ndim(law) == 1 else law[:, 1]


def ensemble(function: Callable[..., Any], **options: Any) -> Surface:
    return Surface(lambda g: function(g.y, members(g), **options, **given_weight(g)))


def pool(function: Callable[..., Any], **options: Any) -> Surface:
    return Surface(lambda g: positive(function(members(g), **options)), takes=("law",))


def combiner(made: type) -> Surface:
    def call(g: Given) -> Any:
        fitted = made().fit(members(g), g.y, **given_weight(g))
        return fitted.predict_proba(members(g))

    return Surface(call, peer=True)


def stages(function: Callable[..., Any], **options: Any) -> Surface:
    def call(g: Given) -> Any:
        return function(g.y, list(members(g).values())[::-1], **options, **given_weight(g))

    return Surface(call)


def display(made: type, take: Callable[[Given], Any] = lambda g: g.p, **options: Any) -> Surface:
    """The data of a figure; drawing them is not looked at here."""

    def call(g: Given) -> Any:
        with mock.patch.object(made, "plot", lambda self, *_, **__: self):
            return made.from_predictions(g.y, take(g), **options, **given_weight(g))

    return Surface(call)


def learner(made: Callable[[], Any]) -> Surface:
    def call(g: Given) -> Any:
        return made().fit(X, g.y, **given_weight(g)).predict_proba(X)

    return Surface(call, takes=("labels", "weight"), peer=True, apart={"labels three": THEIR_LABELS})


def frame_of(g: Given) -> pl.DataFrame:
    columns = {"y": g.y, "p": g.p} | ({} if g.w is None else {"w": g.w})
    made = {}
    for name, column in columns.items():
        try:
            one = pl.Series(name, column) if isinstance(column, (pd.Series, pa.Array, pa.ChunkedArray)) else column
            if isinstance(one, np.ma.MaskedArray) or np.ndim(one) != 1:
                raise NotForThis
            made[name] = pl.Series(name, one)
        except Exception as error:
            raise NotForThis from error
        if made[name].dtype == pl.Object:
            raise NotForThis
    try:
        return pl.DataFrame(made)
    except pl.exceptions.PolarsError as error:
        raise NotForThis from error


def frames(function: Callable[..., Any], **options: Any) -> Surface:
    done: dict[bytes, Any] = {}  # most inputs are the same frame

    def call(g: Given) -> Any:
        weight = {} if g.w is None else {"sample_weight": "w"}
        frame = frame_of(g)
        key = frame.write_ipc(None).getvalue()
        if key not in done:
            done[key] = function(frame, target="y", score="p", **options, **weight)
        return done[key]

    return Surface(
        call,
        apart=dict.fromkeys(TOO_SMALL_OR_LARGE, "an engine sums squares in one pass")
        | {"weight bool": "an engine asks for a column of numbers"},
    )


def watched(g: Given) -> Any:
    """What a monitor says of two periods, with bins of the first or of typical scores."""
    found = []
    for scores in (None, g.p):
        monitor = monitoring.CalibrationMonitor(scores=scores)
        for period in ("2026-11-14", "2026-11-15"):
            monitor.update(g.y, g.p, period=period)
        found += [monitor.log_evidence(), monitor.log_evidence("change"), [monitor.bounds().low]]
    return np.concatenate(found)


def command(name: str, *options: str, read: Callable[[str], Any] = json.loads) -> Surface:
    """A command on a CSV of the rows; equal files are run once."""
    runner = CliRunner(**({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}))

    @cache
    def ran(text: str, weighted: bool) -> tuple[int, str, str]:
        weight = ["--weight", "w"] if weighted else []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "rows.csv")
            file.write_text(text, encoding="utf-8")
            found = runner.invoke(main, [name, str(file), "--target", "y", "--score", "p", *options, *weight])
        return found.exit_code, found.stdout, found.stderr

    def call(g: Given) -> Any:
        try:
            text = frame_of(g).write_csv()
        except pl.exceptions.PolarsError as error:
            raise NotForThis from error
        code, out, err = ran(text, g.w is not None)
        if code == 2 and "error: " in err:
            raise InputError(err)
        assert code == 0, f"exit {code}: {err[-500:]}"
        return read(out)

    digits = dict.fromkeys(("law float32", "law float16", "weight float32"), "a file holds their decimals")
    text = dict.fromkeys(("law strings", "weight strings"), "all is text in a file")
    return Surface(call, apart=digits | text | {"weight bool": "true and false are no numbers in a file"})


#: Weights that are scaled where all of them are at hand; an engine, which sums them in one pass, refuses them.
TOO_SMALL_OR_LARGE = ("weight 1e-200", "weight 1e-290", "weight 1e300", "weight 1e308", "weight 2**-700")
THEIR_LABELS = "a classifier learns whatever labels there are"
ONE_ROW = dict.fromkeys(("rows one", "weight on one row"), "a single row has no standard error: NaN, as documented")
ONE_IN_A_BIN = dict.fromkeys(("weight of many sizes", "weight of all sizes"), "a bin of one row: NaN, as documented")
ANY_LENGTH = dict.fromkeys(("law too short", "law too long"), "no other argument has rows")


def callback(function: Callable[..., Any]) -> Surface:
    def call(g: Given) -> Any:
        watched = function(X, g.y, **given_weight(g))
        watched._judge(np.asarray(P))
        return watched.history

    return Surface(call, takes=("labels", "weight"))


def bootstrapped(g: Given) -> Any:
    part = (X, g.y) if g.w is None else (X, g.y, g.w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubleUseWarning)  # one set of rows stands for all three
        return pipelines.pipeline_bootstrap(
            LogisticRegression(), part, part, part, calibrator="platt", n_resamples=2, loss="brier", random_state=0
        ).terms


def finite_model(g: Given) -> Any:
    model = sp.FiniteModel(np.full(N, 1 / N) if g.w is None else g.w, g.p)
    return model.decompose(np.full(N, 0.5), {"C": SEGMENTS}, "brier").terms


UNSCORED = ("NaN", "inf", "-inf", "None inside", "percent", "logits", "above 1", "below 0", "pandas NA", "polars null")
UNSCORED += ("pyarrow null",)
PLATT = calibrators.PlattCalibrator().fit(P, Y)
MAPPED = inference.map_inference(Y, P, calibrator="platt")
BRIER: dict[str, Any] = {"loss": "brier"}
#: The defaults, of which five folds are one, are those of "decompose by default" and of the log loss.
QUICK: dict[str, Any] = {"loss": "brier", "calibrator": "platt", "cv": 2, "random_state": 0}

SURFACES: dict[str, Surface] = {
    # decompositions
    "scoreprism.decompose": simple(lambda y, p, **o: sp.decompose(y, p, **QUICK, **o).terms),
    "scoreprism.decompose of the log loss": simple(
        lambda y, p, **o: sp.decompose(y, p, calibrator="isotonic", random_state=0, **o).terms
    ),
    "scoreprism.decompose by default": simple(lambda y, p, **o: sp.decompose(y, p, random_state=0, **o).terms),
    "scoreprism.decompose with X": Surface(
        lambda g: sp.decompose(g.y, g.p, g.X, reference=LogisticRegression(), **QUICK, **given_weight(g)).terms,
        ("law", "labels", "weight", "rows", "features"),
    ),
    "scoreprism.decompose with q": Surface(
        lambda g: sp.decompose(Y, P, q=g.p, **QUICK).terms, ("law",), apart={"law None": "q=None is no q"}
    ),
    "scoreprism.decompose with calibration": Surface(
        lambda g: sp.decompose(Y, P, calibration=(g.p, g.y, *([] if g.w is None else [g.w])), **QUICK).terms,
        ("law", "labels", "weight"),
        apart={"labels minus one": "other labels than those of y_true"},
    ),
    "scoreprism.compare": Surface(
        lambda g: [d.terms for d in sp.compare(g.y, members(g), **QUICK, **given_weight(g)).decompositions.values()]
    ),
    "scoreprism.decompose_by": Surface(
        lambda g: [
            d.terms
            for d in sp.decompose_by(
                g.y,
                g.p,
                segments=SEGMENTS[
                    : np.size(g.p)
                    if type(g.p) is list and len(g.p) < 3
                    else len(g.y)
                    if type(g.y) is np.ndarray and g.y.shape == (1,)
                    else N
                ],
                **QUICK,
                **given_weight(g),
            ).decompositions.values()
        ]
    ),
    "scoreprism.decompose_by with q": Surface(
        lambda g: [d.terms for d in sp.decompose_by(Y, P, segments=SEGMENTS, q=g.p, **QUICK).decompositions.values()],
        ("law",),
        apart={"law None": "q=None is no q"},
    ),
    "decomposition.Chain": Surface(
        lambda g: (
            sp.Chain(g.y, [sp.Level("S", m) for m in [g.p]] + [sp.Level("C", members(g)["b"])], sample_weight=g.w)
            .decompose("brier")
            .terms
        )
    ),
    "decomposition.Level": Surface(lambda g: positive(sp.Level("S", g.p).law), ("law",), apart=ANY_LENGTH),
    "decomposition.FiniteModel": Surface(finite_model, ("law",)),
    "decomposition.Sample": simple(
        lambda y, p, **o: [(s := sp.Sample.of(y, p, **o)).mean(positive(s.prediction)), s.mean(s.y)]
    ),
    "decomposition.corp_decomposition": simple(lambda y, p, **o: sp.corp_decomposition(y, p, **BRIER, **o).terms),
    "decomposition.resolution_decomposition": Surface(
        lambda g: sp.resolution_decomposition(g.y, g.p, members(g)["b"], **BRIER, **given_weight(g)).terms
    ),
    # inference
    **{
        f"inference.calibration_test {method}": simple(
            lambda y, p, method=method, **o: attrgetter("statistic", "pvalue")(
                sp.calibration_test(y, p, method=method, n_resamples=19, random_state=0, **o)
            )
        )
        for method, test in inference.CALIBRATION_TESTS.items()
        if test.two is not None
    },
    "inference.corp_bootstrap": simple(
        lambda y, p, **o: sp.inference.corp_bootstrap(y, p, n_resamples=5, random_state=0, **BRIER, **o).replicates
    ),
    "inference.grouping_test": Surface(
        lambda g: sp.grouping_test(g.y, g.p, g.X, n_resamples=19, random_state=0, **given_weight(g)).pvalue,
        ("law", "labels", "weight", "rows", "features"),
    ),
    "inference.map_inference": simple(
        lambda y, p, **o: attrgetter("calibrated", "low", "high")(
            inference.map_inference(y, p, calibrator="platt", **o).calibrate(P[:5])
        )
    ),
    "inference.MapInference": Surface(lambda g: MAPPED.calibrate(g.p).low, ("calibrate",), apart=ANY_LENGTH),
    "inference.required_sample_size": Surface(
        lambda g: sp.required_sample_size(reliability=0.01, loss="brier", y_proba=g.p).n,
        ("law",),
        apart=ANY_LENGTH | {"law None": "other arguments may stand in for it"},
    ),
    # metrics
    **{
        f"metrics.{name}": simple(lambda y, p, f=f, **o: float(f(y, p, **o)))
        for name, f in metrics.METRICS.items()
        if name != "top_k_accuracy"
    },
    "metrics.top_k_accuracy": simple(lambda y, p, **o: float(metrics.top_k_accuracy(y, p, k=1, **o))),
    "metrics.evaluate": simple(
        lambda y, p, **o: (
            metrics.evaluate(
                y, p, metrics=["global_balance", "classwise_ece"], n_resamples=5, random_state=0, **o
            ).terms
        )
    ),
    "metrics.transport_cost": Surface(
        lambda g: float(metrics.transport_cost(g.p, members(g)["b"], **given_weight(g))), ("law", "weight")
    ),
    # curves and displays
    "curves.calibration_map": simple(curves.calibration_map, calibrator="platt"),
    "curves.decision_loss": simple(curves.decision_loss, calibrator="platt", cv=2, random_state=0),
    "curves.decision_loss with a baseline": Surface(
        lambda g: curves.decision_loss(
            g.y, g.p, baseline=members(g)["b"], calibrator="platt", cv=2, random_state=0, **given_weight(g)
        )
    ),
    "curves.grouping_curve": Surface(
        lambda g: curves.grouping_curve(
            g.y,
            g.p,
            g.X,
            reference=LogisticRegression(),
            calibrator="platt",
            cv=2,
            n_bins=3,
            random_state=0,
            **given_weight(g),
        ),
        ("law", "labels", "weight", "rows", "features"),
        apart=ONE_IN_A_BIN,
    ),
    "curves.murphy_curve": replace(simple(curves.murphy_curve), apart=ONE_ROW),
    "curves.murphy_decomposition": simple(
        curves.murphy_decomposition, calibrator="platt", cv=2, random_state=0, thresholds=[0.3, 0.5]
    ),
    "curves.net_benefit": replace(simple(curves.net_benefit, thresholds=[0.2, 0.5]), apart=ONE_ROW),
    "curves.reliability_curve": simple(curves.reliability_curve, n_resamples=19, random_state=0),
    "curves.reliability_curve binned": simple(curves.reliability_curve, method="bins", n_bins=4, random_state=0),
    "curves.reliability_curve confidence": simple(
        curves.reliability_curve, band="confidence", n_resamples=19, random_state=0
    ),
    "curves.resolution_plane": Surface(
        lambda g: curves.resolution_plane(g.y, members(g), loss="brier", **given_weight(g))
    ),
    "curves.roc_curve": simple(curves.roc_curve),
    "curves.score_distribution": simple(curves.score_distribution, n_bins=5),
    "displays.CalibrationMapDisplay": display(displays.CalibrationMapDisplay, calibrator="platt"),
    "displays.DecompositionDisplay": display(displays.DecompositionDisplay, **QUICK),
    "displays.GroupingDisplay": replace(
        display(
            displays.GroupingDisplay,
            X=X,
            reference=LogisticRegression(),
            calibrator="platt",
            cv=2,
            n_bins=3,
            random_state=0,
        ),
        apart=ONE_IN_A_BIN,
    ),
    "displays.MurphyDecompositionDisplay": display(
        displays.MurphyDecompositionDisplay, calibrator="platt", cv=2, random_state=0, thresholds=[0.3, 0.5]
    ),
    "displays.MurphyDisplay": replace(display(displays.MurphyDisplay), apart=ONE_ROW),
    "displays.NetBenefitDisplay": replace(display(displays.NetBenefitDisplay, thresholds=[0.2, 0.5]), apart=ONE_ROW),
    "displays.ReliabilityDisplay": display(displays.ReliabilityDisplay, n_resamples=19, random_state=0),
    "displays.ClasswiseReliabilityDisplay": display(
        displays.ClasswiseReliabilityDisplay, n_resamples=19, random_state=0
    ),
    "displays.ResolutionPlaneDisplay": display(displays.ResolutionPlaneDisplay, loss="brier"),
    "displays.RocDisplay": display(displays.RocDisplay),
    "displays.ScoreDistributionDisplay": display(displays.ScoreDistributionDisplay, n_bins=5),
    "displays.TriptychDisplay": display(displays.TriptychDisplay, n_resamples=19, random_state=0),
    # calibrators
    **{f"calibrators.{made.__name__}": calibrator(made) for made in calibrators.CALIBRATORS.values()},
    "calibrators.DirichletCalibrator": replace(calibrator(calibrators.DirichletCalibrator), digits=1e-8),  # its search
    "calibrators.RecalibratedClassifier": learner(
        lambda: calibrators.RecalibratedClassifier(LogisticRegression(), "isotonic", cv=3)
    ),
    # ensembles
    "ensembles.average": pool(ensembles.average),
    "ensembles.weighted_average": pool(ensembles.weighted_average, weights=[1, 2]),
    "ensembles.log_pool": pool(ensembles.log_pool),
    "ensembles.beta_transformed_pool": pool(ensembles.beta_transformed_pool, alpha=1.2),
    "ensembles.averaging_gap": replace(ensemble(ensembles.averaging_gap), apart=ONE_ROW),
    "ensembles.sufficiency_test": ensemble(
        lambda *a, **o: (
            ensembles.sufficiency_test(*a, method="projected-covariance", n_resamples=19, random_state=0, **o).pvalue
        )
    ),
    "ensembles.aggregation_decomposition": ensemble(
        lambda *a, **o: ensembles.aggregation_decomposition(*a, reference=LogisticRegression(), **QUICK, **o).terms
    ),
    **{f"ensembles.{made.__name__}": combiner(made) for made in ensembles.COMBINERS.values()},
    "ensembles.refinement_loss": simple(ensembles.refinement_loss, loss="brier", calibrator="platt"),
    "ensembles.recalibrate_stages": stages(lambda *a, **o: ensembles.recalibrate_stages(*a, **QUICK, **o).loss),
    "ensembles.select_stage": stages(
        lambda *a, **o: ensembles.select_stage(*a, loss="brier", calibrator="platt", random_state=0, **o).stage
    ),
    "ensembles.stagewise_decomposition": stages(
        lambda *a, **o: ensembles.stagewise_decomposition(*a, **QUICK, **o).terms
    ),
    "ensembles.RefinedBoostingClassifier": learner(
        lambda: ensembles.RefinedBoostingClassifier(
            GradientBoostingClassifier(n_estimators=3, random_state=0), random_state=0
        )
    ),
    "ensembles.lightgbm_refinement_stopping": callback(ensembles.lightgbm_refinement_stopping),
    "ensembles.xgboost_refinement_stopping": callback(ensembles.xgboost_refinement_stopping),
    # references, pipelines, report
    "references.partition_lower_bound": Surface(
        lambda g: attrgetter("explained", "bias", "induced")(
            references.partition_lower_bound(g.y, g.p, g.X, n_bins=3, random_state=0, **BRIER)
        ),
        ("law", "labels", "rows", "features"),
    ),
    "references.StackedReference": Surface(
        lambda g: references.StackedReference(["logistic"], cv=2).fit(X, g.y, **given_weight(g)).predict_proba(X),
        ("labels", "weight"),
        peer=True,
        apart={"labels three": THEIR_LABELS},
    ),
    "pipelines.pipeline_bootstrap": Surface(bootstrapped, ("labels", "weight"), apart={"labels three": THEIR_LABELS}),
    "pipelines.repeated_splits": Surface(
        lambda g: pipelines.repeated_splits(
            {"logistic": LogisticRegression()},
            X,
            g.y,
            n_splits=1,
            calibrator="platt",
            loss="brier",
            noise_floor=0,
            random_state=0,
            **given_weight(g),
        ).to_frame(),
        ("labels", "weight"),
        apart={"labels three": THEIR_LABELS},
    ),
    "report.make_report": simple(
        lambda y, p, **o: sp.make_report(
            y, p, loss="brier", calibrators=["platt"], sections=["verdict"], cv=2, **o
        ).to_dict()
    ),
    # over time
    "monitoring.CalibrationMonitor": Surface(watched, ("law", "labels", "rows")),  # weights: tests/monitoring
    # at scale, and the command line
    "scale.decompose": frames(lambda *a, **o: scale.decompose(*a, **o, **BRIER, calibrator="platt", cells=16).terms),
    "scale.aggregate": frames(
        lambda *a, **o: scale.aggregate(*a, **o, cells=16).decompose(loss="brier", calibrator="platt").terms
    ),
    "scale.apply": Surface(
        lambda g: scale.apply(frame_of(Given(g.p, g.p)), PLATT, score="p")["calibrated"],
        ("law",),
        apart=ANY_LENGTH
        | dict.fromkeys(
            (f"law {word}" for word in UNSCORED),
            "null where there is no score of its kind, as documented",
        ),
    ),
    "cli diagnose": command("diagnose", "--loss", "brier", "--format", "json"),
    "cli recalibrate": command("recalibrate", "--method", "platt", "--format", "json"),
    # losses speak codes; `evaluate`, which trusts what was parsed, is not a border
    "losses.ProperLoss": Surface(
        lambda g: (sp.get_loss("brier").loss(g.p, g.y), sp.get_loss("log").divergence(g.p, OTHER)),
        ("law", "labels"),
        apart=dict.fromkeys(("labels minus one", "law row vector"), "codes are 0 and 1; one row stands for all")
        | dict.fromkeys(("law scalar", "law 0-d", "labels scalar", "labels 0-d"), "one number stands for all rows")
        | {"law extreme": "an infinite loss is an infinite number"},
    ),
}
#: Columns that would take long with all of the inputs, and read rows as others do that have all of them.
SLOW = (
    "scoreprism.decompose by default", "scoreprism.decompose with X", "scoreprism.compare", "scoreprism.decompose_by",
    "inference.grouping_test", "curves.decision_loss", "curves.decision_loss with a baseline", "curves.grouping_curve",
    "curves.murphy_decomposition", "curves.reliability_curve confidence", "displays.GroupingDisplay",
    "displays.MurphyDecompositionDisplay", "displays.TriptychDisplay", "displays.DecompositionDisplay",
    "calibrators.SelectedCalibrator", "ensembles.recalibrate_stages", "ensembles.select_stage",
    "ensembles.stagewise_decomposition", "ensembles.aggregation_decomposition", "ensembles.RefinedBoostingClassifier",
    "ensembles.sufficiency_test", "ensembles.BetaTransformedPool",
    "pipelines.pipeline_bootstrap", "report.make_report", "cli diagnose", "cli recalibrate",
    "scoreprism.decompose of the log loss", "scale.aggregate", "pipelines.repeated_splits",
    "curves.reliability_curve binned", "displays.ReliabilityDisplay", "displays.ClasswiseReliabilityDisplay",
)  # fmt: skip
SURFACES |= {name: replace(SURFACES[name], slow=True) for name in SLOW}
#: Surfaces whose fits are those of another one.
SAME_FITS = {
    "scoreprism.compare": "scoreprism.decompose",
    "scoreprism.decompose_by": "scoreprism.decompose",
    "displays.DecompositionDisplay": "scoreprism.decompose",
    "curves.decision_loss with a baseline": "curves.decision_loss",
    "displays.MurphyDecompositionDisplay": "curves.murphy_decomposition",
    "ensembles.recalibrate_stages": "ensembles.stagewise_decomposition",
    "cli recalibrate": "cli diagnose",
}
SURFACES |= {name: replace(SURFACES[name], fits_as=other) for name, other in SAME_FITS.items()}


# ── the test ────────────────────────────────────────────────────────────────────────────────────────


def numbers(found: Any) -> np.ndarray:  # noqa: C901 - one branch for each kind of result
    """All numbers of a result, in order."""
    parts: list[float] = []

    def walk(value: Any, depth: int = 0) -> None:  # noqa: C901
        if depth > 12 or value is None or isinstance(value, (str, bytes, bool, np.bool_)):
            return
        if isinstance(value, (int, float, np.number)):
            parts.append(float(value))
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "fiu":
                parts.extend(value.astype(float).ravel().tolist())
            elif value.dtype == object:
                for one in value.ravel():
                    walk(one, depth + 1)
        elif isinstance(value, Mapping):
            for one in value.values():
                walk(one, depth + 1)
        elif isinstance(value, (list, tuple)):
            for one in value:
                walk(one, depth + 1)
        elif isinstance(value, (pl.Series, pl.DataFrame)):
            walk(value.to_numpy(), depth + 1)
        elif isinstance(value, displays.Display):
            walk([one for key, one in sorted(vars(value).items())], depth + 1)
        elif isinstance(value, curves.RocCurve):  # its first threshold is infinite, as everywhere
            walk((value.fpr, value.tpr, value.auc), depth + 1)
        elif hasattr(value, "terms"):
            walk(value.terms, depth + 1)
        elif dataclasses.is_dataclass(value):
            walk([getattr(value, f.name) for f in dataclasses.fields(value) if not f.name.startswith("_")], depth + 1)

    walk(found)
    return np.array(parts)


#: Warnings that say something about the data, in words.
SPOKEN = (ScoreprismWarning, ConvergenceWarning, DataConversionWarning)


def outcome(surface: Surface, given: Given) -> tuple[str, Any]:
    """What becomes of a call: refused, numbers, or the way in which it broke."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = numbers(surface.call(given))
        except NotForThis:
            return "not for this", None
        except ScoreprismError as error:
            said = str(error)
            return ("refused", said) if "; " in said or ". " in said else ("broken", f"an error without remedy: {said}")
        except (ValueError, TypeError) as error:
            if surface.peer and _is_peers(error):
                return "refused", str(error)
            return "broken", f"{type(error).__name__}: {str(error)[:150]}"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return "broken", f"{type(error).__name__}: {str(error)[:150]}"
    loud = [w for w in heard if not issubclass(w.category, SPOKEN)]
    if loud:
        return "broken", f"{loud[0].category.__name__}: {str(loud[0].message)[:150]}"
    spoken = any(issubclass(w.category, ScoreprismWarning) for w in heard)
    return "numbers", (found, spoken)


def _is_peers(error: Exception) -> bool:
    """Whether scikit-learn raised it, on purpose."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    return last.startswith("sklearn.") or str(error).startswith("scores must hold real numbers")


CLEAN_RESULTS: dict[tuple[str, int], Any] = {}


def clean_result(name: str, given: Given) -> tuple[str, Any]:
    key = (name, id(given.y), id(given.p), id(given.w), id(given.X))
    if key not in CLEAN_RESULTS:
        CLEAN_RESULTS[key] = outcome(SURFACES[name], given)
    return CLEAN_RESULTS[key]


def complaint(name: str, line: Input) -> str | None:
    """What is wrong with a cell; None if nothing is."""
    kind, found = outcome(SURFACES[name], line.given)
    if kind == "not for this":
        return None
    if kind == "broken":
        return found
    if line.want == "refused":
        return None if kind == "refused" else f"accepted: {found[0][:4]}"
    if kind == "refused":
        return f"refused: {found[:200]}" if line.want == "same" else None
    values, spoken = found
    if line.want == "finite":
        empty = clean_result(name, CLEAN)[1][0]  # NaN where the surface has nothing to say of clean rows either
        if (np.isnan(values) & ~(np.isnan(empty) if empty.shape == values.shape else False)).any():
            return "silent NaN"
        return None if spoken or not np.isinf(values).any() else "silent infinity"
    clean_kind, clean = clean_result(name, line.clean)
    if clean_kind != "numbers":
        return f"accepted, where the clean input is {clean_kind}: {clean}"
    digits = SURFACES[name].digits
    if clean[0].shape != values.shape or not np.allclose(values, clean[0], rtol=digits, atol=digits, equal_nan=True):
        far = np.nanmax(np.abs(values - clean[0])) if clean[0].shape == values.shape else "another shape"
        return f"other numbers than the clean input: off by {far}"
    return None


@pytest.mark.parametrize("name", SURFACES)
def test_every_input_is_refused_or_read_rightly(name):
    surface = SURFACES[name]
    kind, found = clean_result(name, CLEAN)
    assert kind == "numbers", f"clean rows are {kind}: {found}"
    assert found[0].size, "no numbers"
    found = {title: complaint(name, INPUTS[title]) for title in surface.lines()}
    wrong = {title: said for title, said in found.items() if said is not None}
    assert not wrong, "\n" + "\n".join(f"{title}: {said}" for title, said in wrong.items())


# ── classifiers that return something else ──────────────────────────────────────────────────────────


class Says(ClassifierMixin, BaseEstimator):
    """A logistic regression whose probabilities are spoiled on their way out."""

    def __init__(self, how="right"):
        self.how = how

    def fit(self, X, y, sample_weight=None):
        self.inner_ = LogisticRegression().fit(X, y, sample_weight=sample_weight)
        self.classes_, self.n_features_in_ = self.inner_.classes_, self.inner_.n_features_in_
        return self

    def predict_proba(self, X):
        return SPOILED[self.how](self.inner_.predict_proba(X))

    def predict(self, X):
        return self.inner_.predict(X)


class Decides(Says):
    """The same with decision values."""

    predict_proba = property()  # there is none

    def decision_function(self, X):
        return SPOILED[self.how](self.inner_.decision_function(X))


def first(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """The first number replaced."""

    def spoil(law: np.ndarray) -> np.ndarray:
        out = np.array(law, dtype=float)
        out.flat[0] = value
        return out

    return spoil


SPOILED: dict[str, Callable[[np.ndarray], Any]] = {
    "right": lambda law: law,
    "percent": lambda law: 100 * law,
    "logits": np.log,
    "log-odds": lambda law: np.log(law / (1 - law)),
    "NaN": first(np.nan),
    "inf": first(np.inf),
    "-inf": first(-np.inf),
    "below 0": first(-0.01),
    "above 1": first(1.01),
    "sums": lambda law: 0.9 * law,
    "one column": lambda law: law[:, 1:],
    "one dimension": lambda law: law[:, 1],
    "three columns": lambda law: np.column_stack([law, 0 * law[:, :1]]),
    "too few rows": lambda law: law[:-1],
    "words": lambda law: law.astype(str),
    "complex": lambda law: law + 0j,
    "None": lambda law: None,
}
#: What those read as P(Y = classes_[1]) that take probabilities as well as models.
ONE_COLUMN = ("one column", "one dimension")
#: What they refuse as they refuse probabilities of that shape, without the name of the classifier.
OTHER_SHAPES = ("three columns", "too few rows")
#: Rounding, which is no fault: a softmax in single precision.
ROUNDED: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda law: law.astype(np.float32),
    "list": lambda law: law.tolist(),
    "1 + 1e-16": lambda law: law * (1 + 2**-52),
    "1e-7 beyond": lambda law: np.where(law == law.max(), law, law) + np.array([-1e-9, 1e-9]),
}
SPOILED |= ROUNDED


def later(made: Any, how: str) -> Any:
    """Right while it was fitted, spoiled when it predicts."""
    made.fit(X, Y)
    for estimator, _ in made.calibrated_:
        getattr(estimator, "estimator", estimator).how = how
    return made.predict_proba(X)


RECALIBRATED = calibrators.RecalibratedClassifier
LEARNERS: dict[str, Callable[[str], Any]] = {
    "RecalibratedClassifier.fit": lambda how: RECALIBRATED(Says(how), "platt", cv=2).fit(X, Y).predict_proba(X),
    "RecalibratedClassifier.fit, one map": lambda how: RECALIBRATED(Says(how), "platt", cv=2, ensemble=False).fit(X, Y),
    "RecalibratedClassifier.fit, frozen": lambda how: RECALIBRATED(FrozenEstimator(Says(how).fit(X, Y)), "platt").fit(
        X, Y
    ),
    "RecalibratedClassifier.predict_proba": lambda how: later(RECALIBRATED(Says(), "platt", cv=2), how),
    "RecalibratedClassifier.predict_proba, frozen": lambda how: later(
        RECALIBRATED(FrozenEstimator(Says().fit(X, Y)), "platt"), how
    ),
    "decompose of a model": lambda how: sp.decompose(Y, Says(how).fit(X, Y), X, reference=Says(), **QUICK).terms,
    "decompose with a reference": lambda how: sp.decompose(Y, P, X, reference=Says(how), **QUICK).terms,
    "decompose with a calibrator": lambda how: (
        sp.decompose(Y, P, loss="brier", calibrator=Says(how), random_state=0).terms
    ),
    "make_report of a model": lambda how: sp.make_report(
        Y, Says(how).fit(X, Y), X, loss="brier", sections=["verdict"], calibrators=["platt"]
    ),
    "RocDisplay.from_estimator": lambda how: displays.RocDisplay.from_estimator(Says(how).fit(X, Y), X, Y),
    "average of models": lambda how: ensembles.average([Says(how).fit(X, Y), Says().fit(X, Y)], X=X),
    "pipeline_bootstrap": lambda how: (
        pipelines.pipeline_bootstrap(
            Says(how), (X, Y), (X, Y), (X, Y), calibrator="platt", n_resamples=2, loss="brier", random_state=0
        ).terms
    ),
    "repeated_splits": lambda how: pipelines.repeated_splits(
        {"Says": Says(how)}, X, Y, n_splits=1, calibrator="platt", loss="brier", noise_floor=0, random_state=0
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")
def test_what_a_classifier_returns_is_not_believed(name):
    wrong = {}
    own = name.startswith("Recalibrated") or name in ("decompose with a reference", "decompose with a calibrator")
    for how in SPOILED:
        if how == "right" or how in ROUNDED or (how in ONE_COLUMN and not own):
            continue
        try:
            LEARNERS[name](how)
            wrong[how] = "accepted"
        except ScoreprismError as error:
            named = "predict_proba" in str(error) and ("Says" in str(error) or "member 1" in str(error))
            if not named and (own or how not in OTHER_SHAPES):
                wrong[how] = f"does not name the classifier: {error}"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            wrong[how] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n" + "\n".join(f"{how}: {said}" for how, said in wrong.items())


@pytest.mark.parametrize("name", ["RecalibratedClassifier.fit", "RecalibratedClassifier.predict_proba"])
@pytest.mark.parametrize("how", ROUNDED)
def test_rounding_of_a_classifier_is_no_fault(name, how):
    np.testing.assert_allclose(LEARNERS[name](how), LEARNERS[name]("right"), atol=2e-6)


@pytest.mark.parametrize("how", ["NaN", "inf", "-inf", "too few rows"])
def test_decision_values_must_be_finite(how):
    with pytest.raises(InputError, match=r"^Decides\.decision_function must "):
        RECALIBRATED(Decides(how), "platt", cv=2).fit(X, Y)
    with pytest.raises(InputError, match=r"^Decides\.decision_function must "):
        later(RECALIBRATED(Decides(), "platt", cv=2), how)


# ── who is in the table ─────────────────────────────────────────────────────────────────────────────

#: Arguments that hold rows of a user's data.
DATA = {"y_true", "y_proba", "y_val", "scores", "stages", "recalibrated", "sample_weight", "y", "p", "q"}
#: Public names with such arguments that are no border, and why.
NO_BORDER = {
    "calibrators.Calibrator": "abstract; every calibrator is in the table",
    "calibrators.Provenance": "what a map remembers of the rows it was fitted on",
    "calibrators.get_calibrator": "takes names",
    "displays.CurveDisplay": "abstract; every display of predictions is in the table",
    "ensembles.Combiner": "abstract; every combiner is in the table",
    "ensembles.LightgbmRefinementStopping": "made by lightgbm_refinement_stopping",
    "losses.from_loss": "takes functions", "losses.from_entropy": "takes functions", "losses.check_proper": "functions",
    "decomposition.Decomposition": "a result", "datasets.AppendixELaw": "a law, whose q is a function of X",
    "datasets.CopulaLaw": "a law, whose q is a function of X", "datasets.SquareLaw": "the same",
    "datasets.Draw": "a result", "datasets.GermanCredit": "a result",
    "scale.Sums": "sums, made by aggregate", "metrics.LocalRegression": "a smoother, called with parsed rows",
    "metrics.Scorer": "takes a fitted model, whose probabilities go through Sample.of",
}  # fmt: skip


def takes_data(thing: Any) -> bool:
    """Whether a function, or a method or the maker of a class that is no result, takes rows of data."""
    if inspect.isclass(thing):
        if issubclass(thing, Exception) or (dataclasses.is_dataclass(thing) and not issubclass(thing, sp.ProperLoss)):
            return any(DATA & set(inspect.signature(f).parameters) for _, f in methods(thing))
        return any(DATA & set(inspect.signature(f).parameters) for _, f in [*methods(thing), ("", thing)])
    return inspect.isfunction(thing) and bool(DATA & set(inspect.signature(thing).parameters))


def methods(thing: type) -> list[tuple[str, Any]]:
    """Public methods that scoreprism wrote."""
    found = inspect.getmembers(thing, lambda f: inspect.isfunction(f) or inspect.ismethod(f))
    ours = [(name, f) for name, f in found if not name.startswith("_") and f.__module__.startswith("scoreprism")]
    return [(name, f) for name, f in ours if not name.endswith("_request")]


def public_borders() -> set[str]:
    names = set()
    for module in sp.PUBLIC_PACKAGES:
        loaded = importlib.import_module(f"scoreprism.{module}")
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if callable(thing) and not isinstance(thing, dict) and takes_data(thing):
                names.add(f"{module}.{name}")
    return names | {"scoreprism.decompose", "scoreprism.compare", "scoreprism.decompose_by"}


def test_every_public_surface_is_in_the_table():
    known = {name.partition(" ")[0] for name in SURFACES}
    home = {f"{module}.{name}" for module in sp.PUBLIC_PACKAGES for name in getattr(sp, module).__all__}
    home |= {f"scoreprism.{name}" for name in sp.__all__}
    assert known - {"cli"} <= home, f"no such name: {sorted(known - home)}"
    losses = {f"losses.{name}" for name in sp.losses.__all__ if inspect.isclass(getattr(sp.losses, name))}
    missing = public_borders() - known - set(NO_BORDER) - losses
    assert not missing, f"add a line to SURFACES for {sorted(missing)}"
