"""The contract of every calibrator: a scikit-learn classifier whose features are scores."""

from __future__ import annotations

import json
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from scoreprism._core.arrays import is_foreign, namespace, to_host
from scoreprism._core.checks import (
    abbreviate,
    is_law,
    parse_choice,
    parse_count,
    parse_number,
    parse_weights,
    read_where_it_is,
    refuse,
    require_rows,
    write_plain,
)
from scoreprism._core.frames import column_names, unwrap
from scoreprism._core.labels import code_labels
from scoreprism._core.lazy_laws import ClassScores, take_rows_of_law
from scoreprism._core.logits import Logits
from scoreprism._core.simplex import ArrayLike, FloatArray, as_matrix
from scoreprism._core.workers import limit_threads
from scoreprism._maps import map_files
from scoreprism._maps.formula import ExprTerm, SqlTerm, column_expression
from scoreprism._maps.parts import REMEDY, Map, Part, brief, decode, encode
from scoreprism._maps.score_block import ScoreBlock
from scoreprism._maps.score_reduction import Reduction
from scoreprism._maps.torch_map import make_torch_map
from scoreprism._parameters import described
from scoreprism._sample.batch import Batch
from scoreprism._sample.fit_rows import FitRows, GivenRows, warn_of_reversed_scores
from scoreprism._sample.parse_scores import (
    check_column_names,
    class_labels,
    refuse_scores,
    require_some,
    score_numbers,
    warn_of_small_weights,
)
from scoreprism.calibrators._provenance import Provenance, read_provenance, record_provenance
from scoreprism.exceptions import LabelError

if TYPE_CHECKING:
    import narwhals as nw

T = TypeVar("T")

#: What scores may be; declared, never guessed.
KINDS = ("probability", "logit")
#: What quotes names in SQL, the same on both sides.
_QUOTES = ('"', "`")

# ── parameters ──────────────────────────────────────────────────────────────────────────────────────

#: From the value and the name of a parameter to its parsed value, which fits trust.
Rule = Callable[[Any, str], Any]


def rules(**parse: Rule) -> Mapping[str, Rule]:
    """How parameters are parsed, by name and in this order."""
    return parse


def one_of(*words: str) -> Rule:
    """A word of a closed vocabulary."""
    return lambda value, name: parse_choice(value, words, name)


def at_least(least: int) -> Rule:
    """A whole number."""
    return lambda value, name: parse_count(value, name, least)


def number(rule: str, holds: Callable[[float], bool]) -> Rule:
    """A number for which `rule` holds."""
    return lambda value, name: parse_number(value, name, rule, holds)


def optional(parse: Rule) -> Rule:
    """The same, or None."""
    return lambda value, name: None if value is None else parse(value, name)


def parse_distance(value: object, name: str) -> str | float:
    """How far fitted probabilities stay from 0 and 1; "auto" is 1/(2n)."""
    if isinstance(value, str):
        return parse_choice(value, ("auto",), name)
    return parse_number(value, name, "'auto' or a distance of at least 0 and below 1/2", lambda v: 0.0 <= v < 0.5)


def resolve_distance(clip: str | float, data: FitRows) -> float:
    """The distance for some rows."""
    return data.distance if isinstance(clip, str) else clip


C = TypeVar("C", bound=type[Any])


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(estimator: C) -> C:
    """An estimator whose parameters are its fields; its docstring may leave out those that `_parameters` describes."""
    dataclass(kw_only=True, eq=False, repr=False)(estimator)
    return described()(estimator)


# ── the contract ────────────────────────────────────────────────────────────────────────────────────


class Calibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """
    A recalibration map C = P(Y | S), fitted on scores and outcomes (paper, section 4).

    A calibrator is a scikit-learn classifier whose features are scores: one column, P(Y = ``classes_[1]``), or one
    column per class. A one-dimensional array counts as one column. Scores are probabilities unless
    ``kind="logit"`` declares real numbers: log-odds of ``classes_[1]``, or one logit per class as before a softmax.

    Notes
    -----
    A subclass writes ``_fit(data)``, which returns the fitted map, and says in class attributes what holds for every
    data set: `monotone`, `strictly_increasing`, `smooth` (C²) and `multiclass` (more than two classes accepted).
    A fitted calibrator keeps where it comes from in ``provenance_``, a `Provenance`.
    With ``kind="logit"``, any other number of columns is first brought to logits by a lightly ridged
    logistic regression on these columns; probabilities of any other width are refused.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator
    >>> isinstance(PlattCalibrator(), Calibrator)
    True
    """

    #: The name under which `CALIBRATORS` knows the map.
    name: ClassVar[str]
    #: Never turns the order of two scores around, to the last bit.
    monotone: ClassVar[bool] = False
    #: Different scores keep different values, up to rounding: ROC and AUC are unchanged.
    strictly_increasing: ClassVar[bool] = False
    #: Twice continuously differentiable in the score, inside (0, 1).
    smooth: ClassVar[bool] = False
    #: Takes more than two classes.
    multiclass: ClassVar[bool] = False
    #: Most classes for which a fit is worth trying: a weight for every pair of classes is too many for more.
    most_classes: ClassVar[int] = sys.maxsize
    #: Fewest classes for which it is tried beside others: for less, another map does the same or more.
    fewest_classes: ClassVar[int] = 2
    #: Rows for each pair of classes below which it is not tried beside others.
    rows_per_pair: ClassVar[float] = 0.0
    #: Whether scores of several classes are read by blocks, in any array library, on any device.
    reads_blocks: ClassVar[bool] = False
    #: Fitted attributes beside the map that a file keeps.
    _kept: ClassVar[tuple[str, ...]] = ()
    #: How parameters are parsed; those that are not named can have any value.
    _rules: ClassVar[Mapping[str, Rule]] = rules()

    kind: str
    classes_: NDArray[Any]
    n_features_in_: int
    map_: Map
    reduction_: Reduction | None
    provenance_: Provenance | None

    @classmethod
    def _is_tried(cls, k: int, n: int) -> bool:
        """Whether a fit to n rows of k classes is worth trying beside others."""
        return cls.fewest_classes <= k <= cls.most_classes and n >= cls.rows_per_pair * k * k

    @abstractmethod
    def _fit(self, data: FitRows) -> Map:
        """The fitted map; parameters have been parsed."""

    def fit(self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Calibrator:
        """
        Fit the map.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Scores of held-out rows: rows the model that made them was not trained on. Of two columns of
            probabilities the second is used; pass logits if scores come nearer to 1 than 1e-16.
        y : array-like of shape (n,)
            Outcomes; any labels. One column of scores is the probability of the label that sorts last.
        sample_weight : array-like of shape (n,), optional
            Nonnegative weights; a row of weight 2 counts as two rows. Weights whose sum cannot be a number of rows
            (below 2⁻⁵³ or above 2⁵³) are scaled to sum to n, with a warning.

        Returns
        -------
        Calibrator
            The calibrator itself.
        """
        self.__dict__.pop("map_", None)  # a fit that fails must not leave the last one half in place
        kind = parse_choice(self.kind, KINDS, "kind")
        table = self._read(scores, reset=True)
        labels = class_labels(y, type(self).__name__)
        require_rows(labels.shape[0], table.shape[0], "y", "scores")
        weight = parse_weights(sample_weight, table.shape[0], "scores", as_rows=True)
        origin = None
        if weight is not None and not weight.all():  # rows without weight are not there
            origin = GivenRows(np.flatnonzero(weight), labels)
            table, labels, weight = take_rows_of_law(table, origin.rows), labels[origin.rows], weight[origin.rows]
        classes, codes = code_labels(labels, "y")
        self._check_classes(classes)
        k = len(classes)
        narrow = table.shape[1] in ((1, 2) if k == 2 else (k,))
        if kind == "probability" and not narrow:
            shape = "1 or 2 columns for 2 classes" if k == 2 else f"{k} columns for {k} classes"
            refuse(
                f"`scores` must have {shape}",
                f"shape {table.shape} and the classes {abbreviate(map(write_plain, classes))}",
                "Pass one column per class that occurs in y, in sorted order of the labels.",
            )
        check_column_names(column_names(scores), classes)
        warn_of_small_weights(weight)
        self.classes_ = classes
        self.reduction_ = None if narrow else Reduction.fit(np.asarray(table), codes, weight, k)
        data = FitRows(self._score(table, k), codes, weight, k, kind, origin)
        warn_of_reversed_scores(data, classes)
        self.provenance_ = record_provenance(scores, y, classes, data, None if narrow else table)
        self.map_ = self._fit_as(self._parse_parameters(), data)
        return self

    def predict_proba(self, scores: ArrayLike) -> FloatArray:
        """
        Recalibrated probabilities.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Scores of the width and kind the map was fitted on; one-dimensional scores of two classes are
            always accepted.

        Returns
        -------
        array of shape (n, K)
            One column per entry of ``classes_``.
        """
        return as_matrix(self._law(scores))

    def calibrate(self, scores: ArrayLike) -> FloatArray:
        """
        Recalibrated probabilities in the shape the scores came in.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Scores.

        Returns
        -------
        array of the shape of `scores`
            P(Y = ``classes_[1]``) for one column, one probability per class for several.
        """
        law = self._law(scores)
        values: Any = scores if is_foreign(scores) else unwrap(scores).values
        shape: tuple[int, ...] = tuple(values.shape) if hasattr(values, "shape") else np.shape(values)
        if len(shape) < 2:
            return law.reshape(shape)
        if shape[1] == 1 and law.ndim == 1:
            return law[:, None]
        return as_matrix(law)

    def predict(self, scores: ArrayLike) -> NDArray[Any]:
        """
        The most probable class.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
            Scores.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        law = self._law(scores)
        best = (law > 0.5).astype(np.intp) if law.ndim == 1 else to_host(namespace(law).argmax(law, axis=1))
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def to_dict(self) -> dict[str, Any]:
        """
        The fitted map as plain numbers and strings.

        Returns
        -------
        dict
            What `to_json` writes; `scoreprism.calibrators.from_dict` reads it.
        """
        check_is_fitted(self)
        if not isinstance(self.map_, Part):
            refuse(
                "a map that goes to a file must be made of parts that the library knows",
                f"a {type(self.map_).__name__} in {type(self).__name__}",
                "Keep a calibrator of your own with pickle.",
            )
        names, provenance = getattr(self, "feature_names_in_", None), getattr(self, "provenance_", None)
        return map_files.seal(
            {
                "provenance": None if provenance is None else provenance.to_dict(),
                **map_files.describe(self),
                "classes": map_files.encode_labels(self.classes_),
                "n_features_in": int(self.n_features_in_),
                "feature_names_in": None if names is None else [str(name) for name in names],
                "reduction": None if self.reduction_ is None else encode(self.reduction_),
                "map": encode(self.map_),
            }
        )

    def to_json(self, *, indent: int | None = None) -> str:
        """
        The fitted map as strict JSON, to the last bit.

        Parameters
        ----------
        indent : int, optional
            Spaces per level; one line by default.

        Returns
        -------
        str
            Text that `scoreprism.calibrators.from_json` reads.
        """
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent, ensure_ascii=False)

    def to_torch(self) -> Callable[[Any], Any]:
        """
        The fitted map of several classes as a function of torch tensors.

        Returns
        -------
        callable
            From a tensor of scores, one column per class and of the kind the map was fitted on, to probabilities: plain
            tensor operations, on the device of the tensor, through which gradients flow. Half precision is computed in
            single precision. For temperature, vector, matrix and Dirichlet maps, also those chosen by a
            `SelectedCalibrator`.

        Examples
        --------
        >>> import numpy as np
        >>> from scoreprism.calibrators import TemperatureCalibrator
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(500, 3))
        >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        >>> calibrate = TemperatureCalibrator(kind="logit").fit(2 * z, y).to_torch()
        >>> calibrate(torch.tensor([[2.0, 0.0, -1.0]])).sum(1)                            # doctest: +SKIP
        tensor([1.])
        """
        fitted, k = self._fitted, len(self.classes_)
        function = make_torch_map(fitted, k)
        if function is None:
            refuse(
                "`to_torch` is for temperature, vector, matrix and Dirichlet maps of a table of scores",
                f"a map of {type(self).__name__} for {k} classes",
                "Choose one of these calibrators, fitted on one column per class.",
            )
        return function

    def to_sql(self, column: str, *, quote: str = '"', number: str = "DOUBLE") -> str:
        """
        The fitted map of two classes as an SQL expression.

        Parameters
        ----------
        column : str
            Name of the column that holds the score of ``classes_[1]``, of the kind the map was fitted on. A dot
            separates a table from its column.
        quote : str, default='"'
            Quote character for names: ``"`` in DuckDB, PostgreSQL, Snowflake; a backtick in Spark, BigQuery, MySQL.
        number : str, default="DOUBLE"
            The type of double precision: ``DOUBLE PRECISION`` in PostgreSQL, ``FLOAT64`` in BigQuery.

        Returns
        -------
        str
            CASE, arithmetic, and the functions exp, ln, power, abs, least and greatest; NULL where the score is
            missing or not of its kind.
        """
        self._require_column(column)
        # an apostrophe would make a text of the name, which SQL compares with numbers
        if not isinstance(quote, str) or quote not in _QUOTES:
            refuse(
                "`quote` must be what quotes names in SQL: a double quote or a backtick",
                repr(quote),
                "Pass '\"' or '`'.",
            )
        if not isinstance(number, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9 ]*", number):
            refuse("`number` must be the name of an SQL type", repr(number), "For example 'DOUBLE PRECISION'.")
        name = ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in column.split("."))
        term: SqlTerm = self._formula("to_sql", SqlTerm(f"CAST({name} AS {number})"))
        return term.text

    def to_expr(self, column: str) -> nw.Expr:
        """
        The fitted map of two classes as a narwhals expression, for any engine narwhals knows.

        Parameters
        ----------
        column : str
            Name of the column that holds the score of ``classes_[1]``, of the kind the map was fitted on.

        Returns
        -------
        narwhals.Expr
            P(Y = ``classes_[1]``); null (NaN in pandas) where the score is missing or not of its kind.

        Notes
        -----
        An expression cannot name what it uses several times, and Polars, pandas and pyarrow compute all pieces of a
        map for all rows: maps of many pieces, such as isotonic ones, are slow. `scoreprism.scale.apply` knows a faster
        way for each engine, runs on Dask, too, where this does not, and takes names that narwhals does not: with a dot
        or a backtick on Spark, and ``*`` on DuckDB.
        """
        self._require_column(column)
        term: ExprTerm = self._formula("to_expr", ExprTerm(column_expression(column)))
        return term.expr

    def _require_column(self, column: object) -> None:
        """Refuse a missing or empty column name."""
        check_is_fitted(self)
        if not isinstance(column, str) or not column:
            refuse("`column` must be the name of a column", repr(column), "For example 'score'.")

    def _formula(self, who: str, score: Any) -> Any:
        """The map as a formula of a score, in the dialect of the score."""
        formula = getattr(self.map_, "formula", None)
        two_logits = self.kind == "logit" and self.n_features_in_ > 1
        if formula is None and not isinstance(self.map_, Part):
            refuse(
                f"{who} must be called on a map that has a formula",
                f"a {type(self.map_).__name__} in {type(self).__name__}",
                "Give the map a method `formula`, or apply it in Python.",
            )
        if formula is None or two_logits or len(self.classes_) > 2:
            refuse(
                f"{who} must be called on a map of one score and two classes",
                f"{self.n_features_in_} columns and {len(self.classes_)} classes",
                "Fit on one column, or apply the map in Python.",
            )
        return formula(score)

    @property
    def _fitted(self) -> Any:
        """The fitted map, or scikit-learn's error if there is none."""
        check_is_fitted(self)
        return self.map_

    # ── the border ──────────────────────────────────────────────────────────────────────────────────

    def _law(self, scores: ArrayLike) -> FloatArray:
        """Recalibrated probabilities, (n,) for two classes."""
        check_is_fitted(self)
        table = self._read(scores, reset=False)
        score = self._score(table, len(self.classes_))
        if not isinstance(score, ClassScores):
            return self.map_(score)
        blocks = [ScoreBlock(score, rows).apply(self.map_) for rows in score.blocks()]
        law: FloatArray = blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=0)
        return law.astype(np.float64, copy=False) if isinstance(law, np.ndarray) else law

    def _read(self, scores: ArrayLike, *, reset: bool) -> Any:
        """Scores as a matrix of real numbers, with scikit-learn's checks of names and width."""
        placed = None
        if self.reads_blocks and not isinstance(scores, Logits):
            placed = read_where_it_is(scores, "scores", is_logit=self.kind == "logit", explain=refuse_scores)
        if placed is not None:
            validate_data(self, np.zeros((1, placed.shape[1])), skip_check_array=True, reset=reset)
            return placed
        table = score_numbers(scores)
        if table.ndim == 1:
            table = table[:, None]
            if reset:
                self.n_features_in_ = 1
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
            elif len(self.classes_) > 2 or self.reduction_ is not None:
                refuse(
                    f"`scores` must have {self.n_features_in_} columns, as in fit",
                    f"{table.shape[0]} numbers in one dimension",
                    "Reshape your data: one row per case.",
                )
        else:
            require_some(table)
            validate_data(self, scores if hasattr(scores, "columns") else table, skip_check_array=True, reset=reset)
        return table

    def _score(self, table: Any, k: int) -> Any:
        """The score a map sees: (n,) for two classes, (n, K) for more."""
        if self.reduction_ is not None:
            return self.reduction_(np.asarray(table))
        if isinstance(table, ClassScores):
            return table
        if self.kind == "probability":
            law = table[:, 0] if table.shape[1] == 1 else table
            if not is_law(law):
                refuse_scores(law)
        if k > 2:
            return np.ascontiguousarray(table)  # the same bits whatever the layout
        if table.shape[1] == 1:
            return np.ascontiguousarray(table[:, 0])
        return np.ascontiguousarray(table[:, 1] if self.kind == "probability" else table[:, 1] - table[:, 0])

    def _check_classes(self, classes: NDArray[Any]) -> None:
        """Refuse a single class, and more than two where the map takes two."""
        if len(classes) < 2:
            refuse(
                "`y` must hold at least two classes",
                f"one class, {write_plain(classes[0])}, among the rows with weight",
                "Calibrate on rows in which each class occurs.",
                LabelError,
            )
        if len(classes) > 2 and not self.multiclass:
            refuse(
                f"{type(self).__name__} must get two classes (Only binary classification is supported)",
                f"{len(classes)} classes: {abbreviate(map(write_plain, classes))}",
                f"Use OneVsRestCalibrator({type(self).__name__}()), or a multiclass map such as TemperatureCalibrator.",
                LabelError,
            )

    @property
    def _keeps_order(self) -> bool:
        """Whether no fit with these parameters turns the order of two scores around."""
        return self.monotone

    def _parse_parameters(self) -> Self:
        """A copy with parsed parameters."""
        parsed = copy(self)
        for name, parse in self._rules.items():
            setattr(parsed, name, parse(getattr(self, name), name))
        return parsed

    def _fit_as(self, parsed: Calibrator, data: FitRows) -> Map:
        """Fit a copy with parsed parameters, take over its fitted attributes, and leave the parameters as passed."""
        parameters = self.get_params(deep=False)
        with limit_threads():  # products of a fit are small: waking other threads costs more
            fitted = parsed._fit(data)
        self.__dict__.update({name: value for name, value in vars(parsed).items() if name not in parameters})
        return fitted

    def _share_choices(self, data: FitRows) -> Calibrator:
        """What a copy fitted on a fold should keep from all scores (never from outcomes); nothing by default."""
        return self

    @property
    def _deals_rows(self) -> bool:
        """Whether a fit deals rows to folds of its own: rows of the same score then are not one line of more weight."""
        return False

    def _fit_many(self, batch: Batch) -> FloatArray:
        """Fitted probabilities of many training sets at the centers of their cells, (M, G); one by one by default."""
        shared = self._share_choices(batch.everything)
        return np.stack([copy(shared)._fit(batch.part(m))(batch.center) for m in range(batch.total.size)])

    def _fit_many_rows(self, batch: Batch, parts: Sequence[FitRows]) -> FloatArray:
        """The same from the rows of the training sets, for maps that deal them to folds."""
        shared = self._share_choices(batch.everything)
        return np.stack([copy(shared)._fit(part)(batch.center) for part in parts])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        tags.classifier_tags.poor_score = True  # a map of given scores is as good as they are
        return tags


class FittedPart(Generic[T]):
    """An attribute of a fitted calibrator that is read from its map; scikit-learn's error if there is none."""

    def __init__(self, path: str, make: Callable[[Any], T], about: str) -> None:
        self._find, self._make, self.__doc__ = attrgetter(path), make, about

    def __get__(self, owner: Calibrator | None, kind: type[Calibrator]) -> T:
        return self if owner is None else self._make(self._find(owner._fitted))  # type: ignore[return-value]


# ── calibrators by name ─────────────────────────────────────────────────────────────────────────────

#: Every calibrator with a name: the one table that code, command line, documentation and tests iterate over. The
#: package fills it, so that calibrators made of others find these by name.
CALIBRATORS: dict[str, type[Calibrator]] = {}


def get_calibrator(calibrator: str | Calibrator, **parameters: Any) -> Calibrator:
    """
    A calibrator by name.

    Parameters
    ----------
    calibrator : str or Calibrator
        A name in `CALIBRATORS`, or "auto" for `SelectedCalibrator`; a calibrator is returned as it is.
    **parameters : object
        Its parameters; with a calibrator, a copy that has them is returned.

    Returns
    -------
    Calibrator
        Unfitted, unless a fitted one was passed.

    Examples
    --------
    >>> get_calibrator("isotonic", interpolation="step")
    IsotonicCalibrator(interpolation='step')
    """
    if isinstance(calibrator, Calibrator):
        return clone(calibrator).set_params(**parameters) if parameters else calibrator
    if isinstance(calibrator, type) and issubclass(calibrator, Calibrator):
        refuse("`calibrator` must be a calibrator or a name", calibrator.__name__, f"Pass {calibrator.__name__}().")
    is_auto = isinstance(calibrator, str) and calibrator == "auto"
    cls = CALIBRATORS["selected" if is_auto else parse_choice(calibrator, CALIBRATORS, "calibrator")]
    known = cls().get_params(deep=False)
    wrong = [word for word in parameters if word not in known]
    if wrong:
        refuse(f"{cls.__name__} takes the parameters {', '.join(known)}", abbreviate(wrong), "Correct their names.")
    return cls(**parameters)


def from_dict(data: dict[str, Any]) -> Calibrator:
    """
    A fitted calibrator from the dictionary that `Calibrator.to_dict` returned.

    Parameters
    ----------
    data : dict
        Plain numbers and strings.

    Returns
    -------
    Calibrator
        Fitted; it predicts the same to the last bit.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator, from_dict
    >>> platt = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> from_dict(platt.to_dict()).calibrate([0.3]) == platt.calibrate([0.3])
    array([ True])
    """
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:  # as long and as deep as Python can hold
        refuse("a calibrator must be read from numbers and words", f"{type(error).__name__}: {error}", REMEDY)
    return from_json(text)


def from_json(text: str | bytes) -> Calibrator:
    """
    A fitted calibrator from strict JSON.

    Parameters
    ----------
    text : str or bytes
        What `Calibrator.to_json` wrote. NaN, repeated or unknown fields, other versions and content that does not fit
        its digest are refused.

    Returns
    -------
    Calibrator
        Fitted; it predicts the same to the last bit, and writes the same text.

    Examples
    --------
    >>> from scoreprism.calibrators import PlattCalibrator, from_json
    >>> text = PlattCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]).to_json()
    >>> from_json(text).to_json() == text
    True
    """
    return _make_from_fields(map_files.read(text))


def _make_from_fields(fields: dict[str, Any]) -> Calibrator:
    """A fitted calibrator from the fields of a file."""
    described = {name: fields[name] for name in ("calibrator", "parameters", "fitted")}
    calibrator: Calibrator = map_files.make_described(described, CALIBRATORS)
    calibrator.classes_ = map_files.decode_labels(fields["classes"])
    k, width, names = len(calibrator.classes_), fields["n_features_in"], fields["feature_names_in"]
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        refuse("n_features_in must be a whole number of at least 1", brief(width), REMEDY)
    calibrator.n_features_in_ = width
    if names is not None:
        if not isinstance(names, list) or len(names) != width or not all(isinstance(name, str) for name in names):
            refuse("feature_names_in must be null or one name per column", repr(names), REMEDY)
        calibrator.feature_names_in_ = np.array(names, dtype=object)
    reduction = None if fields["reduction"] is None else decode(fields["reduction"], "reduction")
    if reduction is not None and (not isinstance(reduction, Reduction) or len(reduction.weights) != width + 1):
        refuse("reduction must fit the number of columns", type(reduction).__name__, REMEDY)
    calibrator.reduction_ = reduction
    calibrator.map_ = map_files.decode_map(fields["map"], k)
    n_features = 1 if k == 2 and reduction is None else width
    calibrator.provenance_ = read_provenance(fields["provenance"], k, n_features)
    inner = getattr(calibrator, "calibrator_", None)
    if isinstance(inner, Calibrator):
        for name in ("map_", "classes_", "n_features_in_", "reduction_", "provenance_"):
            setattr(inner, name, getattr(calibrator, name))
    return calibrator
