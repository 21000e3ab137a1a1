"""Tutorials are scripts that the site runs: their form, that they use public names only, and that what they say is so."""

import ast
import importlib
import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = {page.stem: page for page in sorted(DOCS.glob("plot_*.py"))}
NAMES = [
    "plot_1_credit",
    "plot_2_clinical",
    "plot_3_forecasters",
    "plot_4_network",
    "plot_5_scale",
    "plot_6_monitoring",
    "plot_7_your_own",
]
every_page = pytest.mark.parametrize("name", NAMES)


def read(name):
    return PAGES[name].read_text(encoding="utf-8")


def list_cells(name):
    """The opening text, then texts and pieces of code in order, as sphinx-gallery cuts them: after each line ``# %%``."""
    text = read(name)
    opening = re.match(r'"""\n(.*?)\n"""\n', text, re.DOTALL)
    cells = [("text", opening[1])]
    for cell in text[opening.end() :].split("\n# %%\n")[1:]:
        lines = cell.split("\n")
        count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        cells.append(("text", "\n".join(line[2:] for line in lines[:count])))
        if code := "\n".join(lines[count:]).strip():
            cells.append(("code", code))
    return cells


def read_prose(name):
    """All texts of a tutorial on one line."""
    return " ".join(" ".join(text for kind, text in list_cells(name) if kind == "text").split())


def test_these_are_all_tutorials():
    assert list(PAGES) == NAMES


@every_page
def test_a_tutorial_asks_one_question_and_ends_with_an_answer(name):
    cells = list_cells(name)
    opening = cells[0][1]
    label, title, line = re.match(r"\.\. _(tutorial-[a-z-]+):\n\n(.+)\n(=+)\n", opening).groups()
    assert len(line) == len(title)
    assert "?" in opening.split(line)[1], "the opening asks what the tutorial answers"
    *_, (before, heading), (kind, code), (after, end) = cells
    assert (before, kind, after) == ("text", "code", "text")
    assert heading.rstrip().splitlines()[-2:] == ["The answer", "----------"] or "The answer\n----------" in heading
    assert "print(" in code, "the answer has numbers"
    assert len(end.split()) > 20, "and words"
    assert read(name).count(f":ref:`{label}`") == 0


@every_page
def test_headings_are_underlined_to_their_length(name):
    for kind, text in list_cells(name):
        lines = text.splitlines()
        for above, line in zip(lines, lines[1:], strict=False):
            if kind == "text" and re.fullmatch(r"-{3,}|={3,}", line):
                assert len(above) == len(line), above


@every_page
def test_a_tutorial_is_read_in_ten_minutes(name):
    """At 200 words and 15 lines of code a minute."""
    words = len(read_prose(name).split())
    lines = sum(len(code.splitlines()) for kind, code in list_cells(name) if kind == "code")
    assert words / 200 + lines / 15 < 15, (words, lines)
    assert words / 200 < 8, words


def test_titles_and_labels_differ():
    openings = [list_cells(name)[0][1] for name in NAMES]
    assert len({text.splitlines()[0] for text in openings}) == len({text.splitlines()[2] for text in openings}) == 7


def test_labels_that_are_linked_exist():
    labels = {re.match(r"\.\. _(.+):", list_cells(name)[0][1])[1] for name in NAMES}
    for name in NAMES:
        assert set(re.findall(r":ref:`[^<`]*<([^>]+)>`", read_prose(name))) <= labels


@every_page
def test_tutorials_use_public_names_only(name):
    imported = 0
    for node in ast.walk(ast.parse(read(name))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "scoreprism":
            module = importlib.import_module(node.module)
            public = {*module.__all__, *getattr(module, "PUBLIC_PACKAGES", ())}
            assert {alias.name for alias in node.names} <= public, node.module
            imported += len(node.names)
        if isinstance(node, ast.Attribute):
            assert node.attr == "_fit" or not node.attr.startswith("_"), node.attr
    assert imported


@every_page
def test_tutorials_fix_their_seeds(name):
    assert "default_rng()" not in read(name)
    assert "random_state=None" not in read(name)
    assert "np.random." not in read(name).replace("np.random.default_rng(", "")


# ── what the texts say, run against the numbers ─────────────────────────────────────────────────────


def separate(interval):
    """Whether an interval does not contain 0."""
    return interval.low > 0 or interval.high < 0


def beyond(difference, sign=1):
    """Whether a difference of losses is significant and has this sign."""
    return sign * difference.risk > 1.96 * difference.risk_std_error


def net(names, model, threshold=0.1):
    return names["net_benefit"](names["y"][names["new"]], names["three"][model], thresholds=[threshold]).benefit[0]


def holds(estimate, value):
    """Whether the interval of a metric contains a value."""
    return estimate["low"] <= value <= estimate["high"]


def metric(names, which, fresh):
    """A line of the tables of tutorial 2."""
    table = names["evaluate"](
        *((names["y"][names["new"]], names["updated"]) if fresh else (names["y"], names["p"])), metrics=[which]
    )
    return table.to_dict()["metrics"][which]


def elementary(names, model, threshold):
    """The loss of those who act at a threshold, of tutorial 3."""
    from scoreprism.losses import Elementary

    return Elementary(threshold).loss(names["forecasts"][model], names["rain"]).mean()


#: Sentences of a tutorial, each with what must be true of the variables at its end.
CLAIMS = {
    "plot_1_credit": {
        "most of what boosting loses beyond the forest, it loses there": lambda v: (
            v["models_compared"].difference("boosting", "forest").terms["reliability"]
            > 0.7 * v["models_compared"].difference("boosting", "forest").risk
        ),
        "The interval of the reliability lies above 0": lambda v: (
            v["models_compared"].difference("boosting", "forest").interval("reliability").low > 0
        ),
        "so there is no evidence that the forest has learned more": lambda v: (
            not any(
                separate(v["models_compared"].difference("boosting", "forest").interval(term))
                for term in ("grouping", "irreducible")
            )
        ),
        "The interval of the refinement contains 0": lambda v: (
            not separate(v["after"].difference("boosting", "recalibrated").interval("refinement"))
        ),
        "the forest, which has the smallest loss": lambda v: v["after"].ranking()[0] == "forest",
        "Only the interval of boosting as it was trained lies above 0": lambda v: (
            [name for name in v["scores"] if name != "forest" and beyond(v["after"].difference(name, "forest"))]
            == ["boosting"]
        ),
        "these decisions are not shown to be cheaper": lambda v: abs(v["difference"].mean()) < v["margin"] or v["difference"].mean() > 0,
        "what it loses beyond the others is miscalibration": lambda v: v["share"] > 0.8,
    },
    "plot_2_clinical": {
        "Nearly always": lambda v: ((v["p"] > 0.5) == v["y"]).mean() > 0.9,
        "We have more patients than that": lambda v: v["needed"].n < len(v["y"]),
        "The interval of O:E lies below 1": lambda v: metric(v, "observed_expected_ratio", fresh=False)["high"] < 1,
        "The interval of the slope lies below 1 as well": lambda v: (
            metric(v, "calibration_slope", fresh=False)["high"] < 1
        ),
        "At 10 % it is above 0": lambda v: net(v, "as delivered") > 0,
        "their intervals contain these values": lambda v: (
            holds(metric(v, "observed_expected_ratio", fresh=True), 1)
            and holds(metric(v, "calibration_slope", fresh=True), 1)
            and holds(metric(v, "calibration_in_the_large", fresh=True), 0)
            and holds(metric(v, "ici", fresh=True), 0)
        ),
        "far fewer patients are treated, and the net benefit is larger": lambda v: (
            (v["updated"] > 0.1).mean() < 0.6 * (v["p"][v["new"]] > 0.1).mean()
            and net(v, "updated") > net(v, "as delivered")
        ),
        "The decomposition puts a lower bound on that": lambda v: v["found"].lower_bound("grouping").value > 0,
    },
    "plot_3_forecasters": {
        "Bold comes last": lambda v: v["table"].ranking()[-1] == "Bold",
        "its refinement is the smallest of the three": lambda v: (
            min(v["forecasts"], key=lambda name: v["table"][name].terms["refinement"]) == "Bold"
        ),
        "For decisions at middling chances Bold is the best forecaster; for decisions at small or large ones it is the worst": lambda v: (
            [max(v["forecasts"], key=lambda name: elementary(v, name, at)) for at in (0.1, 0.9)] == ["Bold"] * 2
            and min(v["forecasts"], key=lambda name: elementary(v, name, 0.45)) == "Bold"
        ),
        "their average is not": lambda v: v["found"].calibration.pvalue < 0.01,
        "The mean of all three is not sufficient": lambda v: v["found"].sufficiency.pvalue < 0.01,
        "For the mean of West and Ground the test finds no such evidence": lambda v: (
            v["sufficiency_test"](v["rain"], v["pair"]).pvalue > 0.05
        ),
        "Here West and Ground have more than 1 each": lambda v: v["weights"][0] > 1 and v["weights"][1] > 1,
        "Bold gets little weight": lambda v: abs(v["weights"][2]) < 0.3,
        "The stack is close to it": lambda v: abs(v["final"].difference("stack", "true chance").risk) < 0.01,
        "The average of all three is better than each of them": lambda v: (
            v["final"]["mean"].risk < min(v["final"][name].risk for name in v["forecasts"])
        ),
    },
    "plot_4_network": {
        "A good part of the log loss is miscalibration": lambda v: v["found"].lower_bound("reliability").value > 0.1 * v["found"].risk,
        "Its lower bound is above 0": lambda v: v["found"].lower_bound("grouping").value > 0,
        "A temperature below 1": lambda v: v["temperature"].temperature_ < 1,
        "The reliability is gone, and the refinement is what it was": lambda v: (
            abs(v["both"]["recalibrated"].terms["reliability"]) < 0.005
            and not separate(v["both"].difference("as trained", "recalibrated").interval("refinement"))
        ),
        "Neither is shown to be better, and the matrix has clearly learned noise": lambda v: (
            beyond(v["table"].difference("Dirichlet", "temperature"))
            and not beyond(v["table"].difference("vector scaling", "temperature"), sign=-1)
        ),
    },
    "plot_5_scale": {
        "The coast stands out": lambda v: v["worst"] == "coast",
        "too small to be worth a change": lambda v: (
            "not worth a change" in repr(v["found"].summary())
        ),
        "In March the loss rises": lambda v: separate(v["change"]) and v["change"].low > 0,
        "It is the outcomes": lambda v: dict(
            zip(zip(*(v["drift"].mix().to_frame("polars")[c] for c in ("period", "part")), strict=True),
                v["drift"].mix().to_frame("polars")["low"] > 0, strict=True)
        ) == {("2026-02", "mix"): False, ("2026-02", "outcomes"): False, ("2026-03", "mix"): False, ("2026-03", "outcomes"): True},
        "In March the map of February would have done harm": lambda v: (
            v["drift"].stale().to_frame("polars").filter(period="2026-03", part="gains")["high"][0] < 0
        ),
        "Recalibrate the coast": lambda v: v["after"].terms["reliability"] < 0.1 * v["before"].terms["reliability"],
    },
    "plot_6_monitoring": {
        "About one day in twenty": lambda v: 0.02 < v["calls"] / len(v["calm"]) < 0.1,
        "The monitor names the day on which it probably began": lambda v: v["alarm"].since == str(v["NEW_CHANNEL"]),
        "Both regions are flagged": lambda v: v["alarm"].rows > 0 and all(v["flags"].values()),
        "it is calibrated again": lambda v: v["monitor"].alarm is None,
    },
    "plot_7_your_own": {
        "The balanced model costs more, and the difference is reliability": lambda v: (
            v["by_cost"].difference("balanced", "plain").terms["reliability"]
            > 0.95 * v["by_cost"].difference("balanced", "plain").risk
        ),
        "One number, fitted to 500 machines, repairs that": lambda v: (
            not beyond(v["final"].difference("balanced, shift", "plain"))
            and beyond(v["final"].difference("balanced", "balanced, shift"))
        ),
    },
}  # fmt: skip


@every_page
def test_sentences_that_are_checked_stand_in_the_text(name):
    prose = read_prose(name)
    assert len(CLAIMS[name]) >= 2
    for sentence in CLAIMS[name]:
        assert sentence in prose


@pytest.mark.slow
@every_page
def test_a_tutorial_runs_and_what_it_says_is_so(name, tmp_path, monkeypatch, capsys):
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    if name == "plot_5_scale":
        pytest.importorskip("duckdb")
    names = {"__name__": "__main__"}
    with warnings.catch_warnings(), mpl.rc_context({"backend": "agg"}):
        warnings.simplefilter("ignore")  # small samples make for notes that have nothing to do with the page
        exec(compile(read(name), name, "exec"), names)  # noqa: S102 - our own pages
        plt.close("all")
        wrong = [sentence for sentence, is_so in CLAIMS[name].items() if not is_so(names)]
    assert not wrong
    assert "nan" not in capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "a tutorial leaves no files behind where it runs"
