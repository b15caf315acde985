"""A history grows too long: say when, sum up its oldest part, and put the summary in its place."""
