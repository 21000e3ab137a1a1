"""What can be said about the numbers: tests of calibration, and how many rows it takes to see a miscalibration."""

from __future__ import annotations

from scoreprism.inference._calibration import CALIBRATION_TESTS, CalibrationTest, TestResult, calibration_test
from scoreprism.inference._grouping import grouping_test
from scoreprism.inference._sample_size import SampleSize, required_sample_size

__all__ = [
    "CALIBRATION_TESTS",
    "CalibrationTest",
    "SampleSize",
    "TestResult",
    "calibration_test",
    "grouping_test",
    "required_sample_size",
]
