"""The same memory as plain files: atomic writes, Markdown transcripts, sessions as folders, snapshots to import."""
