"""The paper's experiments: every number beside the printed one (``python -m reproduction``)."""

from __future__ import annotations

from reproduction.checks import VERDICTS, Check
from reproduction.run import EXPERIMENTS, Reproduction, reproduce
from reproduction.statements import STATEMENTS, Statement
from reproduction.work import PLANS, Outcome, Plan, Work

__all__ = [
    "EXPERIMENTS",
    "PLANS",
    "STATEMENTS",
    "VERDICTS",
    "Check",
    "Outcome",
    "Plan",
    "Reproduction",
    "Statement",
    "Work",
    "reproduce",
]
