"""Speed as ratios against a peer measured in the same run: machines are noisy, ratios less so."""
