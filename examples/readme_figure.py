"""Draw the figure of the README: exact terms of four scores on the paper's synthetic law."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from scoreprism.datasets import CopulaLaw
from scoreprism.simplex import sigmoid

INK, GREY = "#222222", "#6b6b6b"
COLOURS = {"grouping": "#0072b2", "reliability": "#e69f00"}
LABELS = {"grouping": "grouping: a better score can fix it", "reliability": "reliability: recalibration can fix it"}
OUT = Path(__file__).parents[1] / "docs" / "figures" / "readme.png"


def recalibrated(law, score):
    """The score after perfect recalibration: E[Y | S]."""
    nodes = law.score_law(score)
    return lambda x1, x2: np.interp(score(x1, x2), nodes.score, nodes.calibrated)


def scores(law):
    """An overconfident model on one feature, one on both, and each after perfect recalibration."""

    def one(x1, x2):
        return sigmoid(6 * x1 - 3)

    def both(x1, x2):
        return sigmoid(5 * (x1 + x2 - 1))

    return {
        "model on x₁": one,
        "model on x₁, recalibrated": recalibrated(law, one),
        "model on x₁ and x₂": both,
        "model on x₁ and x₂, recalibrated": recalibrated(law, both),
    }


def draw(law):
    terms = {name: law.population(score, "log") for name, score in scores(law).items()}
    floor = law.irreducible("log")
    with mpl.rc_context({"font.size": 10, "axes.edgecolor": GREY, "text.color": INK, "axes.labelcolor": INK}):
        figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
        for row, value in enumerate(reversed(terms.values())):
            start = floor
            for term, colour in COLOURS.items():
                width = getattr(value, term)
                ax.barh(row, width, left=start, color=colour, height=0.56, label=LABELS[term] if row == 0 else None)
                if width > 0.006:
                    ink = "white" if term == "grouping" else INK
                    ax.text(
                        start + width / 2, row, f"{width:.3f}", ha="center", va="center", color=ink, fontweight="bold"
                    )
                start += width
            ax.text(start + 0.0012, row, f"{value.risk:.3f}", va="center")
        ax.axvline(floor, color=INK, linewidth=1)
        ax.text(floor + 0.0008, 3.62, f"irreducible {floor:.3f}: only better data can fix it", va="center", color=GREY)
        ax.set_yticks(range(len(terms)), list(reversed(terms)))
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(floor - 0.004, max(v.risk for v in terms.values()) + 0.009)
        ax.set_xlabel("expected log loss, in nats")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_ylim(-0.5, 3.85)
        figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    draw(CopulaLaw()).savefig(OUT, dpi=160)
    print(f"wrote {OUT.relative_to(Path.cwd())}" if OUT.is_relative_to(Path.cwd()) else f"wrote {OUT.name}")
