"""Authorization, the audit log, masking of secrets, telemetry."""
