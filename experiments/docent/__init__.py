"""DocEnt's experiments: a script for each step or table."""
