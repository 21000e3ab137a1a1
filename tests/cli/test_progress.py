"""The progress bar: silent unless a terminal waits."""

import io
import re
import sys
import time

import pytest

from scoreprism._core import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_silent_without_a_terminal(capsys):
    assert list(progress.track(iter(range(3)), 3, "numbers")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_after_a_while_in_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    slow = (time.sleep(0.1) or i for i in range(4))
    assert list(progress.track(slow, 4, "counting slowly")) == [0, 1, 2, 3]
    assert "counting slowly" in screen.getvalue()


def test_a_single_long_step_has_a_bar_while_it_lasts(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    for _ in progress.track([1], 1, "one long step"):
        time.sleep(0.2)
        assert "one long step" in screen.getvalue()
        assert "100%" not in screen.getvalue()


def test_quick_work_shows_nothing_in_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress.track(iter(range(3)), 3, "numbers")) == [0, 1, 2]
    assert screen.getvalue() == ""


def test_the_bar_goes_when_work_fails(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "PATIENCE", -1.0)

    def failing():
        yield 1
        raise KeyboardInterrupt

    work = progress.track(failing(), 2, "failing")
    assert next(work) == 1
    with pytest.raises(KeyboardInterrupt):
        next(work)


def wait_for(words, screen):
    """A timer draws the bar: give it ten seconds to do so."""
    end = time.monotonic() + 10.0
    while words not in screen.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    assert words in screen.getvalue()


def test_work_inside_of_work_is_a_line_of_the_same_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    bars = []
    start = progress._start_bar
    monkeypatch.setattr(progress, "_start_bar", lambda: bars.append(start()) or bars[-1])
    for i in progress.track(range(2), 2, "outer"):
        wait_for("outer", screen)
        for _ in progress.track(range(1), 1, f"inner {i}"):
            wait_for(f"inner {i}", screen)
            assert [task.description for task in bars[0].tasks] == ["outer", f"inner {i}"]
        assert [task.description for task in bars[0].tasks] == ["outer"]
    assert len(bars) == 1
    assert bars[0].finished
    assert progress._Line.bar is None


def test_a_line_of_text_stands_above_the_bar(monkeypatch):
    """A line that is written while a bar is drawn would be appended to it: the bar must have been wiped out first."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    for i in progress.track(range(3), 3, "counting"):
        wait_for("counting", screen)
        with progress.pause():
            print(f"line {i}", file=screen)
    for i in range(3):
        before = screen.getvalue().split(f"line {i}\n")[0]
        assert re.search(r"(^|\x1b\[2K)[^\w━]*$", before), before[-80:]
    assert "counting" in screen.getvalue().split("line 2\n")[1]  # it came back
