"""The options that commands share, in one place, and what becomes of them. Nothing but click is loaded here."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scoreprism.cli._types import Finite, Jobs

if TYPE_CHECKING:
    from scoreprism.cli._column_roles import GivenRoles
    from scoreprism.cli._read_sample import ReadOptions, ReadSample, ReadTable
    from scoreprism.losses import ProperLoss

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

FORMATS = ("table", "json", "csv", "md")

#: What the arguments of Python, as texts of the library name them, are called here.
OPTION_OF = {
    "X": "--features", "calibrators": "--method", "cells": "--cells", "clip": "--clip",
    "confidence_level": "--confidence", "engine": "--engine",
    "fold_column": "--fold-column", "fold_key": "--fold-key", "gate_on": "--gate-on", "groups": "--groups",
    "latent": "--latent", "loss": "--loss", "max_pvalue": "--alpha",
    "max_reliability": "--max-reliability", "n_jobs": "--jobs", "n_resamples": "--resamples", "order": "--order",
    "overwrite": "--force", "period": "--period", "pos_label": "--pos-label", "q": "--q", "random_state": "--seed",
    "sample_weight": "--weight", "score": "--score", "segments": "--segment", "target": "--target", "time": "--time",
    "verify_checksums": "--verify-checksums", "y": "--target", "y_proba": "--score", "y_true": "--target",
    "Sums.to_json": "--save-sums", "to_json()": "`scoreprism recalibrate --save`",
}  # fmt: skip


class Option(click.Option):
    """An option that stands under a heading of its own in the help."""

    def __init__(self, *args: Any, section: str = "Options", **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.section = section


class Command(click.Command):
    """A command whose help lists options under headings, and ends with an example."""

    def __init__(self, *args: Any, example: str = "", **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.example = example

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
                sections[getattr(parameter, "section", "Options")].append(record)
        sections["Options"] = sections.pop("Options", [])  # the help itself, last
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _option(section: str, *names: str, **extra: Any) -> Decorator[Any]:
    return click.option(*names, cls=Option, section=section, **extra)


def _several(section: str, *options: tuple[tuple[str, ...], dict[str, Any]]) -> tuple[Decorator[Any], ...]:
    return tuple(_option(section, *names, **extra) for names, extra in options)


#: Which columns mean what: of every command,
JUDGED = _several(
    "Columns",
    (("--target",), {"metavar": "COLUMN", "help": "The outcomes."}),
    (("--score", "scores"), {"multiple": True, "metavar": "COLUMN", "help": "Probabilities of the event; give it once "
      "per model. Several classes are one model: 'p_*' or 'p_a,p_b,p_c'."}),
    (("--pos-label",), {"metavar": "LABEL", "help": "Positive class: scores are probabilities "
      "of it. Not needed for outcomes 0 and 1."}),
    (("--weight",), {"metavar": "COLUMN", "help": "Weights of rows."}),
)  # fmt: skip
#: of those that take several models,
MODELS = _option(
    "Columns",
    "--models",
    multiple=True,
    metavar="COLUMNS",
    help="One model per column: 'p_*' or 'p_old,p_new', instead of --score for each.",
)
#: of those that look for grouping,
FEATURES = _several(
    "Columns",
    (("--features",), {"multiple": True, "metavar": "A,B,C", "help": "Features, for the grouping term."}),
    (
        ("--all-features",),
        {
            "is_flag": True,
            "help": "Every column without another role is a feature, but "
            "those that look like scores of the same target; name these in --features to keep them.",
        },
    ),
)
#: of those that split the loss into terms,
KNOWN = _several(
    "Columns",
    (("--q",), {"metavar": "COLUMN", "help": "P(event | features), where it is known."}),
    (("--latent",), {"metavar": "COLUMN", "help": "P(event | latent state), where it is known."}),
)
CLUSTER = _option(
    "Columns",
    "--groups",
    metavar="COLUMN",
    help="What rows have in common that are not independent: a patient, a customer, a household.",
)
#: and of those that look at parts of the rows.
PARTS = _several(
    "Columns",
    (("--segment", "segments"), {"multiple": True, "metavar": "COLUMN", "help": "Segments to look at one by one."}),
    (("--time",), {"metavar": "COLUMN", "help": "Dates or periods."}),
    (("--time-format",), {"metavar": "FORMAT", "help": "How times are written, for example %d.%m.%Y."}),
)

#: How the file is read.
READING = _several(
    "Reading",
    (("--delimiter",), {"metavar": "SIGN", "help": "What separates columns; found out by default."}),
    (("--decimal-comma",), {"is_flag": True, "help": "Numbers are written 0,5."}),
    (("--encoding",), {"default": "utf-8", "show_default": True, "help": "Encoding of text files."}),
    (("--drop-missing",), {"is_flag": True, "help": "Leave out rows with missing values and print how many."}),
    (("--strict",), {"is_flag": True, "help": "Refuse a file that may not be complete; verify checksums."}),
    (("--as-given",), {"is_flag": True, "help": "Accept reversed scores."}),
    (("--max-gigabytes",), {"type": Finite(min=0.0, min_open=True), "default": 8.0, "show_default": True,
      "metavar": "GB", "help": "Largest size of the data in memory."}),
)  # fmt: skip

#: The part of it that goes for rows without outcomes.
TEXT = (*READING[:5], READING[-1])

LOSS = _option(
    "Numbers",
    "--loss",
    "losses",
    multiple=True,
    default=("log", "brier"),
    show_default="log and brier",
    metavar="NAME",
    help="A loss; give it several times for several. Parameters as in tsallis:alpha=1.5. See `scoreprism losses`.",
)

#: How numbers are made.
NUMBERS = (
    LOSS,
    *_several(
        "Numbers",
        (("--clip",), {"type": Finite(0.0, 0.5, min_open=True, max_open=True), "metavar": "DISTANCE",
          "help": "Keep scores this far from 0 and 1."}),
        (
            ("--confidence",),
            {"type": Finite(0.0, 1.0, min_open=True, max_open=True), "default": 0.95, "show_default": True,
             "metavar": "SHARE", "help": "Confidence level."},
        ),
        (
            ("--min-gain",),
            {"type": Finite(0.0, 1.0, max_open=True), "default": 0.01, "show_default": True, "metavar": "SHARE",
             "help": "Share of the loss below which a gain is not worth a change."},
        ),
    ),
)  # fmt: skip
RANDOM = _several(
    "Numbers",
    (
        ("--seed",),
        {
            "type": click.IntRange(min=0),
            "default": 0,
            "show_default": True,
            "metavar": "N",
            "help": "Random seed (printed to stderr).",
        },
    ),
    (("--jobs",), {"type": Jobs(), "metavar": "N", "help": "Processes; results do not depend on it."}),
)

#: Engines that open files, and lengths of periods: those of `scoreprism.scale`, which is not loaded here.
ENGINES, PERIODS = ("polars", "duckdb", "dask", "spark"), ("day", "week", "month", "quarter", "year")
#: Where data are too many for memory: any of these, several files, a glob or a folder make a report from sums.
SCALE = _several(
    "At scale",
    (("--engine",), {"type": click.Choice(ENGINES), "metavar": "NAME", "help": "Sum the rows where they are, and "
      "work on sums: polars (default for several files), duckdb, dask or spark."}),
    (("--period",), {"type": click.Choice(PERIODS), "metavar": "LENGTH", "help": "Length of a period of --time: day, "
      "week, month (default), quarter or year."}),
    (("--cells",), {"type": click.IntRange(min=8), "metavar": "N", "help": "Cells of the score, where distinct scores "
      "are more; 1024 if not given."}),
    (("--fold-column",), {"metavar": "COLUMN", "help": "Folds; drawn if not given."}),
    (("--fold-key",), {"metavar": "COLUMN", "help": "Whole numbers, hashed to folds: rows of a key stay together."}),
    (("--sums",), {"multiple": True, "metavar": "FILES", "help": "Sums that --save-sums kept, instead of FILE; "
      "a path, a glob or a folder."}),
    (("--verify-checksums",), {"is_flag": True, "help": "Compare Parquet pages with their checksums first, which reads "
      "the columns once more. One file without these options is always verified."}),
)  # fmt: skip

#: What is printed.
QUIET = _option("Output", "--quiet", "-q", is_flag=True, help="Nothing on stderr but errors.")
FORCE = _option("Output", "--force", is_flag=True, help="Replace files that exist.")
FORMAT = _option(
    "Output",
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format.",
)
SHOWN = (FORMAT, QUIET)

#: What makes a run fail; whoever only tests knows no gain.
_ALPHA = _several(
    "Gates",
    (("--alpha",), {"type": Finite(0.0, 1.0, min_open=True, max_open=True), "default": 0.05,
      "metavar": "SHARE", "show_default": True, "help": "Its level, over all models together (Holm)."}),
)  # fmt: skip
_REFUTED = "Exit 1 if a test refutes calibration"
MISCALIBRATED = (_option("Gates", "--fail-if-miscalibrated", is_flag=True, help=f"{_REFUTED}."), *_ALPHA)
GATES = (
    *_several(
        "Gates",
        (("--max-reliability",), {"type": Finite(min=0.0), "metavar": "LOSS",
          "help": "Exit 1 if the reliability term of a model, by the first loss, is larger."}),
        (("--gate-on",), {"type": click.Choice(("estimate", "lower", "upper")), "default": "estimate",
          "show_default": True, "help": "What is compared with it: the estimate, or its bound at --confidence. "
          "lower: fail only where the excess is shown; upper: fail unless it is ruled out."}),
    ),
    _option(
        "Gates", "--fail-if-miscalibrated", is_flag=True,
        help=f"{_REFUTED}, unless recalibrating is shown to gain less than --min-gain.",
    ),
    *_ALPHA,
)  # fmt: skip


def options(*groups: Sequence[Decorator[Any]] | Decorator[Any]) -> Decorator[Any]:
    """A decorator that adds options in the order they are given."""
    flat = [one for group in groups for one in (group if isinstance(group, tuple) else (group,))]

    def decorate(command: Any) -> Any:
        for one in reversed(flat):
            command = one(command)
        return command

    return decorate


@dataclass(frozen=True)
class Asked:
    """What a command that reads predictions was asked for."""

    source: str  # path of the file, or "-"
    given: Mapping[str, Any]  # options by name, as click parsed them

    def read(self) -> ReadSample:
        """The file as a sample; it is read once, also where a command looks at it before all else."""
        return self._read

    @cached_property
    def _read(self) -> ReadSample:
        release_memory()
        from scoreprism.cli._read_sample import read_sample

        return read_sample(self.source, *self._reading())

    def read_table(self) -> ReadTable:
        """Every column of the file, and the score among them."""
        release_memory()
        from scoreprism.cli._read_sample import read_table

        return read_table(self.source, *self._reading())

    def _reading(self) -> tuple[GivenRoles, ReadOptions]:
        """Which columns are what, and how the file is read."""
        from scoreprism.cli._column_roles import GivenRoles
        from scoreprism.cli._read_sample import ReadOptions

        given = {name: value for name, value in self.given.items() if value is not None}
        given["features"] = split_names(given.get("features", ()))
        roles, options = (
            {field.name: given[field.name] for field in fields(kind) if field.name in given}
            for kind in (GivenRoles, ReadOptions)
        )
        return GivenRoles(**roles), ReadOptions(**options)

    def losses(self) -> tuple[ProperLoss, ...]:
        """The losses that were named."""
        return tuple(parse_loss(text) for text in self.given["losses"])


def release_memory() -> None:
    """Let polars give back pages that it does not use: it keeps 200 MB of a million rows for ten seconds otherwise."""
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")


def split_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Names in lists with commas; a name that holds a comma is put in double quotes."""
    return tuple(name.strip() for text in texts for line in csv.reader([text]) for name in line if name.strip())


def parse_loss(text: str) -> ProperLoss:
    """A loss as it is written in a call."""
    from scoreprism.losses import get_loss

    name, _, rest = text.partition(":")
    parameters = {}
    for part in split_names([rest]):
        key, _, value = part.partition("=")
        try:
            parameters[key.strip()] = float(value)
        except ValueError:
            raise click.UsageError(
                f"parameters of a loss must be numbers; got {part!r}. For example --loss tsallis:alpha=1.5"
            ) from None
    return get_loss(name, **parameters)
