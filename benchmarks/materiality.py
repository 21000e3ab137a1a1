"""How often "needs no recalibration" and "not worth a change" are said, are false, and change with the folds: the table of docs/statistics.md.

``python -m benchmarks.materiality [--repeats N] [--sizes N …]``. A statement is false where recalibrating with the true P(Y | S) would gain
1 % of the loss or more. The laws gain just less, and just more, than that.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy.optimize import brentq

import scoreprism
from scoreprism._core.numerics import clipped_sigmoid, log_odds
from scoreprism.losses import get_loss

CLAIMS = ("calibrated_enough", "not_material", "recalibrate")


def slope(score, amount):
    """Scores that are too extreme."""
    return clipped_sigmoid((1.0 - amount) * log_odds(score, 1e-9))


def waves(score, amount):
    """Event rates that swing around the score, ten times."""
    return np.clip(score + amount * np.sign(np.sin(20.0 * np.pi * score)) * score * (1.0 - score), 0.001, 0.999)


LAWS = {"slope": slope, "waves": waves}


def shares(law, amount, loss, score):
    """What recalibration gains, as a share of the loss, over a fine grid of scores."""
    truth = law(score, amount)
    gain = loss.divergence(score, truth).mean()
    return gain / (gain + loss.entropy(truth).mean())


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.materiality")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000])
    options = parser.parse_args(arguments)
    repeats = options.repeats
    loss = get_loss("log")
    grid = clipped_sigmoid(1.5 * np.random.default_rng(1).normal(size=200_000))
    print("| law | gain | n | " + " | ".join(CLAIMS) + " | false | other folds |")
    print("|---|---:|---:|" + "---:|" * (len(CLAIMS) + 2))
    for name, law in LAWS.items():
        for wanted in (0.0, 0.005, 0.011, 0.02):
            amount = brentq(lambda a, w=wanted, f=law: shares(f, a, loss, grid) - w, 0.0, 0.9) if wanted else 0.0
            for n in options.sizes:
                said, false, moved = dict.fromkeys(CLAIMS, 0), 0, 0
                for seed in range(repeats):
                    rng = np.random.default_rng([seed, n])
                    score = rng.choice(grid, n)
                    y = (rng.random(n) < law(score, amount)).astype(int)
                    kinds, others = (
                        {one.kind for one in scoreprism.decompose(y, score, random_state=folds).conclusions()}
                        for folds in (0, 1)
                    )
                    moved += kinds != others
                    for claim in CLAIMS:
                        said[claim] += claim in kinds
                    small = bool(kinds & {"calibrated_enough", "not_material"})
                    false += (small and wanted >= 0.01) or ("recalibrate" in kinds and wanted < 0.01)
                rates = " | ".join(f"{said[claim] / repeats:.3f}" for claim in CLAIMS)
                print(
                    f"| {name} | {100 * wanted:g} % | {n} | {rates} | {false / repeats:.3f} | {moved / repeats:.3f} |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
