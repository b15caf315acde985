"""Memory that moves: an export of a user or tenant as files, the same taken in again, and what other programs wrote."""

SNAPSHOT = "sessions.json"  # left by another program, imported once
