"""German credit, means over splits, beside the paper's."""

from __future__ import annotations

from reproduction.checks import Check, beside
from reproduction.german_forest import FOREST, forest_sentence
from reproduction.members import german_main, over_splits, std_error
from reproduction.printed import LOSSES, METHODS
from reproduction.work import Work
from scoreprism._core.simplex import FloatArray
from scoreprism.report import Table
from scoreprism.report._pieces import table

COLUMNS = {"raw": "raw", "recalibrated": "recalibrated", "reliability_plugin": "reliability"}


def robustness(work: Work) -> dict[str, list[Check]]:
    """
    All numbers of tab:robustness.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    dict of str to list of Check
        By loss.
    """
    frame = german_main(work)
    found: dict[str, list[Check]] = {}
    for loss in LOSSES:
        found[loss] = []
        for column in COLUMNS:
            for method in METHODS:
                key, values = f"robustness/{loss}/{column}/{method}", over_splits(frame, loss, method, column)
                why = forest_sentence(work) if key == FOREST else ""
                found[loss].append(beside(key, float(values.mean()), std_error(values), why))
    return found


def layout(work: Work) -> Table:
    """
    Our means and standard deviations, as the paper sets them.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Table
        One row for each method.
    """
    frame = german_main(work)
    cells = [(loss, column) for loss in LOSSES for column in COLUMNS]
    heads = [("method", "method", "text")]
    heads += [(f"{loss}_{column}", f"{LOSSES[loss]}, {COLUMNS[column]}", "text") for loss, column in cells]
    rows = [
        [method, *(_spread(over_splits(frame, loss, method, column)) for loss, column in cells)] for method in METHODS
    ]
    title = f"Mean ± standard deviation over {work.plan.splits} splits, as in tab:robustness"
    return table("german-robustness", title, heads, rows)


def _spread(values: FloatArray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
