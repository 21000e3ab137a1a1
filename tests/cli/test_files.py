"""Files appear whole or not at all: full disks, signals, races and odd paths, tried for real in other processes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from scoreprism._core.atomic_files import require_writable, write_text, write_with
from scoreprism.exceptions import InputError

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and rights of Unix")


def only(folder: Path) -> list[str]:
    """All names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def run(program: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def test_a_new_file_is_written_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    assert write_text(target, lambda: "é\n") == target
    assert target.read_bytes() == "é\n".encode()
    assert only(tmp_path) == ["a.txt"]


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    called = []
    with pytest.raises(InputError) as error:
        write_text(target, lambda: called.append(1) or "new")
    assert str(error.value) == (
        f"an output file must not exist yet; got {str(target)!r}, which does. Pass overwrite=True to replace it."
    )
    assert not called  # no work was done for a file that cannot be written
    assert target.read_text() == "old"
    write_text(target, lambda: "new", overwrite=True)
    assert target.read_text() == "new"
    assert only(tmp_path) == ["a.txt"]


@UNIX
def test_rights_follow_the_old_file_or_the_umask(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        write_text(old, lambda: "x", overwrite=True)
        write_text(new, lambda: "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o640  # 666 without 027


@UNIX
def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(InputError, match="must not exist yet"):
        write_text(link, lambda: "new")
    write_text(link, lambda: "new", overwrite=True)
    assert link.is_symlink()
    assert target.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "far" / "b")
    write_text(dangling, lambda: "made")
    assert (tmp_path / "far" / "b").read_text() == "made"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError])
def test_whatever_stops_the_writer_leaves_the_old_file_and_no_temporary(tmp_path, failure):
    target = tmp_path / "a"
    target.write_text("old")

    def writer(temporary: Path) -> None:
        temporary.write_text("half")
        assert only(tmp_path) == [temporary.name, "a"]
        assert temporary.name.startswith(".a.")
        raise failure

    with pytest.raises(failure):
        write_with(target, writer, overwrite=True)
    with pytest.raises(failure):
        write_text(target, lambda: (_ for _ in ()).throw(failure()), overwrite=True)
    assert target.read_text() == "old"
    assert only(tmp_path) == ["a"]


def test_missing_folder_folder_and_device(tmp_path):
    with pytest.raises(InputError, match="must be in an existing folder; got .*Make the folder first"):
        require_writable(tmp_path / "no" / "a")
    with pytest.raises(InputError, match="must not be a folder"):
        require_writable(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="must not be a folder"):
        require_writable("")
    with pytest.raises(InputError, match="NUL character"):
        require_writable("a\0b")
    with pytest.raises(InputError, match="File name too long"):
        require_writable(tmp_path / ("x" * 300))


@UNIX
@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device_is_never_replaced_by_a_file(device):
    if not Path(device).exists():
        pytest.skip("no such device here")
    with pytest.raises(InputError, match="must be a plain file; got .*a device or a pipe"):
        write_text(device, lambda: "x", overwrite=True)
    assert stat.S_ISCHR(Path(device).stat().st_mode)


def test_a_long_name_leaves_room_for_that_of_the_temporary(tmp_path):
    name = "é" * 120  # 240 bytes of 255
    write_text(tmp_path / name, lambda: "x")
    assert only(tmp_path) == [name]


@UNIX
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_rights(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(InputError, match="folder of an output file must be writable"):
        write_text(folder / "a", lambda: "x")


@UNIX
def test_a_folder_without_rights_for_another_user():
    """As root, the same in a process that has given its rights up."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    program = """
        import os, sys
        from scoreprism._core.atomic_files import write_text
        from scoreprism.exceptions import InputError
        os.setgid(65534); os.setuid(65534)
        try:
            write_text(sys.argv[1], lambda: "x")
        except InputError as error:
            print(error)
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        done = run(program, folder / "a")
        assert "the folder of an output file must be writable" in done.stdout, done
        assert only(folder) == []


#: A limit on the size of files ends writing as a full disk does, and needs no mount.
FULL = """
    import resource, signal, sys
    from pathlib import Path
    from scoreprism._core.atomic_files import write_text, write_with
    from scoreprism.exceptions import InputError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        write_text(Path(sys.argv[1]), lambda: "x" * 5000, overwrite=True)
    except InputError as error:
        print(error)
"""


@UNIX
def test_a_disk_that_is_full_leaves_the_old_file_whole(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    done = run(FULL, target)
    assert "an output file must be writable; got File too large" in done.stdout, done
    assert "Make room or use another path; what was there before is left as it was." in done.stdout
    assert target.read_text() == "old"
    assert only(tmp_path) == ["a"]


def _mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@UNIX
def test_a_small_file_system_that_is_full(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if not _mounted(folder):
        pytest.skip("mounting is not allowed here")
    try:
        target = folder / "a"
        target.write_text("old")
        with pytest.raises(InputError, match="No space left on device .*Make room"):
            write_text(target, lambda: "x" * 200_000, overwrite=True)
        assert target.read_text() == "old"
        assert only(folder) == ["a"]
    finally:
        subprocess.run([shutil.which("umount") or "umount", str(folder)], check=True)


#: Writes for ever; SIGTERM becomes an exception, as in the command line.
SLOW = """
    import signal, sys, time
    from pathlib import Path
    from scoreprism._core.atomic_files import write_with

    def stop(*_):
        raise SystemExit(143)

    def writer(temporary):
        with temporary.open("w") as file:
            while True:
                file.write("half"); file.flush(); time.sleep(0.01)

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    write_with(Path(sys.argv[1]), writer, overwrite=True)
"""


@UNIX
@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_signals_leave_the_old_file_whole(tmp_path, sent):
    target = tmp_path / "a"
    target.write_text("old")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW), str(target)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        until = time.monotonic() + 20
        while len(only(tmp_path)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(only(tmp_path)) == 2  # the temporary is there
        child.send_signal(signal.Signals[sent])
        child.wait(timeout=20)
    assert target.read_text() == "old"
    if sent != "SIGKILL":
        assert only(tmp_path) == ["a"]


RACE = """
    import sys, time
    from pathlib import Path
    from scoreprism._core.atomic_files import write_with
    from scoreprism.exceptions import InputError

    def writer(temporary):
        temporary.write_text(sys.argv[2])
        (Path(sys.argv[1]).parent / ("ready" + sys.argv[2])).touch()
        while len(list(Path(sys.argv[1]).parent.glob("ready*"))) < 2:
            time.sleep(0.001)

    try:
        write_with(Path(sys.argv[1]), writer)
        print("written")
    except InputError as error:
        print(error)
"""


@pytest.mark.parametrize("links", [True, False])
def test_two_processes_do_not_overwrite_each_other(tmp_path, links):
    program = textwrap.dedent(RACE)
    if not links:  # a file system without hard links
        broken = "import os, errno\ndef link(*_):\n    raise OSError(errno.EPERM, 'no links')\nos.link = link\n"
        program = broken + program
    target = tmp_path / "a"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(target), who], stdout=subprocess.PIPE, text=True)
        for who in ("one", "two")
    ]
    told = [child.communicate(timeout=30)[0].strip() for child in children]
    assert sorted(text == "written" for text in told) == [False, True], told
    assert any("must not exist yet" in text for text in told)
    assert target.read_text() == ("one" if told[0] == "written" else "two")
    assert only(tmp_path) == ["a", "readyone", "readytwo"]


def test_bytes_that_are_no_text_are_escaped(tmp_path):
    """A title from a command line may hold them: U+DCFF is how Python reads the byte 255."""
    write_text(tmp_path / "a", lambda: "x\udcff")
    assert (tmp_path / "a").read_bytes() == b"x\\udcff"
