"""What becomes of records with time: promoted, merged and condensed, faded and deleted; and the profile made of them.

The decisions are pure functions in ``learn/``. Here they are read for, and acted on: models and embedders are asked
before the transaction, and what was decided is looked at again inside it. Everything is safe to do twice.
"""
