"""Every error Limpet raises.

LimpetError
├── InvalidInput            a value that cannot be stored as it is
│   ├── InvalidKey          a key or id outside its rules
│   ├── BudgetTooSmall      a token budget nothing can fit into
│   ├── WrongState          what is asked of cannot do that any more, or not yet
│   └── IdempotencyConflict an idempotency key that stands for another request
├── NotFound
│   ├── SessionNotFound
│   ├── RecordNotFound
│   ├── DocumentNotFound
│   └── ScheduleNotFound        a schedule, or a run of one
├── SequenceConflict        a message number at or below the last one
├── LeaseLost               a job took longer than its lease, and somebody else has taken it
├── PermissionDenied        a grant is missing
├── Unauthenticated         an API key that is unknown, revoked or expired
├── Unsupported             this store or build cannot do that
├── ConfigError             a setting is unknown or wrong
├── ProviderError           a model or embedder failed
├── MigrationError          the database is newer, altered or cannot be brought forward
└── StorageError            the database or its disk refused
    ├── StoreBusy           another process held the database too long
    ├── StoreFull           no space left
    ├── StoreReadOnly       the file or folder cannot be written
    ├── StoreUnavailable    the server is gone, or the store was closed
    │   └── OutcomeUnknown  the server was lost during the commit, and cannot be asked
    ├── StoreCorrupt        not a Limpet database, or a damaged one
    │   └── DecryptionFailed      an encrypted value was altered, moved, or has another key
    ├── KeyMissing          a tenant is encrypted and its key is missing, or is another
    └── ConstraintFailed    two writers claimed the same unique value

Each class has a ``code``: the one word that the command line, HTTP and MCP all report.
"""

from __future__ import annotations

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
