"""Small documents: what commands answer that do not make a whole report, so that every format comes from one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scoreprism._document.model import Block, Document, Origin, Section, Table
from scoreprism._document.versions import versions


def answer(
    kind: str,
    headline: str,
    table: Table,
    *,
    more: Sequence[Block] = (),
    origin: Origin | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """A document of one section with one table."""
    section = Section(kind, "", (), (table, *more))
    return Document(
        f"{kind}", f"scoreprism: {kind}", headline, (section,), origin or Origin(), dict(settings or {}), versions()
    )
