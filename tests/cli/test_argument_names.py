"""Arguments in messages: by their names in Python, by their options on the command line."""

from __future__ import annotations

import re

import pytest

from scoreprism._spelling import spelling
from scoreprism.calibrators import IsotonicCalibrator
from scoreprism.cli import COMMANDS, main
from scoreprism.cli._options import OPTION_OF
from scoreprism.cli._output import show_warnings
from scoreprism.exceptions import InputError


@pytest.mark.parametrize(
    ("text", "python", "options"),
    [
        ("`sample_weight` must be finite", "sample_weight must be finite", "--weight must be finite"),
        ("`clip`=1e-6 or `clip`=.", "clip=1e-6 or clip=.", "--clip 1e-6 or --clip."),
        ("Pass `overwrite`=True.", "Pass overwrite=True.", "Pass --force."),
        ("`order`='any' follows", "order='any' follows", "--order any follows"),
        ("`pos_label`='a b' (or)", "pos_label='a b' (or)", "--pos-label 'a b' (or)"),
        ("`segments`[1] must be", "segments[1] must be", "--segment must be"),
        ("`cv`=5 is no option", "cv=5 is no option", "cv=5 is no option"),
        (("Pass `clip`=1e-6", "`form`='plugin'"), "Pass clip=1e-6, or form='plugin'.", "Pass --clip 1e-6."),
        (("Pass `classes`=[…]", "`cv`=5"), "Pass classes=[…], or cv=5.", "Pass classes=[…], or cv=5."),
        ("column '`clip`' of `scoreprism losses`", *["column '`clip`' of `scoreprism losses`"] * 2),
        (r"Platt's `clip` or 'it\'s `clip`'", r"Platt's clip or 'it\'s `clip`'", r"Platt's --clip or 'it\'s `clip`'"),
    ],
)
def test_names_of_arguments_in_both_worlds(text, python, options):
    error = InputError("`y_true` must hold labels", "`clip` and y_true", text)
    with spelling(OPTION_OF):
        assert str(error) == f"--target must hold labels; got `clip` and y_true. {options}"
    assert str(error) == f"y_true must hold labels; got `clip` and y_true. {python}"


def test_options_that_arguments_become_exist():
    commands = [main.get_command(None, name) for name in COMMANDS]
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    assert {word for word in OPTION_OF.values() if word.startswith("--")} <= known


def test_warnings_speak_of_options(capsys):
    with spelling(OPTION_OF), show_warnings():
        IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], sample_weight=[0.25] * 4)
    assert capsys.readouterr().err.startswith("warning: --weight sums to 1 over 4 rows: ")


#: What is typed, and what it may stand for; a command without these options names no other.
TYPOS = {
    "--segmnet": {"--segment"}, "--segments": {"--segment"}, "--loss-fn": {"--loss"}, "--sumz": {"--sums"},
    "--confidance": {"--confidence"}, "--reference": {"--q"}, "--level": {"--confidence"}, "--cluster": {"--groups"},
    "--partials": {"--sums"}, "--every": {"--period"}, "--group": {"--segment", "--groups"}, "--by": {"--segment"},
    "--alfa": {"--alpha"}, "--conf": {"--confidence"}, "--sample-weight": {"--weight"}, "--random-state": {"--seed"},
    "--n-jobs": {"--jobs"}, "--y": {"--target"}, "--label": {"--pos-label"}, "--method-of-tests": {"--method"},
    "--nonsense": set(),
}  # fmt: skip


@pytest.mark.parametrize("typed", TYPOS)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_names_the_right_one_or_none(command, typed, capsys):
    known = {option for parameter in main.get_command(None, command).params for option in parameter.opts}
    with pytest.raises(SystemExit):
        main([command, typed, "x"])
    named = set(re.findall(r"--[a-z-]+", capsys.readouterr().err.partition("Did you mean")[2].partition("?")[0]))
    assert named == TYPOS[typed] & known
