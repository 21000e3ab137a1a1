"""Messages of the library, which speak of Python's arguments, in the words of the command line. Plain data and `re`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoreprism.report import Report

#: Remedies that only Python has, and what stands in their place here.
REMEDIES: dict[str, str] = {
    r"overwrite=True \(--force\)": "--force",
    r"overwrite=True": "--force",
    r"order='any'": "--order any",
    r"as to_json\(\) wrote it": "as it was written",
    r"Write the file again with to_json\(\)\.": "Make it again with `scoreprism recalibrate --save`.",
    r", or form='plugin'(?=\.|$)": "",
    r", or calibration=\(scores, y\) with a split that has (them|both)": "",
    r"Pass classes=\[…\](, the labels)? in (the order of the unnamed columns|column order)\.": (
        "Name the columns of --score after the labels."
    ),
    r"Pass what to_json\(\) wrote\.": "Pass a file that `scoreprism recalibrate --save` wrote.",
    r"JSON that Partial\.to_json wrote": "JSON that --save-partial wrote",
    r"Pass the text that Partial\.to_json wrote, unchanged\.": "Sum the data again with --save-partial.",
    r"Pass other names in calibrators=\.": "Name another map with --method.",
    r"Correct the labels, pos_label or classes\.": "Correct the labels, --pos-label or the names of the columns.",
    r" Enable scikit-learn's metadata routing, or .*": "",
}
#: Arguments, and the options that they are here. A value that follows keeps its place: clip=1e-6 is --clip 1e-6.
ARGUMENTS: dict[str, str] = {
    r"\bpos_label(=|\b)": "--pos-label", r"\bsample_weight(=|\b)": "--weight", r"\bclip(=|(?= must))": "--clip",
    r"\brandom_state(=|\b)": "--seed", r"\bn_jobs(=|\b)": "--jobs", r"\bn_resamples(=|\b)": "--resamples",
    r"\by_true\b": "--target", r"\by_proba\b": "--score", r"^X must": "--features must", r"^y must": "--target must",
    r"\bcv_column(=|\b)": "--cv-column", r"\bengine=": "--engine", r"\bevery=": "--every", r"\btime=": "--time",
    r"\bkey=": "--key", r"\bverify_checksums\b": "--verify-checksums",
}  # fmt: skip
#: What else the messages of `scoreprism.scale` call columns and settings.
OF_SCALE: dict[str, str] = {
    r"^key (?=must|$)": "--key ", r"(?<=or )key\b": "--key", r"\bevery must": "--every must",
    r"\bLeave every out": "Leave --every out", r"\btime must": "--time must", r"^by(\[\d+\])? must": "--group must",
    r"^by, time": "--group, --time", r"^q (?=must|$)": "--reference ", r"^latent (?=must|$)": "--latent ",
    r"^target (?=must|$)": "--target ", r"^score (?=must|$)": "--score ", r"^cells must": "--cells must",
}  # fmt: skip
_QUOTED = re.compile(r"('[^']*')")


def in_options(text: str, more: Mapping[str, str] | None = None, names: Collection[str] = ()) -> str:
    """A message of the library in the words of the command line; what is quoted stays as it is."""
    for words, instead in REMEDIES.items():
        text = re.sub(words, instead, text)
    parts = _QUOTED.split(text)
    for i in range(0, len(parts), 2):
        for words, option in {**ARGUMENTS, **(more or {})}.items():
            if i == 0 or not words.startswith("^"):
                parts[i] = _replaced(words, option, parts[i], names, last=i == len(parts) - 1)
    return "".join(parts)


def _replaced(words: str, option: str, text: str, names: Collection[str], *, last: bool) -> str:
    """A part of a message with options for arguments; before a value there is a blank."""

    def one(found: re.Match[str]) -> str:
        if found[0] in names:
            return found[0]
        valued = found[0].endswith("=") and (found.end() < len(text) or not last)
        follows = text[found.end() : found.end() + 1]
        return f"{option} " if valued and follows not in (" ", ",", ".", ";", ")") else option

    return re.sub(words, one, text)


@contextmanager
def spelled() -> Iterator[None]:
    """Refusals of `scoreprism.scale`, in the words of options."""
    from scoreprism.exceptions import ScoreprismError

    try:
        yield
    except ScoreprismError as error:
        raise type(error)(in_options(str(error), OF_SCALE)) from None


def spelled_report(report: Report) -> Report:
    """A report whose warnings and notes speak of options; names of models stay as they are."""
    from scoreprism.report import Notice

    sections = []
    for section in report.sections:
        blocks = (
            replace(block, text=in_options(block.text, names=report.models)) if isinstance(block, Notice) else block
            for block in section.blocks
        )
        sections.append(replace(section, blocks=tuple(blocks)))
    return replace(report, sections=tuple(sections))
