"""Replicates on disk: a journal of them that belongs to one very problem."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.journal import Journal
from scoreprism._core.simplex import FloatArray

_MAGIC = "scoreprism pipeline bootstrap 1"
_FIELDS = {"redrawn", "replicate", "shape", "values"}


class Store:
    """Finished replicates, in memory."""

    def __init__(self, seed: int | None) -> None:
        self.done: dict[int, tuple[FloatArray, int]] = {}
        self.seed = int(np.random.default_rng().integers(2**62)) if seed is None else seed

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Keep a replicate."""
        self.done[replicate] = (values, redrawn)

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Replicates that were kept must have this shape."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def _exact(word: object) -> bool:
    """Whether this is a number as `float.hex` writes it; mean losses may be infinite, but are numbers."""
    try:
        number = float.fromhex(word) if isinstance(word, str) else math.nan
    except (ValueError, OverflowError):
        return False
    return not math.isnan(number) and number.hex() == word


Identity = Mapping[str, str]
Scores = Callable[[int], str]


def opened(path: str | os.PathLike[str] | None, identity: Callable[[], Identity], scores: Scores, seed: Any) -> Store:
    """Where replicates are kept: in a file, or nowhere."""
    return Store(seed) if path is None else Checkpoint(path, identity(), scores, seed)


class Checkpoint(Store):
    """A file of finished replicates, locked while it is open."""

    def __init__(self, path: str | os.PathLike[str], identity: Identity, scores: Scores, seed: int | None) -> None:
        super().__init__(seed)
        self._journal = Journal(path, _MAGIC, "checkpoint", "pipeline_bootstrap", "replicates")
        try:
            self._open(dict(identity), scores, seed)
        except BaseException:
            self._journal.close()
            raise

    def _open(self, identity: dict[str, str], scores: Scores, seed: int | None) -> None:
        header = self._journal.header
        if header is None:
            self._journal.begin({"identity": identity | {"scores": scores(self.seed)}, "seed": self.seed})
            return
        self._compare(header, identity, scores, seed)
        self._journal.resume()
        self.seed = header["seed"]
        for line, content in enumerate(self._journal.entries, start=2):
            number, values, redrawn = self._read(content, line)
            if number in self.done:
                self._journal.refuse_line(line, f"replicate {number}, a second time,")
            super().add(number, values, redrawn)

    def _read(self, content: dict[str, Any], line: int) -> tuple[int, FloatArray, int]:
        """A replicate; its line may come from anybody who can compute a hash."""
        counts = content.get("replicate"), content.get("redrawn")
        if set(content) != _FIELDS or not all(type(count) is int and count >= 0 for count in counts):
            self._journal.refuse_line(line, "no numbered replicate")
        shape, words = content["shape"], content["values"]
        if not isinstance(shape, list) or not all(type(length) is int and length > 0 for length in shape):
            self._journal.refuse_line(line, "no shape")
        if not isinstance(words, list) or math.prod(shape) != len(words) or not all(map(_exact, words)):
            self._journal.refuse_line(line, f"no {math.prod(shape)} numbers")
        return (
            content["replicate"],
            np.array([float.fromhex(word) for word in words]).reshape(shape),
            content["redrawn"],
        )

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Replicates that were kept must have this shape."""
        for line, (values, _) in enumerate(self.done.values(), start=2):
            if values.shape != shape:
                self._journal.refuse_line(line, f"values of shape {values.shape} instead of {shape}")

    def _compare(self, header: dict[str, Any], identity: dict[str, str], scores: Scores, seed: int | None) -> None:
        if not isinstance(header.get("identity"), dict) or type(header.get("seed")) is not int or header["seed"] < 0:
            self._journal.refuse_line(1, "no problem and seed")
        stored = dict(header["identity"])
        scored = stored.pop("scores", None)
        other = [key for key in {**identity, **stored} if identity.get(key) != stored.get(key)]
        if seed is not None and seed != header["seed"]:
            other.append("random_state")
        if not other and scored != scores(header["seed"]):
            other.append("scores of the classifier")
        if other:
            refuse(
                "a checkpoint must belong to this very problem",
                f"{str(self._journal.path)!r} of another one: {', '.join(other)} differ",
                "Use another path; the file is left as it is.",
            )

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Keep a replicate, and write it, unless it holds what is not a number: no line with one is believed."""
        if not np.isnan(values).any():
            numbers = [float(v).hex() for v in values.ravel()]  # exact
            content = {"redrawn": redrawn, "replicate": replicate, "shape": list(values.shape), "values": numbers}
            self._journal.append(content)
        super().add(replicate, values, redrawn)

    def __exit__(self, *_: object) -> None:
        self._journal.close()
