"""Section 3: what recalibration by each map would do, out of sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from scoreprism._document.model import Block, Figure, Range, Section, Table, call_out, make_table
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_percent
from scoreprism._maps.order import judge_order
from scoreprism.calibrators import SelectedCalibrator
from scoreprism.curves import CalibrationMap, calibration_map
from scoreprism.displays import CalibrationMapDisplay
from scoreprism.report._map_trials import CHOOSER, CHOSEN
from scoreprism.report._pieces import draw_with, figure
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case, RowSubject

#: Of more models than these only the best maps are shown and the one that chooses, and not how it chose.
_FEW_MODELS, _BEST = 2, 2
#: Where nearly all scores are below this, maps are drawn up to there only.
_CORNER = 0.35
#: Where the table of a map gives its values.
_PLACES = np.array([0.01, 0.05, *(0.1 * i for i in range(1, 10)), 0.95, 0.99])


def make_recalibration(case: Case) -> Section | None:
    """The third section: of models whose rows are known."""
    if not case.has_rows:
        return None
    blocks: list[Block] = [_tabulate_gains(case)]
    blocks += _tabulate_choice(case) if len(case.models) <= _FEW_MODELS else []
    findings = [_find_map(model) for model in case.models.values()]
    for name, model in case.models.items():
        contradiction = getattr(model.map, "contradiction", None)
        if contradiction is not None:
            findings.append(contradiction.about(name) if len(case.models) > 1 else contradiction)
        failed = model.maps.failed.items()
        findings += [Finding("left_out", model=name, subject=map_, facts={"reason": why}) for map_, why in failed]
    blocks += call_out(findings)
    changed = [model for model in case.models.values() if model.map_name != "identity"]
    if case.binary and changed:
        blocks.append(_make_picture(changed))
    return Section(
        "recalibration",
        SECTIONS["recalibration"],
        tuple(_find_gain(case, model) for model in case.models.values()),
        tuple(blocks),
    )


def _find_gain(case: Case, model: RowSubject) -> Finding:
    """The gain of the map that chooses inside each fold; the best of several looks better than it is."""
    maps = model.maps
    gain, best = maps.of(maps.honest, case.loss), maps.best
    facts = {
        "loss": case.loss, "before": gain.before, "after": gain.after, "chooses": maps.chooses,
        "identity": getattr(model.map, "selected_", "") == "identity", "miscalibrated": case.is_miscalibrated(model),
    }  # fmt: skip
    facts |= {} if best in (CHOOSER, maps.honest) else {"best": best}
    about: dict[str, Any] = {"value": gain.gain, "low": gain.low, "high": gain.high, "confidence_level": case.level}
    return Finding("map_gain", model=model.name, subject=best, **about, facts=facts)


def _tabulate_gains(case: Case) -> Table:
    """Losses before and after recalibration."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        before = [model.decompositions[loss].risk for loss in case.losses]
        rows.append((case.label(model), "as it is", *(cell for risk in before for cell in (risk, None))))
        tried = sorted(
            dict.fromkeys(gain.name for gain in model.maps.gains), key=lambda name: model.maps.of(name, case.loss).after
        )
        if len(case.models) > _FEW_MODELS:
            tried = [name for name in tried if name in (*tried[:_BEST], model.maps.honest)]
        for name in tried:
            gains = [model.maps.of(name, loss) for loss in case.losses]
            cells = (cell for gain in gains for cell in (gain.after, Range(gain.low, gain.high, gain.gain)))
            rows.append((case.label(model), _name_map(name), *cells))
    columns = [("model", "model", "text"), ("map", "map", "text")]
    for loss in case.losses:
        columns += [
            (f"{loss}_loss", f"{loss} loss", "loss"),
            (f"{loss}_gain", f"gain ({write_percent(case.level)})", "signed"),
        ]
    note = "Every map is judged on rows it was not fitted on. The best of several looks a little better than it is"
    if any(model.maps.chooses for model in case.models.values()):
        note += f"; “{CHOSEN}” does not, because it chooses its map anew in each fold"
    return make_table("recalibration", "Losses before and after recalibration", columns, rows, f"{note}.")


def _name_map(name: str) -> str:
    """What a map is called; the one that chooses, by what it does."""
    return CHOSEN if name == CHOOSER else name


def _tabulate_choice(case: Case) -> list[Table]:
    """The candidates of the maps that are handed over, with their out-of-fold losses; none where maps were named."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        chosen = model.map
        if not isinstance(chosen, SelectedCalibrator) or not chosen.losses_:
            continue
        least = min(chosen.losses_.values())
        for name, loss in chosen.losses_.items():
            above, error = loss - least, chosen.std_errors_[name]
            taken = "chosen" if name == chosen.selected_ else ""
            rows.append((case.label(model), name, loss, above, error if above > 0.0 else None, taken))
    if not rows:
        return []
    columns = [
        ("model", "model", "text"), ("map", "candidate", "text"), ("loss", "log loss out of fold", "loss"),
        ("above", "above the best", "loss"), ("error", "standard error", "loss"), ("chosen", "choice", "text"),
    ]  # fmt: skip
    note = (
        "Simplest first. The first map whose loss is within one standard error of the best is chosen. The choice has "
        "folds of its own, so its losses differ a little from those above."
    )
    return [make_table("choice", "How the map was chosen", columns, rows, note)]


def _find_map(model: RowSubject) -> Finding:
    """The map that is handed over, and what it does to the ranking."""
    fitted = model.map
    facts: dict[str, Any] = {"chosen": isinstance(fitted, SelectedCalibrator) and bool(fitted.losses_)}
    about: dict[str, Any] = {"model": model.name, "subject": model.map_name}
    if model.map_name == "identity":
        return Finding("map_chosen", **about, facts=facts)
    kept, ties = judge_order(fitted.map_, model.map_input)
    if model.k > 2:
        return Finding("map_chosen", **about, facts={**facts, "effect": "classes_kept" if kept else "classes_changed"})
    pair = model.law, fitted.calibrate(model.law)
    before, after = (float(roc_auc_score(model.sample.y, score, sample_weight=model.sample.weight)) for score in pair)
    effect = "kept" if kept and not ties else "ties" if kept else "reversed"
    effect = "constant" if np.ptp(pair[1]) == 0.0 else effect
    return Finding("map_chosen", **about, facts={**facts, "effect": effect, "auc_before": before, "auc_after": after})


def _make_curve(model: RowSubject) -> CalibrationMap:
    return calibration_map(model.sample, None, calibrator=model.map, name=f"{model.name}: {model.map_name}")


def _make_picture(models: Sequence[RowSubject]) -> Figure:
    maps = [_make_curve(model) for model in models]
    rows = [
        (one.name, float(place), float(np.interp(place, one.x, one.y)))
        for one in maps
        for place in _PLACES
        if one.support[0] <= place <= one.support[1]
    ]
    columns = [("map", "map", "text"), ("score", "score", "short"), ("calibrated", "becomes", "short")]
    data = make_table("maps-data", "The maps, within the range of scores they were fitted on", columns, rows)
    described = "Recalibrated probability against score, for each map that changes scores; fitted on all rows."
    high = max(float(np.quantile(model.law, 0.995)) for model in models)
    zoom = (0.0, 1.25 * high) if high < _CORNER else "auto"
    draw = draw_with(CalibrationMapDisplay(maps), zoom=zoom)
    title = "The map of each model" if len(models) > 1 else f"The map for {models[0].called}"
    return figure("maps", title, described, draw, data, size=(4.3, 3.9), lines=len(maps))
