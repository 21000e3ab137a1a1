"""A user's program, as mypy and pyright see it: test_types.py and the workflow check it strictly, and it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import scoreprism
from scoreprism import Decomposition, Finding, Interval, Level, Sample, TestResult, decompose, make_report
from scoreprism.calibrators import Calibrator, MonotoneSplineCalibrator, RecalibratedClassifier, from_json
from scoreprism.curves import murphy_curve, reliability_curve
from scoreprism.datasets import CopulaLaw
from scoreprism.ensembles import aggregation_decomposition, average
from scoreprism.exceptions import InputError
from scoreprism.inference import required_sample_size
from scoreprism.losses import LogLoss, ProperLoss, get_loss
from scoreprism.metrics import Estimate, ece, evaluate
from scoreprism.scale import Sums, aggregate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scoreprism.report import Report


def judge(y: NDArray[np.int64], p: NDArray[np.float64], X: NDArray[np.float64]) -> dict[str, float]:
    """Terms of the loss, with what is known of them."""
    d: Decomposition = decompose(y, p, X, loss="brier", random_state=0)
    interval: Interval = d.interval("reliability")
    findings: tuple[Finding, ...] | list[Finding] = d.summary().findings
    print(interval.low, interval.high, d.lower_bound("grouping"), len(findings))
    if d.chain is not None:  # a decomposition that was read from JSON has none
        other: Decomposition = d.chain.decompose("log")
        print(other.risk)
    terms: dict[str, float] = dict(d.terms)
    return terms


def recalibrate(y: NDArray[np.int64], p: NDArray[np.float64]) -> Calibrator:
    """A fitted map, through its file."""
    fitted = MonotoneSplineCalibrator().fit(p, y)
    mapped: Calibrator = from_json(fitted.to_json())
    print(mapped.calibrate(p[:3]), fitted.to_sql("score")[:4])
    return mapped


def ask(y: NDArray[np.int64], p: NDArray[np.float64]) -> float:
    """Tests, metrics and losses."""
    tested: TestResult = scoreprism.calibration_test(y, p, random_state=0)
    gap: Estimate = ece(y, p)
    loss: ProperLoss = get_loss("log")
    also: ProperLoss = LogLoss()
    print(tested.pvalue, float(gap), loss == also, evaluate(y, p, metrics=["ece", "auc"]).to_frame())
    return tested.pvalue


def show(y: NDArray[np.int64], p: NDArray[np.float64], folder: Path) -> Path:
    """A report, and the numbers of figures."""
    report: Report = make_report(y, p, segments=p > 0.5)
    print(report.failed_gates(), reliability_curve(y, p).to_dict().keys(), murphy_curve(y, p).to_frame())
    return report.save(folder / "report.html")


def refuse() -> str:
    """Bad input, with its rule and its remedy."""
    try:
        decompose([0, 1, 1], [10, 20, 120])
    except InputError as error:
        return f"{error.rule}: {error.got}. {error.remedy}"
    return ""


def combine(y: NDArray[np.int64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two models, together and one against the other; rows that are parsed once."""
    rows = Sample.of(y, {"a": a, "b": b})
    print(scoreprism.compare(rows, random_state=0).difference("a", "b").to_frame())
    print(aggregation_decomposition(y, {"a": a, "b": b}, random_state=0).advice)
    mean: NDArray[np.float64] = average({"a": a, "b": b})
    return mean


def sum_up(table: object) -> Sums:
    """Sums that add up."""
    sums: Sums = aggregate(table, target="y", score="p")
    return sums + sums


def know(law: scoreprism.FiniteModel) -> Level:
    """A population whose law is known, and a level of a chain."""
    print(law.decompose([0.5, 0.5], [[0, 0], [0, 1]]).terms)
    return Level("S", [0.5, 0.5])


def main(folder: Path) -> None:
    """Everything once."""
    X, y, q = CopulaLaw(rho=0.0).sample(400, random_state=0)
    p = (1 / (1 + np.exp(3 - 6 * X[:, 0]))).round(2)
    judge(y, p, X)
    recalibrate(y, p)
    print(RecalibratedClassifier(calibrator="platt").calibrator)
    ask(y, p)
    show(y, p, folder)
    print(refuse(), combine(y, p, q).shape, required_sample_size(reliability=0.01, loss="brier", base_rate=0.3))
    print(sum_up(pl.DataFrame({"y": y, "p": p})).to_json()[:1], know(scoreprism.FiniteModel([0.5, 0.5], [0.9, 0.1])))
