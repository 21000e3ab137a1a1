"""Colours for light and dark backgrounds, and styles of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._document.colours import INKS, LINES_OF, OTHERS, PALETTES, TERMS

#: Axes of matplotlib, whose stubs reject styles passed as dicts of keyword arguments.
Canvas: TypeAlias = Any

#: Line styles, which distinguish models once the colours are used up.
LINES: tuple[Any, ...] = ("-", (0, (5, 1.8)), (0, (1.2, 1.6)), (0, (6, 1.6, 1.2, 1.6)))
#: Markers, which do so where there are no lines.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def _find_luminance(colour: Any) -> float:
    """Relative luminance (WCAG) of a colour."""
    from matplotlib.colors import to_rgb

    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@dataclass(frozen=True)
class Inks:
    """Colours that are readable on a background."""

    mode: str  # "light" or "dark" paper
    ink: str  # text and main lines
    quiet: str  # secondary lines and text
    faint: str  # lines that only guide the eye
    paper: str  # white or black

    @classmethod
    def on(cls, paper: Any) -> Inks:
        """Inks for a colour of paper."""
        mode = "light" if _find_luminance(paper) > 0.18 else "dark"
        return cls(mode, *INKS[mode])

    @classmethod
    def of(cls, ax: Canvas) -> Inks:
        """Inks for the background of axes; where that is transparent, of the figure."""
        from matplotlib.colors import to_rgba

        part = ax
        while part is not None:  # axes, the part of a figure they may be in, the figure
            if to_rgba(part.get_facecolor())[3] > 0.5:
                return cls.on(part.get_facecolor())
            part = part.figure if part is ax else getattr(part, "_parent", None)
        return cls.on("white")

    @property
    def _column(self) -> int:
        return 0 if self.mode == "light" else 1

    def model(self, index: int) -> dict[str, Any]:
        """How the line of a model looks."""
        palette = PALETTES[self.mode]
        return {"color": palette[index % len(palette)], "linestyle": LINES[(index // len(palette)) % len(LINES)]}

    def term(self, name: str, names: Sequence[str] = ()) -> str:
        """The colour of a term."""
        if name in TERMS:
            return TERMS[name][self._column]
        unnamed = [other for other in names if other not in TERMS]
        return OTHERS[unnamed.index(name) % len(OTHERS) if name in unnamed else 0][self._column]

    def line(self, name: str, names: Sequence[str] = ()) -> str:
        """The colour of a term where it is a line, which needs more contrast than an area."""
        return LINES_OF.get(self.term(name, names), self.term(name, names))

    @property
    def casing(self) -> list[Any]:
        """Path effects that set a line off from what lies below it."""
        from matplotlib.patheffects import Normal, Stroke

        return [Stroke(linewidth=2.6, foreground=self.paper), Normal()]

    def dress(self, ax: Canvas) -> None:
        """Apply the colours to axes and remove their frame."""
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(self.quiet)
        from matplotlib import rcParams

        ax.tick_params(labelcolor=self.ink, color=self.quiet, labelsize=rcParams["xtick.labelsize"])
        for text in (ax.xaxis.label, ax.yaxis.label):
            text.set(color=self.ink, fontsize=rcParams["axes.labelsize"])


def choose_styles(
    count: int, inks: Inks, curve_kwargs: object, before: int = 0, *, folds: bool = False
) -> list[dict[str, Any]]:
    """How the line of every model is drawn: the palette, then the user's options."""
    alike = curve_kwargs is None or isinstance(curve_kwargs, Mapping)
    options: Any = [curve_kwargs] * count if alike else curve_kwargs
    several = isinstance(options, Sequence) and not isinstance(options, str) and len(options) == count
    if not several or not all(one is None or isinstance(one, Mapping) for one in options):
        got = f"{len(options)} of them" if isinstance(options, (list, tuple)) else repr(curve_kwargs)
        refuse(f"`curve_kwargs` must be a dict, or a list of one dict for each of {count} curves", got, "Pass a dict.")
    thin = {"linewidth": 0.9, "alpha": 0.75} if folds else {}
    looks = [inks.model(before if folds else before + i) | thin for i in range(count)]
    return [look | (parse_line(one) if one else {}) for look, one in zip(looks, options, strict=True)]


def parse_line(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a line, under their long names."""
    from matplotlib.artist import ArtistInspector
    from matplotlib.lines import Line2D

    short = {"c": "color", "ls": "linestyle", "lw": "linewidth", "ms": "markersize"}
    by_long_name = {short.get(key, key): value for key, value in options.items()}
    known = ArtistInspector(Line2D).get_setters()
    for key in by_long_name:
        parse_choice(key, known, "each of curve_kwargs")
    return by_long_name
