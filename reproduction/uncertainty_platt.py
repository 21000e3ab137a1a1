"""Appendix C on parametric maps: standard errors by theory, by the bootstrap, and over fresh samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.checks import Check, claimed
from reproduction.uncertainty_scores import LAW, SAMPLES_PER_RUN, steep
from reproduction.work import Work
from scoreprism._core.simplex import FloatArray
from scoreprism.report import Table
from scoreprism.report._pieces import table

#: A standard error is as good as the truth up to this share: it is estimated from one sample of 500 rows.
_NEAR = 0.2


def platt_errors(task: dict[str, Any]) -> dict[str, list[float]]:
    """
    Intercept, slope and integrated calibration index of Platt's map: estimate and three standard errors.

    Parameters
    ----------
    task : dict
        ``rows``, ``resamples`` of the bootstrap, and fresh ``samples``.

    Returns
    -------
    dict of str to list
        Estimate, standard error by M-estimation, by the bootstrap, and the standard deviation over fresh samples.
    """
    from scoreprism.inference import map_inference

    rng = np.random.default_rng(505)
    n = task["rows"]
    sample = LAW.sample(n, rng)
    s = steep(*sample.X.T)
    found = map_inference("platt", sample.y, s)
    index = found.summary("ici")
    draws = (rng.integers(n, size=n) for _ in range(task["resamples"]))
    again = np.std([_platt(s[rows], sample.y[rows]) for rows in draws], axis=0, ddof=1)
    fresh = (LAW.sample(n, rng) for _ in range(task["samples"]))
    truth = np.std([_platt(steep(*one.X.T), one.y) for one in fresh], axis=0, ddof=1)
    estimates = [*(found.terms[name] for name in found.names), index.plugin]
    theory = [*(found.std_errors[name] for name in found.names), index.std_error]
    names = (*found.names, "integrated calibration index")
    return {name: list(row) for name, *row in zip(names, estimates, theory, again, truth, strict=True)}


def _platt(s: FloatArray, y: Any) -> tuple[float, float, float]:
    from scoreprism.calibrators import PlattCalibrator

    fitted = PlattCalibrator().fit(s, y)
    return float(fitted.intercept_), float(fitted.slope_), float(np.abs(fitted.calibrate(s) - s).mean())


def standard_errors(work: Work) -> dict[str, list[float]]:
    task = {"rows": 500, "resamples": work.plan.resamples, "samples": work.plan.runs * SAMPLES_PER_RUN}
    (found,) = work.run("platt", platt_errors, [task], "standard errors of Platt's map")
    return dict(found)


def errors_table(errors: dict[str, list[float]], resamples: int, samples: int) -> Table:
    columns = [("quantity", "Platt's map", "text"), ("estimate", "estimate", "loss"),
               ("theory", "M-estimation", "loss"), ("bootstrap", "bootstrap", "loss"),
               ("fresh", "fresh samples", "loss")]  # fmt: skip
    note = (
        "500 rows of the score “too steep”. Standard errors from one sample, by the sandwich formula (the index by "
        f"the delta method) and by {resamples} resamples, beside the standard deviation over {samples} fresh samples."
    )
    rows = [(name, a, b, c, d) for name, (a, b, c, d) in errors.items()]
    return table("platt-errors", "Standard errors of a parametric map", columns, rows, note)


def parametric(errors: dict[str, list[float]]) -> Check:
    """Holds if every standard error by theory is near the standard deviation over fresh samples."""
    apart = {name: theory / fresh - 1 for name, (_, theory, _, fresh) in errors.items()}
    told = ", ".join(f"{name} {100 * value:+.0f} %" for name, value in apart.items()).replace("-", "−")
    evidence = (
        f"Standard errors of Platt's map by M-estimation, against the standard deviation over fresh samples: {told}. "
        f"Rule: at most {100 * _NEAR:.0f} % away."
    )
    return claimed("parametric-errors", max(abs(value) for value in apart.values()) <= _NEAR, evidence)
