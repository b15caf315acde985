"""A message or a memory comes in: cut it, index it, store it in one transaction."""
