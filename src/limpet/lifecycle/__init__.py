"""Memory that moves: an export of a user or tenant as files, the same taken in again, and what other programs wrote."""
