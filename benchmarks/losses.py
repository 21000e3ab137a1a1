"""Losses at n = 10⁶, K = 10: the loss against ``p + 1``, divergences against ``np.log(p)``."""

from __future__ import annotations

import numpy as np

from benchmarks.runner import Case, peak_megabytes
from scoreprism.losses import LOSSES, Brier, LogLoss, get_loss

N, K = 1_000_000, 10


def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(K), N), rng.dirichlet(np.ones(K), N)
    near = 0.98 * p + 0.02 * q
    y = rng.integers(0, K, N)
    found = []
    for name in LOSSES:
        loss = get_loss(name)
        if not loss.binary_only:
            found.append(Case("losses", f"{loss}.loss", lambda f=loss: f.loss(p, y), lambda: p + 1, "numpy p + 1", 2.0))
    for loss in (LogLoss(), Brier()):
        found.append(
            Case(
                "losses",
                f"{loss}.divergence",
                lambda f=loss: f.divergence(p, q),
                lambda: np.log(p),
                "numpy log(p)",
                2.0,
            )
        )
    found.append(
        Case(
            "losses",
            "log.divergence, nearby laws",
            lambda: LogLoss().divergence(p, near),
            lambda: np.log(p),
            "numpy log(p)",
        )
    )
    p1, y1 = p[:, 0].copy(), (y == 0).astype(int)
    for name in ("brier", "log", "beta", "elementary"):
        loss = get_loss(name)
        found.append(
            Case("losses", f"{loss}.loss, binary", lambda f=loss: f.loss(p1, y1), lambda: np.log(p1), "numpy log(p)")
        )
    size = p.nbytes / 2**20
    for loss in (LogLoss(), Brier()):
        print(
            f"memory     {loss}: loss {peak_megabytes(lambda f=loss: f.loss(p, y)) / size:.2f}, "
            f"divergence {peak_megabytes(lambda f=loss: f.divergence(p, q)) / size:.2f} times the size of p (bar: 2 temporaries)"
        )
    return found
