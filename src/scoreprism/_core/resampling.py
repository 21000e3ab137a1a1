"""Replicates: rows, groups or outcomes drawn from random streams that the caller lays out.

Each replicate has its own stream, so that it depends neither on the number of replicates nor on the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_random_state
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._core.workers import run_all

Rng = np.random.Generator


@dataclass(frozen=True)
class Streams:
    """Independent random streams by key, all children of one seed."""

    entropy: int | tuple[int, ...]
    bits: type[np.random.BitGenerator] = np.random.PCG64

    @classmethod
    def of(cls, random_state: object) -> Streams:
        """Streams of a user's seed for replicates that draw row by row; SFC64 is the fastest generator."""
        return cls(tuple(parse_random_state(random_state).integers(2**63, size=2).tolist()), np.random.SFC64)

    def __call__(self, *key: int) -> Rng:
        return Rng(self.bits(np.random.SeedSequence(self.entropy, spawn_key=key)))


def replicate(
    compute: Callable[[range], FloatArray], count: int, n_jobs: int | None, *, block: int = 16, what: str = "replicates"
) -> FloatArray:
    """Compute replicates 0, …, count − 1 in blocks, on threads or on joblib's workers."""
    blocks = [range(start, min(start + block, count)) for start in range(0, count, block)]
    return np.concatenate(list(run_all(compute, blocks, n_jobs, what, threads=True)))


def draw_words(rng: Rng, size: int) -> NDArray[np.uint32]:
    """Random 32-bit words, two from each 64-bit word of the stream: the lower half first."""
    words = np.asarray(rng.bit_generator.random_raw((size + 1) // 2)).astype("<u8", copy=False)
    return words.view("<u4")[:size]


def draw_rows(rng: Rng, n: int) -> IntArray:
    """
    Draw n of n rows with repetition: every row with the same probability, to the last bit.

    A word u stands for row ⌊u·n / 2³²⌋. The 2³² words cannot be shared evenly among the rows, so 2³² mod n of them,
    those for which u·n mod 2³² is smallest, stand for none and are drawn again (Lemire 2019). The compiled kernel
    repeats this word by word.
    """
    blocks: list[IntArray] = []
    missing = n
    while missing:
        product = draw_words(rng, missing).astype(np.uint64) * np.uint64(n)
        accepted = product.astype(np.uint32) >= (1 << 32) % n
        blocks.append((product[accepted] >> np.uint64(32)).astype(np.intp))
        missing -= blocks[-1].shape[0]
    return np.concatenate(blocks)


def count_rows(rng: Rng, n: int) -> FloatArray:
    """How often each of n rows is drawn in n draws."""
    return np.bincount(draw_rows(rng, n), minlength=n).astype(np.float64)


def count_pooled_rows(rng: Rng, size: FloatArray) -> FloatArray:
    """How many of n draws fall on each line, where a line pools `size` of the n rows."""
    n = int(size.sum())
    return rng.multinomial(n, size / n).astype(np.float64)


def count_grouped_rows(rng: Rng, group: IntArray, groups: int) -> FloatArray:
    """How often each row is drawn when whole groups are drawn; `group` is the group number of each row."""
    counts: FloatArray = np.bincount(rng.integers(0, groups, groups), minlength=groups)[group].astype(np.float64)
    return counts


def draw_events(rng: Rng, score: FloatArray, *times: int) -> NDArray[np.bool_]:
    """Whether the event happens in each row, with the probability of its score: shape (*times, n)."""
    return rng.random((*times, score.shape[0])) < score  # of [0, 1): 0 never happens, 1 always does


def draw_classes(rng: Rng, law: FloatArray, *times: int) -> IntArray:
    """The class of each row, drawn from its law over K classes: shape (*times, n)."""
    uniform = rng.random((*times, law.shape[0]))
    cumulative = np.cumsum(law, axis=1)
    cumulative /= cumulative[:, -1:]
    codes = np.zeros(uniform.shape, dtype=np.intp)
    for k in range(law.shape[1] - 1):
        codes += uniform >= cumulative[:, k]
    return codes


def draw_counts(rng: Rng, law: FloatArray, count: IntArray, times: int) -> FloatArray:
    """How often the event happens among `count` rows: (times, n); for K classes, one after another: (times, n, K)."""
    if law.ndim == 1:
        return rng.binomial(count, law, (times, law.shape[0])).astype(np.float64)
    # at the last possible class this sum is its own probability, so that its share is exactly 1
    rest = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(law, rest, out=np.zeros_like(law), where=rest > 0.0)
    counts = np.zeros((times, *law.shape))
    left = np.broadcast_to(count, (times, law.shape[0]))
    for k in range(law.shape[1]):
        happened = rng.binomial(left, share[:, k]) if k < law.shape[1] - 1 else left
        counts[..., k] = happened
        left = left - happened
    return counts
