"""A document as strict JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from scoreprism._document.model import Document, Figure, Paragraph, Range, Section, Table
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import encodable

#: Counts changes after which a reader must be changed too.
SCHEMA_VERSION = 2


def plain_document(document: Document) -> dict[str, Any]:
    """The document as plain Python objects."""
    origin = {
        "name": document.origin.name,
        "sha256": document.origin.sha256,
        "details": dict(document.origin.details),
    }
    found: dict[str, Any] = plain(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": document.kind,
            "title": document.title,
            "headline": document.headline,
            "origin": origin,
            "settings": dict(document.settings),
            "versions": dict(document.versions),
            "sections": [_section(section) for section in document.sections],
        }
    )
    return found


def render_json(data: Mapping[str, Any]) -> str:
    """Plain values as JSON text."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def plain(value: Any) -> Any:
    """Anything as what JSON can hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return encodable(str(value))
    if isinstance(value, Finding):
        return plain(value.to_dict())
    if isinstance(value, Range):
        ends = {"low": plain(value.low), "high": plain(value.high)}
        return ends if value.estimate is None else {"estimate": plain(value.estimate), **ends}
    if isinstance(value, Mapping):
        return {encodable(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float):
        return _number(float(value))
    return int(value) if isinstance(value, int) else encodable(str(value))


def _number(value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else "inf" if value > 0 else "-inf"


def _section(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": section.title,
        "lead": section.meaning,
        "findings": list(section.findings),
        "notes": [block.text for block in section.blocks if isinstance(block, Paragraph)],
        "tables": [_table(block) for block in section.blocks if isinstance(block, Table)],
        "figures": [_figure(block) for block in section.blocks if isinstance(block, Figure)],
    }


def _table(table: Table) -> dict[str, Any]:
    keys = [column.key for column in table.columns]
    columns = [{"key": column.key, "title": column.title, "kind": column.kind} for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    return {"key": table.key, "title": table.title, "columns": columns, "rows": rows, "note": table.note}


def _figure(figure: Figure) -> dict[str, Any]:
    words = {"key": figure.key, "title": figure.title, "description": figure.description}
    return words | {"data": None if figure.data is None else _table(figure.data)}
