"""Proper losses: ℓ(p, y), risk L(p, q), entropy ℰ(q) and divergence d(p, q) of each row (paper, section 1.1)."""

from __future__ import annotations

from dataclasses import fields

from scoreprism._core.checks import parse_choice, refuse
from scoreprism.losses._beta import BetaLoss
from scoreprism.losses._custom import OpaqueLoss, check_proper, from_entropy, from_loss
from scoreprism.losses._families import Brier, LogLoss, PseudoSpherical, RankedProbability, Spherical, Tsallis
from scoreprism.losses._proper_loss import ProperLoss
from scoreprism.losses._threshold import CostWeighted, Elementary

__all__ = [
    "LOSSES",
    "BetaLoss",
    "Brier",
    "CostWeighted",
    "Elementary",
    "LogLoss",
    "OpaqueLoss",
    "ProperLoss",
    "PseudoSpherical",
    "RankedProbability",
    "Spherical",
    "Tsallis",
    "check_proper",
    "from_entropy",
    "from_loss",
    "get_loss",
]

#: Every loss with a name: the one table that code, command line, documentation and tests iterate over.
LOSSES: dict[str, type[ProperLoss]] = {
    cls.name: cls
    for cls in (
        Brier,
        LogLoss,
        Spherical,
        PseudoSpherical,
        Tsallis,
        BetaLoss,
        Elementary,
        CostWeighted,
        RankedProbability,
    )
}


def get_loss(loss: str | ProperLoss, **parameters: float) -> ProperLoss:
    """
    A loss by name.

    Parameters
    ----------
    loss : str or ProperLoss
        A name in `LOSSES`; a loss is returned as it is.
    **parameters : float
        Parameters of the loss, such as ``alpha``.

    Returns
    -------
    ProperLoss
        The loss.

    Examples
    --------
    >>> get_loss("log")
    LogLoss()
    >>> get_loss("tsallis", alpha=1.5)
    Tsallis(alpha=1.5)
    """
    if isinstance(loss, ProperLoss):
        if parameters:
            refuse(
                "parameters must go with the name of a loss",
                f"{loss!r} and {parameters}",
                "Set them when making the loss.",
            )
        return loss
    if callable(loss) and not isinstance(loss, type):
        got = getattr(loss, "__name__", type(loss).__name__)
        refuse("loss must be a loss or its name", f"the function {got}", "Make a loss of it with `from_loss`.")
    cls = LOSSES[parse_choice(loss, LOSSES, "loss")]
    try:
        return cls(**parameters)
    except TypeError:
        known = ", ".join(field.name for field in fields(cls)) or "none"  # type: ignore[arg-type]
        refuse(f"the {cls.name} loss takes the parameters: {known}", ", ".join(parameters), "Correct their names.")
