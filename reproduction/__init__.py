"""The paper's experiments: every number beside the printed one (``python -m reproduction``)."""

from reproduction.checks import VERDICTS, Check
from reproduction.run import EXPERIMENTS, Reproduction, reproduce
from reproduction.statements import STATEMENTS, Statement
from reproduction.work import PLANS, Outcome, Work

__all__ = ["EXPERIMENTS", "PLANS", "STATEMENTS", "VERDICTS"]
__all__ += ["Check", "Outcome", "Reproduction", "Statement", "Work", "reproduce"]
