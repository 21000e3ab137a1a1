"""
.. _tutorial-scale:

A table of a hundred million rows
=================================

The scores lie in a table that does not fit into memory, or on a cluster, and it grows every day. Which region needs
recalibration, has the score become worse, and what does it cost to find out?

The answer needs sums of the rows, not the rows. This page runs on a million rows, because it is made again whenever the
site is built. What changes with a hundred million is said where it matters, with times that were measured.
"""

# %%
# A table on disk
# ---------------
#
# Three months of scores and outcomes from four regions, one Parquet file for each month. The data are simulated: on the
# coast the score exaggerates, and in March outcomes become more frequent everywhere.

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import expit, logit

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
months = [np.datetime64("2026-01-01"), np.datetime64("2026-02-01"), np.datetime64("2026-03-01")]
for number, month in enumerate(months):
    n = 340_000
    q = rng.beta(1.2, 8.0, n)
    region = rng.choice(["coast", "north", "south", "west"], n)
    steep = np.where(region == "coast", 1.5, 1.0)
    worse = 0.3 if number == 2 else 0.0
    table = pl.DataFrame(
        {
            "default": (rng.random(n) < expit(logit(q) + worse)).astype(np.int8),
            "score": expit(-2.2 + steep * (logit(q) + 2.2)),
            "region": region,
            "day": month + rng.integers(0, 28, n),
        }
    )
    table.write_parquet(folder / f"{month}.parquet")
print(f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.0f} MB in {len(months)} files")

# %%
# One pass
# --------
#
# ``scale.decompose`` has the engine that reads the files make sums for about a thousand cells of the score, and fits all
# laws to the sums. Polars is the engine unless you name another one.

from scoreprism import scale

start = time.perf_counter()
found = scale.decompose(
    str(folder / "*.parquet"), target="default", score="score", segments="region", time="day", loss="log"
)
seconds = time.perf_counter() - start
found.summary()

# %%

print(f"{found.n:,} rows, with all regions and months, in {seconds:.1f} seconds")

# %%
# These are the terms, intervals and advice that ``decompose`` gives for rows in memory. Two things are different with so
# many rows. First, nearly everything is significant, so look at how large a gain is before you look at whether there is
# one. Second, laws are evaluated on cells of the score. What that can have changed is bounded:

print(f"error of the cells: at most {found.quantisation_error:.1e}")
print(f"standard error of the reliability: {found.std_error['reliability']:.1e}")

# %%
# Which region?
# -------------
#
# Each region was fitted by itself, in the same pass.

found.segments

# %%

figure = found.segments.plot(terms=["reliability"])

# %%
# The coast stands out so far that its bar had to be cut. The summary above called the gain for the whole table too small
# to be worth a change. That was true of the average, and it hid a region where recalibration is worth it.
#
# Has it become worse?
# --------------------
#
# ``drift`` compares every month with the one before. A diamond marks a change that is significant when all of them are
# judged together.

drift = found.drift()
figure = drift.plot()

# %%
# In March the loss rises. Why? Either the scores of the applicants changed, or the outcomes of applicants with the same
# score did.

drift.mix()

# %%
# It is the outcomes. And would a map that was fitted in February have helped in March?

drift.stale()

# %%
# Sums that add up
# ----------------
#
# Nobody reads a hundred million rows again because a day has been added. ``aggregate`` makes the sums of a part. Sums of
# parts can be added, in any order, and kept as text. Here each month is summed by itself, and one of them by another
# engine.

options = {"target": "default", "score": "score", "segments": "region"}
files = sorted(folder.iterdir())
january, february = scale.aggregate(str(files[0]), **options), scale.aggregate(str(files[1]), **options)
march = scale.aggregate(str(files[2]), engine="duckdb", **options)
text = january.to_json()
print(f"January: {january.n:,} rows, {files[0].stat().st_size / 1e6:.1f} MB of Parquet, {len(text) / 1e6:.1f} MB of sums")

total = scale.Sums.from_json(text) + february + march
again = total.decompose("log")
print(f"reliability from added sums {again.terms['reliability']:.6f}, from all files at once {found.terms['reliability']:.6f}")

# %%
# The size of the sums depends on the number of cells and segments, not on the number of rows: those of a hundred times as
# many rows are as large. The two numbers above agree nearly, not exactly, because folds are drawn within cells and the
# months were not separated in the sums.
#
# Recalibrate where the data are
# ------------------------------
#
# The sums are enough to say that the coast needs a map. To fit it, a sample of the coast is plenty, since the map has a
# few parameters. ``apply`` then adds a column to the table, lazily, in its own engine.

from scoreprism.calibrators import PlattCalibrator

rows = pl.scan_parquet(str(folder / "*.parquet")).filter(pl.col("region") == "coast")
january_on_the_coast = rows.filter(pl.col("day") < months[1]).collect()
platt = PlattCalibrator().fit(january_on_the_coast["score"], january_on_the_coast["default"])
february_on_the_coast = rows.filter(pl.col("day") >= months[1], pl.col("day") < months[2])
recalibrated = scale.apply(february_on_the_coast, platt, score="score", name="recalibrated")
before = scale.decompose(recalibrated, target="default", score="score", loss="log")
after = scale.decompose(recalibrated, target="default", score="recalibrated", loss="log")

# %%
# A hundred million rows
# ----------------------
#
# The calls stay the same. On a cluster the table is a Spark frame instead of a folder (this block is shown and not run
# here):
#
# .. code-block:: python
#
#     from pyspark.sql import SparkSession
#     from scoreprism import scale
#
#     spark = SparkSession.builder.getOrCreate()
#     table = spark.read.table("scoring.outcomes").filter("day >= '2026-01-01'")
#     found = scale.decompose(table, target="default", score="score", segments="region", time="day", loss="log")
#
# The executors need no scoreprism and no Python, since everything is an expression of Spark's own. With DuckDB, pass
# ``engine="duckdb"`` or one of its relations; Dask and ibis work in the same way.
#
# What it costs was measured with ``python -m benchmarks.scale`` on two cores. Thirty million rows of Parquet, without
# segments, took Polars less than 0.6 seconds to sum, DuckDB less than a second, and Spark and Dask less than 3 seconds
# each. Then each segment and each period takes about 0.2 seconds to fit, however many rows it has. The memory of the
# whole process was below 400 MB with ten million rows, and also with a hundred million.
#
# The answer
# ----------

regions = found.segments
worst = max(regions, key=lambda region: regions[region].terms["reliability"])
change = drift.interval("reliability", "2026-03")
print(f"{found.n:,} rows in {seconds:.1f} s, {len(regions)} regions and {len(found.periods)} months included")
print(f"to recalibrate first: {worst}, reliability {regions[worst].terms['reliability']:.4f}")
print(f"with January's map, in February: {before.terms['reliability']:.5f} → {after.terms['reliability']:.5f}")
print(f"March against February: reliability {change.low:+.4f} to {change.high:+.4f} (95 %)")

# %%
# Recalibrate the coast. In March every region needs a new map, since outcomes have changed at the same score; find out
# why before you fit it. The next day costs one pass over the next day.
