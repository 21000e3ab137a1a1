"""All errors and warnings of scoreprism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoreprism._spelling import Marked, first_name, spell

if TYPE_CHECKING:
    from scoreprism._findings.finding import Finding

__all__ = [
    "ContradictedOrderWarning",
    "DoubleUseWarning",
    "DoubtfulFileWarning",
    "HardLabelsWarning",
    "ImproperLossError",
    "InfiniteLossError",
    "InfiniteLossWarning",
    "InputError",
    "LabelError",
    "LeftoverFileWarning",
    "LostResolutionWarning",
    "LostWorkerError",
    "NestingError",
    "OverfitWarning",
    "RefutedShapeWarning",
    "ScoreOrderWarning",
    "ScoreprismError",
    "ScoreprismWarning",
    "SeparationWarning",
    "UnavailableError",
    "WeightScaleWarning",
]


class ScoreprismError(ValueError):
    """
    Base of all errors raised by scoreprism.

    Examples
    --------
    >>> from scoreprism.exceptions import InputError, ScoreprismError
    >>> issubclass(InputError, ScoreprismError), issubclass(ScoreprismError, ValueError)
    (True, True)
    """


class InputError(ScoreprismError):
    """
    An argument breaks a rule; the message gives the rule, what arrived and the remedy.

    Parameters
    ----------
    rule : str
        What must hold; names of arguments are in backticks, which the message leaves out. Or, alone, a whole message.
    got : str, optional
        What arrived.
    remedy : str or tuple of str, optional
        What to do, also with names in backticks; a tuple holds alternatives.
    argument : str, optional
        The argument that breaks the rule; by default the first that `rule` names.

    Attributes
    ----------
    rule, got, remedy, argument
        As above; empty where the error was made of a whole message.

    Examples
    --------
    >>> error = InputError("`clip` must be positive", "0", "Pass `clip`=1e-6.")
    >>> print(error)
    clip must be positive; got 0. Pass clip=1e-6.
    >>> error.argument
    'clip'

    >>> from scoreprism.losses import Brier
    >>> Brier().loss([1.5], [1])
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.InputError: p must hold probabilities between 0 and 1; got 1.5 in row 0 \
(1 of 1 rows outside). If these are logits, declare them with scoreprism.Logits.
    """

    def __init__(self, rule: str, got: str | None = None, remedy: Marked = "", argument: str = "") -> None:
        if got is None:
            super().__init__(rule)
            rule = got = remedy = ""
        else:
            super().__init__(rule, got, remedy, argument)  # as pickle hands them over again
        self.rule, self.got, self.remedy, self.argument = rule, got, remedy, argument or first_name(rule)

    def __str__(self) -> str:
        """Give the whole message, with arguments named as its reader knows them."""
        if not self.rule:
            return super().__str__()
        return f"{spell(self.rule)}; got {self.got}. {spell(self.remedy)}"


class LabelError(InputError):
    """
    The labels of ``y_true`` cannot be matched with the columns of the probabilities.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> Chain(["no", "yes"], [Level("S", [0.2, 0.7]), Level("C", [0.1, 0.9])])
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.LabelError: y_true must show which label is the positive class of 1-D probabilities; \
got the labels ['no', 'yes']. Pass pos_label='yes' (or the other one).
    """


class NestingError(InputError):
    """
    The levels of a chain do not go from coarse to fine.

    Examples
    --------
    >>> from scoreprism import FiniteModel
    >>> model = FiniteModel([0.5, 0.5], [0.2, 0.6])
    >>> model.decompose([0.3, 0.5], {"C": ["a", "a"]})
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.NestingError: the prediction must be constant on each cell of level 'C'; \
got 0.3 and 0.5 in the cell of state 0. Refine 'C' or pass a prediction that is a function of it.
    """


class ImproperLossError(ScoreprismError):
    """
    A loss under which telling the truth is not optimal.

    Examples
    --------
    >>> from scoreprism.losses import check_proper
    >>> check_proper(lambda p, y: abs(p - y))
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.ImproperLossError: the loss is not proper: when P(Y=1) = 0.25, predicting 0 \
has expected loss 0.25, less than the 0.375 of predicting 0.25 itself. A decomposition would credit \
miscalibration; use a proper loss such as 'brier' or 'log'.
    """


class InfiniteLossError(ScoreprismError):
    """
    Two infinite losses would have to be subtracted.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([1, 0], [Level("S", [0.5, 0.5]), Level("C", [0.0, 0.0])])
    >>> chain.decompose("log")
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.InfiniteLossError: level 'C' must have a finite log loss in every row; it is \
infinite in 1 of 2 rows (0), where it gives probability 0 to what happened. Pass clip=1e-6 (or \
another distance from 0), or form='plugin'.
    """


class LostWorkerError(ScoreprismError):
    """
    A worker process died during a long computation.

    Raised when the system kills a worker, most often because memory ran out, or when a cluster loses one and cannot
    repeat its work. What `pipeline_bootstrap` had finished is in the checkpoint, if there is one.

    Examples
    --------
    >>> issubclass(LostWorkerError, ScoreprismError)
    True
    """


class UnavailableError(ScoreprismError):
    """
    A result cannot give a number; the message says why.

    Examples
    --------
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([1, 0], [Level("S", [0.6, 0.5]), Level("C", [0.7, 0.2])])
    >>> chain.decompose("brier").lower_bound("refinement")
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.UnavailableError: 'refinement' has no lower bound: finer information could \
always explain more, and no data set can rule that out without assumptions (Lee & Barber 2021). Use \
interval('refinement'), which is conditional on the reference class, or upper_bound('refinement').
    """


class ScoreprismWarning(UserWarning):
    """
    Base of all warnings issued by scoreprism.

    Attributes
    ----------
    finding : Finding or None
        What it warns of, as data.

    Examples
    --------
    >>> from scoreprism.exceptions import InfiniteLossWarning, ScoreprismWarning
    >>> issubclass(InfiniteLossWarning, ScoreprismWarning)
    True
    """

    finding: Finding | None = None


class InfiniteLossWarning(ScoreprismWarning):
    """
    The prediction gives probability zero to something that happened.

    Examples
    --------
    >>> import warnings
    >>> from scoreprism import Chain, Level
    >>> chain = Chain([1, 0], [Level("S", [0.0, 0.5]), Level("C", [0.7, 0.2])])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     risk = chain.decompose("log").risk
    >>> risk, caught[0].category.__name__
    (inf, 'InfiniteLossWarning')
    """


class DoubleUseWarning(ScoreprismWarning):
    """
    A model or a map seems to be evaluated on the rows it was fitted on.

    Examples
    --------
    >>> import warnings
    >>> import scoreprism
    >>> y, p = [0, 1, 0, 1] * 20, [0.2, 0.7, 0.4, 0.6] * 20
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     d = scoreprism.decompose(y, p, calibration=(p, y))
    >>> caught[0].category.__name__
    'DoubleUseWarning'
    """


class DoubtfulFileWarning(ScoreprismWarning):
    """
    A file may be incomplete, or has no checksums although they were to be verified.

    Examples
    --------
    >>> from scoreprism.exceptions import DoubtfulFileWarning, ScoreprismWarning
    >>> issubclass(DoubtfulFileWarning, ScoreprismWarning)
    True
    """


class LeftoverFileWarning(ScoreprismWarning):
    """
    A temporary file that a killed run had left beside its output was removed.

    Examples
    --------
    >>> issubclass(LeftoverFileWarning, ScoreprismWarning)
    True
    """


class LostResolutionWarning(ScoreprismWarning):
    """
    A recalibration map makes different scores equal, so that resolution is lost.

    Examples
    --------
    >>> import warnings
    >>> from scoreprism import FiniteModel
    >>> from scoreprism.ensembles import recalibrate_stages
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = recalibrate_stages(FiniteModel([0.25, 0.25, 0.5], [0.2, 0.2, 0.7]), [[0.1, 0.3, 0.9]])
    >>> caught[0].category.__name__
    'LostResolutionWarning'
    """


class OverfitWarning(ScoreprismWarning):
    """
    A fitted level has learned noise: its fold models disagree too much with each other.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 3))
    >>> y = (rng.random(400) < X[:, 0]).astype(int)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     d = scoreprism.decompose(y, X[:, 0], X, reference=DecisionTreeClassifier(), random_state=0)
    >>> caught[0].category.__name__
    'OverfitWarning'
    """


class RefutedShapeWarning(ScoreprismWarning):
    """
    The data speak against the shape that a curve was assumed to have.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from scoreprism.curves import reliability_curve
    >>> s = np.linspace(0, 1, 100)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     curve = reliability_curve((s < 0.5).astype(int), s, band="confidence", uniform=True, random_state=0)
    >>> [one.category.__name__ for one in caught]     # scores that fall are noticed twice
    ['ScoreOrderWarning', 'RefutedShapeWarning']
    """


class ScoreOrderWarning(ScoreprismWarning):
    """
    A score falls as its class becomes more frequent: it may be the probability of the other class.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from scoreprism.calibrators import IsotonicCalibrator
    >>> risk = np.linspace(0, 1, 100)                                 # of "bad", which sorts first
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fitted = IsotonicCalibrator().fit(risk, np.where(risk > 0.5, "bad", "good"))
    >>> caught[0].category.__name__
    'ScoreOrderWarning'
    """


class ContradictedOrderWarning(ScoreprismWarning):
    """
    A recalibration map keeps the order of the scores, and the data clearly contradict that order.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from scoreprism.calibrators import SelectedCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(2000)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fitted = SelectedCalibrator().fit(s, rng.random(2000) < np.where(abs(s - 0.5) < 0.1, 0.9, s))
    >>> caught[0].category.__name__
    'ContradictedOrderWarning'
    """


class HardLabelsWarning(ScoreprismWarning):
    """
    Probabilities are all 0 or 1: they may be predicted labels.

    Examples
    --------
    >>> import warnings
    >>> from scoreprism.curves import roc_curve
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     curve = roc_curve([0, 1] * 20, [0, 1] * 20)
    >>> caught[0].category.__name__
    'HardLabelsWarning'
    """


class SeparationWarning(ScoreprismWarning):
    """
    The members of an ensemble separate the classes perfectly, so that a likelihood has no maximum.

    Examples
    --------
    >>> import warnings
    >>> from scoreprism.ensembles import Stacking
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fitted = Stacking().fit([[0.1, 0.2, 0.8, 0.9], [0.3, 0.2, 0.6, 0.7]], [0, 0, 1, 1])
    >>> caught[0].category.__name__
    'SeparationWarning'
    """


class WeightScaleWarning(ScoreprismWarning):
    """
    Weights sum to less than two rows, or to no sensible number of rows, where they count rows.

    Examples
    --------
    >>> import warnings
    >>> from scoreprism.calibrators import IsotonicCalibrator
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fitted = IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], sample_weight=[0.25] * 4)
    >>> caught[0].category.__name__
    'WeightScaleWarning'
    """
