"""MEMORY.md, daily notes and record lines as files that people can read and edit."""
