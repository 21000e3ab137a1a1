"""A random sample of the rows, drawn by the engine that holds them: a share is kept, then cut to the size asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism.exceptions import ScoreprismError
from scoreprism.scale._engines import engine_of, wrap

#: Rows of a sample unless said otherwise.
SAMPLE = 200_000


@dataclass(frozen=True)
class Sampler:
    """How an engine keeps a share of its rows, each by itself (Bernoulli), in bounded memory."""

    keep: Callable[[Any, float, int], Any]  # from a frame, a share and a seed to the frame of the rows that are kept
    repeats: str  # what must stay the same for the same seed to give the same rows


def _polars(frame: Any, share: float, seed: int) -> Any:
    import polars as pl

    at = pl.col("__row").hash(seed)
    kept = frame.lazy().with_row_index("__row").filter(at < int(share * 2.0**64))
    return kept.drop("__row")


def _duckdb(frame: Any, share: float, seed: int) -> Any:
    kept = f"select * from __rows using sample {100.0 * share:.12f} percent (bernoulli, {seed:d})"  # noqa: S608 - numbers
    return frame.query("__rows", kept)


def _dask(frame: Any, share: float, seed: int) -> Any:
    return frame.sample(frac=share, random_state=seed)


def _spark(frame: Any, share: float, seed: int) -> Any:
    return frame.sample(fraction=share, seed=seed)


def _ibis(frame: Any, share: float, seed: int) -> Any:
    return frame.sample(share, method="row", seed=seed)


#: How each engine draws; other frames are in memory and drawn there.
SAMPLERS: dict[str, Sampler] = {
    "polars": Sampler(_polars, "the order of the rows, and the version of polars"),
    "duckdb": Sampler(_duckdb, "the order of the rows and one thread (SET threads = 1)"),
    "dask": Sampler(_dask, "the partitions"),
    "spark": Sampler(_spark, "the partitions"),
    "ibis": Sampler(_ibis, "what its engine needs"),
}


def drawn(frame: Any, size: int, rows: int, seed: int) -> Any:
    """A frame of a few more than `size` of its rows, at random; all of them if there are no more."""
    if rows <= size:
        return frame
    share = min(1.0, (size + 5.0 * np.sqrt(size) + 10.0) / rows)
    sampler = SAMPLERS.get(engine_of(frame))
    if sampler is None:
        return _in_memory(frame, share, seed)
    if engine_of(frame) == "ibis":
        return _of_ibis(sampler, frame, share, seed)
    return sampler.keep(frame, share, seed)


def _of_ibis(sampler: Sampler, frame: Any, share: float, seed: int) -> Any:
    """Some of the engines behind ibis take no seed."""
    try:
        kept = sampler.keep(frame, share, seed)
        wrap(kept.limit(1)).collect()
    except ScoreprismError:
        raise
    except Exception:  # noqa: BLE001 - every engine has errors of its own
        return frame.sample(share, method="row")
    return kept


def _in_memory(frame: Any, share: float, seed: int) -> Any:
    import narwhals as nw

    eager = nw.from_native(frame, eager_only=True)
    kept = np.flatnonzero(np.random.default_rng(seed).random(len(eager)) < share)
    return eager[kept.tolist()].to_native()


def trimmed(table: dict[str, NDArray[Any]], size: int, seed: int) -> dict[str, NDArray[Any]]:
    """So many of the rows, at random, in their order."""
    count = next(iter(table.values())).shape[0]
    if count <= size:
        return table
    rows = np.sort(np.random.default_rng([seed, 1]).choice(count, size, replace=False))
    return {name: column[rows] for name, column in table.items()}
