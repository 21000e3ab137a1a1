"""What figures of several axes share: a grid of them in the house style."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from scoreprism.displays import house_style
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.report import Figure, Table


def grid_figure(
    key: str,
    title: str,
    description: str,
    draw: Callable[[Any], Any],
    data: Table | None = None,
    *,
    size: tuple[float, float],
    shape: tuple[int, int],
    **options: Any,
) -> Figure:
    """A figure of rows × columns of axes, drawn when it is needed; `draw` gets an array of them."""

    def drawn() -> Any:
        from matplotlib.figure import Figure as Canvas

        with house_style(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)
            canvas = Canvas(figsize=size, layout="constrained")
            draw(canvas.subplots(*shape, squeeze=False, **options))
        return canvas

    return Figure(key, title, description, drawn, data)


def shared_legend(axes: Any) -> None:
    """What the first axes show, below all of them."""
    first = axes.flat[0]
    handles, labels = first.get_legend_handles_labels()
    first.figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
