"""The paper's experiments: every number beside the printed one (``python -m reproduction``)."""

from __future__ import annotations

from reproduction.checks import VERDICTS, Check
from reproduction.printed import CLAIMS, PRINTED, Claim, Printed
from reproduction.run import EXPERIMENTS, Reproduction, reproduce
from reproduction.work import PLANS, Outcome, Plan, Work

__all__ = [
    "CLAIMS",
    "EXPERIMENTS",
    "PLANS",
    "PRINTED",
    "VERDICTS",
    "Check",
    "Claim",
    "Outcome",
    "Plan",
    "Printed",
    "Reproduction",
    "Work",
    "reproduce",
]
