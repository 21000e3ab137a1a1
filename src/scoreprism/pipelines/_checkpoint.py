"""Replicates on disk: one line each, with a hash, appended as they finish; never pickled, never overwritten.

The first line says what problem the file belongs to. A line that a crash left unfinished at the end is recognised by
its hash and dropped; everything else that does not fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from scoreprism._validation import refuse
from scoreprism.exceptions import InputError
from scoreprism.simplex import FloatArray

_MAGIC = "scoreprism pipeline bootstrap 1"
#: Seconds between two times that the disk itself is made to write; a killed process loses nothing in between.
_SYNC = 1.0


def _line(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {text}\n".encode()


def _content(line: bytes) -> dict[str, Any] | None:
    """What a line says, or None if it is not whole."""
    mark, _, text = line.partition(b" ")
    if not line.endswith(b"\n") or hashlib.sha256(text[:-1]).hexdigest()[:16].encode() != mark:
        return None
    found: dict[str, Any] = json.loads(text)
    return found


class Store:
    """
    Finished replicates, in memory.

    Parameters
    ----------
    seed : int or None
        Seed of the replicates; None draws one.

    Attributes
    ----------
    seed : int
        Seed of the replicates.
    done : dict of int to (array, int)
        Values of each replicate, and draws thrown away.
    """

    def __init__(self, seed: int | None) -> None:
        self.done: dict[int, tuple[FloatArray, int]] = {}
        self.seed = int(np.random.default_rng().integers(2**62)) if seed is None else seed

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Keep a replicate."""
        self.done[replicate] = (values, redrawn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


Identity = Mapping[str, str]
Scores = Callable[[int], str]


def opened(path: str | os.PathLike[str] | None, identity: Callable[[], Identity], scores: Scores, seed: Any) -> Store:
    """Where replicates are kept: in a file, or nowhere."""
    return Store(seed) if path is None else Checkpoint(path, identity(), scores, seed)


class Checkpoint(Store):
    """
    A file of finished replicates, locked while it is open.

    Parameters
    ----------
    path : path
        A file that does not exist yet, or one of the same problem.
    identity : mapping of str to str
        What the problem is, part by part.
    scores : callable
        From the seed to a hash of the scores of the original pipeline; asked last, because it takes a fit.
    seed : int or None
        Seed of the replicates; None takes that of the file, or a new one.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Identity, scores: Scores, seed: int | None) -> None:
        if not isinstance(path, (str, os.PathLike)):
            refuse("checkpoint must be the path of a file", type(path).__name__, "For example 'run.checkpoint'.")
        self.path = Path(path)
        rule = "checkpoint must be the path of a file in an existing folder"
        if not self.path.parent.is_dir():
            refuse(rule, f"{str(self.path)!r} in a folder that does not exist", "Make the folder first.")
        if self.path.exists() and not self.path.is_file():  # a device can be read for ever
            what = "a folder" if self.path.is_dir() else f"{str(self.path)!r}, which is no plain file"
            refuse(rule, what, "Add the name of a file, for example 'run.checkpoint'.")
        super().__init__(seed)
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            refuse(
                "a checkpoint must be readable and writable", f"{error.strerror} for {str(path)!r}", "Use another path."
            )
        try:
            self._lock()
            self.seed = self._read(dict(identity), scores, seed)
        except BaseException:
            self._file.close()
            raise
        self._synced = time.monotonic()

    def _lock(self) -> None:
        """One run at a time; the lock goes with the process, whatever ends it."""
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            rule = "a checkpoint must be used by one run at a time"
            refuse(rule, f"{str(self.path)!r}, in use by another process", "Wait for it, or use another path.")
        except OSError:  # a file system without locks
            return

    def _read(self, identity: dict[str, str], scores: Scores, seed: int | None) -> int:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        if not lines or (len(lines) == 1 and _begun(lines[0])):
            return self._begin(identity | {"scores": scores(self.seed)})
        header = _content(lines[0])
        if header is None or header.get("format") != _MAGIC:
            rule = "checkpoint must be a new file, or one that pipeline_bootstrap wrote"
            refuse(rule, f"{str(self.path)!r}, which is something else", "Use another path; it is left as it is.")
        self._compare(header, identity, scores, seed)
        contents = [_content(line) for line in lines[1:]]
        whole = next((i for i, content in enumerate(contents) if content is None), len(contents))
        if any(content is not None for content in contents[whole:]):
            rule = "a checkpoint must be whole up to its last line"
            refuse(rule, f"{str(self.path)!r}, damaged in line {whole + 2}", "Use another path; it is left as it is.")
        for content in contents[:whole]:
            assert content is not None  # noqa: S101 - the first that is None ends the slice
            values = np.array([float.fromhex(v) for v in content["values"]]).reshape(content["shape"])
            self.done[int(content["replicate"])] = (values, int(content["redrawn"]))
        self._file.truncate(sum(map(len, lines[: 1 + whole])))
        return int(header["seed"])

    def _begin(self, identity: dict[str, str]) -> int:
        self._file.truncate(0)
        self._file.write(_line({"format": _MAGIC, "identity": identity, "seed": self.seed}))
        try:
            self._sync()
        except InputError:
            with suppress(OSError):
                os.truncate(self.path, 0)  # half a first line would be taken for somebody else's file
            raise
        return self.seed

    def _compare(self, header: dict[str, Any], identity: dict[str, str], scores: Scores, seed: int | None) -> None:
        stored = dict(header["identity"])
        scored = stored.pop("scores", None)
        other = [key for key in {**identity, **stored} if identity.get(key) != stored.get(key)]
        if seed is not None and seed != header["seed"]:
            other.append("random_state")
        if not other and scored != scores(int(header["seed"])):
            other.append("scores of the classifier")
        if other:
            refuse(
                "a checkpoint must belong to this very problem",
                f"{str(self.path)!r} of another one: {', '.join(other)} differ",
                "Use another path; the file is left as it is.",
            )

    def add(self, replicate: int, values: FloatArray, redrawn: int) -> None:
        """Keep a replicate, and write it."""
        numbers = [float(v).hex() for v in values.ravel()]  # exact
        content = {"replicate": replicate, "redrawn": redrawn, "shape": list(values.shape), "values": numbers}
        with self._writing():
            self._file.write(_line(content))
            self._file.flush()
        super().add(replicate, values, redrawn)
        if time.monotonic() - self._synced > _SYNC:
            self._sync()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A full disk, or one that went away, in our words; a line that was cut off is recognised the next time."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self._file.close()  # what is still in the buffer has no place either
            refuse(
                "a checkpoint must be writable to the end",
                f"{error.strerror or error}, after {len(self.done)} replicates in {str(self.path)!r}",
                "Make room and run it again: it goes on from there.",
            )

    def _sync(self) -> None:
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            self._sync()
            self._file.close()


def _begun(line: bytes) -> bool:
    """Whether this is a first line that a crash cut off; without the format's name it may be anyone's."""
    _, _, text = line.partition(b" ")
    return not line.endswith(b"\n") and text.startswith(json.dumps({"format": _MAGIC}).encode()[:-1])
