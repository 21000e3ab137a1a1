"""scoreprism: what recalibration, a better model, or only better data can fix in a probabilistic classifier.

Every public name is loaded when it is first used; ``import scoreprism`` loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoreprism import (
        calibrators,
        curves,
        datasets,
        decomposition,
        displays,
        ensembles,
        estimation,
        exceptions,
        inference,
        losses,
        metrics,
        pipelines,
        references,
        report,
        scale,
    )
    from scoreprism.decomposition import (
        Bound,
        Chain,
        Contributions,
        Decomposition,
        Finding,
        FiniteModel,
        Interval,
        Level,
        PairedDifference,
        Sample,
        Summary,
        corp_decomposition,
        resolution_decomposition,
    )
    from scoreprism.estimation import Comparison, SegmentDecompositions, compare, decompose, decompose_by
    from scoreprism.inference import (
        CorpBootstrap,
        SampleSize,
        TestResult,
        calibration_test,
        corp_bootstrap,
        grouping_test,
        required_sample_size,
    )
    from scoreprism.losses import LOSSES, ProperLoss, check_proper, from_entropy, from_loss, get_loss
    from scoreprism.report import Report, make_report

    __version__: str

__all__ = [
    "LOSSES",
    "Bound",
    "Chain",
    "Comparison",
    "Contributions",
    "CorpBootstrap",
    "Decomposition",
    "Finding",
    "FiniteModel",
    "Interval",
    "Level",
    "PairedDifference",
    "ProperLoss",
    "Report",
    "Sample",
    "SampleSize",
    "SegmentDecompositions",
    "Summary",
    "TestResult",
    "__version__",
    "calibration_test",
    "calibrators",
    "check_proper",
    "compare",
    "corp_bootstrap",
    "corp_decomposition",
    "curves",
    "datasets",
    "decompose",
    "decompose_by",
    "decomposition",
    "displays",
    "ensembles",
    "estimation",
    "exceptions",
    "from_entropy",
    "from_loss",
    "get_loss",
    "grouping_test",
    "inference",
    "losses",
    "make_report",
    "metrics",
    "pipelines",
    "references",
    "report",
    "required_sample_size",
    "resolution_decomposition",
    "scale",
]

#: Packages that users import from; what lists public names (docstrings, the API reference) iterates over this table.
PUBLIC_PACKAGES = (
    "calibrators",
    "curves",
    "datasets",
    "decomposition",
    "displays",
    "ensembles",
    "estimation",
    "exceptions",
    "inference",
    "losses",
    "metrics",
    "pipelines",
    "references",
    "report",
    "scale",
)
#: Where each lazily loaded name lives.
_HOME = {
    **dict.fromkeys(("LOSSES", "ProperLoss", "check_proper", "from_entropy", "from_loss", "get_loss"), "losses"),
    **dict.fromkeys(("Bound", "Chain", "Contributions", "Decomposition", "Finding"), "decomposition"),
    **dict.fromkeys(("FiniteModel", "Interval"), "decomposition"),
    **dict.fromkeys(("Level", "PairedDifference", "Sample", "Summary"), "decomposition"),
    **dict.fromkeys(("corp_decomposition", "resolution_decomposition"), "decomposition"),
    **dict.fromkeys(("Report", "make_report"), "report"),
    **dict.fromkeys(("Comparison", "SegmentDecompositions", "compare", "decompose", "decompose_by"), "estimation"),
    **dict.fromkeys(("CorpBootstrap", "SampleSize", "TestResult", "calibration_test"), "inference"),
    **dict.fromkeys(("corp_bootstrap", "grouping_test", "required_sample_size"), "inference"),
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
    return sorted(__all__)
