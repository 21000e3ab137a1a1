"""The command line: reads, calls, prints; no logic."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from scoreprism._spelling import spelling
from scoreprism.cli._options import OPTION_OF
from scoreprism.cli._process import USAGE, run, translate_closed_pipe

__all__ = ["COMMANDS", "main"]

#: Every command: the module that holds it, and what it does. Nothing is loaded for ``--help`` but click.
COMMANDS: dict[str, tuple[str, str]] = {
    "report": ("_reports", "Write a self-contained report."),
    "diagnose": ("_reports", "Print what is wrong with a score and what to do about it."),
    "compare": ("_reports", "Compare several scores on the same rows, term by term."),
    "test": ("_tests", "Test calibration and, with features, grouping."),
    "recalibrate": ("_maps", "Fit a recalibration map and save it."),
    "apply": ("_maps", "Add recalibrated scores to a file."),
    "export": ("_maps", "Write a recalibration map as SQL or as a lookup table."),
    "monitor": ("_monitoring", "Watch whether a score stays calibrated, day by day."),
    "losses": ("_lists", "List the available losses."),
    "calibrators": ("_lists", "List the available recalibration maps."),
    "demo": ("_demo", "Train, combine and report on models of bundled data."),
}


class _Commands(click.Group):
    """A group that loads a command when it is called; `run` decides the exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"scoreprism.cli.{COMMANDS[cmd_name][0]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Choose one of {', '.join(COMMANDS)}."
            raise click.UsageError(f"there is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # click 8.1 and 8.2 end this in different ways
            click.echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with translate_closed_pipe():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with translate_closed_pipe():
            return super().invoke(ctx)

    def main(self, *args: Any, **extra: Any) -> Any:
        # makes polars free unused memory at once: of a million rows it would keep 200 MB for ten seconds
        os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
        extra.setdefault("windows_expand_args", False)  # click would replace --models p_* by files called so
        standalone = extra.pop("standalone_mode", True)
        called: Any = super().main  # whose overloads are about standalone_mode
        with spelling(OPTION_OF):
            if not standalone:
                return called(*args, standalone_mode=False, **extra)
            return run(lambda: called(*args, standalone_mode=False, **extra))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="scoreprism", message="scoreprism %(version)s")
@click.option("--debug", is_flag=True, envvar="SCOREPRISM_DEBUG", help="Show the traceback of an unexpected error.")
def main(debug: bool) -> None:
    """
    Split a classifier's loss into what recalibration, a better model, or only better data can fix.

    Results go to stdout, everything else to stderr. Exit codes: 0 success; 1 a gate failed; 2 a wrong call or unusable
    data; 70 an error of scoreprism itself; 130 interrupted.
    """
