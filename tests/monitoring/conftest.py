"""What tests of pages share: a page takes a second to draw, so each is written once."""

from __future__ import annotations

from functools import cache

import pytest

from scoreprism.report import write_monitor_page
from tests.monitoring.monitor_sample import watch


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):
    """Writes the page of a monitor of some kind, alone in its folder, when it is first asked for."""

    @cache
    def write(kind):
        folder = tmp_path_factory.mktemp("monitor")
        return write_monitor_page(watch(kind), folder / f"{kind}.html", title="Credit <scores>")

    return write
