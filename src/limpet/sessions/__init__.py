"""Sessions: found or made, read back, summed up, paused, ended."""
