"""Section 3: what recalibration by each map would do, out of sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from scoreprism._maps.order import judge_order
from scoreprism.calibrators import SelectedCalibrator
from scoreprism.curves import CalibrationMap, calibration_map
from scoreprism.displays import CalibrationMapDisplay
from scoreprism.report._map_trials import CHOOSER, CHOSEN
from scoreprism.report._model import Block, Figure, Notice, Section, Table
from scoreprism.report._pieces import ends, figure, span, table
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import RowCase, RowSubject

#: Of more models than these only the best maps are shown, and the one that chooses.
_FEW_MODELS, _BEST = 2, 2
#: Where the table of a map gives its values.
_PLACES = np.array([0.01, 0.05, *(0.1 * i for i in range(1, 10)), 0.95, 0.99])


def recalibration(case: RowCase) -> Section:
    """The third section."""
    blocks: list[Block] = [gains_table(case)]
    choice = _choice_table(case)
    blocks += [choice] if choice is not None else []
    blocks += [Notice("note", _described(model)) for model in case.models.values()]
    for model in case.models.values():
        if getattr(model.map, "contradiction_", None) is not None:
            said = model.map.describe_contradiction("`order`='any' follows them")
            blocks.append(Notice("warning", said if len(case.models) == 1 else f"{model.name}: {said}"))
    if case.binary:
        blocks.append(_picture(case))
    for model in case.models.values():
        blocks += [
            Notice("note", f"{model.name}: {name} was left out, {why}") for name, why in model.maps.failed.items()
        ]
    return Section("recalibration", SECTIONS["recalibration"], _meaning(case), tuple(blocks))


def _meaning(case: RowCase) -> str:
    """The gain of the map that chooses inside each fold; the best of several looks better than it is."""
    model = case.first
    maps = model.maps
    gain, best = maps.of(maps.honest, case.loss), maps.best
    how = "choosing the map inside each fold" if maps.chooses else f"by {best}"
    if not np.isfinite(gain.before):
        return (
            f"Recalibration makes the {case.loss} loss of {model.name} finite: {gain.after:.4f} out of sample, {how}."
        )
    interval = f"{span(gain.gain, gain.gain, 4).split(' to ')[0]}, {span(gain.low, gain.high, 4)}"
    after = f"{gain.before:.4f} to {gain.after:.4f} out of sample, {how} (gain {interval})"
    did = "" if best in (CHOOSER, maps.honest) else f"; {best} did best"
    if gain.low > 0.0:
        return f"Recalibration takes the {case.loss} loss of {model.name} from {after}{did}."
    if getattr(model.map, "selected_", "") == "identity":
        what = f"No map clearly lowers the {case.loss} loss of {model.name}, {gain.before:.4f}, out of fold"
        seen = " Miscalibration is shown, but it is too small, or of a shape that these maps do not follow."
        return f"{what}: leave its scores as they are.{seen if model.miscalibrated else ''}"
    if gain.gain > 0.0:
        return f"Recalibration takes the {case.loss} loss of {model.name} from {after}: no gain is shown{did}."
    if model.miscalibrated:
        why = (
            "its miscalibration is shown, but too small for maps fitted on so few rows, or of a shape "
            "they do not follow"
        )
        return f"Recalibration does not lower the {case.loss} loss of {model.name} here ({after}): {why}."
    return f"Recalibration does not lower the {case.loss} loss of {model.name} ({after}): leave it as it is."


def gains_table(case: RowCase) -> Table:
    """Losses before and after recalibration."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        before = [model.decompositions[loss].risk for loss in case.losses]
        rows.append((model.name, "as it is", *(cell for risk in before for cell in (risk, None))))
        tried = sorted(
            dict.fromkeys(gain.name for gain in model.maps.gains), key=lambda name: model.maps.of(name, case.loss).after
        )
        if len(case.models) > _FEW_MODELS:
            tried = [name for name in tried if name in (*tried[:_BEST], model.maps.honest)]
        for name in tried:
            gains = [model.maps.of(name, loss) for loss in case.losses]
            cells = (cell for gain in gains for cell in (gain.after, ends(gain.low, gain.high, gain.gain)))
            rows.append((model.name, _named(name), *cells))
    columns = [("model", "model", "text"), ("map", "map", "text")]
    for loss in case.losses:
        columns += [(f"{loss}_loss", f"{loss} loss", "loss"), (f"{loss}_gain", f"gain ({case.percent})", "signed")]
    note = "Every map is fitted without the rows it is judged on. The best of several looks a little better than it is"
    if any(model.maps.chooses for model in case.models.values()):
        note += f"; “{CHOSEN}” chooses a map anew inside each fold, so no choice flatters it"
    return table("recalibration", "Losses before and after recalibration, smallest first", columns, rows, f"{note}.")


def _named(name: str) -> str:
    """What a map is called; the one that chooses, by what it does."""
    return CHOSEN if name == CHOOSER else name


def _choice_table(case: RowCase) -> Table | None:
    """The candidates of the maps that are handed over, with their out-of-fold losses."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        chosen = model.map
        if not isinstance(chosen, SelectedCalibrator) or not chosen.losses_:
            continue
        least = min(chosen.losses_.values())
        for name, loss in chosen.losses_.items():
            if len(case.models) <= _FEW_MODELS or name == chosen.selected_:
                above, error = loss - least, chosen.std_errors_[name]
                taken = "chosen" if name == chosen.selected_ else ""
                rows.append((model.name, name, loss, above, error if above > 0.0 else None, taken))
    if not rows:
        return None
    columns = [
        ("model", "model", "text"), ("map", "candidate", "text"), ("loss", "log loss out of fold", "loss"),
        ("above", "above the best", "loss"), ("error", "standard error", "loss"), ("chosen", "choice", "text"),
    ]  # fmt: skip
    note = (
        "Simplest first. Chosen is the first whose distance above the best is at most its standard error. Folds are "
        "drawn anew for the choice, so losses differ a little from those of other tables."
    )
    return table("choice", "How the map was chosen", columns, rows, note)


def _described(model: RowSubject) -> str:
    """The map that is handed over, by name, and what it does to the ranking."""
    fitted = model.map
    name = getattr(fitted, "selected_", fitted.name)
    how = ", chosen by cross-validation" if isinstance(fitted, SelectedCalibrator) and fitted.losses_ else ""
    if name == "identity":
        return f"The map of {model.name} is the identity{how}: its scores are left as they are."
    kept, ties = judge_order(fitted.map_, model.map_input)
    if model.k > 2:
        effect = "keeps" if kept else "may change"
        return f"The map of {model.name} is {name}{how}: it {effect} the order of the classes within rows."
    pair = model.law, fitted.calibrate(model.law)
    before, after = (f"{roc_auc_score(model.y, score, sample_weight=model.weight):.4f}" for score in pair)
    if kept and not ties:
        return f"The map of {model.name} is {name}{how}: it keeps the order of the scores, and so the AUC, {before}."
    effect = "keeps the order of the scores, but makes some equal" if kept else "does not keep the order of the scores"
    if np.ptp(pair[1]) == 0.0:
        effect = "gives every row the same probability"
    return f"The map of {model.name} is {name}{how}: it {effect} (AUC on these rows {before} before, {after} after)."


def _curve(model: RowSubject) -> CalibrationMap:
    name = getattr(model.map, "selected_", model.map.name)
    return calibration_map(model.sample, None, model.map, name=f"{model.name}: {name}")


def _picture(case: RowCase) -> Figure:
    maps = [_curve(model) for model in case.models.values()]
    rows = [
        (one.name, float(place), float(np.interp(place, one.x, one.y)))
        for one in maps
        for place in _PLACES
        if one.support[0] <= place <= one.support[1]
    ]
    columns = [("map", "map", "text"), ("score", "score", "short"), ("calibrated", "becomes", "short")]
    data = table("maps-data", "The map of each model, where it has seen scores", columns, rows)

    def draw(ax: Any) -> None:
        CalibrationMapDisplay(maps).plot(ax)

    described = "The recalibrated probability against the score, by the map of each model, fitted on all rows."
    return figure(
        "maps", "The map of each model", described, draw, data, size=(4.3, 3.9 + 0.17 * max(len(maps) - 3, 0))
    )
