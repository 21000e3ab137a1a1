"""What is learned from rows: the members of a reference law and how they are mixed, boosting, penalised splines."""
