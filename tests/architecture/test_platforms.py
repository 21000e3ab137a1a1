"""What Windows and macOS lack or do otherwise, simulated here: modules, functions of `os`, errors, letters of a console."""

from __future__ import annotations

import ast
import errno
import functools
import io
import os
import sys
import types
from pathlib import Path

import click
import numpy as np
import polars as pl
import pytest

import scoreprism
from scoreprism.cli import COMMANDS, main
from scoreprism.pipelines import pipeline_bootstrap

SOURCE = Path(scoreprism.__file__).parent
#: Modules that Python has on Unix only (its documentation, "Unix-specific services").
UNIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
#: Functions and constants of `os` that Windows does not have, of those that are used anywhere.
UNIX_FUNCTIONS = ("fchmod", "sched_getaffinity", "sysconf", "geteuid", "O_NOFOLLOW")
ONE = ("--target", "y", "--score", "s")


def windows() -> types.SimpleNamespace:
    """The module `os`, under another name of the system: a change of the real one would reach pathlib."""
    return types.SimpleNamespace(**{**vars(os), "name": "nt"})


@functools.cache
def texts():
    """Every file of the library."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def files_that_name(*words):
    """Files of the library in which one of the words occurs, parsed; to parse all takes seconds."""
    return {file: ast.parse(text) for file, text in texts().items() if any(word in text for word in words)}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A small file of scores, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    s = rng.uniform(0.05, 0.95, 200)
    pl.DataFrame({"y": (rng.random(200) < s**2).astype(int), "s": s}).write_csv("scores.csv")
    return "scores.csv"


@pytest.fixture
def without_unix(monkeypatch):
    """No module and no function that only Unix has."""
    for module in UNIX_MODULES:
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    for name in UNIX_FUNCTIONS:
        monkeypatch.delattr(os, name, raising=False)


def call(*arguments: str) -> int:
    """Run a command in this process; its exit code."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def test_modules_of_unix_are_imported_where_they_are_used():
    """Expected: none at the top of a file, where Windows would fail to import it."""
    found = []
    for file, tree in files_that_name(*UNIX_MODULES).items():
        for node in tree.body:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
            found += [(file, name) for name in names if name in UNIX_MODULES]
    assert found == []


def test_text_files_are_opened_with_an_encoding():
    """Expected: no call that would read or write text in the encoding of the system, which is cp1252 on Windows."""
    found = []
    for file, tree in files_that_name("open", "read_text").items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            given = {one.arg for one in node.keywords}
            mode = next((one.value for one in node.args if isinstance(one, ast.Constant)), "r")
            opens = node.func.attr == "open" and ast.unparse(node.func.value).startswith(("Path(", "path", "self.path"))
            reads = node.func.attr == "read_text" or (opens and "b" not in str(mode))
            if reads and "encoding" not in given:
                found.append(f"{file}:{node.lineno}")
    assert found == []


def test_commands_run_without_what_only_unix_has(data, without_unix, capsys):
    assert call("recalibrate", data, *ONE, "--method", "platt", "--save", "map.json") == 0
    assert call("apply", "map.json", data, "--score", "s", "-o", "out.csv") == 0
    assert call("test", data, *ONE, "--method", "spiegelhalter") == 0
    assert pl.read_csv("out.csv").height == 200
    assert sorted(path.name for path in Path().iterdir()) == ["map.json", "out.csv", data]
    assert call("apply", "map.json", data, "--score", "s", "-o", "out.csv") == 2  # nothing is overwritten there, either
    assert "must not exist yet" in capsys.readouterr().err


def test_a_checkpoint_goes_on_without_locks(tmp_path, without_unix):
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    parts = [(X[i::3], y[i::3]) for i in range(3)]

    def run(n_resamples, path=None):
        options = {"calibrator": "platt", "n_resamples": n_resamples, "random_state": 0, "n_jobs": 1}
        return pipeline_bootstrap(GaussianNB(), *parts, checkpoint=path, **options).replicates

    path = tmp_path / "run"
    first = run(3, path)
    assert np.array_equal(run(6, path), run(6))
    assert np.array_equal(run(6, path)[:3], first)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EPERM, errno.EACCES])
def test_a_new_file_needs_no_hard_links(code, data, monkeypatch):
    """EINVAL is what Windows answers on exFAT (its error 1, ERROR_INVALID_FUNCTION), EPERM what Linux does there."""

    def link(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)
    assert call("recalibrate", data, *ONE, "--method", "platt", "--save", "map.json") == 0
    assert sorted(path.name for path in Path().iterdir()) == ["map.json", data]
    assert call("recalibrate", data, *ONE, "--method", "platt", "--save", "map.json") == 2


@pytest.mark.parametrize(
    ("system", "remedy"),
    [(windows(), "Close the program that has it open, or use another path."), (os, "Use another path.")],
    ids=["windows", "unix"],
)
def test_a_file_that_another_program_has_open_is_told(system, remedy, data, monkeypatch, capsys):
    """Windows answers EACCES where a file to be replaced is open, for instance a table in Excel."""

    def replace(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    Path("map.json").write_text("old")
    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr("scoreprism._core.atomic_files.os", system)
    assert call("recalibrate", data, *ONE, "--method", "platt", "--save", "map.json", "--force") == 2
    expected = f"error: an output file must be writable; got Permission denied for 'map.json'. {remedy}\n"
    assert capsys.readouterr().err.endswith(expected)
    assert Path("map.json").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["map.json", data]


class Broken(io.TextIOWrapper):
    """A pipe whose reader is gone, as Windows tells it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="cp1252")

    def write(self, _: str) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize(("system", "code"), [(windows(), 141), (os, 2)], ids=["windows", "unix"])
def test_a_closed_pipe_ends_quietly_on_windows(system, code, monkeypatch, capsys):
    monkeypatch.setattr("scoreprism.cli._process.os", system)
    monkeypatch.setattr(sys, "stdout", Broken())
    assert call("losses") == code
    assert capsys.readouterr().err == ("" if code == 141 else "error: Invalid argument\n")


def test_globs_are_ours_on_windows(monkeypatch):
    """There click replaces every word by the files it matches: `--models p_*` names columns."""
    seen = {}
    monkeypatch.setattr(click.Group, "main", lambda self, *_, **options: seen.update(options))
    main(["losses"], standalone_mode=False)
    assert seen["windows_expand_args"] is False


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii"])
def test_consoles_without_our_letters_get_question_marks(encoding, data, monkeypatch):
    """Pages of Windows lack arrows, minus signs and lines: nothing may fail, and numbers stay."""
    printed, errors = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding, errors="strict"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(errors, encoding=encoding, errors="strict"))
    for command in COMMANDS:
        assert call(command, "--help") == 0
    assert call("diagnose", data, *ONE) == 0
    assert call("diagnose", data, "--target", "ŷ", "--score", "s") == 2
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    assert b"reliability" in printed.getvalue()
    assert b"error: " in errors.getvalue()
