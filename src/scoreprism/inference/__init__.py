"""What can be said about the numbers: tests, how many rows they take, and the bootstrap of CORP."""

from __future__ import annotations

from scoreprism.inference._calibration import CALIBRATION_TESTS, CalibrationTest, TestResult, calibration_test
from scoreprism.inference._corp import CorpBootstrap, corp_bootstrap
from scoreprism.inference._grouping import grouping_test
from scoreprism.inference._sample_size import SampleSize, required_sample_size

__all__ = [
    "CALIBRATION_TESTS",
    "CalibrationTest",
    "CorpBootstrap",
    "SampleSize",
    "TestResult",
    "calibration_test",
    "corp_bootstrap",
    "grouping_test",
    "required_sample_size",
]
