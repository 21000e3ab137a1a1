"""The command line in the hands of strangers: small twins of real tables, files that are not whole, and dead ends."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scoreprism import scale
from scoreprism._core import parquet_pages
from scoreprism.cli import _demo, _sources
from scoreprism.exceptions import DoubtfulFileWarning, InputError
from tests.cli.reading import ReadOptions, read_sample, read_table
from tests.cli.test_cli import call

pytestmark = pytest.mark.usefixtures("few_draws")

#: What names an argument of Python: a word with an underscore, or one before an equals sign.
PYTHON = re.compile(r"(?<![\w'\"/.-])[a-z]+(_[a-z]+)+\b(?!['\"])|(?<![\w'-])[a-z_]+=(?!=)|\bTrue\b")


def law(n, seed=0, rate=0.0):
    """Outcomes, their law, and two standard normal features that it is a logistic function of."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    q = 1 / (1 + np.exp(-(rate + 1.2 * x[:, 0] + 0.8 * x[:, 1])))
    return (rng.random(n) < q).astype(int), q, x, rng


def sharpened(q, power):
    """A probability with `power` times its log-odds."""
    return 1 / (1 + (1 / q - 1) ** power)


def diagnosed(*args):
    return json.loads(call("diagnose", *args, "--format", "json", "--quiet").stdout)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ── files that are not whole ────────────────────────────────────────────────────────────────────────

LINES = ["y,p", *(f"{i % 2},0.{250 + 37 * i % 500:03d}" for i in range(200))]
CUT = "The last line, '1,0', has no final newline and is shorter than every other: is the file complete?"
STRICT = (
    "error: with --strict a file must be complete beyond doubt; got {name!r}: the last line, '1,0', has no "
    "final newline and is shorter than every other. Write or download it again; if it is complete, leave --strict out.\n"
)
ONE = ("--target", "y", "--score", "p")


def test_a_cut_off_file_is_told_and_with_strict_refused(here):
    Path("cut.csv").write_text("\n".join([*LINES, "1,0"]))
    assert call("diagnose", "cut.csv", *ONE, "--as-given", "--strict", code=2).stderr == STRICT.format(name="cut.csv")
    found = call("report", "cut.csv", *ONE, "--as-given", "-o", "r.html", "-o", "r.json")
    assert f"note: {CUT}\n" in found.stderr
    assert CUT in " ".join(found.stdout.split())
    assert "has no final newline and is shorter than every other" in Path("r.html").read_text()
    verdict, *_, method = json.loads(Path("r.json").read_text())["sections"]
    assert CUT in [one["text"] for one in verdict["findings"] if one["kind"] == "file_suspect"]
    assert CUT in method["notes"]


@pytest.mark.parametrize("command", ["test", "compare", "recalibrate"])
def test_every_command_that_reads_tells(here, command):
    Path("cut.csv").write_text("\n".join(["y,o,p", *(f"{line[0]},0.5{line[1:]}" for line in LINES[1:]), "1,0.5,0"]))
    extra = {"test": ("--method", "spiegelhalter"), "compare": ("--score", "o"), "recalibrate": ("--method", "platt")}
    found = call(command, "cut.csv", *ONE, "--as-given", *extra[command], "--format", "json")
    assert "is shorter than every other: is the file complete?" in found.stderr
    assert "is shorter than every other: is the file complete?" in found.stdout


def test_stdin_gzip_and_apply_tell_too(here):
    text = "\n".join([*LINES, "1,0"])
    Path("cut.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert CUT in call("test", "cut.csv.gz", *ONE, "--as-given", "--method", "spiegelhalter").stderr
    assert CUT in call("test", "-", *ONE, "--as-given", "--method", "spiegelhalter", stdin=text).stderr
    Path("whole.csv").write_text("\n".join(LINES) + "\n")
    call("recalibrate", "whole.csv", *ONE, "--as-given", "--method", "platt", "--save", "m.json", "--quiet")
    Path("new.csv").write_text(text)
    assert CUT in call("apply", "m.json", "new.csv", "--score", "p", "-o", "out.csv").stderr
    refused = call("apply", "m.json", "new.csv", "--score", "p", "-o", "other.csv", "--strict", code=2)
    assert refused.stderr == STRICT.format(name="new.csv")
    assert not Path("other.csv").exists()


@pytest.mark.parametrize(
    ("records", "doubt"),
    [
        ("1,0.75\n0,0.25\n1,0.5\n", ""),  # a line end: complete, however short
        ("1,0.75\n0,0.25\n1,0.55", ""),  # no line end, which is legal, and as long as the others
        ("1,0.75\n0,0.2\n1,0.5", ""),  # another is as short
        ("1,0.75\r\n0,0.25\r\n1,0.55", ""),  # the carriage return is no part of a record
        ("1,0.75\n\n0,0.25\n\n1,0.55", ""),  # nor is a blank line one
        ("1,0.75", ""),  # nothing to compare with
        ("1,0.75\n0,0.25\n1,0.5", "the last line, '1,0.5', has no final newline and is shorter than every other"),
        ("1,0.75\r\n0,0.25\r\n1,0.5", "the last line, '1,0.5', has no final newline and is shorter than every other"),
        (
            "1,0.75\n0,0.25\n1.00,0.5",
            "the last line has no final newline, and its last field, '0.5', is shorter than every other",
        ),
        (
            '"1",0.75\n"0",0.25\n"1",0.5',
            "the last line, '\"1\",0.5', has no final newline and is shorter than every other",
        ),
    ],
)
def test_when_a_last_line_is_doubted(here, records, doubt):
    Path("a.csv").write_bytes(b"y,s\n" + records.encode())
    found = read_table("a.csv", ReadOptions(scores=("s",)))
    told = f"{doubt[:1].upper()}{doubt[1:]}: is the file complete?"
    assert found.notes == ((told,) if doubt else ())
    # at scale only the tail of the file is read, and the words are the same
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scale.scan("a.csv")
    assert [str(one.message) for one in caught] == ([f"'a.csv' may not be complete: {doubt}."] if doubt else [])


def test_the_shortest_record_is_found_anywhere(here):
    lines = ["y,s", *(f"1,0.{i:03d}" for i in range(100, 200)), "0,0.5", *(f"1,0.{i:03d}" for i in range(100, 200))]
    for last, doubted in (("1,0.5", False), ("1,0.", True)):
        Path("a.csv").write_text("\n".join([*lines, last]))
        found = read_table("a.csv", ReadOptions(scores=("s",)))
        assert bool(found.notes) is doubted, last


def test_complete_files_without_a_line_end_are_rarely_doubted(here):
    """The chance that the last of n records is the strictly shortest is at most 1/n; by record and field, 2/n."""
    rng = np.random.default_rng(0)
    doubted = 0
    for _ in range(300):
        values = np.round(rng.random(50), 4)
        Path("a.csv").write_text("\n".join(["y,s", *(f"{i % 2},{value}" for i, value in enumerate(values))]))
        doubted += bool(read_table("a.csv", ReadOptions(scores=("s",))).notes)
    assert doubted <= 300 * 2 / 50 + 4 * np.sqrt(300 * 2 / 50)


def test_a_file_that_changes_while_it_is_read(here, monkeypatch):
    Path("a.csv").write_text("\n".join(LINES) + "\n")
    read = _sources._read_all

    def slow(stream, *rest, **options):
        content = read(stream, *rest, **options)
        with Path("a.csv").open("a") as file:
            file.write("1,0.5\n")
        return content

    monkeypatch.setattr(_sources, "_read_all", slow)
    size = Path("a.csv").stat().st_size
    found = read_sample("a.csv", ReadOptions("y", ("p",), as_given=True))
    sizes = f"{size:,} bytes at first, {size:,} read, {size + 6:,} at the end"
    assert found.doubts == (f"The file changed while it was read, {sizes}: is the file complete?",)


def test_an_arrow_stream_without_its_end(here):
    frame = pl.DataFrame({"y": [0, 1] * 20, "p": np.linspace(0.1, 0.9, 40)})
    whole = io.BytesIO()
    frame.write_ipc_stream(whole)
    how = ReadOptions("y", ("p",), as_given=True)
    Path("a.arrow").write_bytes(whole.getvalue())
    assert read_sample("a.arrow", how).doubts == ()
    Path("a.arrow").write_bytes(whole.getvalue()[:-8])  # the mark is eight bytes (Arrow's format, IPC streaming)
    told = ("The Arrow stream has no end marker: is the file complete?",)
    assert read_sample("a.arrow", how).doubts == told
    with pytest.raises(InputError, match="with --strict a file must be complete beyond doubt"):
        read_sample("a.arrow", replace(how, strict=True))


def test_cut_off_files_at_scale(here):
    Path("a.csv").write_text("\n".join(LINES) + "\n")
    Path("b.csv").write_text("\n".join([*LINES, "1,0"]))
    words = "the last line, '1,0', has no final newline and is shorter than every other"
    found = call("diagnose", "*.csv", *ONE, "--as-given")
    assert found.stderr.count(words) == 1
    assert f"note: In 'b.csv', {words}: is the file complete?\n" in found.stderr
    assert words in " ".join(found.stdout.split())
    refused = call("report", "a.csv", "b.csv", *ONE, "--as-given", "--strict", code=2)
    assert refused.stderr == STRICT.format(name="b.csv").replace("'b.csv': the", "'b.csv': in 'b.csv', the")
    with pytest.warns(DoubtfulFileWarning) as caught:
        scale.aggregate("b.csv", target="y", score="p")
    assert str(caught[0].message) == f"'b.csv' may not be complete: {words}."


# ── checksums of Parquet ────────────────────────────────────────────────────────────────────────────

WRONG = (
    "the pages of a Parquet file must have the checksums that were written with them; got another one for a page of "
    "column 'p' in {name!r}. The file is damaged: write or download it again."
)


@pytest.fixture
def parquet(here):
    """A Parquet file with checksums, one without, and one of which a bit is flipped in column p."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    y, q, x, _ = law(500)
    table = pa.table({"y": y, "p": q, "other": sharpened(q, 2), "x": x[:, 0], "id": np.arange(500)})
    how = {"use_dictionary": False, "compression": "none", "row_group_size": 200}
    pq.write_table(table, "whole.parquet", write_page_checksum=True, **how)
    pq.write_table(table, "plain.parquet", **how)
    content = bytearray(Path("whole.parquet").read_bytes())
    content[bytes(content).index(np.float64(q[300]).tobytes()) + 6] ^= 0x08  # of the exponent: another number in (0, 1)
    Path("bad.parquet").write_bytes(content)
    return pq


def test_a_flipped_bit_is_refused(parquet):
    # pyarrow agrees; without the checksum the file reads, with another number
    with pytest.raises(OSError, match="CRC"):
        parquet.read_table("bad.parquet", page_checksum_verification=True)
    other = parquet.read_table("bad.parquet")["p"].to_numpy() != parquet.read_table("whole.parquet")["p"].to_numpy()
    assert other.sum() == 1
    assert call("diagnose", "bad.parquet", *ONE, code=2).stderr == f"error: {WRONG.format(name='bad.parquet')}\n"
    Path("packed.parquet.gz").write_bytes(gzip.compress(Path("bad.parquet").read_bytes()))
    message = call("test", "packed.parquet.gz", *ONE, code=2).stderr
    assert message == f"error: {WRONG.format(name='packed.parquet.gz')}\n"
    # only columns that are used are looked at
    others = read_sample("bad.parquet", ReadOptions("y", ("other",)))
    assert others.origin.details["checksums"] == "verified, 6 pages"


def test_what_was_verified_is_said(parquet):
    details = {name: diagnosed(f"{name}.parquet", *ONE)["origin"]["details"] for name in ("whole", "plain")}
    assert details["whole"]["checksums"] == "verified, 6 pages"  # three groups of rows, two columns
    assert details["plain"]["checksums"] == "none in the file"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"compression": "zstd", "use_dictionary": False},
        {"data_page_version": "2.0"},
        {"data_page_version": "2.0", "compression": "gzip", "use_dictionary": False},
        {"row_group_size": 70, "data_page_size": 300},
        {"use_dictionary": False, "write_batch_size": 10, "data_page_size": 100},
        {"write_page_index": True, "write_statistics": True},
    ],
    ids=str,
)
def test_every_page_that_pyarrow_verifies_is_verified(parquet, how):
    """Any flipped bit that pyarrow finds by its checksum is found here; of a file that is whole, every page passes."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    words = [None if i % 9 == 0 else f"word {i % 13}" * 3 for i in range(300)]
    table = pa.table({"p": rng.random(300), "w": words, "l": [[1.5, 2.0]] * 300})
    parquet.write_table(table, "a.parquet", write_page_checksum=True, **how)
    found = read_table("a.parquet", ReadOptions(scores=("p",))).origin.details["checksums"]
    assert int(re.fullmatch(r"verified, (\d+) pages", found)[1]) >= table.num_columns  # and none is without
    content = Path("a.parquet").read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    for place in rng.integers(4, len(content) - 8 - length, 25):
        bad = bytearray(content)
        bad[place] ^= 1 << int(rng.integers(8))
        try:
            parquet.read_table(io.BytesIO(bytes(bad)), page_checksum_verification=True)
            theirs = True
        except (OSError, pa.ArrowException) as error:
            theirs = "CRC" not in str(error)
        Path("bad.parquet").write_bytes(bad)
        try:
            scale.scan("bad.parquet", verify_checksums=True)
            ours = True
        except InputError:
            ours = False
        assert theirs or not ours


def test_checksums_at_scale_are_an_option(parquet):
    columns = {"target": "y", "score": "p", "loss": "brier"}
    wrong = re.escape(WRONG.format(name="bad.parquet"))
    scale.decompose("bad.parquet", **columns)
    with pytest.raises(InputError, match=wrong):
        scale.decompose("bad.parquet", **columns, verify_checksums=True)
    with pytest.raises(InputError, match=wrong):
        scale.scan("bad.parquet", verify_checksums=True)
    with pytest.warns(DoubtfulFileWarning, match="The files have no checksums: nothing was verified"):
        scale.aggregate("plain.parquet", target="y", score="p", verify_checksums=True)
    whole = scale.decompose("whole.parquet", **columns, verify_checksums=True)
    assert whole.terms == scale.decompose("whole.parquet", **columns).terms
    with pytest.raises(InputError, match="verify_checksums must come with files; got DataFrame"):
        scale.aggregate(pl.read_parquet("whole.parquet"), target="y", score="p", verify_checksums=True)

    call("diagnose", "bad.parquet", *ONE, "--engine", "polars")
    refused = call("diagnose", "bad.parquet", *ONE, "--engine", "polars", "--verify-checksums", code=2)
    assert refused.stderr == f"error: {WRONG.format(name='bad.parquet')}\n"
    found = diagnosed("whole.parquet", *ONE, "--engine", "polars", "--verify-checksums")
    assert found["origin"]["details"]["checksums"] == "verified, 6 pages"
    Path("a.csv").write_text("\n".join(LINES) + "\n")
    refused = call("diagnose", "a.csv", *ONE, "--engine", "polars", "--verify-checksums", code=2)
    assert refused.stderr == (
        "error: --verify-checksums must come with Parquet files; got CSV. Leave it out: text has no checksums.\n"
    )


def test_classes_at_scale_are_verified_too(here):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    laws = rng.dirichlet([1, 1, 1], 400)
    y = (rng.random((400, 1)) > laws.cumsum(axis=1)).sum(axis=1)
    table = pa.table({"y": y, **{f"p_{k}": laws[:, k] for k in range(3)}})
    pq.write_table(table, "a.parquet", write_page_checksum=True, use_dictionary=False, compression="none")
    content = bytearray(Path("a.parquet").read_bytes())
    content[bytes(content).index(laws[7, 2].tobytes())] ^= 0x01  # the last bit: rows still sum to 1
    Path("a.parquet").write_bytes(content)
    options = {"target": "y", "score": ["p_0", "p_1", "p_2"], "loss": "log", "sample": 400}
    scale.decompose("a.parquet", **options)
    with pytest.raises(InputError, match="a page of column 'p_2' in 'a.parquet'"):
        scale.decompose("a.parquet", **options, verify_checksums=True)


def test_a_footer_that_points_to_the_same_pages_again_and_again_costs_nothing(parquet):
    """The bytes of a file are read once at most: a small file cannot ask for more."""
    with Path("whole.parquet").open("rb") as file:
        footer = parquet_pages.read_footer(file, "a")
        many = replace(footer, chunks=footer.chunks[1:2] * 10_000)
        found = parquet_pages.verify_pages(file, "a", footer=many)
    assert found.unread == "the pages of column 'p' have headers that cannot be read"
    assert found.verified * 200 * 8 < Path("whole.parquet").stat().st_size


def test_the_footer_is_that_of_pyarrow(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": list(range(5000)), "b": ["x" * (i % 50) for i in range(5000)], "c": [[1], [2]] * 2500})
    parquet.write_table(table, tmp_path / "a", row_group_size=1000, compression="gzip")
    known = parquet.ParquetFile(tmp_path / "a").metadata
    with (tmp_path / "a").open("rb") as file:
        found = parquet_pages.read_footer(file, "a")
    assert found.rows == known.num_rows
    groups = [known.row_group(i) for i in range(known.num_row_groups)]
    for column, name in enumerate("abc"):
        assert found.sizes[name] == sum(group.column(column).total_uncompressed_size for group in groups)


# ── several models, and columns that are other scores ───────────────────────────────────────────────


@pytest.fixture
def models(here):
    """Three models of two features under names of a pattern, the features, and a ratio that says little."""
    y, q, x, rng = law(900)
    logit = np.log(q / (1 - q))
    noisy = 1 / (1 + np.exp(-(logit + rng.normal(0, 0.4, y.size))))
    ratio = np.clip(0.5 + 0.05 * y + rng.normal(0, 0.15, y.size), 0.01, 0.99)
    scores = {"p_true": q, "p_bold": sharpened(q, 2.0), "p_noisy": noisy}
    columns = {"y": y, **{name: p.round(2).clip(0.01, 0.99) for name, p in scores.items()}}  # few cells: fast maps
    pl.DataFrame({**columns, "ratio": ratio, "x0": x[:, 0], "x1": x[:, 1]}).write_csv("models.csv")
    return "models.csv"


def test_one_model_per_column(models):
    named = [part for name in ("p_true", "p_bold", "p_noisy") for part in ("--score", name)]
    for command in ("compare", "test"):
        extra = ("--method", "spiegelhalter") if command == "test" else ("--loss", "brier")
        args = (command, models, "--target", "y", *extra, "--format", "json", "--quiet")
        assert call(*args, "--models", "p_*").stdout == call(*args, *named).stdout
    assert list(diagnosed(models, "--target", "y", "--loss", "brier", "--models", "p_bold,p_noisy")["models"]) == [
        "p_bold",
        "p_noisy",
    ]
    # a pattern does not mean columns that have another role, nor a model twice
    args = ("test", models, "--target", "y", "--method", "spiegelhalter", "--format", "csv", "--quiet")
    lines = call(*args, "--score", "p_bold", "--models", "p_*", "--models", "*_true").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == ["p_bold", "p_true", "p_noisy"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("diagnose", "models.csv", "--target", "y", "--score", "p_*"),
            (
                "error: the columns of score 'p' must be named after the labels of the target; got columns for 'true', "
                "'bold', 'noisy' beside the labels '0', '1'. If each column is a model of its own, pass --models "
                "instead of --score; otherwise rename the columns, or list those of this model: --score 'p_a,p_b,p_c'.\n"
            ),
        ),
        (
            ("compare", "models.csv", "--target", "y", "--models", "q_*"),
            (
                "error: --models must match a column; got 'q_*', which matches none without another role. The columns are 'y', "
                "'p_true', 'p_bold', 'p_noisy', 'ratio', 'x0', 'x1'.\n"
            ),
        ),
        (
            ("compare", "models.csv", "--target", "y", "--models", "p_tru"),
            (
                "error: --models must be a column of the file; got 'p_tru'. Did you mean 'p_true'? The columns are 'y', "
                "'p_true', 'p_bold', 'p_noisy', 'ratio', 'x0', 'x1'.\n"
            ),
        ),
        (
            ("diagnose", "models.csv", "--engine", "polars", "--target", "y", "--score", "p_*"),
            (
                "error: a report from sums is about two classes, so --score must name one column, the probability of the "
                "event; got 'p_*', which are 3 columns ('p_true', 'p_bold', 'p_noisy'). If each is a model of its own, "
                "pass --models; for several classes, draw a sample of rows into one file, "
                "or use scoreprism.scale.decompose in Python. See 'main diagnose --help'.\n"
            ),
        ),
    ],
)
def test_patterns_that_cannot_be_meant(models, args, message):
    assert call(*args, code=2).stderr == message


def test_models_at_scale(models):
    found = diagnosed(models, "--engine", "polars", "--target", "y", "--loss", "brier", "--models", "p_*")["models"]
    rows = pl.read_csv(models)
    risks = {name: float(((rows[name] - rows["y"]) ** 2).mean()) for name in ("p_true", "p_bold", "p_noisy")}
    assert {name: one["losses"]["brier"]["risk"] for name, one in found.items()} == pytest.approx(risks, rel=1e-9)
    args = ("report", models, "--target", "y", "--models", "p_*", "--save-sums", "s.json")
    words = "error: --save-sums saves the sums of one score; got several. Run it once for each."
    assert call(*args, code=2).stderr == f"{words} See 'main report --help'.\n"


def read_features(file, *scores, **more):
    found = read_sample(file, ReadOptions("y", scores, all_features=True, as_given=True, **more))
    return found.sample.X.columns, found.notes


def test_other_scores_are_no_features(models):
    """Known from how they were made: p_bold ranks as p_true does, p_noisy a little worse, ratio hardly at all."""
    left = "Columns 'p_true', 'p_noisy' are not used as features: they look like scores of the same target. "
    note = f"{left}Name them in --features, beside --all-features, to keep them."
    assert read_features(models, "p_bold") == (["ratio", "x0", "x1"], (note,))
    # those that are judged are no features of each other
    assert read_features(models, "p_bold", "p_true", "p_noisy") == (["ratio", "x0", "x1"], ())
    # what is named is kept, whatever it looks like
    kept, notes = read_features(models, "p_bold", features=("p_true",))
    assert (kept, len(notes)) == (["p_true", "ratio", "x0", "x1"], 1)


def test_scores_are_known_by_how_they_rank_too(models):
    """The same table under names that say nothing."""
    pl.read_csv(models).rename({"p_true": "elm", "p_bold": "oak", "p_noisy": "ash"}).write_csv("trees.csv")
    for score, others in (("oak", "'elm', 'ash'"), ("ash", "'elm', 'oak'")):
        kept, notes = read_features("trees.csv", score)
        assert kept == ["ratio", "x0", "x1"]
        assert notes[0].startswith(f"Columns {others} are not used as features: they look like scores")


@pytest.mark.parametrize(
    ("name", "score", "strength", "left"),
    [
        ("p_other", "p_mine", 0.0, True),  # a word for scores
        ("score", "mine_score", 0.0, True),
        ("loan_ratio", "loan_pd", 0.1, False),  # loan_amount has the word too, and is no score
        ("rf2", "rf1", 1.0, True),  # alike but for the number, and ranks outcomes half as well
        ("rf2", "rf1", 0.0, False),
        ("ratio", "mine", 0.3, False),  # predicts weakly
        ("ratio", "mine", 0.0, False),
        ("other", "mine", 3.0, True),  # ranks as well, in the same order
    ],
)
def test_which_columns_look_like_scores(here, name, score, strength, left):
    y, q, x, rng = law(2000, seed=1)
    other = 1 / (1 + np.exp(-(strength * np.log(q / (1 - q)) + rng.normal(0, 1, y.size))))
    pl.DataFrame({"y": y, score: q, name: other, "loan_amount": x[:, 0], "flag": y}).write_parquet("a.parquet")
    assert read_features("a.parquet", score)[0] == ([] if left else [name]) + ["loan_amount", "flag"]


def test_a_feature_in_the_unit_interval_that_the_score_lacks_is_kept(here):
    """Two uniform features rank alike; the score that knows the first only must not lose the second to a likeness."""
    rng = np.random.default_rng(0)
    x = rng.random((3000, 2))
    y = rng.random(3000) < 1 / (1 + np.exp(-4 * (x.sum(axis=1) - 1)))
    score = 1 / (1 + np.exp(-4 * (x[:, 0] - 0.5)))
    pl.DataFrame({"y": y, "s": score, "u": x[:, 1]}).write_parquet("a.parquet")
    assert read_features("a.parquet", "s") == (["u"], ())


def test_explicit_features_that_are_scores(models):
    roles = ReadOptions("y", ("p_bold", "p_true"), features=("p_true", "x0"))
    found = read_sample(models, roles)
    assert found.sample.X.columns == ["x0"]
    assert found.notes == ("'p_true' is a score, not a feature.",)
    with pytest.raises(InputError) as error:
        read_sample(models, ReadOptions("y", ("p_bold",), features=("p_bold",)))
    assert str(error.value) == (
        "features must not all be scores; got 'p_bold'. Name other columns in --features, or leave it out."
    )


def test_classes_of_another_model_are_no_features(here):
    rng = np.random.default_rng(0)
    laws = rng.dirichlet([1, 1, 1], 300)
    other = 0.7 * laws + 0.1
    y = np.array(list("abc"))[(rng.random((300, 1)) > laws.cumsum(axis=1)).sum(axis=1)]
    columns = {f"{model}_{c}": p[:, k] for model, p in (("net", laws), ("old", other)) for k, c in enumerate("abc")}
    shares = {f"share_{c}": rng.random(300) for c in "abc"}  # the same ending, but no law
    pl.DataFrame({"y": y, **columns, **shares}).write_csv("classes.csv")
    kept, notes = read_features("classes.csv", "net_*")
    assert kept == ["share_a", "share_b", "share_c"]
    assert notes[0].startswith("Columns 'old_a', 'old_b', 'old_c' are not used as features")


# ── dead ends ───────────────────────────────────────────────────────────────────────────────────────


def test_a_bare_call_prints_the_help():
    found = call(code=2)
    assert found.stderr == call("--help").stdout
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "report",
            (
                "error: Missing argument 'FILE...'. For example 'scoreprism report credit.csv --target default --score model "
                "-o report.html'. See 'main report --help'.\n"
            ),
        ),
        (
            "compare",
            (
                "error: Missing argument 'FILE'. For example 'scoreprism compare credit.csv --target default --score old "
                "--score new'. See 'main compare --help'.\n"
            ),
        ),
    ],
)
def test_a_command_alone_shows_an_example(command, message):
    assert call(command, code=2).stderr == message


def test_the_demonstration_replaces_its_own_page_and_nothing_else(here, monkeypatch):
    class Found:
        sections = ()

        def __getitem__(self, key):
            return None

        def to_html(self):
            return "<html>ä</html>\n"

    monkeypatch.setattr(_demo, "_make_report", lambda *_: Found())
    monkeypatch.setattr(_demo, "shorten", lambda _: None)
    monkeypatch.setattr(_demo, "emit", lambda *_: None)
    monkeypatch.setattr("dataclasses.replace", lambda found, **_: found)
    page = Path("scoreprism-demo.html")
    call("demo")
    first = page.read_bytes()
    digest = hashlib.sha256("<html>ä</html>\n".encode()).hexdigest()
    assert first.decode() == f"<html>ä</html>\n<!-- written by scoreprism demo: {digest} -->\n"
    assert "wrote scoreprism-demo.html" in call("demo").stderr
    assert page.read_bytes() == first
    refused = "error: an output file must not exist yet; got 'scoreprism-demo.html', which does. Pass --force to replace it.\n"
    for other in (b"mine", first.replace(b"html", b"HTML"), first + b"more", b"mine" + first[first.index(b"<!--") :]):
        page.write_bytes(other)
        assert call("demo", code=2).stderr == refused
        assert page.read_bytes() == other
    call("demo", "--force")
    assert page.read_bytes() == first


@pytest.mark.slow
def test_the_first_command_of_the_readme_twice(here):
    call("demo", "--quiet")
    page = Path("scoreprism-demo.html").read_bytes()
    call("demo", "--quiet")
    assert Path("scoreprism-demo.html").read_bytes() == page


def test_no_error_names_an_argument_of_python(models):
    """Calls that end in refusals of the library below the command line."""
    Path("no.json").write_text("{}")
    Path("old.html").write_text("old")
    few = pl.read_csv(models).head(12).with_columns(y=pl.Series([1] + [0] * 11))
    few.write_csv("few.csv")
    some = (
        ("report", models, "--target", "y", "--score", "p_bold", "-o", "old.html"),
        ("diagnose", "few.csv", "--target", "y", "--score", "p_bold", "--as-given"),
        ("recalibrate", "few.csv", "--target", "y", "--score", "p_bold", "--as-given"),
        ("recalibrate", models, "--target", "y", "--score", "p_bold", "--save", "old.html"),
        ("apply", "no.json", models, "--score", "p_bold", "-o", "o.csv"),
        ("export", "no.json", "--sql"),
        ("diagnose", models, "--engine", "polars", "--target", "y", "--score", "p_bold", "--period", "day"),
        ("diagnose", models, "--engine", "polars", "--target", "x0", "--score", "p_bold"),
        ("diagnose", models, "--engine", "polars", "--target", "y", "--score", "p_bold", "--weight", "x0"),
        ("diagnose", "--sums", "no.json"),
        ("test", models, "--target", "y", "--score", "p_bold", "--method", "nose"),
        ("diagnose", models, "--target", "y", "--score", "p_bold", "--loss", "elementary:theta=2"),
    )
    for args in some:
        told = call(*args, code=2).stderr
        assert not PYTHON.search(told), told


def test_columns_that_are_named_as_arguments_are(here):
    y, q, *_ = law(600)
    pl.DataFrame({"y_true": y, "clip": sharpened(q, 3), "`y`": sharpened(q, 2)}).write_csv("w.csv")
    told = call("compare", "w.csv", "--target", "y_true", "--score", "clip", "--score", "`y`").stdout
    assert "clip" in told
    assert "`y`" in told
    assert "--" not in told


# ── twins of the tables of strangers ────────────────────────────────────────────────────────────────


def contradictions(found):
    """Findings of a diagnosis of one model that its own figures, its headline, or its other findings speak against."""
    (model,) = found["models"].values()
    term, p = next(iter(model["losses"].values()))["terms"]["reliability"], model["tests"]["calibration"]["pvalue"]
    told = {one["kind"]: one for one in model["findings"]}
    called = {one["kind"] for section in found["sections"] for one in section["findings"]}
    gain = told.get("recalibrate", {}).get("low")
    removes = gain is not None and f"{gain:.3g}" in found["headline"]
    none = bool({"no_miscalibration", "calibrated_enough"} & told.keys())
    accused = [told[kind]["pvalue"] for kind in ("recalibrate_size_open", "not_material") if kind in told]
    wrong = {
        "a gain that is not the lower bound": gain not in (None, term["lower_bound"]),
        "headline and action differ": removes is not ("recalibrate" in called),
        "shown and not shown": none and ("recalibrate" in told or bool(accused) or term["lower_bound"] > 0),
        "miscalibrated against its own test": any(one not in (p, None) for one in accused)
        or (bool(accused) and p > 0.05),
        "an estimate outside of its interval": not term["low"] <= max(term["estimate"], 0.0) <= term["high"],
    }
    return [name for name, holds in wrong.items() if holds]


def test_contradictions_are_seen():
    """The check itself, on an answer that is right and on ones in which a finding or a figure was changed."""
    term = {"estimate": 0.014, "low": 0.0068, "high": 0.021, "lower_bound": 0.00792}

    def answer(headline, *findings):
        tests = {"calibration": {"pvalue": 0.3}}
        model = {"losses": {"log": {"terms": {"reliability": term}}}, "tests": tests, "findings": list(findings)}
        return {"headline": headline, "models": {"p": model}, "sections": [{"findings": list(findings)}]}

    words = "Of the log loss of p, 0.0843, recalibration removes at least 0.00792 (9.4 %), at 95 % confidence."
    gain, none = {"kind": "recalibrate", "low": 0.00792}, {"kind": "no_miscalibration"}
    assert contradictions(answer(words, gain)) == []
    assert contradictions(answer("No part of the log loss is removable.", gain)) == ["headline and action differ"]
    assert contradictions(answer(words.replace("0.00792", "0.02"), {**gain, "low": 0.02})) == [
        "a gain that is not the lower bound"
    ]
    assert contradictions(answer(words, gain, none)) == ["shown and not shown"]
    assert contradictions(answer(words, none)) == ["shown and not shown"]  # the bound is above 0
    accused = {"kind": "recalibrate_size_open", "pvalue": 0.0001}
    assert contradictions(answer("p is miscalibrated.", accused)) == ["miscalibrated against its own test"]
    term["estimate"] = 0.03
    assert contradictions(answer(words, gain)) == ["an estimate outside of its interval"]


def test_rare_events(here):
    """One row in fifty; the score is the law with 1.5 times its log-odds, so that its reliability is known."""
    y, q, _, _ = law(4000, rate=-5.0)
    p = sharpened(q, 1.5).round(3).clip(0.001)  # maps of few cells are fitted fast
    pl.DataFrame({"fraud": np.where(y, "yes", "no"), "p": p}).write_csv("rare.csv")
    assert 0.01 < y.mean() < 0.04
    args = ("rare.csv", "--target", "fraud", "--pos-label", "yes", "--score", "p", "--loss", "log")
    answer = diagnosed(*args)
    assert contradictions(answer) == []
    found = answer["models"]["p"]["losses"]["log"]["terms"]["reliability"]
    truth = float(np.mean(q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))))  # the law's own divergence
    assert found["low"] < truth < found["high"]
    out = call("recalibrate", *args, "--method", "platt", "--save", "m.json", "--format", "json")
    before, after = (row["log_loss"] for row in json.loads(out.stdout)["sections"][0]["tables"][0]["rows"])
    assert before - after == pytest.approx(truth, abs=0.003)
    call("apply", "m.json", "rare.csv", "--score", "p", "-o", "out.csv", "--quiet")
    with Path("out.csv").open(newline="") as file:
        new = np.array([float(row["p_recalibrated"]) for row in csv.DictReader(file)])
    assert new.mean() == pytest.approx(y.mean(), abs=1e-3)
    assert np.abs(new - q).mean() < np.abs(p - q).mean()


def test_exact_zeros(here):
    """A forest of ten trees says 0 and 1; whatever the log loss does, the Brier loss and the exit code are there."""
    y, q, _, rng = law(800)
    votes = rng.binomial(10, q) / 10
    assert (y[votes == 0] == 1).any()
    pl.DataFrame({"y": y, "votes": votes}).write_csv("votes.csv")
    args = ("votes.csv", "--target", "y", "--score", "votes")
    assert "∞" in call("diagnose", *args, "--max-reliability", "10", "--quiet", code=1).stdout
    brier = diagnosed(*args)["models"]["votes"]["losses"]["brier"]
    assert brier["risk"] == pytest.approx(np.mean((votes - y) ** 2), rel=1e-9)
    # ten votes of a coin with chance q: (v − q)² is q (1 − q) / 10 in the mean, and P(Y | v) takes some of it back
    assert 0 < brier["terms"]["reliability"]["estimate"] < np.mean(q * (1 - q)) / 10 + 0.01
    call("diagnose", *args, "--loss", "brier", "--max-reliability", "10", "--quiet")


def test_several_models(models):
    """p_true is the law itself, p_bold doubles its log-odds, p_noisy adds noise to them."""
    tables = json.loads(call("compare", models, "--target", "y", "--models", "p_*", "--format", "json").stdout)
    assert "p_true has the smallest log loss" in tables["headline"]
    order = [row["model"] for row in tables["sections"][0]["tables"][0]["rows"]]
    assert order == ["p_true", "p_noisy", "p_bold"]
    text = call("test", models, "--target", "y", "--models", "p_*", "--method", "lr-platt").stdout
    assert "p_bold is not calibrated" in text
    assert "p_true is not calibrated" not in text


def test_many_classes(here):
    """Nine classes; the score is the law raised to the power 2, whose temperature is known to be 2."""
    rng = np.random.default_rng(0)
    names = [f"class{k:02d}" for k in range(9)]
    laws = rng.dirichlet(np.full(9, 0.5), 700)
    laws = 0.98 * laws + 0.02 / 9
    y = (rng.random((700, 1)) > laws.cumsum(axis=1)).sum(axis=1).clip(max=8)
    bold = laws**2 / (laws**2).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": bold[:, k] for k, name in enumerate(names)}
    pl.DataFrame({"label": np.array(names)[y], **columns}).write_csv("classes.csv")
    args = ("classes.csv", "--target", "label", "--score", "p_*")
    answer = diagnosed(*args, "--loss", "log")
    assert contradictions(answer) == []
    found = answer["models"]["p"]["losses"]["log"]
    rows = np.arange(700)
    assert found["risk"] == pytest.approx(-np.log(bold[rows, y]).mean(), rel=1e-9)
    truth = float((laws * np.log(laws / bold)).sum(axis=1).mean())
    assert found["terms"]["reliability"]["low"] < truth < found["terms"]["reliability"]["high"]
    call("recalibrate", *args, "--loss", "log", "--method", "temperature", "--save", "t.json", "--quiet")
    call("apply", "t.json", "classes.csv", "--score", "p_*", "-o", "out.csv", "--quiet")
    new = pl.read_csv("out.csv")[:, -9:]
    assert np.abs(new.to_numpy() - laws).mean() < 0.2 * np.abs(bold - laws).mean()


def test_features_that_are_other_scores(models):
    """Everything about the outcome is in p_true; p_bold knows it all, so that no feature can add to it."""
    args = (models, "--target", "y", "--score", "p_bold", "--all-features", "--loss", "brier")
    made = call("diagnose", *args, "--format", "json")
    assert "note: Columns 'p_true', 'p_noisy' are not used as features" in made.stderr
    answer = json.loads(made.stdout)
    assert contradictions(answer) == []
    found = answer["models"]["p_bold"]["losses"]["brier"]["terms"]
    assert found["grouping"]["estimate"] is None  # mostly noise, and so muted
    kinds = {one["kind"] for section in answer["sections"] for one in section["findings"]}
    assert not {"information_gain", "information_size_open"} & kinds
    for words in ("p_true", "p_noisy"):
        assert words not in made.stdout
