"""Atomic file writes: to a temporary file in the same folder, synced to disk, then renamed."""

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

#: Errors of file systems without hard links; EINVAL is that of exFAT under Windows.
_NO_LINKS = {
    errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES, errno.EXDEV, errno.EINVAL,
}  # fmt: skip
#: Bytes of the target's name kept in the temporary file's name; most file systems allow 255 in all.
_NAME = 180
#: Attempts to create a temporary file that another process may remove as stale before it is locked.
_TRIES = 1000


def require_writable(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Check that an output file can be written, before the work that fills it."""
    shown_path = repr(os.fspath(path))
    with _translate_errors(shown_path):
        target = Path(os.path.realpath(path))
        status = _read_status(target)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise InputError(
                "an output file must not be a folder", shown_path, "Add the name of a file, for example 'report.html'."
            )
        if status is not None and not stat.S_ISREG(status.st_mode):  # a rename would replace the device by a file
            raise InputError(
                "an output file must be a plain file", f"{shown_path}, which is a device or a pipe", "Use another path."
            )
        if status is not None and not overwrite:
            _refuse_existing(shown_path)
        if not target.parent.is_dir():
            raise InputError("an output file must be in an existing folder", shown_path, "Make the folder first.")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise InputError("the folder of an output file must be writable", shown_path, "Use another folder.")
        if status is not None and not os.access(target, os.W_OK):
            raise InputError(
                "an output file must be writable", f"{shown_path}, which is read-only", "Use another path."
            )
    return target


def write_text(path: str | os.PathLike[str], make: Callable[[], str], *, overwrite: bool = False) -> Path:
    """Write a text as UTF-8, atomically."""
    require_writable(path, overwrite=overwrite)
    # names from the command line may contain undecodable bytes: escape them
    content = make().encode("utf-8", errors="backslashreplace")
    return write_with(path, lambda temporary: temporary.write_bytes(content), overwrite=overwrite)


def write_with(path: str | os.PathLike[str], writer: Callable[[Path], object], *, overwrite: bool = False) -> Path:
    """Let a callable write a file, atomically."""
    target = require_writable(path, overwrite=overwrite)
    shown_path = repr(os.fspath(path))
    _remove_stale(target)
    temporary, descriptor = target.parent / f"{_make_prefix(target)}{secrets.token_hex(6)}.tmp", None
    try:
        with _translate_errors(shown_path):
            descriptor = _create(temporary, target)
            writer(temporary)
            _sync(temporary)
            _publish(temporary, target, shown_path, overwrite)
    except BaseException:  # Ctrl-C and SIGTERM too: no temporary is left behind
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
    with suppress(OSError):  # make the rename durable; some systems cannot open folders
        _sync(target.parent, os.O_RDONLY)
    return Path(path)


def _read_status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _refuse_existing(shown_path: str) -> NoReturn:
    raise InputError(
        "an output file must not exist yet", f"{shown_path}, which does", "Pass `overwrite`=True to replace it."
    )


@contextmanager
def _translate_errors(shown_path: str) -> Iterator[None]:
    """Turn system errors (full disk, invalid path, missing folder) into an InputError with a remedy."""
    try:
        yield
    except OSError as error:
        cause = find_system_error(error) or error
        raise InputError(
            "an output file must be writable", f"{cause.strerror or cause} for {shown_path}", _choose_remedy(cause)
        ) from error
    except ValueError as error:
        if isinstance(error, InputError) or "null" not in str(error):
            raise
        raise InputError(
            "the path of an output file must not hold a NUL character", shown_path, "Use another path."
        ) from None


def find_system_error(error: BaseException) -> OSError | None:
    """Find the OSError behind an error; Rust libraries keep its number only in their message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    match = re.search(r"\(os error (\d+)\)", str(error))
    if match is None:
        return None
    code = int(match[1])
    return OSError(0, str(error), None, code) if os.name == "nt" else OSError(code, os.strerror(code))


def _choose_remedy(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "Make room or use another path; what was there before is left as it was."
    if error.errno == errno.EACCES and os.name == "nt":  # which replaces no file that a program has open
        return "Close the program that has it open, or use another path."
    return "Use another path."


def _make_prefix(target: Path) -> str:
    """Prefix of the temporary files of a target; with the host, because network locks may not reach other hosts."""
    name = os.fsencode(target.name)[:_NAME].decode("utf-8", errors="ignore")
    host = hashlib.sha256(platform.node().encode("utf-8", errors="replace")).hexdigest()[:8]
    return f".{name}.scoreprism-{host}-"


def _create(temporary: Path, target: Path) -> int | None:
    """
    Create and lock a temporary file, with the permissions of the file it replaces, else those of the umask.

    It is in the target's folder, so that the rename stays within one file system. The returned descriptor holds its
    lock: an unlocked temporary file was left by a killed process. None where the system has no locks.
    """
    for _ in range(_TRIES):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:  # about to be removed, see below
            time.sleep(0.001)
            continue
        is_locked = lock_file(descriptor)
        if is_locked is False or not os.fstat(descriptor).st_nlink:  # removed as stale before it was locked
            os.close(descriptor)
            continue
        old = _read_status(target)
        if old is not None and hasattr(os, "fchmod"):
            with suppress(OSError):  # a file system without rights
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode) | stat.S_IWUSR)
        if is_locked:
            return descriptor
        os.close(descriptor)  # Windows does not rename open files
        return None
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(temporary))


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False if another process holds the lock, None where there are no locks."""
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
    """Remove temporary files of this target whose process is gone, with a warning."""
    pattern = re.compile(re.escape(_make_prefix(target)) + r"[0-9a-f]{12}\.tmp")
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
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or lock_file(descriptor) is not True:
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


def _publish(temporary: Path, target: Path, shown_path: str, overwrite: bool) -> None:
    """Move the file to its target; without `overwrite`, only if the target still does not exist."""
    if overwrite:
        temporary.replace(target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        _refuse_existing(shown_path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _claim(target, shown_path)
        temporary.replace(target)
    else:
        temporary.unlink()


def _claim(target: Path, shown_path: str) -> None:
    """Create the target as an empty file, or refuse if it exists: used where there are no hard links."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        _refuse_existing(shown_path)
