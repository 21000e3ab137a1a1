"""Numbers that summarise calibration and ranking, each a float with its interval; `METRICS` lists them by name."""

from __future__ import annotations

from scoreprism._kernels.local_regression import LocalRegression
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gap_metrics import (
    ace,
    classwise_ace,
    classwise_ece,
    classwise_ici,
    classwise_lcs,
    classwise_rmsce,
    confidence_ece,
    confidence_smece,
    debiased_ece,
    debiased_rmsce,
    e50,
    e90,
    ece,
    emax,
    ici,
    lcs,
    mce,
    rmsce,
    smece,
    top_label_ece,
)
from scoreprism.metrics._mean_metrics import accuracy, brier_score, log_loss, top_k_accuracy
from scoreprism.metrics._moment_metrics import global_balance, observed_expected_ratio, spiegelhalter_z
from scoreprism.metrics._rank_metrics import auc, macro_auc
from scoreprism.metrics._recalibration_metrics import (
    calibration_in_the_large,
    calibration_intercept,
    calibration_slope,
)
from scoreprism.metrics._scorers import SCORERS, Scorer, scorer
from scoreprism.metrics._table import METRICS, MetricTable, evaluate
from scoreprism.metrics._transport import transport_cost

__all__ = [
    "METRICS",
    "SCORERS",
    "Estimate",
    "LocalRegression",
    "MetricTable",
    "Scorer",
    "accuracy",
    "ace",
    "auc",
    "brier_score",
    "calibration_in_the_large",
    "calibration_intercept",
    "calibration_slope",
    "classwise_ace",
    "classwise_ece",
    "classwise_ici",
    "classwise_lcs",
    "classwise_rmsce",
    "confidence_ece",
    "confidence_smece",
    "debiased_ece",
    "debiased_rmsce",
    "e50",
    "e90",
    "ece",
    "emax",
    "evaluate",
    "global_balance",
    "ici",
    "lcs",
    "log_loss",
    "macro_auc",
    "mce",
    "observed_expected_ratio",
    "rmsce",
    "scorer",
    "smece",
    "spiegelhalter_z",
    "top_k_accuracy",
    "top_label_ece",
    "transport_cost",
]
