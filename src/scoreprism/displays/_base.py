"""What every display is: curves, three ways to make it, one way to draw it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from scoreprism._registry import draws
from scoreprism._validation import parse_random_state, refuse
from scoreprism.curves import Curve
from scoreprism.displays._style import Canvas, Inks, brushes, house_style
from scoreprism.estimation._models import predicted
from scoreprism.frames import make_frame, take_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

C = TypeVar("C", bound=Curve)

#: The legend of more models than this stands beside the axes.
_BESIDE = 4
#: Options that belong to rows, and are split with them.
_BY_ROW = ("sample_weight", "groups", "q", "latent")


class Part(NamedTuple):
    """One model of a figure: outcomes, probabilities, its name, and how its curve is computed."""

    y_true: Any
    y_proba: Any
    name: str | None
    options: dict[str, Any]


class Display(ABC, Generic[C]):
    """
    A figure of one or several models: it holds the numbers, and its ``plot`` only draws.

    Parameters
    ----------
    curves : Curve or sequence of Curve
        One per model.

    Attributes
    ----------
    curves : tuple of Curve
        The numbers, one curve per model.
    ax_ : matplotlib Axes
        Where it was drawn last (``axes_`` where there are several).
    figure_ : matplotlib Figure
        Its figure.
    line_ : list of Line2D
        The line of each model.
    """

    #: Width and height of a new figure, in inches.
    figsize: ClassVar[tuple[float, float]] = (4.8, 3.8)
    #: Whether the curve is made from features too.
    features: ClassVar[bool] = False
    #: Whether models need to be judged on the same rows, so that folds become one model out of fold.
    pools_folds: ClassVar[bool] = False

    ax_: Canvas
    figure_: Figure
    line_: list[Any]

    def __init__(self, curves: C | Sequence[C]) -> None:
        given = (curves,) if isinstance(curves, Curve) else tuple(curves)
        wrong = [type(curve).__name__ for curve in given if not isinstance(curve, self._kind())]
        if not given or wrong:
            kind = self._kind().__name__
            refuse(
                f"{type(self).__name__} must be made of {kind} objects",
                ", ".join(wrong) or "none",
                f"Use {type(self).__name__}.from_predictions(y_true, y_proba).",
            )
        self.curves: tuple[C, ...] = given

    @classmethod
    @abstractmethod
    def _kind(cls) -> type[C]:
        """The type of its curves."""

    @classmethod
    @abstractmethod
    def _curve(cls, part: Part) -> C:
        """The numbers of one model."""

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        """The display of several models."""
        return cls([cls._curve(part) for part in parts])

    @classmethod
    def _models(cls, y_proba: Any, name: str | None) -> dict[str | None, Any]:
        """Models by name."""
        if not isinstance(y_proba, Mapping):
            return {name: y_proba}
        if name is not None:
            refuse("name must go with the probabilities of one model", "a mapping", "Name models by its keys.")
        if not y_proba:
            refuse("y_proba must hold at least one model", "an empty mapping", "For example {'logistic': p}.")
        return {str(key): value for key, value in y_proba.items()}

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        name: str | None = None,
        ax: Any = None,
        curve_kwargs: Any = None,
        **options: Any,
    ) -> Self:
        """
        Compute and draw, from predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Outcomes.
        y_proba : array-like, or mapping of str to array-like
            Predicted probabilities of one model, or of several by name.
        name : str, optional
            Name of the model.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.
        **options : object
            Further options: those of `plot`, and those of the function that computes the curve.

        Returns
        -------
        display
            Drawn.
        """
        models = cls._models(y_proba, name)
        if "random_state" in options:  # the same draws for all models
            options["random_state"] = int(parse_random_state(options["random_state"]).integers(2**62))
        drawing, computing = cls._split(options)
        parts = [Part(y_true, score, key, computing) for key, score in models.items()]
        return cls._made(parts).plot(ax, curve_kwargs=curve_kwargs, **drawing)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, **options: Any) -> Self:
        """
        Compute and draw, from a fitted classifier and rows it was not trained on.

        Parameters
        ----------
        estimator : fitted classifier, or mapping of str to fitted classifiers
            With ``predict_proba``.
        X : array-like or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Outcomes.
        name : str, optional
            Name of the model; by default that of its class.
        **options : object
            What `from_predictions` takes.

        Returns
        -------
        display
            Drawn.
        """
        several = isinstance(estimator, Mapping)
        models = dict(estimator) if several else {name or type(estimator).__name__: estimator}
        scores: dict[str, Any] = {}
        for key, model in models.items():
            scores[str(key)], labels = cls._scores(model, X, options)
            if labels is not None and options.setdefault("classes", list(labels)) != list(labels):
                rule = "models of one figure must have the same classes, in the same order"
                refuse(rule, f"{options['classes']} and {list(labels)}", "Draw them one by one.")
        return cls._from_scores(scores, X, y, options)

    @classmethod
    def _scores(cls, estimator: Any, X: Any, options: dict[str, Any]) -> tuple[Any, Sequence[Any] | None]:  # noqa: ARG003
        """What a fitted classifier says of X, and its classes; `options` that are for this alone are taken out."""
        law, labels, _ = predicted(estimator, X)
        return law, labels

    @classmethod
    def _from_scores(cls, scores: dict[str, Any], X: Any, y: Any, options: dict[str, Any]) -> Self:
        if cls.features and options.get("q") is None:
            options.setdefault("X", X)
        return cls.from_predictions(y, scores, **options)

    @classmethod
    def from_cv_results(
        cls, cv_results: Mapping[str, Any], X: Any, y: Any, *, name: str | None = None, **options: Any
    ) -> Self:
        """
        Compute and draw, from what scikit-learn's ``cross_validate`` returns.

        Parameters
        ----------
        cv_results : dict
            Of ``cross_validate(…, return_estimator=True, return_indices=True)``.
        X : array-like or frame of shape (n, p)
            The features it was called with.
        y : array-like of shape (n,)
            The outcomes.
        name : str, optional
            Name of the model; by default that of its class.
        **options : object
            What `from_predictions` takes.

        Returns
        -------
        display
            One curve per fold; where all models must be judged on the same rows, one of all out-of-fold predictions.
        """
        folds = _folds(cv_results, y)
        title = name or type(folds[0][1]).__name__
        parts = []
        for number, (test, estimator) in enumerate(folds, start=1):
            mine = _taken(options, test)
            inside = take_rows(X, test)
            law, labels = cls._scores(estimator, inside, mine)
            if labels is not None:
                mine["classes"] = list(labels)
            if cls.features and mine.get("q") is None:
                mine.setdefault("X", inside)
            parts.append(Part(take_rows(y, test), law, f"fold {number}", mine))
        if cls.pools_folds:
            rows = np.concatenate([test for test, _ in folds])
            law = np.concatenate([part.y_proba for part in parts])
            whole = _taken(options, rows) | {"classes": parts[0].options.get("classes")}
            return cls._from_scores({title: law}, take_rows(X, rows), take_rows(y, rows), whole)
        drawing, _ = cls._split(options)
        parts = [part._replace(options=cls._split(part.options)[1]) for part in parts]
        return cls._made(parts).plot(**drawing)

    @classmethod
    def _split(cls, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of `plot`, and those of the curve."""
        known = inspect.signature(cls.plot).parameters
        drawing = {key: value for key, value in options.items() if key in known}
        return drawing, {key: value for key, value in options.items() if key not in known}

    @abstractmethod
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """

    @contextmanager
    def _canvas(self, ax: Any, curve_kwargs: Any) -> Iterator[tuple[Canvas, Inks, list[dict[str, Any]]]]:
        """Axes in the house style, the inks for them, and how each model is drawn."""
        with house_style():
            self.ax_ = self._new_axes() if ax is None else _axes(ax)
            self.figure_ = self.ax_.figure
            inks = Inks.of(self.ax_)
            self.line_ = []
            yield self.ax_, inks, brushes(len(self.curves), inks, curve_kwargs)
            inks.dress(self.ax_)

    def _new_axes(self) -> Canvas:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=self._size(), layout="constrained")[1]

    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure; a legend of many models needs room beside the axes."""
        beside = 1.6 if len(self.curves) > _BESIDE else 0.0
        return self.figsize[0] + beside, self.figsize[1]

    @property
    def names(self) -> list[str]:
        """Names of the models; numbers where they have none."""
        return [curve.name or f"model {i}" for i, curve in enumerate(self.curves, start=1)]

    @property
    def _named(self) -> bool:
        """Whether a legend has anything to say."""
        return len(self.curves) > 1 or self.curves[0].name is not None

    def frame(self, backend: str | None = None) -> Any:
        """
        All points as one dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            One row per point, with the name of its model.
        """
        return stacked_frame([({"model": name}, c) for name, c in zip(self.names, self.curves, strict=True)], backend)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"


def stacked_frame(parts: Sequence[tuple[dict[str, str], Curve]], backend: str | None) -> Any:
    """
    Points of several curves below each other.

    Parameters
    ----------
    parts : sequence of (labels, curve)
        Each curve with what its rows are labelled with.
    backend : str or None
        Dataframe library.

    Returns
    -------
    frame
        Labels first.
    """
    columns: dict[str, list[Any]] = {}
    for labels, curve in parts:
        points = curve._columns()
        size = len(next(iter(points.values())))
        for key, word in labels.items():
            columns.setdefault(key, []).extend([word] * size)
        for key, values in points.items():
            columns.setdefault(key, []).extend(values.tolist())
    return make_frame(columns, backend or parts[0][1]._backend)


def enters(display: type[Display[Any]]) -> Callable[..., Any]:
    """
    Make a display the figure of its curves.

    Parameters
    ----------
    display : type
        A display.

    Returns
    -------
    callable
        Draws one curve.
    """

    def drawn(curve: Curve, **options: Any) -> Any:
        return display(curve).plot(**options)

    draws(display._kind(), drawn)
    return drawn


def _axes(ax: Any) -> Canvas:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        refuse("ax must be matplotlib Axes", type(ax).__name__, "For example fig, ax = plt.subplots().")
    return ax


def _folds(cv_results: Mapping[str, Any], y: Any) -> list[tuple[Any, Any]]:
    """Test rows and model of every fold."""
    if not isinstance(cv_results, Mapping) or not {"estimator", "indices"} <= set(cv_results):
        got = ", ".join(cv_results) if isinstance(cv_results, Mapping) else type(cv_results).__name__
        remedy = "Call cross_validate with return_estimator=True and return_indices=True."
        refuse("cv_results must hold estimators and indices", got, remedy)
    found = []
    for estimator, test in zip(cv_results["estimator"], cv_results["indices"]["test"], strict=True):
        if test.size and (test.max() >= len(y)):
            rule = "X and y must be the rows that cross_validate was called with"
            refuse(rule, f"{len(y)} rows and the index {test.max()}", "Pass the same X and y.")
        found.append((test, estimator))
    return found


def _taken(options: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Options of some rows."""
    mine = {k: take_rows(options[k], rows) for k in _BY_ROW if options.get(k) is not None}
    return options | mine
