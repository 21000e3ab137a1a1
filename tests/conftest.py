"""What the tests share: losses with typical parameters, dataframe libraries, random laws and finite populations."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from scoreprism import FiniteModel
from scoreprism.losses import LOSSES, BetaLoss, CostWeighted, Elementary, ProperLoss, PseudoSpherical, Tsallis, get_loss

settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

#: Every loss in the table, and further parameters of those that have some.
EVERY_LOSS: list[ProperLoss] = [
    *(get_loss(name) for name in LOSSES),
    PseudoSpherical(alpha=1.3),
    Tsallis(alpha=0.5),
    Tsallis(alpha=1.001),
    Tsallis(alpha=3),
    BetaLoss(a=0, b=0),
    BetaLoss(a=1, b=1),
    BetaLoss(a=2, b=-0.3),
    Elementary(theta=0.3),
    CostWeighted(fp=1, fn=4),
]


@dataclass(frozen=True)
class Library:
    """A dataframe library: how a column and a frame are made from arrays, and what a frame is."""

    name: str
    column: Callable[[Any], Any]
    frame: Callable[[dict[str, Any]], Any]
    kind: type

    def as_lists(self, frame: Any) -> dict[str, list[Any]]:
        """The columns of a frame as lists."""
        options = {"pandas": {"orient": "list"}, "polars": {"as_series": False}}
        return frame.to_pydict() if self.name == "pyarrow" else frame.to_dict(**options[self.name])


LIBRARIES = [
    Library("pandas", pd.Series, pd.DataFrame, pd.DataFrame),
    Library("polars", pl.Series, pl.DataFrame, pl.DataFrame),
    Library("pyarrow", pa.array, pa.table, pa.Table),
]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    """Every dataframe library in turn."""
    return request.param


@pytest.fixture(
    params=[np.asarray, *(one.column for one in LIBRARIES), list], ids=["numpy", "pandas", "polars", "pyarrow", "list"]
)
def as_column(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Everything that a column of numbers may come in."""
    return request.param


@pytest.fixture(scope="module")
def few_draws() -> Iterator[None]:
    """Metrics of reports are resampled 100 times and outcomes drawn 99 times, where no draw is asserted."""
    from scoreprism import make_report  # noqa: F401 - whole, before the table changes: sentences are made of it
    from scoreprism.report import _subject

    few = _subject.DRAWS | {"metrics": {0: 100}, "test": _subject.DRAWS["test"] | {0: 99}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_subject, "DRAWS", few)
        yield


def spark_or_skip() -> type:
    """SparkSession, where Spark and a Java runtime are there."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("no Java runtime")
    session: type = pytest.importorskip("pyspark.sql").SparkSession
    return session


def wrong_checks(estimator: Any, expected: dict[str, str]) -> dict[str, Any]:
    """scikit-learn's checks of an estimator that fail, or that pass although they are `expected` to fail."""
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail=None)
    wrong = (one for one in found if one["status"] == ("passed" if one["check_name"] in expected else "failed"))
    return {one["check_name"]: one["exception"] for one in wrong}


def classes_of(loss: ProperLoss, *wanted: int) -> list[int]:
    """The class counts among `wanted` that the loss is defined for."""
    return [k for k in wanted if k == 2 or not loss.binary_only]


@st.composite
def laws(draw: st.DrawFn, k: int, n: int, *, interior: bool = False) -> np.ndarray:
    """n laws over k classes, with zeros and certainties unless `interior`."""
    counts = draw(st.lists(st.integers(1 if interior else 0, 30), min_size=n * k, max_size=n * k))
    rows = np.array(counts, dtype=float).reshape(n, k)
    rows[rows.sum(axis=1) == 0] = 1.0
    return rows / rows.sum(axis=1, keepdims=True)


def random_model(seed: int, states: int = 12, k: int = 2) -> FiniteModel:
    """A finite population with uneven probabilities; its law is in the interior."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(k), states)
    return FiniteModel(rng.dirichlet(np.ones(states)), law[:, 1] if k == 2 else law)
