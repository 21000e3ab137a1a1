"""Tables of named terms: what every result shares, and the contributions of groups."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import FloatArray
from scoreprism._core.wording import visible
from scoreprism._document.drawing import draw
from scoreprism._kernels.term_intervals import Interval
from scoreprism.exceptions import UnavailableError

#: Columns of sentences, which start at the left.
_WORDS = frozenset({"what reduces it", "what"})


class TextTable(ABC):
    """A table as text and as HTML, with a title above and sentences below."""

    @abstractmethod
    def _columns(self) -> dict[str, list[Any]]:
        """What is shown, column by column."""

    @abstractmethod
    def _title(self) -> str:
        """What stands above the table."""

    def _footer(self) -> list[str]:
        return []

    def _twin(self) -> TextTable | None:
        """The table that stands beside this one: that of the same loss at a floor, where it is infinite."""
        return None

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self._columns()
        heads = [_inline(name.replace("_", " ")) for name in columns]
        digits = self._digits()
        lines = [
            [_inline(_cell(name, value, digits)) for name, value in zip(columns, line, strict=True)]
            for line in zip(*columns.values(), strict=True)
        ]
        return heads, lines

    def _digits(self) -> int:
        return decimals(self._columns())

    def __repr__(self) -> str:
        return "\n".join([self._text(), *map(visible, self._footer())])

    def _text(self) -> str:
        """Title and table, without what stands below."""
        heads, lines = self._cells()
        widths = [max(len(row[i]) for row in [heads, *lines]) for i in range(len(heads))]
        text = [visible(self._title())]
        left = [i == 0 or head in _WORDS for i, head in enumerate(heads)]
        for row in [heads, *lines]:
            cells = zip(row, widths, left, strict=True)
            padded = [cell.ljust(width) if first else cell.rjust(width) for cell, width, first in cells]
            text.append("  " + "  ".join(padded).rstrip())
        twin = self._twin()
        return "\n".join(text if twin is None else [*text, twin._text()])

    def _repr_html_(self) -> str:
        return self._figure(self._footer())

    def _figure(self, below: Sequence[str] = ()) -> str:
        """Title and table for a page, with sentences below."""
        heads, lines = self._cells()
        title, *details = (html.escape(line.strip()) for line in visible(self._title()).splitlines())
        small = "".join(f'<br><span style="opacity:.7">{line}</span>' for line in details)
        head = "".join(_html_cell("th", "col", text, first=i == 0, ruled=True) for i, text in enumerate(heads))
        rows = [
            _html_cell("th", "row", line[0], first=True) + "".join(_html_cell("td", "", text) for text in line[1:])
            for line in lines
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        notes = "".join(f'<p style="margin:.3em 0;opacity:.7">{html.escape(visible(note))}</p>' for note in below)
        table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        twin = self._twin()
        return (
            '<figure style="margin:0 0 1em">'
            f'<figcaption><span style="font-weight:bold">{title}</span>{small}</figcaption>'
            f'<table style="border-collapse:collapse;margin:.4em 0;color:inherit">{table}</table>'
            f"{'' if twin is None else twin._figure()}{notes}</figure>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class TermTable(TextTable):
    """What every result with named terms has: estimates, standard errors, a frame, a text and an HTML table."""

    names: tuple[str, ...]
    _backend: str | None

    @property
    @abstractmethod
    def terms(self) -> dict[str, float]:
        """Estimate of each term."""

    def _shown_interval(self, name: str, level: float = 0.95) -> Interval:
        """The interval of a term, or NaN where there is none to be had."""
        try:
            found: Interval = self.interval(name, level)  # type: ignore[attr-defined]
        except UnavailableError:
            return Interval(math.nan, math.nan, level, "none")
        return found

    def _by_term(self) -> dict[str, dict[str, Any]]:
        """The table, term by term."""
        columns = self._columns()
        return {name: {key: columns[key][i] for key in columns if key != "term"} for i, name in enumerate(self.names)}

    def to_frame(self, backend: str | None = None) -> Any:
        """
        The table of terms as a dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per term.
        """
        return make_frame(self._columns(), backend or self._backend)


def _inline(text: str) -> str:
    """The text of a cell: names come from somebody's data and may hold controls or marks of direction."""
    return visible(text).replace("\n", " ")


def _html_cell(tag: str, scope: str, text: str, *, first: bool = False, ruled: bool = False) -> str:
    """A cell that looks right on light and dark pages: no colours of its own."""
    style = f"padding:.2em .8em .2em 0;text-align:{'left' if first else 'right'};font-variant-numeric:tabular-nums"
    style += ";border-bottom:1px solid currentColor" if ruled else ""
    style += ";font-weight:normal" if scope == "row" else ""
    scoped = f' scope="{scope}"' if scope else ""
    return f'<{tag}{scoped} style="{style}">{html.escape(text)}</{tag}>'


def decimals(columns: Mapping[str, Sequence[Any]]) -> int:
    """Decimals of a table of terms: five, more where its standard errors (or the ends of its intervals) are tiny."""
    errors = [abs(value) for value in columns.get("std_error", ()) if isinstance(value, float) and value]
    ends = [abs(value) for value in columns.get("high", ()) if isinstance(value, float)]
    known = [value for value in errors or ends if math.isfinite(value)]
    finest = min(known, default=1.0) if errors else 0.1 * max(known, default=1.0)
    return 5 if not 0.0 < finest < 1e-5 else min(1 - math.floor(math.log10(finest)), 12)


def thousands(count: int) -> str:
    """A number of rows; from five digits on in groups of three."""
    return f"{count:,}" if count >= 10_000 else str(count)


def floor_mark(distance: float) -> str:
    """What is said with every number that was computed at a floor."""
    short = f"{distance:.2g}"
    plain = np.format_float_positional(float(short), trim="-") if distance >= 1e-6 else short
    return f"with scores kept {plain} from 0 and 1"


def marked(sentence: str, mark: str) -> str:
    """A sentence with its mark; of several sentences, the first has it."""
    if not mark or mark in sentence:
        return sentence
    first, stop, rest = sentence.removesuffix(".").partition(". ")
    return f"{first} ({mark}).{' ' if stop else ''}{rest}{'.' if stop else ''}"


def _cell(column: str, value: Any, digits: int = 5) -> str:
    """A number as it is shown: shares in percent, rows in groups, everything else to five decimals or more."""
    if column == "rows" and isinstance(value, int):
        return thousands(value)
    if column == "p_holm":
        digits = 5
        if value < 1e-5:
            return "< 0.00001"
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "–"
    return f"{round(100 * value, 1) + 0.0:.1f} %" if column == "share" else f"{round(value, digits) + 0.0:.{digits}f}"


class Drawable:
    """A result that has a figure."""

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """
        Draw the result.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **options : object
            What the ``plot`` of its display takes.

        Returns
        -------
        display
            With its axes and artists.
        """
        return draw(self, ax=ax, **options)


@dataclass(frozen=True, eq=False, repr=False)
class Contributions(TermTable):
    """
    What each group of rows contributes to the terms of the whole.

    Made by `Decomposition.contributions`. Not the decomposition of the groups: laws are those of the whole.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    groups : tuple
        Group labels.
    weight : array of shape (groups,)
        Share of the total weight.
    values : array of shape (groups, terms)
        Contributions; each column adds up to its term.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([0, 1, 0, 1], [Level("S", [0.2, 0.7, 0.3, 0.8]), Level("C", [0.1, 0.7, 0.3, 0.9])])
    >>> chain.decompose("brier").contributions(["a", "a", "b", "b"]).values.sum(axis=0).round(4)
    array([0.015, 0.05 ])
    """

    groups: tuple[Any, ...]
    weight: FloatArray
    values: FloatArray

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the whole: column sums."""
        return dict(zip(self.names, self.values.sum(axis=0).tolist(), strict=True))

    @property
    def mean(self) -> FloatArray:
        """Mean of the rows of each group, shape (groups, terms); NaN for a group without weight."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.values / self.weight[:, None]

    def to_dict(self) -> dict[str, Any]:
        """
        The contributions as plain Python objects.

        Returns
        -------
        dict
            Group → weight and terms.
        """
        return {
            str(group): {"weight": float(weight), **dict(zip(self.names, line.tolist(), strict=True))}
            for group, weight, line in zip(self.groups, self.weight, self.values, strict=True)
        }

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"group": list(self.groups), "weight": self.weight.tolist()}
        return columns | {name: self.values[:, i].tolist() for i, name in enumerate(self.names)}

    def _title(self) -> str:
        return (
            f"Contributions of {len(self.groups)} groups to the terms of the whole (not decompositions of the groups)"
        )
