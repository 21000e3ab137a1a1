"""Formulas of one score that can be written as SQL or as narwhals expressions."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scoreprism._core.numerics import FAR

if TYPE_CHECKING:
    import narwhals as nw

#: A piece of a curve: from the coordinate and the numbers of the piece to its value.
Form = Callable[..., "FormulaTerm | float"]
Infix = Callable[[Any, Any], Any]
#: The operators of a formula, and their signs in SQL.
_SIGNS: dict[Infix, str] = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/"}
#: The functions of a formula, as SQL and as narwhals call them.
_FUNCTIONS = {"exp": "exp", "ln": "log", "abs": "abs"}


class FormulaTerm(ABC):
    """
    A number that an engine computes for each row: arithmetic with numbers and other terms, and a few functions.

    Engines such as Polars compute every branch of a choice for all rows, so a formula keeps the branches that are
    not chosen inside the domain of their functions.
    """

    @abstractmethod
    def infix(self, sign: Infix, left: FormulaTerm | float, right: FormulaTerm | float) -> FormulaTerm:
        """Two terms, or a term and a number, joined by an operator."""

    @abstractmethod
    def constant(self, value: float) -> FormulaTerm:
        """A number in the dialect of this term."""

    @abstractmethod
    def apply(self, function: str) -> FormulaTerm:
        """One of `_FUNCTIONS` of this term."""

    def exp(self) -> FormulaTerm:
        return self.apply("exp")

    def ln(self) -> FormulaTerm:
        return self.apply("ln")

    def abs(self) -> FormulaTerm:
        return self.apply("abs")

    @abstractmethod
    def cube(self) -> FormulaTerm: ...

    @abstractmethod
    def cut(self, low: float | None = None, high: float | None = None) -> FormulaTerm:
        """At least `low` and at most `high`."""

    @abstractmethod
    def below(self, cut: float, yes: FormulaTerm, no: FormulaTerm) -> FormulaTerm:
        """`yes` where this term is below `cut`, else `no`."""

    @abstractmethod
    def only_within(self, low: float, high: float, value: FormulaTerm) -> FormulaTerm:
        """`value` where this term is from `low` to `high`, elsewhere (missing and NaN too) nothing."""

    def guard(self, low: float, high: float) -> FormulaTerm:
        """The term itself, from `low` to `high` even in rows that get no value, where the engine computes those too."""
        return self

    @abstractmethod
    def reuse(self) -> FormulaTerm:
        """The same, computed once although it is used several times, where the engine can be told so."""

    def pieces(self, cuts: Sequence[float], rows: Sequence[Sequence[float]], form: Form) -> FormulaTerm:
        """``form(self, *rows[i])`` where ``cuts[i−1] ≤ self < cuts[i]``: a piece by its numbers."""
        values = [form(self, *row) for row in rows]
        return tree(self, cuts, [one if isinstance(one, FormulaTerm) else self.constant(one) for one in values])

    def __add__(self, other: FormulaTerm | float) -> FormulaTerm:
        return self.infix(operator.add, self, other)

    def __radd__(self, other: float) -> FormulaTerm:
        return self.infix(operator.add, other, self)

    def __sub__(self, other: FormulaTerm | float) -> FormulaTerm:
        return self.infix(operator.sub, self, other)

    def __rsub__(self, other: float) -> FormulaTerm:
        return self.infix(operator.sub, other, self)

    def __mul__(self, other: FormulaTerm | float) -> FormulaTerm:
        return self.infix(operator.mul, self, other)

    def __rmul__(self, other: float) -> FormulaTerm:
        return self.infix(operator.mul, other, self)

    def __truediv__(self, other: FormulaTerm | float) -> FormulaTerm:
        return self.infix(operator.truediv, self, other)

    def __rtruediv__(self, other: float) -> FormulaTerm:
        return self.infix(operator.truediv, other, self)


def tree(x: FormulaTerm, cuts: Sequence[float], leaves: Sequence[FormulaTerm]) -> FormulaTerm:
    """Balanced choices: leaf i where ``cuts[i−1] ≤ x < cuts[i]``."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    left = tree(x, cuts[: middle - 1], leaves[:middle])
    right = tree(x, cuts[middle:], leaves[middle:])
    return x.below(cuts[middle - 1], left, right)


def sigmoid(x: FormulaTerm) -> FormulaTerm:
    """σ(x) without overflow."""
    return 1 / (1 + (0 - x.cut(-FAR, FAR)).exp())


# ── SQL ─────────────────────────────────────────────────────────────────────────────────────────────


def literal(value: float) -> str:
    """A double in a form that no dialect reads as a decimal, exact to the last bit; small integers as they are."""
    text = str(value) if isinstance(value, int) else f"{float(value):.16e}"
    return f"({text})" if text.startswith("-") else text


@dataclass(frozen=True)
class SqlTerm(FormulaTerm):
    """SQL text that may stand anywhere in an expression; `keep` names a text and returns its name."""

    text: str
    keep: Callable[[str], str] | None = None

    def _with(self, text: str) -> SqlTerm:
        return replace(self, text=text)

    def infix(self, sign: Infix, left: FormulaTerm | float, right: FormulaTerm | float) -> SqlTerm:
        first, second = (side.text if isinstance(side, SqlTerm) else literal(side) for side in (left, right))  # type: ignore[arg-type]
        return self._with(f"({first} {_SIGNS[sign]} {second})")

    def constant(self, value: float) -> SqlTerm:
        return self._with(literal(value))

    def apply(self, function: str) -> SqlTerm:
        return self._with(f"{function}({self.text})")

    def cube(self) -> SqlTerm:
        return self._with(f"power({self.text}, 3)")

    def cut(self, low: float | None = None, high: float | None = None) -> SqlTerm:
        text = self.text if low is None else f"greatest({self.text}, {literal(low)})"
        return self._with(text if high is None else f"least({text}, {literal(high)})")

    def below(self, cut: float, yes: FormulaTerm, no: FormulaTerm) -> SqlTerm:
        return self._with(f"CASE WHEN {self.text} < {literal(cut)} THEN {_text(yes)} ELSE {_text(no)} END")

    def only_within(self, low: float, high: float, value: FormulaTerm) -> SqlTerm:
        limits = f"{literal(low)} AND {literal(high)}"
        return self._with(f"CASE WHEN {self.text} BETWEEN {limits} THEN {_text(value)} END")

    def reuse(self) -> SqlTerm:
        return self if self.keep is None else self._with(self.keep(self.text))


def _text(term: FormulaTerm) -> str:
    """The text of a term of this dialect."""
    assert isinstance(term, SqlTerm)  # noqa: S101  formulas never mix dialects
    return term.text


# ── narwhals ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ExprTerm(FormulaTerm):
    """A narwhals expression; `keep` makes a column of one and returns the column."""

    expr: nw.Expr
    keep: Callable[[nw.Expr], nw.Expr] | None = None

    def _with(self, expr: nw.Expr) -> ExprTerm:
        return replace(self, expr=expr)

    def infix(self, sign: Infix, left: FormulaTerm | float, right: FormulaTerm | float) -> ExprTerm:
        first, second = (side.expr if isinstance(side, ExprTerm) else side for side in (left, right))
        return self._with(sign(first, second))

    def constant(self, value: float) -> ExprTerm:
        import narwhals as nw

        return self._with(nw.lit(float(value)))

    def apply(self, function: str) -> ExprTerm:
        return self._with(getattr(self.expr, _FUNCTIONS[function])())

    def cube(self) -> ExprTerm:
        return self._with(self.expr**3)

    def cut(self, low: float | None = None, high: float | None = None) -> ExprTerm:
        import narwhals as nw

        # not `clip`, which writes its argument twice in SQL: nested, the text would double each time
        cut_low = self.expr if low is None else nw.max_horizontal(self.expr, nw.lit(float(low)))
        return self._with(cut_low if high is None else nw.min_horizontal(cut_low, nw.lit(float(high))))

    def below(self, cut: float, yes: FormulaTerm, no: FormulaTerm) -> ExprTerm:
        import narwhals as nw

        return self._with(nw.when(self.expr < cut).then(_expr(yes)).otherwise(_expr(no)))

    def only_within(self, low: float, high: float, value: FormulaTerm) -> ExprTerm:
        import narwhals as nw

        return self._with(nw.when((self.expr >= low) & (self.expr <= high)).then(_expr(value)))

    def guard(self, low: float, high: float) -> ExprTerm:
        return self.cut(low, high)  # all branches are computed, also for rows that get no value

    def reuse(self) -> ExprTerm:
        return self if self.keep is None else self._with(self.keep(self.expr))


def _expr(term: FormulaTerm) -> nw.Expr:
    """The expression of a term of this dialect."""
    assert isinstance(term, ExprTerm)  # noqa: S101  formulas never mix dialects
    return term.expr


def column_expression(column: str) -> nw.Expr:
    """A column in double precision; its name is never read as a pattern."""
    import re

    import narwhals as nw
    import narwhals.selectors as ncs

    # Polars reads "*" and "^…$" as patterns, so such a name is matched by a pattern for itself
    pattern = column == "*" or (column.startswith("^") and column.endswith("$"))
    return (ncs.matches(f"^{re.escape(column)}$") if pattern else nw.col(column)).cast(nw.Float64)
