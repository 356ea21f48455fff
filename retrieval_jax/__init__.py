"""What the four retrieval systems share: losses, evaluation, BERT, training, checkpoints, data."""
