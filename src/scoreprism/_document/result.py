"""Result, the base class of results: a document, and from it text, a table for notebooks, JSON and a frame."""

from __future__ import annotations

import html
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np

from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import FloatArray
from scoreprism._document.drawing import draw
from scoreprism._document.model import Block, Callout, Column, Document, Paragraph, Section, Table
from scoreprism._document.result_json import encode
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import visible

#: Columns of numbers that are not shown with the decimals of their table.
_KINDS = {"share": "share", "rows": "count", "n": "count", "p_holm": "pvalue", "pvalue": "pvalue"}
#: Columns that a terminal gives to a table in a notebook or at a prompt.
_WIDTH = 110
#: Lines at the beginning and at the end that a text shows of a long table.
_ENDS = 5
#: A standard error below this share of the largest is rounding: no decimals are shown for its sake.
_ROUNDING = 1e-10


class Result(ABC):
    """A result: `document` holds everything it shows; text, HTML, JSON and frames follow."""

    @abstractmethod
    def _columns(self) -> dict[str, list[Any]]:
        """The table as numbers and names, column by column: what a frame holds."""

    @abstractmethod
    def _title(self) -> str:
        """Heading of the table; lines after the first are details."""

    def _shown_columns(self) -> dict[str, list[Any]]:
        """The table as it is shown; cells may be ranges."""
        return self._columns()

    def _kinds(self) -> Mapping[str, str]:
        """Kinds of the columns that are not shown in the usual way."""
        return {}

    def _findings(self) -> Sequence[Finding]:
        """What was concluded, and what a reader must know."""
        return ()

    def _footer(self) -> list[str]:
        """How it was done."""
        return []

    def _twin(self) -> Result | None:
        """The result that is shown with this one: that of the same loss at a floor, where it is infinite."""
        return None

    def _decimals(self) -> int | None:
        """Decimals of the table."""
        return find_decimals(self._columns())

    def _table(self) -> Table:
        columns, kinds = self._shown_columns(), {**_KINDS, **self._kinds()}
        heads = [Column(name, name.replace("_", " "), _kind(name, values, kinds)) for name, values in columns.items()]
        title, *details = self._title().splitlines()
        note = " ".join(line.strip() for line in details)
        return Table("result", title, tuple(heads), tuple(zip(*columns.values(), strict=True)), note, self._decimals())

    def _blocks(self) -> list[Block]:
        """The table, that of its twin, findings, and how it was done."""
        twin = self._twin()
        blocks: list[Block] = [self._table(), *([] if twin is None else [twin._table()])]
        blocks += map(Callout, self._findings())
        return [*blocks, *map(Paragraph, self._footer())]

    def document(self) -> Document:
        """
        Everything that is shown of it.

        Returns
        -------
        Document
            To be rendered as text, HTML, Markdown, JSON or CSV.
        """
        return Document("result", "", sections=(Section("result", "", (), tuple(self._blocks())),))

    def __repr__(self) -> str:
        from scoreprism._document.terminal import render_text

        return render_text(self.document(), _WIDTH).rstrip("\n")

    def _repr_html_(self) -> str:
        return render_fragment(self.document())

    def to_frame(self, backend: str | None = None) -> Any:
        """
        The table as a dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per line of the table.
        """
        return make_frame(self._columns(), backend or getattr(self, "_backend", None))

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

    def to_dict(self) -> dict[str, Any]:
        """
        The result as plain Python objects.

        Returns
        -------
        dict
            Its table, column by column, and its findings.
        """
        return {"table": self._columns(), "findings": [one.to_dict() for one in self._findings()]}

    def to_json(self, indent: int | None = None) -> str:
        """
        The result as strict JSON; numbers that are not finite are written as the strings "inf", "-inf", "nan".

        Parameters
        ----------
        indent : int, optional
            Spaces per level, for people.

        Returns
        -------
        str
            JSON text.
        """
        found = encode(self.to_dict())  # labels of users may be dates
        return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=indent, default=str)


def shorten(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """A long table as a text shows it: its first and its last lines."""
    if max(map(len, columns.values())) <= 2 * _ENDS + 1:
        return dict(columns)
    return {name: [*line[:_ENDS], "…", *line[-_ENDS:]] for name, line in columns.items()}


def _kind(name: str, values: Sequence[Any], kinds: Mapping[str, str]) -> str:
    """How a column is shown: by its name, or by what it holds."""
    if name in kinds:
        return kinds[name]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, (str, bool)) for value in known):
        return "text"
    return "whole" if known and all(isinstance(value, Integral) for value in known) else "number"


def find_decimals(columns: Mapping[str, Sequence[Any]]) -> int:
    """Decimals of a table of terms: five, more where its standard errors (or the ends of its intervals) are tiny."""
    errors = [abs(value) for value in columns.get("std_error", ()) if isinstance(value, float) and value]
    ends = [abs(value) for value in columns.get("high", ()) if isinstance(value, float)]
    known = [value for value in errors or ends if math.isfinite(value)]
    known = [value for value in known if value > _ROUNDING * max(known, default=0.0)]
    finest = min(known, default=1.0) if errors else 0.1 * max(known, default=1.0)
    return 5 if not 0.0 < finest < 1e-5 else min(1 - math.floor(math.log10(finest)), 12)


# ── notebooks ───────────────────────────────────────────────────────────────────────────────────────


def render_fragment(document: Document) -> str:
    """A document for a notebook: no style sheet and no colours of its own, so that it suits light and dark pages."""
    parts = [f"<p><strong>{_escaped(document.title)}</strong></p>"] if document.title else []
    for section in document.sections:
        parts += [f"<p><strong>{_escaped(section.title)}</strong></p>"] if section.title else []
        parts += [f"<p>{_escaped(section.meaning)}</p>"] if section.lead else []
        parts += [_html_block(block) for block in section.blocks]
    return f'<figure style="margin:0 0 1em">{"".join(parts)}</figure>'


def _html_block(block: Block) -> str:
    if isinstance(block, Callout):
        strong = "font-weight:bold" if block.kind == "action" else "opacity:.8"
        return f'<p style="margin:.3em 0;{strong}">{_escaped(block.text)}</p>'
    if isinstance(block, Paragraph):
        return f'<p style="margin:.3em 0;opacity:.7">{_escaped(block.text)}</p>'
    return _html_table(block) if isinstance(block, Table) else ""


def _html_table(table: Table) -> str:
    small = f'<br><span style="opacity:.7">{_escaped(table.note)}</span>' if table.note else ""
    head = "".join(_html_cell("th", "col", column.title, column, i == 0) for i, column in enumerate(table.columns))
    rows = [
        "".join(
            _html_cell("td" if i else "th", "" if i else "row", text, column, i == 0)
            for i, (text, column) in enumerate(zip(row, table.columns, strict=True))
        )
        for row in table.shown()
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<figcaption><span style="font-weight:bold">{_escaped(table.title)}</span>{small}</figcaption>'
        '<table style="border-collapse:collapse;margin:.4em 0;color:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _html_cell(tag: str, scope: str, text: str, column: Column, first: bool) -> str:
    side = "right" if column.has_numbers and not first else "left"
    style = f"padding:.2em .8em .2em 0;text-align:{side};font-variant-numeric:tabular-nums"
    style += ";border-bottom:1px solid currentColor" if scope == "col" else ""
    style += ";font-weight:normal" if scope == "row" else ""
    scoped = f' scope="{scope}"' if scope else ""
    return f'<{tag}{scoped} style="{style}">{_escaped(text)}</{tag}>'


def _escaped(text: str) -> str:
    return html.escape(visible(text).replace("\n", " "))


# ── results of one line ─────────────────────────────────────────────────────────────────────────────


class Record(Result):
    """A result that is a dataclass of a few values: one line, a column for each field that is no collection."""

    def _fields(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [value] for name, value in self._fields().items() if not isinstance(value, (tuple, dict))}

    def to_dict(self) -> dict[str, Any]:
        """
        All fields as plain Python objects.

        Returns
        -------
        dict
            Field → value.
        """
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._fields().items()}


# ── results with named terms ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class TermTable(Result):
    """What every result with named terms has: estimates, one line for each."""

    names: tuple[str, ...]
    _backend: str | None

    @property
    @abstractmethod
    def terms(self) -> dict[str, float]:
        """Estimate of each term."""

    def _by_term(self) -> dict[str, dict[str, Any]]:
        """The table, term by term."""
        columns = self._columns()
        return {name: {key: columns[key][i] for key in columns if key != "term"} for i, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False, repr=False)
class Contributions(TermTable):
    """
    What each segment contributes to the terms of the whole.

    Made by `Decomposition.contributions`. Not decompositions of the segments: probabilities are fitted to the whole.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    segments : tuple
        Labels of the segments.
    weight : array of shape (segments,)
        Share of the total weight.
    values : array of shape (segments, terms)
        Contributions; each column adds up to its term.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([0, 1, 0, 1], [Level("S", [0.2, 0.7, 0.3, 0.8]), Level("C", [0.1, 0.7, 0.3, 0.9])])
    >>> chain.decompose("brier").contributions(["a", "a", "b", "b"]).values.sum(axis=0).round(4)
    array([0.015, 0.05 ])
    """

    segments: tuple[Any, ...]
    weight: FloatArray
    values: FloatArray

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the whole: column sums."""
        return dict(zip(self.names, self.values.sum(axis=0).tolist(), strict=True))

    @property
    def mean(self) -> FloatArray:
        """Mean of the rows of each segment, shape (segments, terms); NaN for a segment without weight."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.values / self.weight[:, None]

    def to_dict(self) -> dict[str, Any]:
        """
        The contributions as plain Python objects.

        Returns
        -------
        dict
            Segment → weight and terms.
        """
        return {
            str(segment): {"weight": float(weight), **dict(zip(self.names, line.tolist(), strict=True))}
            for segment, weight, line in zip(self.segments, self.weight, self.values, strict=True)
        }

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"segment": list(self.segments), "weight": self.weight.tolist()}
        return columns | {name: self.values[:, i].tolist() for i, name in enumerate(self.names)}

    def _kinds(self) -> Mapping[str, str]:
        return {"segment": "text"}

    def _title(self) -> str:
        return (
            f"Contributions of {len(self.segments)} segments to the terms of the whole "
            "(not decompositions of the segments)"
        )
