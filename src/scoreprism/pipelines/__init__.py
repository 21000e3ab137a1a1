"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (appendices C and D)."""

from __future__ import annotations

from scoreprism.pipelines._bootstrap import pipeline_bootstrap
from scoreprism.pipelines._bootstrap_result import PipelineBootstrap
from scoreprism.pipelines._paired import PairedComparison, PairedLine, paired_comparison
from scoreprism.pipelines._splits import repeated_splits
from scoreprism.pipelines._splits_summary import SplitsSummary, splits_summary

__all__ = [
    "PairedComparison",
    "PairedLine",
    "PipelineBootstrap",
    "SplitsSummary",
    "paired_comparison",
    "pipeline_bootstrap",
    "repeated_splits",
    "splits_summary",
]
