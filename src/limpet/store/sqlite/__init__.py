"""Everything in one SQLite file, or in memory."""
