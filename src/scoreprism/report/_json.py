"""A report as strict JSON, as ``docs/report.schema.json`` describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scoreprism._core.wording import encodable
from scoreprism.calibrators import Calibrator, SelectedCalibrator
from scoreprism.report._model import Figure, Range, Section, Table
from scoreprism.report._tables import TERM_COLUMNS, term_rows

if TYPE_CHECKING:
    from scoreprism.curves import DecisionLoss
    from scoreprism.decomposition import Decomposition
    from scoreprism.report._report import ModelResult, Report

#: Counts changes after which a reader must be changed too.
SCHEMA_VERSION = 1


def plain_report(report: Report) -> dict[str, Any]:
    """The report as plain Python objects."""
    level = report.settings.get("level", 0.95)
    origin = {"name": report.origin.name, "sha256": report.origin.sha256, "details": dict(report.origin.details)}
    found: dict[str, Any] = plain(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": report.kind,
            "title": report.title,
            "headline": report.headline,
            "origin": origin,
            "settings": dict(report.settings),
            "versions": dict(report.versions),
            "models": {name: _model(model, level) for name, model in report.models.items()},
            "sections": [_section(section) for section in report.sections],
        }
    )
    return found


def render_json(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(plain_report(report), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def plain(value: Any) -> Any:
    """Anything as what JSON can hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return encodable(str(value))
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


def _model(model: ModelResult, level: float) -> dict[str, Any]:
    return {
        "losses": {loss: _loss(result, level) for loss, result in model.decompositions.items()},
        "tests": {name: asdict(test) for name, test in model.tests.items()},
        "metrics": None if model.metrics is None else model.metrics.to_dict(),
        "map": None if model.map is None else _map(model.map),
        "decision_loss": None if model.decision_loss is None else _decision_loss(model.decision_loss),
    }


def _decision_loss(found: DecisionLoss) -> dict[str, Any]:
    return {key: value for key, value in found.to_dict().items() if key not in ("name", "baseline", "n")}


def _map(fitted: Calibrator) -> dict[str, Any]:
    """Which map is handed over, and how it was chosen where it was."""
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


def _loss(result: Decomposition, level: float) -> dict[str, Any]:
    """What people read of a decomposition, as numbers, and the whole of it, which `from_json` reads."""
    summary, twin = result.summary(level), result._stand_in
    floor = {} if twin is None else {"floored": _floored(twin, level)}
    return {
        "loss": str(result.loss),
        "formula": result.loss.formula(result.n_classes),
        "risk": result.risk,
        "level": summary.level,
        "terms": _terms(result, level),
        "advice": list(summary.advice),
        "decomposition": json.loads(result.to_json()),
        **floor,
    }


def _floored(twin: Decomposition, level: float) -> dict[str, Any]:
    """The terms of an infinite loss at a floor, and what must be said with them."""
    about = {"floor": twin.clip, "mark": twin._mark, "moved": twin._moved, "risk": twin.risk}
    return about | {"terms": _terms(twin, level)}


def _terms(result: Decomposition, level: float) -> dict[str, Any]:
    keys = [name for name in TERM_COLUMNS if name not in ("model", "loss", "term")]
    known = {row[0]: dict(zip(keys, row[1:], strict=True)) for row in term_rows(result, level)}
    for name, words in zip(result.names, result.summary(level)._columns()["what reduces it"], strict=True):
        known[name]["reduced_by"] = words
    return known


def _section(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": section.title,
        "meaning": section.meaning,
        "notices": [{"kind": notice.kind, "text": notice.text} for notice in section.notices],
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
