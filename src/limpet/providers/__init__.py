"""What costs money or time, each behind a small interface with its fake beside it."""
