"""Metrics of models side by side, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scoreprism._document.model import Cell, Range, Table, make_table
from scoreprism._findings.wording import write_percent
from scoreprism.metrics import MetricTable

#: Metrics in words: heading, and the value of a calibrated model.
METRIC_WORDS = {
    "observed_expected_ratio": ("observed:expected events", "1"),
    "calibration_in_the_large": ("calibration in the large (log-odds)", "0"),
    "calibration_intercept": ("calibration intercept", "0"),
    "calibration_slope": ("calibration slope", "1"),
    "ici": ("ICI: mean |C − S|", "0"),
    "e50": ("E50: median |C − S|", "0"),
    "e90": ("E90: 90 % quantile", "0"),
    "emax": ("Emax: largest", "0"),
    "ece": ("ECE, 15 bins (biased up)", "0"),
    "auc": ("AUC (discrimination)", ""),
    "accuracy": ("accuracy", "1"),
    "top_k_accuracy": ("top-5 accuracy", "1"),
    "log_loss": ("log loss", "0"),
    "brier_score": ("Brier score", "0"),
    "macro_auc": ("macro AUC, one-vs-rest", "1"),
    "global_balance": ("global balance (biased up)", "0"),
    "classwise_ici": ("class-wise ICI", "0"),
    "classwise_ece": ("class-wise ECE (biased up)", "0"),
    "confidence_ece": ("confidence ECE (biased up)", "0"),
    "top_label_ece": ("top-label ECE (biased up)", "0"),
}


def tabulate_metrics(key: str, title: str, tables: Mapping[str, MetricTable], names: Sequence[str], note: str) -> Table:
    """One row per metric that some model has, one column per model."""
    present = [name for name in names if any(name in table.names for table in tables.values())]
    rows = [(*METRIC_WORDS[name], *(_make_cell(table, name) for table in tables.values())) for name in present]
    models = [(f"model_{i}", model, "amount") for i, model in enumerate(tables, start=1)]
    columns = [("metric", "metric", "text"), ("ideal", "ideal", "text"), *models]
    level = next(iter(tables.values())).confidence_level
    return make_table(key, title, columns, rows, f"{write_percent(level)} intervals in brackets; {note}")


def _make_cell(table: MetricTable, name: str) -> Cell:
    if name not in table.names:
        return None
    interval = table.intervals[name]
    return Range(interval.low, interval.high, float(table.estimates[name]))
