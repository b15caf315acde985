"""What may be kept, and how."""
