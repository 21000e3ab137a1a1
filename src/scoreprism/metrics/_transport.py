"""How far recalibration moves scores: Wasserstein distances between the laws of S and g(S)."""

from __future__ import annotations

import numpy as np

from scoreprism._validation import (
    parse_choice,
    parse_count,
    parse_law,
    parse_random_state,
    parse_weights,
    refuse,
    require_rows,
)
from scoreprism.metrics._estimate import Estimate, Inference
from scoreprism.intervals import Interval
from scoreprism.inference._corp import stream_of
from scoreprism.inference._ranked import drawn
from scoreprism.simplex import ArrayLike, FloatArray, as_vector, n_classes

METHODS = ("auto", "exact", "sliced")
#: Rows up to which "auto" solves the transport between points of the simplex exactly.
_EXACT = 400
