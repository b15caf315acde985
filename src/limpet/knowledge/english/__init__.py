"""What the rules look for, one file a kind. Each takes sentences, and gives what it found."""
