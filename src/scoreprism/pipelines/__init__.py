"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (paper, appendices C, D)."""

from __future__ import annotations

__all__: list[str] = []
