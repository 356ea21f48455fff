"""Scripts of the papers' experiments; each one's docstring says command, time and score."""
