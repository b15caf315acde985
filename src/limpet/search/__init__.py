"""Search: find the chunks that answer a question, with an explanation."""
