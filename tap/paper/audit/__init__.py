"""The audit: what became of each claim of the paper, with its evidence, and the way back from a number to its runs."""
