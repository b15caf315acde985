"""The same store on PostgreSQL."""
