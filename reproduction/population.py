"""The population of the synthetic experiment, by quadrature: which statements hold at which correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.synthetic_scores import NAMES, Rounded, Score, generator, isotonic, population_scores, rounded
from reproduction.work import Plan, Work
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw, ScoreLaw
from scoreprism.report import Figure
from scoreprism.report._pieces import enumerated, table

#: A change of grouping below this counts as none.
_SAME = 0.001


def refined(law: ScoreLaw, by: int = 256) -> ScoreLaw:
    """
    More nodes of a smooth law, for maps with steps that fall between its nodes.

    The nodes are even in a variable in which score, C and density are smooth, namely their number: interpolation in
    that number is accurate. A law of few values is returned as it is.

    Parameters
    ----------
    law : ScoreLaw
        From ``law.score_law``.
    by : int, default=256
        How many for one.

    Returns
    -------
    ScoreLaw
        Nodes whose masses sum to 1.
    """
    if law.method != "smooth":
        return law
    from scipy.interpolate import PchipInterpolator

    number = np.arange(law.score.size)
    between = (np.arange((number.size - 1) * by) + 0.5) / by
    score, calibrated, mass = (PchipInterpolator(number, part)(between) for part in law[:3])
    return ScoreLaw(score, calibrated, mass / mass.sum(), law.method)


def recalibrated(law: ScoreLaw, values: FloatArray) -> tuple[float, float]:
    """
    Brier reliability of g(S), and by how much grouping is larger than that of S.

    Parameters
    ----------
    law : ScoreLaw
        Law of S and C = E[Q | S].
    values : array
        g at its scores. Where g ties scores, the calibrated version of g(S) is the mean of C over the tie.

    Returns
    -------
    tuple of float
        E(g − C')² and E(C' − C)², C' = E[Q | g(S)].

    Examples
    --------
    >>> law = ScoreLaw(np.array([0.2, 0.4]), np.array([0.1, 0.5]), np.array([0.5, 0.5]), "discrete")
    >>> [round(part, 4) for part in recalibrated(law, np.array([0.3, 0.3]))]
    [0.0, 0.04]
    """
    _, tie = np.unique(values, return_inverse=True)
    mean = (np.bincount(tie, law.mass * law.calibrated) / np.bincount(tie, law.mass))[tie]
    return float(law.mass @ (values - mean) ** 2), float(law.mass @ (mean - law.calibrated) ** 2)


def correlations(plan: Plan) -> list[float]:
    """
    Correlations between −0.9 and 0.9.

    Parameters
    ----------
    plan : Plan
        Gives their distance.

    Returns
    -------
    list of float
        In increasing order.

    Examples
    --------
    >>> from reproduction import PLANS
    >>> correlations(PLANS["quick"])[:2], len(correlations(PLANS["quick"]))
    ([-0.9, -0.8], 19)
    """
    count = round(1.8 / plan.step) + 1
    return [float(rho) + 0.0 for rho in np.round(np.linspace(-0.9, 0.9, count), 6)]


def at_correlation(task: dict[str, Any]) -> dict[str, float]:
    """
    The population at one correlation.

    Parameters
    ----------
    task : dict
        ``rho``; ``rows`` and ``runs`` of the recalibration maps that are fitted.

    Returns
    -------
    dict of str to float
        ``lcs/…`` and ``grouping/…`` of every score; ``change/…`` of grouping by isotonic maps fitted on so many rows,
        mean over runs, and ``most/…``, the largest.
    """
    law = CopulaLaw(task["rho"])
    found: dict[str, float] = {"rho": task["rho"]}
    for key, score in population_scores(law).items():
        if isinstance(score, Rounded):
            continue
        terms = law.population(score, "brier")
        found |= {f"lcs/{key}": terms.reliability, f"grouping/{key}": terms.grouping}
        if key in ("x1", "x12"):
            nodes = refined(law.score_law(score))
            reliability, more = recalibrated(nodes, rounded(nodes.score))
            found |= {f"lcs/{key}-rounded": reliability, f"grouping/{key}-rounded": terms.grouping + more}
            changes = [_change(law, score, nodes, task["rows"], run) for run in range(task["runs"])]
            found |= {f"change/{key}": float(np.mean(changes)), f"most/{key}": max(changes)}
    return found


def _change(law: CopulaLaw, score: Score, nodes: ScoreLaw, rows: int, run: int) -> float:
    """By how much an isotonic map fitted on so many rows raises the grouping of a score."""
    drawn = law.sample(rows, generator(law.rho, run, 1))
    return recalibrated(nodes, isotonic(score(*drawn.X.T), drawn.y).calibrate(nodes.score))[1]


def population(work: Work) -> list[dict[str, float]]:
    """
    The population at every correlation of the plan.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    list of dict
        As of `at_correlation`.
    """
    plan = work.plan
    tasks = [{"rho": rho, "rows": plan.rows, "runs": plan.runs} for rho in correlations(plan)]
    found: list[dict[str, float]] = work.once(
        "population", lambda: work.run("population", at_correlation, tasks, "correlations, exactly")
    )
    return found


def at_zero(work: Work) -> dict[str, float]:
    """
    The population at ρ = 0, whatever the correlations of the plan.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    dict
        As of `at_correlation`.
    """
    plan, found = work.plan, [row for row in population(work) if row["rho"] == 0.0]
    return found[0] if found else at_correlation({"rho": 0.0, "rows": plan.rows, "runs": plan.runs})


def exceeds(row: dict[str, float], times: float = 1.0) -> bool:
    """
    Whether the LCS of the average is more than so many times that of both members.

    Parameters
    ----------
    row : dict
        Of `population`.
    times : float, default=1.0
        How many times.

    Returns
    -------
    bool
        True if it is.

    Examples
    --------
    >>> row = {"lcs/average": 0.4, "lcs/x1": 0.1, "lcs/x2": 0.3}
    >>> exceeds(row), exceeds(row, 3)
    (True, False)
    """
    return row["lcs/average"] > times * max(row["lcs/x1"], row["lcs/x2"])


def claims_by_rho(work: Work) -> tuple[Figure, dict[str, float]]:
    """
    Which statements of the paper hold at which correlation, in the population.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    Figure
        Grouping against ρ, and below it where each statement holds; its table has one row for each correlation.
    dict of str to float
        ``population/ρ/…``, as in `at_correlation`.
    """
    found: tuple[Figure, dict[str, float]] = work.once("claims-by-rho", lambda: _claims(work))
    return found


def statements(row: dict[str, float]) -> dict[str, bool]:
    """
    Whether each statement holds at one correlation.

    Parameters
    ----------
    row : dict
        Of `population`.

    Returns
    -------
    dict of str to bool
        In the order of the figure.
    """
    rises = all(row[f"grouping/{key}-rounded"] > row[f"grouping/{key}"] for key in ("x1", "x12"))
    return {
        "LCS of the average\nabove both members'": exceeds(row),
        "grouping of x₁₂\nbelow that of x₁": row["grouping/x12"] < row["grouping/x1"],
        "rounding raises\ngrouping": rises,
        f"recalibration moves\nit by less than {_SAME:g}": max(row["most/x1"], row["most/x12"]) < _SAME,
    }


def _claims(work: Work) -> tuple[Figure, dict[str, float]]:
    from reproduction.synthetic_figures import claims_figure

    rows = population(work)
    numbers = {f"population/{row['rho']:+.2f}/{key}": row[key] for row in rows for key in row if key != "rho"}
    columns = [
        ("rho", "ρ", "text"), *((f"lcs-{key}", f"LCS {NAMES[key]}", "short") for key in ("x1", "x2", "average")),
        ("exceeds", "average above both", "text"),
        *((f"grouping-{key}", f"grouping {NAMES[key]}", "short") for key in ("x1", "x12", "x12-rounded")),
        ("richer", "x₁₂ below x₁", "text"), ("quantised", "rounding raises", "text"),
        ("change", "change", "short"),
    ]  # fmt: skip
    note = (
        "Brier score; LCS and grouping by quadrature, with the logistic models of the population. Change: of the "
        f"grouping of x₁ or x₁₂, whichever changes more, by isotonic maps fitted on {work.plan.rows:,} rows "
        f"(mean of {work.plan.runs} runs)."
    )
    made = table("claims-by-rho", "What holds at which ρ in the population", columns, map(_claims_row, rows), note)
    return claims_figure(rows, [statements(row) for row in rows], _told(rows), made), numbers


def _told(rows: list[dict[str, float]]) -> str:
    """Where each statement holds, in words."""
    held = [statements(row) for row in rows]
    parts = []
    for name in held[0]:
        fails = [signed(row["rho"]) for row, holds in zip(rows, held, strict=True) if not holds[name]]
        where = f"not at ρ = {enumerated(fails)}" if fails else "at every ρ"
        parts.append(f"{' '.join(name.split())}: {where}")
    most = max(row[f"most/{key}"] for row in rows for key in ("x1", "x12"))
    return f"{'; '.join(parts)}. The largest change of grouping in any run is {most:.5f}."


def _claims_row(row: dict[str, float]) -> list[str | float]:
    grouping = {key: row[f"grouping/{key}"] for key in ("x1", "x12", "x12-rounded")}
    above, richer, rises, _ = statements(row).values()
    return [
        signed(row["rho"]), row["lcs/x1"], row["lcs/x2"], row["lcs/average"], _yes(above),
        grouping["x1"], grouping["x12"], grouping["x12-rounded"], _yes(richer), _yes(rises),
        max(row["change/x1"], row["change/x12"]),
    ]  # fmt: skip


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def signed(rho: float) -> str:
    """
    A correlation as people read it.

    Parameters
    ----------
    rho : float
        The correlation.

    Returns
    -------
    str
        With a true minus sign.

    Examples
    --------
    >>> signed(-0.9), signed(0.0)
    ('−0.9', '0')
    """
    return f"{round(rho, 6):g}".replace("-", "−")
