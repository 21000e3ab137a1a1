"""Losses at n = 10⁶, K = 10 against ``p + 1`` and ``np.log(p)``; many classes against scikit-learn."""

from __future__ import annotations

import numpy as np

from benchmarks.runner import Case, peak_megabytes
from scoreprism import Chain, Level
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
    return [*found, *many_classes()]


def many_classes(n=10**5, k=1000):
    """An array of 800 MB, which must not be copied. scikit-learn takes seconds and gigabytes: it is timed once."""
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(1)
    p, y = rng.random((n, k)), rng.integers(0, k, n)
    p /= p.sum(axis=1, keepdims=True)
    q, labels = np.roll(p, 1, axis=1), np.arange(k)

    def chain():
        return Chain(y, [Level("S", p), Level("C", q)], classes=labels).decompose("log")

    def peer():
        return log_loss(y, p, labels=labels)

    for name, function in (("loss", lambda: LogLoss().loss(p, y)), ("chain of two laws", chain)):
        print(f"memory     log, K={k}: {name} {peak_megabytes(function) / (p.nbytes / 2**20):.3f} times the size of p")
    return [
        Case(
            "losses", f"log.loss, n=10⁵, K={k}", lambda: LogLoss().loss(p, y), peer, "scikit-learn log_loss", 1 / 50, 1
        ),
        Case("losses", f"log, two laws, n=10⁵, K={k}", chain, peer, "two times log_loss", None, 1, share=1 / 2),
    ]
