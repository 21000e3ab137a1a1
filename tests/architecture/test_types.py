"""A user's program runs as it is typed; mypy (lint) and pyright (a workflow) read it strictly."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.architecture import typed_user

ROOT = Path(__file__).parents[2]


def test_the_typed_program_runs(tmp_path, capsys, few_draws):
    typed_user.main(tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "must hold probabilities between 0 and 1" in capsys.readouterr().out  # what 10, 20, 120 are not


def test_mypy_reads_it_strictly():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["strict"] is True
    assert "tests/architecture/typed_user.py" in settings["files"]
