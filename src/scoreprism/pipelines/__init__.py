"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (appendices C and D)."""

from __future__ import annotations

from scoreprism.pipelines._bootstrap import pipeline_bootstrap
from scoreprism.pipelines._bootstrap_result import PipelineBootstrap

__all__ = ["PipelineBootstrap", "pipeline_bootstrap"]
