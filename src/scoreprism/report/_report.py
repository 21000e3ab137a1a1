"""Report: everything that was found out, ready to be shown in a terminal, on a page, as JSON, Markdown or CSV."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
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
from scoreprism.report._pieces import make_comparable

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
    "classes": "Classes",
    "recalibration": "What recalibration would do",
    "grouping": "Where the score loses information",
    "decisions": "Decisions",
    "segments": "Segments and time",
    "models": "Several models",
    "method": "Method and data",
}

#: What a report says of each term, in CSV and JSON.
TERM_FACTS = ("estimate", "std_error", "low", "high", "lower_bound", "upper_bound", "share", "muted")


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
        "report", or the name of a command; written to JSON.
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
    def _level(self) -> float:
        """Confidence level of its intervals and bounds."""
        return float(self.settings.get("confidence_level", 0.95))

    def _list_decompositions(self) -> Iterator[tuple[str, str, Decomposition]]:
        """Model, loss and decomposition; of an infinite loss also the one at the floor."""
        for model, result in self.models.items():
            for loss, found in result.decompositions.items():
                yield from ((model, name, shown) for name, shown in add_floored(loss, found).items())

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
        lines: list[dict[str, Any]] = []
        for model, loss, result in self._list_decompositions():
            line: dict[str, Any] = {"model": model, "loss": loss, "n": result.n, "risk": result.risk}
            for term, known in describe_terms(result, self._level).items():
                line |= {term: known["estimate"], f"{term}_low": known["low"], f"{term}_high": known["high"]}
            lines.append(line)
        keys = dict.fromkeys(key for line in lines for key in line)
        columns = {key: [line.get(key) for line in lines] for key in keys}
        backends = (result._backend for _, _, result in self._list_decompositions())
        return make_frame(columns, backend or next(backends, None))

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
        decompositions = {name: model.decompositions[chosen] for name, model in self.models.items()}
        return DecompositionDisplay(make_comparable(decompositions)).plot(ax, **options)

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects, as in `to_json`.

        Returns
        -------
        dict
            Fits the JSON Schema in ``docs/report.schema.json``.
        """
        from scoreprism._document.json_text import plain, plain_document

        document = plain_document(self)
        sections = document.pop("sections")
        models = {name: _plain_model(model, self._level) for name, model in self.models.items()}
        return {**document, "models": plain(models), "sections": sections}

    def to_json(self) -> str:
        """
        The report as strict JSON, without NaN, in the order of the report.

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

        rows = [
            [model, loss, term, *known.values()]
            for model, loss, result in self._list_decompositions()
            for term, known in describe_terms(result, self._level).items()
        ]
        return csv_lines(("model", "loss", "term", *TERM_FACTS), rows)

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
            failed += judge_reliability(first, max_reliability, on, self._level)
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


def add_floored(loss: str, found: Decomposition) -> dict[str, Decomposition]:
    """A decomposition by its loss; where that is infinite, also the one at the floor."""
    twin = found._stand_in
    return {loss: found} if twin is None else {loss: found, f"{loss}, {twin._mark}": twin}


def describe_terms(result: Decomposition, level: float) -> dict[str, dict[str, Any]]:
    """`TERM_FACTS` of each term; None where there is no such number."""
    errors, is_divisible = result.std_error, math.isfinite(result.risk) and result.risk != 0.0
    described_terms: dict[str, dict[str, Any]] = {}
    for term, value in result.terms.items():
        interval, lower, upper = (
            _try(ask, term, level) for ask in (result.interval, result.lower_bound, result.upper_bound)
        )
        muted = term in result.muted
        numbers = (
            None if muted else value,
            None if muted else errors[term],
            None if interval is None else interval.low,
            None if interval is None else interval.high,
            None if lower is None else lower.value,
            None if upper is None else upper.value,
            value / result.risk if is_divisible and not muted else None,
        )
        known = (None if number is None or math.isnan(number) else number for number in numbers)
        described_terms[term] = dict(zip(TERM_FACTS, (*known, muted), strict=True))
    return described_terms


def _try(ask: Any, term: str, level: float) -> Any:
    """An interval or a bound, or None where there is none."""
    try:
        return ask(term, level)
    except UnavailableError:
        return None


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
    """The numbers that people read of a decomposition, and all of it, which `from_json` reads."""
    plain_loss = {
        "loss": str(result.loss),
        "formula": result.loss.formula(result.n_classes),
        "risk": result.risk,
        "confidence_level": level,
        "terms": _plain_terms(result, level),
        "decomposition": json.loads(result.to_json()),
    }
    if (twin := result._stand_in) is not None:
        terms = _plain_terms(twin, level)
        plain_loss["floored"] = {"floor": twin.floor, "moved": twin._moved, "risk": twin.risk, "terms": terms}
    return plain_loss


def _plain_terms(result: Decomposition, level: float) -> dict[str, Any]:
    known = describe_terms(result, level)
    return {name: facts | {"reduced_by": explain_term(name)} for name, facts in known.items()}
