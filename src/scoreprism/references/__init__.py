"""Where Q̂ = P(Y | S, X) comes from: the default stack, any classifier, and the partition lower bound on grouping."""

from __future__ import annotations

from scoreprism._learners.members import MEMBERS
from scoreprism.references._partition import PartitionBound, partition_lower_bound
from scoreprism.references._stack import StackedReference

__all__ = ["MEMBERS", "PartitionBound", "StackedReference", "partition_lower_bound"]
