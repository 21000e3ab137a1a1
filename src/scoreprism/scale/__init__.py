"""The same decomposition where the data lives: one implementation for Polars, DuckDB, Dask, Spark and ibis."""

from __future__ import annotations

from scoreprism.scale._apply import apply

__all__ = ["apply"]
