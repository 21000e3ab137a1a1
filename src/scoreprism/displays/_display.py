"""Base classes of displays: of curves, with three constructors, and of results."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, parse_law, parse_random_state, refuse
from scoreprism._core.frames import make_frame, take_rows
from scoreprism._document.colours import house_style
from scoreprism._document.drawing import draws
from scoreprism._fitting.chain_fit import ROW_OPTIONS
from scoreprism._parameters import described
from scoreprism._sample.models import apply_model
from scoreprism._sample.sample import Sample
from scoreprism.curves import Curve
from scoreprism.displays._axes import check_axes, open_axes, parse_zoom
from scoreprism.displays._figure_text import draw_legend
from scoreprism.displays._style import Canvas, Inks, choose_styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


C = TypeVar("C", bound=Curve)

#: The legend of more models than this goes beside the axes.
_BESIDE = 4
#: Arguments of curve functions that are not options.
_POSITIONAL = ("y_true", "y_proba", "name", "self", "ax")
#: Options that describe the rows, which a `Sample` takes.
ROWS = ("X", *ROW_OPTIONS)
#: Mark of our lines, so that a second display on the same axes continues the palette.
_MODEL = "scoreprism model"
#: Options with one entry per row, which are split with the rows.
_BY_ROW = ("sample_weight", "groups", "q", "latent")


class ShownModel(NamedTuple):
    """One model of a figure: its rows, its name, and how its curve is computed."""

    sample: Sample
    name: str | None
    options: dict[str, Any]


class Display(ABC):
    """
    A figure: it holds the numbers, and its ``plot`` only draws.

    Attributes
    ----------
    names : list of str
        Names of the models, methods, terms, lines or periods.
    ax_ : matplotlib Axes
        Where it was drawn last (``axes_`` for several panels).
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from scoreprism.displays import DISPLAYS
    >>> all(issubclass(display, Display) for display in DISPLAYS.values())
    True
    """

    #: Width and height of a new figure, in inches.
    figsize: ClassVar[tuple[float, float]] = (4.8, 3.8)

    ax_: Canvas
    figure_: Figure
    line_: list[Any]
    band_: list[Any]
    #: The model whose folds these are, if they are folds.
    _folds_of: str | None = None

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of what is drawn."""

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Display
            Itself, with ``ax_`` and ``figure_``.
        """

    @abstractmethod
    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        The numbers as one dataframe.

        Returns
        -------
        frame
            A row for each point or term that is drawn.
        """

    @contextmanager
    def _canvas(self, ax: Any, curve_kwargs: Any, count: int) -> Iterator[tuple[Canvas, Inks, list[dict[str, Any]]]]:
        """Axes in the house style, the inks for them, and how each of `count` lines is drawn."""
        with house_style(), self._page(ax):
            inks = Inks.of(self.ax_)
            self.line_, self.band_, self._styled = [], [], bool(curve_kwargs)
            before = sum(artist.get_gid() == _MODEL for artist in self.ax_.get_children())
            yield self.ax_, inks, choose_styles(count, inks, curve_kwargs, before, folds=self._folds_of is not None)
            for line in self.line_:
                line.set_gid(_MODEL)
            inks.dress(self.ax_)

    @contextmanager
    def _open_rows(self, ax: Any) -> Iterator[tuple[Canvas, Inks]]:
        """Axes in the house style for named rows, without a line and ticks beside the names."""
        with house_style(), self._page(ax):
            inks = Inks.of(self.ax_)
            yield self.ax_, inks
            inks.dress(self.ax_)
        self.ax_.spines["left"].set_visible(False)
        self.ax_.tick_params(axis="y", length=0)

    @contextmanager
    def _page(self, ax: Any) -> Iterator[None]:
        """The user's axes, or new ones that go away again if drawing fails."""
        with open_axes(ax, self._size()) as self.ax_:
            self.figure_ = self.ax_.figure
            yield

    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure."""
        return self.figsize

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"


R = TypeVar("R")


class ResultDisplay(Display, Generic[R]):
    """
    A figure of a result, made by its ``plot()``.

    Parameters
    ----------
    result : object
        The result to draw.

    Examples
    --------
    >>> from scoreprism.displays import DISPLAYS
    >>> [name for name, display in DISPLAYS.items() if issubclass(display, ResultDisplay)][:2]
    ['metrics', 'stagewise']
    """

    def __init__(self, result: R) -> None:
        self.result = result

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        The table of the result as a dataframe.

        Returns
        -------
        frame
            The frame of the result.
        """
        result: Any = self.result
        return result.to_frame(backend)


class CurveDisplay(Display, Generic[C]):
    """
    A figure of the curves of one or several models, with three constructors.

    Parameters
    ----------
    curves : Curve or sequence of Curve
        One per model.

    Attributes
    ----------
    curves : tuple of Curve
        The numbers, one curve per model.
    line_ : list of Line2D
        The line of each model.

    Examples
    --------
    >>> from scoreprism.displays import RocDisplay
    >>> display = RocDisplay.from_predictions([0, 1, 0, 1], [0.2, 0.6, 0.7, 0.9])
    >>> isinstance(display, CurveDisplay), len(display.curves)
    (True, 1)
    """

    #: The function that computes a curve.
    _computes: ClassVar[Callable[..., Any]]
    #: The type of its curves.
    _shows: ClassVar[type[Any]] = Curve
    #: Whether the curve is computed from features too.
    features: ClassVar[bool] = False
    #: Whether the curve is of two classes.
    _of_two_classes: ClassVar[bool] = True
    #: Whether all models must be scored on the same rows, so that folds are pooled into one out-of-fold model.
    pools_folds: ClassVar[bool] = False

    def __init__(self, curves: C | Sequence[C]) -> None:
        several = tuple(curves) if isinstance(curves, (list, tuple)) else (curves,)
        wrong = [type(curve).__name__ for curve in several if not isinstance(curve, self._shows)]
        if not several or wrong:
            refuse(
                f"{type(self).__name__} must be made of {self._shows.__name__} objects",
                ", ".join(wrong) or "none",
                f"Use {type(self).__name__}.from_predictions(y_true, y_proba).",
            )
        self.curves: tuple[C, ...] = several

    # ── three ways to make one ──────────────────────────────────────────────────────────────────────

    @classmethod
    @described()
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any = None,
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
        y_proba : array-like, or mapping of str to array-like
            Predicted probabilities of one model, or of several by name.
        **options : object
            Further options: those of `plot`, and those of the function that computes the curve.

        Returns
        -------
        display
            Drawn.
        """
        drawing, computing = cls._split(options)
        cls._check(ax)
        seed = computing.get("random_state")
        if cls._is_random() and not isinstance(seed, (int, np.integer)):  # the same draws for all models
            computing["random_state"] = int(parse_random_state(seed).integers(2**62))
        parts = cls._parse(y_true, y_proba, name, computing)
        return cls._make(parts).plot(ax, curve_kwargs=curve_kwargs, **drawing)

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
            Options of `from_predictions`.

        Returns
        -------
        display
            Drawn.
        """
        cls._check(options.get("ax"))
        if isinstance(estimator, Mapping):
            models = name_models(estimator, name, "estimator")
        else:
            models = {name or name_class(estimator): estimator}
        scores: dict[str, Any] = {}
        for key, model in models.items():
            scores[key], labels, *_ = apply_model(model, X, y=y)
            if labels is not None and options.setdefault("classes", list(labels)) != list(labels):
                rule = "models of one figure must have the same classes, in the same order"
                refuse(rule, f"{options['classes']} and {list(labels)}", "Draw them one by one.")
        return cls._from_scores(scores, X, y, options)

    @classmethod
    def from_cv_results(
        cls, cv_results: Mapping[str, Any], X: Any, y: Any, *, name: str | None = None, **options: Any
    ) -> Self:
        """
        Compute and draw, from the result of scikit-learn's ``cross_validate``.

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
            Options of `from_predictions`.

        Returns
        -------
        display
            One curve per fold, or one of all out-of-fold predictions if models must be scored on the same rows.
        """
        cls._check(options.get("ax"))
        folds = read_folds(cv_results, y)
        title = name or name_class(folds[0][1])
        scored = [cls._score_fold(fold, X, y, options) for fold in folds]
        if cls.pools_folds:
            rows = np.concatenate([test for test, _ in folds])
            if np.unique(rows).size < rows.size:
                rule = f"{cls.__name__} pools folds, so each row must be tested once"
                refuse(rule, f"{rows.size} tests of {np.unique(rows).size} rows", "Use KFold or the like.")
            law = np.concatenate([law for law, _ in scored])
            whole = take_options(options, rows) | {"classes": scored[0][1].get("classes")}
            return cls._from_scores({title: law}, take_rows(X, rows), take_rows(y, rows), whole)
        drawing, _ = cls._split(options)
        parts = []
        for i, ((law, own_options), (test, _)) in enumerate(zip(scored, folds, strict=True), start=1):
            parts += cls._parse(take_rows(y, test), law, f"{title}, fold {i}", cls._split(own_options)[1])
        display = cls._make(parts)
        display._folds_of = title
        return display.plot(**drawing)

    @classmethod
    def _score_fold(cls, fold: tuple[Any, Any], X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Predictions of a fold's model for its test rows, and the options of these rows."""
        test, estimator = fold
        own_options, features = take_options(options, test), take_rows(X, test)
        law, labels, *_ = apply_model(estimator, features, y=take_rows(y, test))
        if labels is not None:
            own_options["classes"] = list(labels)
        if cls.features and own_options.get("q") is None:
            own_options.setdefault("X", features)
        return law, own_options

    # ── what displays differ in ─────────────────────────────────────────────────────────────────────

    @classmethod
    def _curve(cls, part: ShownModel) -> C:
        """The numbers of one model."""
        curve: C = cls._computes(part.sample, name=part.name, **part.options)
        return curve

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        """The display of several models."""
        return cls([cls._curve(part) for part in parts])

    @classmethod
    def _parse(cls, y_true: Any, y_proba: Any, name: str | None, options: dict[str, Any]) -> list[ShownModel]:
        """The models of a figure; for a curve of two classes, more classes are split one against the rest."""
        rows = {key: value for key, value in options.items() if key in ROWS}
        rest = {key: value for key, value in options.items() if key not in ROWS}
        label = None
        if isinstance(y_true, Sample):
            sample = Sample.of(y_true, y_proba, **rows)
            names = name_predictions(sample, name)
        else:
            models = cls._name_models(y_proba, name)
            if cls._of_two_classes and any(has_many_classes(score) for score in models.values()):
                label = rows.pop("pos_label", None)
            sample = Sample.of(y_true, {key or "model": score for key, score in models.items()}, **rows)
            names = dict(zip(sample.predictions, models, strict=True))
        parts = [ShownModel(sample.model(key), title, rest) for key, title in names.items()]
        if not cls._of_two_classes or sample.k == 2:
            return parts
        return [one for part in parts for one in one_vs_rest(part, label)]

    @classmethod
    def _name_models(cls, y_proba: Any, name: str | None) -> dict[Any, Any]:
        """Models by name."""
        return name_models(y_proba, name, "y_proba") if isinstance(y_proba, Mapping) else {name: y_proba}

    @classmethod
    def _from_scores(cls, scores: dict[str, Any], X: Any, y: Any, options: dict[str, Any]) -> Self:
        if cls.features and options.get("q") is None:
            options.setdefault("X", X)
        return cls.from_predictions(y, scores, **options)

    @classmethod
    def _check(cls, ax: Any) -> None:
        """Refuse unsuitable axes before anything is computed."""
        if ax is not None:
            check_axes(ax)

    @classmethod
    def _split(cls, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of `plot`, and those of the curve."""
        draw, compute = (inspect.signature(function).parameters for function in (cls.plot, cls._computes))
        drawing = {key: value for key, value in options.items() if key in draw}
        computing = {key: value for key, value in options.items() if key not in draw}
        if not any(one.kind is one.VAR_KEYWORD for one in compute.values()):
            computing = {k: v for k, v in computing.items() if k in compute or k != "random_state"}  # nothing is random
            known = [key for key in (*compute, *draw, *cls._extra) if key not in _POSITIONAL]
            for key in computing:
                parse_choice(key, known, "each option")
        return drawing, computing

    @classmethod
    def _is_random(cls) -> bool:
        """Whether its numbers depend on a seed."""
        return cls.features or "random_state" in inspect.signature(cls._computes).parameters

    #: Further options of `from_predictions`.
    _extra: ClassVar[tuple[str, ...]] = ()

    # ── drawing ─────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        """
        Draw.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """

    def _fill(self, axes: Canvas, x: Any, low: Any, high: Any, colour: str, alpha: float) -> None:
        """Draw a pale band and add it to ``band_``."""
        self.band_.append(axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0))

    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure; a legend of many models needs room beside the axes."""
        many = len(self.curves) > _BESIDE and self._folds_of is None
        return self.figsize[0] + 1.6 * many, self.figsize[1]

    def _draw_reference(self, axes: Canvas, inks: Inks, x: Any, y: Any, **style: Any) -> Any:
        """Draw a grey line to compare with, once per axes."""
        mark = f"scoreprism reference {style.get('label', '')}"
        for line in axes.lines:
            if line.get_gid() == mark:
                return line
        (line,) = axes.plot(x, y, **({"color": inks.quiet, "linewidth": 0.9, "zorder": 1, "gid": mark} | style))
        return line

    def _explain(
        self, axes: Canvas, inks: Inks, more: Mapping[str, Any] | None = None, keys: Sequence[str] | None = None
    ) -> None:
        """Draw the legend: models, if they have names, then the entries of `more`."""
        handles, words = list(self.line_), list(keys or self.names)
        if self._folds_of is not None:
            handles, words = handles[:1], [f"{self._folds_of}, {len(self.curves)} folds"]
        elif not self._named and not keys:
            words = ["model"] if more else []
        handles += list((more or {}).values())
        if words:
            draw_legend(axes, inks, handles, [*words, *(more or {})])

    @property
    def names(self) -> list[str]:
        """Names of the models; numbers if they have none."""
        return [curve.name or f"model {i}" for i, curve in enumerate(self.curves, start=1)]

    @property
    def _named(self) -> bool:
        """Whether the models need a legend."""
        return len(self.curves) > 1 or self.curves[0].name is not None

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        All points as one dataframe.

        Returns
        -------
        frame
            One row per point, with the name of its model.
        """
        parts = [(name, curve._points()) for name, curve in zip(self.names, self.curves, strict=True)]
        return stack_frames(parts, backend or self.curves[0]._backend)


class ZoomedDisplay(CurveDisplay[C]):
    """A display over scores or thresholds that may show only a part of the range from 0 to 1."""

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto") -> Self:
        """
        Draw.

        Parameters
        ----------
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of the scores or thresholds, and of what is drawn on the same scale; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        limits = parse_zoom(zoom, *self._find_range())
        with self._canvas(ax, curve_kwargs, len(self.curves)) as (axes, inks, styles):
            self._draw(axes, inks, styles, limits)
            axes.set_xlim(limits)
        return self

    @abstractmethod
    def _find_range(self) -> tuple[float, float]:
        """The range of scores or thresholds worth showing."""

    @abstractmethod
    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        """Draw on axes that have the house style."""


# ── what displays are made from ──────────────────────────────────────────────────────────────────────


def one_vs_rest(part: ShownModel, label: object) -> list[ShownModel]:
    """A model of several classes as two-class models: each class, or `label` only, against the rest."""
    sample, labels = part.sample, list(part.sample.classes if part.sample.classes is not None else ())
    if label is not None and label not in labels:
        refuse("`pos_label` must be one of the classes", repr(label), f"The classes are {abbreviate(labels)}.")
    return [
        part._replace(sample=sample.one_vs_rest(k), name=str(one) if part.name is None else f"{part.name}, {one}")
        for k, one in enumerate(labels)
        if label is None or one == label
    ]


def has_many_classes(y_proba: Any) -> bool:
    """Whether probabilities, or a fitted classifier, have more than two classes."""
    if hasattr(y_proba, "predict_proba"):
        return len(getattr(y_proba, "classes_", ())) > 2
    shape = getattr(y_proba, "shape", None) or parse_law(y_proba, "y_proba").shape  # lists may be ragged: refused there
    return len(shape) == 2 and shape[1] > 2


def name_models(models: Mapping[Any, Any], name: str | None, what: str) -> dict[str, Any]:
    """Models by unique names."""
    if name is not None:
        refuse("`name` must go with one model", f"a mapping as {what}", "Name models by its keys.")
    if not models:
        refuse(f"{what} must hold at least one model", "an empty mapping", "For example {'logistic': p}.")
    by_name = {str(key): model for key, model in models.items()}
    if len(by_name) < len(models):
        refuse("models must have different names", abbreviate(models), "Rename them.")
    return by_name


def name_predictions(sample: Sample, name: str | None) -> dict[str, str | None]:
    """Name of each model of a sample in a figure; None for a single model without a name."""
    if len(sample.predictions) > 1:
        if name is not None:
            refuse("`name` must go with one model", abbreviate(sample.predictions), "Leave it out.")
        return {key: key for key in sample.predictions}
    only = sample.name
    return {only: name or (None if only == "model" else only)}


def name_class(model: Any) -> str:
    """The name of a model's class; of a pipeline, that of its last step."""
    steps = getattr(model, "steps", None)
    return name_class(steps[-1][1]) if steps else type(model).__name__


def read_folds(cv_results: Mapping[str, Any], y: Any) -> list[tuple[Any, Any]]:
    """Test rows and model of every fold."""
    if not isinstance(cv_results, Mapping) or not {"estimator", "indices"} <= set(cv_results):
        got = (
            (", ".join(cv_results) or "an empty mapping")
            if isinstance(cv_results, Mapping)
            else type(cv_results).__name__
        )
        remedy = "Call cross_validate with return_estimator=True and return_indices=True."
        refuse("`cv_results` must hold estimators and indices", got, remedy)
    folds = list(zip(cv_results["indices"]["test"], cv_results["estimator"], strict=True))
    last = max(int(test.max()) for test, _ in folds if test.size)
    if last >= len(y):
        rule = "`X` and `y` must be the rows that cross_validate was called with"
        refuse(rule, f"{len(y)} rows and the index {last}", "Pass the same `X` and `y`.")
    return folds


def take_options(options: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Options of some rows."""
    by_row = {k: take_rows(options[k], rows) for k in _BY_ROW if options.get(k) is not None}
    return options | by_row


# ── what they share ─────────────────────────────────────────────────────────────────────────────────


def stack_frames(parts: Sequence[tuple[str, Mapping[str, Any]]], backend: str | None) -> Any:
    """Stack the columns of several models; columns that a model lacks are filled with None."""
    keys = dict.fromkeys(key for _, columns in parts for key in columns)
    table: dict[str, list[Any]] = {"model": []} | {key: [] for key in keys}
    for name, columns in parts:
        size = len(next(iter(columns.values())))
        table["model"] += [name] * size
        for key in keys:
            table[key] += list(np.asarray(columns[key]).tolist()) if key in columns else [None] * size
    return make_frame(table, backend)


def register(display: type[Any], kind: type[Any]) -> None:
    """Register a display as the figure of results of a type."""
    draws(kind, lambda result, **options: display(result).plot(**options))


D = TypeVar("D", bound=type[CurveDisplay[Any]])


def shows(kind: type[Any], computes: Callable[..., Any], each: str = "One per model.") -> Callable[[D], D]:
    """Register a display for a kind of curve, and complete its docstring with the common sections."""

    def publish(display: D) -> D:
        display._computes, display._shows = staticmethod(computes), kind
        about, _, examples = inspect.cleandoc(display.__doc__ or "").partition("Examples\n--------\n")
        about, _, own = about.partition("Attributes\n----------\n")
        own = own if "line_ : " in own else "line_ : list of Line2D\n    The line of each model.\n" + (own or "\n")
        display.__doc__ = (
            f"\n{about}`from_predictions` takes the options of `{computes.__name__}` and of `plot`.\n\n"
            f"Parameters\n----------\ncurves : {kind.__name__} or sequence of {kind.__name__}\n    {each}\n\n"
            f"Attributes\n----------\ncurves : tuple of {kind.__name__}\n    The numbers.\n"
            f"ax_, figure_ : matplotlib Axes and Figure\n    Where it was drawn.\n{own}"
            f"Examples\n--------\n{examples}\n"
        )
        register(display, kind)
        return display

    return publish
