"""scoreprism.scale on every engine, started for real, against sums over rows that are made here."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
import random
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from scipy import stats

import scoreprism
from scoreprism import scale
from scoreprism.scale import Sums
from tests.conftest import spark_or_skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),  # sockets of Spark and of a cluster, closed at exit
    pytest.mark.filterwarnings("ignore:The inplace keyword:Warning"),  # Dask under pandas 3
    pytest.mark.filterwarnings(
        "ignore:The calibration map C overfits"
    ),  # small segments; the numbers are compared all the same
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIGHT = ["polars", "eager", "pandas", "pyarrow", "duckdb", "ibis"]
HEAVY = [pytest.param(name, marks=pytest.mark.engines) for name in ("cluster", "spark")]
CELLS = 64


# ── engines ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def spark():
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "3"}
    quiet |= {"spark.sql.session.timeZone": "UTC", "spark.python.sql.dataFrameDebugging.enabled": "false"}
    builder = spark_or_skip().builder.master("local[2]")
    for name, value in quiet.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture
def made(request, tmp_path):  # noqa: C901 - a table of engines
    """A function that brings a polars frame to the engine of the test, in several pieces where it can."""
    name = request.param

    def files(frame):
        cuts = [0, frame.height // 7, frame.height // 2, frame.height]
        for i, (a, b) in enumerate(itertools.pairwise(cuts)):
            frame[a:b].write_parquet(tmp_path / f"part-{i}.parquet")
        return str(tmp_path / "part-*.parquet")

    def make(frame):
        if name == "polars":
            return frame.lazy()
        if name == "eager":
            return frame
        if name == "pandas":
            pytest.importorskip("pandas")
            return frame.to_pandas()
        if name == "pyarrow":
            return frame.to_arrow()
        if name == "duckdb":
            duckdb = pytest.importorskip("duckdb")
            return duckdb.from_arrow(frame.to_arrow())
        if name == "ibis":
            ibis = pytest.importorskip("ibis")
            return ibis.memtable(frame.to_arrow())
        if name == "spark":
            session = request.getfixturevalue("spark")
            return session.read.parquet(files(frame)).repartition(3)
        if name == "cluster":
            request.getfixturevalue("cluster")
        dd = pytest.importorskip("dask.dataframe")
        return dd.from_pandas(frame.to_pandas(), npartitions=3)

    return make


def every_engine(test):
    return pytest.mark.parametrize("made", [*LIGHT, *HEAVY], indirect=True)(test)


def light_engine(test):
    return pytest.mark.parametrize("made", LIGHT, indirect=True)(test)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def some_rows(n: int = 3000, seed: int = 0, decimals: int | None = None) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    s = rng.beta(1, 2, n)
    s = s if decimals is None else s.round(decimals).clip(10.0**-decimals, 1 - 10.0**-decimals)
    s[:20], s[20:40] = 0.0, 1.0
    q = np.clip(s + 0.1 * rng.normal(size=n), 0.01, 0.99)
    y = (rng.random(n) < q).astype(int)
    y[:20], y[20:40] = 0, 1  # a certain score that is wrong has an infinite loss
    w = rng.exponential(size=n)
    w[::13] = 0.0
    days = [dt.date(2023, 12, 20) + dt.timedelta(days=int(d)) for d in rng.integers(0, 450, n)]
    seconds = rng.integers(0, 86400, n)
    segment = rng.choice(["nord", "süd", None], n, p=[0.5, 0.4, 0.1])
    return pl.DataFrame(
        {
            "y": y,
            "s": s,
            "q": q,
            "z": np.clip(q + 0.05 * rng.normal(size=n), 0.01, 0.99),
            "w": w,
            "fold": rng.integers(0, 4, n),
            "g": pl.Series(segment.tolist(), dtype=pl.String),
            "h": rng.integers(1, 3, n),
            "day": days,
            "stamp": [
                dt.datetime.combine(d, dt.time()) + dt.timedelta(seconds=int(t))
                for d, t in zip(days, seconds, strict=True)
            ],
            "id": rng.integers(-(10**12), 10**12, n),
        }
    )


def own_cell(s: float) -> int:
    if s in (0.0, 1.0):
        return 0 if s == 0.0 else CELLS + 1
    place = math.sqrt(2 * s) if s < 0.5 else 2 - math.sqrt(2 * (1 - s))
    return 1 + int(place * CELLS / 2)


def own_period(day: dt.date, every: str) -> str:
    if every == "week":
        return str(day - dt.timedelta(days=day.weekday()))
    quarter = f"{day.year}-Q{(day.month + 2) // 3}"
    return {"day": f"{day:%Y-%m-%d}", "month": f"{day:%Y-%m}", "quarter": quarter, "year": f"{day.year}"}[every]


def own_losses(p: float, y: int) -> tuple[float, float]:
    hit = p if y else 1 - p
    return -math.log(hit), (1 - hit) ** 2


def own_sums(rows: pl.DataFrame, *, exact: bool, laws=("s",), weight=None, keys=(), fold=None) -> dict:
    """Sums over rows by (segment, fold, key, y): fsum of lists, no numpy and nothing of the package."""
    groups = defaultdict(list)
    for row in rows.iter_rows(named=True):
        w = 1.0 if weight is None else row[weight]
        if w > 0:
            labels = tuple(key(row) if callable(key) else row[key] for key in keys)
            folded = fold(row) if callable(fold) else None if fold is None else row[fold]
            groups[labels, folded, row["s"] if exact else own_cell(row["s"]), row["y"]].append((w, row))
    return {key: _own_line(held, laws, exact) for key, held in groups.items()}


def _own_line(held: list, laws: tuple, exact: bool) -> dict[str, float]:
    line = {"n": len(held), "w": math.fsum(w for w, _ in held)}
    line |= {f"w{power}": math.fsum(w**power for w, _ in held) for power in (2, 3, 4)}
    if not exact:
        line |= {"s": math.fsum(w * r["s"] for w, r in held), "s2": math.fsum(w * r["s"] ** 2 for w, r in held)}
        line |= {"lo": min(r["s"] for _, r in held), "hi": max(r["s"] for _, r in held)}
    if exact and len(laws) == 1:
        return line
    losses = [(w, [own_losses(r[law], r["y"]) for law in laws]) for w, r in held]
    for i in range(2):
        for t in range(len(laws)):
            line[f"a{i}{t}"] = math.fsum(w * found[t][i] for w, found in losses)
            line[f"b{i}{t}"] = math.fsum(w * w * found[t][i] for w, found in losses)
            for u in range(t, len(laws)):
                line[f"d{i}{t}{u}"] = math.fsum(w * w * found[t][i] * found[u][i] for w, found in losses)
    line |= {f"zero{t}": 0.0 for t in range(1, len(laws))}
    return line


def lines_of(sums: Sums) -> dict:
    table = sums.table
    names = [name for name in table if name not in ("segment", "fold", "key", "y")]
    found = {}
    for i in range(table["n"].size):
        segment, fold = sums.segments[int(table["segment"][i])], sums.folds[int(table["fold"][i])]
        found[segment, fold, table["key"][i], int(table["y"][i])] = {name: table[name][i] for name in names}
    return found


def assert_same_lines(found: dict, expected: dict) -> None:
    assert set(found) == set(expected)
    for key, line in expected.items():
        assert set(found[key]) == set(line)
        assert found[key]["n"] == line["n"]
    ours, theirs = (
        np.array([side[key][name] for key, line in expected.items() for name in line]) for side in (found, expected)
    )
    near = (ours == theirs) | (np.abs(ours - theirs) <= np.maximum(1e-9 * np.abs(theirs), 1e-12))
    places = [(key, name) for key, line in expected.items() for name in line]
    assert [(places[i], ours[i], theirs[i]) for i in np.flatnonzero(~near)] == []


def assert_same_terms(a, b) -> None:
    assert a.names == b.names
    for name in a.names:
        assert a.terms[name] == pytest.approx(b.terms[name], rel=1e-9, abs=1e-9)
        assert a.std_error[name] == pytest.approx(b.std_error[name], rel=1e-9, abs=1e-9)
        one, two = a.interval(name), b.interval(name)
        assert (one.low, one.high) == pytest.approx((two.low, two.high), rel=1e-9, abs=1e-9)


def sums_of(lines: dict, like: Sums) -> Sums:
    """Sums from the lines made here, to compare what follows from them."""
    keys, values = list(lines), list(lines.values())
    columns = {name: np.array([line[name] for line in values], dtype=float) for name in values[0]}
    columns |= {"key": np.array([key[2] for key in keys], float), "y": np.array([key[3] for key in keys], float)}
    return Sums.from_groups(
        like.settings,
        exact=like.exact,
        segments=[key[0] for key in keys],
        folds=[key[1] for key in keys],
        columns=columns,
        absent=like.absent,
    )


@functools.cache
def _expected_terms(text: str) -> dict:
    sums = Sums.from_json(text)
    return {loss: sums.decompose(loss) for loss in ("log", "brier")}


# ── the same sums and terms ─────────────────────────────────────────────────────────────────────────


@functools.cache
def lines_with_everything() -> dict:
    keys = ("g", lambda row: own_period(row["stamp"].date(), "year"))
    return own_sums(some_rows(), exact=False, laws=("s", "q", "z"), weight="w", keys=keys, fold="fold")


@every_engine
def test_cells_with_everything(made):
    rows = some_rows()
    found = scale.aggregate(
        made(rows), target="y", score="s", q="q", latent="z", sample_weight="w", segments="g", time="stamp", period="year",
        fold_column="fold", cells=CELLS,
    )  # fmt: skip
    assert not found.exact
    assert found.absent == rows.filter(pl.col("w") == 0).height
    expected = lines_with_everything()
    assert_same_lines(lines_of(found), expected)
    for loss, theirs in _expected_terms(sums_of(expected, found).to_json()).items():
        ours = found.decompose(loss)
        assert_same_terms(ours, theirs)
        for name in ("segments", "periods"):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert list(a.decompositions) == list(b.decompositions)
            for label, one in a.decompositions.items():
                assert_same_terms(one, b.decompositions[label])


@functools.cache
def plain_of_few_scores() -> tuple[dict, dict]:
    """What rows give: decompositions by loss, and sums."""
    rows = some_rows(seed=1, decimals=2)
    fold = rows["fold"].to_numpy()
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    y, s, q, w = (rows[name].to_numpy() for name in ("y", "s", "q", "w"))
    lines = own_sums(rows, exact=True, laws=("s", "q"), weight="w", keys=("g", "h"), fold="fold")
    return {
        loss: scoreprism.decompose(y, s, q=q, sample_weight=w, loss=loss, cv=cv) for loss in ("log", "brier")
    }, lines


@every_engine
def test_few_scores_equal_plain_decompose(made):
    rows = some_rows(seed=1, decimals=2)
    frame = made(rows)
    sums = scale.aggregate(
        frame, target="y", score="s", q="q", sample_weight="w", fold_column="fold", segments=["g", "h"]
    )
    assert sums.exact
    expected, lines = plain_of_few_scores()
    for loss, theirs in expected.items():
        found = sums.decompose(loss)
        assert found.quantisation_error == 0.0
        assert_same_terms(found, theirs)
    assert_same_lines(lines_of(sums), lines)


@light_engine
@pytest.mark.parametrize("gap", ["ulp", 1e-9])
def test_scores_that_nearly_tie_stay_apart(made, gap):
    rows = some_rows(seed=2, decimals=1).filter(pl.col("s").is_between(0.05, 0.95))
    s = rows["s"].to_numpy()
    near = np.nextafter(s, 1) if gap == "ulp" else s + gap
    rows = rows.with_columns(s=np.where(rows["h"].to_numpy() == 1, s, near))
    found = scale.decompose(made(rows), target="y", score="s", fold_column="fold", loss="brier", cells=32)
    assert found.sums.exact
    assert found.sums.n_keys == rows["s"].n_unique() == 18
    fold = rows["fold"].to_numpy()
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    assert_same_terms(found, scoreprism.decompose(rows["y"].to_numpy(), rows["s"].to_numpy(), loss="brier", cv=cv))


@functools.cache
def lines_of_drawn_folds() -> dict:
    return own_sums(some_rows(seed=3), exact=False)


@every_engine
def test_drawn_folds_are_the_same(made):
    rows = some_rows(seed=3)
    found = scale.aggregate(made(rows), target="y", score="s", cells=CELLS)
    expected = lines_of_drawn_folds()
    assert_same_lines(lines_of(found), expected)
    assert_same_terms(found.decompose("log"), sums_of(expected, found).decompose("log"))


@light_engine
@pytest.mark.parametrize("column", ["day", "stamp"])
@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
def test_periods(made, column, every):
    rows = some_rows(400, seed=4, decimals=1)
    gaps = rows.with_columns(pl.when(pl.col("h") == 1).then(pl.col(column)).alias(column))
    found = scale.aggregate(made(gaps), target="y", score="s", time=column, period=every)
    counts = defaultdict(int)
    for row in rows.iter_rows(named=True):
        day = row["day"]
        counts[own_period(day, every) if row["h"] == 1 else None] += 1
    assert {period: found.select(**{column: period}).n for period in found.periods} == dict(counts)


@light_engine
def test_periods_are_those_of_utc(made, request):
    if "duckdb" in request.node.name or "ibis" in request.node.name:
        pytest.skip("DuckDB shows instants in the zone of its session")
    stamps = [dt.datetime(2026, 3, 31, 21, 30, tzinfo=dt.UTC), dt.datetime(2026, 3, 31, 22, 30, tzinfo=dt.UTC)]
    rows = pl.DataFrame({"y": [0, 1], "s": [0.2, 0.7], "t": stamps})
    there = rows.with_columns(pl.col("t").dt.convert_time_zone("Europe/Zurich"))
    assert scale.aggregate(made(rows), target="y", score="s", time="t").periods == ("2026-03",)
    # half past midnight of 1 April in Zurich is 22:30 UTC of 31 March: engines agree on UTC only
    assert scale.aggregate(made(there), target="y", score="s", time="t").periods == ("2026-03",)


# ── any partition ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("decimals", [None, 2])
def test_sums_of_chunks_in_any_order(decimals):
    rows = some_rows(seed=5, decimals=decimals)
    options = {"target": "y", "score": "s", "q": "q", "sample_weight": "w", "segments": "g", "fold_column": "fold"}
    whole = scale.aggregate(rows, **options, cells=128)
    cuts = [0, 1, 30, 900, 901, 2000, 3000]
    chunks = [
        scale.aggregate(rows[a:b], **options, cells=128) for a, b in itertools.pairwise(cuts) if rows[a:b]["w"].sum()
    ]
    for seed in range(3):
        random.Random(seed).shuffle(chunks)
        total = sum(chunks[1:], chunks[0])
        assert total.exact == whole.exact == (decimals == 2)
        assert_same_lines(lines_of(total), lines_of(whole))
    assert_same_terms(total.decompose(loss="log"), whole.decompose(loss="log"))


@pytest.mark.parametrize("engine", ["polars", "duckdb", "dask", pytest.param("spark", marks=pytest.mark.engines)])
def test_files_in_an_engine(engine, tmp_path, request):
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine))
    if engine == "spark":
        request.getfixturevalue("spark")
    rows = some_rows(1200, seed=6)
    folder = tmp_path / "odd [x] {y} ünï"
    folder.mkdir()
    for i, (a, b) in enumerate([(0, 100), (100, 100), (100, 1200)]):  # the second one is empty
        rows[a:b].write_parquet(folder / f"part {i}.parquet")
    found = scale.aggregate(folder, target="y", score="s", segments="g", fold_column="fold", cells=CELLS, engine=engine)
    assert_same_lines(lines_of(found), own_sums(rows, exact=False, keys=("g",), fold="fold"))


# ── folds by key ────────────────────────────────────────────────────────────────────────────────────


@every_engine
def test_a_key_is_dealt_alike(made):
    rows = some_rows(2000, seed=7, decimals=1)
    found = scale.aggregate(made(rows), target="y", score="s", fold_key="id", cv=4)
    first = scale.aggregate(rows.lazy(), target="y", score="s", fold_key="id", cv=4)
    assert found.folds == first.folds == (0, 1, 2, 3)
    assert_same_lines(lines_of(found), lines_of(first))


@pytest.mark.parametrize("step", [1, 5, 7, 1000, -3])
@pytest.mark.parametrize("folds", [2, 5, 10])
def test_a_key_is_dealt_evenly(step, folds):
    ids = np.arange(100_000, dtype=np.int64) * step
    rows = pl.DataFrame({"y": ids % 2, "s": np.full(ids.size, 0.5), "id": ids})
    found = scale.aggregate(rows, target="y", score="s", fold_key="id", cv=folds)
    counts = np.bincount(found.table["fold"].astype(int), found.table["n"], folds)
    assert stats.chisquare(counts).pvalue > 1e-4  # fixed numbers: a fact about the hash, not a chance


def test_rows_of_a_key_stay_together():
    rows = pl.DataFrame({"y": [0, 1] * 50, "s": [0.3, 0.6] * 50, "id": [i // 10 for i in range(100)]})
    ten = [scale.aggregate(rows[10 * i : 10 * i + 10], target="y", score="s", fold_key="id") for i in range(10)]
    assert [len(part.folds) for part in ten] == [1] * 10
    assert len({part.folds for part in ten}) > 1
