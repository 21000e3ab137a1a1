"""The command that tests: is the score calibrated, and do the features know more than it does?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli import _options as opt
from scoreprism.cli._output import emit, fail_gates, make_answer, say
from scoreprism.cli._reports import find_suspects, read_rows

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism._document.model import Document
    from scoreprism.cli._read_sample import ReadSample

#: The tests that can be named: those of `scoreprism.inference`, which takes a second to load.
METHODS = (
    "min-p", "kuiper", "bins", "lr-platt", "lr-spline", "corp", "spiegelhalter", "hosmer-lemeshow",
    "score-temperature", "score-vector", "score-polynomial", "top-label",
)  # fmt: skip
GROUPING_METHODS = ("projected-covariance", "bootstrap")
#: What a small p-value means for a model.
_REJECTED = {"calibration": "is not calibrated", "grouping": "loses information that is in the features"}


@click.command(
    cls=opt.Command, example="scoreprism test credit.csv --target default --score model --features age,amount"
)
@click.argument("file", type=opt.FILE)
@opt.options(
    opt.SCORES, opt.MODELS, opt.FEATURES, opt.READING, opt.LOGITS,
    opt.in_numbers("--method", type=click.Choice(METHODS, case_sensitive=False), default="min-p", metavar="NAME",
                   help=f"Calibration test: {', '.join(METHODS[:8])}; for several classes also "
                   f"{', '.join(METHODS[8:])}."),
    opt.in_numbers("--grouping-method", type=click.Choice(GROUPING_METHODS), default="projected-covariance",
                   metavar="NAME", help="Grouping test: projected-covariance or bootstrap."),
    opt.in_numbers("--resamples", type=click.IntRange(min=1), default=999, metavar="N",
                   help="Number of draws, for tests that draw outcomes from the scores."),
    opt.RANDOM, opt.MISCALIBRATED, opt.SHOWN,
)  # fmt: skip
def test(file: str, form: str, **given: Any) -> None:
    """
    Test whether the scores in FILE are calibrated and, with features, whether they lose information.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. P-values are also given after Holm's correction over
    the models.
    """
    data = read_rows(file, given)
    say(f"seed: {given['seed']}")
    results = _run(data.sample, given)
    emit(_make_answer(data, results, given), form)
    if given["fail_if_miscalibrated"]:
        from scoreprism._calibration_test.gate import judge_calibration

        pvalues = {name: result.pvalue for name, result in results["calibration"].items()}
        fail_gates(judge_calibration(pvalues, given["alpha"]))


def _run(sample: Sample, given: dict[str, Any]) -> Any:
    """Run the tests; results by subject and model."""
    from scoreprism._core.checks import quote
    from scoreprism._sample.sample import warn_of_prediction
    from scoreprism.inference import calibration_test, grouping_test

    models = {name: sample.model(name) for name in sample.predictions}
    for name, model in models.items():
        warn_of_prediction(model, f"score {quote(name)}")
    shared = {"random_state": given["seed"], "n_jobs": given["jobs"]}
    how = {"method": given["method"], "n_resamples": given["resamples"], **shared}
    results = {"calibration": {name: calibration_test(model, **how) for name, model in models.items()}}
    if sample.X is not None:
        how = {"method": given["grouping_method"], **shared}
        results["grouping"] = {name: grouping_test(model, **how) for name, model in models.items()}
    return results


def _make_answer(data: ReadSample, results: Any, given: dict[str, Any]) -> Document:
    from scoreprism._document.model import Block, Callout, Paragraph, make_table
    from scoreprism._kernels.holm import holm

    rows: list[tuple[Any, ...]] = []
    rejected: list[str] = []
    for about, tests in results.items():
        adjusted = holm([test.pvalue for test in tests.values()])
        for (name, test), p in zip(tests.items(), adjusted, strict=True):
            rows.append((name, about, test.method, test.statistic, test.pvalue, p, test.n, test.n_resamples))
            rejected += [f"{name} {_REJECTED[about]}"] if p <= given["alpha"] else []
    columns = [
        ("model", "model", "text"), ("about", "test of", "text"), ("method", "method", "text"),
        ("statistic", "statistic", "short"), ("pvalue", "p", "pvalue"), ("pvalue_holm", "p, Holm", "pvalue"),
        ("n", "rows", "count"), ("n_resamples", "draws", "count"),
    ]  # fmt: skip
    note = "A small p is evidence against the hypothesis; a large one does not prove it."
    table = make_table("tests", "", columns, rows, note)
    hypotheses = dict.fromkeys(test.hypothesis for tests in results.values() for test in tests.values())
    findings = [f.about(name) for tests in results.values() for name, test in tests.items() for f in test.findings]
    more: list[Block] = [Paragraph(f"Hypothesis: {text}.") for text in hypotheses]
    more += map(Callout, (*findings, *find_suspects(data.doubts)))
    settings = {"seed": given["seed"], "method": given["method"], "n_resamples": given["resamples"]}
    level = f"at level {given['alpha']:g}"
    headline = f"Significant {level}: {'; '.join(rejected)}." if rejected else f"Nothing significant {level}."
    title = f"Tests of {', '.join(data.sample.predictions)}"
    return make_answer("tests", title, headline, table, more=more, origin=data.origin, settings=settings)
