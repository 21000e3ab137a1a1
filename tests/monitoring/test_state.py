"""The state of a monitor: read back to the last bit, sealed, and never half written."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from datetime import date

import numpy as np
import pytest

from scoreprism.exceptions import InputError
from scoreprism.monitoring import CalibrationMonitor

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="locks of Unix")


def make_rows(n=80, seed=0, slope=1.0):
    """Outcomes, scores and segments; the scores are calibrated where the slope is 1."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, n)
    return (rng.random(n) < p**slope).astype(int), p, np.where(rng.random(n) < 0.4, "north", "south")


def make_monitor(days=40, **settings):
    monitor = CalibrationMonitor(**settings)
    for day in range(days):
        y, p, region = make_rows(seed=day, slope=1.0 if day < 30 else 1.5)
        monitor.update(y, p, segments={"region": region}, period=day)
    return monitor


def make_classes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([2, 2, 1], n)
    return np.array(["a", "b", "c"])[(rng.random(n)[:, None] > law.cumsum(axis=1)[:, :-1]).sum(axis=1)], law


MADE = {
    "binary": make_monitor,
    "settings": lambda: make_monitor(3, alpha=0.01, loss="brier", alarm="change", baseline=2, hazard=0.01),
    "detector": lambda: make_monitor(3, arl=900),
    "typical scores": lambda: make_monitor(3, scores=np.linspace(0.01, 0.9, 300)),
    "importance": lambda: CalibrationMonitor(weights="importance").update(
        *make_rows()[:2], sample_weight=np.linspace(0.1, 1.0, 80), period=date(2026, 11, 15)
    ),
    "three classes": lambda: CalibrationMonitor().update(*make_classes(), period="2026-W47"),
    "restarted": lambda: make_monitor(3).restart().update(*make_rows()[:2], period=3),
    "empty": CalibrationMonitor,
}


@pytest.mark.parametrize("kind", MADE)
def test_a_state_is_read_back_to_the_last_bit(kind):
    monitor = MADE[kind]()
    again = CalibrationMonitor.from_json(monitor.to_json())
    assert again.to_json() == monitor.to_json()
    assert again.settings == monitor.settings
    assert (again.periods, again.past_periods, again.parts) == (monitor.periods, monitor.past_periods, monitor.parts)
    for segment in (None, *monitor.segments):
        for process in ("calibration", "change", "detector"):
            assert np.array_equal(again.log_evidence(process, segment), monitor.log_evidence(process, segment))
    if monitor.periods:
        assert again.bounds() == monitor.bounds()


def test_a_monitor_goes_on_where_it_was_read():
    whole, first = make_monitor(6), make_monitor(3)
    again = CalibrationMonitor.from_json(first.to_json())
    for day in range(6):  # the first three were counted
        y, p, region = make_rows(seed=day)
        again.update(y, p, segments={"region": region}, period=day)
    assert again.to_json() == whole.to_json()


def test_blanks_and_the_order_of_fields_do_not_matter():
    monitor = make_monitor(2)
    turned = json.dumps(dict(reversed(monitor.to_dict().items())), indent=3)
    assert CalibrationMonitor.from_json(turned).to_json() == monitor.to_json()


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────


def digest(data):
    """The SHA-256 of all other fields, sorted and without blanks."""
    rest = {name: value for name, value in data.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def edited(change, *, seal=True):
    """The text of a state after a change, with a digest that fits unless `seal` is False."""
    data = make_monitor(2).to_dict()
    change(data)
    return json.dumps(data | {"sha256": digest(data)} if seal else data)


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(data):
        for step in path:
            data = data[step]
        data[last] = value

    return change


AS_WRITTEN, FIT = (
    "the state of a monitor must be as it was written",
    "the parts of the state of a monitor must fit together",
)
BROKEN = {
    "edited": (lambda: edited(put("periods", 0, "rows", 81), seal=False), AS_WRITTEN),
    "cut": (lambda: make_monitor(2).to_json()[:-40], "the state of a monitor must be JSON"),
    "empty": (lambda: "", "the state of a monitor must be JSON"),
    "another thing": (lambda: "{}", "the state of a monitor must have the format 'scoreprism.monitor'"),
    "a list": (lambda: "[]", "the state of a monitor must have the format 'scoreprism.monitor'"),
    "a newer one": (lambda: edited(put("version", 2)), "the state of a monitor must be of version 1"),
    "version true": (lambda: edited(put("version", True)), "the state of a monitor must be of version 1"),
    "a field more": (lambda: edited(put("more", 1)), "the state of a monitor must have the fields of its format"),
    "NaN": (lambda: make_monitor(2).to_json().replace('"center": -', '"center": NaN, "x": -', 1), "must hold finite"),
    "a setting more": (lambda: edited(put("settings", "beta", 1)), "the state of a monitor must have all settings"),
    "a bad setting": (lambda: edited(put("settings", "alpha", 2.0)), "alpha must be a number between 0 and 1"),
    "periods turned": (lambda: edited(lambda d: d["periods"].reverse()), FIT),
    "a period of another kind": (lambda: edited(put("periods", 1, "name", "2026")), FIT),
    "more events than rows": (lambda: edited(put("periods", 0, "events", 99)), FIT),
    "other rows than sums": (lambda: edited(put("periods", 0, "rows", 79)), FIT),
    "a day fewer in a stream": (lambda: edited(lambda d: d["streams"][1]["sums"].pop()), FIT),
    "no streams": (lambda: edited(put("streams", [])), FIT),
    "a stream twice": (lambda: edited(lambda d: d["streams"].append(d["streams"][0])), FIT),
    "a bin twice": (lambda: edited(put("streams", 0, "sums", 0, "bins", 1, 0)), FIT),
    "a bin too many": (lambda: edited(put("streams", 0, "sums", 0, "bins", -1, 64)), FIT),
    "negative rows": (lambda: edited(put("streams", 0, "sums", 0, "rows", 0, -1)), FIT),
    "more events than rows of a bin": (lambda: edited(put("streams", 0, "sums", 0, "events", 0, 99)), FIT),
    "a number as text": (lambda: edited(put("streams", 0, "sums", 0, "loss", "1")), FIT),
    "bins in the wrong order": (lambda: edited(lambda d: d["streams"][0]["alternatives"]["ends"].reverse()), FIT),
    "a restart after the periods": (lambda: edited(lambda d: d["restarts"].append(d["periods"])), FIT),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_a_damaged_state_is_refused(how):
    make, rule = BROKEN[how]
    with pytest.raises(InputError) as error:
        CalibrationMonitor.from_json(make())
    assert rule in str(error.value)


def test_every_byte_is_under_the_digest():
    """A digit that is changed anywhere is seen; 200 places of the text."""
    text = make_monitor(2).to_json()
    places = [i for i, sign in enumerate(text) if sign.isdigit()]
    for place in places[:: len(places) // 200]:
        changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        try:
            again = CalibrationMonitor.from_json(changed).to_json()
        except InputError:
            continue
        assert again == text  # the last digit of a number that is read as the same number


def test_labels_that_json_cannot_hold_are_refused():
    y, p, _ = make_rows()
    labels = np.array([date(2020, 1, 1), date(2021, 1, 1)], dtype=object)
    monitor = CalibrationMonitor(classes=labels).update(labels[y], p, period=1)
    with pytest.raises(InputError, match="labels must be numbers, booleans or strings to be written; got "):
        monitor.to_json()


# ── files ───────────────────────────────────────────────────────────────────────────────────────────


def test_save_and_load(tmp_path):
    monitor, file = make_monitor(3), tmp_path / "state.json"
    assert monitor.save(file) == file
    assert CalibrationMonitor.load(file).to_json() == monitor.to_json() == file.read_text()
    monitor.update(*make_rows(seed=9)[:2], period=3).save(file)  # its own file is replaced
    assert CalibrationMonitor.load(file).periods == (0, 1, 2, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    monitor, file = make_monitor(2), tmp_path / "state.json"
    file.write_text("mine")
    with pytest.raises(InputError, match="an output file must not exist yet"):
        monitor.save(file)
    assert file.read_text() == "mine"
    monitor.save(file, overwrite=True)
    assert CalibrationMonitor.load(file).periods == (0, 1)


def test_two_jobs_that_read_the_same_state_do_not_lose_a_day(tmp_path):
    file = tmp_path / "state.json"
    make_monitor(2).save(file)
    first, second = CalibrationMonitor.load(file), CalibrationMonitor.load(file)
    first.update(*make_rows(seed=2)[:2], period=2).save(file)
    with pytest.raises(InputError) as error:
        second.update(*make_rows(seed=3)[:2], period=3).save(file)
    assert str(error.value) == (
        f"the state of a monitor must not be changed by two jobs; got {str(file)!r}, which another process has written "
        "since it was read. Load it again, and repeat the update."
    )
    assert CalibrationMonitor.load(file).periods == (0, 1, 2)


@pytest.mark.parametrize("name", ["missing.json", "no/state.json"])
def test_a_file_that_is_not_there(tmp_path, name):
    with pytest.raises(InputError, match="the state of a monitor must be a file; got .*which does not exist"):
        CalibrationMonitor.load(tmp_path / name)


def test_a_folder_is_no_state(tmp_path):
    with pytest.raises(InputError, match="the state of a monitor must be a readable file; got Is a directory"):
        CalibrationMonitor.load(tmp_path)
    rule = "the state of a monitor must be in a folder that exists and is writable; got No such file or directory"
    with pytest.raises(InputError, match=rule), CalibrationMonitor.open(tmp_path / "no" / "state.json"):
        pass


def test_open_begins_goes_on_and_saves(tmp_path):
    file = tmp_path / "state.json"
    for day in range(3):
        y, p, region = make_rows(seed=day)
        with CalibrationMonitor.open(file, alpha=0.01) as monitor:
            monitor.update(y, p, segments={"region": region}, period=day)
    assert CalibrationMonitor.load(file).to_json() == make_monitor(3, alpha=0.01).to_json()
    before = file.stat().st_mtime_ns, file.stat().st_ino
    with CalibrationMonitor.open(file) as monitor:  # nothing changes: nothing is written
        monitor.update(y, p, segments={"region": region}, period=2)
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "state.json"
    with pytest.raises(ZeroDivisionError), CalibrationMonitor.open(file) as monitor:
        _ = 1 / (len(monitor.update(*make_rows()[:2], period=0).periods) - 1)
    assert not file.exists()
    make_monitor(2).save(file)
    before = file.read_bytes()
    with pytest.raises(InputError), CalibrationMonitor.open(file) as monitor:
        monitor.update(*make_rows(seed=2)[:2], period=2).update(*make_rows(seed=3)[:2], period=1)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"alpha": 0.1}, "alpha must be what the monitor was made with; got 0.1; it has 0.05"),
        ({"loss": "brier"}, "loss must be what the monitor was made with; got 'brier'; it has 'log'"),
        ({"arl": 100}, "arl must be what the monitor was made with; got 100; it has None"),
        ({"scores": [0.1, 0.5]}, "scores must be what the monitor was made with; got other scores"),
    ],
)
def test_settings_that_differ_are_refused(tmp_path, setting, said):
    file = tmp_path / "state.json"
    make_monitor(2).save(file)
    with CalibrationMonitor.open(file, alpha=0.05, loss="log"):
        pass
    with pytest.raises(InputError) as error, CalibrationMonitor.open(file, **setting):
        pass
    assert str(error.value) == f"{said}. Leave it out, or begin another monitor."


@UNIX
def test_two_jobs_at_once_are_refused(tmp_path):
    file = tmp_path / "state.json"
    make_monitor(2).save(file)
    said = f"a monitor must be updated by one job at a time; got {str(file)!r}, in use by another process"
    with CalibrationMonitor.open(file):  # a lock belongs to an open file, so that it also keeps out its own process
        for use in (
            lambda: CalibrationMonitor.open(file).__enter__(),
            lambda: make_monitor(1).save(file, overwrite=True),
        ):
            with pytest.raises(InputError) as error:
                use()
            assert str(error.value) == f"{said}. Run the jobs one after the other."
    with CalibrationMonitor.open(file):  # free again
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────

#: Follows an update system call by system call (Linux's ptrace), and kills it in every state that the disk goes through.
KILLED = """
import ctypes, json, os, signal, sys, warnings
from pathlib import Path

from scoreprism.monitoring import CalibrationMonitor

libc = ctypes.CDLL(None, use_errno=True)
TRACEME, SYSCALL, SETOPTIONS, TRACESYSGOOD, EXITKILL = 0, 24, 0x4200, 1, 0x100000
warnings.simplefilter("ignore")


def ptrace(request, pid, data=0):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def update(file, day):
    with CalibrationMonitor.open(file) as monitor:
        monitor.update([0, 1, 0], [0.2, 0.7, 0.4], period=day)


def look(folder):
    return sorted((path.name, path.read_bytes()) for path in folder.iterdir())


def count_changes(seen):
    return sum(a != b for a, b in zip(seen, seen[1:]))


def follow(file, changes=None):
    '''Update in a child, killed after so many changes of the disk; what is there before and after each system call.'''
    child = os.fork()
    if child == 0:
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        update(file, 2)
        os._exit(0)
    os.waitpid(child, 0)
    ptrace(SETOPTIONS, child, TRACESYSGOOD | EXITKILL)
    seen, changed = [look(file.parent)], 0
    while changed != changes:
        ptrace(SYSCALL, child)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert changes is None and os.WEXITSTATUS(status) == 0
            return seen
        assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP | 0x80, status
        seen.append(look(file.parent))
        changed += seen[-2] != seen[-1]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return seen


file = Path(sys.argv[1])
update(file, 1)
old = file.read_bytes()
update(file, 2)
new = file.read_bytes()
file.write_bytes(old)
seen = follow(file)
states = [dict(one)[file.name] for one in seen]
found = {"stops": len(seen), "old": states.count(old), "new": states.count(new), "lost": 0, "left": 0}
found["changes"] = count_changes(seen)
for changes in range(found["changes"] + 1):
    file.write_bytes(old)
    before = follow(file, changes)[-1]
    assert look(file.parent) == before and file.read_bytes() in (old, new)
    update(file, 2)  # the job runs again: neither a lock nor half a file is in its way
    found["lost"] += file.read_bytes() != new
    found["left"] += len(os.listdir(file.parent)) > 1
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ptrace of Linux")
def test_a_kill_between_any_two_system_calls_leaves_the_old_state_or_the_new_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "state.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["old"] > 50
    assert found["new"] > 5
    assert found["old"] + found["new"] == found["stops"]
    assert found["changes"] >= 5  # the lock, a temporary file, its content, the state, no lock
    assert (found["lost"], found["left"]) == (0, 0)
