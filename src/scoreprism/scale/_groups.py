"""Groups: labels in one order everywhere, and lines of the same key added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray

#: Columns that tell lines apart.
KEYS = ("segment", "fold", "key", "y")
#: Sums of powers of the weights; as many as rows where there are none.
WEIGHTS = ("w", "w2", "w3", "w4")
#: Columns that are not sums.
_ENDS = {"lo": np.minimum, "hi": np.maximum}


def _order(label: Any) -> tuple[bool, str, Any]:
    """Labels of one type in their own order, those of several types by type, missing ones last."""
    numeric = isinstance(label, (int, float))
    return (label is None, "" if numeric else type(label).__name__, 0 if label is None else label)


def key_order(label: Any) -> Any:
    """What labels, or tuples of them, are sorted by."""
    return tuple(_order(part) for part in label) if isinstance(label, tuple) else _order(label)


def coded(labels: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """Distinct labels in order, and the number of each."""
    names = sorted(set(labels), key=key_order)
    place = {name: i for i, name in enumerate(names)}
    return names, np.fromiter((place[label] for label in labels), dtype=np.intp, count=len(labels))


def merged(table: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Lines in order of their keys, those of the same keys added up."""
    keys = [table[name] for name in KEYS]
    order = np.lexsort(keys[::-1])
    ordered = {name: column[order] for name, column in table.items()}
    changed = np.any([np.diff(ordered[name], prepend=-np.inf) != 0.0 for name in KEYS], axis=0)
    starts = np.flatnonzero(changed)
    found = {}
    for name, column in ordered.items():
        if name in KEYS:
            found[name] = column[starts]
        else:
            found[name] = _ENDS.get(name, np.add).reduceat(column, starts)
    return found
