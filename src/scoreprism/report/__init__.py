"""Reports: summarize() → Report → terminal, HTML, JSON or Markdown."""

from __future__ import annotations

from scoreprism.report._model import Column, Figure, Notice, Origin, Range, Section, Table
from scoreprism.report._report import SECTIONS, ModelResult, Report

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
]
