"""The same store on PostgreSQL with pgvector."""
