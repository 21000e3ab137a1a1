"""scoreprism: what recalibration, a better model, or only better data can fix in a probabilistic classifier.

Every public name is loaded when it is first used; ``import scoreprism`` loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoreprism import (
        calibrators as calibrators,
    )
    from scoreprism import (
        curves as curves,
    )
    from scoreprism import (
        datasets as datasets,
    )
    from scoreprism import (
        decomposition as decomposition,
    )
    from scoreprism import (
        displays as displays,
    )
    from scoreprism import (
        ensembles as ensembles,
    )
    from scoreprism import (
        exceptions as exceptions,
    )
    from scoreprism import (
        inference as inference,
    )
    from scoreprism import (
        losses as losses,
    )
    from scoreprism import (
        metrics as metrics,
    )
    from scoreprism import (
        pipelines as pipelines,
    )
    from scoreprism import (
        references as references,
    )
    from scoreprism import (
        report as report,
    )
    from scoreprism import (
        scale as scale,
    )
    from scoreprism._estimation.compare import compare
    from scoreprism._estimation.decompose import decompose
    from scoreprism._estimation.decompose_by import decompose_by
    from scoreprism.calibrators import CALIBRATORS, Calibrator, RecalibratedClassifier
    from scoreprism.decomposition import (
        Chain,
        Decomposition,
        Finding,
        FiniteModel,
        Interval,
        Level,
        Logits,
        Sample,
        corp_decomposition,
        resolution_decomposition,
    )
    from scoreprism.inference import TestResult, calibration_test, grouping_test, required_sample_size
    from scoreprism.losses import LOSSES, ProperLoss, get_loss
    from scoreprism.metrics import evaluate
    from scoreprism.report import Report, make_report

    __version__: str

__all__ = [
    "CALIBRATORS",
    "LOSSES",
    "Calibrator",
    "Chain",
    "Decomposition",
    "Finding",
    "FiniteModel",
    "Interval",
    "Level",
    "Logits",
    "ProperLoss",
    "RecalibratedClassifier",
    "Report",
    "Sample",
    "TestResult",
    "__version__",
    "calibration_test",
    "compare",
    "corp_decomposition",
    "decompose",
    "decompose_by",
    "evaluate",
    "get_loss",
    "grouping_test",
    "make_report",
    "required_sample_size",
    "resolution_decomposition",
]

#: Packages that users import from; what lists public names (docstrings, the API reference) iterates over this table.
PUBLIC_PACKAGES = (
    "calibrators",
    "curves",
    "datasets",
    "decomposition",
    "displays",
    "ensembles",
    "exceptions",
    "inference",
    "losses",
    "metrics",
    "monitoring",
    "pipelines",
    "references",
    "report",
    "scale",
)
#: Where each lazily loaded name lives.
_HOME = {
    **dict.fromkeys(("CALIBRATORS", "Calibrator", "RecalibratedClassifier"), "calibrators"),
    **dict.fromkeys(("Chain", "Decomposition", "Finding", "FiniteModel", "Interval", "Level"), "decomposition"),
    **dict.fromkeys(("Logits", "Sample", "corp_decomposition", "resolution_decomposition"), "decomposition"),
    **dict.fromkeys(("TestResult", "calibration_test", "grouping_test", "required_sample_size"), "inference"),
    **dict.fromkeys(("LOSSES", "ProperLoss", "get_loss"), "losses"),
    **dict.fromkeys(("Report", "make_report"), "report"),
    "compare": "_estimation.compare",
    "decompose": "_estimation.decompose",
    "decompose_by": "_estimation.decompose_by",
    "evaluate": "metrics",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("scoreprism")
    if name in PUBLIC_PACKAGES:
        return import_module(f"scoreprism.{name}")
    if name in _HOME:
        return getattr(import_module(f"scoreprism.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scoreprism' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *PUBLIC_PACKAGES])
