"""The command that tests: is the score calibrated, and do the features know more than it does?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._options import (
    FEATURES,
    JUDGED,
    MISCALIBRATED,
    MODELS,
    RANDOM,
    READING,
    SHOWN,
    Asked,
    Command,
    Option,
    options,
)
from scoreprism.cli._output import Voice, emit, fail_gates
from scoreprism.cli._types import FILE

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism._document.model import Document
    from scoreprism.cli._read_sample import ReadSample


@click.command(cls=Command, example="scoreprism test credit.csv --target default --score model --features age,amount")
@click.argument("file", type=FILE)
@options(
    JUDGED, MODELS, FEATURES, READING,
    click.option("--method", cls=Option, section="Numbers", default="min-p", show_default=True, metavar="NAME",
                 help="The test of calibration: min-p, kuiper, bins, lr-platt, lr-spline, corp, spiegelhalter, "
                 "hosmer-lemeshow; for several classes also score-temperature, score-vector, score-polynomial, "
                 "top-label."),
    click.option("--grouping-method", cls=Option, section="Numbers", default="projected-covariance",
                 show_default=True, metavar="NAME", help="The test of grouping: projected-covariance or bootstrap."),
    click.option("--resamples", cls=Option, section="Numbers", type=click.IntRange(min=1), default=999,
                 show_default=True, help="Draws of tests that draw outcomes from the scores."),
    RANDOM, MISCALIBRATED, SHOWN,
)  # fmt: skip
def test(file: str, **given: Any) -> None:
    """
    Test whether the scores in FILE are calibrated and, with features, whether they lose information.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. P-values are also given after Holm's correction over
    the models.
    """
    from scoreprism._calibration_test.calibration_tests import CALIBRATION_TESTS
    from scoreprism._core.checks import parse_choice

    parse_choice(given["method"], CALIBRATION_TESTS, "--method")
    voice = Voice(given["quiet"])
    with voice.listening():
        data = Asked(file, given).read()
        for note in data.notes:
            voice.say(f"note: {note}")
        voice.say(f"seed: {given['seed']}")
        results = _run(data.sample, given)
    emit(_answer(data, results, given), given["form"])
    if given["fail_if_miscalibrated"]:
        from scoreprism._calibration_test.gate import judge_calibration

        pvalues = {name: found.pvalue for name, found in results["calibration"].items()}
        fail_gates(judge_calibration(pvalues, given["alpha"]))


def _run(sample: Sample, given: dict[str, Any]) -> Any:
    """Tests by what they are about and by model."""
    from scoreprism._sample.sample import warn_of_prediction
    from scoreprism.inference import calibration_test, grouping_test

    models = {name: sample.model(name) for name in sample.predictions}
    for name, one in models.items():
        warn_of_prediction(one, "y_proba" if len(models) == 1 else f"y_proba[{name!r}]")
    shared = {"random_state": given["seed"], "n_jobs": given["jobs"]}
    how = {"method": given["method"], "n_resamples": given["resamples"], **shared}
    found = {"calibration": {name: calibration_test(one, **how) for name, one in models.items()}}
    if sample.X is not None:
        method = given["grouping_method"]
        found["grouping"] = {name: grouping_test(one, method=method, **shared) for name, one in models.items()}
    return found


def _answer(data: ReadSample, results: Any, given: dict[str, Any]) -> Document:
    from scoreprism._document.model import Block, Callout, Paragraph, make_table
    from scoreprism._kernels.holm import holm
    from scoreprism.cli._answers import answer
    from scoreprism.cli._output import plain_settings
    from scoreprism.cli._summaries import find_suspects

    rows: list[tuple[Any, ...]] = []
    for about, tests in results.items():
        adjusted = holm([found.pvalue for found in tests.values()])
        for (name, found), p in zip(tests.items(), adjusted, strict=True):
            rows.append((name, about, found.method, found.statistic, found.pvalue, p, found.n, found.n_resamples))
    columns = [
        ("model", "model", "text"), ("about", "test of", "text"), ("method", "method", "text"),
        ("statistic", "statistic", "short"), ("pvalue", "p", "pvalue"), ("pvalue_holm", "p, Holm", "pvalue"),
        ("n", "rows", "count"), ("n_resamples", "draws", "count"),
    ]  # fmt: skip
    note = "A small p is evidence against the hypothesis; a large one does not prove it."
    table = make_table("tests", "Statistics and p-values", columns, rows, note)
    hypotheses = dict.fromkeys(found.hypothesis for tests in results.values() for found in tests.values())
    found = [one.about(name) for tests in results.values() for name, test in tests.items() for one in test.findings]
    more: list[Block] = [Paragraph(f"Hypothesis: {text}.") for text in hypotheses]
    more += [Callout(one) for one in (*found, *find_suspects(data.doubts))]
    settings = plain_settings(seed=given["seed"], method=given["method"], n_resamples=given["resamples"])
    headline = _headline(rows, given["alpha"])
    return answer("tests", headline, table, more=more, origin=data.origin, settings=settings)


def _headline(rows: list[tuple[Any, ...]], alpha: float) -> str:
    """Which hypotheses fall at a level, over all models."""
    words = {"calibration": "is not calibrated", "grouping": "loses information that is in the features"}
    found = [f"{name} {words[about]}" for name, about, *_, p, _n, _draws in rows if p <= alpha]
    at = f"at level {alpha:g}"
    return f"Significant {at}: {'; '.join(found)}." if found else f"Nothing significant {at}."
