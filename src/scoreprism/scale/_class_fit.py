"""Several classes, all rows: scaling by sums of gradients, then the terms by a last pass; segments one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import plain, refuse
from scoreprism._core.progress import tracked
from scoreprism._fitting.candidates import OVERFIT
from scoreprism._fitting.chain_fit import FEW_SURPRISES
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._rows import as_floored
from scoreprism.scale._class_result import ClassDecomposition, ClassRequest, class_scaled, with_parts
from scoreprism.scale._classes import MOST_FOLDS, ClassRows, Facts, find_facts
from scoreprism.scale._gradients import Fitting, FoldMaps, Scaling, with_home
from scoreprism.scale._groups import key_order
from scoreprism.scale._result import decomposed_each
from scoreprism.scale._roles import period_code
from scoreprism.scale._terms import ClassSums, decomposed, sum_terms

#: Segments and periods that are fitted one by one, each with passes of its own.
MOST_SEGMENTS = 24
#: Passes that the bar expects.
_EXPECTED = 7


def by_gradients(rows: ClassRows, request: ClassRequest) -> dict[str, ClassDecomposition]:
    """The whole, and every segment and period by laws and passes of its own."""
    facts = find_facts(rows)
    labels = _few_labels(facts, rows)
    whole = _fitted(rows, facts, request)
    floors = {name: one.floored.clip for name, one in whole.items() if one.floored and one.floored.clip}
    roles = rows.columns.roles
    places = {"segments": range(len(roles.by)), "periods": range(len(roles.by), len(rows.keys))}
    results = dict(whole)
    for kind, place in places.items():
        if not len(place):
            continue
        parts = {label: _part(rows, facts, place, label) for label in labels[kind]}
        found = decomposed_each(parts, lambda part: _fitted(part[0], part[1], request, floors), request.losses)
        results = {name: with_parts(one, kind, found[name]) for name, one in results.items()}
    return results


def _few_labels(facts: Facts, rows: ClassRows) -> dict[str, list[tuple[Any, ...]]]:
    count = len(rows.columns.roles.by)
    found = {
        "segments": list(dict.fromkeys(key[:count] for key in facts.segments)) if count else [],
        "periods": list(dict.fromkeys(key[count:] for key in facts.segments)) if len(rows.keys) > count else [],
    }
    for kind, labels in found.items():
        if len(labels) > MOST_SEGMENTS:
            refuse(
                f"`by` and `time` must make at most {MOST_SEGMENTS} {kind} here: each is fitted in passes of its own",
                f"{len(labels):,}",
                "Use coarser columns, or `calibrator`='auto', which fits to a sample.",
            )
        labels.sort(key=key_order)
    return found


def _part(rows: ClassRows, facts: Facts, place: range, label: tuple[Any, ...]) -> tuple[ClassRows, Facts]:
    """The rows of a segment or period."""
    held = np.array([tuple(key[j] for j in place) == label for key in facts.segments])
    frame, every = rows.frame, rows.columns.roles.every
    for j, value in zip(place, label, strict=True):
        name = rows.keys[j]
        raw = period_code(value, every) if name == "time" else value
        frame = frame.filter(nw.col(name).is_null() if raw is None else nw.col(name) == raw)
    return replace(rows, frame=frame), facts.only(held)


def _fitted(
    rows: ClassRows, facts: Facts, request: ClassRequest, floors: Mapping[str, float] | None = None
) -> dict[str, ClassDecomposition]:
    """Fold models by passes, then the terms by a last one; and another one at the floor of an infinite loss."""
    assert request.scaling is not None  # noqa: S101 - that is why we are here
    labels = facts.fold_labels
    home = _home(facts, rows, labels)
    ready = with_home(rows, labels)
    fitting = Fitting(ready, facts, home, request.scaling)
    passes = 2 + sum(1 for _ in tracked(fitting.steps(), _EXPECTED, "passes over the data"))
    assert fitting.result is not None  # noqa: S101 - the steps end with it
    maps, by = fitting.result.maps, request.scaling.name
    sums = sum_terms(ready, maps, request.losses, request.clip)
    notes = _notes(request.scaling, fitting.result, facts, sums, passes)
    parameters = _parameters(request.scaling, fitting.result, rows.k)
    plain_results = {
        name: decomposed(sums, loss, request.form, request.clip, notes, facts.n, by)
        for name, loss in request.losses.items()
    }
    floors = _floors(plain_results, facts, rows.k) if floors is None else floors
    results = {}
    for name, found in plain_results.items():
        results[name] = class_scaled(_guarded(found), facts, passes, parameters, found.risk, _risk_error(found))
        if name in floors:  # one more pass: sums of unclipped losses do not tell those of clipped ones
            loss, floor = request.losses[name], floors[name]
            again = sum_terms(ready, maps, {name: loss}, floor)
            twin = decomposed(again, loss, request.form, floor, notes, facts.n, by)
            twin = as_floored(_guarded(twin), round(float(again.moved.sum())))
            floored = class_scaled(twin, facts, passes + 1, parameters, twin.risk, _risk_error(twin))
            results[name] = replace(results[name], floored=floored, passes=passes + 1)
    return results


def _floors(results: Mapping[str, Decomposition], facts: Facts, k: int) -> dict[str, float]:
    """How far scores are kept from 0, by each loss that is infinite."""
    floor = min(0.5 / max(float(facts.table["n"].sum()), 1.0), 1.0 / k)
    return {name: floor for name, found in results.items() if found.clip is None and not found._finite}


def _home(facts: Facts, rows: ClassRows, labels: Sequence[Any]) -> NDArray[np.intp]:
    """The number of the fold of each line of the facts; every class must be outside of every fold."""
    column = rows.columns.roles.fold
    if not 2 <= len(labels) <= MOST_FOLDS:
        refuse(
            f"`cv_column` or `key` {column!r} must make from 2 to {MOST_FOLDS} folds", f"{len(labels):,}", "Change it."
        )
    place = {label: i for i, label in enumerate(labels)}
    home = np.array([place[fold] for fold in facts.folds], dtype=np.intp)
    y, n = facts.table["y"].astype(np.intp), facts.table["n"]
    counts = np.bincount(y, n, rows.k)
    if (counts > 0).sum() < 2:
        refuse("the target must hold at least two classes", f"{int((counts > 0).sum())}", "Pass more rows.")
    for f, label in enumerate(labels):
        inside = np.bincount(y[home != f], n[home != f], rows.k)
        gone = np.flatnonzero((inside == 0) & (counts >= 2))
        if gone.size:
            found = f"none of {plain(rows.columns.classes[gone[0]])} outside of fold {plain(label)}"
            refuse("every class must be outside of every fold", found, f"Use other folds than those of {column!r}.")
    return home


def _parameters(scaling: Scaling, fit: FoldMaps, k: int) -> dict[str, list[float]]:
    common = scaling.map(fit.common, k)
    return {"slopes": common.slope.tolist(), "intercepts": common.intercept.tolist()}


def _notes(scaling: Scaling, fit: FoldMaps, facts: Facts, sums: ClassSums, passes: int) -> tuple[str, ...]:
    where = f"cross-fitted in {len(fit.maps)} folds by sums of gradients over all rows, in {passes} passes"
    notes = [f"C = P(Y | S) is {scaling.name}, {where}"]
    if facts.absent:
        notes.append(f"{facts.absent:,} rows of weight 0 are absent")
    expected = float(sums.surprise.sum())
    if expected < FEW_SURPRISES:
        what = "outcomes are expected to be other than what C calls likeliest"
        notes.append(f"only about {expected:.1f} {what}: intervals and bounds are too optimistic")
    return tuple(notes)


def _guarded(found: Decomposition) -> Decomposition:
    """Say if C has learned noise; a scaling of many rows has not, so it is a note."""
    spread = found._moments.value({found._levels + 1: 1.0})
    loss = found._moments.value(dict.fromkeys(range(1, found._levels), 1.0))
    if not spread > OVERFIT * loss > 0.0:
        return found
    note = (
        f"the law C overfits: its spread over the folds is {100 * spread / loss:.1f} % of its loss "
        f"(up to {100 * OVERFIT:.0f} % is normal). Terms that involve it are unreliable; pass more rows."
    )
    return replace(found, notes=(*found.notes, note), _doubts=((1, note),))


def _risk_error(found: Decomposition) -> float:
    return float(found._moments.std_error(dict.fromkeys(range(found._levels), 1.0)))
