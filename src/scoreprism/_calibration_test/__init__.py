"""Tests of calibration: outcomes are drawn again from the scores."""
