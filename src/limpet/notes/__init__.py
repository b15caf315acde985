"""MEMORY.md and daily notes in the store, and as files that people can read and edit; records as lines in files."""
