"""scoreprism demo: the report of four models of German credit."""

from __future__ import annotations

import polars as pl
import pytest
from click.testing import CliRunner

import scoreprism
from scoreprism.cli import main


@pytest.mark.pages
def test_demo(tmp_path, monkeypatch):
    """The report of four models; numbers are those of the library on the same rows."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "scoreprism-demo.html").read_text(encoding="utf-8")
    for word in ("logistic", "forest", "average", "stacking", "recalibrat"):
        assert word in result.output
        assert word in page
    assert CliRunner().invoke(main, ["demo", "--save-data", "rows.csv", "--quiet"]).exit_code == 0
    rows = pl.read_csv("rows.csv")
    four = {name: rows[name] for name in ("logistic", "forest", "average", "stacking")}
    direct = scoreprism.compare(rows["default"], four, rows[:, 5:], random_state=0)["logistic"]
    assert f"{direct.risk:.4f}" in result.output
    assert f"{direct.terms['reliability']:.4f}" in page
    assert "grouping" in direct.muted
    assert f"{direct.terms['grouping']:.4f}" not in page
    assert "Hofmann" in page
    (tmp_path / "scoreprism-demo.html").write_text(page + "a word of my own", encoding="utf-8")
    again = CliRunner().invoke(main, ["demo"])  # its own page would be replaced: tests/cli/test_strangers.py
    assert again.exit_code == 2
    assert "--force" in again.output
