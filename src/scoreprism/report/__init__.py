"""Reports: make_report() → Report → terminal, HTML, JSON or Markdown.

`make_report` and `write_monitor_page` are loaded when they are first used: what a report is made of is light, making
one is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoreprism._document.model import Callout, Column, Document, Figure, Origin, Paragraph, Range, Section, Table
from scoreprism.report._report import SECTIONS, ModelResult, Report

if TYPE_CHECKING:
    from scoreprism.report._build import make_report
    from scoreprism.report._monitor_page import write_monitor_page

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
    "write_monitor_page",
]


def __getattr__(name: str) -> object:
    if name == "make_report":
        from scoreprism.report._build import make_report

        return make_report
    if name == "write_monitor_page":
        from scoreprism.report._monitor_page import write_monitor_page

        return write_monitor_page
    raise AttributeError(f"module 'scoreprism.report' has no attribute {name!r}")
