"""The paper's experiments: every number beside the printed one (``scoreprism reproduce``)."""

from __future__ import annotations

from scoreprism.paper._checks import VERDICTS, Check
from scoreprism.paper._printed import CLAIMS, PRINTED, Claim, Printed
from scoreprism.paper._reproduce import EXPERIMENTS, Reproduction, reproduce
from scoreprism.paper._work import PLANS, Outcome, Plan, Work

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
