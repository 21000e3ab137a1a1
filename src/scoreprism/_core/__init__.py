"""What every room stands on: laws on the simplex, frames, files, workers, numbers, words. It knows no other room."""
