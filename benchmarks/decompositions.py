"""CORP against model-diagnostics, and the cost of a chain as n grows."""

from __future__ import annotations

import importlib.util

import numpy as np

from benchmarks.runner import Case
from scoreprism import Chain, Level, corp_decomposition


def cases() -> list[Case]:
    found = []
    rng = np.random.default_rng(1)
    peer = importlib.util.find_spec("model_diagnostics")
    for n in (10**3, 10**4, 10**5, 10**6):
        s = rng.random(n)
        y = (rng.random(n) < s**1.2).astype(int)
        levels = [Level("S", s), Level("C", np.clip(s**1.2, 1e-9, 1 - 1e-9))]
        repeats = 9 if n < 10**6 else 3
        found.append(
            Case(
                "chain",
                f"log, two levels, n={n}",
                lambda y=y, v=levels: Chain(y, v).decompose("log"),
                lambda s=s: np.log(s),
                "numpy log",
                None,
                repeats,
            )
        )
        if peer is None:
            print("corp       skipped: model-diagnostics is missing; python -m pip install model-diagnostics")
            continue
        from model_diagnostics.scoring import LogLoss, SquaredError, decompose

        def ours(y=y, s=s):
            return [corp_decomposition(y, s, loss=loss) for loss in ("brier", "log")]

        def theirs(y=y, s=s):
            return [decompose(y, s, scoring_function=f) for f in (SquaredError(), LogLoss())]

        found.append(
            Case(
                "corp",
                f"brier and log, n={n}",
                ours,
                theirs,
                "model-diagnostics",
                1 / 6,
                repeats,
                max(1, 5 * 10**4 // n),
            )
        )
    return found
