"""``python -m benchmarks.roughness [--simulations 100] [--draw]``: coverage of intervals as calibration curves get rougher.

C = S + .07·sin(2πkS), tapered at the ends, for k waves. The intervals of one partition and four maps, which the library had before,
are kept as numbers: they were measured with the same laws and seeds by the version of November 2026 before this study.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import scoreprism
from scoreprism._core.simplex import FloatArray

#: Waves over the range of the scores.
WAVES = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16)
AMPLITUDE, ROWS = 0.07, 2000
#: Coverage before: one partition, four maps; 100 samples each (Monte-Carlo error up to .05).
BEFORE = {0: 1.0, 1: 0.96, 2: 0.93, 3: 0.98, 4: 0.96, 6: 0.95, 8: 0.82, 10: 0.39, 12: 0.2, 16: 0.14}
#: What `python -m benchmarks.roughness` found last: any shape, smooth.
FOUND = Path(__file__).parent / "roughness.json"


def curve(s: FloatArray, waves: int) -> FloatArray:
    taper = np.minimum(1.0, np.minimum(s / AMPLITUDE, (1.0 - s) / AMPLITUDE))
    return s + AMPLITUDE * np.sin(2.0 * np.pi * waves * s) * taper


def sample(waves: int, number: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng([waves, number])
    s = rng.uniform(0.05, 0.95, ROWS)
    return s, (rng.random(ROWS) < curve(s, waves)).astype(np.intp)


def truth(waves: int) -> float:
    s = np.linspace(0.05, 0.95, 200_001)
    return float(np.mean((curve(s, waves) - s) ** 2))


def study(simulations: int) -> dict[str, dict[str, float]]:
    """Coverage by waves."""
    found: dict[str, dict[str, float]] = {"any shape": {}, "smooth": {}}
    for waves in WAVES:
        true, hits = truth(waves), np.zeros((simulations, 2))
        for number in range(simulations):
            s, y = sample(waves, number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                d = scoreprism.decompose(y, s, loss="brier")
            for j, method in enumerate(("any-shape", "smooth")):
                interval = d.interval("reliability", method=method)
                hits[number, j] = interval.low <= true <= interval.high
        found["any shape"][str(waves)], found["smooth"][str(waves)] = hits.mean(axis=0).tolist()
        print(waves, hits.mean(axis=0), file=sys.stderr)
    return found


def draw(found: dict[str, dict[str, float]], path: Path) -> None:
    """The figure of docs/statistics.md."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        lines = (("any shape, the default", "any shape", "#0b6e4f", "-"), ("smooth", "smooth", "#d98e04", "--"))
        for label, key, ink, style in lines:
            values = found[key]
            ax.plot([int(k) for k in values], list(values.values()), style, color=ink, marker="o", ms=4, label=label)
        if BEFORE:
            ax.plot(
                list(BEFORE),
                list(BEFORE.values()),
                ":",
                color="#8a8a8a",
                marker="s",
                ms=4,
                label="before: one partition, four maps",
            )
        ax.axhline(0.95, color="#8a8a8a", lw=0.8)
        ax.annotate("95 %", (WAVES[-1], 0.95), xytext=(0, 3), textcoords="offset points", ha="right", color="#6a6a6a")
        ax.set(xlabel="waves of the calibration curve between S = 0 and 1", ylabel="coverage", ylim=(0, 1.04))
        ax.legend(frameon=False, loc="lower left")
        figure.savefig(path, dpi=160)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roughness", description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument(
        "--draw", action="store_true", help="only draw docs/figures/roughness.png from the numbers kept"
    )
    options = parser.parse_args(arguments)
    if not options.draw:
        FOUND.write_text(json.dumps(study(options.simulations), indent=1) + "\n", encoding="utf-8")
    draw(
        json.loads(FOUND.read_text(encoding="utf-8")), Path(__file__).parents[1] / "docs" / "figures" / "roughness.png"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
