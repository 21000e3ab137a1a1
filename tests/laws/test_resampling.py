"""Draws: every row with the same probability, every replicate from a stream of its own."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scoreprism._core import resampling


def test_draws_are_uniform_and_words_without_a_row_are_drawn_again():
    """Pearson's χ² of 200·50 draws over 50 rows has mean 49 and variance 98; words below 2³² mod n stand for no row."""
    rng = np.random.default_rng(0)
    tally = sum(resampling.count_rows(rng, 50) for _ in range(200))
    assert tally.sum() == 10000
    assert abs(((tally - 200.0) ** 2 / 200.0).sum() - 49) < 3 * np.sqrt(98)

    class Scripted:
        """Quarters of 2³²: 0, 0 and 3 first; each 0 stands for no row and is drawn again, as 2 and 1."""

        words = iter([0, 3 << 30, (1 << 62) + (2 << 30)])

        def random_raw(self, size):
            return np.array([next(self.words) for _ in range(size)], dtype=np.uint64)

    assert resampling.draw_rows(SimpleNamespace(bit_generator=Scripted()), 3).tolist() == [2, 1, 0]


def test_streams_are_the_children_of_one_seed():
    """Replicate b draws what numpy's ``SeedSequence(seed).spawn(n)[b]`` draws, whatever n."""
    streams = resampling.Streams(5)
    for n in (4, 9):
        child = np.random.SeedSequence(5).spawn(n)[3]
        assert np.array_equal(streams(3).random(8), np.random.default_rng(child).random(8))
        grandchild = child.spawn(2)[1]
        assert np.array_equal(streams(3, 1).random(8), np.random.default_rng(grandchild).random(8))


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("block", [1, 7, 16, 100])
def test_replicates_do_not_depend_on_blocks_or_jobs(block, n_jobs):
    streams = resampling.Streams.of(0)
    found = resampling.replicate(lambda some: np.array([streams(b).random(2) for b in some]), 20, n_jobs, block=block)
    assert np.array_equal(found, [streams(b).random(2) for b in range(20)])


def test_groups_are_drawn_whole():
    group = np.array([0, 2, 1, 1, 2, 0, 0])
    counts = resampling.count_grouped_rows(np.random.default_rng(1), group, 3)
    assert all(np.ptp(counts[group == g]) == 0 for g in range(3))
    assert sum(counts[group == g][0] for g in range(3)) == 3


def test_pooled_rows_are_drawn_as_often_as_rows():
    """Lines of 1, 2 and 5 rows are drawn in these proportions: 8000 draws deviate by 4 standard errors at most."""
    rng, size = np.random.default_rng(2), np.array([1.0, 2.0, 5.0])
    total = sum(resampling.count_pooled_rows(rng, size) for _ in range(1000))
    share = size / 8
    assert total.sum() == 8000
    assert (np.abs(total - 8000 * share) < 4 * np.sqrt(8000 * share * (1 - share))).all()


def test_classes_follow_their_law():
    """Rows of three laws; no class of probability 0 is drawn, and the others as often as 20 000 draws allow."""
    law = np.array([[0.2, 0.5, 0.3], [0.0, 0.6, 0.4], [0.7, 0.3, 0.0]])
    codes = resampling.draw_classes(np.random.default_rng(3), law, 20_000)
    share = np.stack([(codes == k).mean(axis=0) for k in range(3)], axis=1)
    assert (np.abs(share - law) <= 4 * np.sqrt(law * (1 - law) / 20_000)).all()
