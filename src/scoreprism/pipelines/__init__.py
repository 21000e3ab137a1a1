"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (appendices C and D)."""

from __future__ import annotations

from scoreprism.pipelines._bootstrap import PipelineBootstrap, pipeline_bootstrap
from scoreprism.pipelines._paired_comparison import PairedComparison, PairedLine, paired_comparison
from scoreprism.pipelines._repeated_splits import repeated_splits
from scoreprism.pipelines._split_tables import SplitsSummary, SplitTable, splits_summary

__all__ = [
    "PairedComparison",
    "PairedLine",
    "PipelineBootstrap",
    "SplitTable",
    "SplitsSummary",
    "paired_comparison",
    "pipeline_bootstrap",
    "repeated_splits",
    "splits_summary",
]
