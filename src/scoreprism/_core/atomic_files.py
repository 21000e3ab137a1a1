"""Files that appear whole or not at all: written beside their place, synced to disk, then put there in one step."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from scoreprism.exceptions import InputError, LeftoverFileWarning

#: Errors of file systems that know no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES, errno.EXDEV}
#: Bytes of the target's name in that of the temporary file; names end at 255.
_NAME = 180
#: How often a temporary file is made anew that another process takes for a stale one.
_TRIES = 1000


def require_writable(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """See before an hour's work that a file can be written."""
    given = repr(os.fspath(path))
    with _in_our_words(given):
        target = Path(os.path.realpath(path))
        status = _status(target)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise InputError(
                "an output file must not be a folder", given, "Add the name of a file, for example 'report.html'."
            )
        if status is not None and not stat.S_ISREG(status.st_mode):  # a rename would put a file in a device's place
            raise InputError(
                "an output file must be a plain file", f"{given}, which is a device or a pipe", "Use another path."
            )
        if status is not None and not overwrite:
            _refuse_existing(given)
        if not target.parent.is_dir():
            raise InputError("an output file must be in an existing folder", given, "Make the folder first.")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise InputError("the folder of an output file must be writable", given, "Use another folder.")
        if status is not None and not os.access(target, os.W_OK):
            raise InputError("an output file must be writable", f"{given}, which is read-only", "Use another path.")
    return target


def write_text(path: str | os.PathLike[str], make: Callable[[], str], *, overwrite: bool = False) -> Path:
    """Write a text as UTF-8, whole or not at all."""
    require_writable(path, overwrite=overwrite)
    # a name from the command line may hold bytes that are no text: shown escaped, never a crash
    content = make().encode("utf-8", errors="backslashreplace")
    return write_with(path, lambda temporary: temporary.write_bytes(content), overwrite=overwrite)


def write_with(path: str | os.PathLike[str], writer: Callable[[Path], object], *, overwrite: bool = False) -> Path:
    """Let something write a file, whole or not at all."""
    target = require_writable(path, overwrite=overwrite)
    given = repr(os.fspath(path))
    _remove_stale(target)
    temporary, held = target.parent / f"{_stem(target)}{secrets.token_hex(6)}.tmp", None
    try:
        with _in_our_words(given):
            held = _create(temporary, target)
            writer(temporary)
            _sync(temporary)
            _publish(temporary, target, given, overwrite)
    except BaseException:  # Ctrl-C and SIGTERM too: no temporary is left behind
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        if held is not None:
            os.close(held)
    with suppress(OSError):  # make the rename itself last; some systems cannot open folders
        _sync(target.parent, os.O_RDONLY)
    return Path(path)


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _refuse_existing(given: str) -> NoReturn:
    raise InputError(
        "an output file must not exist yet", f"{given}, which does", "Pass `overwrite`=True to replace it."
    )


@contextmanager
def _in_our_words(given: str) -> Iterator[None]:
    """A full disk, a path that no system takes, a folder that went away: one line with a remedy."""
    try:
        yield
    except OSError as error:
        known = system_error(error) or error
        raise InputError(
            "an output file must be writable", f"{known.strerror or known} for {given}", _remedy(known)
        ) from error
    except ValueError as error:
        if isinstance(error, InputError) or "null" not in str(error):
            raise
        raise InputError(
            "the path of an output file must not hold a NUL character", given, "Use another path."
        ) from None


def system_error(error: BaseException) -> OSError | None:
    """What the system said to a library in Rust, which keeps the number of the error only in its words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    match = re.search(r"\(os error (\d+)\)", str(error))
    if match is None:
        return None
    code = int(match[1])
    return OSError(0, str(error), None, code) if os.name == "nt" else OSError(code, os.strerror(code))


def _remedy(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "Make room or use another path; what was there before is left as it was."
    return "Use another path."


def _stem(target: Path) -> str:
    """How names of temporary files of a target begin; the host, because a network may not carry locks between hosts."""
    name = os.fsencode(target.name)[:_NAME].decode("utf-8", errors="ignore")
    host = hashlib.sha256(platform.node().encode("utf-8", errors="replace")).hexdigest()[:8]
    return f".{name}.scoreprism-{host}-"


def _create(temporary: Path, target: Path) -> int | None:
    """
    Our own new file, with the rights of the one that it replaces, else those that the user's umask gives.

    It is in the folder of the target, for a rename within one file system, and locked through the descriptor that is
    returned: one that nobody holds was left by a process that was killed. None where there are no locks.
    """
    for _ in range(_TRIES):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:  # about to be removed, see below
            time.sleep(0.001)
            continue
        locked = _lock(descriptor)
        if locked is False or not os.fstat(descriptor).st_nlink:  # taken for a stale one before it was locked
            os.close(descriptor)
            continue
        old = _status(target)
        if old is not None and hasattr(os, "fchmod"):
            with suppress(OSError):  # a file system without rights
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode) | stat.S_IWUSR)
        if locked:
            return descriptor
        os.close(descriptor)  # Windows does not rename what is open
        return None
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(temporary))


def _lock(descriptor: int) -> bool | None:
    """Lock a file; False if another process holds it, None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _remove_stale(target: Path) -> None:
    """Remove temporary files of this target whose process is gone, and say so; never one that is in use."""
    pattern = re.compile(re.escape(_stem(target)) + r"[0-9a-f]{12}\.tmp")
    with suppress(OSError):
        for path in [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]:
            if _remove(path):
                text = f"{path.name!r}, which a run that was killed had left beside its output, is removed"
                warnings.warn(text, LeftoverFileWarning, stacklevel=4)


def _remove(temporary: Path) -> bool:
    """Remove a temporary file unless somebody holds its lock."""
    try:
        descriptor = os.open(temporary, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:  # gone meanwhile, or not ours
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or _lock(descriptor) is not True:
            return False
        temporary.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _sync(path: Path, flags: int = os.O_RDWR) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(temporary: Path, target: Path, given: str, overwrite: bool) -> None:
    """Put the file in its place; without `overwrite`, only if no one else was faster."""
    if overwrite:
        temporary.replace(target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        _refuse_existing(given)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _claim(target, given)
        temporary.replace(target)
    else:
        temporary.unlink()


def _claim(target: Path, given: str) -> None:
    """Take an empty place where there are no hard links."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        _refuse_existing(given)
