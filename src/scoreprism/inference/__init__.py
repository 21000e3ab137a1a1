"""What can be said about the numbers by resampling: the exact bootstrap of CORP."""

from __future__ import annotations

from scoreprism.inference._corp import CorpBootstrap, corp_bootstrap

__all__ = ["CorpBootstrap", "corp_bootstrap"]
