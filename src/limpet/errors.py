"""Every error Limpet raises.

LimpetError
├── InvalidInput            a value that is not valid
│   ├── InvalidKey          a key or id that is not well formed
│   ├── BudgetTooSmall      a token budget that nothing fits into
│   ├── WrongState          the object's state does not allow this operation
│   └── IdempotencyConflict an idempotency key that was used for another request
├── NotFound
│   ├── SessionNotFound
│   ├── RecordNotFound
│   ├── DocumentNotFound
│   └── ScheduleNotFound        a schedule, or a run of one
├── SequenceConflict        a message number at or below the last one
├── LeaseLost               a job or a run took longer than its lease, and somebody else has claimed it
├── PermissionDenied        a grant is missing
├── Unauthenticated         an API key that is unknown, revoked or expired
├── Unsupported             this store or build does not support this
├── ConfigError             a setting is unknown or wrong
├── ProviderError           a model or embedder failed
├── MigrationError          the database is newer, altered or cannot be migrated
└── StorageError            the database or its disk failed
    ├── StoreBusy           another process held the database too long
    ├── StoreFull           no disk space left
    ├── StoreReadOnly       the file or folder cannot be written
    ├── StoreUnavailable    the server cannot be reached, or the store was closed
    │   └── OutcomeUnknown  the connection was lost during the commit
    ├── StoreCorrupt        not a Limpet database, or a damaged one
    │   └── DecryptionFailed  an encrypted value was altered, moved, or encrypted with another key
    ├── KeyMissing          a tenant is encrypted and its key is missing or wrong
    └── ConstraintFailed    two writers claimed the same unique value

Each class has a ``code``, which the command line, HTTP and MCP all report.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar


class LimpetError(Exception):
    code: ClassVar[str] = "error"


class InvalidInput(LimpetError, ValueError):
    code = "invalid_input"


class InvalidKey(InvalidInput):
    code = "invalid_key"


class BudgetTooSmall(InvalidInput):
    code = "budget_too_small"


class WrongState(InvalidInput):
    code = "wrong_state"


class IdempotencyConflict(InvalidInput):
    code = "idempotency_conflict"


class NotFound(LimpetError, LookupError):
    code = "not_found"


class SessionNotFound(NotFound):
    code = "session_not_found"


class RecordNotFound(NotFound):
    code = "record_not_found"


class DocumentNotFound(NotFound):
    code = "document_not_found"


class ScheduleNotFound(NotFound):
    code = "schedule_not_found"


class SequenceConflict(LimpetError):
    code = "sequence_conflict"


class LeaseLost(LimpetError):
    code = "lease_lost"


class PermissionDenied(LimpetError):
    code = "permission_denied"

    def __init__(self, message: str = "", missing: str | None = None) -> None:
        super().__init__(message)
        self.missing = missing  # the grant, such as read:global


class Unauthenticated(LimpetError):
    code = "unauthenticated"


class Unsupported(LimpetError):
    code = "unsupported"


class ConfigError(LimpetError):
    code = "config_error"


class ProviderError(LimpetError):
    code = "provider_error"


class MigrationError(LimpetError):
    code = "migration_error"


class StorageError(LimpetError):
    code = "storage_error"


class StoreBusy(StorageError):
    code = "store_busy"


class StoreFull(StorageError):
    code = "store_full"


class StoreReadOnly(StorageError):
    code = "store_read_only"


class StoreUnavailable(StorageError):
    code = "store_unavailable"


class OutcomeUnknown(StoreUnavailable):
    code = "outcome_unknown"


class StoreCorrupt(StorageError):
    code = "store_corrupt"


class ConstraintFailed(StorageError):
    code = "constraint_failed"


class KeyMissing(StorageError):
    code = "key_missing"


class DecryptionFailed(StoreCorrupt):
    code = "decryption_failed"


def explain_descriptors(error: Exception) -> StorageError | None:
    """Return what to do where the process can open no more files; None if the error is another one."""
    if os.strerror(errno.EMFILE) not in str(error):
        return None
    return StorageError(f"this process can open no more files ({error}); close some, or raise its limit (ulimit -n)")
