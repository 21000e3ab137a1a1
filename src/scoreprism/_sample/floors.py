"""How far scores are kept from 0 and 1 where a loss is infinite: what is shown beside it, and beside its rivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scoreprism._sample.sample import Sample
from scoreprism.losses import ProperLoss


def floor_of(sample: Sample) -> float:
    """
    How far scores are kept from 0 and 1 where a loss is shown beside one that is infinite: 1/(2n).

    Rows that have weight are counted, not their weights: models that are compared on the same rows have the same floor.
    """
    return min(0.5 / max(sample.n_held, 1), 1.0 / sample.k)


def find_floors(samples: Sequence[Sample], losses: Iterable[ProperLoss], clip: float | None) -> dict[str, float]:
    """How far scores are kept from 0 and 1, beside what was asked for, by each loss that is infinite."""
    if clip is not None or not samples:
        return {}
    floor = min(floor_of(sample) for sample in samples)
    return {str(loss): floor for loss in losses if any(has_infinite(sample, loss) for sample in samples)}


def has_infinite(sample: Sample, loss: ProperLoss) -> bool:
    """Whether the prediction gave probability 0 to something that happened, and the loss is infinite there."""
    return bool(sample.total(np.isinf(loss.evaluate(sample.prediction, sample.y)).astype(float)) > 0.0)
