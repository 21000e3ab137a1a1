"""The demonstration: four models of German credit, from training to the report."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli import _options as opt
from scoreprism.cli._output import check_outputs, emit, say, write_output
from scoreprism.cli._reports import shorten

if TYPE_CHECKING:
    import polars as pl

    from scoreprism.report import Report

#: The last line of a page of the demonstration, with a digest of everything above it.
_MARK = "<!-- written by scoreprism demo: {} -->\n"
_MARKED = re.compile(rb"<!-- written by scoreprism demo: ([0-9a-f]{64}) -->\n\Z")
#: A file of this many bytes is not one of our pages, and is not read.
_LARGEST = 10**8
#: Outcomes (1 for a bad credit), and the scores of the models.
TARGET, SCORES = "default", ("logistic", "forest", "average", "stacking")


@click.command(cls=opt.Command, example="scoreprism demo")
@opt.options(
    opt.RANDOM,
    opt.in_output("--output", "-o", type=opt.FILE, metavar="FILE", default="scoreprism-demo.html", help="Report file."),
    opt.in_output("--save-data", type=opt.FILE, metavar="FILE",
                  help="Only write the predictions of the models, to try commands on."),
    opt.FORCE, opt.SHOWN,
)  # fmt: skip
def demo(output: str, save_data: str | None, seed: int, jobs: int | None, force: bool, form: str) -> None:
    """
    Train two credit models on bundled data, combine them in two ways, and report on all four.

    Writes the report and prints its verdict. The unchanged page of an earlier demo is overwritten.
    """
    from scoreprism._document.model import require_ending as require_report_ending

    if save_data:
        from scoreprism.cli._apply_map import require_ending, write_frame

        (target,) = check_outputs(save_data, force=force)
        require_ending(target)
        write_frame(make_predictions(), target, None, overwrite=force)
        return
    writer = require_report_ending(output)
    force = force or _is_ours(Path(output))
    (target,) = check_outputs(output, force=force)
    made = _make_report(seed, jobs)
    text = getattr(made, writer)()
    write_output(target, _mark(text) if writer == "to_html" else text, force=force)
    emit(shorten(made), form)
    say(f"open {target} in a browser")


def _mark(page: str) -> str:
    """Mark a page as written by the demonstration."""
    return page + _MARK.format(hashlib.sha256(page.encode("utf-8")).hexdigest())


def _is_ours(path: Path) -> bool:
    """Whether a file is an unchanged page of the demonstration."""
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size < _LARGEST else b""
    except OSError:
        return False
    mark = _MARKED.search(content)
    return mark is not None and hashlib.sha256(content[: mark.start()]).hexdigest().encode() == mark[1]


def _make_report(seed: int, jobs: int | None) -> Report:
    from scoreprism.datasets import load_german_credit
    from scoreprism.report import make_report

    say("training a logistic regression and a forest on 500 applicants …")
    rows = make_predictions()
    say(f"evaluating them, their average and a stack of them on the other {rows.height} …")
    features = rows.drop(TARGET, *SCORES)
    return make_report(
        rows[TARGET], {name: rows[name] for name in SCORES}, features, segments={"housing": features["housing"]},
        random_state=seed, n_jobs=jobs, title="German credit: who will not pay back?",
        notes=[f"Data: {load_german_credit().attribution}"],
    )  # fmt: skip


def make_predictions() -> pl.DataFrame:
    """Train two models on half of the German credit data, and score the other half with them and with two ensembles."""
    import numpy as np
    import polars as pl
    from sklearn.model_selection import cross_val_predict

    from scoreprism.datasets import load_german_credit
    from scoreprism.ensembles import Stacking

    data = load_german_credit("polars", words=True)
    X = data.X.to_dummies([name for name, dtype in data.X.schema.items() if dtype == pl.String]).to_numpy()
    order = np.random.default_rng(0).permutation(data.y.size)
    learn, judge = order[: order.size // 2], np.sort(order[order.size // 2 :])
    known, scores = {}, {}
    for name, model in _make_models().items():
        known[name] = cross_val_predict(model, X[learn], data.y[learn], method="predict_proba")[:, 1]
        scores[name] = model.fit(X[learn], data.y[learn]).predict_proba(X[judge])[:, 1]
    average = np.mean(list(scores.values()), axis=0)
    stack = Stacking().fit(known, data.y[learn]).predict_proba(scores)[:, 1]
    columns = {name: values.round(6) for name, values in (scores | {"average": average, "stacking": stack}).items()}
    return pl.DataFrame({TARGET: data.y[judge], **columns}).hstack(data.X[judge.tolist()])


def _make_models() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "forest": RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
    }
