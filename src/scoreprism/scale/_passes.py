"""One pass over rows of several classes, in the engine that holds them; small results come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
from numpy.typing import NDArray

from scoreprism.scale._engines import fetched, told


def grouped(
    frame: nw.LazyFrame[Any],
    build: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]],
    keys: Sequence[str],
    how: Mapping[str, str],
) -> dict[str, NDArray[Any]]:
    """
    One pass: rows as `build` makes them, by `keys`; ``n``, and of each column its "sum", "min" or "max".

    Dask's planner takes minutes for expressions that its partitions evaluate in milliseconds, so there the pass runs
    on each partition and the small results are put together here.
    """

    def query(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        found = [getattr(nw.col(name), what)() for name, what in how.items()]
        return build(lazy).group_by(*keys).agg(nw.len().alias("n"), *found)

    if frame.implementation.is_dask():
        with told("the engine must be able to read the data", "Check the columns."):
            return _by_partition(frame.to_native(), query, keys, {"n": "sum", **how})
    return fetched(query(frame))


def _by_partition(
    frame: Any, query: Callable[[Any], Any], keys: Sequence[str], how: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    from dask.base import compute
    from dask.delayed import delayed

    def one(part: Any) -> Any:
        return query(nw.from_native(part).lazy()).collect().to_native()

    parts = compute(*(delayed(one)(part) for part in frame.to_delayed()))  # type: ignore[no-untyped-call]
    some = [part for part in parts if len(part)] or list(parts[:1])
    table = nw.concat([nw.from_native(part, eager_only=True) for part in some])
    merged = table.group_by(*keys).agg(*(getattr(nw.col(name), what)() for name, what in how.items()))
    return fetched(merged.lazy())
