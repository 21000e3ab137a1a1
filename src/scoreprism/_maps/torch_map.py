"""Fitted maps of several classes as functions of torch tensors: plain operations, where the tensor is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scoreprism._core.numerics import BELOW_ONE
from scoreprism._maps.softmax_map import SoftmaxMap, Tempered

if TYPE_CHECKING:
    from scoreprism._maps.parts import Map

#: From a tensor of scores to one of probabilities.
TorchMap = Callable[[Any], Any]


def make_torch_map(fitted: Map, k: int) -> TorchMap | None:
    """The map of a table of scores with K columns; None for maps that are no softmax of log-probabilities."""
    if isinstance(fitted, Tempered):
        return _make(fitted, k, lambda _torch, logs: fitted.sharpness * logs)
    if not isinstance(fitted, SoftmaxMap) or fitted.features == "squares":
        return None
    table = fitted.weights

    def combine(torch: Any, logs: Any) -> Any:
        weights = torch.as_tensor(table, dtype=logs.dtype, device=logs.device)
        z = logs - logs.mean(-1, keepdim=True) if fitted.features == "centered" else logs
        return z @ weights[:-1] + weights[-1]

    return _make(fitted, k, combine)


def _make(fitted: Tempered | SoftmaxMap, k: int, combine: Callable[[Any, Any], Any]) -> TorchMap:
    """A function of tensors: log-probabilities, combined, a softmax, and no probability below the floor of the map."""

    def calibrate(scores: Any) -> Any:
        import torch

        if scores.ndim != 2 or scores.shape[1] != k:
            raise ValueError(f"scores must have one column for each of {k} classes; got shape {tuple(scores.shape)}.")
        x = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        logs = torch.log_softmax(x, -1) if fitted.kind == "logit" else torch.log(x.clamp(min=fitted.low))
        law = torch.softmax(combine(torch, logs), -1)
        if not fitted.floor > 0.0:
            return law
        excess = law.clamp(min=fitted.floor) - fitted.floor
        raised = fitted.floor + excess * ((1.0 - k * fitted.floor) / excess.sum(-1, keepdim=True))
        return torch.where((law < fitted.floor).any(-1, keepdim=True), raised, law).clamp(max=BELOW_ONE)

    return calibrate
