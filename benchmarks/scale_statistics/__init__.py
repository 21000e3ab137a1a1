"""Simulations of what scale claims: cells, drawn folds, calibrated scores, drift between periods."""
