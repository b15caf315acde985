"""What a turn teaches: find it, and decide what it means for what is known. Values in, values out."""
