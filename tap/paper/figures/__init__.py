"""The paper's figures, drawn from tidy tables."""
