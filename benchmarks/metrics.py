"""ECE against netcal, and what the other metrics and their intervals cost."""

from __future__ import annotations

import numpy as np

from benchmarks.runner import Case
from scoreprism import metrics


def cases() -> list[Case]:
    found = []
    rng = np.random.default_rng(2)
    try:
        from netcal.metrics.confidence import ECE

        peer = ECE(10)
    except ImportError as error:
        peer = None
        print(f"ece        skipped: netcal is missing ({error}); python -m pip install netcal")
    try:
        from relplot.metrics import smECE
    except ImportError:
        print("smece      skipped: relplot is missing; python -m pip install relplot")
    else:
        s = rng.random(10**5)
        y = (rng.random(10**5) < s**1.2).astype(float)
        found.append(
            Case(
                "smece", "n=100000", lambda y=y, s=s: metrics.smece(y, s), lambda y=y, s=s: smECE(s, y), "relplot",
                1 / 3, 9,
            )
        )  # fmt: skip
    for n in (10**4, 10**6):
        s = rng.random(n)
        y = (rng.random(n) < s**1.2).astype(int)
        if peer is not None:
            found.append(
                Case(
                    "ece",
                    f"10 bins, n={n}",
                    lambda y=y, s=s: metrics.ece(y, s, n_bins=10),
                    lambda y=y, s=s, peer=peer: peer.measure(s, y),
                    "netcal",
                    1 / 8 if n == 10**6 else None,
                    9,
                    max(1, 10**4 // n),
                )
            )
        for name in ("ici", "auc", "calibration_slope"):
            found.append(
                Case(
                    name,
                    f"n={n}",
                    lambda y=y, s=s, f=metrics.METRICS[name]: f(y, s),
                    lambda s=s: np.sort(s),
                    "numpy sort",
                    None,
                    3,
                )
            )
        found.append(
            Case(
                "evaluate",
                f"all, 200 resamples, n={n}",
                lambda y=y, s=s: metrics.evaluate(y, s, n_resamples=200, random_state=0),
                lambda s=s: np.sort(s),
                "numpy sort",
                None,
                1,
            )
        )
    return found
