"""Maps that people deploy: what their files hold, and what `apply` does with another score, file, path or machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import scoreprism
from scoreprism.calibrators import (
    CALIBRATORS,
    PlattCalibrator,
    Provenance,
    SelectedCalibrator,
    TemperatureCalibrator,
    from_json,
)
from scoreprism.exceptions import InputError
from tests.cli.test_cli import call

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals, pipes and limits of Unix")
SCORES, OUTCOMES = [0.2, 0.4, 0.6, 0.8, 0.5], [0, 1, 0, 1, 1]


def frame(n=300, seed=0):
    """Rows whose law is `good`; `bold` has twice its log-odds, and p_0, p_1 are `good` in two columns."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, n)
    y = (rng.random(n) < p).astype(int)
    return pl.DataFrame({"y": y, "good": p, "bold": 1 / (1 + (1 / p - 1) ** 2), "p_0": 1 - p, "p_1": p})


@pytest.fixture(scope="module")
def data():
    return frame()


@pytest.fixture
def file(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.write_csv("rows.csv")
    return "rows.csv"


def saved(*args, name="map.json"):
    call("recalibrate", *args, "--method", "platt", "--save", name, "--quiet")
    return from_json(Path(name).read_text())


# ── what a file holds ───────────────────────────────────────────────────────────────────────────────


#: A table that files depend on: a tag may be added, never changed, removed or reused.
TAGS = {
    "chart", "line", "beta", "log-line", "steps", "broken-line", "cubics", "sum", "binary", "reduction", "softmax",
    "same", "tempered", "venn-abers-sums", "venn-abers", "one-vs-rest",
}  # fmt: skip


def test_parts_of_a_file_have_the_tags_they_always_had():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(3), 300)
    codes = (rng.random(300)[:, None] > laws.cumsum(axis=1)[:, :-1]).sum(axis=1)
    texts = []
    for made in CALIBRATORS.values():
        for scores, outcomes in ((SCORES, OUTCOMES), (laws, codes)):
            with contextlib.suppress(InputError):  # a map of two classes
                texts.append(made().fit(scores, outcomes).to_json())
    tags = {tag for text in texts for tag in re.findall(r'"part": ?"([^"]+)"', text)}
    assert tags | {"log-line", "reduction"} == TAGS  # these two are of maps with options


def test_a_fit_records_what_it_knows():
    fitted = PlattCalibrator().fit(SCORES, ["no", "yes", "no", "yes", "yes"])
    assert fitted.provenance_ == Provenance(None, None, ("no", "yes"), 5, (2, 3), ((0.2, 0.8),), scoreprism.__version__)
    assert fitted.provenance_.events == 3
    assert json.loads(fitted.to_json())["provenance"] == {
        "score": None, "target": None, "labels": ["no", "yes"], "rows": 5, "counts": [2, 3], "ranges": [[0.2, 0.8]],
        "version": scoreprism.__version__,
    }  # fmt: skip


NAMED = {
    "pandas series": (lambda: pd.Series(SCORES, name="p"), lambda: pd.Series(OUTCOMES, name="y")),
    "polars series": (lambda: pl.Series("p", SCORES), lambda: pl.Series("y", OUTCOMES)),
    "pandas frame": (lambda: pd.DataFrame({"p": SCORES}), lambda: pd.Series(OUTCOMES, name="y")),
    "polars frame": (lambda: pl.DataFrame({"p": SCORES}), lambda: pl.Series("y", OUTCOMES)),
    "pyarrow table": (lambda: pa.table({"p": SCORES}), lambda: pl.Series("y", OUTCOMES)),
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_of_frames_and_series_are_kept(kind):
    scores, y = (make() for make in NAMED[kind])
    fitted = PlattCalibrator().fit(scores, y)
    assert (fitted.provenance_.score, fitted.provenance_.target) == (("p",), "y")
    assert from_json(fitted.to_json()).provenance_ == fitted.provenance_


@pytest.mark.parametrize("scores", [pd.Series(SCORES), pd.Series(SCORES, name=3), pl.Series(SCORES), SCORES])
def test_what_has_no_name_is_not_named(scores):
    assert PlattCalibrator().fit(scores, OUTCOMES).provenance_.score is None


def test_rows_without_weight_are_not_there():
    """The first and the last row would widen the range and add an event."""
    weighted = PlattCalibrator().fit([0.01, *SCORES, 0.99], [1, *OUTCOMES, 0], [0, 1, 2, 1, 1, 3, 0])
    assert (weighted.provenance_.rows, weighted.provenance_.counts) == (5, (2, 3))
    assert weighted.provenance_.ranges == ((0.2, 0.8),)


def test_several_classes_columns_and_logits():
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 1, 1], 50)
    y = np.arange(50) % 3
    many = TemperatureCalibrator().fit(pd.DataFrame(law, columns=["a", "b", "c"]), np.array(list("abc"))[y]).provenance_
    assert (many.score, many.labels, many.counts, many.events) == (("a", "b", "c"), ("a", "b", "c"), (17, 17, 16), None)
    assert many.ranges == tuple(zip(law.min(axis=0), law.max(axis=0), strict=True))
    two = PlattCalibrator().fit(np.column_stack([1 - law[:, 0], law[:, 0]]), y > 0).provenance_
    assert two.ranges == ((law[:, 0].min(), law[:, 0].max()),)
    wide = rng.normal(size=(50, 4))
    reduced = PlattCalibrator(kind="logit").fit(wide, y > 0)
    assert reduced.provenance_.ranges == tuple(zip(wide.min(axis=0), wide.max(axis=0), strict=True))
    assert from_json(reduced.to_json()).to_json() == reduced.to_json()
    chosen = SelectedCalibrator(candidates=["platt", "isotonic"]).fit(law[:, 0], y > 0)
    assert from_json(chosen.to_json()).to_json() == chosen.to_json()
    assert many.outside(np.array([[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])).tolist() == [False, True]


def test_a_map_without_provenance_is_read():
    """Some maps are made without fit: the winner inside a `SelectedCalibrator`."""
    inner = SelectedCalibrator(candidates=["platt"]).fit(SCORES, OUTCOMES).calibrator_
    assert from_json(inner.to_json()).to_json() == inner.to_json()


def test_the_digest_does_not_depend_on_blanks_and_order():
    fitted = PlattCalibrator().fit(SCORES, OUTCOMES)
    data = json.loads(fitted.to_json(indent=2))
    turned = json.dumps(dict(reversed(data.items())), indent=1, ensure_ascii=False)
    assert from_json(turned).to_json() == fitted.to_json()
    assert from_json(turned.encode()).to_json() == fitted.to_json()


def test_what_the_command_line_adds(file, data):
    assert saved(file, "--target", "y", "--score", "bold").provenance_ == Provenance(
        ("bold",), "y", ("0", "1"), 300, tuple(np.bincount(data["y"]).tolist()),
        ((data["bold"].min(), data["bold"].max()),), scoreprism.__version__,
    )  # fmt: skip
    call("report", file, "--target", "y", "--score", "good", "--save-map", "other.json", "-o", "r.json", "--quiet")
    assert from_json(Path("other.json").read_text()).provenance_.score == ("good",)


def test_labels_that_are_words_stay_in_the_file(file, data):
    data.with_columns(pl.Series("y", np.where(data["y"] == 1, "bad", "good"))).write_csv("words.csv")
    found = saved("words.csv", "--target", "y", "--score", "bold", "--pos-label", "bad").provenance_
    assert (found.labels, found.counts) == (("good", "bad"), tuple(np.bincount(data["y"]).tolist()))


# ── apply ───────────────────────────────────────────────────────────────────────────────────────────


def test_another_score_is_refused(file, data):
    map_ = saved(file, "--target", "y", "--score", "bold")
    found = call("apply", "map.json", file, "--score", "good", "-o", "out.csv", code=2)
    assert found.stderr == (
        "error: the map must be applied to the score it was fitted on, 'bold'; got 'good'. Correct --score, or pass "
        "--any-score if it is the same score under another name.\n"
    )
    assert not Path("out.csv").exists()
    found = call("apply", "map.json", file, "--score", "good", "--any-score", "-o", "out.parquet")
    assert found.stderr == "note: the map was fitted on 'bold' and is applied to 'good'\nwrote out.parquet\n"
    assert pl.read_parquet("out.parquet")["good_recalibrated"].to_list() == map_.calibrate(data["good"]).tolist()


def test_a_map_without_a_name_is_believed_and_said(file, data):
    Path("map.json").write_text(PlattCalibrator().fit(data["good"].to_numpy(), data["y"].to_numpy()).to_json())
    found = call("apply", "map.json", file, "--score", "good", "-o", "out.csv")
    assert found.stderr == (
        "note: the map does not say which column it was fitted on; 'good' is assumed\nwrote out.csv\n"
    )


def test_scores_outside_of_the_range_are_counted(file, data):
    saved(file, "--target", "y", "--score", "good")
    low, high = data["good"].min(), data["good"].max()
    pl.DataFrame({"good": [low, high, 0.01, 0.99, None]}).write_csv("new.csv")
    found = call("apply", "map.json", "new.csv", "--score", "good", "-o", "out.csv")
    assert (
        f"note: 2 of 4 rows have a score outside the range that the map was fitted on, {low:.6g} to {high:.6g}; "
        "it extrapolates there\n"
    ) in found.stderr
    assert "outside" not in call("apply", "map.json", file, "--score", "good", "-o", "-").stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_scores_are_kept_and_counted(file, data, ending):
    map_ = saved(file, "--target", "y", "--score", "good")
    holes = data.with_columns(good=pl.when(pl.int_range(pl.len()) % 100 == 7).then(None).otherwise(pl.col("good")))
    getattr(holes, f"write_{ending}")(f"holes.{ending}")
    found = call("apply", "map.json", f"holes.{ending}", "--score", "good", "-o", "out.parquet")
    assert found.stderr == (
        "note: 3 of 300 rows have no score, first in data row 8 (score 'good'): their recalibrated score is empty. "
        "Pass --drop-missing to leave them out.\nwrote out.parquet\n"
    )
    new = pl.read_parquet("out.parquet")["good_recalibrated"].to_list()
    assert [i for i, value in enumerate(new) if value is None] == [7, 107, 207]
    expected = [None if score is None else map_.calibrate([score])[0] for score in holes["good"].to_list()]
    assert new == expected
    call("apply", "map.json", f"holes.{ending}", "--score", "good", "-o", "out.csv")
    assert Path("out.csv").read_text().splitlines()[8].endswith(",")
    dropped = call("apply", "map.json", f"holes.{ending}", "--score", "good", "--drop-missing", "-o", "less.csv")
    assert "note: 3 rows of 300 dropped" in dropped.stderr
    assert len(Path("less.csv").read_text().splitlines()) == 298


def test_missing_scores_with_a_decimal_comma(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 2};0,{20 + k}" for k in range(60)]
    Path("de.csv").write_text("y;s\n" + "\n".join(rows))
    args = ("--score", "s", "--decimal-comma")
    call("recalibrate", "de.csv", "--target", "y", *args, "--method", "platt", "--save", "map.json", "--quiet")
    Path("new.csv").write_text("y;s\n1;0,5\n0;\n")
    call("apply", "map.json", "new.csv", *args, "-o", "out.csv", "--quiet")
    assert Path("out.csv").read_text().splitlines()[2] == "0;;"


def test_a_column_without_any_score_is_refused(file, data):
    saved(file, "--target", "y", "--score", "good")
    Path("empty.csv").write_text("good,x\n,1\n,2\n")
    assert call("apply", "map.json", "empty.csv", "--score", "good", "-o", "out.csv", code=2).stderr == (
        "error: some row must have a score; got none in 2 rows: score 'good'. Correct --score.\n"
    )


def test_two_columns_are_one_score(file, data):
    """recalibrate and apply on 'p_*' ended in an unexpected ValueError; either column says all."""
    map_ = saved(file, "--target", "y", "--score", "p_*")
    assert (map_.provenance_.score, map_.provenance_.labels) == (("p_0", "p_1"), ("0", "1"))
    expected = map_.calibrate(data["p_1"]).tolist()
    call("apply", "map.json", file, "--score", "p_*", "-o", "both.parquet")
    both = pl.read_parquet("both.parquet")
    assert both["p_recalibrated_1"].to_list() == expected
    assert both["p_recalibrated_0"].to_list() == [1 - value for value in expected]
    call("apply", "map.json", file, "--score", "p_0,p_1", "-o", "listed.parquet")
    assert pl.read_parquet("listed.parquet")["recalibrated_1"].to_list() == expected
    call("apply", "map.json", file, "--score", "p_1", "-o", "one.parquet")
    assert pl.read_parquet("one.parquet")["p_1_recalibrated"].to_list() == expected
    assert "fitted on, 'p_1'; got 'p_0'." in call("apply", "map.json", file, "--score", "p_0", "-o", "-", code=2).stderr
    saved(file, "--target", "y", "--score", "p_1", name="narrow.json")
    call("apply", "narrow.json", file, "--score", "p_*", "-o", "wide.parquet")
    assert pl.read_parquet("wide.parquet")["p_recalibrated_1"].to_list() == expected


def test_columns_of_classes_in_any_order(tmp_path, monkeypatch):
    """A map of p_c, p_a, p_b was fitted as one of a, b, c: every number of `apply` was wrong."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    law = rng.dirichlet([1, 2, 3], 400)
    y = np.array(list("abc"))[(rng.random(400)[:, None] > law.cumsum(axis=1)).sum(axis=1)]
    columns = {f"p_{label}": law[:, j] for j, label in enumerate("abc")}
    for name, order in (("sorted", "abc"), ("turned", "cab")):
        pl.DataFrame({"y": y, **{f"p_{label}": columns[f"p_{label}"] for label in order}}).write_csv(f"{name}.csv")
        args = ("--target", "y", "--score", "p_*", "--method", "vector-scaling", "--save", f"{name}.json", "--quiet")
        call("recalibrate", f"{name}.csv", *args)
        call("apply", f"{name}.json", f"{name}.csv", "--score", "p_*", "-o", f"{name}.parquet")
    new = [f"p_recalibrated_{label}" for label in "abc"]
    found, expected = (pl.read_parquet(f"{name}.parquet").select(new).to_numpy() for name in ("turned", "sorted"))
    np.testing.assert_array_equal(found, expected)
    assert "got one column for 3 classes" in call("apply", "sorted.json", "sorted.csv", "--score", "p_a", "--any-score",
                                            "-o", "-", code=2).stderr  # fmt: skip


def test_a_map_that_was_edited_is_refused(file):
    saved(file, "--target", "y", "--score", "good")
    text = Path("map.json").read_text()
    Path("map.json").write_text(text.replace('"rows": 300', '"rows": 301'))
    for args in (("apply", "map.json", file, "--score", "good", "-o", "out.csv"), ("export", "map.json", "--sql")):
        assert call(*args, code=2).stderr == (
            "error: a calibrator file must be as it was written; got content that does not fit its digest (sha256): "
            "it was edited or damaged. Use the original, or fit the map again.\n"
        )


def test_export_says_so_where_it_reads_another_column(file):
    saved(file, "--target", "y", "--score", "good")
    for column in ("good", "rows.good"):
        assert call("export", "map.json", "--sql", "--score-column", column).stderr == ""
    found = call("export", "map.json", "--sql")
    assert found.stderr == "note: the map was fitted on column 'good'; this expression reads 'score'\n"
    assert (
        found.stdout.replace('"score"', '"good"')
        == call("export", "map.json", "--sql", "--score-column", "good").stdout
    )


# ── paths, pipes, memory, killed runs ───────────────────────────────────────────────────────────────


@UNIX
def test_a_map_must_be_a_plain_file_of_some_size(file, monkeypatch):
    os.mkfifo("pipe")
    Path("folder").mkdir()
    rest = (file, "--score", "good", "-o", "out.csv")
    what = {
        "/dev/zero": "device or a pipe. Write it to a file first",
        "pipe": "device or a pipe. Write it to a file first",
    }
    for path, words in {**what, "folder": "folder. Name a file in it"}.items():
        expected = f"error: CALIBRATOR must be a plain file; got {path!r}, which is a {words}.\n"
        assert call("apply", path, *rest, code=2).stderr == expected
        assert call("export", path, "--sql", code=2).stderr == expected
    with Path("large").open("wb") as large:
        large.truncate(256 * 10**6 + 1)  # takes no room on the disk
    expected = "error: CALIBRATOR must have at most 256 MB; got more in 'large'. Check the path.\n"
    assert call("apply", "large", *rest, code=2).stderr == expected


def test_a_time_that_is_no_number_is_named(file):
    for given in ("abc", "", "-1", "9" * 40):
        found = call("losses", env={"SOURCE_DATE_EPOCH": given}, code=2)
        assert found.stderr.startswith(
            "error: SOURCE_DATE_EPOCH must be a number of seconds since 1970, up to 253402300799; got "
            f"{given!r}. Correct the variable, or unset it."
        )
    call("losses", env={"SOURCE_DATE_EPOCH": "0"})


def started(*args, **options):
    return subprocess.Popen([sys.executable, "-m", "scoreprism", *args], stderr=subprocess.PIPE, **options)


@UNIX
def test_a_reader_that_stops_ends_apply_with_141(file, data):
    """With PYTHONUNBUFFERED, a write ends early where the reader has gone, and the rest was lost without a word."""
    saved(file, "--target", "y", "--score", "good")
    pl.concat([data] * 20).write_csv("many.csv")
    options = {"stdout": subprocess.PIPE, "env": {**os.environ, "PYTHONUNBUFFERED": "1"}}
    with started("apply", "map.json", "many.csv", "--score", "good", "-o", "-", **options) as running:
        assert running.stdout.readline().startswith(b"y,good")
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) == 141


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits as Linux has them")
@pytest.mark.parametrize("megabytes", [300, 1000])
def test_a_limit_on_memory_is_seen_before_polars_aborts(file, megabytes):
    """Polars ends the process with 134 at 300 MB, and waits for ever at 400."""
    import resource

    saved(file, "--target", "y", "--score", "good")

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6, megabytes * 10**6))

    command = [sys.executable, "-m", "scoreprism", "apply", "map.json", file, "--score", "good", "-o", "out.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited, timeout=60)
    assert done.returncode == 2, done
    start, end = done.stderr.split("needs about ")
    assert start == "error: the memory limit must leave room for FILE, which "
    assert 1500 < float(end.split()[0]) < 2400  # by the number of processors
    assert end.endswith(
        f" MB; got a limit of {megabytes} MB (ulimit -v). Raise the limit, or pass fewer rows at a time.\n"
    )
    assert not Path("out.csv").exists()


def test_unpacked_data_are_weighed_too(file, data, monkeypatch):
    saved(file, "--target", "y", "--score", "good")
    monkeypatch.setattr("scoreprism.cli._polars_guards._read_memory_limit", lambda: 3 * 10**9)
    monkeypatch.setattr("scoreprism.cli._polars_guards._read_memory_used", lambda: 3 * 10**9 - 1000)
    data.write_parquet("rows.parquet")
    for source in ("-", "rows.parquet"):
        stdin = Path(file).read_bytes() if source == "-" else None
        found = call("apply", "map.json", source, "--score", "good", "-o", "out.csv", code=2, stdin=stdin)
        assert (
            "error: the memory limit must leave room for FILE, which needs about 3000 MB; got a limit" in found.stderr
        )


KILLED = """
import os, signal, sys
from pathlib import Path
from scoreprism._core.atomic_files import write_with

def writer(temporary):
    temporary.write_text("half")
    print(temporary.name, flush=True)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()

write_with(Path(sys.argv[1]), writer, overwrite=True)
"""


def left_behind(target):
    done = subprocess.run([sys.executable, "-c", KILLED, target, "kill"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    return done.stdout.strip()


@UNIX
def test_the_next_run_removes_what_a_killed_one_left(file, tmp_path):
    saved(file, "--target", "y", "--score", "good")
    left, other = left_behind(tmp_path / "a.csv"), left_behind(tmp_path / "b.csv")
    assert (tmp_path / left).read_text() == "half"
    found = call("apply", "map.json", file, "--score", "good", "-o", "a.csv")
    assert f"{left!r}, which a run that was killed had left beside its output, is removed" in found.stderr
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {other, "a.csv", "map.json", file}  # b's is removed by the next run to b


@UNIX
def test_the_command_line_says_so(file):
    saved(file, "--target", "y", "--score", "good")
    left = left_behind(Path("out.csv").absolute())
    found = call("apply", "map.json", file, "--score", "good", "-o", "out.csv")
    text = f"warning: {left!r}, which a run that was killed had left beside its output, is removed\n"
    assert found.stderr == f"{text}wrote out.csv\n"
    assert not Path(left).exists()
    left = left_behind(Path("map.sql").absolute())
    found = call("export", "map.json", "--sql", "--score-column", "good", "-o", "map.sql")
    text = f"warning: {left!r}, which a run that was killed had left beside its output, is removed\n"
    assert found.stderr == f"{text}wrote map.sql\n"


@UNIX
def test_files_in_use_and_files_of_others_stay(file, tmp_path):
    saved(file, "--target", "y", "--score", "good")
    target = tmp_path / "a.csv"
    running = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with running:
        held = running.stdout.readline().strip()
        start, _, end = held.rpartition("-")
        others = [
            ".a.csv.0123456789ab.tmp",  # as other programs name theirs
            f"{start}-{end[:-5]}.tmp",  # another number of digits
            f"{start[:-8]}00000000-{end}",  # another host's
            f"{held}.bak",
        ]
        for name in others:
            (tmp_path / name).write_text("mine")
        (tmp_path / f"{start}-0123456789ab.tmp").symlink_to(tmp_path / others[0])
        call("apply", "map.json", file, "--score", "good", "-o", "a.csv")
        there = {path.name for path in tmp_path.iterdir()}
        assert there == {*others, held, "a.csv", f"{start}-0123456789ab.tmp", "map.json", file}
        running.stdin.close()
        assert running.wait(timeout=30) == 0
    assert target.read_text() == "half"  # the other process ended well, and was told to overwrite


@UNIX
def test_a_file_taken_for_stale_before_it_is_locked_is_made_again(file, tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    expected = saved(file, "--target", "y", "--score", "good", name="a.json")
    before, real, calls = set(tmp_path.iterdir()), fcntl.flock, []

    def locked(descriptor, how):
        calls.append(descriptor)
        if len(calls) == 1:  # another process has just locked and removed it
            (only,) = set(tmp_path.iterdir()) - before
            only.unlink()
        return real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    assert saved(file, "--target", "y", "--score", "good", name="b.json").to_json() == expected.to_json()
    assert len(calls) == 2
    assert set(tmp_path.iterdir()) - before == {tmp_path / "b.json"}


# ── words in SQL and on pages ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("quote", ["'", "[", "]", "", '""', "a", None, 3])
def test_what_quotes_no_names_is_refused(quote):
    fitted = PlattCalibrator().fit(SCORES, OUTCOMES)
    with pytest.raises(InputError) as error:
        fitted.to_sql("score", quote=quote)
    assert str(error.value) == (
        f"quote must be what quotes names in SQL: a double quote or a backtick; got {quote!r}. Pass '\"' or '`'."
    )


HOSTILE = "a\x1b[31mb\u202ec<i>"


def test_names_of_others_are_harmless_in_every_table():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 200)
    y = (rng.random(200) < p).astype(int)
    models = {HOSTILE: p, "plain": np.clip(p + 0.05, 0, 1)}
    found = scoreprism.compare(y, models, loss="brier", calibrator="platt", random_state=0)
    by = scoreprism.decompose_by(y, p, segments=np.where(p > 0.5, HOSTILE, "b"), loss="brier", calibrator="platt")
    for result in (found, by):
        page, text = result._repr_html_(), repr(result)
        for shown in (page, text):
            assert "\x1b" not in shown
            assert "\u202e" not in shown
        assert "a\\x1b[31mb\\u202ec&lt;i&gt;" in page
        assert "a\\x1b[31mb\\u202ec<i>" in text


def test_whole_numbers_in_a_column_of_objects_are_labels_that_a_file_holds(tmp_path, monkeypatch):
    """The command line hands over labels of several classes so: `recalibrate --save` refused 0, 1, 2 as no numbers."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    law = rng.dirichlet([2.0, 1.0, 1.0], 300)
    y = (rng.random(300)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    fitted = SelectedCalibrator().fit(law, y.astype(object))
    back = from_json(fitted.to_json())
    assert back.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(back.predict_proba(law), fitted.predict_proba(law))
    pl.DataFrame({"p_0": law[:, 0], "p_1": law[:, 1], "p_2": law[:, 2], "y": y}).write_csv("three.csv")
    for args in (
        ("recalibrate", "three.csv", "--target", "y", "--score", "p_*", "--save", "map.json"),
        ("apply", "map.json", "three.csv", "--score", "p_*", "-o", "out.csv"),
    ):
        call(*args)
    new = pl.read_csv("out.csv").select(pl.col("^p_recalibrated_.*$")).to_numpy()
    np.testing.assert_allclose(new.sum(axis=1), 1.0, atol=1e-12)
