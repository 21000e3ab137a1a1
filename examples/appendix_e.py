"""Appendix E of the paper: three recalibration maps, and how far they are from the truth as a function of h.

Draws docs/figures/appendix_e.png with the code of ``python -m reproduction``: distances of the recalibrated score from
the exact C, for maps fitted on four folds and applied to the fifth.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from reproduction import PLANS, Work
from reproduction.drawing import shared_legend
from reproduction.maps import BANDWIDTHS, SIZES, mean_distances, scored, three_maps
from reproduction.maps_figures import READINGS, draw_data, draw_distances, draw_maps
from scoreprism.displays import house_style


def main() -> None:
    sample, found = scored(500, seed=1), mean_distances(Work(PLANS["full"], n_jobs=2))
    values = found.of("truth")
    with house_style():
        figure = Figure(figsize=(9, 7.6), layout="constrained")
        axes = figure.subplots(2, 2)
        draw_data(axes[0, 0], sample)
        draw_maps(axes[0, 1], three_maps(sample))
        for m, title in enumerate(
            ("Integrated calibration index, cross-fitted", "Local calibration score, cross-fitted")
        ):
            draw_distances(axes[1, m], values[..., m], float(found.exact[m]), title, READINGS["truth"][1])
        shared_legend(axes[1])
        figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "appendix_e.png", dpi=150)
    for k, best in zip(SIZES, values.argmin(axis=1), strict=True):
        print(f"k = {k}: smallest ICI at h = {BANDWIDTHS[best[0]]:g}, smallest LCS at h = {BANDWIDTHS[best[1]]:g}")


if __name__ == "__main__":
    main()
