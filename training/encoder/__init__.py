"""Trains Limpet's own sentence encoder. Not part of the wheel; README.md has the commands."""
