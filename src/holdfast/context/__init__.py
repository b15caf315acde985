"""A prompt goes out: the newest messages, and what was summed up of the older ones."""
