"""German credit with a reference law: out-of-fold scores of the four methods, split into three terms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from reproduction.members import CLIP, fitted_scores
from reproduction.printed import LOSSES, METHODS
from reproduction.work import Work
from scoreprism import decompose
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.datasets import load_german_credit
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.report import Range, Table
from scoreprism.report._model import Cell
from scoreprism.report._pieces import enumerated, table

#: Folds that scores are out of, and folds inside them that the stack learns from.
_OUTER, _INNER = 10, 5
_LEVEL = 0.95


def fold_scores(task: dict[str, int]) -> dict[str, Any]:
    """
    Scores of one fold by methods that have not seen it; the stack learns from out-of-fold scores of the others.

    Parameters
    ----------
    task : dict
        "fold", its number, and "trees".

    Returns
    -------
    dict
        "rows", and scores by method.
    """
    from sklearn.model_selection import StratifiedKFold

    from scoreprism.ensembles import Stacking, average

    y, fold = load_german_credit().y, task["fold"]
    everyone = np.arange(y.size)
    train, test = list(StratifiedKFold(_OUTER, shuffle=True, random_state=0).split(everyone, y))[fold]
    inner = StratifiedKFold(_INNER, shuffle=True, random_state=fold)
    learned = np.empty((train.size, 2))
    for one, other in inner.split(train, y[train]):
        learned[other] = _members(task, train[one])[train[other]]
    members = _members(task, train)[test]
    stack = Stacking(on="probability").fit(learned, y[train])
    found = {"glm": members[:, 0], "forest": members[:, 1], "average": average(list(members.T))}
    return {"rows": test, **found, "stacking": stack.predict_proba(members)[:, 1]}


def _members(task: dict[str, int], train: IntArray) -> FloatArray:
    """Scores of both models for all rows, side by side."""
    return np.column_stack(list(fitted_scores(train, task["trees"], task["fold"]).values()))


def decompositions(work: Work) -> dict[str, dict[str, Decomposition]]:
    """
    The three terms of every method, under both losses.

    Parameters
    ----------
    work : Work
        Where it is computed, once.

    Returns
    -------
    dict of str to dict of str to Decomposition
        By loss, then by method.
    """

    def made() -> dict[str, dict[str, Decomposition]]:
        tasks = [{"fold": fold, "trees": work.plan.trees} for fold in range(_OUTER)]
        data, found = load_german_credit(), work.run("german-folds", fold_scores, tasks, "German credit: folds")
        scores = {method: np.empty(data.y.size) for method in METHODS}
        for part in found:
            for method, S in scores.items():
                S[part["rows"]] = part[method]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # the table says what is known
            terms = {
                method: decompose(data.y, S, data.X, loss=tuple(LOSSES), clip=CLIP, random_state=0, n_jobs=work.n_jobs)
                for method, S in scores.items()
            }
        return {loss: {method: terms[method][loss] for method in METHODS} for loss in LOSSES}

    kept: dict[str, dict[str, Decomposition]] = work.once("german-decompositions", made)
    return kept


def known(one: Decomposition) -> tuple[Range, Range, Range]:
    """
    What is known of the three terms: an interval, a lower bound, an upper bound.

    Parameters
    ----------
    one : Decomposition
        With a reference law.

    Returns
    -------
    tuple of Range
        Reliability, grouping, irreducible, with their estimates.
    """
    reliability = one.interval("reliability", _LEVEL)
    least, most = one.lower_bound("grouping", _LEVEL).value, one.upper_bound("irreducible", _LEVEL).value
    return (
        Range(reliability.low, reliability.high, one.terms["reliability"]),
        Range(max(least, 0.0), None, one.terms["grouping"]),
        Range(None, most, one.terms["irreducible"]),
    )


def reference_table(work: Work) -> Table:
    """
    The three terms with what is known of them.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    Table
        One row for each loss and method.
    """
    heads = [("loss", "loss", "text"), ("method", "method", "text"), ("risk", "value", "loss"),
             ("reliability", "reliability", "loss"), ("grouping", "grouping", "loss"),
             ("irreducible", "irreducible", "loss")]  # fmt: skip
    rows: list[list[Cell]] = [
        [LOSSES[loss], method, one.risk, *known(one)]
        for loss, methods in decompositions(work).items()
        for method, one in methods.items()
    ]
    note = (
        f"Estimates, and what is known at {_LEVEL:.0%}. Grouping has no upper bound and irreducible loss no lower "
        "one: a finer law could always explain more."
    ).replace("%", " %")
    title = f"Three terms with a reference law P(Y | X): scores out of {_OUTER} folds, all 1000 rows"
    return table("beyond-terms", title, heads, rows, note)


def estimates_sentence(work: Work) -> str:
    """
    What the figure of the terms shows.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    str
        Estimates under log loss.
    """
    parts = [
        f"{method} {one.terms['reliability']:.4f} and {one.terms['grouping']:.4f}"
        for method, one in decompositions(work)["log"].items()
    ]
    told = f"Bars are estimates, lines what is known. Reliability and grouping under log loss: {'; '.join(parts)}."
    return told.replace("-", "−")


def reference_sentence(work: Work) -> str:
    """
    What is known of the three terms, by bounds and not by estimates.

    Parameters
    ----------
    work : Work
        Where it is computed.

    Returns
    -------
    str
        Under log loss.
    """
    found = {method: (one, *known(one)) for method, one in decompositions(work)["log"].items()}
    off = [f"{m} (at least {r.low:.4f})" for m, (_, r, _, _) in found.items() if r.low is not None and r.low > 0]
    lost = [f"{m} (at least {g.low:.4f})" for m, (_, _, g, _) in found.items() if g.low is not None and g.low > 0]
    best = min(found, key=lambda m: found[m][0].risk)
    one, reliability, _, irreducible = found[best]
    gain = "nothing" if reliability.high is None else f"at most {reliability.high:.3f}"
    most = one.risk if irreducible.high is None else irreducible.high
    rest = (
        f"at most {most:.3f} of it is irreducible, so that it can be reduced"
        if most < one.risk
        else f"the bound on its irreducible part, {most:.3f}, is no smaller, so that all of it may be irreducible"
    )
    return (
        "What is known under log loss, each method by itself at 95 %: reliability above 0 for "
        f"{enumerated(off) if off else 'no method'}, grouping above 0 for {enumerated(lost) if lost else 'no method'}. "
        "These scores are of models of 900 rows, judged on all 1000; the intervals over splits are of models of 600, "
        "judged on 200 at a time. Of the smallest "
        f"loss, {one.risk:.3f} ({best}), recalibration gains {gain}; {rest}."
    )
