"""The definition of a proper loss; everything else in this package is a special case of it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from scoreprism._core.arrays import DEVICE_BLOCK, like, namespace, to_host
from scoreprism._core.checks import as_law_array, is_law, parse_codes, parse_law, refuse, refuse_law
from scoreprism._core.lazy_laws import LazyLaw
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, n_classes, unify
from scoreprism._core.workers import map_threads
from scoreprism._spelling import mark

#: Numbers per block of rows: few enough that a block and its temporaries stay in cache, many enough to hide Python.
_BLOCK = 1 << 17

Kernel = Callable[..., FloatArray]


class ProperLoss(ABC):
    r"""
    A loss :math:`\ell(p, y)` under which the truth is the best prediction (paper, section 1.1).

    With :math:`L(p, q) = E_{Y \sim q}\,\ell(p, Y)`, properness is :math:`L(q, q) \le L(p, q)`. The base
    class *is* the definition: from a subclass's loss it derives the risk :math:`L`, the generalised
    entropy :math:`\mathcal E(q) = L(q, q)` and the divergence :math:`d(p, q) = L(p, q) - \mathcal E(q)`.
    Subclasses override them only for accuracy or speed, and the law tests hold every override to the
    definition.

    Probabilities have shape ``(n,)``, meaning P(Y=1), or ``(n, K)``; outcomes are codes 0…K−1. A single row is
    broadcast. Results have shape ``(n,)``. An infinite loss is ``inf``: nothing is clipped.

    Notes
    -----
    A subclass writes kernels (``_loss`` and, if it likes, ``_risk``, ``_entropy``, ``_divergence``,
    ``_weight``) for valid arrays in the layout that ``_layout`` gives. The public methods check their
    input and feed the kernels blocks of rows that fit in cache.

    Examples
    --------
    >>> from scoreprism.losses import Brier
    >>> loss = Brier()
    >>> loss.loss([0.2, 0.9], [0, 1]).round(2)
    array([0.04, 0.01])
    >>> loss.divergence([0.2, 0.9], 0.5).round(2)
    array([0.09, 0.16])
    """

    #: The name under which `LOSSES` knows the loss.
    name: ClassVar[str]
    #: Whether the loss is defined for two classes only.
    binary_only: ClassVar[bool] = False

    # ── what a subclass says ────────────────────────────────────────────────────────────────────────

    #: Whether its kernels take arrays of any library that follows the array API standard.
    takes_any_array: ClassVar[bool] = False

    @property
    def strictly_proper(self) -> bool:
        """Whether the truth is the *only* best prediction, so that d(p, q) = 0 means p = q."""
        return True

    @property
    def symmetric(self) -> bool:
        """Whether the classes are exchangeable."""
        return True

    @abstractmethod
    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        """Kernel of ℓ(p, y)."""

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Kernel of L(p, q) = Σ_k q_k ℓ(p, k), where 0·∞ = 0."""
        columns = as_matrix(q)
        total = np.zeros(p.shape[0])
        for k in range(columns.shape[1]):
            share = columns[:, k]
            term = share * self._loss(p, np.full(p.shape[0], k, dtype=np.intp))
            total += np.where(share > 0, term, 0.0)
        return total

    def _entropy(self, q: FloatArray) -> FloatArray:
        """Kernel of ℰ(q) = L(q, q)."""
        return self._risk(q, q)

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Kernel of d(p, q) = L(p, q) − ℰ(q); rounding cannot make it negative."""
        return np.maximum(self._risk(p, q) - self._entropy(q), 0.0)

    def _weight(self, c: FloatArray) -> FloatArray:
        """Kernel of w(c) = −ℰ''(c), by the five-point rule: good to about seven digits."""
        h = 0.01 * np.minimum(c, 1.0 - c)
        stencil = {-2: 1.0, -1: -16.0, 0: 30.0, 1: -16.0, 2: 1.0}
        total = sum((share * self._entropy(self._layout(c + j * h)) for j, share in stencil.items()), np.zeros(c.shape))
        return total / (12.0 * h * h)

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray | None:
        r"""
        Residuals :math:`(-\tfrac12 \nabla^2 \mathcal E(p))^{1/2} (e_y - p)` of several classes, for parsed rows.

        Inner products of these of different rows estimate divergences to second order.

        Parameters
        ----------
        law : array of shape (n, K)
            Probabilities p.
        y : integer array of shape (n,)
            Outcome codes.
        floor : array of shape (n,)
            Smallest probability that the curvature is taken at.

        Returns
        -------
        array of shape (n, m) or None
            None where the curvature of the loss is not known.
        """
        return None

    def _layout(self, law: FloatArray) -> FloatArray:
        """The shape in which the kernels want a law."""
        return as_matrix(law)

    # ── what everybody calls ────────────────────────────────────────────────────────────────────────

    def loss(self, p: ArrayLike, y: ArrayLike) -> FloatArray:
        r"""
        Loss :math:`\ell(p, y)` of each row.

        Parameters
        ----------
        p : array-like of shape (n,) or (n, K)
            Predicted probabilities.
        y : array-like of shape (n,)
            Outcome codes 0, …, K−1.

        Returns
        -------
        array of shape (n,)
            Losses, ``inf`` where they are infinite.
        """
        law = self._law(p, "p")
        return self._by_block(self._loss, {"p": law}, parse_codes(y, n_classes(law)))

    def risk(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        r"""
        Expected loss :math:`L(p, q)` of predicting `p` where the outcome follows `q`.

        Parameters
        ----------
        p, q : array-like of shape (n,) or (n, K)
            The prediction and the true probabilities.

        Returns
        -------
        array of shape (n,)
            Expected losses.
        """
        return self._by_block(self._risk, {"p": self._law(p, "p"), "q": self._law(q, "q")})

    def entropy(self, q: ArrayLike) -> FloatArray:
        r"""
        Generalised entropy :math:`\mathcal E(q) = L(q, q)`: the risk of knowing the truth.

        Parameters
        ----------
        q : array-like of shape (n,) or (n, K)
            Probabilities.

        Returns
        -------
        array of shape (n,)
            Entropies.
        """
        return self._by_block(self._entropy, {"q": self._law(q, "q")})

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        r"""
        Regret :math:`d(p, q) = L(p, q) - \mathcal E(q) \ge 0` of predicting `p` where `q` holds.

        Parameters
        ----------
        p, q : array-like of shape (n,) or (n, K)
            The prediction and the true probabilities.

        Returns
        -------
        array of shape (n,)
            Divergences, exactly 0 where `p` equals `q`.
        """
        return self._by_block(self._divergence, {"p": self._law(p, "p"), "q": self._law(q, "q")})

    def weight(self, c: ArrayLike) -> FloatArray:
        r"""
        Weight :math:`w(c) = -\mathcal E''(c)` that the binary loss gives to the decision threshold `c`.

        Every binary proper loss is a mixture of elementary ones with this weight:
        :math:`\ell(p, 1) = \int_p^1 (1-c)\,w(c)\,dc` and :math:`\ell(p, 0) = \int_0^p c\,w(c)\,dc`.

        Parameters
        ----------
        c : array-like of shape (n,)
            Thresholds between 0 and 1.

        Returns
        -------
        array of shape (n,)
            Weights of the loss restricted to two classes.
        """
        thresholds = parse_law(c, "c", single=True)
        if thresholds.ndim != 1:
            refuse(
                "c must be one-dimensional", f"shape {thresholds.shape}", "The weight is for two classes: pass P(Y=1)."
            )
        return self.evaluate_weight(thresholds)

    def formula(self, k: int) -> str:
        """
        The loss as a line of text, with its scale.

        Parameters
        ----------
        k : int
            Number of classes.

        Returns
        -------
        str
            For example ``'(p − y)²'``.
        """
        return self.name

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that, with the name, identify the loss."""
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={value:g}" for key, value in self.parameters.items())
        return f"{self.name}({inside})" if inside else self.name

    # ── the same for arrays that were parsed before ─────────────────────────────────────────────────

    def evaluate(self, p: FloatArray, y: IntArray) -> FloatArray:
        r"""
        `loss` for arguments that are already parsed: nothing is checked again; see `require_classes`.

        Parameters
        ----------
        p : array of shape (n,) or (n, K)
            Probabilities.
        y : integer array of shape (n,)
            Outcome codes 0, …, K−1.

        Returns
        -------
        array of shape (n,)
            What `loss` returns.
        """
        return self._blockwise(self._loss, [p], y, y.shape[0])

    def evaluate_each(self, p: FloatArray) -> FloatArray:
        """
        Loss under each possible outcome, for a block of probabilities that are already parsed.

        Parameters
        ----------
        p : array of shape (n, K)
            Probabilities, an array of any library.

        Returns
        -------
        array of shape (n, K)
            A column for each outcome, where `p` lives.
        """
        with np.errstate(all="ignore"):
            each: FloatArray = self.apply(self._each, [p])
        return each

    def evaluate_entropy(self, q: FloatArray) -> FloatArray:
        """
        `entropy` for probabilities that are already parsed.

        Parameters
        ----------
        q : array of shape (n,) or (n, K)
            Probabilities.

        Returns
        -------
        array of shape (n,)
            What `entropy` returns.
        """
        return self._blockwise(self._entropy, [q], None, q.shape[0])

    def evaluate_divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """
        `divergence` for probabilities that are already parsed and have the same shape.

        Parameters
        ----------
        p, q : array of shape (n,) or (n, K)
            The prediction and the true probabilities.

        Returns
        -------
        array of shape (n,)
            What `divergence` returns.
        """
        return self._blockwise(self._divergence, unify([p, q]), None, q.shape[0])

    def evaluate_weight(self, c: FloatArray) -> FloatArray:
        """
        `weight` for thresholds that are already parsed.

        Parameters
        ----------
        c : array of shape (n,)
            Thresholds between 0 and 1.

        Returns
        -------
        array of shape (n,)
            What `weight` returns.
        """
        with np.errstate(all="ignore"):
            return self._weight(c)

    # ── the border ──────────────────────────────────────────────────────────────────────────────────

    def require_classes(self, law: FloatArray, name: str = "p") -> None:
        """
        Refuse probabilities with more or fewer classes than this loss is defined for.

        Parameters
        ----------
        law : array of shape (n,) or (n, K)
            Probabilities.
        name : str, default="p"
            Their name in the message.
        """
        if self.binary_only and n_classes(law) != 2:
            refuse(
                f"the {self.name} loss is for two classes, so {mark(name)} must have shape (n,) or (n, 2)",
                f"shape {law.shape}",
                "Use brier, log, spherical, tsallis or ranked-probability for more classes.",
            )

    def _law(self, value: ArrayLike, name: str) -> FloatArray:
        """An array in the shape of a law of this loss; `_by_block` checks its numbers."""
        law = as_law_array(value, name, single=True)
        self.require_classes(law, name)
        return law

    def _by_block(self, kernel: Kernel, laws: dict[str, FloatArray], y: IntArray | None = None) -> FloatArray:
        """Check `laws` and apply `kernel` to them, a block of rows at a time."""
        shapes = " and ".join(str(law.shape) for law in laws.values())
        if len({n_classes(law) for law in laws.values()}) > 1:
            refuse(
                "`p` and `q` must have the same number of classes", shapes, "Pass probabilities of the same outcome."
            )
        shaped = unify(list(laws.values()))
        lengths = [law.shape[0] for law in shaped] + ([] if y is None else [y.shape[0]])
        n = max(lengths)
        if any(length not in (1, n) for length in lengths):
            what = "p and q" if y is None else "p and y"
            got = " and ".join(map(str, lengths))
            refuse(f"{what} must have the same number of rows", got, "Pass one row per case in both.")
        return self._blockwise(kernel, shaped, y, n, given=laws)

    def _blockwise(
        self, kernel: Kernel, laws: list[FloatArray], y: IntArray | None, n: int, given: Mapping[str, FloatArray] = {}
    ) -> FloatArray:
        """Apply `kernel` to a block of rows at a time; laws as they were `given` are checked while in cache."""
        out = np.empty(n)
        step = max(_find_step(law) for law in laws)

        def evaluate(rows: slice) -> None:
            parts = [_take_block(law, rows, n) for law in laws]
            for part, (name, law) in zip(parts, given.items(), strict=False):
                if not isinstance(law, LazyLaw) and not is_law(part):  # those were checked when they were read
                    refuse_law(law, name)
            with np.errstate(all="ignore"):  # each thread has its own
                out[rows] = to_host(self.apply(kernel, parts, None if y is None else _take_block(y, rows, n)))

        blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        lazy = any(isinstance(law, LazyLaw) and isinstance(law.place, np.ndarray) for law in laws)
        map_threads(evaluate, blocks, n * n_classes(laws[0]) if lazy else 0)
        return out

    def apply(self, kernel: Kernel, laws: Sequence[Any], y: IntArray | None = None) -> Any:
        """
        Apply a kernel to a block of rows, where the block lives if this loss can.

        Parameters
        ----------
        kernel : callable
            One of the kernels of this loss.
        laws : sequence of array
            Its arguments: arrays of one library on one device, or numpy arrays beside them.
        y : integer array of shape (n,), optional
            Outcome codes.

        Returns
        -------
        array
            What the kernel returns.
        """
        foreign = next((law for law in laws if not isinstance(law, np.ndarray)), None)
        if foreign is None or not self.takes_any_array:
            laws = [to_host(law) for law in laws]
        else:
            laws = [like(law, foreign) if isinstance(law, np.ndarray) else law for law in laws]
            y = y if y is None else like(y, foreign)
        arguments = [self._layout(law) for law in laws]
        return kernel(*arguments) if y is None else kernel(*arguments, y)

    def _each(self, p: FloatArray) -> FloatArray:
        """Kernel of the losses of all outcomes, one column each."""
        xp = namespace(p)
        columns = [self._loss(p, like(np.full(p.shape[0], k, dtype=np.intp), p)) for k in range(p.shape[1])]
        each: FloatArray = xp.stack(columns, axis=1)
        return each


def _find_step(law: Any) -> int:
    """Rows of a block: many where every step costs the same."""
    if isinstance(law, LazyLaw):
        return law.step
    return max(1, (_BLOCK if isinstance(law, np.ndarray) else DEVICE_BLOCK) // n_classes(law))


def _take_block(array: Any, rows: slice, n: int) -> Any:
    """A block of rows; a single row stands for all."""
    if isinstance(array, LazyLaw) and array.shape[0] == n:
        return array.block(rows)
    if array.shape[0] == n:
        return array[rows, ...]
    return np.broadcast_to(array[0], (rows.stop - rows.start, *array.shape[1:]))
