"""Limpet compared with other stores: one run, one machine, the same texts, questions and vectors."""
