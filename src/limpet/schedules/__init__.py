"""Work that is done later, in the background."""
