"""Figures in scikit-learn's Display style: a display holds data, its ``plot`` only draws."""
