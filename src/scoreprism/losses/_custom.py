"""User-defined losses, from an entropy or from a function, and the check that they are proper."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_count, refuse
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, n_classes
from scoreprism.exceptions import ImproperLossError, InputError, UnavailableError
from scoreprism.losses._proper_loss import ProperLoss

RowFunction = Callable[..., Any]

#: How much better than the truth a prediction may look before the loss counts as improper.
_TOLERANCE = 1e-7


def _require_column(values: Any, n: int, what: str) -> FloatArray:
    """What a user's function returned, if it is one number per row; it was given copies, so it may write on them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(f"{what} must return numbers", type(values).__name__, "Return an array with one number per row.")
    if array.shape != (n,):
        refuse(
            f"{what} must return one number per row, shape ({n},)",
            f"shape {array.shape}",
            "Sum over axis 1, not over everything.",
        )
    if np.isnan(array).any():
        refuse(
            f"{what} must not return NaN",
            f"NaN in {int(np.isnan(array).sum())} of {n} rows",
            "Return inf where the loss is infinite, and 0·log 0 as 0.",
        )
    return array


class _CustomLoss(ProperLoss):
    """A loss known by its label; whether it is strict and symmetric was found out when it was made."""

    name: ClassVar[str] = "custom"

    def __init__(self, label: str, classes: int | None) -> None:
        self._label = label
        self._classes = classes
        self._strict = True
        self._exchangeable = False

    @property
    def strictly_proper(self) -> bool:
        """Whether the truth was the only best prediction in all cases tried."""
        return self._strict

    @property
    def symmetric(self) -> bool:
        """Whether swapping classes changed nothing in all cases tried."""
        return self._exchangeable

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:
        risk, entropy = self._risk(p, q), self._entropy(q)
        worst = np.argmin(risk - entropy)
        if risk[worst] - entropy[worst] < -_TOLERANCE * max(1.0, abs(entropy[worst])):
            raise ImproperLossError(
                f"the loss {self._label!r} is not proper: predicting {_write_law(as_matrix(p)[worst])} when "
                f"{_write_law(as_matrix(q)[worst])} holds has expected loss {risk[worst]:.4g}, less than the "
                f"{entropy[worst]:.4g} of the truth itself. Use a proper loss such as 'brier' or 'log'."
            )
        return np.maximum(risk - entropy, 0.0)

    def require_classes(self, law: FloatArray, name: str = "p") -> None:
        if self._classes is not None and n_classes(law) != self._classes:
            refuse(
                f"the loss {self._label!r} is for {self._classes} classes",
                f"{name} with {n_classes(law)}",
                "Make another with from_loss(function, n_classes=…).",
            )

    def formula(self, k: int) -> str:
        return self._label

    def __str__(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label!r})"


class OpaqueLoss(_CustomLoss):
    """
    A loss known by name only, in a result loaded from JSON.

    Parameters
    ----------
    label : str
        Name of the loss.
    classes : int or None
        Number of classes it is defined for, if known.

    Examples
    --------
    >>> OpaqueLoss("my loss", None)
    OpaqueLoss('my loss')
    """

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        raise UnavailableError(
            f"the loss {self._label!r} was loaded by name only; rebuild it with from_entropy or from_loss."
        )


class FunctionLoss(_CustomLoss):
    """ℓ(p, y) as the user wrote it."""

    def __init__(self, function: RowFunction, classes: int, label: str) -> None:
        super().__init__(label, classes)
        self._function = function
        self._vector = classes == 2 and self._takes_vectors()

    def _takes_vectors(self) -> bool:
        """Two-class functions may want ``(n,)`` or ``(n, 2)``; the one they cannot take, they fail on."""
        vector, y = np.array([0.2, 0.5, 0.9]), np.array([0, 1, 1], dtype=np.intp)
        for law in (vector, as_matrix(vector)):
            try:
                with np.errstate(all="ignore"):
                    self._function(law.copy(), y.copy())
            except (IndexError, ValueError, TypeError) as error:
                reason = error
            else:
                return law.ndim == 1
        raise InputError(
            "the loss function must take two-class probabilities of shape (n,) or (n, 2) and class codes",
            f"{type(reason).__name__}: {reason}",
            "Write it for arrays, one row a case.",
        )

    def _layout(self, law: FloatArray) -> FloatArray:
        matrix = as_matrix(law)
        return matrix[:, 1] if self._vector else matrix

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        return _require_column(self._function(p.copy(), y.copy()), p.shape[0], "the loss function")


class EntropyLoss(_CustomLoss):
    """ℓ(p, y) = ℰ(p) + ⟨∇ℰ(p), e_y − p⟩ (Savage 1971)."""

    def __init__(self, entropy: RowFunction, gradient: RowFunction | None, label: str) -> None:
        super().__init__(label, None)
        self._concave = entropy
        self._gradient = gradient
        self.numerical = gradient is None

    def _entropy(self, q: FloatArray) -> FloatArray:
        return _require_column(self._concave(q.copy()), q.shape[0], "the entropy")

    def _slope(self, p: FloatArray, y: IntArray) -> FloatArray:
        """Directional derivative of the entropy at p towards the vertex e_y."""
        direction = -p.copy()
        direction[np.arange(p.shape[0]), y] += 1.0
        if self._gradient is None:
            return _differentiate(self._entropy, p, direction)
        gradient = np.asarray(self._gradient(p.copy()), dtype=np.float64)
        if gradient.shape != p.shape:
            refuse(
                f"the gradient must return an array of shape {p.shape}",
                f"shape {gradient.shape}",
                "One column per class.",
            )
        slope: FloatArray = np.where(direction != 0, gradient * direction, 0.0).sum(axis=1)
        return slope

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        return self._entropy(p) + self._slope(p, y)


#: Steps of the two extrapolations; powers of two, so that p ± h·direction is rounded as little as possible.
_CENTRAL = 2.0 ** -np.arange(5, 12)
_FORWARD = 2.0 ** -np.arange(8, 17)


#: Relative error above which a numerical derivative is refused.
_DIGITS = 1e-8


def _differentiate(function: Callable[[FloatArray], FloatArray], p: FloatArray, direction: FloatArray) -> FloatArray:
    """
    Derivative of a concave function along `direction`, by extrapolated differences, or a refusal.

    Central steps fit between p and the boundary, so they shrink with the distance to it and drown in rounding;
    forward steps, towards a vertex, are always long, but lose where the function bends. The one with the smaller
    error estimate counts. On the boundary itself a slope that keeps growing as the step shrinks is infinite.
    """
    moving = direction != 0
    room = np.where(moving, p / np.abs(np.where(moving, direction, 1.0)), np.inf).min(axis=1)
    still = ~moving.any(axis=1)
    at = function(p)
    slope, error = _forward(function, p, direction, at)
    inside = (room > 1e-8) & ~still  # closer to the boundary rounding always wins over central steps
    if inside.any():
        central, doubt = _central(function, p[inside], direction[inside], np.minimum(room[inside], 1.0), at[inside])
        better = doubt < error[inside]
        slope[inside] = np.where(better, central, slope[inside])
        error[inside] = np.where(better, doubt, error[inside])
    rough = (error > _DIGITS * np.maximum(np.abs(slope), 1.0)) & ~still
    infinite = rough & (room == 0) & _diverges(function, p, direction, at)
    if (rough & ~infinite).any():
        row = int(np.flatnonzero(rough & ~infinite)[0])
        raise InputError(
            "the entropy must have a numerical derivative of eight digits",
            f"fewer at {_write_law(p[row])}, on or near the boundary of the simplex",
            "Pass `gradient`=, the row-wise gradient of the entropy.",
        )
    return np.where(still, 0.0, np.where(infinite, np.inf, slope))


def _neville(table: list[FloatArray], order: int) -> tuple[FloatArray, FloatArray]:
    """Richardson extrapolation of halved steps, errors h^order, h^2order, …: the entry of least error estimate."""
    best, error = table[-1], np.full(table[-1].shape, np.inf)
    row = table
    power = order
    while len(row) > 1:
        factor = 2.0**power
        following = [(factor * fine - coarse) / (factor - 1.0) for coarse, fine in pairwise(row)]
        for new, old in zip(following, row[1:], strict=True):
            gap = np.abs(new - old)
            better = gap < error
            best, error = np.where(better, new, best), np.where(better, gap, error)
        row, power = following, power + order
    return best, error


def _central(
    function: Callable[[FloatArray], FloatArray],
    p: FloatArray,
    direction: FloatArray,
    room: FloatArray,
    at: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Central differences within `room`, and their error: extrapolation gap plus rounding over a short step."""
    table = []
    for h in _CENTRAL:
        step = (h * room)[:, None]
        ahead, behind = function(p + step * direction), function(p - step * direction)
        table.append((ahead - behind) / (2.0 * step[:, 0]))
    slope, gap = _neville(table, 2)
    return slope, gap + _bound_rounding(at, slope) / (room * _CENTRAL[5])


def _forward(
    function: Callable[[FloatArray], FloatArray], p: FloatArray, direction: FloatArray, at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Forward differences, and their error."""
    slope, gap = _neville([(function(p + h * direction) - at) / h for h in _FORWARD], 1)
    return slope, gap + _bound_rounding(at, slope) / _FORWARD[5]


def _bound_rounding(at: FloatArray, slope: FloatArray) -> FloatArray:
    """How far a value is off: its own rounding, and that of the probabilities times the slope."""
    return np.finfo(float).eps * (np.abs(at) + np.abs(slope))


def _diverges(
    function: Callable[[FloatArray], FloatArray], p: FloatArray, direction: FloatArray, at: FloatArray
) -> NDArray[np.bool_]:
    """Whether the slope keeps growing by as much for each shorter step."""
    far, near, nearest = ((function(p + h * direction) - at) / h for h in (1e-4, 1e-7, 1e-10))
    return np.asarray((nearest - near) > 0.5 * (near - far))


def _make_trial_laws(k: int) -> FloatArray:
    """Laws to try: a fine grid for two classes, a fixed random cloud and a coarse grid for more; all inside."""
    if k == 2:
        inner = np.arange(1, 40) / 40.0
        return as_matrix(np.concatenate([[0.001], inner, [0.999]]))
    rng = np.random.default_rng(20260101)
    cloud = np.concatenate([rng.dirichlet(np.full(k, a), 24) for a in (0.5, 1.0, 4.0)])
    cloud = 0.999 * cloud + 0.001 / k  # inside, where numerical derivatives have their digits
    vertices = 0.98 * np.eye(k) + 0.02 / k
    return np.concatenate([cloud, vertices, np.full((1, k), 1 / k)])


def _write_law(law: FloatArray) -> str:
    if law.shape[0] == 2:
        return f"{law[1]:.4g}"
    return "(" + ", ".join(f"{v:.4g}" for v in law) + ")"


def _compute_risks(loss: ProperLoss, k: int) -> tuple[FloatArray, FloatArray]:
    """
    Trial laws, and the matrix of risks: row q, column p.

    At two classes p may also be certain, unless that asks for a numerical derivative on the boundary: a concave
    entropy needs no such check.
    """
    laws = _make_trial_laws(k)
    certain = k == 2 and not (isinstance(loss, EntropyLoss) and loss.numerical)
    predictions = np.concatenate([laws, np.eye(k)]) if certain else laws
    losses = np.stack([loss.loss(predictions, np.full(predictions.shape[0], y)) for y in range(k)], axis=1)
    return predictions, laws @ losses.T  # trial laws are positive everywhere: no 0·∞


def _coerce(loss: ProperLoss | RowFunction, k: int) -> ProperLoss:
    if isinstance(loss, ProperLoss):
        return loss
    if not callable(loss):
        refuse(
            "`loss` must be a ProperLoss or a function of (p, y)",
            type(loss).__name__,
            "Use get_loss(name) for a loss by name.",
        )
    return FunctionLoss(loss, k, getattr(loss, "__name__", "loss"))


def check_proper(loss: ProperLoss | RowFunction, n_classes: int = 2) -> None:
    """
    Raise `ImproperLossError` if some prediction has a smaller expected loss than the truth.

    The expected loss of a dense set of predictions is compared under a dense set of truths; the message
    shows the worst case found. Class-weighted log loss, focal loss and absolute error fail.

    Parameters
    ----------
    loss : ProperLoss or callable
        A loss, or a function ``(p, y)`` that returns one number per row.
    n_classes : int, default=2
        Number of classes to check with.

    Examples
    --------
    >>> import numpy as np
    >>> check_proper(lambda p, y: (p - y) ** 2)
    >>> def weighted_log(p, y):
    ...     return -np.where(y == 1, 3 * np.log(p), np.log1p(-p))
    >>> check_proper(weighted_log)
    Traceback (most recent call last):
        ...
    scoreprism.exceptions.ImproperLossError: the loss is not proper: when P(Y=1) = 0.45, predicting 0.7 \
has expected loss 1.144, less than the 1.407 of predicting 0.45 itself. A decomposition would credit \
miscalibration; use a proper loss such as 'brier' or 'log'.
    """
    classes = parse_count(n_classes, "n_classes", 2)
    checked = _coerce(loss, classes)
    k = 2 if checked.binary_only else classes
    predictions, risks = _compute_risks(checked, k)
    laws = predictions[: risks.shape[0]]
    own = np.diagonal(risks)
    if not np.isfinite(own).all():
        q = laws[int(np.flatnonzero(~np.isfinite(own))[0])]
        raise ImproperLossError(
            f"the loss is not proper: at the law {_write_law(q)} inside the simplex the truth has infinite risk."
        )
    gain = own[:, None] - risks
    worst = np.unravel_index(int(np.argmax(gain)), gain.shape)
    if gain[worst] > _TOLERANCE * max(1.0, float(np.abs(own).max())):
        q, p = laws[worst[0]], predictions[worst[1]]
        when = "P(Y=1)" if k == 2 else "the distribution of Y"
        raise ImproperLossError(
            f"the loss is not proper: when {when} = {_write_law(q)}, predicting {_write_law(p)} has expected loss "
            f"{risks[worst]:.4g}, less than the {own[worst[0]]:.4g} of predicting {_write_law(q)} itself. "
            "A decomposition would credit miscalibration; use a proper loss such as 'brier' or 'log'."
        )


def _settle(loss: _CustomLoss, k: int) -> None:
    """Find out on the trial laws whether a proper loss is strict and symmetric."""
    predictions, risks = _compute_risks(loss, k)
    laws = predictions[: risks.shape[0]]
    apart = np.abs(laws[:, None, :] - predictions[None, :, :]).sum(axis=2) > 0.04
    regret = risks - np.diagonal(risks)[:, None]
    loss._strict = bool((regret[apart] > 1e-9).all())
    codes = np.zeros(laws.shape[0], dtype=np.intp)
    base = loss.loss(laws, codes)
    loss._exchangeable = all(
        np.allclose(base, loss.loss(laws[:, np.roll(np.arange(k), shift)], (codes + shift) % k), rtol=1e-8, atol=1e-10)
        for shift in range(1, k)
    )


def from_loss(function: RowFunction, n_classes: int = 2, *, name: str | None = None) -> ProperLoss:
    """
    Make a loss from a function ``(p, y)``; refused if it is not proper.

    Parameters
    ----------
    function : callable
        ``function(p, y)`` returns one number per row. For two classes `p` is P(Y=1), shape ``(n,)``, or,
        if the function cannot take that, ``(n, 2)``; for more it is ``(n, K)``. `y` holds codes.
    n_classes : int, default=2
        Number of classes the function is for.
    name : str, optional
        Label in results; by default the function's name.

    Returns
    -------
    ProperLoss
        With the risk, entropy and divergence that follow from the definition.

    Examples
    --------
    >>> loss = from_loss(lambda p, y: (p - y) ** 2, name="my brier")
    >>> loss.divergence([0.2], [0.5]).round(12)
    array([0.09])
    """
    classes = parse_count(n_classes, "n_classes", 2)
    if not callable(function):
        refuse("`function` must be callable as function(p, y)", type(function).__name__, "Pass a row-wise function.")
    loss = FunctionLoss(function, classes, name or str(getattr(function, "__name__", "loss")))
    check_proper(loss, classes)
    _settle(loss, classes)
    return loss


def _takes_three_classes(entropy: RowFunction) -> bool:
    """Some entropies are written for two classes only."""
    try:
        return np.shape(entropy(np.full((4, 3), 1 / 3))) == (4,)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return False


def from_entropy(entropy: RowFunction, gradient: RowFunction | None = None, *, name: str | None = None) -> ProperLoss:
    r"""
    Make a loss from a concave entropy: :math:`\ell(p,y) = \mathcal E(p) + \langle\nabla\mathcal E(p), e_y - p\rangle`.

    Parameters
    ----------
    entropy : callable
        Row-wise concave function on ``(n, K)`` arrays of probabilities.
    gradient : callable, optional
        Its gradient, ``(n, K)`` to ``(n, K)``. Without it derivatives are numerical: at least eight digits, or
        refused, as they are close to the boundary for an entropy that bends sharply there.
    name : str, optional
        Label in results; by default the function's name.

    Returns
    -------
    ProperLoss
        For any number of classes the entropy accepts.

    Examples
    --------
    >>> loss = from_entropy(lambda q: 1 - (q**2).sum(axis=1), lambda q: -2 * q)
    >>> loss.loss([[0.2, 0.3, 0.5]], [2]).round(12)
    array([0.38])
    """
    for what, function in (("entropy", entropy), ("gradient", gradient)):
        if function is not None and not callable(function):
            refuse(f"{what} must be callable on (n, K) arrays", type(function).__name__, "Pass a row-wise function.")
    loss = EntropyLoss(entropy, gradient, name or str(getattr(entropy, "__name__", "entropy")))
    check_proper(loss, 2)
    if _takes_three_classes(entropy):
        check_proper(loss, 3)
    _settle(loss, 2)
    return loss
