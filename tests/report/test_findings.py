"""Findings are data: closed tables, round trips, what overrules what, materiality; and no code reads a sentence."""

from __future__ import annotations

import ast
import json
import pickle
import re
import string
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import scoreprism
from scoreprism import Chain, Decomposition, Finding, Level, compare, decompose, scale
from scoreprism.ensembles import aggregation_decomposition, select_stage
from scoreprism.exceptions import InfiniteLossWarning, ScoreprismWarning
from scoreprism.inference import calibration_test, corp_bootstrap
from scoreprism.pipelines import pipeline_bootstrap
from tests.chains import decompose_losses
from tests.findings import KINDS, SENTENCES, STEPS, select

pytestmark = pytest.mark.usefixtures("few_draws")

SOURCE = Path(scoreprism.__file__).parent
#: What a finding can be to its reader.
SEVERITIES = {"action", "statement", "doubt", "caution", "provenance", "gate"}

# ── one of each kind ────────────────────────────────────────────────────────────────────────────────

_TRAINED = Finding("trained_on_rows", level=0, subject="GaussianNB", facts={"evidence": "class_means", "share": 1.0})
_GAIN = {"term": "reliability", "low": 0.02, "high": 0.05, "value": 0.5, "confidence_level": 0.95}
_MEMBERS = {"low": 0.02, "value": 0.5, "subject": "the mean"}
_MAP = {"loss": "log", "before": 0.5, "after": 0.48, "chooses": True}
_ALARM = {
    "process": "calibration", "since": "2026-08-12", "since_first": "2026-08-05", "since_last": "2026-08-20",
    "from_start": False, "view": None, "direction": "too high", "is_sure": True,
}  # fmt: skip
_QUIET = {"process": "calibration", "unit": "day", "baseline": 30, "log10_e": -0.09691, "log10_needed": 1.30103}
_CHANGE = {
    "since": "2026-08-12", "loss": "log", "loss_before": 0.4, "loss_after": 0.42, "score_before": 0.2, "score_after": 0.3,
    "parts": {"case mix": -0.002, "reliability": 0.007, "refinement": 0.015},
}  # fmt: skip
#: Facts and numbers that the sentences of a kind need.
EXAMPLES: dict[str, list[Finding]] = {
    one.kind: [one]
    for one in (
        Finding("infinite_loss", n=2, facts={"loss": "log", "total": 1250, "rows": [58, 695]}),
        Finding("do_not_act", because=_TRAINED),
        Finding("recalibrate", **_GAIN),
        Finding("recalibrate_size_open", **{**_GAIN, "low": 0.0}, pvalue=0.01, facts={"ends": [["any", 0.05]]}),
        Finding("information_gain", term="grouping", low=0.02, value=0.5),
        Finding("information_size_open", term="grouping", pvalue=0.01, value=0.5),
        Finding("stack", **_MEMBERS),
        Finding("members_size_open", high=0.04, **{**_MEMBERS, "low": 0.001}, facts={"action": "stack", "min_gain": 0.01}),
        Finding("keep_members", **_MEMBERS),
        Finding("recalibration_pays", value=0.01, low=0.005, high=0.015, confidence_level=0.95, facts={"loss": "log"}),
        Finding("stage_choice", subject="6", n=5, value=0.03, low=0.01, high=0.05, facts={"refined": "6", "raw": "4, 6"}),
        Finding("stages_alike", n=3, facts={"first": 4.0, "last": 6.0, "total": 12}),
        Finding("infinite_stages", n=1),
        Finding("infinite_splits", facts={"where": {"raw (log) of tree": 3}, "total": 3}),
        Finding("floored", n=12, facts={"floor": 0.0004, "total": 1250}),
        Finding("not_material", **{**_GAIN, "low": 0.0001, "high": 0.0009}, pvalue=0.01),
        Finding("calibrated_enough", pvalue=0.4, **_GAIN),
        Finding("no_miscalibration", n=4200, **_GAIN, facts={"ends": [["smooth", 0.03], ["any", 0.05]]}),
        Finding("no_information_gain", term="grouping"),
        Finding("heterogeneity", term="heterogeneity", low=0.02, value=0.5),
        Finding("rest_unsplit", term="refinement", value=0.5, subject="X", facts={"rest": 0.4}),
        Finding("rest_unknowable", term="irreducible"),
        Finding("reachable_loss", term="irreducible", high=0.4, value=0.5),
        Finding("no_lower_loss", term="irreducible"),
        Finding("inconclusive", n=60, facts={"unit": "row"}),
        Finding("term_doubtful", term="grouping", because=Finding("plugin_bias")),
        Finding("members_know_more", **_MEMBERS),
        Finding("members_insufficient", pvalue=0.01, subject="the mean"),
        Finding("members_add_nothing", subject="the mean"),
        Finding("best_model", model="Forest", value=0.4, facts={"loss": "log"}),
        Finding("not_worse", facts={"others": ["Logistic", "GAM"]}),
        Finding("behind", model="Forest", value=0.02, low=0.01, high=0.03, subject="GAM"),
        Finding("calibration_refuted", model="Forest", pvalue=0.0002),
        Finding("miscalibrated_by_bound", pvalue=0.2),
        Finding("calibration_not_refuted", pvalue=0.2),
        Finding("event_bias", value=0.8, low=0.7, high=0.9, facts={"sign": -1}),
        Finding("score_spread", value=0.6, low=0.5, high=0.8, facts={"sign": -1, "shown": True}),
        Finding("segment_miscalibrated", n=4, facts={"segments": ["north", "south"]}),
        Finding("segments_none", n=4),
        Finding("class_miscalibrated", n=4, facts={"classes": ["north", "south"], "rare": 3, "least": 20}),
        Finding("classes_none", n=4, facts={"rare": 0, "least": 20}),
        Finding("costly_confusion", n=12, value=0.08, subject="eight", facts={"predicted": "one", "all": 0.4}),
        Finding("segments_too_small", n=100, facts={"rarer": 10, "columns": ["region"]}),
        Finding("net_benefit", model="Forest", confidence_level=0.95, facts={"thresholds": [0.1, 0.4], "shown": True}),
        Finding("decision_cost", value=0.01, high=0.03, confidence_level=0.95, facts={"threshold": 0.4}),
        Finding("feature_adds", facts={"features": ["age"]}),
        Finding("no_feature_adds", n=8),
        Finding("no_region"),
        Finding("changed", term="loss", n=3, facts={"periods": ["2024"], "alpha": 0.05, "before": "2021", "after": "2022"}),
        Finding("map_gain", subject="platt", value=0.02, low=0.01, high=0.03, facts=_MAP),
        Finding("map_chosen", subject="platt", facts={"effect": "kept", "auc_before": 0.7, "auc_after": 0.7}),
        Finding("recalibration_costs", value=-0.01, low=-0.02, high=-0.001, facts={"loss": "log"}),
        Finding("recalibration_undecided", facts={"loss": "log"}),
        Finding("path_loses", value=0.01, low=0.005, high=0.015),
        _TRAINED,
        Finding("calibration_reused", level=0),
        Finding("parts_share_rows", level=0, facts={"parts": ["train", "test"]}),
        Finding("calibrator_reused", facts={"methods": ["stacking"]}),
        Finding("overfit", level=1, value=0.2, subject="C", facts={"usual": 0.05, "remedy": "rows"}),
        Finding("worse_than_coarser", level=2, subject="Q", facts={"coarser": "C", "own": False}),
        Finding("cells_too_coarse", level=1, value=0.001, facts={"share_of_error": 0.8}),
        Finding("not_calibrated_version", term="reliability", subject="C", facts={"prediction": "S"}),
        Finding("may_be_trained_on_rows", subject="GaussianNB", facts={"evidence": "means:StandardScaler", "share": 0.04}),
        Finding("level_overfits", level=2, value=0.2, subject="Q", facts={"usual": 0.05, "remedy": "reference"}),
        Finding("size_unknown", term="grouping"),
        Finding("few_units", n=1, facts={"unit": "group", "enough": 30}),
        Finding("few_rows", n=80, subject="bad", facts={"count": 7}),
        Finding("few_surprises", value=3.2),
        Finding("few_effective_rows", value=4.0),
        Finding("few_calibration_rows", n=40),
        Finding("few_resamples", n=10),
        Finding("redrawn", n=1),
        Finding("shifted_replicates", value=-1.3),
        Finding("few_held_out_rows", n=30, facts={"rest": 4, "enough": 50}),
        Finding("extrapolated", n=3, facts={"total": 400, "range": [0.1, 0.9]}),
        Finding("weights_unused", subject="GaussianNB"),
        Finding("inner_validation", subject="MLPClassifier", facts={"how": "early_stopping=True", "weights": True}),
        Finding("reference_limit"),
        Finding("overlapping_splits"),
        Finding("test_ratio_unknown"),
        Finding("plugin_bias"),
        Finding("in_sample_bias", facts={"bootstrap": True}),
        Finding("partial_cv", n=240, facts={"total": 300}),
        Finding("dependent_rows"),
        Finding("zero_weight", n=1),
        Finding("edge_scores", n=3, value=1e-6),
        Finding("impossible_outcome"),
        Finding("quantised", value=0.0001, facts={"share_of_error": 0.02}),
        Finding("unreached_scores", value=0.03, facts={"before": "2023", "after": "2024"}),
        Finding("left_out", n=100, facts={"reason": "small", "rarer": 10, "names": ["north"]}),
        Finding("unavailable", subject="AUC", facts={"reason": "one class only"}),
        Finding("approximated", facts={"folds": True}),
        Finding("order_contradicted", value=0.02, subject="kernel", facts={"std_error": 0.004, "loss": "log"}),
        Finding("hard_labels", subject="y_proba"),
        Finding("reversed_scores", facts={"event": "'good'", "other": "'bad'"}),
        Finding("separation", facts={"remedy": "stack"}),
        Finding("weight_scale", value=1e-6, n=400, facts={"scaled": True}),
        Finding("lost_resolution", value=0.3, n=6, subject="binning", facts={"stage": 1.0, "stages": 6, "cost": 0.005, "std_error": 0.001}),
        Finding("shape_refuted", confidence_level=0.95),
        Finding("file_suspect", subject="scores.csv", facts={"reason": "the last line has no end"}),
        Finding("law_fitted", level=1, facts={"laws": ["C = P(Y | S)"], "shares": {"platt": 0.6, "tree": 0.4}, "folds": 5, "times": 20}),
        Finding("law_given", facts={"laws": ["Q"]}),
        Finding("computed_on", facts={"library": "torch", "device": "cuda:0", "dtype": "float32", "moved": []}),
        Finding(
            "computed_on",
            facts={"library": "torch", "device": "cuda:0", "dtype": "float32", "moved": ["shifts", "test"]},
        ),
        Finding("candidates_left_out", facts={"maps": ["shifts", "boosting"]}),
        Finding("clipped", value=1e-6),
        Finding("unclipped_levels", subject="Q"),
        Finding("from_sums", n=99, facts={"exact": True}),
        Finding("folds_drawn", n=5, facts={"times": 20}),
        Finding("sampled", n=1000, value=0.5, facts={"total": 4000, "how": "at random by polars", "error": 0.01}),
        Finding("read_as", n=1),
        Finding("assumption", facts={"of": "ridge"}),
        Finding("monitor_pays", value=0.4, low=0.004, high=0.011, n=900, facts={"loss": "log", "view": None, "since": "2026-08-12"}),
        Finding("monitor_open", value=0.4, low=0.0, high=0.011, n=900, facts={"loss": "log", "view": None, "since": 17}),
        Finding("monitor_minor", value=0.4, low=0.0001, high=0.002, n=900, facts={"loss": "log", "min_gain": 0.01}),
        Finding("monitor_segments", n=4, facts={"segments": ["region=south"]}),
        Finding("monitor_segments_none", n=4),
        Finding("monitor_alarm", n=900, facts=_ALARM),
        Finding("monitor_quiet", n=214, high=0.0031, facts=_QUIET),
        Finding("monitor_idle"),
        Finding("monitor_cause", value=0.02, facts=_CHANGE | {"alarm": False}),
        Finding("monitor_guarantee", facts={"process": "calibration", "log10_needed": 1.30103, "alpha": 0.05}),
        Finding("gate_reliability", model="Forest", value=0.02, facts={"limit": 0.01, "on": "lower", "loss": "log"}),
        Finding("gate_calibration", model="Forest", pvalue=0.01, n=2, facts={"alpha": 0.05}),
        Finding("gate_unknown", model="Forest"),
    )
}  # fmt: skip
EXAMPLES["law_fitted"] += [
    Finding("law_fitted", level=2, subject="a stack of logistic", facts={"laws": ["a", "b"], "folds": 5, "times": 3}),
    Finding("law_fitted", subject="LogPool", facts={"aggregate": True}),
    Finding("law_fitted", level=1, subject="platt", facts={"laws": ["C = P(Y | S)"], "split": True}),
]
EXAMPLES["recalibrate"] += [replace(EXAMPLES["recalibrate"][0], model="Forest", facts={"blind": True, "floor": 0.0004})]
EXAMPLES["recalibrate_size_open"] += [
    Finding("recalibrate_size_open", **{**_GAIN, "low": 0.001}, facts={"ends": [["smooth", 0.05]], "min_gain": 0.01})
]
EXAMPLES["left_out"] += [
    Finding("left_out", subject="period 3", facts={"reason": "the target must hold both outcomes"}),
    Finding("left_out", n=5, facts={"reason": "most", "total": 9, "column": "region"}),
    Finding(
        "left_out", facts={"reason": "infinite", "names": ["a", "b"], "all": False, "loss": "log", "metric": "raw"}
    ),
]
EXAMPLES["monitor_alarm"] += [
    Finding("monitor_alarm", n=9, facts=_ALARM | {"process": "change"}),
    Finding("monitor_alarm", n=9, facts=_ALARM | {"process": "change", "is_sure": False}),
    Finding("monitor_alarm", n=9, facts=_ALARM | {"direction": "too bold", "view": "the most likely class"}),
    Finding("monitor_alarm", n=9, facts=_ALARM | {"is_sure": False, "since": 3, "since_first": 2, "since_last": 7}),
    Finding("monitor_alarm", n=9, facts=_ALARM | {"from_start": True}),
]
EXAMPLES["monitor_quiet"] += [
    Finding("monitor_quiet", n=0),
    Finding("monitor_quiet", n=0, facts={"restart": "2026-08-12"}),
    Finding("monitor_quiet", n=1, facts=_QUIET | {"process": "change"}),
    Finding("monitor_quiet", n=1, facts=_QUIET | {"process": "detector", "log10_needed": 3.5623}),
]
EXAMPLES["monitor_cause"] += [Finding("monitor_cause", value=0.02, facts=_CHANGE | {"alarm": True})]
EXAMPLES["monitor_idle"] += [Finding("monitor_idle", facts={"mix": True})]
EXAMPLES["monitor_segments"] += [
    Finding("monitor_segments", n=2, facts={"segments": ["a", "b"]}),
    Finding("monitor_segments", n=1, facts={"segments": ["a"]}),
]
EXAMPLES["monitor_pays"] += [
    Finding("monitor_pays", low=0.00001, high=0.011, facts={"loss": "log", "view": "class a", "since": 3}),
    Finding("monitor_pays", low=0.01, value=0.5, facts={"loss": "log", "view": None, "since": 3}),
]
EXAMPLES["monitor_open"] += [Finding("monitor_open", low=0.0, facts={"loss": "log", "view": None, "since": 17})]
EXAMPLES["monitor_guarantee"] += [
    Finding("monitor_guarantee", facts={"process": "detector", "log10_needed": 3.5623, "arl": 3650, "unit": "day"}),
    Finding("monitor_guarantee", facts={"process": "change", "log10_needed": 1.30103, "alpha": 0.05}),
]
EVERY = [
    pytest.param(one, id=kind if i == 0 else f"{kind} {i}")
    for kind, all_ in EXAMPLES.items()
    for i, one in enumerate(all_)
]


def test_the_tables_are_closed():
    assert SENTENCES.keys() == KINDS.keys() == EXAMPLES.keys()
    for name, kind in KINDS.items():
        assert kind.severity in SEVERITIES
        assert kind.overrules <= KINDS.keys() - {name}
        assert kind.warning is None or issubclass(kind.warning, ScoreprismWarning)
    assert {KINDS[kind].severity for kind in STEPS} == {"action", "statement"}


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """The code of each module."""
    return {path: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in SOURCE.rglob("*.py")}


def made_by_code() -> Iterator[tuple[str, str]]:
    """Kinds that modules make findings of, where they are written out."""
    for path, code in nodes().items():
        for node in code:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant):
                    yield str(path.relative_to(SOURCE)), first.value


def test_code_makes_no_kind_that_is_not_in_the_table():
    found = list(made_by_code())
    assert len(found) > 50
    assert [(path, kind) for path, kind in found if kind not in KINDS] == []


def test_every_kind_is_made_somewhere():
    """No kind stands in the table that nothing makes: its name is written somewhere above the tables."""
    written = {
        node.value
        for path, code in nodes().items()
        if path.parent.name != "_findings"
        for node in code
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(KINDS.keys() - written) == []


@cache
def plain():
    """A decomposition that finds nothing by itself."""
    rng = np.random.default_rng(0)
    q = rng.uniform(0.1, 0.9, 200)
    levels = [Level("S", 0.5 * q + 0.25), Level("C", q), Level("Q", np.clip(q + rng.normal(0, 0.05, 200), 0.01, 0.99))]
    return Chain((rng.random(200) < q).astype(int), levels).decompose("brier")


@pytest.mark.parametrize("finding", EVERY)
def test_a_finding_survives(finding):
    """Plain objects, the strict JSON of a result and pickles give it back, and its sentence with it."""
    assert Finding.from_dict(finding.to_dict()) == finding
    (read,) = Decomposition.from_json(replace(plain(), findings=(finding,)).to_json()).findings
    assert read == pickle.loads(pickle.dumps(finding)) == finding  # noqa: S301 - what was written here
    assert read.text == finding.text
    assert finding.to_dict()["severity"] == KINDS[finding.kind].severity
    assert hash(finding) == hash(read)


@pytest.mark.parametrize("finding", EVERY)
def test_a_sentence_is_one(finding):
    """A capital or a name of the user's at the start, a full stop at the end, and no Python in between."""
    text = finding.text
    assert text.rstrip(")")[-1] in ".?"
    assert not re.search(r"None|nan\b|inf\b|\{|\}|\[\]|  |\.\.|(?<!=)(True|False)| ,| \.", text)
    assert not re.search(r"\b1 (rows|groups|stages|draws|replicates|features|segments)\b", text)
    names = (finding.model, finding.subject, *finding.facts.get("laws", ()), "cv ", "sample_weight", "calibration=")
    names += (finding.facts.get("column"), *finding.facts.get("methods", ()))
    assert text[0].isupper() or text[0].isdigit() or text.lstrip("'").startswith(tuple(name for name in names if name))


@pytest.mark.parametrize("finding", EVERY)
def test_a_finding_of_a_model_names_it(finding):
    """Sentences on one of several models say which, unless they are on the rows, which all of them share."""
    about = finding.about("Zebra")
    assert about.model == "Zebra"
    assert about.because is None or about.because.model == "Zebra"
    if finding.severity in ("doubt", "caution", "provenance"):
        assert "Zebra" in about.text


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (Finding("few_surprises"), "it has no value"),  # templates
        (Finding("shape_refuted"), "it has no confidence_level"),
        (Finding("few_held_out_rows", n=30, facts={"enough": 50}), "it has no rest"),
        (Finding("not_worse"), "it has no others"),  # functions
        (Finding("edge_scores", n="many"), "invalid literal for int() with base 10: 'many'"),
        (
            Finding("do_not_act", because=Finding("few_surprises")),
            "a finding of the kind 'few_surprises' cannot be put",
        ),
    ],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_a_finding_that_lacks_something_says_what(finding, why):
    """For the author of a finding: its kind, and the field."""
    with pytest.raises(ValueError) as error:
        finding.text  # noqa: B018
    assert str(error.value).startswith(f"a finding of the kind {finding.kind!r} cannot be put into words: {why}")


def test_a_finding_that_is_none_is_refused():
    for data in ({"kind": "hearsay"}, {"kind": "clipped", "mood": "sad"}, {}):
        with pytest.raises(ValueError, match="a finding of the kind"):
            Finding.from_dict(data)


def test_a_warning_carries_its_finding():
    """Once, from the line of the caller, in the words of the finding that the result keeps."""
    with pytest.warns(InfiniteLossWarning) as caught:
        d = decompose([0, 1, 1, 0] * 50, [0.2, 0.0, 0.7, 0.4] * 50, random_state=0)
    (warning,) = (one for one in caught if isinstance(one.message, InfiniteLossWarning))
    (finding,) = select(d.findings, "infinite_loss")
    assert warning.message.finding == finding
    assert str(warning.message) == finding.text
    assert warning.filename == __file__


# ── what overrules what ─────────────────────────────────────────────────────────────────────────────

PAIRS = [(kind, other) for kind, entry in KINDS.items() for other in sorted(entry.overrules)]


def settle(findings):
    """What the table of a result says of the findings that the result has."""
    shown = replace(plain(), findings=tuple(findings)).summary().document().findings
    return tuple(one for one in shown if one in findings)


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_kind_overrules_others_of_the_same_model(kind, other):
    strong, weak = Finding(kind, model="a", term="grouping"), Finding(other, model="a", term="grouping")
    elsewhere = replace(weak, model="b")
    rest = Finding("plugin_bias")
    assert settle([weak, rest, strong, elsewhere]) == (rest, strong, elsewhere)
    assert settle([strong, elsewhere, rest, weak]) == (strong, elsewhere, rest)
    assert settle([weak]) == (weak,)


def test_steps_of_information_are_settled_term_by_term():
    gain = Finding("information_gain", term="a → b", model="a")
    here, there = (Finding("information_size_open", term=term, model="a") for term in ("a → b", "b → c"))
    assert settle([here, there, gain]) == (there, gain)
    assert settle([there, Finding("no_information_gain", term="b → c", model="a"), here]) == (there, here)


def test_settled_findings_are_said_once_and_keep_their_order():
    one, two, three = (Finding("few_resamples", n=n) for n in (1, 2, 3))
    assert settle([three, one, three, two, one]) == (three, one, two)


def test_a_doubt_about_a_level_forbids_conclusions_on_the_terms_next_to_it():
    first, second = (Finding("overfit", level=2, subject=name) for name in ("Q", "Q2"))
    caution = Finding("level_overfits", level=1)  # which is no doubt
    found = replace(plain(), findings=(caution, first, second)).conclusions()
    assert [(one.term, one.because) for one in select(found, "term_doubtful")] == [("grouping", first)]
    assert select(found, "recalibrate", "no_miscalibration", "recalibrate_size_open")
    (only,) = replace(plain(), findings=(caution, first, _TRAINED)).conclusions()  # about the rows themselves
    assert (only.kind, only.because) == ("do_not_act", _TRAINED)


# ── in another language ─────────────────────────────────────────────────────────────────────────────

_GREEK = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "αβψδεφγηιξκλμνοπϙρστθωϝχυζΑΒΨΔΕΦΓΗΙΞΚΛΜΝΟΠϘΡΣΤΘΩϜΧΥΖ"
)


def _in_greek(sentence):
    """A template or a function of the table, in other letters; fields of templates stay."""
    if callable(sentence):
        return lambda finding: sentence(finding).translate(_GREEK)
    parts = string.Formatter().parse(sentence)
    return "".join(
        text.translate(_GREEK).replace("{", "{{").replace("}", "}}")
        + ("" if name is None else f"{{{name}{f':{spec}' if spec else ''}}}")
        for text, name, spec, _ in parts
    )


@pytest.fixture
def greek(monkeypatch):
    """All sentences in another language; nothing else."""
    for kind, sentence in SENTENCES.items():
        monkeypatch.setitem(SENTENCES, kind, _in_greek(sentence))


def rows(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (rng.random(n) < expit(X.sum(axis=1))).astype(int)
    return X, y, expit(1.6 * X[:, 0])


def with_features():
    X, y, s = rows()
    return decompose_losses(y, s, X, losses=["brier", "log"], random_state=0, reference="logistic")


def with_an_infinite_loss():
    _, y, s = rows()
    s = s.copy()
    s[np.flatnonzero(y)[:3]] = 0.0
    return decompose(y, s, random_state=0)


def with_double_use():
    X, y, _ = rows()
    return decompose(y, GaussianNB().fit(X, y), X, loss="brier", random_state=0, reference="logistic")


def with_clusters():
    _, y, s = rows()
    return decompose(y, s, groups=np.arange(500) // 25, loss="brier", calibrator="platt", random_state=0)


def with_a_law_that_overfits():
    X, y, s = rows()
    return decompose(y, s, X, loss="brier", reference=DecisionTreeClassifier(random_state=0), random_state=0)


def from_sums():
    X, y, s = rows(2000)
    data = pl.DataFrame({"y": y, "s": s, "g": (X[:, 1] > 0).astype(int)})
    return scale.decompose(data, target="y", score="s", segments="g", loss="brier")


def from_sums_over_time():
    _, y, s = rows(2000)
    y[:3] = 1  # a period of one class is left out, and that is said
    data = pl.DataFrame({"y": y, "s": s, "t": np.where(np.arange(2000) < 3, 9, np.arange(2000) // 700)})
    return scale.decompose(data, target="y", score="s", time="t", loss="log", calibrator="platt").drift()


def of_an_ensemble():
    X, y, s = rows(300)
    quick = {"calibrator": "platt", "reference": "logistic", "cv": 2}
    return aggregation_decomposition(y, {"a": s, "b": expit(X[:, 1])}, X=X, loss="brier", random_state=0, **quick)


def of_stages():
    X, y, s = rows(300)
    return select_stage(y, [s, expit(X.sum(axis=1)), expit(3 * X.sum(axis=1))], random_state=0)


def of_models():
    _, y, s = rows(300)
    return compare(
        y, {"a": s, "b": expit(2 * logit(s)), "c": np.clip(s.round(), 0.01, 0.99)}, loss="brier", random_state=0
    )


def of_a_pipeline():
    X, y, _ = rows()
    parts = {"train": (X[:200], y[:200]), "calibration": (X[200:350], y[200:350]), "test": (X[350:], y[350:])}
    return pipeline_bootstrap(GaussianNB(), **parts, calibrator="platt", loss="brier", n_resamples=10, random_state=0)


def of_resamples():
    _, y, s = rows()
    return corp_bootstrap(y, s, loss="brier", n_resamples=10, random_state=0)


def of_a_test():
    _, y, s = rows()
    s = s.copy()
    s[np.flatnonzero(y)[0]] = 0.0
    return calibration_test(y, s, n_resamples=49, random_state=0)


MAKERS = (
    with_features, with_an_infinite_loss, with_double_use, with_clusters, with_a_law_that_overfits, from_sums,
    from_sums_over_time, of_an_ensemble, of_stages, of_models, of_a_pipeline, of_resamples, of_a_test,
)  # fmt: skip
#: Where JSON and dictionaries hold sentences.
WORDS = {"text", "advice", "notes"}


def without_words(data):
    """Plain objects without sentences."""
    if isinstance(data, dict):
        return {key: without_words(value) for key, value in data.items() if key not in WORDS}
    return [without_words(one) for one in data] if isinstance(data, (list, tuple)) else data


def alike(one, other):
    """Plain objects that are the same, but for the order in which an engine adds numbers up."""
    if isinstance(one, float) and isinstance(other, float):
        return other == pytest.approx(one, rel=1e-9, abs=1e-12, nan_ok=True)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


def results_in(made):
    """Decompositions by loss, or the one result."""
    return list(made.values()) if isinstance(made, dict) else [made]


def examine(result):
    """Everything that is known of a result but its words, and all of its words."""
    found = {"json": without_words(json.loads(result.to_json()))} if hasattr(result, "to_json") else {}
    findings = list(getattr(result, "findings", ()))
    if isinstance(result, Decomposition):
        summary = result.summary()
        found["summary"] = without_words(json.loads(summary.to_json()))
        findings += [*summary.findings, *summary.document().findings]
    if hasattr(result, "document"):
        findings += result.document().findings
        found["tables"] = [table.shown() for table in result.document().tables.values()]
    found["findings"] = [without_words(one.to_dict()) for one in findings]
    return found, [one.text for one in findings]


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_no_number_and_no_conclusion_depends_on_words(make, request):
    here = [examine(result) for result in results_in(make())]
    request.getfixturevalue("greek")
    there = [examine(result) for result in results_in(make())]
    for (found, words), (again, other_words) in zip(here, there, strict=True):
        assert [one["kind"] for one in found["findings"]] == [one["kind"] for one in again["findings"]]
        assert alike(found, again)
        assert all(one != other for one, other in zip(words, other_words, strict=True))
    assert any(words for _, words in here)


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreprismWarning")
@pytest.mark.parametrize("make", [with_an_infinite_loss, with_double_use], ids=lambda make: make.__name__)
def test_what_was_written_in_one_language_is_read_in_another(make, request):
    found = make()
    text, conclusions = found.to_json(), found.conclusions()
    request.getfixturevalue("greek")
    read = Decomposition.from_json(text)
    assert read.findings == found.findings
    assert read.conclusions() == conclusions
    assert json.loads(read.to_json())["findings"] != json.loads(text)["findings"]  # the words alone
    assert without_words(json.loads(read.to_json())) == without_words(json.loads(text))


# ── materiality ─────────────────────────────────────────────────────────────────────────────────────


def slope(n, power, seed=0):
    """Scores whose logits are too large by a factor: C = σ(power·logit S)."""
    rng = np.random.default_rng(seed)
    s = expit(1.5 * rng.normal(size=n))
    return (rng.random(n) < expit(power * logit(s))).astype(int), s


def on_reliability(d, **options):
    (found,) = [one for one in d.conclusions(**options) if one.term == "reliability"]
    return found


def test_a_gain_that_reaches_one_percent_is_an_action():
    y, s = slope(3000, 0.5)
    d = decompose(y, s, loss="brier")
    found = on_reliability(d)
    assert (found.kind, found.severity) == ("recalibrate", "action")
    assert found.low == d.lower_bound("reliability").value >= 0.01 * d.risk
    assert (found.value, found.confidence_level) == (d.risk, 0.95)


def test_a_gain_that_is_shown_but_may_be_small_is_open():
    y, s = slope(3000, 0.75)
    d = decompose(y, s, loss="brier")
    found = on_reliability(d)
    assert 0.0 < d.lower_bound("reliability").value < 0.01 * d.risk < d.interval("reliability").high
    assert found.kind == "recalibrate_size_open"
    assert (found.low, found.high) == (d.lower_bound("reliability").value, d.interval("reliability").high)
    assert found.facts["min_gain"] == pytest.approx(0.01)
    assert found.text.endswith(" of the loss; whether it reaches 1 % is open.")
    assert on_reliability(d, min_gain=0.0).kind == "recalibrate"  # any gain that is shown
    assert on_reliability(d, min_gain=found.low / d.risk * 1.001).kind == "recalibrate_size_open"
    assert on_reliability(d, min_gain=found.low / d.risk * 0.999).kind == "recalibrate"


def test_miscalibration_that_a_test_alone_shows_is_open():
    y, s = slope(500, 0.72)
    d = decompose(y, s, loss="brier")
    assert d.lower_bound("reliability").value <= 0.0
    found = on_reliability(d, calibration_pvalue=0.01)
    assert (found.kind, found.low, found.pvalue) == ("recalibrate_size_open", 0.0, 0.01)
    assert found.text.startswith("The scores are miscalibrated (p = 0.01), but the size of the gain is open: ")
    assert on_reliability(d, calibration_pvalue=0.01, min_gain=0.0).kind == "recalibrate_size_open"  # no bound above 0


def test_a_gain_that_is_surely_small_is_not_material():
    """A large sample: the scores are not calibrated, and what that costs is known to be little."""
    y, s = slope(4000, 1.0)
    d = decompose(y, s, loss="brier")
    high = d.interval("reliability").high
    assert 0.0 < high < 0.02 * d.risk
    found = on_reliability(d, calibration_pvalue=0.001, min_gain=0.02)
    assert (found.kind, found.severity, found.low, found.high) == ("not_material", "statement", 0.0, high)
    assert found.text.endswith(" of the loss: not worth a change.")
    assert on_reliability(d, calibration_pvalue=0.001, min_gain=0.999 * high / d.risk).kind == "recalibrate_size_open"
    assert not select(d.conclusions(calibration_pvalue=0.001, min_gain=0.02), "no_miscalibration")


def test_a_small_gain_for_smooth_curves_only_is_never_called_immaterial():
    """An upper end that assumes a smooth curve cannot rule a larger gain out."""
    y, s = slope(4000, 1.0)
    d = decompose(y, s, loss="elementary")
    found = on_reliability(d, calibration_pvalue=0.001, min_gain=0.5)
    assert [where for where, _ in found.facts["ends"]] == ["smooth"]
    assert found.high < 0.5 * d.risk
    assert found.kind == "recalibrate_size_open"


def test_scores_that_nothing_speaks_against_are_not_called_miscalibrated():
    y, s = slope(1000, 1.0)
    d = decompose(y, s, loss="brier")
    found = on_reliability(d)
    assert (found.kind, found.high, found.pvalue) == (
        "no_miscalibration",
        d.interval("reliability").high,
        d.calibration_pvalue,
    )
    assert d.calibration_pvalue > 0.05
    assert on_reliability(d, min_gain=0.0).kind == "no_miscalibration"


def on_grouping(d, **options):
    (found,) = [one for one in d.conclusions(**options) if one.term == "grouping"]
    return found


def given(weight, n=3000):
    """Laws that are known: the score misses a second feature of some weight."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, n))
    q = expit(x + weight * z)
    y = (rng.random(n) < q).astype(int)
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    c = expit(x[:, None] + weight * nodes) @ (mass / mass.sum())
    return Chain(y, [Level("S", c), Level("C", c), Level("Q", q)]).decompose("brier")


def test_information_that_is_worth_a_model_is_an_action():
    d = given(1.0)
    found = on_grouping(d)
    assert (found.kind, found.severity, found.low) == ("information_gain", "action", d.lower_bound("grouping").value)
    assert found.low > 0.01 * d.risk
    assert "rest_unknowable" in [one.kind for one in d.conclusions()]


def test_information_whose_gain_may_be_small_is_open():
    d = given(0.25)
    least = d.lower_bound("grouping").value
    assert 0.0 < least < 0.01 * d.risk
    found = on_grouping(d)
    assert (found.kind, found.low) == ("information_size_open", least)
    assert found.text.endswith(" of the loss; whether it reaches 1 % is open.")
    assert on_grouping(d, min_gain=0.0).kind == "information_gain"
    assert not select(d.conclusions(), "inconclusive")


def test_information_that_a_test_alone_shows_is_open():
    d = given(0.0)
    assert d.lower_bound("grouping").value <= 0.0
    found = on_grouping(d, grouping_pvalue=0.01)
    assert (found.kind, found.low, found.pvalue) == ("information_size_open", None, 0.01)
    assert found.text == (
        "The features carry more information than the score (p = 0.01); how much a better model would gain is open."
    )
    assert on_grouping(d, grouping_pvalue=0.2).kind == "no_information_gain"
    assert on_grouping(d).kind == "no_information_gain"
    assert select(d.conclusions(), "inconclusive")
    assert not select(d.conclusions(grouping_pvalue=0.01), "inconclusive")


@pytest.mark.parametrize("bad", [-0.1, 1.0, "much", None])
def test_the_share_that_is_worth_a_change_is_checked(bad):
    d = given(0.0, 200)
    for ask in (d.summary, d.conclusions):
        with pytest.raises(scoreprism.exceptions.InputError, match="min_gain must be a share from 0 to below 1"):
            ask(min_gain=bad)


def test_no_gain_is_an_action_below_its_share():
    """Over many samples: an action has a lower bound of the share, a statement of immateriality an upper one below it."""
    for seed in range(6):
        y, s = slope(800, 0.6 + 0.08 * seed, seed)
        d = decompose(y, s, loss="log", calibrator="platt")
        for share in (0.0, 0.001, 0.01, 0.05):
            found = on_reliability(d, min_gain=share)
            goal = share * d.risk
            if found.kind == "recalibrate":
                assert found.low >= goal
                assert found.low > 0.0
            elif found.kind == "not_material":
                assert found.high < goal
            else:
                assert d.lower_bound("reliability").value < goal or d.lower_bound("reliability").value <= 0.0


# ── no code reads a sentence ────────────────────────────────────────────────────────────────────────

#: Where sentences come from, and what looks into a text.
TEXTS, SAYERS = {"text", "notes", "advice"}, {"say", "say_all"}
LOOKS = {
    "startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines", "find", "rfind", "index",
    "count", "replace", "removeprefix", "removesuffix",
}  # fmt: skip


class Reader(ast.NodeVisitor):
    """Places of a module that compare, search or cut sentences; names that hold them are followed inside a function."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self.names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.names = self.names, set(self.names)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and self._says(inner.value):
                self.names |= {target.id for target in inner.targets if isinstance(target, ast.Name)}
            if isinstance(inner, (ast.For, ast.comprehension)) and self._says(inner.iter):
                self.names |= {inner.target.id} if isinstance(inner.target, ast.Name) else set()
        self.generic_visit(node)
        self.names = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def _says(self, node: ast.AST) -> bool:
        """Whether an expression is a sentence, or several."""
        if isinstance(node, ast.Subscript):
            return self._says(node.value)
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in SAYERS
        if isinstance(node, ast.Attribute):
            return node.attr in TEXTS
        return isinstance(node, ast.Name) and node.id in self.names

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(self._says(one) for one in (node.left, *node.comparators)) and not _asks_for_none(node):
            self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            looks = called.attr in LOOKS and self._says(called.value)
            regular = isinstance(called.value, ast.Name) and called.value.id == "re" and any(map(self._says, node.args))
            if looks or regular:
                self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._says(node.value) and isinstance(node.slice, ast.Slice):
            self.found.append(node.lineno)
        self.generic_visit(node)


def _asks_for_none(node: ast.Compare) -> bool:
    return any(isinstance(one, ast.Constant) and one.value is None for one in node.comparators)


def reading(source: str) -> list[int]:
    reader = Reader()
    reader.visit(ast.parse(source))
    return sorted(set(reader.found))


@pytest.mark.parametrize(
    "source",
    [
        'd.notes[0] == "x"',
        '"x" in finding.text',
        'say(finding).startswith("Recalibrate")',
        're.search("x", summary.advice[0])',
        'def f(d):\n    return [one for one in d.notes if "overfits" in one]',
        'def f(d):\n    for line in d.advice:\n        if line.startswith("No"):\n            return line',
        "def f(d):\n    said = say(d)\n    return said.partition(':')[0]",
        "finding.text[11:]",
    ],
)
def test_code_that_reads_a_sentence_is_found(source):
    assert reading(source) != []


@pytest.mark.parametrize(
    "source", ['finding.kind == "recalibrate"', "print(finding.text)", "' '.join(say(f) for f in x)", "d.notes is None"]
)
def test_code_that_does_not_is_left_alone(source):
    assert reading(source) == []


PACKAGES = sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("package", PACKAGES)
def test_no_code_reads_a_sentence(package):
    """The table of sentences itself may look at the words that it puts together."""
    under = SOURCE / package
    modules = [under] if under.is_file() else sorted(under.rglob("*.py"))
    found = {
        str(path.relative_to(SOURCE)): reading(path.read_text(encoding="utf-8"))
        for path in modules
        if path != SOURCE / "_findings" / "sentences.py"
    }
    assert {name: lines for name, lines in found.items() if lines} == {}
