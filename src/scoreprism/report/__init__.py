"""Reports: summarize() → Report → terminal, HTML, JSON or Markdown."""

from __future__ import annotations

from scoreprism.report._model import Column, Figure, Notice, Origin, Range, Section, Table
from scoreprism.report._report import SECTIONS, ModelResult, Report
from scoreprism.report._summarize import make_report, summarize

__all__ = [
    "SECTIONS",
    "Column",
    "Figure",
    "ModelResult",
    "Notice",
    "Origin",
    "Range",
    "Report",
    "Section",
    "Table",
    "make_report",
    "summarize",
]
