"""The number a metric returns: a float with its name, method and interval."""

from __future__ import annotations

from typing import Any, Self

from scoreprism._core.checks import parse_confidence, parse_count, refuse
from scoreprism._document.result import Result
from scoreprism._kernels.estimate_intervals import Absent, Inference
from scoreprism._kernels.term_intervals import Interval

_PICKLED = Absent("it was pickled, and pickles do not carry the rows", "Ask for the interval before pickling.")


class Estimate(float, Result):
    """
    A number with a name, a method and an interval.

    It is a float in every respect: scikit-learn, numpy and JSON treat it as one, and arithmetic with it gives plain
    floats. A pickle carries the number, its name, method and p-value but not the rows, so an unpickled estimate has no
    interval (scikit-learn's workers send pickles); copying returns the estimate itself.

    Attributes
    ----------
    name : str
        The metric.
    method : str
        One line on bins, smoother and so on.
    pvalue : float or None
        P-value of the metric's test, if it has one.

    Examples
    --------
    >>> from scoreprism.metrics import global_balance
    >>> balance = global_balance([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9])
    >>> balance
    <global_balance 0.15: mean outcome minus mean score>
    >>> balance + 1
    1.15
    >>> round(balance.std_error, 4), round(balance.interval().high, 4)
    (0.1146, 0.256)
    """

    name: str
    method: str
    pvalue: float | None
    _inference: Inference

    def __new__(
        cls,
        value: float,
        name: str = "",
        method: str = "",
        inference: Inference = _PICKLED,
        pvalue: float | None = None,
    ) -> Self:
        self = super().__new__(cls, value)
        self.name, self.method, self.pvalue, self._inference = name, method, pvalue, inference
        return self

    @property
    def std_error(self) -> float:
        """Standard error: of the normal approximation behind the interval, else from 200 resamples with seed 0."""
        return self._inference.std_error

    def interval(
        self,
        confidence_level: float = 0.95,
        *,
        n_resamples: int = 1000,
        random_state: object = 0,
        method: str | None = None,
    ) -> Interval:
        """
        Confidence interval of the population's value.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence level.
        n_resamples : int, default=1000
            Number of resamples, where resamples are needed.
        random_state : int, Generator or None, default=0
            Seed. Replicate b depends on it and on b alone, not on the number of replicates.
        method : {"any-shape", "scaled", "hull", "basic", "percentile"}, optional
            How resamples become an interval: "scaled" by default, "hull" for smECE. Metrics of a smoothed curve (ICI,
            LCS, E50, E90, Emax) use "any-shape" by default, which is based on C itself; the others assume that
            the smoother can follow C. docs/metrics.md describes them and their coverage.

        Returns
        -------
        Interval
            Its ``method`` says how it was computed.
        """
        confidence, count = parse_confidence(confidence_level), parse_count(n_resamples, "n_resamples", 2)
        if method is not None and not self._inference.has_methods:
            refuse("`method` must be left out for an interval without resamples", repr(method), "Leave it out.")
        return self._inference.interval(confidence, count, random_state, method)

    def to_dict(self) -> dict[str, Any]:
        """
        The number as plain Python objects; its interval, which may take resamples, is left to `interval`.

        Returns
        -------
        dict
            Metric, estimate, p-value (None where there is no test) and method.
        """
        return {"metric": self.name, "estimate": float(self), "pvalue": self.pvalue, "method": self.method}

    def _columns(self) -> dict[str, list[Any]]:
        return {key: [value] for key, value in self.to_dict().items()}

    def _title(self) -> str:
        return f"{self.name}: {self.method}"

    def __repr__(self) -> str:
        return f"<{self.name} {float(self):.6g}: {self.method}>"

    def __str__(self) -> str:
        return float.__repr__(self)

    def __copy__(self) -> Estimate:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Estimate:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (float(self), self.name, self.method, _PICKLED, self.pvalue)
