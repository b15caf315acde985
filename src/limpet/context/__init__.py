"""Build a prompt context: recalled memory, the summary, and the newest messages."""
