"""A question comes in: find the chunks that answer it, and say why."""
