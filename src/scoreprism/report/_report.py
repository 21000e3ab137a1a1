"""Report: everything that was found out, ready to be shown in a terminal, on a page, as JSON or as Markdown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scoreprism._core.checks import parse_choice, refuse
from scoreprism.report._model import Origin, Section

if TYPE_CHECKING:
    from scoreprism.calibrators import Calibrator
    from scoreprism.curves import DecisionLoss
    from scoreprism.decomposition import Decomposition
    from scoreprism.inference import TestResult
    from scoreprism.metrics import MetricTable

#: The sections of a report, in order.
SECTIONS = {
    "verdict": "Verdict",
    "calibration": "Calibration",
    "recalibration": "What recalibration would do",
    "grouping": "Where the score loses information",
    "decisions": "Decisions",
    "segments": "Groups and time",
    "models": "Several models",
    "method": "Method and data",
}

#: How a report is written, by the ending of the file's name.
WAYS = {".html": "to_html", ".json": "to_json", ".md": "to_markdown", ".csv": "to_csv", ".txt": "to_text"}

#: What a report may be: a whole one, or the answer of a command.
KINDS = ("report", "diagnosis", "comparison", "tests", "recalibration", "losses", "calibrators")


@dataclass(frozen=True, eq=False)
class ModelResult:
    """
    What was found out about one model.

    Attributes
    ----------
    decompositions : dict of str to Decomposition
        One per loss.
    tests : dict of str to TestResult
        "calibration", and "grouping" where there are features.
    metrics : MetricTable or None
        Summaries of calibration and discrimination; None where they were not asked for.
    map : Calibrator or None
        The recalibration map to deploy, fitted on all rows: a `SelectedCalibrator`, unless other maps were named; None
        where it was not asked for.
    decision_loss : DecisionLoss or None
        The most that miscalibration costs at any decision threshold; None for more than two classes, or where
        decisions were not asked for.

    Examples
    --------
    >>> import scoreprism
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> found = scoreprism.make_report(y, X[:, 0], sections=["verdict"]).models["model"]
    >>> list(found.decompositions), list(found.tests)
    (['log', 'brier'], ['calibration'])
    """

    decompositions: dict[str, Decomposition]
    tests: dict[str, TestResult] = field(default_factory=dict)
    metrics: MetricTable | None = None
    map: Calibrator | None = None
    decision_loss: DecisionLoss | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """
    A diagnosis that can be handed over.

    Made by `scoreprism.make_report`.

    Attributes
    ----------
    title : str
        What stands above it.
    headline : str
        The verdict on the first model, in one sentence.
    sections : tuple of Section
        Sentences, tables and figures.
    models : dict of str to ModelResult
        The results themselves, for each model.
    origin : Origin
        Where the data came from.
    settings : mapping
        Seed, confidence level, losses and other choices.
    versions : mapping
        Versions of what computed it.
    kind : str
        What it is, in `KINDS`; said in JSON.

    Examples
    --------
    >>> import scoreprism
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> report = scoreprism.make_report(y, {"first feature": X[:, 0]}, sections=["verdict", "method"])
    >>> list(report.models), report["verdict"].title
    (['first feature'], 'Verdict')
    """

    title: str
    headline: str
    sections: tuple[Section, ...]
    models: Mapping[str, ModelResult]
    origin: Origin
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    kind: str = "report"

    def __getitem__(self, key: str) -> Section:
        present = {section.key: section for section in self.sections}
        return present[parse_choice(key, tuple(present), "section")]

    def to_html(self) -> str:
        """
        The report as one page: no script, no network, light and dark.

        Returns
        -------
        str
            HTML.
        """
        from scoreprism.report._html import render_html

        return render_html(self)

    def to_markdown(self) -> str:
        """
        The report as Markdown, without figures.

        Returns
        -------
        str
            GitHub's flavour.
        """
        from scoreprism.report._markdown import render_markdown

        return render_markdown(self)

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects, as in `to_json`.

        Returns
        -------
        dict
            Fits the JSON Schema in ``docs/report.schema.json``.
        """
        from scoreprism.report._json import plain_report

        return plain_report(self)

    def to_json(self) -> str:
        """
        The report as strict JSON: no NaN, sorted by nothing but the order of the report.

        Returns
        -------
        str
            Text.
        """
        from scoreprism.report._json import render_json

        return render_json(self)

    def to_csv(self) -> str:
        """
        The terms of all models and losses as CSV.

        Returns
        -------
        str
            Text; cells that a spreadsheet would run are neutralised.
        """
        from scoreprism.report._tables import render_csv

        return render_csv(self)

    def to_text(self, *, width: int = 100) -> str:
        """
        The report as plain text, without figures.

        Parameters
        ----------
        width : int, default=100
            Columns of the terminal.

        Returns
        -------
        str
            Text.
        """
        from scoreprism.report._terminal import render_text

        return render_text(self, width=width)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """
        Write the report: a page, JSON, Markdown, CSV or text, by the ending of the name.

        The file appears whole or not at all.

        Parameters
        ----------
        path : path
            Ends in .html, .json, .md, .csv or .txt.
        overwrite : bool, default=False
            Whether an existing file may be replaced.

        Returns
        -------
        Path
            Where it is.
        """
        from scoreprism._core.atomic_files import write_text

        target = Path(path)
        return write_text(target, getattr(self, require_ending(target)), overwrite=overwrite)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from scoreprism.report._html import render_frame

        return render_frame(self)


def require_ending(path: str | os.PathLike[str]) -> str:
    """How a report is written to a file of this name."""
    name = Path(path).name
    ending = Path(path).suffix.lower()
    if ending not in WAYS:
        refuse(f"the name of a report must end in one of {', '.join(WAYS)}", repr(name), "For example 'report.html'.")
    return WAYS[ending]
