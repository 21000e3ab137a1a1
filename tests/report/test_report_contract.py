"""What reports promise to those who read them by machine, or at a glance: short answers, kinds and not words, versions."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from scoreprism import Decomposition, decompose, scale
from scoreprism.cli import main
from scoreprism.exceptions import InputError, ScoreprismWarning
from scoreprism.report import SECTIONS, make_report
from tests.findings import KINDS, SENTENCES, STEPS, TOGETHER

pytestmark = pytest.mark.usefixtures("few_draws")

FOUR = ("logistic", "forest", "average", "stacking")


def call(*args, code=0):
    """Run a command here; its outcome, once the exit code is what it should be."""
    found = CliRunner().invoke(main, [str(a) for a in args])
    assert found.exit_code == code, f"exit {found.exit_code}\n{found.stdout}\n{found.stderr}"
    assert "Traceback" not in found.stdout + found.stderr
    return found


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ── short by default ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def credit(here):
    """Four models of a loan, of scores in two digits, with all that makes a section."""
    rng = np.random.default_rng(0)
    x, y, q, bold = law(250)
    noisy = 1 / (1 + np.exp(np.log(1 / q - 1) + rng.normal(0, 0.5, y.size)))
    scores = dict(zip(FOUR, (q, bold, 0.5 * (q + bold), noisy), strict=True))
    rest = {"housing": rng.choice(["own", "rent", "free"], y.size, p=[0.6, 0.2, 0.2]), "age_years": 40 + x[:, 1]}
    laws = {name: p.round(2).clip(0.01, 0.99) for name, p in scores.items()}
    pl.DataFrame({"default": y, **laws, **rest}).write_csv("credit.csv")
    return "credit.csv"


@pytest.mark.parametrize(("models", "most"), [(FOUR[:1], 40), (FOUR, 60)], ids=["one", "four"])
def test_a_diagnosis_fits_on_a_screen(credit, models, most):
    scores = [part for name in models for part in ("--score", name)]
    args = ("diagnose", credit, "--target", "default", *scores, "--segment", "housing", "--features", "age_years")
    short, full = (call(*args, *more, "--quiet").stdout.splitlines() for more in ((), ("--full",)))
    assert len(short) <= most < len(full)
    assert not any(line != line.rstrip() for line in (*short, *full))
    assert set(short) <= {*full, ""}  # the same words, fewer of them
    several = ["models"] if len(models) > 1 else []
    titles = [SECTIONS[key] for key in ("verdict", "calibration", "grouping", "segments", *several)]
    headings = [line.rstrip(" ─") for line in full if line.endswith("──")]
    assert [line for line in headings if line in SECTIONS.values()] == titles


def test_a_diagnosis_in_json_is_short_too(credit):
    args = ("diagnose", credit, "--target", "default", "--score", FOUR[0], "--loss", "brier", "--segment", "housing")
    for more, sections in (((), ["verdict"]), (("--full",), ["verdict", "calibration", "segments"])):
        found = json.loads(call(*args, *more, "--format", "json", "--quiet").stdout)
        assert [section["key"] for section in found["sections"]] == sections


# ── what is worth a change ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def slight(here):
    """Many rows, and a miscalibration that a test sees at once, of about 0.3 % of the loss.

    Scores of three digits are a few hundred: the test of as many as there are rows takes four times as long.
    """
    rng = np.random.default_rng(0)
    q = rng.uniform(0.05, 0.95, 15_000)
    s = (1 / (1 + (1 / q - 1) ** 1.15)).round(3)
    pl.DataFrame({"y": (rng.random(15_000) < q).astype(int), "s": s}).write_parquet("slight.parquet")
    return ("slight.parquet", "--target", "y", "--score", "s", "--loss", "brier")


@pytest.mark.parametrize("engine", [(), ("--engine", "polars")], ids=["rows", "sums"])
def test_what_is_worth_a_change_is_for_the_reader_to_say(slight, engine):
    """And a gate on the test fails for nothing else."""
    args = ("diagnose", *slight, *engine, "--fail-if-miscalibrated", "--format", "json", "--quiet")

    def conclude(share, code):
        found = call(*args, "--min-gain", share, code=code)
        assert ("gate failed: s is not calibrated" in found.stderr) is bool(code)
        return {one["kind"]: one for one in json.loads(found.stdout)["models"]["s"]["findings"]}

    passed = call(*args)  # 1 % of the loss by default
    assert passed.stderr == ""
    term = json.loads(passed.stdout)["models"]["s"]
    assert term["tests"]["calibration"]["pvalue"] < 0.05
    loss = term["losses"]["brier"]
    low, risk = loss["terms"]["reliability"]["lower_bound"], loss["risk"]
    first = {one["kind"]: one for one in term["findings"]}
    told = first["not_material"]
    assert "recalibrate" not in first
    most = told["high"]
    assert 0 < told["low"] <= low * (1 + 1e-9) < most < 0.01 * risk  # engines add in any order
    assert told["value"] == pytest.approx(risk, rel=1e-12)
    small = conclude(0.9 * low / risk, 1)
    assert small["recalibrate"]["low"] == pytest.approx(low, rel=1e-9)  # engines add in any order
    assert "not_material" not in small
    open_ = conclude(0.5 * (low + most) / risk, 1)
    assert "recalibrate_size_open" in open_
    assert not {"recalibrate", "not_material"} & open_.keys()
    assert open_["recalibrate_size_open"]["facts"]["min_gain"] == pytest.approx(0.5 * (low + most) / risk)
    assert "recalibrate" in conclude(0, 1)


def test_a_share_beyond_one_is_refused(slight):
    for share in ("1", "-0.1", "nan"):
        assert "--min-gain" in call("diagnose", *slight, "--min-gain", share, code=2).stderr
    with pytest.raises(InputError, match="min_gain"):
        make_report([0, 1] * 20, [0.3, 0.6] * 20, min_gain=1.5)


# ── nobody reads a sentence ─────────────────────────────────────────────────────────────────────────


def law(n=600, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    q = 1 / (1 + np.exp(-1.2 * x[:, 0] - 0.8 * x[:, 1]))
    y = (rng.random(n) < q).astype(int)
    bold = (1 / (1 + np.exp(-2.4 * x[:, 0]))).round(2).clip(0.01, 0.99)  # maps of few cells are fitted fast
    return x, y, q, bold


@cache
def _sums():
    x, y, q, bold = law(1600)
    frame = pl.DataFrame({"y": y, "bold": bold, "q": q, "side": x[:, 1] > 0, "month": np.arange(1600) // 400})
    return {
        name: scale.aggregate(frame, target="y", score=name, segments="side", time="month") for name in ("bold", "q")
    }


def one_model():
    x, y, _, bold = law()
    time = np.arange(y.size) // 200
    return make_report(
        y, bold, x[:, 1:], segments={"side": x[:, 1] > 0}, time=time, loss="log", cv=2, calibrators=["platt"]
    )


def several_models():
    x, y, q, bold = law()
    weight = np.where(np.arange(y.size) < 50, 0.0, 1.0)
    sections = ["verdict", "calibration", "recalibration", "segments", "models"]
    scores = {"bold": bold, "q": q, "hard": np.clip(np.round(bold), 0.05, 0.95)}
    return make_report(y, scores, segments={"side": x[:, 1] > 0}, sample_weight=weight, sections=sections, cv=2,
                     calibrators=["platt"])  # fmt: skip


def infinite_loss():
    x, y, q, bold = law()
    wrong = bold.copy()
    wrong[np.flatnonzero(y == 1)[:3]] = 0.0
    return make_report(
        y, {"bad": wrong, "q": q}, segments={"side": x[:, 1] > 0}, sections=["verdict", "segments", "models"]
    )


def from_sums():
    return make_report(_sums())


@cache
def _ours(make):
    """A report in our words, once: sums, and as much as their report shares with that on rows, are looked at twice."""
    return make()


def numbers(report):
    """Everything but words: findings and where they stand, cells that are numbers, what is handed over."""
    data = report.to_dict()

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(one) for key, one in value.items() if key not in WORDS}
        return [strip(one) for one in value] if isinstance(value, list) else value

    for section in data["sections"]:
        for table in [*section["tables"], *(figure["data"] for figure in section["figures"] if figure["data"])]:
            kinds = {column["key"]: column["kind"] for column in table["columns"]}
            table["rows"] = [[cell for key, cell in row.items() if kinds[key] != "text"] for row in table["rows"]]
    return strip(data)


#: Fields that hold sentences, or what is made of them.
WORDS = ("text", "headline", "lead", "notes", "note", "title", "description", "reduced_by", "columns")
GATES = (
    {"max_pvalue": 0.05},
    {"max_reliability": 1e-4, "gate_on": "lower"},
    {"max_reliability": 1e-4, "gate_on": "upper"},
)


def structure(report):
    """The order of callouts, their kinds, and what follows for gates."""
    callouts = [
        (section.key, [(one.kind, one.finding.kind) for one in section.callouts], [one.kind for one in section.lead])
        for section in report.sections
    ]
    steps = {name: [one.kind for one in model.findings if one.kind in STEPS] for name, model in report.models.items()}
    gates = [[(one.kind, one.model, one.value, one.pvalue) for one in report.failed_gates(**gate)] for gate in GATES]
    return callouts, steps, gates


def translate(monkeypatch):
    """Every sentence in another alphabet, none like another, and nothing of what it was about."""
    for number, kind in enumerate(SENTENCES):
        letters = "".join(chr(0x3B1 + int(digit)) for digit in f"{number:03d}")
        monkeypatch.setitem(SENTENCES, kind, lambda _, letters=letters: f"Ω{letters}.")
        if kind in TOGETHER:
            monkeypatch.setitem(TOGETHER, kind, f"Ω{letters}Ω.")


@pytest.mark.parametrize("make", [one_model, several_models, infinite_loss, from_sums])
def test_a_report_in_another_language_is_the_same_report(monkeypatch, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)
        ours = _ours(make)
        said = [one.text for one in ours.findings if one.text not in ours.headline]  # which has words of its own
        before = numbers(ours), structure(ours)
        assert len({one.kind for one in ours.findings}) > 4
        translate(monkeypatch)
        theirs = make()
    assert (numbers(theirs), structure(theirs)) == before
    assert not {one.text for one in theirs.findings} & set(said)
    assert all("Ω" in one.text for one in theirs.findings)
    # pages of the other reports would only take time: what they say is this, and their pictures hold no sentence
    pages = [theirs.to_html()] if make is several_models else []
    for page in (*pages, theirs.to_markdown(), theirs.to_text()):
        assert not [text for text in said if text in page]


def test_every_kind_has_a_sentence():
    assert SENTENCES.keys() == KINDS.keys()
    assert STEPS.keys() <= KINDS.keys()


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        (("--fail-if-miscalibrated",), 1),
        (("--max-reliability", "0.0001"), 1),
        (("--max-reliability", "5"), 0),
        (("--score", "nothing"), 2),
    ],
    ids=["test", "limit", "passed", "refused"],
)
def test_exit_codes_do_not_depend_on_words(here, monkeypatch, gate, code):
    _, y, _, bold = law()
    pl.DataFrame({"y": y, "bold": bold}).write_csv("d.csv")
    args = ("diagnose", "d.csv", "--target", "y", "--score", "bold", "--loss", "brier", *gate)
    first = call(*args, code=code)
    translate(monkeypatch)
    second = call(*args, code=code)
    assert first.stderr.count("gate failed") == second.stderr.count("gate failed") == (code == 1)
    assert (first.stdout == second.stdout) is (code == 2)


# ── versions ────────────────────────────────────────────────────────────────────────────────────────


def test_a_report_says_which_schema_it_follows():
    _, y, _, bold = law(300)
    report = make_report(y, bold, loss="log", sections=["verdict"])
    schema = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    assert report.to_dict()["schema_version"] == schema["properties"]["schema_version"]["const"] == 2
    held = report.to_dict()["models"]["model"]["losses"]["log"]["decomposition"]
    assert Decomposition.from_json(json.dumps(held)).terms == report.models["model"].decompositions["log"].terms


def test_decompositions_of_another_schema_are_refused_by_their_version():
    _, y, _, bold = law(300)
    data = json.loads(decompose(y, bold, random_state=0).to_json())
    assert Decomposition.from_json(json.dumps(data)).n == 300
    with pytest.raises(InputError, match="3"):
        Decomposition.from_json(json.dumps({**data, "schema_version": 3}))
    report = make_report(y, bold, loss="log", sections=["verdict"]).to_json()
    with pytest.raises(InputError):
        Decomposition.from_json(report)  # which is not one


# ── rows and sums ───────────────────────────────────────────────────────────────────────────────────


def test_rows_and_sums_have_the_same_sections_and_columns():
    x, y, q, bold = law(1600)
    month = np.arange(1600) // 400
    rows = make_report(
        y, {"bold": bold, "q": q}, segments={"side": x[:, 1] > 0}, time=month,
        sections=["verdict", "calibration", "segments", "method"],
    )  # fmt: skip
    sums = _ours(from_sums)
    assert [section.key for section in sums.sections] == [section.key for section in rows.sections]
    both = [key for key in rows.tables if key in sums.tables]
    assert {"glance", "terms", "meaning", "metrics", "tests", "grades-1", "data", "segments-1-1", "segments-1-2",
            "segments-2-1", "drift-1-2", "segments-models"} <= set(both)  # fmt: skip
    for key in both:
        ours, theirs = ([column.key for column in found.tables[key].columns] for found in (sums, rows))
        if key == "glance":
            theirs = [column for column in theirs if column != "behind"]  # sums know no paired differences
        elif key == "reliability-data":  # bins have intervals; isotonic curves have a band around the diagonal
            ours = [column for column in ours if column != "interval"]
        assert ours == theirs, key
    for key in ("segments-1-1", "segments-1-2", "drift-1-2"):
        found = (
            [[str(cell).lower() for cell in row[:2]] for row in report.tables[key].rows] for report in (sums, rows)
        )
        assert next(found) == next(found)  # the same segments and rows, the same periods against the same first one
    accused = {"recalibrate", "recalibrate_size_open", "not_material"}
    for name, model in rows.models.items():
        theirs = {one.kind for one in model.findings}
        assert {one.kind for one in sums.models[name].findings} & accused == theirs & accused
