"""Sources of entities with their documents and queries."""
