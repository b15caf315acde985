"""Documents: read from disk, their text extracted, stored and replaced."""
