"""Report: everything that was found out, ready to be shown in a terminal, on a page, as JSON, Markdown or CSV."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scoreprism._core.checks import parse_choice, parse_count
from scoreprism._core.frames import make_frame
from scoreprism._document.model import Document, Section, require_ending
from scoreprism._findings.sentences import explain_term
from scoreprism._findings.wording import plural
from scoreprism._parameters import described
from scoreprism.exceptions import UnavailableError

if TYPE_CHECKING:
    from scoreprism._findings.finding import Finding
    from scoreprism.calibrators import Calibrator
    from scoreprism.curves import DecisionLoss
    from scoreprism.decomposition import Decomposition
    from scoreprism.displays import DecompositionDisplay
    from scoreprism.inference import TestResult
    from scoreprism.metrics import MetricTable

#: The sections of a report, in order.
SECTIONS = {
    "verdict": "Verdict",
    "calibration": "Calibration",
    "recalibration": "What recalibration would do",
    "grouping": "Where the score loses information",
    "decisions": "Decisions",
    "segments": "Segments and time",
    "models": "Several models",
    "method": "Method and data",
}

#: Columns of the terms of a report.
TERM_COLUMNS = (
    "model", "loss", "term", "estimate", "std_error", "low", "high", "lower_bound", "upper_bound", "share", "muted",
)  # fmt: skip


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
    findings : tuple of Finding
        What to do about the first loss, and what is known of it.

    Examples
    --------
    >>> import scoreprism
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> found = scoreprism.make_report(y, X[:, 0], sections=["verdict"]).models["model"]
    >>> list(found.decompositions), list(found.tests), found.findings[0].kind
    (['log', 'brier'], ['calibration'], 'recalibrate')
    """

    decompositions: dict[str, Decomposition]
    tests: dict[str, TestResult] = field(default_factory=dict)
    metrics: MetricTable | None = None
    map: Calibrator | None = None
    decision_loss: DecisionLoss | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Report(Document):
    """
    A diagnosis that can be handed over.

    Made by `scoreprism.make_report`.

    Attributes
    ----------
    kind : str
        What it is: "report", or the answer of a command; said in JSON.
    title : str
        Report title.
    headline : str
        The verdict, in a sentence or two.
    sections : tuple of Section
        Findings, tables and figures.
    origin : Origin
        Where the data came from.
    settings : mapping
        Seed, confidence level, losses and other choices.
    versions : mapping
        Versions of what computed it.
    models : dict of str to ModelResult
        The results themselves, for each model.

    Examples
    --------
    >>> import scoreprism
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(1000, random_state=0)
    >>> report = scoreprism.make_report(y, {"first feature": X[:, 0]}, sections=["verdict", "method"])
    >>> list(report.models), report["verdict"].title
    (['first feature'], 'Verdict')
    """

    models: Mapping[str, ModelResult] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Section:
        present = {section.key: section for section in self.sections}
        return present[parse_choice(key, tuple(present), "section")]

    def document(self) -> Document:
        """
        Everything that is shown of it: the report itself.

        Returns
        -------
        Document
            To be rendered.
        """
        return self

    @property
    def _facts(self) -> list[str]:
        """What the head of the page says beside the title."""
        facts = ["scoreprism report", self.origin.name if self.origin.name != "memory" else ""]
        rows = {result.n for model in self.models.values() for result in model.decompositions.values()}
        facts += [plural(rows.pop(), "row")] if len(rows) == 1 else []
        return [fact for fact in [*facts, plural(len(self.models), "model") if len(self.models) > 1 else ""] if fact]

    def to_html(self) -> str:
        """
        The report as one page: no script, no network, light and dark.

        Returns
        -------
        str
            HTML.
        """
        from scoreprism._document.html import render_html

        return render_html(self, self._facts)

    def to_markdown(self) -> str:
        """
        The report as Markdown, without figures.

        Returns
        -------
        str
            GitHub's flavour.
        """
        from scoreprism._document.markdown import render_markdown

        return render_markdown(self)

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        All models at a glance.

        Returns
        -------
        frame
            A row for each model and loss: rows, loss (``risk``), and each term with the ends of its interval, missing
            where there are none. An infinite loss has a second row, at the floor.
        """
        level = self.settings.get("confidence_level", 0.95)
        lines: list[dict[str, Any]] = []
        for model, result in self.models.items():
            for name, found in result.decompositions.items():
                for loss, one in beside(name, found).items():
                    line: dict[str, Any] = {"model": model, "loss": loss, "n": one.n, "risk": one.risk}
                    for term, estimate, _, low, high, *_ in term_rows(one, level):
                        line |= {term: estimate, f"{term}_low": low, f"{term}_high": high}
                    lines.append(line)
        keys = dict.fromkeys(key for line in lines for key in line)
        columns = {key: [line.get(key) for line in lines] for key in keys}
        known = [one._backend for result in self.models.values() for one in result.decompositions.values()]
        return make_frame(columns, backend or next(iter(known), None))

    def plot(self, ax: Any = None, *, loss: str | None = None, **options: Any) -> DecompositionDisplay:
        """
        Draw the terms of all models: a waterfall of one model, bars of several.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        loss : str, optional
            Which loss of the report; the first by default. Where it is infinite, it is drawn at the floor.
        **options : object
            What ``DecompositionDisplay.plot`` takes.

        Returns
        -------
        DecompositionDisplay
            With its axes and artists.
        """
        from scoreprism.displays import DecompositionDisplay

        known = tuple(next(iter(self.models.values())).decompositions)
        chosen = known[0] if loss is None else parse_choice(loss, known, "loss")
        found = {name: model.decompositions[chosen] for name, model in self.models.items()}
        if not all(math.isfinite(one.risk) for one in found.values()):  # all at the floor, to be compared
            found = {name: one.floored or one for name, one in found.items()}
        return DecompositionDisplay(found).plot(ax, **options)

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects, as in `to_json`.

        Returns
        -------
        dict
            Fits the JSON Schema in ``docs/report.schema.json``.
        """
        from scoreprism._document.json_text import plain, plain_document

        level = self.settings.get("confidence_level", 0.95)
        found = plain_document(self)
        sections = found.pop("sections")
        models = {name: _plain_model(model, level) for name, model in self.models.items()}
        return {**found, "models": plain(models), "sections": sections}

    def to_json(self) -> str:
        """
        The report as strict JSON: no NaN, sorted by nothing but the order of the report.

        Returns
        -------
        str
            Text.
        """
        from scoreprism._document.json_text import render_json

        return render_json(self.to_dict())

    def to_csv(self) -> str:
        """
        The terms of all models and losses as CSV.

        Returns
        -------
        str
            Text; cells that a spreadsheet would run are neutralised.
        """
        from scoreprism._document.csv_text import csv_lines

        level = self.settings.get("confidence_level", 0.95)
        rows = [
            [model, loss, *row]
            for model, result in self.models.items()
            for name, found in result.decompositions.items()
            for loss, decomposition in beside(name, found).items()
            for row in term_rows(decomposition, level)
        ]
        return csv_lines(TERM_COLUMNS, rows)

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
        from scoreprism._document.terminal import render_text

        return render_text(self, parse_count(width, "width", 40))

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

    def failed_gates(
        self,
        *,
        max_reliability: float | None = None,
        gate_on: str = "estimate",
        max_pvalue: float | None = None,
    ) -> list[Finding]:
        """
        Conditions that models do not meet, for the CI of models.

        Parameters
        ----------
        max_reliability : float, optional
            Largest reliability, by the first loss, that passes.
        gate_on : {"estimate", "lower", "upper"}, default="estimate"
            What is compared with it: the estimate, or a confidence bound. "lower" fails only where the excess is
            established; "upper" fails unless it is ruled out.
        max_pvalue : float, optional
            A model fails if its test of calibration, adjusted over the models by Holm's method, is at or below this,
            unless recalibrating it is shown to gain less than ``min_gain`` of the loss.

        Returns
        -------
        list of Finding
            One for each model and gate that fails.
        """
        from scoreprism._calibration_test.gate import judge_calibration
        from scoreprism._findings.finding import select
        from scoreprism.report._judgement import judge_reliability

        failed: list[Finding] = []
        if max_reliability is not None:
            on = parse_choice(gate_on, ("estimate", "lower", "upper"), "gate_on")
            first = {name: next(iter(model.decompositions.values())) for name, model in self.models.items()}
            failed += judge_reliability(first, max_reliability, on, self.settings.get("confidence_level", 0.95))
        if max_pvalue is not None:
            tests = {name: model.tests["calibration"].pvalue for name, model in self.models.items()}
            small = [name for name, model in self.models.items() if select(model.findings, "not_material")]
            failed += judge_calibration(tests, max_pvalue, frozenset(small))
        return failed

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from scoreprism._document.html import render_frame

        return render_frame(self, self._facts)


# ── terms as numbers ────────────────────────────────────────────────────────────────────────────────


def beside(loss: str, found: Decomposition) -> dict[str, Decomposition]:
    """A decomposition by its loss; where that is infinite, also the one at the floor."""
    twin = found._stand_in
    return {loss: found} if twin is None else {loss: found, f"{loss}, {twin._mark}": twin}


def term_rows(result: Decomposition, level: float) -> list[list[Any]]:
    """What is known of each term, as numbers."""
    rows: list[list[Any]] = []
    errors, finite = result.std_error, math.isfinite(result.risk) and result.risk != 0.0
    for term, value in result.terms.items():
        interval = _try(result.interval, term, level)
        two_sided = [None, None] if interval is None else [interval.low, interval.high]
        bounds = [_try(bound, term, level) for bound in (result.lower_bound, result.upper_bound)]
        one_sided = [None if bound is None else bound.value for bound in bounds]
        muted = term in result.muted
        share = value / result.risk if finite and not muted else None
        estimate, error = (None, None) if muted else (value, errors[term])
        rows.append([term, *map(_known, (estimate, error, *two_sided, *one_sided, share)), muted])
    return rows


def _try(ask: Any, term: str, level: float) -> Any:
    """An interval or a bound, or None where there is none to be had."""
    try:
        return ask(term, level)
    except UnavailableError:
        return None


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _plain_model(model: ModelResult, level: float) -> dict[str, Any]:
    decision = model.decision_loss
    return {
        "findings": list(model.findings),
        "losses": {loss: _plain_loss(result, level) for loss, result in model.decompositions.items()},
        "tests": {name: test.to_dict() for name, test in model.tests.items()},
        "metrics": None if model.metrics is None else model.metrics.to_dict(),
        "map": None if model.map is None else _plain_map(model.map),
        "decision_loss": None
        if decision is None
        else {key: value for key, value in decision.to_dict().items() if key not in ("name", "baseline", "n")},
    }


def _plain_map(fitted: Calibrator) -> dict[str, Any]:
    """Which map is handed over, and how it was chosen where it was."""
    from scoreprism.calibrators import SelectedCalibrator

    if not isinstance(fitted, SelectedCalibrator):
        return {"name": fitted.name, "chosen_by": "request"}
    return {
        "name": fitted.selected_,
        "chosen_by": "cross-validation",
        "order": fitted.order,
        "order_kept": fitted.order_kept_,
        "ties_added": fitted.ties_added_,
        "candidates": {
            name: {"loss": loss, "std_error": fitted.std_errors_[name]} for name, loss in fitted.losses_.items()
        },
        "contradiction": fitted.contradiction_,
    }


def _plain_loss(result: Decomposition, level: float) -> dict[str, Any]:
    """What people read of a decomposition, as numbers, and the whole of it, which `from_json` reads."""
    twin = result._stand_in
    floored = {}
    if twin is not None:
        floored = {
            "floored": {"floor": twin.floor, "moved": twin._moved, "risk": twin.risk, "terms": _terms(twin, level)}
        }
    return {
        "loss": str(result.loss),
        "formula": result.loss.formula(result.n_classes),
        "risk": result.risk,
        "confidence_level": level,
        "terms": _terms(result, level),
        "decomposition": json.loads(result.to_json()),
        **floored,
    }


def _terms(result: Decomposition, level: float) -> dict[str, Any]:
    keys = [name for name in TERM_COLUMNS if name not in ("model", "loss", "term")]
    known = {row[0]: dict(zip(keys, row[1:], strict=True)) for row in term_rows(result, level)}
    return {name: line | {"reduced_by": explain_term(name)} for name, line in known.items()}
