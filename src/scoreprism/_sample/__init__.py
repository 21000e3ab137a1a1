"""What a user gave, parsed once: rows, scores, features, folds; and what maps are fitted on."""
