"""The port every backend implements, and the two backends behind it."""
