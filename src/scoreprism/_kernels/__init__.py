"""Numerical routines on plain arrays: fits and sums that know no loss, no estimator and no user."""
