"""Many classes: temperature scaling against scikit-learn's; ``python -m benchmarks.classes`` times `decompose` itself."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from scipy.special import softmax

from benchmarks.runner import Case
from scoreprism import Logits, decompose
from scoreprism.calibrators import TemperatureCalibrator

#: Rows and classes that `decompose` is timed on; the last takes minutes and much memory.
SIZES = ((10_000, 3), (50_000, 10), (10_000, 100))


def draw(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are 1.3 times too bold, and outcomes, in which every class occurs."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(k, size=n)] += 2.0
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[:k] = np.arange(k)
    return 1.3 * z, y


def mean_loss(z: np.ndarray, y: np.ndarray, sharpness: float) -> float:
    """Log loss of tempered logits."""
    return float(-np.log(softmax(sharpness * z, axis=1)[np.arange(y.size), y]).mean())


def cases() -> list[Case]:
    from sklearn.calibration import _TemperatureScaling

    found = []
    for n, k, bar in ((50_000, 10, 1 / 3), (10_000, 100, 1 / 4), (5_000, 1000, 1 / 5)):
        z, y = draw(n, k)
        ours, theirs = TemperatureCalibrator(kind="logit").fit(z, y), _TemperatureScaling().fit(z, y)
        gap = mean_loss(z, y, ours.map_.sharpness) - mean_loss(z, y, theirs.beta_)
        print(f"temperature, {n}×{k}: our loss − scikit-learn's {gap:.1e}")
        found.append(
            Case(
                "classes",
                f"temperature, {n}×{k}",
                lambda z=z, y=y: TemperatureCalibrator(kind="logit").fit(z, y),
                lambda z=z, y=y: _TemperatureScaling().fit(z, y),
                "scikit-learn",
                bar,
                5,
            )
        )
    return found


def main() -> None:
    """CPU and wall seconds of `decompose`, and the memory of the process so far."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes", description=main.__doc__)
    parser.add_argument("sizes", nargs="*", metavar="N×K", help="for example 10000x3; all by default")
    parser.add_argument("--single", action="store_true", help="logits in single precision")
    options = parser.parse_args()
    sizes = [tuple(map(int, one.replace("×", "x").split("x"))) for one in options.sizes] or SIZES
    print("| rows × classes | wall, s | CPU, s | peak memory, MB |\n|---|---:|---:|---:|")
    for n, k in sizes:
        z, y = draw(n, k)
        z = z.astype(np.float32) if options.single else z
        wall, cpu = time.perf_counter(), time.process_time()
        decompose(y, Logits(z))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {n:,} × {k} | {wall:.2f} | {cpu:.2f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
