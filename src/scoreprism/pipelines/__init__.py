"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (appendices C and D)."""

from __future__ import annotations

__all__: list[str] = []
