"""Sessions: open, read, summarize, pause, end."""
