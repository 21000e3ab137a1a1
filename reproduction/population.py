"""The population of the synthetic experiment, by quadrature: scores, and which statements hold at which correlation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.pieces import minus, table
from reproduction.work import Plan, Work, once
from scoreprism.calibrators import IsotonicCalibrator
from scoreprism.datasets import CopulaLaw, ScoreLaw
from scoreprism.report import Table

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Names of the scores in sentences, tables and figures.
NAMES = {
    "x1": "x₁",
    "x2": "x₂",
    "average": "average",
    "x12": "x₁₂",
    "x1-rounded": "x₁ rounded",
    "x12-rounded": "x₁₂ rounded",
}
#: Features of each logistic model.
FEATURES = {"x1": (0,), "x2": (1,), "x12": (0, 1)}
#: Values of a rounded score.
_VALUES = 5
#: First number of all seeds of this experiment, so that no other shares its draws.
_SEED = 61


# ── scores ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Logistic:
    """σ(a + b₁x₁ + b₂x₂)."""

    intercept: float
    slopes: tuple[float, float]

    def __call__(self, x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        return sigmoid(self.intercept + self.slopes[0] * x1 + self.slopes[1] * x2)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Invert the logit without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def round_score(score: np.ndarray) -> np.ndarray:
    """Give the middle of that of five intervals of equal length in which a score lies: 0.1, 0.3, …, 0.9."""
    cell = np.minimum(np.floor(score * _VALUES), _VALUES - 1)
    return (2.0 * cell + 1.0) / (2 * _VALUES)


def fit_logistic(X: np.ndarray, y: Any, features: tuple[int, ...], weight: np.ndarray | None = None) -> Logistic:
    """Fit an unpenalised logistic regression on some of the features."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    model.fit(X[:, list(features)], y, weight)
    slopes = dict(zip(features, model.coef_[0].tolist(), strict=True))
    return Logistic(float(model.intercept_[0]), (slopes.get(0, 0.0), slopes.get(1, 0.0)))


def fit_population(law: CopulaLaw, features: tuple[int, ...]) -> Logistic:
    """
    Find the logistic model that a fit on endlessly many rows gives.

    Solves E[(Q − σ(a + b·x))(1, x)] = 0 on a grid: each node is a row with outcome 1 and weight Q, and one with
    outcome 0 and weight 1 − Q.
    """
    u, v, mass = law._make_grid(161)
    X = np.stack([u, v], axis=1)
    q, y = law.q(X), np.repeat([1, 0], mass.size)
    return fit_logistic(np.concatenate([X, X]), y, features, np.concatenate([mass * q, mass * (1.0 - q)]))


def make_scores(fit: Callable[[tuple[int, ...]], Logistic]) -> dict[str, Score]:
    """Make all scores of the experiment from the three logistic models, which `fit` gives for their features."""
    x1, x2, x12 = (fit(features) for features in FEATURES.values())
    return {
        "x1": x1,
        "x2": x2,
        "x12": x12,
        "average": lambda a, b: 0.5 * (x1(a, b) + x2(a, b)),
        "x1-rounded": lambda a, b: round_score(x1(a, b)),
        "x12-rounded": lambda a, b: round_score(x12(a, b)),
    }


def make_population_scores(law: CopulaLaw) -> dict[str, Score]:
    """Make all scores, fitted on the population itself."""
    return make_scores(lambda features: fit_population(law, features))


def fit_isotonic(score: np.ndarray, y: Any) -> IsotonicCalibrator:
    """Fit the textbook isotonic regression, joined by straight lines as scikit-learn does."""
    return IsotonicCalibrator(interpolation="linear", shrink=False, clip=0).fit(score, y)


def seed_run(rho: float, run: int, purpose: int = 0) -> np.random.Generator:
    """Seed one run; experiments that must not share their draws have different purposes."""
    return np.random.default_rng([_SEED, round(1000 * (rho + 1.0)), run, purpose])


# ── by quadrature ───────────────────────────────────────────────────────────────────────────────────


def refine(law: ScoreLaw, by: int = 256) -> ScoreLaw:
    """
    Put more nodes into a smooth law, for maps with steps that fall between its nodes; a law of few values stays.

    The nodes are even in a variable in which score, C and density are smooth, namely their number: interpolation in
    that number is accurate.
    """
    if law.method != "smooth":
        return law
    from scipy.interpolate import PchipInterpolator

    number = np.arange(law.score.size)
    between = (np.arange((number.size - 1) * by) + 0.5) / by
    score, calibrated, mass = (PchipInterpolator(number, part)(between) for part in law[:3])
    return ScoreLaw(score, calibrated, mass / mass.sum(), law.method)


def measure_map(law: ScoreLaw, values: np.ndarray) -> tuple[float, float]:
    """
    Measure g(S), given g at the scores of a law: E(g − C')² and E(C' − C)², with C' = E[Q | g(S)].

    These are its Brier reliability, and by how much its grouping is larger than that of S. Where g ties scores, C' is
    the mean of C over the tie.
    """
    _, tie = np.unique(values, return_inverse=True)
    mean = (np.bincount(tie, law.mass * law.calibrated) / np.bincount(tie, law.mass))[tie]
    return float(law.mass @ (values - mean) ** 2), float(law.mass @ (mean - law.calibrated) ** 2)


def list_correlations(plan: Plan) -> list[float]:
    """List the correlations of a plan, from −0.9 to 0.9."""
    count = round(1.8 / plan.step) + 1
    return [float(rho) + 0.0 for rho in np.round(np.linspace(-0.9, 0.9, count), 6)]


def solve_correlation(task: dict[str, Any]) -> dict[str, float]:
    """
    Compute the population at one correlation: ``lcs/…`` and ``grouping/…`` of every score.

    And by how much isotonic maps fitted on so many rows change grouping: ``change/…``, the mean over runs, and
    ``most/…``, the largest.
    """
    law = CopulaLaw(task["rho"])
    found: dict[str, float] = {"rho": task["rho"]}
    scores = make_population_scores(law)
    for key in ("x1", "x2", "x12", "average"):
        terms = law.population(scores[key], "brier")
        found |= {f"lcs/{key}": terms.reliability, f"grouping/{key}": terms.grouping}
        if key in ("x1", "x12"):
            nodes = refine(law.score_law(scores[key]))
            reliability, more = measure_map(nodes, round_score(nodes.score))
            found |= {f"lcs/{key}-rounded": reliability, f"grouping/{key}-rounded": terms.grouping + more}
            changes = []
            for run in range(task["runs"]):
                drawn = law.sample(task["rows"], seed_run(law.rho, run, 1))
                g = fit_isotonic(scores[key](*drawn.X.T), drawn.y)
                changes.append(measure_map(nodes, g.calibrate(nodes.score))[1])
            found |= {f"change/{key}": float(np.mean(changes)), f"most/{key}": max(changes)}
    return found


@once
def solve_population(work: Work) -> list[dict[str, float]]:
    """Compute the population at every correlation of the plan."""
    plan = work.plan
    tasks = [{"rho": rho, "rows": plan.rows, "runs": plan.runs} for rho in list_correlations(plan)]
    return work.run("population", solve_correlation, tasks, "correlations, exactly")


def name_numbers(work: Work) -> dict[str, float]:
    """Name all numbers of the population."""
    rows = solve_population(work)
    return {f"population/{row['rho']:+.2f}/{key}": row[key] for row in rows for key in row if key != "rho"}


def exceeds(row: dict[str, float], times: float = 1.0) -> bool:
    """Tell whether the LCS of the average is more than so many times that of both members."""
    return row["lcs/average"] > times * max(row["lcs/x1"], row["lcs/x2"])


def tabulate_population(work: Work) -> Table:
    """Make a table of the population: where do the statements of section 6.1 hold?"""
    rows = solve_population(work)
    shown = [key for key in rows[0] if key.startswith(("lcs/", "grouping/", "most/"))]
    cells = [
        {"ρ": signed(row["rho"]), "average above both": "yes" if exceeds(row) else "no"}
        | {key: row[key] for key in shown}
        for row in rows
    ]
    note = (
        "Brier score, by quadrature, with the logistic models of the population. Most: the largest change of grouping by "
        f"isotonic maps fitted on {work.plan.rows:,} rows, of {work.plan.runs} runs."
    )
    return table("population", "The population at every ρ", cells, note)


def signed(rho: float) -> str:
    """Write a correlation as people read it."""
    return minus(f"{round(rho, 6):g}")
