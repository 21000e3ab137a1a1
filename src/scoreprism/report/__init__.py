"""Reports: summarize() → Report → terminal, HTML, JSON or Markdown.

`make_report`, `summarize` and `summarize_sums` are loaded when they are first used:
what a report is made of is light, making one is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoreprism._document.model import Callout, Column, Document, Figure, Origin, Paragraph, Range, Section, Table
from scoreprism.report._report import SECTIONS, ModelResult, Report

if TYPE_CHECKING:
    from scoreprism.report._build import make_report, summarize, summarize_sums

__all__ = [
    "SECTIONS",
    "Callout",
    "Column",
    "Document",
    "Figure",
    "ModelResult",
    "Origin",
    "Paragraph",
    "Range",
    "Report",
    "Section",
    "Table",
    "make_report",
    "summarize",
    "summarize_sums",
]


def __getattr__(name: str) -> object:
    if name in ("make_report", "summarize", "summarize_sums"):
        from scoreprism.report import _build

        return getattr(_build, name)
    raise AttributeError(f"module 'scoreprism.report' has no attribute {name!r}")
