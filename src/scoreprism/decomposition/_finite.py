"""Finite populations, on which every theorem of the paper holds to rounding (sections 2 to 5, appendix B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scoreprism._core.checks import parse_law, parse_numbers, refuse, require_rows, write_plain
from scoreprism._core.labels import code_labels, parse_labels
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, freeze, n_classes
from scoreprism._sample.level import Level
from scoreprism.decomposition._chain import Chain
from scoreprism.decomposition._result import Decomposition
from scoreprism.exceptions import NestingError
from scoreprism.losses import ProperLoss

#: Names of the levels when partitions are given as a list.
_DEFAULT_NAMES = ("C", "Q", "Π")


class FiniteModel:
    r"""
    A finite population: the probability of each state, and P(Y | state).

    A σ-algebra on it is a partition of the states, given as one label per state; the conditional law
    :math:`Q_{\mathcal A} = P(Y \in \cdot \mid \mathcal A)` is an average over cells, and every identity of the
    paper can be checked to rounding.

    Parameters
    ----------
    prob : array-like of shape (m,)
        Probabilities of the states; they sum to 1 within 1e-9.
    law : array-like of shape (m,) or (m, K)
        P(Y | state).

    Examples
    --------
    The paper's example of a calibrated score that loses all information:

    >>> model = FiniteModel([0.5, 0.5], [0.9, 0.1])
    >>> model.level(["same", "same"])
    array([0.5, 0.5])
    >>> exact = model.decompose([0.5, 0.5], [["same", "same"], ["x1", "x2"]], loss="brier")
    >>> {name: round(value, 10) for name, value in exact.terms.items()}
    {'reliability': 0.0, 'grouping': 0.16, 'irreducible': 0.09}
    """

    def __init__(self, prob: ArrayLike, law: ArrayLike) -> None:
        self.law = freeze(parse_law(law, "law").copy())
        self.prob = freeze(parse_numbers(prob, "prob").copy())
        if self.prob.ndim != 1:
            refuse("`prob` must be one-dimensional", f"shape {self.prob.shape}", "Pass one probability per state.")
        require_rows(self.prob.shape[0], self.law.shape[0], "prob", "law")
        total = self.prob.sum()
        if (self.prob < 0).any() or abs(total - 1.0) > 1e-9:
            refuse(
                "`prob` must be nonnegative and sum to 1",
                f"a sum of {write_plain(float(total))}, smallest {write_plain(self.prob.min())}",
                "Divide counts by their sum.",
            )

    def __repr__(self) -> str:
        return f"FiniteModel({self.prob.shape[0]} states, {n_classes(self.law)} classes)"

    def level(self, partition: ArrayLike) -> FloatArray:
        """
        Exact conditional law given a partition of the states, on every state.

        Parameters
        ----------
        partition : array-like of shape (m,) or (m, columns)
            Label of the cell of each state; with several columns cells are distinct rows. Labels are compared
            exactly: round scores first if equal ones may differ in the last bit.

        Returns
        -------
        array of the shape of `law`
            P(Y | cell) of each state's cell. Cells of probability zero keep the unweighted mean of their states.
        """
        return self._average(self.cells(partition, "partition"))

    def cells(self, partition: ArrayLike, name: str) -> IntArray:
        """
        Cell code of each state.

        Parameters
        ----------
        partition : array-like of shape (m,) or (m, columns)
            Labels.
        name : str
            Its name in messages.

        Returns
        -------
        integer array of shape (m,)
            Codes 0, 1, ….
        """
        array = np.asarray(partition, dtype=object) if isinstance(partition, (list, tuple)) else np.asarray(partition)
        if array.ndim == 2 and array.shape[1] > 0:
            columns = [self.cells(array[:, j].tolist(), name) for j in range(array.shape[1])]
            require_rows(array.shape[0], self.prob.shape[0], name, "law")
            return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
        labels = parse_labels(partition, name)
        require_rows(labels.shape[0], self.prob.shape[0], name, "law")
        return code_labels(labels, name)[1]

    def _average(self, codes: IntArray) -> FloatArray:
        size = int(codes.max()) + 1
        mass = np.bincount(codes, self.prob, minlength=size)
        weight = np.where(mass[codes] > 0, self.prob, 1.0)
        total = np.bincount(codes, weight, minlength=size)
        columns = self.law.reshape(self.law.shape[0], -1).T
        means = np.stack([np.bincount(codes, weight * column, minlength=size) / total for column in columns], axis=-1)
        exact = np.clip(means[codes], 0.0, 1.0)
        return exact[:, 0] if self.law.ndim == 1 else exact

    def decompose(
        self,
        prediction: ArrayLike,
        partitions: Sequence[ArrayLike] | Mapping[str, ArrayLike],
        loss: str | ProperLoss = "log",
        form: str = "debiased",
        *,
        names: Sequence[str] | None = None,
        clip: float | None = None,
    ) -> Decomposition:
        """
        Exact decomposition of the expected loss of a prediction along nested partitions.

        Rows are state × label with weight prob · law, so that all three forms agree.

        Parameters
        ----------
        prediction : array-like of shape (m,) or (m, K)
            Predicted probabilities in each state; constant on the cells of the first partition.
        partitions : sequence or mapping of str to array-like
            Labels of the states, from coarse to fine, each refining the one before. Level names are the keys
            of a mapping; C, Q, Π in a sequence of up to three.
        loss : str or ProperLoss, default="log"
            The loss.
        form : {"debiased", "difference", "plugin"}, default="debiased"
            How terms are estimated; on a population all forms agree.
        names : sequence of str, optional
            Names of the terms.
        clip : float, optional
            Keep all probabilities at least this far from 0.

        Returns
        -------
        Decomposition
            Without sampling error.
        """
        law = parse_law(prediction, "prediction")
        require_rows(law.shape[0], self.prob.shape[0], "prediction", "law")
        if n_classes(law) != n_classes(self.law):
            refuse(
                "`prediction` must have as many classes as the model",
                f"{n_classes(law)} and {n_classes(self.law)}",
                "Predict the same outcome.",
            )
        by_name = _name_partitions(partitions)
        cells = {name: self.cells(labels, f"partition {name!r}") for name, labels in by_name.items()}
        self._check_nested(law, cells)
        levels = [("S", law), *((name, self._average(codes)) for name, codes in cells.items())]
        state, label, weight = self._rows()
        chain = [Level(name, values[state]) for name, values in levels]
        classes = np.arange(n_classes(self.law))
        return Chain(label, chain, sample_weight=weight, names=names, classes=classes, population=True).decompose(
            loss, form, clip=clip
        )

    def _rows(self) -> tuple[IntArray, IntArray, FloatArray]:
        """State, label and probability of every row that can happen."""
        joint = self.prob[:, None] * as_matrix(self.law)
        state, label = np.nonzero(joint > 0)
        return state, label, joint[state, label]

    def _check_nested(self, law: FloatArray, cells: Mapping[str, IntArray]) -> None:
        possible = self.prob > 0
        coarse: FloatArray | IntArray = law
        coarse_name = "the prediction"
        for name, codes in cells.items():
            first = np.full(int(codes.max()) + 1, -1)
            first[codes[possible][::-1]] = np.flatnonzero(possible)[::-1]
            same = coarse[first[codes]] == coarse
            broken = np.flatnonzero(~(same if same.ndim == 1 else same.all(axis=1)) & possible)
            if broken.size:
                _refuse_nesting(coarse_name, name, coarse, first[codes[broken[0]]], broken[0])
            coarse, coarse_name = codes, f"level {name!r}"


def _refuse_nesting(coarse_name: str, name: str, coarse: FloatArray | IntArray, first: int, state: int) -> None:
    if coarse_name == "the prediction":
        refuse(
            f"the prediction must be constant on each cell of level {name!r}",
            f"{plain_law(coarse[first])} and {plain_law(coarse[state])} in the cell of state {first}",
            f"Refine {name!r} or pass a prediction that is a function of it.",
            NestingError,
        )
    refuse(
        f"level {name!r} must refine {coarse_name}",
        f"states {first} and {state}, which {name!r} puts together and {coarse_name} separates",
        "Order partitions from coarse to fine; join labels if they do not nest.",
        NestingError,
    )


def plain_law(law: FloatArray | IntArray) -> str:
    """One law as text."""
    return write_plain(law) if np.ndim(law) == 0 else "(" + ", ".join(write_plain(v) for v in law) + ")"


def _name_partitions(partitions: Sequence[ArrayLike] | Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    if isinstance(partitions, Mapping):
        by_name = {str(name): labels for name, labels in partitions.items()}
    elif isinstance(partitions, Sequence) and not isinstance(partitions, str):
        names = _DEFAULT_NAMES if len(partitions) <= 3 else [f"F{t}" for t in range(len(partitions))]
        by_name = dict(zip(names, partitions, strict=False))
    else:
        refuse(
            "`partitions` must be a list, or a mapping from level name to labels",
            type(partitions).__name__,
            "For example [s, x].",
        )
    if not by_name:
        refuse("`partitions` must hold at least one labelling of the states", "none", "For example [s] for σ(S).")
    return by_name
