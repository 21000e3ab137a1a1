"""
.. _tutorial-scale:

A table of a hundred million rows
=================================

Scores and outcomes are in a table that does not fit into memory, or
that is on a cluster, and it grows every day. Which region needs
recalibration, has the score become worse, and what does it cost to find
out?

The answer needs sums of the rows, not the rows. This page runs on a
million rows, because it is made again whenever the site is built. At
the end it says what changes with a hundred million.
"""

# %%
# A table on disk
# ---------------
#
# Three months of scores and outcomes from four regions, one Parquet
# file for each month. The data are simulated: on the coast the score
# exaggerates, and in March outcomes become more frequent everywhere.

# sphinx_gallery_thumbnail_number = 2
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import expit, logit

holder = tempfile.TemporaryDirectory()
folder = Path(holder.name)
rng = np.random.default_rng(0)
months = [
    np.datetime64("2026-01-01"),
    np.datetime64("2026-02-01"),
    np.datetime64("2026-03-01"),
]
for number, month in enumerate(months):
    n = 340_000
    q = rng.beta(1.2, 8.0, n)
    region = rng.choice(["coast", "north", "south", "west"], n)
    steep = np.where(region == "coast", 1.5, 1.0)
    worse = 0.3 if number == 2 else 0.0
    chance = expit(logit(q) + worse)
    table = pl.DataFrame(
        {
            "default": (rng.random(n) < chance).astype(np.int8),
            "score": expit(-2.2 + steep * (logit(q) + 2.2)),
            "region": region,
            "day": month + rng.integers(0, 28, n),
        }
    )
    table.write_parquet(folder / f"{month}.parquet")
size = sum(file.stat().st_size for file in folder.iterdir())
print(f"{size / 1e6:.0f} MB in {len(months)} files")

# %%
# One pass
# --------
#
# ``scale.decompose`` divides the score into about a thousand cells,
# lets an engine sum the rows of each cell, and fits everything to the
# sums. The engine is Polars unless you name another one.

from scoreprism import scale

start = time.perf_counter()
found = scale.decompose(
    str(folder / "*.parquet"),
    target="default",
    score="score",
    segments="region",
    time="day",
    loss="log",
)
seconds = time.perf_counter() - start
found.summary()

# %%

print(f"{found.n:,} rows took {seconds:.1f} seconds")

# %%
# These are the terms, intervals and advice that ``decompose`` gives for
# rows in memory. With so many rows nearly everything is significant, so
# the size of a gain matters more than whether there is one. And since
# rows of a cell are treated alike, the result has a small error. It is
# estimated, and can be compared with the standard error.

error = found.std_error["reliability"]
print(f"error of the cells: {found.quantisation_error:.1e}")
print(f"standard error:     {error:.1e}")

# %%
# Which region?
# -------------
#
# Each region was fitted by itself, in the same pass.

found.segments

# %%

figure = found.segments.plot(terms=["reliability"])

# %%
# The coast stands out so far that its bar had to be cut. The summary
# above called the gain for the whole table too small to be worth a
# change. That is true on average, and it hides a region where
# recalibration is worth it.
#
# Has it become worse?
# --------------------
#
# ``drift`` compares every month with the one before. A diamond marks a
# change that is significant when all of them are judged together.

drift = found.drift()
figure = drift.plot()

# %%
# In March the loss rises. Why? Either the scores of the applicants
# changed, or the outcomes of applicants with the same score did.

drift.mix()

# %%
# It is the outcomes. Would a map that was fitted in February have
# helped in March? *Gains* is what it takes off the loss, *loses* how
# far it is from the best map of that month.

drift.stale()

# %%
# In March the map of February would have done harm: its gain is below
# 0.
#
# Sums that add up
# ----------------
#
# Nobody reads a hundred million rows again because a day has been
# added. ``aggregate`` makes the sums of a part. Sums of parts can be
# added, in any order, and kept as text. Here each month is summed by
# itself, and one of them by another engine.

options = {"target": "default", "score": "score", "segments": "region"}
files = sorted(folder.iterdir())
january = scale.aggregate(str(files[0]), **options)
february = scale.aggregate(str(files[1]), **options)
march = scale.aggregate(str(files[2]), engine="duckdb", **options)
text = january.to_json()
print(f"January: {january.n:,} rows, {len(text) / 1e6:.1f} MB of sums")

total = scale.Sums.from_json(text) + february + march
again = total.decompose("log")
print(f"reliability, added sums:  {again.terms['reliability']:.6f}")
print(f"reliability, one pass:    {found.terms['reliability']:.6f}")

# %%
# The size of the sums depends on the number of cells and segments. With
# a hundred times as many rows they would be as large as they are here.
#
# Recalibrate where the data are
# ------------------------------
#
# The sums say that the coast needs a map. To fit one, a sample is
# enough, because a map has few parameters. Here it is fitted to the
# coast in January. ``apply`` then adds a column to the table, lazily,
# in the engine of the table. The other months are not read before they
# are needed.

from scoreprism.calibrators import PlattCalibrator

on_the_coast = pl.col("region") == "coast"
sample = pl.scan_parquet(files[0]).filter(on_the_coast).collect()
platt = PlattCalibrator().fit(sample["score"], sample["default"])

rows = pl.scan_parquet(files[1]).filter(on_the_coast)
rows = scale.apply(rows, platt, score="score", name="recalibrated")
before, after = (
    scale.decompose(rows, target="default", score=score, loss="log")
    for score in ("score", "recalibrated")
)
print(f"loss in February: {before.risk:.4f}, then {after.risk:.4f}")
holder.cleanup()

# %%
# A hundred million rows
# ----------------------
#
# The calls stay the same. On a cluster the table is a Spark frame
# instead of a folder (this block is shown and not run here):
#
# .. code-block:: python
#
#     from pyspark.sql import SparkSession
#     from scoreprism import scale
#
#     spark = SparkSession.builder.getOrCreate()
#     table = spark.read.table("scoring.outcomes")
#     table = table.filter("day >= '2026-01-01'")
#     found = scale.decompose(
#         table, target="default", score="score",
#         segments="region", time="day", loss="log",
#     )
#
# The executors need neither scoreprism nor Python, since everything is
# an expression of Spark's own. With DuckDB, pass ``engine="duckdb"`` or
# one of its relations. Dask and ibis work in the same way.
#
# The costs were measured once, on two cores, with ``python -m
# benchmarks.scale``:
#
# - To sum thirty million rows of Parquet without segments took Polars
#   less than 0.6 seconds and DuckDB less than one second. Spark and
#   Dask took less than 3 seconds each.
# - To fit took about 0.2 seconds for each segment and each period,
#   however many rows they have.
# - The memory of the whole process stayed below 400 MB, with ten
#   million rows and with a hundred million.
#
# The page on scale in the user guide has the tables, and calculates
# from them what a cluster would need.
#
# The answer
# ----------

regions = found.segments
lost = {name: regions[name].terms["reliability"] for name in regions}
worst = max(lost, key=lost.get)
change = drift.interval("reliability", "2026-03")
print(f"{found.n:,} rows in {seconds:.1f} seconds")
print(f"recalibrate first: {worst}")
print("its reliability in February:")
print(f"  as it is            {before.terms['reliability']:.5f}")
print(f"  with January's map  {after.terms['reliability']:.5f}")
print("reliability of the table, March against February:")
print(f"  {change.low:+.4f} to {change.high:+.4f} (95 % interval)")

# %%
# Recalibrate the coast. In March outcomes changed in all regions, so
# find out why before you fit another map. To keep this up to date costs
# one pass over the rows of each new day.
