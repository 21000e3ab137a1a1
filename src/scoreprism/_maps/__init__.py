"""Fitted maps as data: their parts, how they are evaluated, their formulas for SQL and engines, their files."""
