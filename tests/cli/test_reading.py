"""Files of predictions as strangers write them: read exactly, or refused in one line that says what to do."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scoreprism
from scoreprism.exceptions import InputError
from tests.cli.reading import ReadOptions, read_sample, read_table

YS = ReadOptions(target="y", scores=("s",))
DELIMITERS = (",", ";", "\t", "|")
PLAIN = "y,s\n1,0.75\n0,0.25\n1,0.5\n"


@pytest.fixture
def read(tmp_path):
    """Write bytes or text to a file and read it."""

    def reader(content, roles=YS, name="data.csv", whole=False, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return (read_table if whole else read_sample)(str(path), replace(roles, **options))

    return reader


def labels_of(found) -> list:
    """The label of every row."""
    return found.sample.classes[found.sample.y].tolist()


def refused(read, *arguments, **options) -> str:
    with pytest.raises(InputError) as error:
        read(*arguments, **options)
    message = str(error.value)
    assert message.isprintable()  # one line, nothing that moves a terminal's cursor
    assert "; got " in message
    return message


# What a good file gives


def test_a_plain_file(read):
    found = read(PLAIN)
    assert labels_of(found) == [1, 0, 1]
    assert found.sample.predictions["s"].tolist() == [0.75, 0.25, 0.5]
    assert found.sample.classes.tolist() == [0, 1]
    assert found.notes == ()
    assert found.origin.name == "data.csv"
    assert found.origin.sha256 == hashlib.sha256(PLAIN.encode()).hexdigest()
    assert found.origin.details == {
        "rows_read": 3,
        "rows_dropped": 0,
        "rows": 3,
        "columns": {"target": "y", "scores": {"s": ["s"]}},
    }


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "blank lines"])
def test_delimiters_line_ends_and_marks_at_the_start(read, delimiter, ends, start):
    start = start if start != "blank lines" else 2 * ends
    content = start + ends.join(["y,s,note", "1,0.75,a", "0,0.25,b", ""]).replace(",", delimiter)
    found = read(content)
    assert labels_of(found) == [1, 0]
    assert found.sample.predictions["s"].tolist() == [0.75, 0.25]


def test_gzip_and_every_binary_kind_give_the_same(read, tmp_path):
    frame = pl.DataFrame({"y": [1, 0, 1], "s": [0.75, 0.25, 0.5], "g": ["a", None, "b"]})
    frame.write_parquet(tmp_path / "a")
    frame.write_ipc(tmp_path / "b")
    frame.write_ipc_stream(tmp_path / "c")
    contents = [(tmp_path / name).read_bytes() for name in "abc"]
    contents += [frame.write_csv().encode(), *(gzip.compress(content) for content in contents)]
    for number, content in enumerate(contents):
        found = read(content, ReadOptions("y", ("s",), segments=("g",)), name=f"x[{number}]*")  # no pattern for polars
        assert labels_of(found) == [1, 0, 1]
        assert found.sample.predictions["s"].tolist() == [0.75, 0.25, 0.5]
        assert found.sample.segments["g"].tolist() == ["a", "(missing)", "b"]
        assert found.origin.sha256 == hashlib.sha256(content).hexdigest()


def test_a_file_that_pandas_wrote(read):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": ["no", "yes"], "s": np.float32([0.25, 0.75]), "x": [1, None]})
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer)
    except ImportError:
        pytest.skip("no engine for Parquet")
    found = read(buffer.getvalue(), ReadOptions("y", ("s",), features=("x",), pos_label="yes"), name="a.parquet")
    assert labels_of(found) == ["no", "yes"]
    assert found.sample.predictions["s"].tolist() == [0.25, 0.75]
    assert found.sample.X["x"].to_list() == [1.0, None]


def test_stdin(monkeypatch):
    parquet = io.BytesIO()
    pl.DataFrame({"y": [1, 0, 1], "s": [0.75, 0.25, 0.5]}).write_parquet(parquet)
    for content in (PLAIN.encode(), gzip.compress(PLAIN.encode()), parquet.getvalue()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        found = read_sample("-", YS)
        assert (found.origin.name, found.origin.sha256) == ("stdin", hashlib.sha256(content).hexdigest())
        assert found.sample.predictions["s"].tolist() == [0.75, 0.25, 0.5]


def test_integers_first_and_halves_later_stay_halves(read):
    """Readers that guess types from the first rows make 0 or 1 of the halves."""
    content = "y,s\n" + "1,1\n0,0\n" * 20_000 + "1,0.5\n" * 10
    found = read(content)
    assert np.count_nonzero(found.sample.predictions["s"] == 0.5) == 10


def test_blanks_around_values_and_blank_lines_do_not_matter(read):
    found = read("y,s,g\n\n 1 , 0.75 , a \n\n0\t,0.25,a\n\n\n", ReadOptions("y", ("s",), segments=("g",)))
    assert labels_of(found) == [1, 0]
    assert found.sample.predictions["s"].tolist() == [0.75, 0.25]
    assert found.sample.segments["g"].tolist() == ["a", "a"]


def test_excel_says_what_separates(read):
    assert read("sep=;\r\ny;s\r\n1;0.75\r\n0;0.25\r\n").sample.predictions["s"].tolist() == [0.75, 0.25]


def test_decimal_commas(read):
    found = read("y;s\n1;0,75\n0;2,5e-1\n", decimal_comma=True)
    assert found.sample.predictions["s"].tolist() == [0.75, 0.25]


def test_encodings(read):
    content = "y,s\ncafé,0.75\nthé,0.25\n"
    roles = ReadOptions("y", ("s",), pos_label="café")
    for encoding in ("latin-1", "utf-16", "utf-8-sig", "cp1252", "utf-32"):
        found = read(content.encode(encoding), roles, encoding=encoding)
        assert labels_of(found) == ["café", "thé"]
        assert found.sample.classes[1] == "café"


@pytest.mark.parametrize(
    ("texts", "outcomes", "pos_label"),
    [
        (["0.0", "1.0"], [0, 1], None),
        (["0", "1.000"], [0, 1], None),
        (["-1", "+1"], [-1, 1], None),
        (["FALSE", "true"], [False, True], None),
        (["no", "yes"], ["no", "yes"], "yes"),
        (["01", "02"], ["01", "02"], "02"),
        (["2", "1"], [2, 1], "2"),
        (["2", "1"], [2, 1], "2.0"),
        (["False", "TRUE"], [False, True], "true"),
    ],
)
def test_labels_are_taken_as_they_stand(read, texts, outcomes, pos_label):
    found = read(f"y,s\n{texts[0]},0.25\n{texts[1]},0.75\n", ReadOptions("y", ("s",), pos_label=pos_label))
    assert labels_of(found) == outcomes
    assert [type(v) for v in labels_of(found)] == [type(v) for v in outcomes]


def test_missing_values_are_dropped_only_on_request(read):
    content = "y,s,w\n1,0.75,1\nNA,0.5,1\n0,n/a,\n0,0.25,2\n1, ,1\n"
    roles = ReadOptions("y", ("s",), weight="w")
    message = refused(read, content, roles)
    assert message == (
        "target 'y' must have no missing values; got 1 of 5 missing, first in data row 2, written 'NA'. "
        "Fill them in, or pass --drop-missing to leave these rows out. If it is a label, rename it."
    )
    found = read(content, roles, drop_missing=True)
    assert labels_of(found) == [1, 0]
    assert found.sample.weight.tolist() == [1.0, 2.0]
    (note,) = found.notes
    assert note == (
        "3 rows of 5 dropped: 2 missing in score 's', written 'n/a'; 1 missing in target 'y', written 'NA'; "
        "1 missing in weight 'w'."
    )
    assert found.origin.details["rows_dropped"] == 3


@pytest.mark.parametrize("missing", ["", "NA", "N/A", "null", "None", "NaN", "-", ".", "?", "nan", " "])
def test_spellings_of_missing(read, missing):
    assert "2 of 4 missing, first in data row 3" in refused(read, f"y,s\n1,1\n0,0\n1,{missing}\n0,{missing}\n")
    found = read(f"y,s,x\n1,1,{missing}\n0,0,2\n", ReadOptions("y", ("s",), features=("x",)))
    assert found.sample.X["x"].to_list() == [None, 2.0]


def test_rows_in_messages_are_those_of_the_file_after_rows_were_dropped(read):
    content = "y,p_a,p_b\n,0.5,0.5\na,0.5,0.5\nb,0.5,0.4\n"
    message = refused(read, content, ReadOptions("y", ("p_*",)), drop_missing=True)
    assert "score 'p' must have rows that sum to 1 within 1e-06; got 0.9 in data row 3 (1 of 2 rows)" in message


def test_features_are_numbers_or_text(read):
    content = "y,s,a,b,id\n1,0.75,1.5,u,n1\n0,0.25,,v,n2\n1,0.5,-2,u,n3\n"
    found = read(content, ReadOptions("y", ("s",), all_features=True))
    assert found.sample.X.columns == ["a", "b"]
    assert found.sample.X["a"].to_list() == [1.5, None, -2.0]
    assert found.sample.X["b"].to_list() == ["u", "v", "u"]
    assert found.notes == ("Column 'id' is not used as a feature: every value is unique.",)
    assert found.origin.details["columns"]["features"] == ["a", "b"]
    assert read(content, ReadOptions("y", ("s",), features=("id",))).sample.X["id"].to_list() == ["n1", "n2", "n3"]


def test_a_feature_of_numbers_and_words_says_so(read):
    found = read("y,s,c\n1,0.75,1\n0,0.25,x\n1,0.5,1\n", ReadOptions("y", ("s",), features=("c",)))
    assert found.sample.X["c"].to_list() == ["1", "x", "1"]
    assert found.notes == ("Feature 'c' is read as text: some values are not finite numbers, first 'x' in data row 2.",)


@pytest.mark.parametrize(
    ("texts", "times"),
    [
        (["2024-01-31", "2023-12-01"], np.array(["2024-01-31", "2023-12-01"], "datetime64[us]")),
        (["2024-01-31 10:00:00", "2024-02"], np.array(["2024-01-31T10:00", "2024-02-01"], "datetime64[us]")),
        (
            ["2024-01-01T00:30:00+01:00", "2024-01-01T00:00:00Z"],
            np.array(["2023-12-31T23:30", "2024-01-01T00:00"], "datetime64[us]"),
        ),
        (["2021", "2022"], np.array([2021, 2022])),
        (["202403", "202401"], np.array([202403, 202401])),
        (["2024Q1", "2023-Q4"], np.array(["2024Q1", "2023Q4"])),
    ],
)
def test_times(read, texts, times):
    found = read(f"y,s,t\n1,0.75,{texts[0]}\n0,0.25,{texts[1]}\n", ReadOptions("y", ("s",), time="t"))
    np.testing.assert_array_equal(found.sample.time, times)
    assert found.sample.time.dtype.kind == times.dtype.kind


def test_times_in_another_form_and_from_parquet(read):
    roles = ReadOptions("y", ("s",), time="t")
    found = read("y,s,t\n1,0.75,03/04/2024\n0,0.25,05/04/2024\n", roles, time_format="%d/%m/%Y")
    assert found.sample.time.astype("datetime64[D]").astype(str).tolist() == ["2024-04-03", "2024-04-05"]
    typed = io.BytesIO()
    dates = pl.Series([0, 19_000], dtype=pl.Date)  # days since 1970
    pl.DataFrame({"y": [1, 0], "s": [0.75, 0.25], "t": dates}).write_parquet(typed)
    found = read(typed.getvalue(), roles)
    assert found.sample.time.astype("datetime64[D]").astype(int).tolist() == [0, 19_000]


# Models of several classes


@pytest.mark.parametrize("score", ["p_*", "p_a,p_b,p_c", "p_c, p_a, p_b"])
def test_wide_scores_are_one_model_in_any_order(read, score):
    content = "y,p_a,p_b,p_c\na,0.5,0.25,0.25\nb,0.25,0.5,0.25\nc,0,0,1\n"
    found = read(content, ReadOptions("y", (score,)))
    assert list(found.sample.predictions) == ["p"]
    law = pl.DataFrame(found.sample.predictions["p"], schema=found.sample.classes.tolist())
    assert law.select("a", "b", "c").rows() == [(0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.0, 0.0, 1.0)]


@pytest.mark.parametrize(
    ("labels", "columns", "score"),
    [
        (["0", "1", "2"], ["p0", "p1", "p2"], "p*"),
        (["aa", "ab", "ac"], ["p_aa", "p_ab", "p_ac"], "p_aa,p_ab,p_ac"),
        (["aa", "ab", "ac"], ["aa", "ab", "ac"], "aa,ab,ac"),
        (["x", "y1", "z"], ["x_prob", "y1_prob", "z_prob"], "*_prob"),
        (["1.0", "2.0", "3.0"], ["p_1", "p_2", "p_3"], "p_*"),
        (["true", "false", "true"], ["q_false", "q_true", "q_maybe"], "q_true,q_false"),
    ],
)
def test_columns_are_matched_with_labels(read, labels, columns, score):
    law = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    if labels[0] == "true":
        law = [[0.5, 0.5, 0.0]] * 3
    rows = [[label, *map(str, row)] for label, row in zip(labels, law, strict=True)]
    content = "\n".join(",".join(row) for row in [["target", *columns], *rows])
    found = read(content, ReadOptions("target", (score,)))
    (law,) = found.sample.predictions.values()
    assert set(found.sample.classes.tolist()) == set(labels_of(found))
    if len(set(labels_of(found))) == 3:
        assert (law[np.arange(3), found.sample.y] == 1.0).all()


def test_the_library_takes_what_was_read(read):
    """Shuffled columns of a wide score give the loss of the sorted ones: mean of −log of the true class's column."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet([2, 2, 2], 200)
    y = np.array([rng.choice(3, p=row) for row in law])
    lines = ["p_2,y,p_0,p_1", *(f"{c!r},{k},{a!r},{b!r}" for k, (a, b, c) in zip(y, law.tolist(), strict=True))]
    found = read("\n".join(lines), ReadOptions("y", ("p_*",)))
    result = scoreprism.decompose(found.sample, loss="log", random_state=0)
    assert result.risk == pytest.approx(-np.log(law[np.arange(200), y]).mean(), rel=1e-12)


def test_wide_scores_that_do_not_fit(read):
    content = "y,p_a,p_b,q\nc,0.5,0.5,1\na,0.5,0.5,1\nb,0.5,0.5,1\n"
    message = refused(read, content, ReadOptions("y", ("p_*",)))
    assert "columns for 'a', 'b' beside the labels 'a', 'b', 'c'" in message
    assert "two labels for score 'q', which is one column" in refused(read, content, ReadOptions("y", ("q",)))
    assert "got 'q*', which matches 0 columns. The columns are" in refused(read, content, ReadOptions("y", ("q*",)))
    assert "must have exactly one *" in refused(read, content, ReadOptions("y", ("*_*",)))
    assert "each name in --score must be a column of the file; got 'p_z'" in refused(
        read, content, ReadOptions("y", ("p_a,p_z",))
    )
    assert "must be named once" in refused(read, content, ReadOptions("y", ("p_a", "p_a")))


LOGITS = "y,z_a,z_b,z_c\na,2,0.5,-1\nb,-inf,1.5,0\nc,-3,-1,4\n"


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_logits_that_are_declared(read, tmp_path, kind):
    """Of several classes: the softmax that `Logits` gives, −∞ included."""
    roles = ReadOptions(target="y", scores=("z_*",), logits=True)
    if kind == "parquet":
        frame = pl.read_csv(io.BytesIO(LOGITS.encode()), schema_overrides={"z_a": pl.Float64})
        frame.write_parquet(tmp_path / "data.parquet")
        found = read_sample(str(tmp_path / "data.parquet"), roles)
    else:
        found = read(LOGITS, roles)
    z = np.array([[2, 0.5, -1], [-np.inf, 1.5, 0], [-3, -1, 4]])
    np.testing.assert_array_equal(
        found.sample.prediction, scoreprism.Sample.of(["a", "b", "c"], scoreprism.Logits(z)).prediction
    )
    assert found.notes == ("Score 'z' was read as logits.",)


def test_log_odds_that_are_declared(read):
    """Of two classes: 1/(1 + 1/3) at log 3; rows without a score are dropped as elsewhere."""
    found = read(
        f"y,s\n1,{np.log(3)!r}\n0,-2\n1,\n1,0\n".replace("np.float64(", "").replace(")", ""),
        logits=True,
        drop_missing=True,
    )
    assert found.sample.prediction == pytest.approx([0.75, 1 / (1 + np.exp(2)), 0.5], rel=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "y,z_a,z_b\na,0.2,0.8\nb,0.6,0.4\n",
            "score 'z' must hold logits, as --logits says; got only numbers from 0 to 1. Leave out --logits if these are probabilities.",
        ),
        (
            "y,z_a,z_b\na,2,1\nb,-inf,-inf\n",
            "score 'z' must have a logit above −∞ for some class of each row; got −∞ for all in data row 2 (1 of 2 rows). Correct or drop these rows.",
        ),
        (
            "y,z_a,z_b\na,2,1\nb,inf,0\n",
            "score 'z_a' must hold numbers; got 'inf' in data row 2 (1 such value). Infinite numbers cannot be used: correct or drop these rows.",
        ),
    ],
)
def test_what_is_no_logit(read, text, message):
    assert refused(read, text, ReadOptions(target="y", scores=("z_*",), logits=True)) == message


def test_language_models(read):
    content = "question,confidence,correct\nq1,0.75,true\nq2,0.25,false\n"
    found = read(content, ReadOptions())
    assert found.notes == ("Columns 'confidence' and 'correct' are used as score and target.",)
    assert found.sample.predictions["confidence"].tolist() == [0.75, 0.25]
    assert labels_of(found) == [True, False]
    assert "no --target and no --score. The columns are 'a', 'b'." in refused(read, "a,b\n1,2\n", ReadOptions())


def test_language_models_with_one_name_given(read):
    content = "confidence,correct\n0.75,true\n0.25,false\n"
    assert labels_of(read(content, ReadOptions(scores=("confidence",)))) == [True, False]
    assert "are used as" in read(content, ReadOptions(scores=("confidence",))).notes[0]
    other = refused(read, content.replace("co", "Co"), ReadOptions())
    assert "Did you mean --target 'Correct' --score 'Confidence'? The columns are" in other


def test_a_forgotten_target_is_asked_for(read):
    assert refused(read, PLAIN, ReadOptions(scores=("s",))) == (
        "a target and a score must be named; got no --target. The columns are 'y', 's'."
    )


WIDE = "y,p_a,p_none\na,0.75,0.25\nnone,0.25,0.75\na,0.5,0.5\n"


@pytest.mark.parametrize("score", ["p_*", "p_a,p_none"])
def test_a_class_may_be_called_like_a_missing_value(read, score):
    assert labels_of(read(WIDE, ReadOptions("y", (score,)))) == ["a", "none", "a"]
    message = refused(read, WIDE.replace("\nnone", "\nNA"), ReadOptions("y", (score,)))
    assert "1 of 3 missing, first in data row 2, written 'NA'" in message
    assert message.endswith("If it is a label, rename it.")


def test_a_positive_label_may_be_called_like_a_missing_value(read):
    content = "y,s\nNA,0.75\nyes,0.25\nNA,0.5\n,0.5\n"
    found = read(content, ReadOptions("y", ("s",), pos_label="NA"), drop_missing=True)
    assert labels_of(found) == ["NA", "yes", "NA"]
    assert "only missing values, written 'NA', 'none'. Name" in refused(read, "y,s\nNA,0.75\nnone,0.25\n")


def test_a_positive_label_of_three_speaks_of_options(read):
    content = "y,p_a,p_b,p_c\na,0.5,0.25,0.25\nb,0.25,0.5,0.25\nc,0.25,0.25,0.5\n"
    message = refused(read, content, ReadOptions("y", ("p_*",), pos_label="a"))
    assert message.startswith("--pos-label must be left out if the target has more than two labels; got 'a', 'b'")


@pytest.mark.parametrize("role", ["q", "latent"])
def test_a_score_is_not_its_own_reference(read, role):
    assert f"--{role} must not be a score" in refused(read, PLAIN, ReadOptions("y", ("s",), **{role: "s"}))


def test_groups(read):
    content = "y,s,c\n1,0.75,7\n1,0.25,007\n0,0.5,x y\n"
    found = read(content, ReadOptions("y", ("s",), groups="c", segments=("c",)))
    assert len(set(found.sample.groups.tolist())) == 3
    assert found.origin.details["columns"]["groups"] == "c"
    gap = content.replace("007", "")
    assert "groups 'c' must have no missing values; got 1 of 3" in refused(
        read, gap, ReadOptions("y", ("s",), groups="c")
    )
    assert read(gap, ReadOptions("y", ("s",), groups="c"), drop_missing=True).sample.groups.tolist() == [0, 1]
    assert "the column of --groups must have no other role" in refused(
        read, content, ReadOptions("y", ("s",), groups="s")
    )
    assert "must be a column" in refused(read, content, ReadOptions("y", ("s",), groups="d"))
    assert "--all-features must find some" in refused(
        read, content, ReadOptions("y", ("s",), groups="c", all_features=True)
    )


def test_without_a_target_every_column_is_kept_as_text(read):
    content = 'id,s,x\n007,0.750,"a,b"\n8,0.25,\n'
    found = read(content, ReadOptions(scores=("s",)), whole=True)
    assert found.table.rows() == [("007", "0.750", "a,b"), ("8", "0.25", None)]
    assert found.table.columns == ["id", "s", "x"]
    assert read(content, ReadOptions(), whole=True).table.rows() == found.table.rows()
    assert "written back must have unique names; got 'a' twice" in refused(
        read, "a,a,s\n1,2,0.5\n", ReadOptions(scores=("s",)), whole=True
    )


# Files that are wrong: 1. bytes

CSV_ERRORS = {
    "empty": (b"", "FILE must not be empty; got 0 bytes"),
    "blank": (b"\n\n\n", "FILE must not be empty; got blank lines"),
    "header only": (b"y,s\n", "at least one row; got only a header"),
    "one row": (b"y,s\n1,0.5\n", "target 'y' must hold at least two labels; got '1' in all 1 row."),
    "cut off": (b"y,s,x\n1,0.75,a\n0,0.2", "as many fields as the header, 3; got 2 in data row 2 (1 such line)"),
    "long line": (b"y,s\n1,0.75\n0,0,25\n", "got 3 in data row 2 (1 such line). Quote fields"),
    "row names": (b"y,s\n1,1,0.75\n2,0,0.25\n", "got 3 in data row 1 (2 such lines)"),
    "open quote": (b'y,s,x\n1,0.75,"a\n0,0.25,b\n', "a quote must be closed"),
    "stray quote": (b'y,s,x\n1,0.75,5" pipe\n0,0.25,6" pipe\n', 'a stray " in line 1 after the header'),
    "text after a quote": (b'y,s,x\n1,0.75,"a"b\n0,0.25,c\n', 'a stray " in line 1'),
    "open quote in the header": (b'y,"s\n1,0.75\n', "an open one in the header"),
    "lone returns": (b"y,s\n1,0.75\r0,0.25\n1,0.5\n", "a lone carriage return in line 1"),
    "nul": (b"y,s\n1,0.75\x00\n0,0.25\n", "must not contain NUL bytes"),
    "zeros": (b"\0" * 5000, "must not contain NUL bytes"),
    "utf-16": ("y,s\n1,0.5\n".encode("utf-16"), "got UTF-16 in 'data.csv'. Pass --encoding utf-16."),
    "utf-16 without a mark": ("y,s\n1,0.5\n".encode("utf-16-le"), "If it is UTF-16, pass --encoding utf-16"),
    "latin-1": ("y,s,x\n1,0.75,é\n".encode("latin-1"), "the byte 0xe9 in line 2 of 'data.csv'. Pass --encoding cp1252"),
    "cut in a letter": ("y,s,x\n1,0.75,é".encode()[:-1], "must be UTF-8; got the byte 0xc3 in line 2"),
    "junk": (bytes(range(1, 256)) * 20, "must be UTF-8"),
    "excel": (b"PK\x03\x04" + b"x" * 100, "a zip archive or an Excel workbook"),
    "old excel": (b"\xd0\xcf\x11\xe0" + b"x" * 100, "an old Excel workbook"),
    "bzip2": (b"BZh91AY&SY" + b"x" * 20, "a bzip2 file in 'data.csv'. Decompress it first"),
    "xz": (b"\xfd7zXZ\x00" + b"x" * 20, "an xz file"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"x" * 20, "a zstd file"),
    "sqlite": (b"SQLite format 3\x00" + b"x" * 20, "an SQLite database"),
    "json": (b'{"y": 1, "s": 0.5}\n', "a JSON file"),
    "web page": (b"<!DOCTYPE html>\n<html>", "a web page in 'data.csv'. It may be a login page"),
    "other digits": ("y,s\n1,\uff11\n0,0.5\n".encode(), "score 's' must hold numbers; got '\uff11' in data row 1"),
    "pdf": (b"%PDF-1.7\n", "a PDF document"),
    "feather 1": (b"FEA1" + b"x" * 20, "a Feather file of version 1"),
    "gzip cut off": (gzip.compress(PLAIN.encode() * 100)[:-20], "a gzip file must be complete"),
    "gzip damaged": (gzip.compress(PLAIN.encode())[:-5] + b"xxxxx", "a gzip file must be complete"),
    "gzip of nothing": (gzip.compress(b""), "0 bytes in 'data.csv', decompressed"),
    "gzip twice": (gzip.compress(gzip.compress(b"y,s\n")), "must be compressed once"),
    "two delimiters": (b"a|y\ts\n1|2\t3\n", "tab or bar could"),
    "no delimiter": (b"y s\n1 0.5\n", "If another character separates the fields, pass it as --delimiter"),
    "no header": (b"1,0.75\n0,0.25\n", "The first line must hold the column names."),
    "huge header": (b"x" * 5_000_000 + b"\n1\n", "the header must have at most 4 MB"),
    "long name": (b"y," + b"s" * 200_000 + b"\n1,0.5\n", "must hold the column names"),
    "same name twice": (b"y,s,s\n1,0.75,0.5\n", "must have a unique name; got 's' twice. Rename one of them."),
    "other name": (b"y,S \n1,0.75\n", "--score must be a column of the file; got 's'. Did you mean 'S '? The columns"),
    # 2. values
    "percent": (b"y,s\n1,75\n0,25.5\n", "got 75.0 in data row 1 (2 of 2 values outside). If these are percentages"),
    "percent signs": (b"y,s\n1,75%\n0,25 %\n", "got '75%' in data row 1 (2 such values). Remove the percent signs"),
    "logits": (b"y,s\n1,0.3\n0,-1.5\n", "got -1.5 in data row 2 (1 of 2 values outside). If these are logits"),
    "points": (b"y,s\n1,700\n0,300\n", "A score must be a probability"),
    "rounding": (b"y,s\n1,1.0000000001\n0,0\n", "If this is rounding"),
    "decimal comma": (
        b"y;s\n1;0,75\n0;0,25\n",
        "got '0,75' in data row 1 (2 such values). If this is a decimal comma, pass",
    ),
    "infinite": (b"y,s\n1,inf\n0,0.25\n", "got 'inf' in data row 1 (1 such value). Infinite numbers"),
    "too large": (b"y,s\n1,1e400\n0,0.25\n", "got '1e400' in data row 1"),
    "hexadecimal": (b"y,s\n1,0x1\n0,0.25\n", "score 's' must hold numbers; got '0x1' in data row 1"),
    "underscores": (b"y,s\n1,0.7_5\n0,0.25\n", "must hold numbers; got '0.7_5'"),
    "words": (b"y,s\n1,high\n0,0.25\n0,low\n", "got 'high' in data row 1 (2 such values)"),
    "truth values as scores": (b"y,s\n1,true\n0,false\n", "score 's' must hold numbers; got 'true'"),
    "soft labels": (b"y,s\n0,0.75\n0.5,0.25\n", "got '0.5' among 2 distinct numbers. Are these scores?"),
    "amounts as target": (b"y,s\n10.5,0.75\n0.5,0.25\n", "classes, not amounts"),
    "too many labels": (
        b"y,s\n" + b"".join(b"%d,0.5\n" % i for i in range(101)),
        "at most 100 classes; got 101 distinct values",
    ),
    "one class": (b"y,s\n0,0.75\n0,0.25\n", "at least two labels; got '0' in all 2 rows"),
    "words as labels": (
        b"y,s\nbad,0.75\ngood,0.25\n",
        "got the labels 'bad', 'good'. Pass --pos-label 'good', or the other",
    ),
    "three labels": (
        b"y,s\n0,0.75\n1,0.25\n2,0.5\n",
        "two labels for score 's', which is one column; got '0', '1', '2'",
    ),
    "numbers and words": (b"y,s\n0,0.75\n1,0.25\nyes,0.5\n", "which is one column; got '0', '1', 'yes'"),
    "only missing": (b"y,s\nNA,0.75\n,0.25\n", "target 'y' must hold labels; got only missing values"),
    "swapped": (b"y,s\n" + b"1,0.25\n0,0.75\n" * 20, "pass --pos-label '0'; if it is intended, pass --as-given"),
}


@pytest.mark.parametrize("kind", CSV_ERRORS)
def test_malformed_text(read, kind):
    content, words = CSV_ERRORS[kind]
    assert words in refused(read, content)


def test_rows_are_named_as_the_file_counts_them_and_blank_lines_are_none(read):
    assert "got 'x' in data row 2 (1 such value)" in refused(read, "y,s\n\n1,0.5\n\n0,x\n")


def test_other_options_that_do_not_fit(read):
    assert "--delimiter must be one character; got 'ab'" in refused(read, PLAIN, delimiter="ab")
    assert "encoding must be one that Python knows; got 'klingon'" in refused(read, PLAIN, encoding="klingon")
    assert "encoding must be one that Python knows" in refused(read, PLAIN, encoding="rot13")
    assert "must be text in ascii" in refused(read, "y,s\né,1\n", encoding="ascii")
    assert "no value may contain a point" in refused(read, "y;s\n1;0.75\n0;0,5\n", decimal_comma=True)
    assert "--pos-label must be one of the labels of the target; got '2'. The labels are '0', '1'." in refused(
        read, PLAIN, ReadOptions("y", ("s",), pos_label="2")
    )
    assert "the target must not be a feature" in refused(read, PLAIN, ReadOptions("y", ("s",), features=("y",)))
    assert "the column of --target must have no other role" in refused(read, PLAIN, ReadOptions("y", ("y",)))
    assert "no --score. The columns are 'y', 's'." in refused(read, PLAIN, ReadOptions("y"))
    assert "no column without another role" in refused(read, PLAIN, ReadOptions("y", ("s",), all_features=True))
    assert "some row must be complete" in refused(read, "y,s\n1,\n,1\n0,\n", drop_missing=True)


@pytest.mark.parametrize(
    ("column", "roles", "words"),
    [
        (["-1", "1"], {"weight": "c"}, "weight 'c' must hold weights of at least 0; got -1.0 in data row 1"),
        (["0", "0"], {"weight": "c"}, "must have a weight above 0; got 2 zeros"),
        (["x", "1"], {"weight": "c"}, "weight 'c' must hold numbers"),
        (["1", "1"], {"weight": "c", "q": "c"}, "the column of --weight must have no other role; got 'c'"),
        (["2", "1"], {"q": "c"}, "q 'c' must hold probabilities between 0 and 1; got 2.0"),
        (["-2", "1"], {"latent": "c"}, "latent 'c' must hold probabilities between 0 and 1; got -2.0"),
        (["03/04/2024", "1"], {"time": "c"}, "got '03/04/2024' in data row 1. Pass --time-format"),
        (["", "2024"], {"time": "c"}, "time 'c' must have no missing values"),
        (["2024-01-01", "2024-01-01T00:00Z"], {"time": "c"}, "a time zone everywhere or nowhere"),
    ],
)
def test_other_columns_that_are_wrong(read, column, roles, words):
    content = f"y,s,c\n1,0.75,{column[0]}\n0,0.25,{column[1]}\n"
    assert words in refused(read, content, ReadOptions("y", ("s",), **roles))


def test_swapped_classes_are_refused_where_that_is_no_accident(read):
    """Forty rows, all in the wrong order: the rank sum is 20·21/2 − 20·41/2 = −200, its sd sqrt(20·20·41/12) = 37."""
    content = "y,s\n" + "".join(f"{int(i < 20)},{(i + 1) / 50}\n" for i in range(40))
    message = refused(read, content)
    assert "an area under the ROC curve of 0.000" in message
    assert read(content, as_given=True).sample.predictions["s"].size == 40
    assert read(content, ReadOptions("y", ("s",), pos_label="0")).sample.classes.tolist() == [1, 0]
    few = "y,s\n" + "".join(f"{int(i < 5)},{(i + 1) / 50}\n" for i in range(10))  # z = −2.6: may be chance
    assert read(few).sample.predictions["s"].size == 10


def test_the_evidence_for_swapped_classes_is_that_of_mann_and_whitney(read):
    """z = (U − mean)/sd with ties, as scipy.stats.mannwhitneyu has it without continuity correction."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    for n, shift in ((60, 0.28), (60, 0.34), (200, 0.14), (200, 0.2), (300, 0.13)):
        y = rng.integers(0, 2, n)
        s = np.round(np.clip(rng.random(n) - shift * y, 0, 1), 1)
        p = stats.mannwhitneyu(
            s[y == 1], s[y == 0], use_continuity=False, method="asymptotic", alternative="less"
        ).pvalue
        content = "y,s\n" + "".join(f"{a},{b}\n" for a, b in zip(y, s, strict=True))
        if p < stats.norm.cdf(-4.0):
            assert "area under the ROC curve" in refused(read, content)
        else:
            read(content)


# Files that are wrong: 3. Parquet and Arrow


@pytest.fixture
def parquet():
    buffer = io.BytesIO()
    rng = np.random.default_rng(0)
    pl.DataFrame({"y": rng.integers(0, 2, 400), "s": rng.random(400), "x": ["a", "b"] * 200}).write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_parquet_cut_off(read, parquet, share, capfd):
    message = refused(read, parquet[: int(8 + share * (len(parquet) - 9))], name="a.parquet")
    assert "a Parquet file must end in its footer" in message
    assert capfd.readouterr().err == ""


def test_parquet_with_flipped_bits_is_refused_or_read_and_never_crashes(read, parquet, capfd):
    """Every 13th byte of the footer, and pages here and there; data pages have no checksum that would tell."""
    length = struct.unpack("<I", parquet[-8:-4])[0]
    places = [*range(len(parquet) - 8 - length, len(parquet), 13), *range(4, len(parquet), 701)]
    outcomes = []
    for place in places:
        damaged = bytearray(parquet)
        damaged[place] ^= 0x41
        try:
            found = read(bytes(damaged), name="a.parquet")
        except InputError as error:
            outcomes.append(str(error))
        else:
            assert found.sample.y.shape == found.sample.predictions["s"].shape
    assert len(outcomes) > 20
    assert all(message.isprintable() for message in outcomes)
    assert capfd.readouterr().err == ""  # a panic of Rust writes there


def test_an_ending_that_promises_something_else(read):
    for name in ("a.parquet", "a.arrow", "a.feather"):
        assert f"a file that ends in {Path(name).suffix} must be" in refused(read, PLAIN, name=name)


def test_parquet_is_measured_before_it_is_read(read, tmp_path):
    """Ten million rows of one number take 10 kB on disk and 80 MB in memory."""
    rows = 10_000_000
    frame = pl.DataFrame({"s": pl.repeat(0.5, rows, eager=True)}).with_columns(y=pl.lit(1, dtype=pl.Int64), z=0)
    frame.write_parquet(tmp_path / "big.parquet")
    del frame
    assert (tmp_path / "big.parquet").stat().st_size < 1_000_000
    started = time.process_time()
    with pytest.raises(InputError, match="must take at most 0.1 GB in memory; got about 0.16 GB for 10000000 rows"):
        read_sample(str(tmp_path / "big.parquet"), replace(YS, max_gigabytes=0.1))
    assert time.process_time() - started < 2.0


def test_only_named_columns_of_parquet_are_decoded(read):
    """A column of lists cannot be a feature, and does not matter where nobody asks for it."""
    buffer = io.BytesIO()
    pl.DataFrame({"y": [1, 0], "s": [0.75, 0.25], "l": [[1], [2, 3]]}).write_parquet(buffer)
    assert labels_of(read(buffer.getvalue())) == [1, 0]
    message = refused(read, buffer.getvalue(), ReadOptions("y", ("s",), features=("l",)))
    assert "feature 'l' must hold plain values; got values of type List(Int64)" in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.75, float("inf")], "score 's' must hold finite numbers; got inf in data row 2"),
        ([0.75, None], "score 's' must have no missing values; got 1 of 2 missing"),
        ([0.75, float("nan")], "score 's' must have no missing values; got 1 of 2 missing"),
        ([True, False], "score 's' must hold numbers; got values of type Boolean"),
        ([[0.5], [0.5]], "score 's' must hold numbers; got values of type List(Float64)"),
        (["0.5", "x"], "got 'x' in data row 2"),
    ],
)
def test_typed_scores_that_are_wrong(read, values, words):
    buffer = io.BytesIO()
    pl.DataFrame({"y": [1, 0], "s": values}).write_parquet(buffer)
    assert words in refused(read, buffer.getvalue())


@pytest.mark.parametrize(
    ("values", "outcomes"),
    [
        ([1.0, 0.0], [1, 0]),
        ([True, False], [True, False]),
        (pl.Series([1, 0], dtype=pl.UInt8), [1, 0]),
        (pl.Series(["1", "0"], dtype=pl.Categorical), [1, 0]),
        (pl.Series(["1", "0"], dtype=pl.Enum(["0", "1"])), [1, 0]),
    ],
)
def test_typed_targets(read, values, outcomes):
    buffer = io.BytesIO()
    pl.DataFrame({"y": values, "s": [0.75, 0.25]}).write_parquet(buffer)
    assert labels_of(read(buffer.getvalue())) == outcomes


def test_damaged_arrow_does_not_take_the_process_with_it(read, capfd):
    """A length of 2⁵⁷ bytes makes Rust abort: found in a child, told in a line."""
    buffer = io.BytesIO()
    frame = pl.DataFrame({"y": [1, 0, 0] * 500, "s": [0.75, None, 0.25] * 500})
    frame.write_ipc(buffer, compression="zstd")
    good = buffer.getvalue()
    packed = b"\x28\xb5\x2f\xfd"  # how zstd begins; the eight bytes before it are the length unpacked
    damaged = packed.join(part[:-1] + b"\x02" for part in good.split(packed)[:-1]) + packed + good.split(packed)[-1]
    try:
        message = f"rows of {read(damaged, name='a.arrow', drop_missing=True).sample.y.sum()}"
    except InputError as error:
        message = str(error)
    # old releases of polars do not use this length, and read what is there: 500 rows of class 1
    assert "an Arrow file must be readable in 8 GB" in message or message == "rows of 500"
    assert "an Arrow file must be readable" in refused(read, good[: len(good) // 2], name="a.arrow")
    assert capfd.readouterr().err == ""


# Files that are wrong: 4. paths


def test_paths(tmp_path):
    for given_, words in {
        str(tmp_path / "none.csv"): "FILE must exist",
        str(tmp_path): "FILE must be a plain file; got .*which is a folder. Name a file in it.",
        "a\0b": "with a NUL character",
        str(tmp_path / ("x" * 300)): "FILE must be readable; got File name too long",
    }.items():
        with pytest.raises(InputError, match=words):
            read_sample(given_, YS)


@pytest.mark.skipif(sys.platform == "win32", reason="devices of Unix")
def test_devices_and_pipes_do_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for given_ in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(InputError, match="a device or a pipe. Pass '-' and pipe it to stdin."):
            read_sample(given_, YS)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices of Unix")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_stdin_without_an_end(device):
    command = [sys.executable, "-m", "scoreprism", "diagnose", "-", "--target", "y", "--score", "s"]
    with Path(device).open("rb") as endless:
        done = subprocess.run(command, stdin=endless, capture_output=True, check=False, timeout=20)
    assert done.returncode == 2
    assert b"must not contain NUL bytes" in done.stderr


def test_a_bomb_is_noticed_on_the_way(read):
    """Thirty megabytes of one row in thirty kilobytes."""
    bomb = gzip.compress(b"y,s\n" + b"1,0.5\n" * 5_000_000, compresslevel=1)
    message = refused(read, bomb, max_gigabytes=0.01)
    assert "FILE must hold at most 0.01 GB, uncompressed; got more in 'data.csv'. Raise --max-gigabytes" in message
    assert "at most 1e-06 GB" in refused(read, PLAIN * 100, max_gigabytes=1e-6)


# Hostile names and values

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE predictions; --",
    '"quoted"',
    "[red]bold[/red]",
    "=1+1",
    "@SUM(A1)",
    "../../etc/passwd",
    "C:\\Windows\\x",
    "two\nlines",
    "tab\tinside",
    "^.*$",
    "^y|s$",
    "*",
    "a,b",
    "é ü 漢字 🙂",
    "\u202egnp.exe",
    "\x1b[31mred",
    "{{ 7 * 7 }}",
    "%s %(x)s {0}",
    "",
    " ",
    "0",
    "y" * 5000,
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("binary", [False, True])
def test_hostile_names_are_names(read, name, binary):
    frame = {name: [0.75, 0.25, 0.5], "the target": [1, 0, 1], "other": ["a", "b", "c"], "plain": [0.7, 0.2, 0.6]}
    if binary:
        buffer = io.BytesIO()
        pl.DataFrame(frame).write_parquet(buffer)
        content = buffer.getvalue()
    else:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerows([list(frame), *zip(*frame.values(), strict=True)])
        content = text.getvalue().encode()
    found = read(content, ReadOptions("the target", (name,), segments=(name,)))
    assert found.sample.predictions[name].tolist() == [0.75, 0.25, 0.5]
    assert read(content, ReadOptions("the target", ("plain",), features=(name,))).sample.X.columns == [name]
    assert list(found.sample.segments) == [name]
    message = refused(read, content, ReadOptions("the target", ("none",)))
    assert len(message) < 600
    assert "must hold numbers" in refused(read, content, ReadOptions("the target", (name,), weight="other"))


@pytest.mark.parametrize("label", [name for name in HOSTILE if name.strip() and name != "0"], ids=len)
def test_hostile_labels_are_labels(read, label):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["y", "s", "g"], [label, 0.75, label], ["other", 0.25, "z"]])
    content = text.getvalue()
    found = read(content, ReadOptions("y", ("s",), segments=("g",), pos_label=label.strip()))
    assert labels_of(found) == [label.strip(), "other"]
    assert found.sample.segments["g"].tolist() == [label.strip(), "z"]
    assert found.sample.classes[1] == label.strip()
    assert len(refused(read, content)) < 400


def test_a_name_of_a_file_that_is_no_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff<b>.csv"
    try:
        Path(os.fsdecode(path)).write_text(PLAIN)
    except OSError:
        pytest.skip("the file system takes only text")
    found = read_sample(os.fsdecode(path), YS)
    assert found.origin.name == "\\udcff<b>.csv"


def test_many_columns_are_found_quickly(read):
    names = [f"x{i}" for i in range(20_000)]
    content = ",".join(["y", "s", *names]) + "\n" + "\n".join(f"{i % 2},0.5" + ",1" * 20_000 for i in range(3))
    started = time.process_time()
    assert read(content).sample.predictions["s"].tolist() == [0.5, 0.5, 0.5]
    assert "Did you mean" in refused(read, content, ReadOptions("y", ("x1_",)))
    assert time.process_time() - started < 5.0


# Any table that Python's csv module writes comes back as it was

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
NUMBER = st.floats(0, 1, allow_nan=False)


@given(
    rows=st.lists(st.tuples(NUMBER, TEXT, st.integers(0, 1), TEXT), min_size=1, max_size=6),
    delimiter=st.sampled_from(DELIMITERS),
    ends=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    packed=st.booleans(),
)
def test_round_trip(tmp_path_factory, rows, delimiter, ends, quoting, packed):
    text = io.StringIO(newline="")
    if any("\r" in field for row in rows for field in (row[1], row[3])) and ends == "\n":
        quoting = csv.QUOTE_ALL  # the csv module leaves these bare, where readers differ
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ends, quoting=quoting)
    writer.writerows([["s", "a", "y", "b"], *rows])
    content = text.getvalue().encode()
    path = tmp_path_factory.getbasetemp() / "round.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_table(str(path), ReadOptions(scores=("s",), delimiter=delimiter))
    assert [v.hex() for v in found.scores["s"].tolist()] == [row[0].hex() for row in rows]  # to the last bit
    assert found.table["a"].fill_null("").to_list() == [row[1] for row in rows]
    assert found.table["b"].fill_null("").to_list() == [row[3] for row in rows]
    assert [int(float(v)) for v in found.table["y"].to_list()] == [row[2] for row in rows]


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "junk"
    path.write_bytes(b"y,s\n1,0.5\n" + content)
    try:
        found = read_sample(str(path), YS)
    except InputError as error:
        message = str(error)
    else:
        message = "read"
        assert found.sample.y.shape == found.sample.predictions["s"].shape
    assert message.isprintable()


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_numbers_are_those_of_python(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    texts = [format(v, ".25g") for v in values]
    path.write_text("y,s\n" + "".join(f"{i % 2},{text}\n" for i, text in enumerate(texts)))
    found = read_sample(str(path), replace(YS, as_given=True))
    assert found.sample.predictions["s"].tolist() == [float(text) for text in texts]


@pytest.mark.slow
def test_a_million_rows_are_read_quickly(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.random(1_000_000)
    frame = pl.DataFrame({"y": (rng.random(s.size) < s).astype(int), "s": s, "t": s})
    frame.write_csv(tmp_path / "a.csv")
    started = time.process_time()
    found = read_sample(str(tmp_path / "a.csv"), ReadOptions("y", ("s", "t")))
    assert time.process_time() - started < 3.0
    np.testing.assert_array_equal(found.sample.predictions["t"], s)
