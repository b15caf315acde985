"""Every table, parents before children: its key, its columns, what becomes of each in an encrypted tenant; the queries.

The nouns say it of their own columns. Rows go through ``cipher.encrypt_params(TABLE, row, params)`` on their way in
and ``cipher.decrypt_row(LAYOUT, row, values)`` on their way out; a test compares all of this with the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.model.access import AuditEntry, KeyInfo
from limpet.model.columns import RowCodec, encrypted_names
from limpet.model.document import Document
from limpet.model.late import lazy_property
from limpet.model.message import Message
from limpet.model.note import Note
from limpet.model.privacy import Receipt
from limpet.model.record import Record, RecordFilter
from limpet.model.schedule import Run, Schedule
from limpet.model.session import SessionInfo
from limpet.model.values import PageCursor, to_micros
from limpet.store.encryption import EncryptedColumn, EncryptedColumns, EncryptionMode, declare_columns

if TYPE_CHECKING:
    from limpet.store.tx import Cipher

_REASONS = {"whose": "whose", "ids": "an id", "words": "a word of ours"}
# What stands in readable columns that those words do not describe.
_READABLE = {
    "partitions.owner": "a user's or agent's id",
    "sessions.key": "channel, chat and thread: sessions are found by it",
    "usage.model": "a model's name",
    "models.name": "a model's name",
    "postings.data": "which chunks hold a term, how often, and how long they are",
    "jobs.detail": "which session, record, document or model",
    "properties.value": "about the store itself",
    "grants.name": "a right, and whose",
    "api_keys.secret_hash": "tells whether a secret is this key's; it cannot be guessed",
    "tenant_encryption.check_value": "tells keys apart, and nothing else about them",
    "tenant_encryption.old_check": "the same, of the key before",
    "tenant_encryption.progress": "table names and ids",
}
_ENCRYPTED = frozenset(mode.value for mode in EncryptionMode)
# Small, read with everything: where a database is spread over machines, each of them has these whole.
_REFERENCE = frozenset({"models", "properties", "grants", "api_keys", "tenant_encryption"})

TABLES: list[Table] = []


class Table(Mapping[str, EncryptedColumn]):
    """As a mapping: the encrypted columns by name.

    ``columns`` says "key: group, group": each group begins with how its columns are encrypted, or with what stands in
    them and is readable (``whose``, ``ids``, ``words``, ``readable``); one of numbers has no such word. ``bound_to``
    names the columns, as they are stored, that say of which row a value is; of rows that the database numbers, what
    is known before.
    """

    def __init__(self, name: str, columns: str, bound_to: str = "", noun: RowCodec[Any] | None = None) -> None:
        key, _, groups = columns.partition(":")
        self.name, self.key, self.bound_to, self.rows = name, tuple(key.split()), tuple(bound_to.split()), noun
        self._groups = [group.split() for group in groups.split(",")]
        TABLES.append(self)

    @lazy_property
    def columns(self) -> tuple[str, ...]:
        """The key first, then what the store adds, then what the noun says."""
        marks = (*_ENCRYPTED, *_REASONS, "readable")
        added = (name for group in self._groups for name in group[bool(group) and group[0] in marks :])
        return tuple(dict.fromkeys((*self.key, *added, *(() if self.rows is None else self.rows.names))))

    @property
    def placement(self) -> str:
        """How a database is spread: by the rows' bucket or tenant, or not at all for a reference table."""
        return "reference" if self.name in _REFERENCE else self.key[0]

    @lazy_property
    def readable(self) -> dict[str, str]:
        """Text and bytes that stay readable, and what they are."""
        found = {
            name: _REASONS[mark] for mark, *names in filter(None, self._groups) if mark in _REASONS for name in names
        }
        found |= {name: _READABLE[place] for name in self.columns if (place := f"{self.name}.{name}") in _READABLE}
        noun = () if self.rows is None else self.rows.columns
        return {column.name: column.plain for column in noun if column.plain} | found

    @lazy_property
    def _encrypted(self) -> EncryptedColumns:
        """Read from the noun when it is first needed."""
        added = {mark: " ".join(names) for mark, *names in filter(None, self._groups) if mark in _ENCRYPTED}
        noun = {} if self.rows is None else encrypted_names(self.rows)
        return {**declare_columns(self.name, **noun), **declare_columns(self.name, **added)}

    def __getitem__(self, name: str) -> EncryptedColumn:
        return self._encrypted[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._encrypted)

    def __len__(self) -> int:
        return len(self._encrypted)


SESSION_ROWS = RowCodec(SessionInfo)
MESSAGE_ROWS = RowCodec(Message)
RECORD_ROWS = RowCodec(Record)
DOCUMENT_ROWS = RowCodec(Document)
NOTE_ROWS = RowCodec(Note)
SCHEDULE_ROWS = RowCodec(Schedule)
RUN_ROWS = RowCodec(Run)
AUDIT_ROWS = RowCodec(AuditEntry)
KEY_ROWS = RowCodec(KeyInfo)
RECEIPT_ROWS = RowCodec(Receipt)

Table(
    "partitions",
    "bucket id: whose tenant level, readable owner,"
    " next_ordinal merged_ordinal chunk_count word_count removals next_graph_id",
)
SESSIONS = Table(
    "sessions",
    "bucket partition_id id: ids external_id, readable key, cleared_through summary_epoch oldest_at",
    "id",
    SESSION_ROWS,
)
MESSAGES = Table(
    "messages", "bucket partition_id session_id sequence: ids session_id", "session_id sequence", MESSAGE_ROWS
)
SUMMARIES = Table(
    "summaries",
    "bucket partition_id session_id: ids session_id, text text,"
    " epoch upper_sequence message_count updated_at written_sequence written_characters",
    "session_id",
)
KV = Table(
    "kv",
    "bucket partition_id session_id key: ids session_id, same key, text value, position updated_at",
    "session_id key",
)
Table(
    "usage",
    "bucket partition_id session_id model: ids session_id, readable model,"
    " calls input_tokens output_tokens cached_tokens cost_nanos",
)
Table("cursors", "bucket partition_id session_id name: ids session_id, words name, sequence")
RECORDS = Table(
    "records", "bucket partition_id id: ids external_id source_session, whose owner, source_sequence", "id", RECORD_ROWS
)
RECORD_VERSIONS = Table(
    "record_versions",
    "bucket partition_id record_id version: ids record_id, text body, updated_at replaced_at",
    "record_id version",
)
RECORD_TAGS = Table("record_tags", "bucket partition_id record_id tag: ids record_id, same tag", "record_id")
RECORD_METADATA = Table(
    "record_metadata", "bucket partition_id record_id key: ids record_id, same key value", "record_id"
)
Table("record_inputs", "bucket partition_id record_id input_id: ids record_id input_id")
DOCUMENTS = Table("documents", "bucket partition_id id: version unsettled", "id", DOCUMENT_ROWS)
NOTES = Table("notes", "bucket partition_id name:", "partition_id name", NOTE_ROWS)
CHUNKS = Table(
    "chunks",
    "bucket partition_id ordinal: words kind role, ids session_id record_id document_id, version"
    " first_sequence last_sequence created_at worded_at word_count flags, text name text, same_bytes hash, terms terms",
    "partition_id ordinal",
)
Table("postings", "bucket partition_id term first_ordinal: readable data")
Table("models", "id: readable name, dimension")
VECTORS = Table("vectors", "bucket partition_id ordinal model_id: bytes vector", "partition_id ordinal model_id")
Table("late_vectors", "bucket partition_id number: low high")
ENTITIES = Table("entities", "bucket partition_id id: same normal first_word, text name", "partition_id normal")
Table("mentions", "bucket partition_id id: words kind, ids session_id record_id, entity_id sequence said_at")
RELATIONS = Table(
    "relations",
    "bucket partition_id id: words kind, ids session_id record_id, text predicate value sentence,"
    " subject_id object_id polarity sequence said_at",
    "partition_id subject_id",
)
JOBS = Table(
    "jobs",
    "bucket tenant level owner kind detail: whose tenant level owner, words kind, readable detail, text error,"
    " id requests run_at attempts leased_until dead created_at",
    "id",
)
# Hashes, too: who guesses a short key, and what was asked for under it, must not find it confirmed here.
IDEMPOTENCY_KEYS = Table(
    "idempotency_keys",
    "bucket tenant level owner kind key_hash: whose tenant level owner, words kind, same key_hash digest,"
    " ids resource_id, created_at",
    "key_hash",
)
SCHEDULES = Table(
    "schedules",
    "bucket partition_id id: text text_folded, leased_until token claimed_at claimed_due_at",
    "id",
    SCHEDULE_ROWS,
)
SCHEDULE_RUNS = Table(
    "schedule_runs", "bucket partition_id id: text output, characters notice notice_until", "id", RUN_ROWS
)
IMPORTS = Table(
    "imports", "tenant digest: whose tenant, same digest, text name, sessions messages imported_at", "digest"
)
TRANSFERS = Table(
    "transfers", "tenant digest: whose tenant user_id, same digest, text name state, updated_at", "digest"
)
Table("audit", "tenant id:", noun=AUDIT_ROWS)
Table("receipts", "tenant id:", noun=RECEIPT_ROWS)
Table("properties", "name: words name, readable value")
Table("grants", "tenant user_id name: whose tenant user_id granted_by, readable name, granted_at")
Table("api_keys", "id: readable secret_hash", noun=KEY_ROWS)
Table("tenant_encryption", "tenant: whose tenant, words state, version, readable check_value old_check progress")
_ROWS = {table.name: table.rows for table in TABLES if table.rows is not None}

# Named queries. A feature's are in ``FEATURE/FEATURE.sql``, each under ``-- name: noun.verb``.
#
# What the dialects say differently stands in braces, here as in migrations: ``{BLOB|BYTEA}``, in the order of
# ``DIALECTS``. ``{where}`` and ``{order}`` are filled from fixed clauses in the code beside; ``IN :names[]`` takes a
# list, which each dialect passes its own way. ``@columns(r records)`` stands for the columns of the noun that the table
# holds, ``@values(records)`` for its parameters, ``@set(records)`` for what a change sets.

DIALECTS = ("sqlite", "postgres")
_NAME = re.compile(r"^-- name: (\S+)[ \t]*\n", re.MULTILINE)
_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_LIST = re.compile(r"IN :([a-z_0-9]+)\[\]")
_NOUN = re.compile(r"@(columns|values|set)\((?:(\w+) )?(\w+)\)")
_PARAMETER = re.compile(r"(?<!:):([a-z_0-9]+)")


def load_queries(dialect: str) -> dict[str, str]:
    """The queries of every feature, by name, as this dialect says them."""
    found: dict[str, str] = {}
    for package in Path(__file__).parents[1].iterdir():
        file = package.joinpath(f"{package.name}.sql")
        if package.is_dir() and file.is_file():
            pieces = _NAME.split(file.read_text(encoding="utf-8"))[1:]
            for name, sql in zip(pieces[::2], pieces[1::2], strict=True):
                if name in found:
                    raise ValueError(f"the query {name} is defined twice")
                found[name] = _NOUN.sub(_expand, choose_words(dialect, sql.strip().rstrip(";")))
    return found


def choose_words(dialect: str, sql: str) -> str:
    place = DIALECTS.index(dialect)
    return _CHOICE.sub(lambda choice: choice[1].split("|")[place], sql)


def _expand(found: re.Match[str]) -> str:
    what, alias, table = found.groups()
    columns = _ROWS[table].columns
    if what == "set":
        return ", ".join(f"{each.name} = :{each.name}" for each in columns if not each.is_set_once)
    prefix = ":" if what == "values" else f"{alias}." if alias else ""
    return ", ".join(f"{prefix}{each.name}" for each in columns)


def to_sqlite(sql: str) -> str:
    return _LIST.sub(r"IN (SELECT value FROM json_each(:\1))", sql)


def to_postgres(sql: str) -> str:
    """``:name`` parameters as psycopg writes them."""
    listed = _LIST.sub(r"= ANY (:\1)", sql.replace("%", "%%"))
    return _PARAMETER.sub(r"%(\1)s", listed)


class Statements(dict[tuple[str, str, str], str]):
    """Each query as its driver takes it, by its name and clauses: ``statements[name, where, order]``. Made once."""

    def __init__(self, dialect: str, finish: Callable[[str], str]) -> None:
        super().__init__()
        self._queries = load_queries(dialect)
        self.finish = finish

    def __missing__(self, key: tuple[str, str, str]) -> str:
        name, where, order = key
        text = self._queries[name].replace("{where}", where or "TRUE").replace("{order}", order)
        made = self[key] = self.finish(text)
        return made


def build_keyset_clause(place: PageCursor | None, time: str, id: str) -> tuple[str, dict[str, Any]]:
    """Return the clause that continues a list after a position, latest first."""
    if place is None:
        return "", {}
    clause = f" AND ({time} < :end_at OR ({time} = :end_at AND {id} < :end_id))"
    return clause, {"end_at": to_micros(place.at), "end_id": place.id}


def build_record_clauses(wanted: RecordFilter, cipher: Cipher) -> tuple[list[str], dict[str, Any]]:
    """Return clauses on records ``r`` and their parameters. Values are parameters; only constants are composed."""
    clauses: list[str] = []
    params: dict[str, Any] = {}
    for column, values in (("layer", wanted.layers), ("type", wanted.types)):
        if values:
            names = [f"{column}_{at}" for at in range(len(values))]
            clauses.append(f"r.{column} IN ({', '.join(':' + name for name in names)})")
            params |= {name: str(value) for name, value in zip(names, values, strict=True)}
    for at, tag in enumerate(wanted.tags):
        name = f"tag_{at}"
        clauses.append(
            "EXISTS (SELECT 1 FROM record_tags t WHERE t.bucket = r.bucket AND t.partition_id = r.partition_id"
            f" AND t.record_id = r.id AND t.tag = :{name})"
        )
        params[name] = cipher.encrypt_deterministic(RECORD_TAGS["tag"], tag)
    for at, (key, value) in enumerate(wanted.metadata.items()):
        key_name, value_name = f"meta_key_{at}", f"meta_value_{at}"
        clauses.append(
            "EXISTS (SELECT 1 FROM record_metadata d "
            "WHERE d.bucket = r.bucket AND d.partition_id = r.partition_id "
            f"AND d.record_id = r.id AND d.key = :{key_name} AND d.value = :{value_name})"
        )
        params[key_name] = cipher.encrypt_deterministic(RECORD_METADATA["key"], key)
        params[value_name] = cipher.encrypt_deterministic(RECORD_METADATA["value"], value)
    return clauses, params
