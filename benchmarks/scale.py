"""``python -m benchmarks.scale``: sums in the engine against the same sums written by hand, and what memory they take.

A Parquet file of 3·10⁷ rows is made in a temporary folder; ``--memory`` makes files of 10⁷ and 10⁸ rows as well and
reads the peak memory of a process of its own for each. Bars: 1.6 × hand-written DuckDB, 1.1 × hand-written Polars, the
full decomposition with intervals 3 × a plain scan, 400 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.runner import Case, run

_CELLS = 1000
#: Rows written at a time: also the rows of a row group.
_CHUNK = 1_000_000


def write_rows(path: Path, rows: int, seed: int = 0) -> Path:
    """A mildly overconfident score with its outcomes, weights and segments, as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(seed), None
    for start in range(0, rows, _CHUNK):
        m = min(_CHUNK, rows - start)
        q = rng.beta(1.2, 3.0, m)
        columns = {
            "y": (rng.random(m) < q).astype(np.int8),
            "s": q**1.2 / (q**1.2 + (1.0 - q) ** 1.2),
            "w": rng.exponential(size=m),
            "g": rng.integers(0, 8, m).astype(np.int8),
        }
        table = pa.table(columns)
        writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    writer.close()
    return path


def polars_by_hand(path: Path):
    """The same sums, as one would write them in Polars."""
    import polars as pl

    s, y, p, low = pl.col("s"), pl.col("y"), pl.col("p"), pl.col("s") < 0.5
    root, log, square = pl.col("root"), pl.col("log"), pl.col("square")
    rows = pl.scan_parquet(path).select("s", "y")
    rows = rows.with_columns(
        root=(pl.when(low).then(s).otherwise(1.0 - s) * 2.0).sqrt(), p=pl.when(y == 1).then(s).otherwise(1.0 - s)
    )
    cell = (pl.when(low).then(root).otherwise(2.0 - root) * (_CELLS / 2)).floor().cast(pl.Int64)
    rows = rows.with_columns(key=cell * 2 + y, log=-p.log(), square=(1.0 - p) * (1.0 - p))
    return (
        rows.group_by("key")
        .agg(
            pl.len(),
            s.sum().alias("s1"),
            (s * s).sum().alias("s2"),
            s.min().alias("lo"),
            s.max().alias("hi"),
            log.sum().alias("l1"),
            (log * log).sum().alias("l2"),
            square.sum().alias("b1"),
            (square * square).sum().alias("b2"),
        )
        .collect(engine="streaming")
    )


_SQL = """
WITH a AS (SELECT s, y, CASE WHEN y = 1 THEN s ELSE 1 - s END AS p, s < 0.5 AS low,
                  sqrt(2 * CASE WHEN s < 0.5 THEN s ELSE 1 - s END) AS root FROM read_parquet($path)),
     b AS (SELECT s, -ln(p) AS l, (1 - p) * (1 - p) AS q,
                  CAST(floor($half * CASE WHEN low THEN root ELSE 2 - root END) AS BIGINT) * 2 + y AS k FROM a)
SELECT k, count(*), sum(s), sum(s * s), min(s), max(s), sum(l), sum(l * l), sum(q), sum(q * q) FROM b GROUP BY k
"""


def duckdb_by_hand(path: Path):
    """The same sums, as one would write them in SQL."""
    import duckdb

    return duckdb.execute(_SQL, {"path": str(path), "half": _CELLS / 2}).fetchall()


def plain_scan(path: Path):
    """Rows, events and mean score by cell: what one scan costs."""
    import polars as pl

    cell = (pl.col("s") * _CELLS).floor().cast(pl.Int64).alias("cell")
    return pl.scan_parquet(path).group_by(cell).agg(pl.len(), pl.col("y").sum(), pl.col("s").sum()).collect(
        engine="streaming"
    )  # fmt: skip


def cases(path: Path, repeats: int) -> list[Case]:
    """Ours beside the same by hand."""
    from scoreprism import scale

    columns = {"target": "y", "score": "s", "cells": _CELLS}

    def polars():
        return scale.aggregate(path, **columns)

    def duckdb():
        return scale.aggregate(path, engine="duckdb", **columns)

    def whole():
        first = scale.aggregate(path, **columns).decompose("log")
        return [d.interval("reliability") for d in (first, first.chain.decompose("brier"))]

    def engine_scan():
        return scale.aggregate(path, sample_weight="w", segments="g", **columns)

    return [
        Case("scale", "sums, polars", polars, lambda: polars_by_hand(path), "Polars by hand", 1.1, repeats),
        Case("scale", "sums, duckdb", duckdb, lambda: duckdb_by_hand(path), "DuckDB by hand", 1.6, repeats),
        Case("scale", "sums, polars", polars, lambda: duckdb_by_hand(path), "DuckDB by hand", 1.6, repeats),
        Case("scale", "decompose with intervals", whole, lambda: plain_scan(path), "a plain scan", 3.0, repeats),
        Case("scale", "decompose with intervals", whole, lambda: polars_by_hand(path), "Polars by hand", None, repeats),
        Case("scale", "weights and 8 segments", engine_scan, polars, "neither", None, repeats),
    ]


_CHILD = """
import resource, sys
from scoreprism import scale
sums = scale.aggregate(sys.argv[1], target="y", score="s", engine=sys.argv[2], sample_weight=sys.argv[3] or None)
assert all(sums.decompose(loss).interval("reliability").high > 0 for loss in ("log", "brier"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak(path: Path, engine: str, weight: str = "") -> float:
    """Largest resident memory, in MB, of a process that decomposes a file."""
    command = [sys.executable, "-c", _CHILD, str(path), engine, weight]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory(folder: Path) -> bool:
    """Peak memory at 10⁷ and 10⁸ rows beside its bar."""
    good = True
    files = [(rows, write_rows(folder / f"{rows}.parquet", rows)) for rows in (10**7, 10**8)]
    for engine in ("polars", "duckdb"):
        found = [(rows, peak(path, engine)) for rows, path in files]
        good &= all(value <= 400.0 for _, value in found)
        line = ", ".join(f"{value:.0f} MB at {rows:.0e} rows" for rows, value in found)
        print(f"{engine}: {line} (bar: 400 MB)", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=3e7)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.memory:
            good = memory(folder)
        else:
            good = run(cases(write_rows(folder / "rows.parquet", int(asked.rows)), asked.repeats))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
