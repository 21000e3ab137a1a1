"""Files, read as the commands read them."""

from scoreprism.cli._column_roles import ReadOptions
from scoreprism.cli._read_sample import read_sample, read_table

__all__ = ["ReadOptions", "read_sample", "read_table"]
