"""The lowest layer: laws on the simplex, argument checks, numerics, resampling, frames, files, workers."""
