# ruff: noqa: A005
"""Simulations on laws known exactly: bias, spread and coverage of decompositions, beside the bars they must meet."""
