"""What Holdfast tells of its work: to callbacks, to OpenTelemetry, and to the log."""
