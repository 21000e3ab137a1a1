"""What could be done with an ensemble, and what each would gain: paired, on rows that no fit has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_confidence
from scoreprism._core.simplex import FloatArray
from scoreprism._document.result_json import encode
from scoreprism._document.tables import TermTable
from scoreprism._kernels.term_intervals import Interval, Moments, quantile
from scoreprism.decomposition._rows import Sheet

#: What can be done with members and their aggregate, from doing nothing to using all they know.
ACTIONS = {
    "leave": "the aggregate as it is",
    "recalibrate": "the aggregate, recalibrated: C_ens",
    "stack": "a logistic regression on the members",
    "keep the vector": "any function of the members: C_S",
}


@dataclass(frozen=True, eq=False, repr=False)
class Actions(TermTable):
    """
    Losses of what could be done with an ensemble, out of sample and on the same rows.

    Made by `aggregation_decomposition`.

    Attributes
    ----------
    names : tuple of str
        Actions, as in `ACTIONS`.
    level : float
        Confidence level of the table.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import aggregation_decomposition
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.uniform(0.1, 0.9, (2, 1000))
    >>> y = rng.random(1000) < a
    >>> found = aggregation_decomposition(y, {"a": a, "b": b}, loss="brier", random_state=0)
    >>> found.actions.names
    ('leave', 'recalibrate', 'stack', 'keep the vector')
    >>> bool(found.actions.gain("stack", over="recalibrate").low > 0)
    True
    """

    level: float
    _moments: Moments

    @property
    def terms(self) -> dict[str, float]:
        """Mean loss of each action."""
        last = len(self.names)
        return {name: self._moments.value(dict.fromkeys(range(i, last), 1.0)) for i, name in enumerate(self.names)}

    def _step(self, action: str, over: str) -> dict[int, float]:
        a, b = (self.names.index(parse_choice(name, self.names, "action")) for name in (action, over))
        sign = 1.0 if b < a else -1.0
        return dict.fromkeys(range(min(a, b), max(a, b)), sign)

    def gain(self, action: str, over: str = "leave", level: float | None = None) -> Interval:
        """
        Confidence interval of what one action gains over another.

        Parameters
        ----------
        action, over : str
            Names of actions.
        level : float, optional
            Confidence level; that of the table by default.

        Returns
        -------
        Interval
            Of the difference of their mean losses, over − action.
        """
        confidence = self.level if level is None else parse_confidence(level)
        step = self._step(action, over)
        value, margin = self._moments.value(step), quantile(confidence, two_sided=True) * self._moments.std_error(step)
        return Interval(value - margin, value + margin, confidence, "clt")

    def least(self, action: str, over: str, level: float) -> float:
        """
        Lower confidence bound of what one action gains over another.

        Parameters
        ----------
        action, over : str
            Names of actions.
        level : float
            Confidence level.

        Returns
        -------
        float
            One-sided bound.
        """
        step = self._step(action, over)
        return self._moments.value(step) - quantile(level, two_sided=False) * self._moments.std_error(step)

    def _columns(self) -> dict[str, list[Any]]:
        gains = [self.gain(name) for name in self.names]
        mean = [self._moments.value(self._step(name, "leave")) for name in self.names]
        return {
            "action": list(self.names),
            "what": [ACTIONS[name] for name in self.names],
            "loss": list(self.terms.values()),
            "gain": mean,
            "low": [gain.low for gain in gains],
            "high": [gain.high for gain in gains],
        }

    def _title(self) -> str:
        return f"What could be done, out of sample; gains over leaving it, {100 * self.level:g} % intervals"

    def to_dict(self) -> dict[str, Any]:
        """
        The table as plain Python objects.

        Returns
        -------
        dict
            Action → loss, gain, low, high.
        """
        columns = self._columns()
        found: dict[str, Any] = encode(
            {
                name: {key: columns[key][i] for key in ("loss", "gain", "low", "high")}
                for i, name in enumerate(self.names)
            }
        )
        return found


def actions_of(losses: dict[str, FloatArray], sheet: Sheet, level: float) -> Actions:
    """Judge actions by their losses."""
    moments = Moments.of(np.stack(list(losses.values())), np.empty((0, sheet.n)), sheet.weight, sheet.groups)
    return Actions(tuple(losses), sheet.backend, level, moments)
