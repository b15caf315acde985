"""Purging: a session, a user, or what of a user is older, without a trace; with a receipt."""
