"""Names and relations in what was said, for the knowledge graph."""
