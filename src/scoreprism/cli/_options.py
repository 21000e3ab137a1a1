"""The options that commands share, in one place. Nothing but click is loaded here."""

from __future__ import annotations

import csv
import math
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

#: The option for each argument that messages of the library name.
OPTION_OF = {
    "X": "--features", "calibrators": "--method", "cells": "--cells", "clip": "--clip",
    "confidence_level": "--confidence", "engine": "--engine", "fold_column": "--fold-column",
    "fold_key": "--fold-key", "gate_on": "--gate-on", "groups": "--groups", "latent": "--latent", "loss": "--loss",
    "max_pvalue": "--alpha", "max_reliability": "--max-reliability", "n_jobs": "--jobs", "n_resamples": "--resamples",
    "order": "--order", "overwrite": "--force", "period": "--period", "pos_label": "--pos-label", "q": "--q",
    "random_state": "--seed", "sample_weight": "--weight", "score": "--score", "segments": "--segment",
    "target": "--target", "time": "--time", "verify_checksums": "--verify-checksums", "y": "--target",
    "y_proba": "--score", "y_true": "--target", "Sums.to_json": "--save-sums",
    "to_json()": "`scoreprism recalibrate --save`",
}  # fmt: skip
#: A hyphen at which no line is broken.
_HYPHEN = "\u2011"
#: More processes would only take memory.
_MOST_JOBS = 4 * (os.cpu_count() or 1)


# ── types: what click's own let through, refused before any work ────────────────────────────────────


class Finite(click.FloatRange):
    """A finite number in a range; click's ranges let NaN through, which is neither above nor below anything."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Named(click.types.StringParamType):
    """A name that is not empty: an unset shell variable would otherwise choose a default silently."""

    def __init__(self, what: str) -> None:
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name."""
        if not str(value).strip():
            self.fail(f"the name of a {self.what} must not be empty. Is a shell variable not set?", param, ctx)
        return str(value)


class Loss(click.types.StringParamType):
    """A loss by name, with parameters after a colon."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The loss."""
        from scoreprism.losses import get_loss

        name, _, rest = str(value).partition(":")
        parameters = {}
        for part in filter(None, map(str.strip, rest.split(","))):
            key, _, number = part.partition("=")
            try:
                parameters[key.strip()] = float(number)
            except ValueError:
                self.fail(f"{part!r} is not NAME=NUMBER, as in tsallis:alpha=1.5.", param, ctx)
        return get_loss(name, **parameters)


def _split_names(_ctx: click.Context, _param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Split lists of names at commas; a name that holds a comma is in double quotes."""
    return tuple(name.strip() for text in texts for line in csv.reader([text]) for name in line if name.strip())


# ── help under headings ─────────────────────────────────────────────────────────────────────────────


class Option(click.Option):
    """An option listed under a heading of the help; its range is left out, because errors give it."""

    def __init__(self, *args: Any, section: str = "Options", **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """The notes in brackets."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help lists options under headings and ends with an example; warnings become lines on stderr."""

    def __init__(self, *args: Any, example: str = "", **extra: Any) -> None:
        super().__init__(*args, **{"context_settings": {"show_default": True}, **extra})
        self.example = example

    def invoke(self, ctx: click.Context) -> Any:
        """Call it."""
        from scoreprism.cli._output import show_warnings

        with show_warnings():
            return super().invoke(ctx)

    def get_help(self, ctx: click.Context) -> str:
        """The help, with hyphens as they are typed."""
        return super().get_help(ctx).replace(_HYPHEN, "-")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, on one line that can be copied."""
        if self.example:
            formatter.write(f"\nExample:\n  {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading."""
        sections: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                names, text = record
                sections[getattr(parameter, "section", "Options")].append((names, text.replace("-", _HYPHEN)))
        sections["Options"] = sections.pop("Options", [])  # the help itself, last
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def options(*groups: Sequence[Callable[..., Any]] | Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds options in the order they are given."""
    decorators = [add for group in groups for add in (group if isinstance(group, tuple) else (group,))]

    def decorate(command: Any) -> Any:
        for add in reversed(decorators):
            command = add(command)
        return command

    return decorate


in_columns, in_reading, in_numbers, in_scale, in_output, in_gates = (
    partial(click.option, cls=Option, section=heading)
    for heading in ("Columns", "Reading", "Numbers", "At scale", "Output", "Gates")
)
FILE = Named("file")

# ── which columns mean what ─────────────────────────────────────────────────────────────────────────

SCORES = (
    in_columns("--target", metavar="COLUMN", help="Outcomes."),
    in_columns("--score", "scores", multiple=True, metavar="COLUMN",
               help="Predicted probability of the event; repeat it for several models. For several classes, 'p_*' or "
               "'p_a,p_b,p_c' is one model."),
    in_columns("--pos-label", metavar="LABEL",
               help="Positive class: scores are probabilities of it. Not needed for outcomes 0 and 1."),
    in_columns("--weight", metavar="COLUMN", help="Row weights."),
)  # fmt: skip
MODELS = in_columns(
    "--models", multiple=True, metavar="COLUMNS",
    help="One model per column: 'p_*' or 'p_old,p_new', instead of repeating --score.",
)  # fmt: skip
FEATURES = (
    in_columns("--features", multiple=True, callback=_split_names, metavar="A,B,C",
               help="Features, for the grouping term."),
    in_columns("--all-features", is_flag=True,
               help="Use every column without another role as a feature, except those that look like scores of the "
               "same target; name these in --features to keep them."),
)  # fmt: skip
KNOWN = (
    in_columns("--q", metavar="COLUMN", help="P(event | features), if it is known."),
    in_columns("--latent", metavar="COLUMN", help="P(event | latent state), if it is known."),
    in_columns("--groups", metavar="COLUMN",
               help="Groups of dependent rows, such as the visits of one patient."),
)  # fmt: skip
PARTS = (
    in_columns("--segment", "segments", multiple=True, metavar="COLUMN",
               help="Subpopulations to report one by one; repeat it for several columns."),
    in_columns("--time", metavar="COLUMN", help="Dates or periods."),
    in_columns("--time-format", metavar="FORMAT", help="Date format, for example %d.%m.%Y."),
)  # fmt: skip

# ── how files are read ──────────────────────────────────────────────────────────────────────────────

TEXT = (
    in_reading("--delimiter", metavar="CHARACTER", help="Field separator; detected by default."),
    in_reading("--decimal-comma", is_flag=True, help="Numbers are written as 0,5."),
    in_reading("--encoding", default="utf-8", metavar="NAME", help="Encoding of text files."),
    in_reading("--drop-missing", is_flag=True, help="Drop rows with missing values and print how many."),
    in_reading("--strict", is_flag=True, help="Refuse files that may be incomplete, and verify checksums."),
    in_reading("--max-gigabytes", type=Finite(min=0.0, min_open=True), default=8.0, metavar="GB",
               help="Largest size of the data in memory."),
)  # fmt: skip
READING = (*TEXT, in_reading("--as-given", is_flag=True, help="Accept reversed scores."))
LOGITS = in_reading(
    "--logits", is_flag=True, help="Scores are logits: log-odds of the event, or for several classes a column each."
)

# ── how numbers are made ────────────────────────────────────────────────────────────────────────────

_SHARE: dict[str, Any] = {"type": Finite(0.0, 1.0, min_open=True, max_open=True), "metavar": "LEVEL"}
NUMBERS = (
    in_numbers("--loss", "losses", type=Loss(), multiple=True, default=("log", "brier"), metavar="NAME",
               help="Loss, with parameters as in tsallis:alpha=1.5; repeat it for several. See `scoreprism losses`."),
    in_numbers("--clip", type=Finite(0.0, 0.5, min_open=True, max_open=True), metavar="DISTANCE",
               help="Keep scores at least this far from 0 and 1."),
    in_numbers("--confidence", **_SHARE, default=0.95, help="Confidence level."),
    in_numbers("--min-gain", type=Finite(0.0, 1.0, max_open=True), default=0.01, metavar="SHARE",
               help="Smallest gain worth a change, as a share of the loss."),
)  # fmt: skip
RANDOM = (
    in_numbers("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Random seed (printed to stderr)."),
    in_numbers(
        "--jobs", type=click.IntRange(1, _MOST_JOBS), metavar="N", help="Number of processes; does not change results."
    ),
)

#: Engines that open files, and lengths of periods: those of `scoreprism.scale`, which is not loaded here.
ENGINES, PERIODS = ("polars", "duckdb", "dask", "spark"), ("day", "week", "month", "quarter", "year")
#: Where data are too many for memory: any of these, several files, a glob or a folder make a report from sums.
SCALE = (
    in_scale("--engine", type=click.Choice(ENGINES), metavar="NAME",
             help="Sum the rows where they are: polars (default for several files), duckdb, dask or spark."),
    in_scale("--period", type=click.Choice(PERIODS), metavar="LENGTH",
             help="Length of a period of --time: day, week, month (default), quarter or year."),
    in_scale("--cells", type=click.IntRange(min=8), metavar="N",
             help="Number of cells of the score, if it has more distinct values (default 1024)."),
    in_scale("--fold-column", metavar="COLUMN", help="Folds; drawn by default."),
    in_scale("--fold-key", metavar="COLUMN", help="Integers hashed to folds: rows with the same key stay together."),
    in_scale("--sums", multiple=True, metavar="FILES",
             help="Read what --save-sums saved, instead of FILE: a path, a glob or a folder."),
    in_scale("--verify-checksums", is_flag=True,
             help="Verify the checksums of Parquet pages first, which reads the columns twice. A single file in "
             "memory is always verified."),
)  # fmt: skip


# ── what is printed, and what makes a run fail ──────────────────────────────────────────────────────


def _remember_quiet(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta["quiet"] = value


QUIET = in_output(
    "--quiet", "-q", is_flag=True, expose_value=False, callback=_remember_quiet, help="Print only errors to stderr."
)
FORCE = in_output("--force", is_flag=True, help="Overwrite existing files.")
FORMAT = in_output(
    "--format",
    "form",
    type=click.Choice(("table", "json", "csv", "md")),
    default="table",
    metavar="NAME",
    help="Output format: table, json, csv or md.",
)
SHOWN = (FORMAT, QUIET)

_ALPHA = in_gates("--alpha", **_SHARE, default=0.05, help="Significance level, over all models together (Holm).")
_REJECTED = "Exit 1 if a test rejects calibration"
MISCALIBRATED = (in_gates("--fail-if-miscalibrated", is_flag=True, help=f"{_REJECTED}."), _ALPHA)
GATES = (
    in_gates("--max-reliability", type=Finite(min=0.0), metavar="LOSS",
             help="Exit 1 if the reliability term of a model, by the first loss, is larger."),
    in_gates("--gate-on", type=click.Choice(("estimate", "lower", "upper")), default="estimate", metavar="NAME",
             help="What to compare with it: the estimate, or its lower or upper bound at --confidence. lower fails "
             "only if an excess is shown, upper unless it is ruled out."),
    in_gates("--fail-if-miscalibrated", is_flag=True,
             help=f"{_REJECTED}, unless recalibration is shown to gain less than --min-gain."),
    _ALPHA,
)  # fmt: skip
