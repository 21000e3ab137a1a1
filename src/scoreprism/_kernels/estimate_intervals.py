"""Standard errors and intervals of single numbers: normal ones, and none with a reason."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NoReturn

from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism.exceptions import UnavailableError

#: Tail of a normal distribution beyond one standard deviation.
ONE_SIGMA = 0.5 * math.erfc(math.sqrt(0.5))


class Inference(ABC):
    """Standard error and interval of an estimate, from the rows it was computed from."""

    #: Whether there are ways to make an interval that `method` can name.
    has_methods: ClassVar[bool] = True

    @property
    @abstractmethod
    def std_error(self) -> float:
        """Standard error."""

    @abstractmethod
    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        """Confidence interval."""


class Wald(Inference):
    """``value ± (z·se + beyond(tail))``, cut to a range; `beyond` is for what the rows cannot show."""

    has_methods = False

    def __init__(
        self,
        value: float,
        std_error: float,
        label: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        beyond: Callable[[float], float] = lambda _: 0.0,
    ) -> None:
        self._value, self._error, self._label = value, std_error, label
        self._low, self._high, self._beyond = low, high, beyond

    @property
    def std_error(self) -> float:
        return math.hypot(self._error, self._beyond(ONE_SIGMA))

    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        half = quantile(confidence_level, two_sided=True) * self._error + self._beyond(0.5 * (1.0 - confidence_level))
        low, high = self._value - half, self._value + half
        return Interval(max(low, self._low), min(high, self._high), confidence_level, self._label)


class Absent(Inference):
    """No interval, and why."""

    def __init__(self, why: str, remedy: str) -> None:
        self._why, self._remedy = why, remedy

    def _refuse(self) -> NoReturn:
        raise UnavailableError(f"this estimate has no interval: {self._why}. {self._remedy}")

    @property
    def std_error(self) -> float:
        self._refuse()

    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        self._refuse()
