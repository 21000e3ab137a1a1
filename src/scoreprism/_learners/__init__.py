"""Learners: the members of a reference law and their mixture, boosting, penalised splines."""
