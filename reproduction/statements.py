"""The statements of the paper in one table: number and label, what they say, what computes them, on which cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reproduction import identities
from reproduction.identities import Case
from scoreprism.intervals import FORMS
from scoreprism.losses import LOSSES, get_loss


@dataclass(frozen=True)
class Statement:
    """A statement of the paper: how far off it is in a case, and on which cases it is tried."""

    number: str
    label: str
    what: str
    computed_by: str
    off: Callable[[Case], float]
    losses: tuple[str, ...] = tuple(LOSSES)
    classes: tuple[int, ...] = (2, 4)
    forms: tuple[str, ...] = ("debiased",)
    models: int = 3

    @property
    def place(self) -> str:
        """Where the paper has it."""
        return f"{self.number} ({self.label.partition('/')[0]})"

    def cases(self) -> Iterator[Case]:
        """Losses × numbers of classes that they are defined for × forms × populations."""
        for loss in map(get_loss, self.losses):
            for k in self.classes:
                if k == 2 or not loss.binary_only:
                    yield from (Case(loss, k, form, seed) for form in self.forms for seed in range(self.models))

    def largest(self) -> tuple[int, float]:
        """Over how many cases, and the largest error."""
        errors = [self.off(case) for case in self.cases()]
        return len(errors), max(errors)


_ALL, _PAIR = tuple(FORMS), ("brier", "log")

#: Every statement, in the order of the paper.
STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 2.1",
        "thm:onelevel",
        "E ℓ(T,Y) = E d(T,Q_A) + E ℰ(Q_A)",
        "decompose (Chain)",
        identities.onelevel,
        forms=_ALL,
    ),
    Statement(
        "Theorem 2.2",
        "thm:chain",
        "the same through A ⊆ B, with E d(Q_A,Q_B) between",
        "decompose (Chain)",
        identities.chain,
        forms=_ALL,
    ),
    Statement(
        "Equation (1)",
        "eq:clf-chain",
        "reliability + grouping + irreducible",
        "decompose (FiniteModel)",
        identities.clf_chain,
        forms=_ALL,
    ),
    Statement(
        "Lemma 2.3",
        "rem:grouping-zero",
        "grouping vanishes exactly if Q is a function of S",
        "decompose (FiniteModel)",
        identities.grouping_zero,
    ),
    Statement(
        "Example 2.4",
        "ex:calibrated-yet-grouping",
        "calibrated, and all information lost",
        "decompose (FiniteModel)",
        identities.calibrated_yet_grouping,
        losses=_PAIR,
        classes=(2,),
        forms=_ALL,
        models=1,
    ),
    Statement(
        "Proposition 2.5",
        "prop:urc",
        "uncertainty − resolution + reliability",
        "decomposition",
        identities.urc,
        forms=_ALL,
    ),
    Statement(
        "Theorem 2.6", "thm:four", "four terms, with a latent level Π", "decompose (Chain)", identities.four, forms=_ALL
    ),
    Statement(
        "Corollary 2.7",
        "cor:brier",
        "variance forms of the Brier terms",
        "Brier (losses)",
        identities.brier,
        losses=("brier",),
        classes=(2,),
        forms=_ALL,
    ),
    Statement(
        "Corollary 2.8",
        "cor:logloss-info",
        "E KL(C‖S) + I(Y;X|S) + H(Y|X)",
        "LogLoss (losses)",
        identities.logloss_info,
        losses=("log",),
        forms=_ALL,
    ),
    Statement(
        "Section 3.1",
        "sec:well-calibrated",
        "global balance does not imply calibration",
        "decompose (FiniteModel)",
        identities.balance,
        losses=("brier",),
        classes=(2,),
        forms=_ALL,
        models=1,
    ),
    Statement(
        "Proposition 3.2",
        "prop:calib-regret",
        "reliability is a proper regret; calibration implies global balance",
        "decompose (Chain)",
        identities.calib_regret,
        forms=_ALL,
    ),
    Statement(
        "Proposition 4.1",
        "prop:pop-opt-recal",
        "C is the best function of S; g(S) costs E d(g(S),C) more",
        "level (FiniteModel)",
        identities.pop_opt_recal,
    ),
    Statement(
        "Section 4",
        "sec:recalibration",
        "a one-to-one map of S leaves grouping as it was",
        "decompose (FiniteModel)",
        identities.grouping_stays,
        forms=_ALL,
    ),
    Statement(
        "Proposition 4.2",
        "prop:monotone-preserves-roc",
        "monotone maps keep threshold rules and the ROC curve",
        "calibrators",
        identities.monotone_roc,
        losses=("log",),
        classes=(2,),
        models=10,
    ),
    Statement(
        "Proposition 5.1",
        "prop:agg-preserve",
        "when an aggregate keeps calibration",
        "level (FiniteModel)",
        identities.agg_preserve,
        classes=(2,),
    ),
    Statement(
        "Example 5.2",
        "ex:avg-breaks-calibration",
        "two calibrated scores, a miscalibrated average",
        "decompose (FiniteModel)",
        identities.avg_breaks,
        losses=_PAIR,
        classes=(2,),
        forms=_ALL,
        models=1,
    ),
    Statement(
        "Theorem 5.3",
        "thm:boosting-telescope",
        "one term for each step along F₀ ⊆ F₁ ⊆ …",
        "decompose (Chain)",
        identities.telescope,
        forms=_ALL,
    ),
    Statement(
        "Corollary 5.4",
        "cor:filtration-logloss-info",
        "log-loss steps are I(Y;Fₜ₊₁|Fₜ)",
        "LogLoss (losses)",
        identities.filtration_info,
        losses=("log",),
        forms=_ALL,
    ),
    Statement(
        "Corollary 5.5",
        "cor:boosting-brier",
        "each Brier step is E(ηₜ₊₁ − ηₜ)²",
        "Brier (losses)",
        identities.pythagoras,
        losses=("brier",),
        classes=(2,),
        forms=_ALL,
    ),
    Statement(
        "Section 5.2",
        "sec:boosting",
        "E[ηₜ₊₁ | Fₜ] = ηₜ",
        "level (FiniteModel)",
        identities.martingale,
        losses=("brier",),
    ),
    Statement(
        "Section 5.2",
        "sec:boosting/stagewise",
        "recalibrating a stage gains E d(S̃,S)",
        "level (FiniteModel)",
        identities.stagewise,
    ),
    Statement(
        "Lemma B.1",
        "lem:vector-QA",
        "Q_A is a vector in the simplex",
        "level (FiniteModel)",
        identities.vector_law,
        losses=("log",),
    ),
    Statement(
        "Lemma B.2",
        "lem:unique-version",
        "Q_A is unique up to null sets",
        "level (FiniteModel)",
        identities.unique_version,
        classes=(2,),
        forms=_ALL,
        models=1,
    ),
    Statement(
        "Appendix B", "app:condlaw", "Q_A = E[Q_B | A]", "level (FiniteModel)", identities.tower, losses=("log",)
    ),
)
