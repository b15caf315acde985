"""Sessions kept as plain files."""
