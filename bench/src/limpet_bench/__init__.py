"""Benchmarks behind our claims, repeatable by everyone: ratios within one run, never bare figures."""
