"""The paper's tables and figures as one document: each beside the printed one, with what can be read from both."""
