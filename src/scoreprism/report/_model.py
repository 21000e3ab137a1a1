"""What a report is made of: sections of sentences, tables and figures, the same for every way of showing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


def _fixed(decimals: int, sign: str = "") -> Callable[[float, int], str]:
    """A number with so many decimals, and more where a whole column is small."""
    return lambda value, more: f"{round(value, decimals + more) + 0.0:{sign}.{decimals + more}f}"


def _significant(value: float) -> str:
    """A number with two digits that say something, without an exponent."""
    if value == 0.0:
        return "0"
    return f"{value:.{max(1 - math.floor(math.log10(abs(value))), 2)}f}"


#: How a number is shown, by kind of column; a column of text has the kind "text". The second argument is how many
#: decimals more a column of small numbers has.
KINDS: dict[str, Callable[[float, int], str]] = {
    "number": _fixed(5),
    "loss": _fixed(4),
    "short": _fixed(3),
    "digits": lambda value, _: _significant(value),
    "signed": _fixed(4, "+"),
    "count": lambda value, _: f"{value:,.0f}",
    "share": lambda value, _: f"{round(100 * value, 1) + 0.0:.1f} %",
    "pvalue": lambda value, _: "< 0.001" if value < 0.001 else f"{value:.3f}",
}
#: A column whose largest number is below these has one, two, three decimals more.
_SMALL = (0.05, 0.005, 0.0005)


@dataclass(frozen=True)
class Range:
    """
    What is known of a number: an interval, or a bound on one side; perhaps with the estimate itself.

    Attributes
    ----------
    low, high : float or None
        Ends; None where there is none.
    estimate : float or None
        The number, in cells that hold it too.

    Examples
    --------
    >>> Range(0.1, 0.25).shown("short"), Range(0.1, None).shown("short"), Range(None, None).shown("short")
    ('0.100 to 0.250', '≥ 0.100', '–')
    >>> Range(0.1, 0.25, 0.2).shown("short")
    '0.200 (0.100 to 0.250)'
    """

    low: float | None = None
    high: float | None = None
    estimate: float | None = None

    def shown(self, kind: str, more: int = 0) -> str:
        """
        The range in words.

        Parameters
        ----------
        kind : str
            How its ends are shown, in `KINDS`.
        more : int, default=0
            Decimals more than usual.

        Returns
        -------
        str
            For example "≥ 0.1".
        """
        if self.estimate is not None:
            around = Range(self.low, self.high).shown(kind, more)
            return show(self.estimate, kind, more) + (f" ({around})" if around != "–" else "")
        low, high = _known(self.low), _known(self.high)
        if low is None and high is None:
            return "–"
        if high is None:
            return f"≥ {show(low, kind, more)}"
        return f"≤ {show(high, kind, more)}" if low is None else f"{show(low, kind, more)} to {show(high, kind, more)}"

    @property
    def numbers(self) -> list[float]:
        """Everything it holds."""
        return [value for value in (self.low, self.high, self.estimate) if value is not None]


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


Cell: TypeAlias = "str | float | int | Range | None"


def show(value: Cell, kind: str, more: int = 0) -> str:
    """A cell as people read it."""
    if isinstance(value, Range):
        return value.shown(kind, more)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str) or kind == "text":
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return KINDS[kind](value, more).replace("-", "−")


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
        "text", or how its numbers (or ranges of numbers) are shown, in `KINDS`.

    Examples
    --------
    >>> Column("pvalue", "p-value", "pvalue").title
    'p-value'
    """

    key: str
    title: str
    kind: str = "text"


@dataclass(frozen=True)
class Table:
    """
    Rows of named columns.

    Attributes
    ----------
    key : str
        Its name in JSON; unique within a report.
    title : str
        Its caption.
    columns : tuple of Column
        The columns.
    rows : tuple of tuples
        Cells, in the order of the columns.
    note : str
        What stands below it.

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

    def shown(self) -> list[list[str]]:
        """
        The cells as text.

        Returns
        -------
        list of list of str
            Row by row.
        """
        more = [_more([row[i] for row in self.rows]) for i in range(len(self.columns))]
        return [
            [show(cell, column.kind, extra) for cell, column, extra in zip(row, self.columns, more, strict=True)]
            for row in self.rows
        ]


def _more(cells: Sequence[Cell]) -> int:
    """How many decimals more a column needs for its largest number to have two or three digits."""
    numbers: list[float] = []
    for cell in cells:
        numbers += cell.numbers if isinstance(cell, Range) else [cell] if isinstance(cell, float) else []
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return sum(largest < bound for bound in _SMALL) if largest > 0.0 else 0


@dataclass(frozen=True)
class Figure:
    """
    A picture, in words and numbers too.

    Attributes
    ----------
    key : str
        Its name; unique within a report.
    title : str
        Its caption.
    description : str
        What it shows for this model, for those who cannot see it.
    draw : callable
        Draws it on a new matplotlib figure, and returns that.
    data : Table or None
        The numbers behind it; None where they stand in a table beside it.

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
class Notice:
    """
    A sentence that must not be missed, or one that explains.

    Attributes
    ----------
    kind : str
        "action" for what to do, "warning" for what may be wrong, "note" for how it was done.
    text : str
        The sentence.

    Examples
    --------
    >>> Notice("action", "Recalibrate.").kind
    'action'
    """

    kind: str
    text: str


Block: TypeAlias = "Table | Figure | Notice"


@dataclass(frozen=True)
class Section:
    """
    A part of a report.

    Attributes
    ----------
    key : str
        Its name, in `SECTIONS`.
    title : str
        Its heading.
    meaning : str
        One sentence that says what it means for this model.
    blocks : tuple
        Notices, tables and figures, in order.

    Examples
    --------
    >>> section = Section("verdict", "Verdict", "All is well.", (Notice("note", "Nothing to do."),))
    >>> [notice.text for notice in section.notices], list(section.tables)
    (['Nothing to do.'], [])
    """

    key: str
    title: str
    meaning: str
    blocks: tuple[Block, ...] = ()

    @property
    def tables(self) -> Iterator[Table]:
        """Tables, and those behind figures."""
        for block in self.blocks:
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Figure) and block.data is not None:
                yield block.data

    @property
    def notices(self) -> Iterator[Notice]:
        """Sentences of their own."""
        return (block for block in self.blocks if isinstance(block, Notice))


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
