"""Small reports: what commands answer that do not make a whole one, so that every format comes from one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scoreprism.report import Column, Notice, Origin, Report, Section, Table
from scoreprism.report._model import Cell


def answer(
    kind: str,
    title: str,
    headline: str,
    table: Table,
    *,
    notices: Sequence[Notice] = (),
    origin: Origin | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Report:
    """A report of one section with one table."""
    from scoreprism.report._versions import versions

    section = Section(kind, title, "", (table, *notices))
    return Report(
        f"scoreprism: {kind}", headline, (section,), {}, origin or Origin(), dict(settings or {}), versions(), kind
    )


def make_table(
    key: str, title: str, columns: Mapping[str, tuple[str, str]], rows: Sequence[tuple[Cell, ...]], note: str = ""
) -> Table:
    """A table."""
    return Table(key, title, tuple(Column(name, *how) for name, how in columns.items()), tuple(rows), note)
