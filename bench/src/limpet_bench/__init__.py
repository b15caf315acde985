"""The numbers behind our claims, for anybody to measure again: ratios inside one run, never bare figures."""
