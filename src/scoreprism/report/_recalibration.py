"""Section 3: what recalibration by each map would do, out of sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism.curves import CalibrationMap, calibration_map
from scoreprism.displays import CalibrationMapDisplay
from scoreprism.report._case import Case
from scoreprism.report._fit import Model
from scoreprism.report._maps import Gain
from scoreprism.report._model import Block, Figure, Notice, Range, Section, Table
from scoreprism.report._pieces import ends, figure, span, table
from scoreprism.report._report import SECTIONS

#: Of more models than these only the best maps are shown, and the one that chooses.
_FEW_MODELS, _BEST = 2, 2
#: Where the table of a map gives its values.
_PLACES = np.array([0.01, 0.05, *(0.1 * i for i in range(1, 10)), 0.95, 0.99])


def recalibration(case: Case) -> Section:
    """The third section."""
    blocks: list[Block] = [gains_table(case)]
    if case.binary:
        blocks.append(_picture(case))
    for model in case.models.values():
        blocks += [
            Notice("note", f"{model.name}: {name} was left out, {why}") for name, why in model.maps.failed.items()
        ]
    return Section("recalibration", SECTIONS["recalibration"], _meaning(case), tuple(blocks))


def _meaning(case: Case) -> str:
    """The gain of the map that chooses inside each fold; the best of several looks better than it is."""
    model = case.first
    maps = model.maps
    gain, best = maps.of(maps.honest, case.loss), maps.best
    if not np.isfinite(gain.before):
        return (
            f"Any of these maps makes the {case.loss} loss of {model.name} finite: {best} gives "
            f"{maps.of(best, case.loss).after:.4f}."
        )
    how = "choosing the map inside each fold" if maps.honest != best else f"by {best}"
    interval = f"{span(gain.gain, gain.gain, 4).split(' to ')[0]}, {span(gain.low, gain.high, 4)}"
    after = f"{gain.before:.4f} to {gain.after:.4f} out of sample, {how} (gain {interval})"
    did = "" if maps.honest == best else f"; {best} did best"
    if gain.low > 0.0:
        return f"Recalibration takes the {case.loss} loss of {model.name} from {after}{did}."
    if gain.gain > 0.0:
        return f"Recalibration takes the {case.loss} loss of {model.name} from {after}: no gain is shown{did}."
    if model.miscalibrated:
        why = (
            "its miscalibration is shown, but too small for maps fitted on so few rows, or of a shape "
            "they do not follow"
        )
        return f"Recalibration does not lower the {case.loss} loss of {model.name} here ({after}): {why}."
    return f"Recalibration does not lower the {case.loss} loss of {model.name} ({after}): leave it as it is."


def gains_table(case: Case) -> Table:
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
            rows.append((model.name, name, *(cell for gain in gains for cell in (gain.after, _range(gain)))))
    columns = [("model", "model", "text"), ("map", "map", "text")]
    for loss in case.losses:
        columns += [(f"{loss}_loss", f"{loss} loss", "loss"), (f"{loss}_gain", f"gain ({case.percent})", "signed")]
    note = (
        "Every map is fitted without the rows it is judged on. The best of several looks a little better than it is; "
        "“selected” chooses among Platt, natural spline, isotonic and kernel maps inside each fold, "
        "so no choice flatters it."
    )
    return table("recalibration", "Losses before and after recalibration, smallest first", columns, rows, note)


def _range(gain: Gain) -> Range:
    return ends(gain.low, gain.high, gain.gain)


def _maps(model: Model) -> CalibrationMap:
    return calibration_map(model.y, model.law, model.maps.best, name=f"{model.name}: {model.maps.best}", **model.given)


def _picture(case: Case) -> Figure:
    maps = [_maps(model) for model in case.models.values()]
    rows = [
        (one.name, float(place), float(np.interp(place, one.x, one.y)))
        for one in maps
        for place in _PLACES
        if one.support[0] <= place <= one.support[1]
    ]
    columns = [("map", "map", "text"), ("score", "score", "short"), ("calibrated", "becomes", "short")]
    data = table("maps-data", "The best map of each model, where it has seen scores", columns, rows)

    def draw(ax: Any) -> None:
        CalibrationMapDisplay(maps).plot(ax)

    described = "The recalibrated probability against the score, by the best map of each model, fitted on all rows."
    return figure(
        "maps", "The best map of each model", described, draw, data, size=(4.3, 3.9 + 0.17 * max(len(maps) - 3, 0))
    )
