"""What the outcomes of the nearest rows say against what a law expects of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scoreprism._core.numerics import EDGE
from scoreprism._core.simplex import FloatArray, IntArray, one_hot, pick
from scoreprism._sample.features import Features

#: Neighbours, and rows that the law counts for beside them, of which the likeliest pair is used.
_COUNTS, _SHRINKAGES = (8, 32), (4.0, 16.0, 64.0, 256.0)
#: Rows that they are judged on, at most.
_JUDGES = 4000


@dataclass(frozen=True)
class LocalVotes:
    """Training rows with their outcomes and the law that is to be shifted."""

    features: Features
    law: FloatArray  # (n, K)
    codes: IntArray
    mass: FloatArray
    count: int = _COUNTS[0]
    shrinkage: float = _SHRINKAGES[-1]

    def choose(self, rng: np.random.Generator) -> LocalVotes:
        """The number of neighbours and the shrinkage of the largest likelihood; no row votes for itself."""
        judges = np.arange(self.codes.size)
        if judges.size > _JUDGES:
            judges = np.sort(rng.choice(judges.size, _JUDGES, replace=False))
        features, law, best = self.features.part(judges), self.law[judges], (-np.inf, self)
        for count in _COUNTS:
            votes = replace(self, count=count).sum_votes(features)
            for shrinkage in _SHRINKAGES:
                hit = pick(_shift(law, *votes, shrinkage), self.codes[judges])
                value = float(self.mass[judges] @ np.log(np.maximum(hit, EDGE)))
                if value > best[0]:
                    best = value, replace(self, count=count, shrinkage=shrinkage)
        return best[1]

    def sum_votes(self, features: Features) -> tuple[FloatArray, FloatArray]:
        """Weight of the outcomes of the neighbours of each row, and what the law expects of these, (rows, K) each."""
        from scipy.sparse import csr_array

        rows = self.features.rows
        near = self.features.cloud.find_neighbours(rows, features.cloud, features.rows, self.count)
        known = near >= 0
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        places = near[known]
        votes = csr_array((self.mass[places], places, ends), shape=(near.shape[0], rows.size))
        return votes @ one_hot(self.codes, self.law.shape[1]), votes @ self.law

    def shift(self, features: Features, law: FloatArray) -> FloatArray:
        """The law of some rows times what their neighbours say."""
        return _shift(law, *self.sum_votes(features), self.shrinkage)


def _shift(law: FloatArray, observed: FloatArray, expected: FloatArray, shrinkage: float) -> FloatArray:
    """Each class times (observed + m·law) / (expected + m·law): a Dirichlet posterior where neighbours have one law."""
    prior = shrinkage * np.maximum(law, EDGE)
    shifted: FloatArray = prior * (observed + prior) / (expected + prior)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted
