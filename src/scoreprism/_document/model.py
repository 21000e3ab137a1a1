"""Document: sections of findings, tables and figures, which every renderer shows in its own way."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from scoreprism._core.checks import refuse
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_amount, write_count, write_fixed, write_share, write_whole

#: Kinds of columns of numbers with a fixed number of decimals, and how many; "text" is the kind of words.
DECIMALS = {"number": 5, "loss": 4, "signed": 4, "short": 3}


def _write_share(value: float) -> str:
    """A share with one decimal, unless that would make nothing or all of it."""
    nearly = 0.0 < abs(value) < 0.001 or 0.9995 <= abs(value) < 1.0
    return write_share(value) if nearly else f"{write_fixed(100 * value, 1)} %"


#: How the other kinds of numbers are written; those of different sizes by significant digits.
_WRITERS: dict[str, Callable[[float], str]] = {
    "count": write_count,
    "whole": write_whole,
    "share": _write_share,
    "pvalue": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
    "digits": lambda value: write_amount(value, 2),
    "amount": lambda value: write_amount(value, 3),
}
#: A column whose largest number is below these has one, two, three decimals more.
_SMALL = (0.01, 0.001, 0.0001)
#: What a callout is to its reader, by the severity of its finding.
CALLOUTS = {
    "action": "action", "statement": "note", "doubt": "warning", "caution": "warning", "provenance": "note",
    "gate": "warning",
}  # fmt: skip


@dataclass(frozen=True)
class Range:
    """
    What is known of a number: an interval, or a bound on one side; perhaps with the estimate itself.

    Attributes
    ----------
    low, high : float or None
        Ends; None where there is none, also if NaN was passed.
    estimate : float or None
        The number, in cells that hold it too.

    Examples
    --------
    >>> Range(0.1, 0.25).shown("short"), Range(0.1, None).shown("short"), Range(None, None).shown("short")
    ('0.100 to 0.250', '≥ 0.100', '–')
    >>> Range(0.1, 0.25, 0.2).shown("short")
    '0.200 (0.100 to 0.250)'
    >>> Range(0.0, 0.25, -0.01).shown("short")     # estimates are corrected for noise, and may fall below 0
    '0 (0 to 0.250; estimate −0.010)'
    """

    low: float | None = None
    high: float | None = None
    estimate: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = getattr(self, name)
            object.__setattr__(self, name, None if end is None or math.isnan(end) else float(end))

    def shown(self, kind: str, decimals: int | None = None) -> str:
        """
        The range in words.

        Parameters
        ----------
        kind : str
            How its ends are shown: the kind of its column.
        decimals : int, optional
            Of its ends; by default what the kind has.

        Returns
        -------
        str
            For example "≥ 0.1".
        """
        low, high = (show(end, kind, decimals) for end in (self.low, self.high))
        if self.low is None:
            around = "–" if self.high is None else f"≤ {high}"
        else:
            around = f"≥ {low}" if self.high is None else f"{low} to {high}"
        if self.estimate is None:
            return around
        estimate = show(self.estimate, kind, decimals)
        if around == "–":
            return estimate
        below = self.low == 0.0 and estimate.startswith("−")
        return f"0 ({around}; estimate {estimate})" if below else f"{estimate} ({around})"

    @property
    def numbers(self) -> list[float]:
        """Everything it holds."""
        return [value for value in (self.low, self.high, self.estimate) if value is not None]


Cell: TypeAlias = "str | float | int | Range | None"


def show(value: Cell, kind: str, decimals: int | None = None) -> str:
    """A cell as people read it."""
    if isinstance(value, Range):
        return value.shown(kind, decimals)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str) or kind == "text":
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if kind in _WRITERS:
        return _WRITERS[kind](value)
    if value == 0.0:
        return "0"
    return write_fixed(value, DECIMALS[kind] if decimals is None else decimals, "+" if kind == "signed" else "")


@dataclass(frozen=True)
class Column:
    """
    A column of a table.

    Attributes
    ----------
    key : str
        Its name in JSON and CSV.
    title : str
        Its heading.
    kind : str
        "text", "count", "whole" (numbers that are not counts: stages, labels), "share", "pvalue", "digits" and "amount"
        (two and three significant digits), or one of "number", "loss", "signed" and "short", which have a fixed number
        of decimals.

    Examples
    --------
    >>> Column("pvalue", "p-value", "pvalue").title
    'p-value'
    """

    key: str
    title: str
    kind: str = "text"

    @property
    def has_numbers(self) -> bool:
        """Whether it holds numbers, which are aligned to the right."""
        return self.kind != "text"


@dataclass(frozen=True)
class Table:
    """
    Rows of named columns.

    Attributes
    ----------
    key : str
        Its name in JSON; unique within a document.
    title : str
        Its caption.
    columns : tuple of Column
        The columns.
    rows : tuple of tuples
        Cells, in the order of the columns.
    note : str
        Note below the table.
    decimals : int or None
        Decimals of all numbers; by default each column has those of its kind, and more where its numbers are small.

    Examples
    --------
    >>> Table("t", "Terms", (Column("term", "term"), Column("value", "value", "short")), (("a", 0.5),)).shown()
    [['a', '0.500']]
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    decimals: int | None = None

    def shown(self) -> list[list[str]]:
        """
        The cells as text.

        Returns
        -------
        list of list of str
            Row by row.
        """
        decimals = [self._decimals(i) for i in range(len(self.columns))]
        return [
            [show(cell, column.kind, places) for cell, column, places in zip(row, self.columns, decimals, strict=True)]
            for row in self.rows
        ]

    def _decimals(self, column: int) -> int | None:
        """Decimals that show two or three digits of the largest number of a column."""
        kind = self.columns[column].kind
        if kind not in DECIMALS or self.decimals is not None:
            return self.decimals
        cells = [row[column] for row in self.rows]
        ranges = [cell for cell in cells if isinstance(cell, Range)]
        numbers = [cell for cell in cells if isinstance(cell, float)] + [n for one in ranges for n in one.numbers]
        largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
        return DECIMALS[kind] + (sum(largest < bound for bound in _SMALL) if largest > 0.0 else 0)


def make_table(
    key: str, title: str, columns: Sequence[tuple[str, str, str]], rows: Sequence[Sequence[Cell]], note: str = ""
) -> Table:
    """A table from columns (key, heading, kind) and rows; a column that holds nothing is left out."""
    held = [i for i in range(len(columns)) if not rows or any(row[i] is not None for row in rows)]
    cells = tuple(tuple(row[i] for i in held) for row in rows)
    return Table(key, title, tuple(Column(*columns[i]) for i in held), cells, note)


@dataclass(frozen=True)
class Figure:
    """
    A picture, also described in words and numbers.

    Attributes
    ----------
    key : str
        Its name; unique within a document.
    title : str
        Its caption.
    description : str
        What it shows for this model, for those who cannot see it.
    draw : callable
        Draws it on a new matplotlib figure, and returns that.
    data : Table or None
        The numbers behind it; None where another table has them.

    Examples
    --------
    >>> from matplotlib.figure import Figure as Canvas
    >>> Figure("empty", "An empty figure", "Nothing is drawn.", Canvas).draw().axes
    []
    """

    key: str
    title: str
    description: str
    draw: Callable[[], Any] = field(repr=False, compare=False)
    data: Table | None = None


@dataclass(frozen=True)
class Callout:
    """
    A finding set off from the text.

    Attributes
    ----------
    finding : Finding
        What was concluded.
    others : tuple of Finding
        The same findings on other models, for one sentence on all of them.

    Examples
    --------
    >>> from scoreprism._findings.finding import Finding
    >>> Callout(Finding("few_resamples", n=20)).kind
    'warning'
    """

    finding: Finding
    others: tuple[Finding, ...] = ()

    @property
    def kind(self) -> str:
        """What it is to its reader: "action", "warning" or "note"."""
        return CALLOUTS[self.finding.severity]

    @property
    def text(self) -> str:
        """The sentence."""
        return _write((self.finding, *self.others))


def call_out(findings: Sequence[Finding]) -> list[Callout]:
    """Callouts of findings; those of several models that are alike share one."""
    from scoreprism._findings.sentences import group_alike

    return [Callout(first, tuple(others)) for first, *others in group_alike(findings)]


def _write(findings: Sequence[Finding]) -> str:
    """Findings in words."""
    from scoreprism._findings.sentences import say_all

    return " ".join(say_all(findings))


@dataclass(frozen=True)
class Paragraph:
    """
    A text that explains how something was done.

    Attributes
    ----------
    text : str
        One sentence or a few.

    Examples
    --------
    >>> Paragraph("Hypothesis: outcomes are drawn from the scores.").text
    'Hypothesis: outcomes are drawn from the scores.'
    """

    text: str


Block: TypeAlias = "Table | Figure | Callout | Paragraph"


@dataclass(frozen=True)
class Section:
    """
    A part of a document.

    Attributes
    ----------
    key : str
        Its name.
    title : str
        Its heading; empty where a document has one section only.
    lead : tuple of Finding
        What it means for this model.
    blocks : tuple
        Callouts, tables, figures and paragraphs, in order.

    Examples
    --------
    >>> from scoreprism._findings.finding import Finding
    >>> section = Section("verdict", "Verdict", (Finding("no_lower_loss"),), (Callout(Finding("plugin_bias")),))
    >>> section.meaning, len(section.findings), list(section.tables)
    ('No evidence of an achievable lower loss.', 2, [])
    """

    key: str
    title: str
    lead: tuple[Finding, ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def meaning(self) -> str:
        """The lead in words."""
        return _write(self.lead)

    @property
    def tables(self) -> Iterator[Table]:
        """Tables, and those behind figures."""
        for block in self.blocks:
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Figure) and block.data is not None:
                yield block.data

    @property
    def callouts(self) -> list[Callout]:
        """Findings set off from the text."""
        return [block for block in self.blocks if isinstance(block, Callout)]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them: the lead's, then those of callouts."""
        return (*self.lead, *(one for callout in self.callouts for one in (callout.finding, *callout.others)))


@dataclass(frozen=True)
class Origin:
    """
    Where the data came from.

    Attributes
    ----------
    name : str
        Name of the file, or "memory".
    sha256 : str
        Hash of the file, or of the arrays.
    details : mapping
        How it was read: rows, rows dropped, columns used.

    Examples
    --------
    >>> Origin("credit.csv", details={"rows": 500}).name
    'credit.csv'
    """

    name: str = "memory"
    sha256: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Document:
    """
    What a result is shown as, in a terminal, on a page, as Markdown, JSON or CSV.

    Attributes
    ----------
    kind : str
        "report", "result" or the name of a command; written to JSON.
    title : str
        Heading; empty for none.
    headline : str
        The most important thing, in a sentence or two.
    sections : tuple of Section
        Findings, tables and figures.
    origin : Origin
        Where the data came from.
    settings : mapping
        Seed, confidence level, losses and other choices.
    versions : mapping
        Versions of what computed it.

    Examples
    --------
    >>> Document("result", "Nothing").findings
    ()
    """

    kind: str
    title: str
    headline: str = ""
    sections: tuple[Section, ...] = ()
    origin: Origin = field(default_factory=Origin)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, section by section."""
        return tuple(one for section in self.sections for one in section.findings)

    @property
    def tables(self) -> dict[str, Table]:
        """All tables by key, those behind figures included."""
        return {table.key: table for section in self.sections for table in section.tables}


#: Packages whose versions may change a number.
_PACKAGES = ("scoreprism", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of what computes."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


#: The method that writes a report, by the ending of the file's name.
WAYS = {".html": "to_html", ".json": "to_json", ".md": "to_markdown", ".csv": "to_csv", ".txt": "to_text"}


def require_ending(path: str | os.PathLike[str]) -> str:
    """The method of a report that writes a file of this name; other endings are refused."""
    ending = Path(path).suffix.lower()
    if ending not in WAYS:
        rule = f"the name of a report must end in one of {', '.join(WAYS)}"
        refuse(rule, repr(Path(path).name), "For example 'report.html'.")
    return WAYS[ending]
