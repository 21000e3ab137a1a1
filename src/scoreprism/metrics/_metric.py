"""The decorator that makes a function of rows a public metric, with the arguments that all metrics share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, cast

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import ArrayLike
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._rows import Rows, parse_rows

_EXAMPLES = "Examples\n--------"
#: Remedy where a metric needs a single probability.
ONE_CLASS = "Pass the probability of one class and its outcome."


class Metric(Protocol):
    """A public metric: its own options, what it is at best, and the same metric of rows that are parsed already."""

    __name__: str
    of_rows: Callable[..., Estimate]
    options: tuple[str, ...]
    ideal: float  # ∞ for one that is best when large
    is_gap: bool  # whether it measures gaps between scores and outcomes, on the scale of probabilities

    def __call__(
        self,
        y_true: ArrayLike | Sample,
        y_proba: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        **options: Any,
    ) -> Estimate:
        """The metric of outcomes and predictions."""


#: Type and meaning of every option that metrics have beside the shared parameters.
OPTIONS = {
    "n_bins": ("int", "Number of bins."),
    "k": ("int", "How many of the most likely classes; fewer than there are."),
    "strategy": (
        '{"uniform", "quantile"}',
        "Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.",
    ),
    "smoother": (
        "str, LocalRegression or Calibrator",
        """How the curve ĝ is fitted: "loess" (as Austin & Steyerberg), "lowess", a `LocalRegression`, or a calibrator
        or its name.""",
    ),
    "over": (
        '{"sample", "density"}',
        """Average over the rows, or over the points of {0, 1/99, …, 1} within the range of the scores weighted with the
        density of the scores, as in the authors' earlier R code (its ĝ:
        ``LocalRegression(degree=0, span=0.15, kernel="uniform")``).""",
    ),
    "cv": (
        "int, splitter or iterable",
        """Fit ĝ out of sample, on the other folds (paper, appendix D); None fits it on the rows it is evaluated on.
        Random folds are drawn with seed 0.""",
    ),
    "bandwidth": ("float", "A fixed bandwidth, above 0 and at most 1."),
    "clip": ("float", "Keep scores this far from 0 and 1, where log-odds are infinite; None raises an error for them."),
}


def metric(
    returned: str | None = None, *, ideal: float, if_several: str | None = None, is_gap: bool = False
) -> Callable[[Callable[..., Estimate]], Metric]:
    """
    Make a function of rows a public metric.

    `returned` describes the estimate, unless the docstring has a section for it; `ideal` is the best value (∞: the
    larger, the better), which scorers go by; `if_several` names what to use instead of a metric made for two classes;
    gaps are drawn on one axis.
    """

    def publish(function: Callable[..., Estimate]) -> Metric:
        name, (_, *own) = function.__name__, inspect.signature(function).parameters.values()

        def of_rows(rows: Rows, **options: Any) -> Estimate:
            if if_several is not None and rows.k != 2:
                refuse(f"{name} must have two classes", f"{rows.k}", if_several)
            return function(rows, **options)

        @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__"))
        def public(
            y_true: ArrayLike | Sample,
            y_proba: ArrayLike | None = None,
            *,
            sample_weight: ArrayLike | None = None,
            pos_label: object = None,
            classes: ArrayLike | None = None,
            **options: Any,
        ) -> Estimate:
            return of_rows(parse_rows(y_true, y_proba, sample_weight, pos_label, classes), **options)

        metric_function = cast("Any", public)
        metric_function.of_rows, metric_function.options = of_rows, tuple(option.name for option in own)
        metric_function.ideal, metric_function.is_gap = ideal, is_gap
        signature = inspect.signature(public, follow_wrapped=False)
        outcomes, predictions, *shared, _ = signature.parameters.values()
        metric_function.__signature__ = signature.replace(parameters=[outcomes, predictions, *own, *shared])
        metric_function.__doc__ = inspect.cleandoc(function.__doc__ or "")
        if returned is not None:
            metric_function.__doc__ = metric_function.__doc__.replace(
                _EXAMPLES, f"Returns\n-------\nEstimate\n    {returned}\n\n{_EXAMPLES}"
            )
        return described(of_two=if_several is not None, **OPTIONS)(cast("Metric", metric_function))

    return publish
