"""The code says what it said: `stored.json.gz` was written by the commit before the house was rebuilt (CHANGES.md)."""

from __future__ import annotations

import pytest

from tests.golden import cases  # noqa: F401 - fills CASES
from tests.golden.record import CASES, STORED, differences, read, record

#: Kernels of BLAS differ by 1e-11 from machine to machine; two commits on the same machine are compared to 1e-12.
TOLERANCE = 1e-8


@pytest.fixture(scope="module")
def stored():
    return read(STORED)


@pytest.mark.parametrize("name", CASES)
def test_the_code_says_what_it_said(name, stored):
    assert differences(stored[name], record(CASES[name]), TOLERANCE) == []
