"""The learners of a reference law: regressions, boosting, and how they are mixed."""
