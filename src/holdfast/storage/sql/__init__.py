"""One implementation of the port in named queries, shared by SQLite and PostgreSQL."""
