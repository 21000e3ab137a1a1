"""The sums of `_ranked` in one pass, compiled by numba (``pip install "scoreprism[fast]"``): the same numbers, sooner."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism.inference._ranked import Kernel, Ranked, Sums
from scoreprism.simplex import FloatArray, IntArray

#: From this many draws in all on, loading the compiled kernel (about a second) pays.
WORTH_LOADING = 1 << 24


def available() -> bool:
    """Whether numba is installed; it is not loaded."""
    return find_spec("numba") is not None


def _one_pass(
    draws: IntArray,
    losses: FloatArray,
    weight: FloatArray,
    segment: IntArray,
    lead: int,
    count: NDArray[np.int32],
    held: FloatArray,
    events: FloatArray,
) -> tuple[float, int]:
    """
    Count the draws; then sum segments and pool adjacent violators as they come.

    `count` must come with zeros and has them again at the end. `held` and `events` are filled with the blocks, whose
    number is returned after the summed loss. Without weights `weight` is empty, and all sums of counts are exact.
    """
    for row in draws:
        count[row] += 1
    weighted, n, m = weight.shape[0] > 0, losses.shape[0], segment.shape[0]
    total, top, happened = 0.0, 0, 0.0
    for j in range(m):
        stop = segment[j + 1] if j + 1 < m else n
        mass, cost = 0.0, 0.0
        for i in range(segment[j], stop):
            part = count[i] * weight[i] if weighted else count[i]
            mass += part
            cost += part * losses[i]
            count[i] = 0
        total += cost
        if (j + lead) % 2 == 0:  # a segment of events: its run ends with the next one, if there is one
            happened = mass
            if j + 1 < m:
                continue
            mass = 0.0
        held[top], events[top] = happened + mass, happened
        happened = 0.0
        if held[top] == 0.0:
            continue
        while top > 0 and events[top - 1] * held[top] >= events[top] * held[top - 1]:
            held[top - 1] += held[top]
            events[top - 1] += events[top]
            top -= 1
        top += 1
    return total, top


@cache
def _compiled() -> Any:
    from numba import njit

    return njit(cache=True, nogil=True)(_one_pass)


def compiled_sums(ranked: Ranked) -> Kernel:
    """`sums_of_draws` of these rows, compiled; it has a workspace of its own, so every thread needs one."""
    one_pass = _compiled()
    weight = np.empty(0) if ranked.weight is None else ranked.weight
    count, held, events = np.zeros(ranked.n, dtype=np.int32), np.empty(ranked.runs), np.empty(ranked.runs)

    def sums(draws: IntArray) -> Sums:
        hit = ranked.infinite.size > 0 and bool(np.isin(ranked.infinite, draws).any())
        total, size = one_pass(draws, ranked.losses, weight, ranked.segment, ranked.lead, count, held, events)
        return np.inf if hit else float(total), held[:size], events[:size]

    return sums
