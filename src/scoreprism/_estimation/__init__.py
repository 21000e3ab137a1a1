"""decompose, compare and decompose_by: parse the rows, fit, decompose."""
