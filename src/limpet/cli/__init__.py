"""The command line: one file per group of commands. What is heavy is imported by the command that needs it."""
