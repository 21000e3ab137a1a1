"""Sample: what a user gave, parsed once. Every public function of outcomes and predictions begins here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import (
    abbreviate,
    is_hard,
    parse_law,
    parse_weights,
    refuse,
    require_rows,
    warn_of_hard_labels,
    write_plain,
)
from scoreprism._core.frames import backend_of, column_names, columns_of, require_aligned, take_rows
from scoreprism._core.labels import GivenLaw, code_labels, parse_groups, parse_labels, parse_outcomes
from scoreprism._core.lazy_laws import as_whole_array, reorder_columns, take_rows_of_law
from scoreprism._core.logits import get_values
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, as_vector, n_classes, narrow_law
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import UNNAMED
from scoreprism._sample.cells import Cells
from scoreprism._sample.features import parse_features
from scoreprism._sample.fit_rows import FitRows, GivenRows, fitting_weights, warn_of_reversed_scores
from scoreprism._sample.level import FeatureBlock, Level
from scoreprism._sample.models import apply_model
from scoreprism._sample.parse_scores import count_rows
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.losses import ProperLoss

#: A date, or a date and a time, without a zone.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$")

#: Row numbers that a message lists.
_NAMED = 3

#: Names of levels that users cannot give to theirs.
_OWN = ("S", "C", "Q", "Π")


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """
    Outcomes, predictions and everything else that belongs to the rows, parsed and checked once.

    Made by `Sample.of`. Every public function of ``(y_true, y_proba, X)`` accepts a sample in place of ``y_true`` and
    then parses nothing again. Rows of weight 0 are dropped. Arrays of float64 are not copied: do not modify them while
    the sample, or a result made from it, is in use.

    Attributes
    ----------
    y : array of shape (n,)
        Outcomes as codes 0, …, K − 1.
    predictions : mapping of str to array of shape (n,) or (n, K)
        Probabilities of each model, columns in the order of `classes`.
    classes : array of shape (K,) or None
        The label of each code.
    weight : array of shape (n,) or None
        Positive weights.
    groups : array of shape (n,) or None
        Codes of groups of dependent rows.
    X : frame or array or None
        Features, as they were passed.
    levels : tuple
        Information levels above the scores, coarse to fine: given probabilities, or features to fit them on.
    segments : mapping of str to array of shape (n,)
        Labels of subpopulations.
    time : array of shape (n,) or None
        Times or periods of the rows.
    cells : Cells or None
        What each line stands for, where lines are sums over many rows (`scoreprism.scale`).
    backend : str or None
        The dataframe library of the data.
    findings : mapping of str to tuple of Finding
        What is known about each model before anything is fitted.
    kind : str
        What predictions are: "probability".

    Examples
    --------
    >>> from scoreprism import Sample, decompose
    >>> sample = Sample.of([0, 1, 1, 0], {"a": [0.1, 0.7, 0.9, 0.4], "b": [0.3, 0.6, 0.6, 0.3]})
    >>> sample
    Sample(4 rows, 2 classes, models a, b)
    >>> sample.model("b").predictions["b"]
    array([0.3, 0.6, 0.6, 0.3])
    """

    y: IntArray
    predictions: Mapping[str, FloatArray]
    classes: NDArray[Any] | None = None
    weight: FloatArray | None = None
    groups: IntArray | None = None
    X: Any = None
    levels: tuple[Level | FeatureBlock, ...] = ()
    segments: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    time: NDArray[Any] | None = None
    cells: Cells | None = None
    backend: str | None = None
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    kind: str = "probability"
    _origin: GivenRows | None = None  # the rows that came, where some have no weight

    # ── from what the user gave ─────────────────────────────────────────────────────────────────────

    @classmethod
    def of(
        cls,
        y_true: ArrayLike | Sample,
        y_proba: ArrayLike | Mapping[str, Any] | None = None,
        X: ArrayLike | None = None,
        *,
        q: ArrayLike | None = None,
        latent: ArrayLike | None = None,
        levels: Mapping[str, object] | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        segments: object = None,
        time: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
    ) -> Sample:
        """
        Parse and check everything that belongs to the rows.

        Parameters
        ----------
        y_true : array-like of shape (n,), or Sample
            Outcomes: any two (or K) sortable labels. A sample is returned unchanged.
        y_proba : array-like of shape (n,) or (n, K), fitted classifier, or mapping of str to these
            Predicted probabilities of one model, or of several by name; classifiers are applied to `X`.
        X : array-like or frame of shape (n, p), optional
            Features.
        q : array-like of shape (n,) or (n, K), optional
            P(Y | X), where it is known.
        latent : array-like of shape (n,) or (n, K), optional
            P(Y | Z) of a latent state Z.
        levels : mapping of str to columns, features or Level, optional
            Further information levels between C and Q, coarse to fine.
        sample_weight : array-like of shape (n,), optional
            Weights; rows of weight 0 are dropped.
        groups : array-like of shape (n,), optional
            Groups of dependent rows.
        segments : array-like, frame or mapping of str to array-like, optional
            Labels of subpopulations.
        time : array-like of shape (n,), optional
            Times or periods.
        pos_label : label, optional
            Positive class: one-dimensional probabilities are P(Y = pos_label).
        classes : array-like of shape (K,), optional
            Labels in column order.

        Returns
        -------
        Sample
            The rows that have weight.
        """
        if isinstance(y_true, Sample):
            others = (y_proba, X, q, latent, levels, sample_weight, groups, segments, time, pos_label, classes)
            if any(value is not None for value in others):
                rule = "a Sample holds predictions, features and weights already"
                refuse(rule, "further ones beside it", "Pass the Sample alone, or arrays to make another one.")
            return y_true
        if y_proba is None:
            refuse(
                "`y_proba` must be given", "None", "Pass probabilities, a fitted classifier, or a Sample as `y_true`."
            )
        models = name_models(y_proba)
        single = len(models) == 1
        require_aligned(
            {
                "y_true": y_true,
                **{"y_proba" if single else f"y_proba[{name!r}]": get_values(value) for name, value in models.items()},
                "X": X,
                "q": q,
                "latent": latent,
                "sample_weight": sample_weight,
                "groups": groups,
                "time": time,
                **({} if segments is None else _name_each(segments, "segments")),
                **({} if levels is None else _name_each(levels, "levels")),
            }
        )
        laws, findings = _parse_predictions(models, X, y_true, sample_weight)
        is_model = any(hasattr(value, "predict_proba") for value in models.values())
        sources = _parse_levels(X, q, latent, levels, is_model=is_model)
        user_laws = [source for _, source in sources if isinstance(source, GivenLaw)]
        if len(laws) + len(user_laws) > 1:
            _require_alike([*laws.values(), *user_laws])
        base, parsed = parse_laws(
            y_true,
            [*laws.values(), *user_laws],
            sample_weight=sample_weight,
            groups=groups,
            pos_label=pos_label,
            classes=classes,
            backend=next(filter(None, (*map(backend_of, map(get_values, models.values())), backend_of(X))), None),
        )
        above = iter(parsed[len(laws) :])
        n = base.n
        sample = replace(
            base,
            predictions={name: level.raw for name, level in zip(laws, parsed, strict=False)},
            X=X,
            levels=tuple(_make_level(name, source, above, n) for name, source in sources),
            segments={} if segments is None else parse_segments(segments, n),
            time=None if time is None else _parse_time(time, n),
            findings=findings,
        )
        if sample.weight is not None:
            sample = drop_absent_rows(sample)
        for name, law in laws.items():
            if isinstance(models[name], GivenLaw):
                continue  # already checked when it was parsed
            warn_of_prediction(sample if len(laws) == 1 else sample.model(name), law.name)
        return sample

    def __post_init__(self) -> None:
        if not isinstance(self.predictions, Mapping):
            refuse("a Sample is made by Sample.of", "arrays that nobody has parsed", "Call Sample.of(y_true, y_proba).")

    # ── what it holds ───────────────────────────────────────────────────────────────────────────────

    @property
    def n(self) -> int:
        """Number of lines: rows, or cells of sums."""
        return int(self.y.shape[0])

    @property
    def n_given(self) -> int:
        """Number of rows that were passed, including those of weight 0."""
        return self.n if self._origin is None else int(self._origin.labels.shape[0])

    @property
    def kept(self) -> IntArray | None:
        """Positions of the rows with weight among the rows that were passed; None if all have weight."""
        return None if self._origin is None else self._origin.rows

    @property
    def n_held(self) -> int:
        """Number of rows of data with weight, dependent or not."""
        if self.cells is not None:
            return self.cells.n_units
        return self.n if self.weight is None else int(np.count_nonzero(self.weight > 0))

    @property
    def n_units(self) -> int:
        """Number of independent rows or groups that have weight."""
        if self.cells is not None or self.groups is None:
            return self.n_held
        weighted = slice(None) if self.weight is None else self.weight > 0
        return int(np.unique(self.groups[weighted]).size)

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(next(iter(self.predictions.values())))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers of the predictions."""
        return next(iter(self.predictions.values())).dtype

    @property
    def namespace(self) -> ModuleType:
        """The array namespace of the predictions: numpy, the only one so far."""
        return np

    @property
    def name(self) -> str:
        """The name of the only model; several are refused."""
        if len(self.predictions) != 1:
            refuse(
                "a Sample must hold one model here",
                f"{len(self.predictions)}: {abbreviate(self.predictions)}",
                f"Pass sample.model({next(iter(self.predictions))!r}), or use compare.",
            )
        return next(iter(self.predictions))

    @property
    def prediction(self) -> FloatArray:
        """The probabilities of the only model."""
        law: FloatArray = as_whole_array(self.predictions[self.name])
        return law

    @property
    def scores(self) -> Any:
        """The same as they came: an array, or scores of several classes that are read by blocks where they are."""
        return self.predictions[self.name]

    @property
    def masses(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Σω, Σω², Σω³ and Σω⁴ of the rows of each line; the largest ω of rows is 1, so that none overflows."""
        if self.cells is not None and self.weight is not None:
            return self.weight, self.cells.squares, self.cells.cubes, self.cells.fourths
        weight = np.ones(self.n) if self.weight is None else self.weight / self.weight.max()
        square = weight**2
        return weight, square, square * weight, square**2

    def total(self, values: FloatArray) -> float:
        """
        Sum over the rows of data that have weight, each counted once.

        Parameters
        ----------
        values : array of shape (n,)
            A number for each line.

        Returns
        -------
        float
            The sum.
        """
        if self.cells is not None:
            return float(self.cells.counts @ values)
        return float(values.sum() if self.weight is None else values[self.weight > 0].sum())

    def mean(self, values: FloatArray) -> float:
        """
        Weighted mean over the rows.

        Parameters
        ----------
        values : array of shape (n,)
            A number for each line.

        Returns
        -------
        float
            The mean; lines without weight may hold anything.
        """
        if self.weight is None:
            return float(np.add.reduce(values) / values.shape[0])
        weighted = self.weight > 0
        return float(np.average(values[weighted], weights=self.weight[weighted]))

    def describe(self, lines: NDArray[np.bool_]) -> str:
        """
        Number and positions of some lines as rows of data, for a message.

        Parameters
        ----------
        lines : boolean array of shape (n,)
            Lines.

        Returns
        -------
        str
            For example "2 of 40 rows (3, 17)".
        """
        count, total, rows = self.locate(lines)
        shown = ", ".join([*map(str, rows), *(["…"] if count > len(rows) else [])])
        return f"{count} of {total} rows" + (f" ({shown})" if rows else "")

    def locate(self, lines: NDArray[np.bool_]) -> tuple[int, int, list[int]]:
        """
        How many rows of data some lines stand for, out of how many, and the first of them.

        Parameters
        ----------
        lines : boolean array of shape (n,)
            Lines.

        Returns
        -------
        tuple of int, int and list of int
            Row numbers refer to the data as they were passed; sums have none.
        """
        if self.cells is not None:
            return self.cells.count_rows(lines), self.cells.n_units, []
        rows = np.flatnonzero(lines)
        user_rows = rows if self.kept is None else self.kept[rows]
        return int(rows.size), self.n, user_rows[:_NAMED].tolist()

    @property
    def floor(self) -> float:
        """
        How far scores are kept from 0 and 1 where a loss is shown beside one that is infinite: 1/(2n).

        Rows that have weight are counted, not their weights: models that are compared on the same rows share it.
        """
        return min(0.5 / max(self.n_held, 1), 1.0 / self.k)

    def has_infinite(self, loss: ProperLoss) -> bool:
        """
        Whether the mean loss of the only model is infinite: probability 0 was given to something that happened.

        Parameters
        ----------
        loss : ProperLoss
            The loss.

        Returns
        -------
        bool
            True if it is infinite.
        """
        loss.require_classes(self.scores)
        return self._has_infinite(loss)

    def _has_infinite(self, loss: ProperLoss) -> bool:
        """The same of a loss that is known to be for these classes."""
        return bool(self.total(np.isinf(loss.evaluate(self.scores, self.y)).astype(float)) > 0.0)

    def require_rows(self, what: str) -> None:
        """
        Refuse sums where single rows are needed.

        Parameters
        ----------
        what : str
            What needs them.
        """
        if self.cells is not None:
            refuse(f"{what} must have single rows", "sums over rows", "Pass the rows themselves.")

    # ── parts of it ─────────────────────────────────────────────────────────────────────────────────

    def model(self, name: str) -> Sample:
        """
        The same rows with the predictions of one model.

        Parameters
        ----------
        name : str
            One of `predictions`.

        Returns
        -------
        Sample
            With one model.
        """
        if name not in self.predictions:
            refuse(
                f"`name` must be one of {abbreviate(self.predictions)}", write_plain(name), "Pass the name of a model."
            )
        return replace(self, predictions={name: self.predictions[name]})

    def take(self, rows: NDArray[Any]) -> Sample:
        """
        Select rows.

        Parameters
        ----------
        rows : array
            Row numbers, or a mask.

        Returns
        -------
        Sample
            With these rows.
        """
        self.require_rows("take")
        some = np.asarray(rows)
        if some.dtype == bool:
            require_rows(some.shape[0], self.n, "the mask", "the sample")
            some = np.flatnonzero(some)
        return self._take_checked(some)

    def _take_checked(self, some: IntArray) -> Sample:
        """Some of the rows by their numbers, where there are single rows."""
        return replace(
            self,
            y=self.y[some],
            predictions={name: take_rows_of_law(law, some) for name, law in self.predictions.items()},
            weight=None if self.weight is None else self.weight[some],
            groups=None if self.groups is None else self.groups[some],
            X=None if self.X is None else take_rows(self.X, some),
            levels=tuple(level.take(some) for level in self.levels),
            segments={name: labels[some] for name, labels in self.segments.items()},
            time=None if self.time is None else self.time[some],
            _origin=None,
        )

    def one_vs_rest(self, code: int) -> Sample:
        """
        Sample of two classes: one class against all others.

        Parameters
        ----------
        code : int
            Position of the class in `classes`.

        Returns
        -------
        Sample
            With the probabilities of that class and its column of the given levels.
        """
        if code not in range(self.k):
            refuse(f"`code` must be the position of a class, 0 to {self.k - 1}", write_plain(code), "See `classes`.")
        label = code if self.classes is None else self.classes[code]
        origin = self._origin
        return replace(
            self,
            _origin=None if origin is None else origin._replace(labels=(origin.labels == code).astype(np.intp)),
            y=(self.y == code).astype(np.intp),
            predictions={name: as_matrix(as_whole_array(law))[:, code] for name, law in self.predictions.items()},
            classes=np.array([f"not {label}", label], dtype=object),
            levels=tuple(_pick_class(level, code) for level in self.levels),
        )

    def top_label(self) -> Sample:
        """
        Sample of two classes: whether the most likely class is correct.

        Returns
        -------
        Sample
            With the largest probability of the only model; without levels.
        """
        law = as_matrix(self.prediction)
        best = law.argmax(axis=1)
        confidence = np.take_along_axis(law, best[:, None], axis=1)[:, 0]
        right = (self.y == best).astype(np.intp)
        origin = None if self._origin is None else self._origin._replace(labels=self.by_given_row(right, 0))
        return replace(
            self,
            y=right,
            predictions={self.name: confidence},
            classes=np.array([False, True]),
            levels=(),
            _origin=origin,
        )

    def fit_rows(self) -> FitRows:
        """
        Rows to fit a recalibration map of the only model on.

        Returns
        -------
        FitRows
            Scores, outcome codes, and weights that sum to the effective number of rows.
        """
        score, weight = narrow_law(self.scores), fitting_weights(self.weight)
        return FitRows(score, self.y, weight, self.k, self.kind, self._origin)

    def by_given_row(self, values: NDArray[Any], fill: object = np.nan) -> NDArray[Any]:
        """
        Put values of the rows with weight in the places of all rows that were passed.

        Parameters
        ----------
        values : array of shape (n, …)
            A value for each row.
        fill : object, default=nan
            Value of rows without weight.

        Returns
        -------
        array
            One entry per row that was passed.
        """
        if self.kept is None:
            return values
        whole = np.full((self.n_given, *values.shape[1:]), fill, dtype=values.dtype)
        whole[self.kept] = values
        return whole

    def __repr__(self) -> str:
        what = "rows" if self.cells is None else "rows, summed"
        models = "model" if len(self.predictions) == 1 else "models"
        return f"Sample({self.n_held:,} {what}, {self.k} classes, {models} {abbreviate(self.predictions)})"


def find_floors(samples: Sequence[Sample], losses: Iterable[ProperLoss], clip: float | None) -> dict[str, float]:
    """
    How far scores are kept from 0 and 1, beside what was asked for, by each loss that is infinite.

    Samples share their classes, and this is where losses meet them: those for other numbers of classes are refused.
    """
    wanted = list(losses)
    for loss in wanted:
        loss.require_classes(samples[0].scores)
    if clip is not None:
        return {}
    infinite = [loss for loss in wanted if any(sample._has_infinite(loss) for sample in samples)]
    return {str(loss): min(sample.floor for sample in samples) for loss in infinite}


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────


def warn_of_prediction(sample: Sample, what: str = "y_proba") -> None:
    """Warn if the probabilities of the only model look like labels, or rank the wrong way round."""
    if is_hard(sample.scores):
        warn_of_hard_labels(what)
    if sample.classes is not None and sample.y.min() < sample.y.max():
        score = as_vector(sample.prediction) if sample.k == 2 else sample.scores
        warn_of_reversed_scores(FitRows(score, sample.y, sample.weight, sample.k, sample.kind), sample.classes)


def parse_laws(
    y_true: ArrayLike,
    laws: Sequence[GivenLaw],
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    backend: str | None = None,
) -> tuple[Sample, list[Level]]:
    """Outcomes, weights and groups of parsed laws; the first is the prediction. All rows, those of weight 0 too."""
    outcomes = parse_outcomes(y_true, laws, pos_label=pos_label, classes=classes)
    levels = []
    for law, order in zip(laws, outcomes.orders, strict=True):
        values = law.values if order is None else reorder_columns(law.values, order)
        folds = law.folds if law.folds is None or order is None else law.folds[..., order]
        levels.append(Level.of(law.name, values, folds=folds))
    n = levels[0].raw.shape[0]
    clusters = None if groups is None else parse_groups(groups, n)
    sample = Sample(
        outcomes.codes,
        {laws[0].name: levels[0].raw},
        classes=outcomes.classes,
        weight=None if sample_weight is None else parse_weights(sample_weight, n),
        groups=None if clusters is None else clusters[1],
        backend=backend_of(y_true) or backend,
    )
    return sample, levels


def drop_absent_rows(sample: Sample) -> Sample:
    """The rows with weight, which remember their places among the rows that were passed."""
    if sample.weight is None or sample.weight.all():
        return sample
    weighted = np.flatnonzero(sample.weight)
    return replace(sample.take(weighted), _origin=GivenRows(weighted, sample.y, sample.groups))


def name_models(y_proba: Any) -> dict[str, Any]:
    """Models by name; an unnamed one takes the name of its class or column, else "model"."""
    if not isinstance(y_proba, Mapping):
        name = getattr(get_values(y_proba), "name", None)
        if hasattr(y_proba, "predict_proba"):
            return {type(y_proba).__name__: y_proba}
        return {name if isinstance(name, str) and name else UNNAMED: y_proba}
    if not y_proba:
        refuse("`y_proba` must hold at least one model", "an empty mapping", "For example {'forest': p}.")
    by_name = {str(name): score for name, score in y_proba.items()}
    if len(by_name) < len(y_proba):
        refuse("models must have different names", f"{list(y_proba)}", "Rename one of them.")
    return by_name


def parse_segments(segments: Any, n: int) -> dict[str, NDArray[Any]]:
    """Columns of labels by name; a single unnamed one is called "segment"."""
    columns, names = columns_of(segments), column_names(segments)
    if not isinstance(segments, Mapping):
        if columns is None or names is None:
            return {"segment": _parse_segment(segments, n, "segments")}
        segments = dict(zip(names, columns, strict=True))
    return {str(name): _parse_segment(labels, n, f"segments[{name!r}]") for name, labels in segments.items()}


def _name_each(values: object, name: str) -> dict[str, object]:
    """Arguments by row that come one by one or in a mapping, by what they are called in a message."""
    if isinstance(values, Mapping):
        return {f"{name}[{key!r}]": value for key, value in values.items()}
    return {name: values}


def _parse_predictions(
    models: Mapping[str, Any], X: ArrayLike | None, y_true: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[dict[str, GivenLaw], dict[str, tuple[Finding, ...]]]:
    """Probabilities, or those that fitted models give to X, and whether these have seen the rows before."""
    laws: dict[str, GivenLaw] = {}
    findings: dict[str, tuple[Finding, ...]] = {}
    for name, value in models.items():
        what = "y_proba" if len(models) == 1 else f"y_proba[{name!r}]"
        if isinstance(value, GivenLaw):
            laws[name] = value
            continue
        if not hasattr(value, "predict_proba"):
            law = parse_law(value, what)
            unnamed = len(models) > 1 and law.ndim == 1  # called after its model, which is no label
            laws[name] = GivenLaw(what, law, None, None if unnamed else column_names(get_values(value)))
            continue
        law, columns, findings[name] = apply_model(value, X, y=y_true, sample_weight=sample_weight)
        present = set(code_labels(parse_labels(y_true, "y_true"), "y_true")[0].tolist())
        if columns is not None and not present <= set(columns):
            got = f"{sorted(map(str, present))} beside the classes {[str(label) for label in columns]} of the model"
            refuse("`y_true` must hold labels the model was fitted on", got, "Pass the same labels.", LabelError)
        laws[name] = GivenLaw(what, law, None, columns)
    return laws, findings


def _require_alike(laws: Sequence[GivenLaw]) -> None:
    first, *others = laws
    for law in others:
        require_rows(law.values.shape[0], first.values.shape[0], law.name, first.name)
        if n_classes(law.values) != n_classes(first.values):
            got = f"{n_classes(law.values)} and {n_classes(first.values)}"
            refuse(
                f"{mark(law.name)} must have as many classes as {mark(first.name)}",
                got,
                "Write both over the same outcome.",
            )


def _parse_segment(values: Any, n: int, name: str) -> NDArray[Any]:
    parsed = parse_groups(values, n, name)
    if parsed is None:
        refuse(f"{mark(name)} must hold one label per row", "None", "Leave it out.")
    labels, codes = parsed
    return np.asarray(labels[codes])


def _parse_time(values: Any, n: int) -> NDArray[Any]:
    """Dates and times, also those that came as objects or as ISO text; other labels stay as they are."""
    labels, codes = np.unique(_parse_segment(values, n, "time"), return_inverse=True)
    if labels.dtype.kind != "M":
        texts = [str(label) for label in labels.tolist()]
        if labels.dtype.kind in "OUS" and all(_ISO.match(text) for text in texts):
            with suppress(ValueError):  # a 45th of a 13th month is a label
                labels = np.array([text.replace(" ", "T")[:26] for text in texts], dtype="datetime64[us]")
    return np.asarray(labels[codes])


# ── levels ──────────────────────────────────────────────────────────────────────────────────────────

Source = tuple[str, object]  # the name of a level, and a law (GivenLaw) or features


def _parse_levels(
    X: ArrayLike | None,
    q: ArrayLike | None,
    latent: ArrayLike | None,
    levels: Mapping[str, object] | None,
    *,
    is_model: bool,
) -> list[Source]:
    """Parse the levels above C, coarse to fine."""
    sources: list[Source] = []
    if levels is not None:
        sources += _parse_named_levels(levels, X)
    if q is not None:
        if X is not None and not is_model:
            refuse("pass `X`, to have Q fitted, or `q`, where it is known", "both", "Leave one of them out.")
        sources.append(("Q", _parse_given_law(q, "q")))
    elif X is not None and (levels is None or not _uses_all_columns(levels, X)):
        sources.append(("Q", X))
    if latent is not None:
        if not sources:
            rule = "`latent` must stand above a feature level"
            remedy = "Pass `X` or `q` as well; the probabilities of a single level go to `q`."
            refuse(rule, "neither X, q nor levels", remedy)
        sources.append(("Π", _parse_given_law(latent, "latent")))
    return sources


def _parse_given_law(value: Any, name: str) -> GivenLaw:
    source = getattr(value, "law", value)
    return GivenLaw(name, parse_law(source, name), getattr(value, "folds", None), column_names(source))


def _parse_named_levels(levels: object, X: ArrayLike | None) -> list[Source]:
    remedy = "For example {'bureau': ['age', 'income'], 'all': X}."
    if not isinstance(levels, Mapping) or not levels:
        refuse(
            "`levels` must be a mapping from names to columns, features or a Level",
            f"{write_plain(levels)}"[:80],
            remedy,
        )
    sources: list[Source] = []
    for name, value in levels.items():
        if not isinstance(name, str) or not name or name in _OWN:
            refuse("the name of a level must be a word other than S, C, Q and Π", write_plain(name), remedy)
        if isinstance(value, Level):
            sources.append((name, replace(value.given, name=f"level {name!r}")))
        else:
            sources.append((name, _pick_columns(value, X, name)))
    return sources


def _read_column_names(value: object) -> list[str] | None:
    """Names of columns, if that is what this is."""
    if isinstance(value, str):
        return [value]
    if type(value).__name__ == "Index" or (isinstance(value, np.ndarray) and value.dtype.kind in "UO"):
        value = list(value)  # type: ignore[call-overload]
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, str) for v in value):
        return list(value)
    return None


def _pick_columns(value: object, X: ArrayLike | None, name: str) -> object:
    """Columns of X by name, or features as they are."""
    wanted = _read_column_names(value)
    known = column_names(X) if X is not None else None
    if value is None:
        refuse(f"level {name!r} must be columns, features or a Level", "None", "Leave the level out.")
    if wanted is None or known is None:
        if isinstance(value, str):
            refuse(f"level {name!r} must name columns of `X`", repr(value), "Pass `X` as a frame that has them.")
        return value  # features of its own: a list of labels, an array, a frame
    missing = [w for w in wanted if w not in known]
    if missing and len(missing) == len(wanted) and len(wanted) == count_rows(X):
        return value  # a column of words, one per row
    if missing:
        refuse(f"level {name!r} must name columns of `X`", ", ".join(map(write_plain, missing)), "Correct the names.")
    if len(set(known)) < len(known):
        refuse("columns of `X` must have different names", "a repeated one", "Rename them, or pass the columns.")
    import narwhals as nw

    return nw.from_native(X).select(*wanted).to_native()  # type: ignore[call-overload]  # a lazy frame is refused as features are


def _uses_all_columns(levels: Mapping[str, object], X: ArrayLike) -> bool:
    """Whether the levels already use every column of X."""
    known = column_names(X)
    if any(value is X for value in levels.values()):
        return True
    if known is None:
        return False
    used = {name for value in levels.values() for name in _read_column_names(value) or column_names(value) or ()}
    return set(known) <= used


def _make_level(name: str, source: Any, laws: Iterator[Level], n: int) -> Level | FeatureBlock:
    """A parsed law under the name of its level, or features, parsed."""
    if isinstance(source, GivenLaw):
        law: Level = next(laws)
        return law.change(name=name)
    return FeatureBlock(name, source, parse_features(source, n, "X" if name == "Q" else f"level {name!r}"))


def _pick_class(level: Level | FeatureBlock, code: int) -> Level | FeatureBlock:
    """One class of a law passed by the user."""
    if isinstance(level, FeatureBlock):
        return level
    folds = level.folds if level.folds is None or level.folds.ndim == 2 else level.folds[..., code]
    return level.change(raw=as_matrix(level.law)[:, code], folds=folds)
