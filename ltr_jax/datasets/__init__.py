"""Collections for cross-lingual ranking: queries in one language, documents in another."""
