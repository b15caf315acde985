"""Schedules: goals that run later, in the background."""
