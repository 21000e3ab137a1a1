"""The full run of reproduce: what it must show, our earlier numbers, and the page of documentation made from them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from reproduction import PLANS, STATEMENTS, reproduce
from reproduction.keep import fill
from reproduction.statements import METHODS
from reproduction.work import versions

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "tests" / "data" / "reproduction.json").read_text())
#: Issue 8: the tolerances of tab:robustness that its sizes lead to; the forest's recalibrated log loss has none.
TOLERANCES = {
    ("log", "raw"): (0.014, 0.032, 0.012, 0.017),
    ("log", "recalibrated"): (0.043, 0.051, None, 0.043),
    ("log", "reliability_plugin"): (0.006, 0.010, 0.007, 0.004),
    ("brier", "raw"): (0.006, 0.007, 0.006, 0.007),
    ("brier", "recalibrated"): (0.006, 0.007, 0.007, 0.007),
    ("brier", "reliability_plugin"): (0.002, 0.0025, 0.003, 0.0013),
}


@pytest.fixture(scope="module", params=["stored", pytest.param("again", marks=pytest.mark.slow)])
def full(request):
    """Our stored run, and (slow) a new one."""
    return STORED if request.param == "stored" else reproduce(n_jobs=2).to_dict()


def checks(full):
    return {check["key"]: check for check in full["checks"]}


def test_everything_of_the_paper_is_checked(full):
    assert full["plan"]["name"] == "full"
    assert (full["plan"]["splits"], full["plan"]["trees"]) == (100, 500)
    assert list(STATEMENTS) == [check["key"] for check in full["checks"]]


@pytest.mark.parametrize(("loss", "column"), list(TOLERANCES))
def test_means_over_splits(full, loss, column):
    for method, tolerance in zip(METHODS, TOLERANCES[loss, column], strict=True):
        found = checks(full)[f"robustness/{loss}/{column}/{method}"]
        if tolerance is None:
            assert found["verdict"] == "not reproduced"
            assert found["ours"] == pytest.approx(0.59, abs=0.01)  # issue 8: ≈ .59 in every configuration tried
        else:
            assert abs(found["ours"] - found["paper"]) <= tolerance, method
            assert found["verdict"] != "not reproduced"


def test_paired_comparisons(full):
    found = checks(full)
    stacking = {part: found[f"tests/reliability_plugin/stacking/{part}"]["ours"] for part in ("mean", "wins", "p")}
    assert stacking["mean"] < 0
    assert stacking["wins"] >= 0.55
    assert stacking["p"] < 0.01
    assert found["tests/reliability_plugin/forest/mean"]["ours"] > 0
    assert min(found[f"tests/recalibrated/{method}/p"]["ours"] for method in METHODS[1:]) > 0.05
    assert full["numbers"]["beyond/halves/stacking"] > 0  # on independent halves the sign flips


def test_population(full):
    at: dict[float, dict[str, float]] = {}
    for key, value in full["numbers"].items():
        if key.startswith("population/"):
            _, rho, what = key.split("/", 2)
            at.setdefault(float(rho), {})[what] = value
    assert len(at) == 19
    assert -0.3 <= max(at, key=lambda rho: at[rho]["lcs/average"]) <= 0.1
    above = {rho for rho in at if at[rho]["lcs/average"] > max(at[rho]["lcs/x1"], at[rho]["lcs/x2"])}
    assert above == {rho for rho in at if rho >= -0.7}
    assert all(at[rho]["grouping/x12"] < at[rho]["grouping/x1"] for rho in at)
    assert max(at[rho][f"most/{score}"] for rho in at for score in ("x1", "x12")) < 0.001  # the worst run


@pytest.mark.slow
@pytest.mark.parametrize("full", ["again"], indirect=True)
def test_a_new_run_is_our_stored_one(full):
    assert {key: check["verdict"] for key, check in checks(full).items()} == {
        key: check["verdict"] for key, check in checks(STORED).items()
    }
    if {name: versions()[name] for name in ("numpy", "scipy", "scikit-learn")}.items() <= STORED["versions"].items():
        assert full["numbers"] == pytest.approx(STORED["numbers"], rel=1e-6, abs=1e-9)


def test_the_stored_run_has_the_full_plan():
    assert STORED["plan"] == asdict(PLANS["full"])


def test_the_page_of_documentation_has_these_numbers():
    text = (ROOT / "docs" / "reproduce.md").read_text()
    assert fill(text, STORED) == text
    missed = sum(check["verdict"] == "not reproduced" for check in STORED["checks"])
    words = f"{len(STORED['checks'])} numbers and statements, of which {missed} are not reproduced"
    assert words in (ROOT / "README.md").read_text()
