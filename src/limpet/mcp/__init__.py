"""Memory over the Model Context Protocol."""
