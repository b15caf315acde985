"""What other programs write when their users leave: read as it is, whatever is strange about it.

A file a format. Each has a ``read`` that gives conversations, memories and documents one by one, and names what it left
out and why. None of them knows a store.
"""
