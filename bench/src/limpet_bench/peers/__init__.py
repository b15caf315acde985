"""Limpet beside other ways to keep what was said: one run, one machine, the same texts, questions and vectors."""
