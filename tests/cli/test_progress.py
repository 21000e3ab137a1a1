"""The progress bar: silent unless a terminal waits."""

import io
import re
import sys
import time

import pytest

from scoreprism._core import progress as _progress
from scoreprism._core.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_silent_without_a_terminal(capsys):
    assert list(track(iter(range(3)), 3, "numbers")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_after_a_while_in_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_progress, "PATIENCE", 0.01)
    slow = (time.sleep(0.02) or i for i in range(4))
    assert list(track(slow, 4, "counting slowly")) == [0, 1, 2, 3]
    assert "counting slowly" in screen.getvalue()


def test_quick_work_shows_nothing_in_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(track(iter(range(3)), 3, "numbers")) == [0, 1, 2]
    assert screen.getvalue() == ""


def test_the_bar_goes_when_work_fails(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(_progress, "PATIENCE", -1.0)

    def failing():
        yield 1
        raise KeyboardInterrupt

    work = track(failing(), 2, "failing")
    assert next(work) == 1
    with pytest.raises(KeyboardInterrupt):
        next(work)


def test_work_inside_of_work_is_a_line_of_the_same_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_progress, "PATIENCE", -1.0)
    bars = []
    made = _progress._bar
    monkeypatch.setattr(_progress, "_bar", lambda: bars.append(made()) or bars[-1])
    for _ in track(range(2), 2, "outer"):
        assert list(track(range(3), 3, "inner")) == [0, 1, 2]
        assert [task.description for task in bars[0].tasks] == ["outer"]
    assert len(bars) == 1
    assert bars[0].finished
    assert _progress._SHOWN.bar is None


def test_a_line_of_text_stands_above_the_bar(monkeypatch):
    """A line that is written while a bar is drawn would be appended to it: the bar must have been wiped out first."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_progress, "PATIENCE", -1.0)
    for i in track(range(3), 3, "counting"):
        with _progress.pause():
            print(f"line {i}", file=screen)
    for i in range(3):
        before = screen.getvalue().split(f"line {i}\n")[0]
        assert re.search(r"(^|\x1b\[2K)[^\w━]*$", before), before[-80:]
    assert "counting" in screen.getvalue().split("line 2\n")[1]  # it came back
