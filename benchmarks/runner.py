"""Time two functions alternately and print the ratio of their medians beside the bar it must meet."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """
    Ours against a peer. `bar` is the largest ratio ours/peer allowed; None only reports.

    Short calls are timed `number` at a time, as timeit does: else each pays for the caches the other left cold. A slow
    peer may do a `share` of the work only; its time is scaled up.
    """

    group: str
    name: str
    ours: Callable[[], object]
    peer: Callable[[], object]
    peer_name: str
    bar: float | None = None
    repeats: int = 9
    number: int = 1
    share: float = 1.0


def seconds(function: Callable[[], object], number: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(number):
        function()
    return (time.perf_counter() - start) / number


def measure(case: Case) -> tuple[float, float]:
    """Median seconds of ours and of the peer, taken in turns after one warm-up each."""
    case.ours(), case.peer()
    pairs = np.array([(seconds(case.ours, case.number), seconds(case.peer, case.number)) for _ in range(case.repeats)])
    ours, peer = np.median(pairs, axis=0)
    return float(ours), float(peer) / case.share


def peak_megabytes(function: Callable[[], object]) -> float:
    """Largest memory that numpy and Python held at once during a call, beyond what was there before."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def run(cases: list[Case]) -> bool:
    """Print a line per case; whether all bars were met."""
    good = True
    print(f"{'group':10} {'case':34} {'ours':>10} {'peer':>10}  {'ratio':>7}  {'bar':>5}")
    for case in cases:
        ours, peer = measure(case)
        ratio = ours / peer
        met = case.bar is None or ratio <= case.bar
        good &= met
        bar = "" if case.bar is None else f"{case.bar:g}"
        mark = "" if met else "  MISSED"
        line = f"{case.group:10} {case.name:34} {1e3 * ours:8.2f}ms {1e3 * peer:8.2f}ms  {ratio:7.3f}  {bar:>5}  vs {case.peer_name}{mark}"
        print(line, flush=True)
    return good
