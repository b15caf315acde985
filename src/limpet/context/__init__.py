"""A prompt goes out: what memory knows about the question, what was summed up, and the newest messages."""
