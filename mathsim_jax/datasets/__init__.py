"""Mathematical texts and pairs of them: readers, cleaning, the published rule that labels pairs."""
