"""What can be said about the numbers: tests, sample sizes, standard errors of maps, and the bootstrap of CORP."""

from __future__ import annotations

from scoreprism._calibration_test.calibration_tests import (
    CALIBRATION_TESTS,
    CalibrationTest,
    TestResult,
    calibration_test,
)
from scoreprism.inference._corp import CorpBootstrap, corp_bootstrap
from scoreprism.inference._grouping import grouping_test
from scoreprism.inference._map_band import MapBand
from scoreprism.inference._map_inference import MapInference, map_inference
from scoreprism.inference._map_summaries import MAP_SUMMARIES, MapSummary
from scoreprism.inference._sample_size import SampleSize, required_sample_size

__all__ = [
    "CALIBRATION_TESTS",
    "MAP_SUMMARIES",
    "CalibrationTest",
    "CorpBootstrap",
    "MapBand",
    "MapInference",
    "MapSummary",
    "SampleSize",
    "TestResult",
    "calibration_test",
    "corp_bootstrap",
    "grouping_test",
    "map_inference",
    "required_sample_size",
]
