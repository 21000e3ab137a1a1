"""Fitted maps as data: their parts, how they are evaluated, and the formulas that SQL and engines get."""
