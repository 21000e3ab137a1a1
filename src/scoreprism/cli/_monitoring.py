"""The command that watches a score: scoreprism monitor."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli import _options as opt
from scoreprism.cli._output import check_outputs, emit_bytes, say, write_output
from scoreprism.cli._process import GATE

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism.monitoring import CalibrationMonitor
    from scoreprism.scale import Sums

#: What may ring the alarm, and what weights may be: those of `scoreprism.monitoring`, which takes a second to load.
ALARMS, WEIGHTS = ("calibration", "change"), ("frequency", "importance")
#: The option for each argument that messages of monitors name, beside those of all commands.
_OPTION_OF = {
    "alpha": "--alpha", "alarm": "--alarm", "arl": "--arl", "baseline": "--baseline", "event_rate": "--event-rate",
    "extend": "--extend", "n_runs": "--runs", "reliability": "--reliability", "replace": "--replace", "rows": "--rows",
    "weights": "--weights",
}  # fmt: skip
#: Settings that a state is made with, and options that say what to add.
_SETTINGS = ("alpha", "alarm", "loss", "baseline", "arl", "weights")
_ADDING = (
    "target", "score", "pos_label", "weight", "groups", "segments", "time", "period", "engine", "extend", "replace",
)  # fmt: skip
#: Options of a plan, and those that are about a state.
_PLANNING = ("rows", "event_rate", "reliability", "runs", "seed")
_OF_STATE = ("add", *_ADDING, "recalibrate", "restart")
#: A day in the name of a file or a folder.
_DAY = re.compile(r"(?<!\d)(\d{4})(-?)(\d{2})\2(\d{2})(?!\d)")
#: A time of day.
_CLOCK = re.compile(r"\d[T ]\d{2}:\d{2}")

in_state, in_plan, in_settings = (
    partial(click.option, cls=opt.Option, section=heading) for heading in ("State", "Plan and demo", "Settings")
)


@click.command(
    cls=opt.Command, example="scoreprism monitor state.json --add scores/2026-11-15.parquet --target paid --score p",
    context_settings={"show_default": True, "allow_extra_args": True},
)  # fmt: skip
@click.argument("state", type=opt.FILE, required=False)
@opt.options(
    in_state("--add", multiple=True, type=opt.Named("file"), metavar="FILES",
             help="Rows whose outcomes are known: a path, a glob or a folder; repeat it for several. Their day is in "
             "the name of the file or its folder, unless --time or --period says it."),
    in_state("--extend", is_flag=True, help="FILES hold further rows of the last period."),
    in_state("--replace", is_flag=True, help="FILES hold corrected rows of known periods."),
    in_state("--recalibrate", type=opt.FILE, metavar="FILE",
             help="Fit a recalibration map to the rows since the change, save it as JSON, and start again."),
    in_state("--restart", is_flag=True, help="Start again, for another model; periods before are not counted again."),
    opt.in_columns("--target", metavar="COLUMN", help="Outcomes. Columns are remembered after the first time."),
    opt.in_columns("--score", metavar="COLUMN",
                   help="Predicted probability of the event; 'p_*' or 'p_a,p_b,p_c' for several classes."),
    opt.SCORES[2], opt.SCORES[3],
    opt.in_columns("--groups", metavar="COLUMN", help="Groups of dependent rows: each counts as one."),
    opt.in_columns("--segment", "segments", multiple=True, metavar="COLUMN",
                   help="Subpopulations to follow on their own, too; repeat it for several columns."),
    opt.in_columns("--time", metavar="COLUMN", help="Dates or periods, if FILES hold several."),
    opt.in_columns("--period", metavar="NAME",
                   help="Period of all rows, such as 2026-11-15. With --time, the length of a period: day (default), "
                   "week, month, quarter or year."),
    opt.in_scale("--engine", type=click.Choice(opt.ENGINES), metavar="NAME",
                 help="What sums the rows: polars (default), duckdb, dask or spark."),
    in_settings("--alpha", type=opt.Finite(0.0, 1.0, min_open=True, max_open=True), metavar="LEVEL",
                help="Chance of a false alarm, ever: 0.05 if not given. Settings are fixed by the first --add."),
    in_settings("--alarm", type=click.Choice(ALARMS), metavar="NAME",
                help="What rings: calibration (default), or change, for scores that were never quite calibrated."),
    in_settings("--loss", type=opt.Loss(), metavar="NAME", help="Loss whose reliability is bounded (default log)."),
    in_settings("--baseline", type=click.IntRange(min=1), metavar="N",
                help="First periods, which show how the score always was, for change (default 30)."),
    in_settings("--arl", type=click.IntRange(min=2), metavar="N",
                help="Instead of --alpha: at least N periods on average until a false alarm."),
    in_settings("--weights", type=click.Choice(WEIGHTS), metavar="NAME",
                help="What --weight holds: frequency or importance."),
    in_plan("--plan", is_flag=True, help="Simulate how many periods it takes until an alarm."),
    in_plan("--rows", type=click.IntRange(min=1), metavar="N", help="Rows of a period."),
    in_plan("--event-rate", type=opt.Finite(0.0, 1.0, min_open=True, max_open=True), metavar="SHARE",
            help="Share of events."),
    in_plan("--reliability", type=opt.Finite(min=0.0, min_open=True), metavar="LOSS",
            help="Loss through miscalibration that an alarm should notice."),
    in_plan("--runs", type=click.IntRange(min=1), default=100, metavar="N", help="Runs for each kind of change."),
    in_plan("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Random seed of the runs."),
    in_plan("--demo", is_flag=True, help="Show a year of synthetic credit scores that go wrong in August."),
    in_plan("--save-data", type=opt.Named("folder"), metavar="FOLDER",
            help="Only write the days of the demo as files, to try commands on."),
    opt.in_output("--page", type=opt.FILE, metavar="FILE", help="Write a self-contained page, .html."),
    opt.in_output("--json", "as_json", is_flag=True, help="Print JSON instead of a line."),
    opt.FORCE, opt.QUIET,
)  # fmt: skip
def monitor(state: str | None, page: str | None, as_json: bool, force: bool, **given: Any) -> None:
    """
    Watch whether a score stays calibrated: an alarm that may be looked at every day.

    STATE is a file that holds all it needs; --add begins it or adds a period to it. Whatever was added before is not
    counted again. The chance that scores which stay calibrated ever ring the alarm is at most --alpha.

    Exit codes: 0 no alarm; 1 alarm; 2 refused.
    """
    if rest := click.get_current_context().args:
        got = f"got {rest[0]!r} too. Quote a glob, as in --add 'scores/*.parquet', or repeat --add"
        raise click.UsageError(f"--add takes one path each time, and the command one STATE; {got}")
    _require_one_purpose(state, given)
    with _spelled():
        if given["plan"]:
            _print_plan(given, as_json=as_json)
            return
        if given["save_data"]:
            _save_days(Path(given["save_data"]), force=force)
            return
        if given["demo"]:
            _show_demo(page, given, force=force, as_json=as_json)
            return
        is_alarm = _watch(str(state), page, given, force=force, as_json=as_json)
    if is_alarm:
        raise click.exceptions.Exit(GATE)


@contextmanager
def _spelled() -> Iterator[None]:
    """Let errors name the options of this command; `alpha` is something else in others."""
    from scoreprism._spelling import spelling
    from scoreprism.exceptions import InputError

    with spelling(opt.OPTION_OF | _OPTION_OF):
        try:
            yield
        except InputError as error:
            raise InputError(str(error)) from error


def _require_one_purpose(state: str | None, given: Mapping[str, Any]) -> None:
    """Refuse options that do not belong together."""
    typed = find_typed()
    spelled = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    special = next((name for name in ("plan", "demo", "save_data") if given[name]), None)
    if special is None:
        if state is None:
            raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'STATE'", param_type="argument")
        odd = [name for name in _PLANNING if name in typed]
        if odd:
            raise click.UsageError(f"{spelled[odd[0]]} is for --plan. Leave it out, or pass --plan")
        odd = [name for name in _ADDING if name in typed and not given["add"]]
        if odd:
            raise click.UsageError(f"{spelled[odd[0]]} is about rows to add; got no --add. Leave it out, or add rows")
        if given["recalibrate"] and given["restart"]:
            raise click.UsageError("--recalibrate starts again already; got --restart too. Leave --restart out")
        return
    if state is not None:
        raise click.UsageError(f"{spelled[special]} takes no STATE; got {state!r}. Leave it out")
    kept = {"plan": (*_PLANNING, "alpha", "alarm", "loss", "baseline"), "demo": ("alpha", "page"), "save_data": ()}
    odd = [name for name in typed - {special, "force", "as_json", *kept[special]} if name in spelled]
    if odd:
        raise click.UsageError(f"{spelled[min(odd)]} is not for {spelled[special]}. Leave it out")


def find_typed() -> set[str]:
    """Names of options that the user typed."""
    context = click.get_current_context()
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
    return {name for name in context.params if context.get_parameter_source(name) not in default}


# ── a state ─────────────────────────────────────────────────────────────────────────────────────────


def _watch(state: str, page: str | None, given: Mapping[str, Any], *, force: bool, as_json: bool) -> bool:
    """Update a state, and print what it says; whether there is an alarm."""
    is_new = not Path(state).exists()
    if is_new and not given["add"]:
        raise click.UsageError(
            f"STATE must exist unless --add begins it; got {state!r}, which does not. Pass --add FILES"
        )
    if is_new and (given["recalibrate"] or given["restart"] or given["replace"]):
        raise click.UsageError(f"STATE must exist; got {state!r}, which does not. Check the path")
    targets = check_outputs(given["recalibrate"], page, force=force, inputs=(state,))
    from scoreprism.monitoring import CalibrationMonitor

    settings = {name: given[name] for name in _SETTINGS if given[name] is not None}
    done = _Added((), ())
    is_read_only = not (settings or given["add"] or given["recalibrate"] or given["restart"])
    with (
        nullcontext(CalibrationMonitor.load(state))
        if is_read_only
        else CalibrationMonitor.open(state, **settings) as watched
    ):
        if given["add"]:
            done = _Added.to(watched, given)
        if given["recalibrate"]:
            _recalibrate(watched, targets.pop(0), force=force)
        if given["restart"]:
            watched.restart()
            say("note: the monitor starts again with the next period")
    for name in done.known:
        say(f"note: {name} was counted before; it is left as it is")
    if page is not None:
        _write_page(watched, targets[-1], force=force)
    emit_bytes(_write_json(watched, state, done) if as_json else describe(watched))
    return watched.alarm is not None


@dataclass(frozen=True)
class _Added:
    """Periods that were counted by this call, and those that had been before."""

    new: tuple[str, ...]
    known: tuple[str, ...]

    @classmethod
    def to(cls, watched: CalibrationMonitor, given: Mapping[str, Any]) -> _Added:
        """Add the files, in order of time."""
        from scoreprism._core.progress import track
        from scoreprism.exceptions import InputError

        reading = _Reading.of(watched, given)
        new, known = list[str](), list[str]()
        batches = reading.list_batches()
        for period, files in track(batches, len(batches), "periods"):
            before = watched.parts
            try:
                rows = reading.read(files)
                if reading.needs_rows:
                    watched._keep_columns(reading.named)
                part = ", ".join(Path(file).name for file in files)
                extend = part if given["extend"] else False
                watched.update(rows, period=period, extend=extend, replace=given["replace"])
            except InputError as error:
                raise InputError(f"{Path(files[0]).name}: {error}") from None
            changed = [str(name) for name, parts in watched.parts.items() if before.get(name) != parts]
            new += changed
            known += [] if changed else [Path(files[0]).name if period is None else str(period)]
        return cls(tuple(new), tuple(known))


@dataclass(frozen=True)
class _Reading:
    """How files become rows or sums."""

    files: tuple[str, ...]
    given: Mapping[str, Any]
    columns: Mapping[str, Any]
    loss: str
    weights: str | None

    @classmethod
    def of(cls, watched: CalibrationMonitor, given: Mapping[str, Any]) -> _Reading:
        """The columns that were named, or those of the time before."""
        from scoreprism._core.source_files import drop_repeats, match_files

        files = tuple(drop_repeats(file for one in given["add"] for file in match_files(one)))
        before = watched.columns or {}
        columns = {
            "target": given["target"] or before.get("target"),
            "score": given["score"] or before.get("score"),
            "sample_weight": given["weight"] or before.get("sample_weight"),
            "segments": list(given["segments"]) or before.get("segments", []),
            "pos_label": given["pos_label"],
            "groups": given["groups"] or before.get("groups"),
        }
        for name in ("target", "score"):
            if columns[name] is None:
                raise click.UsageError(f"--{name} must name a column; got none. Columns are not guessed")
        if columns["sample_weight"] is not None and watched.settings.weights is None:
            why = "frequency (a row stands for so many) or importance"
            raise click.UsageError(f"--weight must come with --weights, which says what it holds: {why}. Pass it")
        reading = cls(files, given, columns, watched.settings.loss, watched.settings.weights)
        if columns["pos_label"] is None:
            columns["pos_label"] = before.get("pos_label")
        elif not reading.needs_rows:
            columns["pos_label"] = reading._parse_label(columns["pos_label"])
        if reading.needs_rows and given["time"] is not None:
            why = (
                "--groups" if columns["groups"] else "several classes" if reading._has_classes else "importance weights"
            )
            raise click.UsageError(f"--time is not for rows with {why}. Pass a file for each period, or --period")
        return reading

    @property
    def _has_classes(self) -> bool:
        return bool({"*", ","} & set(self.columns["score"]))

    @property
    def needs_rows(self) -> bool:
        """Whether rows are read into memory: sums know neither classes, groups nor importance."""
        return self._has_classes or self.columns["groups"] is not None or self.weights == "importance"

    @property
    def named(self) -> dict[str, Any]:
        """The columns that are remembered: groups where there are any."""
        return {name: value for name, value in self.columns.items() if name != "groups" or value is not None}

    def list_batches(self) -> list[tuple[str | None, list[str]]]:
        """Files that belong together and their period, in order of time; None where a column holds it."""
        files, time, period = list(self.files), self.given["time"], self.given["period"]
        if time is not None:
            if period is not None and period not in opt.PERIODS:
                raise click.UsageError(
                    f"--period must be the length of a period beside --time: {', '.join(opt.PERIODS)}; got {period!r}. "
                    "Leave out --time if all rows are of one period"
                )
            return [(None, files)]
        if period is not None:
            return [(period, files)]
        found: dict[str, list[str]] = {}
        for file in files:
            found.setdefault(_find_day(file), []).append(file)
        return sorted(found.items())

    def read(self, files: Sequence[str]) -> Sample | Sums:
        """The rows of some files, or their sums."""
        if self.needs_rows:
            return self._read_rows(files)
        from scoreprism.exceptions import InputError
        from scoreprism.scale import aggregate

        given, columns = self.given, self.columns
        time = {} if given["time"] is None else {"time": given["time"], "period": self._find_length()}
        aggregate_all = partial(
            aggregate, list(files), target=columns["target"], score=columns["score"], loss=self.loss,
            sample_weight=columns["sample_weight"], segments=columns["segments"] or None,
            pos_label=columns["pos_label"], engine=given["engine"], **time,
        )  # fmt: skip
        try:
            sums = aggregate_all()
        except InputError:
            _require_rows(files)  # where there are none, columns of text files count as text
            raise
        if time and time["period"] is None:
            _require_periods(sums.periods)
        return sums

    def _read_rows(self, files: Sequence[str]) -> Sample:
        from scoreprism.cli._column_roles import ReadOptions
        from scoreprism.cli._read_sample import read_sample

        if len(files) > 1:
            raise click.UsageError(f"rows in memory must be in one file for each period; got {len(files)}. Join them")
        columns = self.columns
        options = ReadOptions(
            target=columns["target"], scores=(columns["score"],), segments=tuple(columns["segments"]),
            weight=columns["sample_weight"], pos_label=columns["pos_label"], groups=columns["groups"],
            as_given=True,
        )  # fmt: skip
        return read_sample(files[0], options).sample

    def _find_length(self) -> str | None:
        """The length of a period: a day, unless the column holds periods."""
        import narwhals as nw

        kind = self._schema.get(self.given["time"])
        return self.given["period"] or ("day" if kind in (nw.Date, nw.Datetime) else None)

    def _parse_label(self, text: str) -> Any:
        from scoreprism.cli._scale import read_label

        kind = self._schema.get(self.columns["target"])
        return text if kind is None else read_label(text, kind)

    @property
    def _schema(self) -> Mapping[str, Any]:
        import narwhals as nw

        from scoreprism.scale import scan

        frame: Any = nw.from_native(scan(list(self.files), engine=self.given["engine"])).lazy()
        return dict(frame.collect_schema())


def _require_rows(files: Sequence[str]) -> None:
    """Refuse text files that hold nothing but a header."""
    from scoreprism.exceptions import InputError

    for file in map(Path, files):
        if file.suffix.lower() == ".csv" and file.is_file():
            with file.open(encoding="utf-8", errors="replace") as lines:
                if sum(bool(line.strip()) for line in islice(lines, 9)) == 1:
                    rule = "a file must have at least one row"
                    raise InputError(rule, "only a header", "Leave out days without rows.")


def _require_periods(names: Sequence[Any]) -> None:
    """Refuse text with times of day: each time would be a period."""
    from scoreprism.exceptions import InputError

    times = [one for one in names if isinstance(one, str) and _CLOCK.search(one)]
    if times:
        rule, got = "--time must hold dates, datetimes or periods", f"text with times of day, {times[0]!r}"
        raise InputError(rule, got, "Cast it to datetimes or cut it to days; CSV files hold both as text.")


def _find_day(path: str) -> str:
    """The day in the name of a file, or of a folder that it is in."""
    for name in reversed(Path(path).parts):
        for match in _DAY.finditer(name):
            try:
                return date.fromisoformat("-".join(match.group(1, 3, 4))).isoformat()
            except ValueError:
                continue
    raise click.UsageError(
        f"a file must have its day in its name, as in 2026-11-15.parquet; got {path!r}. "
        "Pass --period NAME, or --time COLUMN"
    )


def _recalibrate(watched: CalibrationMonitor, target: Path, *, force: bool) -> None:
    """Save a map that is fitted to the rows since the change; the monitor starts again."""
    alarm = watched.alarm
    fitted = watched.recalibrate()
    write_output(target, fitted.to_json(indent=1), force=force)
    rows = "all rows" if fitted.provenance_ is None else f"{fitted.provenance_.rows} rows"
    since = "" if alarm is None else f" since {alarm.since}"
    say(f"note: the map is fitted to {rows}{since}; the monitor starts again with recalibrated scores")


def _write_page(watched: CalibrationMonitor, target: Path, *, force: bool) -> None:
    from scoreprism.report import write_monitor_page

    say(f"wrote {write_monitor_page(watched, target, overwrite=force)}")


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────


def describe(watched: CalibrationMonitor) -> str:
    """What a monitor says, in one line."""
    if not watched.periods:
        past = watched.past_periods
        return f"no periods since the restart after {past[-1]}" if past else "no periods yet"
    where = f"{watched.periods[-1]} (period {len(watched.periods)})"
    evidence = f"E = {write_evidence(_get_evidence(watched))}, needs {write_evidence(_get_needed(watched))}"
    alarm = watched.alarm
    view = next(one.facts["view"] for one in watched._findings() if one.kind in ("monitor_alarm", "monitor_quiet"))
    if alarm is None:
        about = "reliability" if view is None else f"reliability of {view}"
        found = f"{where}: no alarm; {evidence}; {about} ≤ {_write_loss(watched.bounds().high)}"
    else:
        most = write_evidence(float(watched.log_evidence(_get_process(watched)).max()))
        evidence = f"E reached {most}, needs {write_evidence(_get_needed(watched))}"
        off = f"{'scores' if view is None else f'probabilities of {view}'} are {alarm.direction} since {alarm.since}"
        if alarm.since_first != alarm.since_last:
            off += f" (90 %: {alarm.since_first} to {alarm.since_last})"
        ends = f"{_write_loss(alarm.reliability.low)} to {_write_loss(alarm.reliability.high)}"
        gain = f"recalibration gains {ends}" if view is None else f"their reliability is {ends}"
        found = f"{where}: alarm of {alarm.period}; {off}; {evidence}; {gain}"
    flagged = [name for name, is_off in watched.list_segments().items() if is_off]
    return f"{found}; flagged: {', '.join(flagged)}" if flagged else found


def _write_loss(value: float) -> str:
    """A loss with two digits, and no power of ten."""
    from numpy import format_float_positional

    return format_float_positional(value, 2, fractional=False, trim="-")


def write_evidence(log_e: float) -> str:
    """E from its logarithm: two digits, or the power of ten that it exceeds."""
    if log_e < math.log(0.001):
        return "0"
    if log_e < math.log(1e6):
        value = math.exp(log_e)
        return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"
    return f"10^{math.floor(log_e / math.log(10.0))}"


def _get_process(watched: CalibrationMonitor) -> str:
    return watched.settings.alarm if watched.settings.arl is None else "detector"


def _get_evidence(watched: CalibrationMonitor) -> float:
    return float(watched.log_evidence(_get_process(watched))[-1])


def _get_needed(watched: CalibrationMonitor) -> float:
    arl = watched.settings.arl
    return -math.log(watched.settings.alpha) if arl is None else math.log(arl)


def _write_json(watched: CalibrationMonitor, state: str | None, done: _Added) -> str:
    """The same for machines."""
    from scoreprism._document.result_json import encode

    names = "alarm", "process", "log_e", "log_e_needed", "evidence_lost", "reliability", "segments"
    last: dict[str, Any] = dict.fromkeys(names)  # the same fields after a restart
    if watched.periods:
        alarm, bounds = watched.alarm, watched.bounds()
        last = {
            "alarm": None if alarm is None else alarm.to_dict(),
            "process": _get_process(watched),
            "log_e": {name: float(watched.log_evidence(name)[-1]) for name in ALARMS},
            "log_e_needed": _get_needed(watched),
            "evidence_lost": watched.evidence_lost(),
            "reliability": [bounds.low, bounds.high],
            "segments": watched.list_segments(),
        }
        if watched.settings.arl is not None:
            last["log_e"]["detector"] = _get_evidence(watched)
    found = {
        "state": state,
        "period": watched.periods[-1] if watched.periods else None,
        "periods": len(watched.periods),
        "added": list(done.new),
        "known": list(done.known),
        **last,
    }
    return json.dumps(encode(found), ensure_ascii=False, allow_nan=False, indent=1)


# ── plan and demonstration ──────────────────────────────────────────────────────────────────────────


def _print_plan(given: Mapping[str, Any], *, as_json: bool) -> None:
    """Print how long it takes until an alarm."""
    for name in ("rows", "event_rate", "reliability"):
        if given[name] is None:
            raise click.UsageError(f"--plan needs --{name.replace('_', '-')}. For example {_PLAN}")
    from scoreprism.cli._output import emit
    from scoreprism.monitoring import plan_monitoring

    say(f"seed: {given['seed']}")
    options = {name: given[name] for name in ("alpha", "alarm", "loss", "baseline") if given[name] is not None}
    if options.get("alarm") == "change":
        options["calm"] = max(60, given["baseline"] or 0)
    plan = plan_monitoring(
        given["rows"], given["event_rate"], given["reliability"], n_runs=given["runs"], random_state=given["seed"],
        **options,
    )  # fmt: skip
    if as_json:
        emit_bytes(plan.to_json(indent=1))
    else:
        emit(plan.document(), "table")


_PLAN = "'scoreprism monitor --plan --rows 500 --event-rate 0.1 --reliability 0.003'"
#: A year in which the alarm rings neither early nor late: with seeds 0 to 5 it does between 5 and 23 August.
_TYPICAL = 1


def _show_demo(page: str | None, given: Mapping[str, Any], *, force: bool, as_json: bool) -> None:
    """Watch a year of synthetic scores, and print what a user would see."""
    (target,) = check_outputs(page, force=force) if page else (None,)
    from scoreprism.datasets import iterate_credit_days
    from scoreprism.monitoring import CalibrationMonitor

    days = list(iterate_credit_days(random_state=_TYPICAL))
    settings = {} if given["alpha"] is None else {"alpha": given["alpha"]}
    watched = CalibrationMonitor(**settings)
    for day, rows in days:
        watched.update(rows["default"], rows["score"], segments={"channel": rows["channel"]}, period=day)
    rang = None if watched.alarm is None else watched.alarm.period
    say("a year of synthetic applicants, 300 a day; from 1 August, online applicants default more often than scored")
    if not as_json:
        _tell_year(CalibrationMonitor(**settings), days, rang)
    if target is not None:
        _write_page(watched, target, force=force)
    if as_json:
        emit_bytes(_write_json(watched, None, _Added((), ())))
        return
    low, high = watched.recalibrate().calibrate([0.1, 0.3]).tolist()
    emit_bytes(f"recalibrated on the rows since then: 0.1 becomes {low:.3f}, 0.3 becomes {high:.3f}")


def _tell_year(watched: CalibrationMonitor, days: Sequence[tuple[date, Any]], rang: str | int | None) -> None:
    """Print what a user would see at the end of each month, and on the day of the alarm."""
    for day, rows in days:
        watched.update(rows["default"], rows["score"], segments={"channel": rows["channel"]}, period=day)
        if day.isoformat() == rang or (day + timedelta(days=1)).day == 1:
            emit_bytes(describe(watched))
        if day.isoformat() == rang:
            emit_bytes("  To do: scoreprism monitor STATE --recalibrate map.json")


def _save_days(folder: Path, *, force: bool) -> None:
    """Write each day of the demonstration to a file that is named after it."""
    from scoreprism._core.atomic_files import write_with
    from scoreprism.datasets import iterate_credit_days
    from scoreprism.exceptions import InputError

    if folder.exists() and not folder.is_dir():
        raise InputError("--save-data must be a folder", f"{str(folder)!r}, which is a file", "Use another path.")
    folder.mkdir(parents=True, exist_ok=True)
    days = 0
    for day, rows in iterate_credit_days(random_state=_TYPICAL):
        write_with(folder / f"{day.isoformat()}.parquet", rows.drop("chance").write_parquet, overwrite=force)
        days += 1
    say(f"wrote {days} days to {folder}")
