-- {SQLite|PostgreSQL}: the tables of Limpet. store/tables.py lists them; a test compares the two.
--
-- Keys. A partition is one owner's memory: a user's, an agent's, or a tenant's own. Its bucket is a hash of tenant, level and
-- owner, from 0 to 4095, which the client computes. The bucket and then the partition come first in every key, unique
-- constraint and foreign key, so that a database may be spread over machines by the bucket alone. What is not a
-- partition's has the tenant first. Reference tables, which every machine would have whole, have neither.

CREATE TABLE partitions (
    bucket SMALLINT NOT NULL,
    -- Ends with the bucket in 12 bits, so that it is unique everywhere. Never used again.
    id BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('user', 'agent', 'global')),
    -- A space and the id for one that was purged.
    owner TEXT NOT NULL,
    -- Ordinals below this were given out, also to chunks that are gone. An append does not write here: the newest chunk counts too.
    next_ordinal BIGINT NOT NULL DEFAULT 0,
    -- Chunks below this ordinal are in the postings; those from it on are the tail, searched by their own terms.
    merged_ordinal BIGINT NOT NULL DEFAULT 0,
    -- Of the merged chunks.
    chunk_count BIGINT NOT NULL DEFAULT 0,
    word_count BIGINT NOT NULL DEFAULT 0,
    -- Counts every removal of chunks, so that a cache of the others knows when to look again.
    removals BIGINT NOT NULL DEFAULT 0,
    -- Numbers entities, mentions and relations. Never used again.
    next_graph_id BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (bucket, id),
    UNIQUE (bucket, tenant, level, owner)
);
CREATE INDEX partitions_by_tenant ON partitions (tenant);
CREATE INDEX partitions_purged ON partitions (id) WHERE substr(owner, 1, 1) = ' ';

CREATE TABLE sessions (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    -- A UUID of version 7 with the bucket in its 12 bits after the version, unless somebody else made it.
    id TEXT NOT NULL,
    -- The id it came with, where that does not say the bucket.
    external_id TEXT,
    -- Empty for one that was deleted and is being removed: nobody finds it any more.
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT,
    state TEXT NOT NULL CHECK (state IN ('ACTIVE', 'PAUSED', 'TERMINATED')),
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_active_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_sequence BIGINT NOT NULL DEFAULT 0,
    message_count BIGINT NOT NULL DEFAULT 0,
    -- Messages up to here were cleared: a summary that covers only those must not come back.
    cleared_through BIGINT NOT NULL DEFAULT 0,
    -- The last summary's epoch, also of one that was cleared: an epoch is never used again.
    summary_epoch BIGINT NOT NULL DEFAULT 0,
    -- When the oldest message was said: retention looks nowhere else. It changes with the first message, not with the next.
    oldest_at BIGINT,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
);
CREATE UNIQUE INDEX sessions_by_id ON sessions (bucket, id);
CREATE UNIQUE INDEX sessions_live_key ON sessions (bucket, partition_id, agent, key) WHERE state <> 'TERMINATED';
CREATE UNIQUE INDEX sessions_external_id ON sessions (bucket, partition_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX sessions_by_external_id ON sessions (external_id) WHERE external_id IS NOT NULL;
CREATE INDEX sessions_deleted ON sessions (bucket, partition_id) WHERE length(tenant) = 0;
CREATE INDEX sessions_by_user ON sessions (tenant, user_id);
CREATE INDEX sessions_by_oldest ON sessions (tenant, agent, oldest_at) WHERE oldest_at IS NOT NULL;
CREATE INDEX sessions_that_expire ON sessions (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE messages (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content TEXT NOT NULL,
    parts TEXT,
    name TEXT,
    tool_calls TEXT,
    tool_call_id TEXT,
    is_error SMALLINT NOT NULL DEFAULT 0,
    metadata TEXT,
    tokens BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    idempotency_key TEXT,
    PRIMARY KEY (bucket, partition_id, session_id, sequence),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
){ WITHOUT ROWID|};
CREATE UNIQUE INDEX messages_idempotency ON messages (bucket, partition_id, session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE summaries (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    text TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    upper_sequence BIGINT NOT NULL,
    message_count BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    written_sequence BIGINT NOT NULL,
    written_characters BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, session_id),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
);

CREATE TABLE kv (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    position BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, session_id, key),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
);
CREATE UNIQUE INDEX kv_by_position ON kv (bucket, partition_id, session_id, position);

CREATE TABLE usage (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    model TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cost_nanos BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, session_id, model),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
){ WITHOUT ROWID|};

-- How far a kind of work has come through a session's messages.
CREATE TABLE cursors (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, session_id, name),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
){ WITHOUT ROWID|};

CREATE TABLE records (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    -- As a session's.
    id TEXT NOT NULL,
    external_id TEXT,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('session', 'user', 'agent', 'global')),
    owner TEXT NOT NULL,
    user_id TEXT,
    agent TEXT,
    session_id TEXT,
    layer TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    title TEXT,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    salience DOUBLE PRECISION NOT NULL,
    refs TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    source TEXT NOT NULL,
    -- The message it was learned from, to find what a message taught.
    source_session TEXT,
    source_sequence BIGINT,
    origin TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_used_at BIGINT,
    uses BIGINT NOT NULL DEFAULT 0,
    valid_from BIGINT NOT NULL,
    valid_to BIGINT,
    superseded_by TEXT,
    expires_at BIGINT,
    pinned SMALLINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL DEFAULT 1,
    -- What it is about: only what is about the same thing, and there the same attribute, may take its place.
    subject TEXT,
    attribute TEXT,
    value TEXT,
    -- 0 where it denies: "does not eat meat".
    polarity SMALLINT NOT NULL DEFAULT 1,
    -- How often it was said, and since when it is archived: faded, and no longer recalled.
    said BIGINT NOT NULL DEFAULT 1,
    archived_at BIGINT,
    -- The records it was made from, as a list. Once more as rows, to find what was made from one.
    inputs TEXT,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id)
);
CREATE UNIQUE INDEX records_by_id ON records (bucket, id);
CREATE UNIQUE INDEX records_key ON records (bucket, partition_id, level, owner, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX records_external_id ON records (bucket, partition_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX records_by_external_id ON records (external_id) WHERE external_id IS NOT NULL;
CREATE INDEX records_by_change ON records (bucket, partition_id, updated_at, id);
CREATE INDEX records_by_activity ON records (tenant, updated_at, id);
CREATE INDEX records_by_session ON records (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX records_by_fingerprint ON records (bucket, partition_id, fingerprint);
CREATE INDEX records_by_source ON records (bucket, partition_id, source_session, source_sequence)
    WHERE source_session IS NOT NULL;
CREATE INDEX records_about ON records (bucket, partition_id, subject, attribute) WHERE subject IS NOT NULL;
-- Records that may not be true any more, or not yet: a search leaves them out before it chooses.
CREATE INDEX records_that_end ON records (bucket, partition_id)
    WHERE valid_to IS NOT NULL OR superseded_by IS NOT NULL OR expires_at IS NOT NULL;
CREATE INDEX records_that_begin ON records (bucket, partition_id, valid_from);
-- What stands in a context whatever is asked: the newest of each layer, the newest that have a key, and in the lean layout
-- what was stated or learned. The records of turns are many more.
CREATE INDEX records_standing ON records (bucket, partition_id)
    WHERE origin NOT IN ('turn', 'condensed') AND superseded_by IS NULL AND archived_at IS NULL;
CREATE INDEX records_newest_of_layer ON records (bucket, partition_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (bucket, partition_id, pinned, updated_at, id) WHERE key IS NOT NULL;

-- What a record said before each change.
CREATE TABLE record_versions (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    record_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    replaced_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, record_id, version),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
);

-- Tags, metadata and inputs once more as rows: equality on any key, dots and quotes included, by an index, on every backend.
CREATE TABLE record_tags (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    record_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (bucket, partition_id, record_id, tag),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
){ WITHOUT ROWID|};
CREATE INDEX record_tags_by_tag ON record_tags (bucket, partition_id, tag, record_id);
CREATE TABLE record_metadata (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    record_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (bucket, partition_id, record_id, key),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
){ WITHOUT ROWID|};
CREATE INDEX record_metadata_by_key ON record_metadata (bucket, partition_id, key, record_id);
CREATE TABLE record_inputs (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    record_id TEXT NOT NULL,
    -- Maybe another partition's.
    input_id TEXT NOT NULL,
    PRIMARY KEY (bucket, partition_id, record_id, input_id),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
){ WITHOUT ROWID|};
CREATE INDEX record_inputs_by_input ON record_inputs (input_id);

CREATE TABLE documents (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id TEXT NOT NULL,
    uri TEXT NOT NULL,
    title TEXT,
    content_hash {BLOB|BYTEA} NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The version of its chunks that is to be seen. Null while the first is written, and once the document is removed.
    version BIGINT,
    -- Whether there are chunks of other versions: searches leave them out.
    unsettled SMALLINT NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, partition_id, id),
    UNIQUE (bucket, partition_id, uri),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
);
CREATE INDEX documents_by_id ON documents (id);
CREATE INDEX documents_by_change ON documents (bucket, partition_id, updated_at);
CREATE INDEX documents_unsettled ON documents (bucket, partition_id) WHERE unsettled = 1;

-- A user's MEMORY.md and the notes of each day. Where the store has a folder, a file has the same text.
CREATE TABLE notes (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    -- The name of the file: MEMORY.md, or a day such as 2026-03-10.md.
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    -- Counts the changes, for compare-and-swap.
    version BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- A digest of what the file said when it was last read or written. Pending: the file has still to be written.
    mirrored TEXT,
    pending SMALLINT NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, partition_id, name),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
);
CREATE INDEX notes_pending ON notes (partition_id) WHERE pending = 1;

-- Pieces of what can be searched, numbered inside their partition; a number is never used again.
CREATE TABLE chunks (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('message', 'record', 'document')),
    session_id TEXT,
    record_id TEXT,
    document_id TEXT,
    -- Of a document: which version of its text. A later one has a higher number.
    version BIGINT NOT NULL DEFAULT 0,
    -- Of a document: its range of characters.
    first_sequence BIGINT,
    last_sequence BIGINT,
    role TEXT,
    -- Of a message: its speaker. Of a record: the words that people use for its attribute.
    name TEXT,
    created_at BIGINT NOT NULL,
    -- When a message's text was last said again, or when a record took this wording.
    worded_at BIGINT NOT NULL,
    hash {BLOB|BYTEA} NOT NULL,
    word_count BIGINT NOT NULL,
    flags SMALLINT NOT NULL DEFAULT 0,
    terms {BLOB|BYTEA} NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (bucket, partition_id, ordinal),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, document_id) REFERENCES documents (bucket, partition_id, id)
);
-- Only a message's chunk names its session, so the same text is stored once a session.
CREATE UNIQUE INDEX chunks_once_a_session ON chunks (bucket, partition_id, session_id, hash) WHERE session_id IS NOT NULL;
CREATE INDEX chunks_by_record ON chunks (bucket, partition_id, record_id) WHERE record_id IS NOT NULL;
CREATE INDEX chunks_by_document ON chunks (bucket, partition_id, document_id, version, ordinal) WHERE document_id IS NOT NULL;

-- The word index: for each term of a partition, blocks of (ordinal, count, length) packed in eight bytes each.
CREATE TABLE postings (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    term BIGINT NOT NULL,
    first_ordinal BIGINT NOT NULL,
    data {BLOB|BYTEA} NOT NULL,
    PRIMARY KEY (bucket, partition_id, term, first_ordinal),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
){ WITHOUT ROWID|};

-- Embedding models. A reference table.
CREATE TABLE models (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    dimension BIGINT NOT NULL
);
CREATE TABLE vectors (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    model_id BIGINT NOT NULL REFERENCES models (id),
    -- A factor of four bytes, then a byte for each number: together a vector of length one.
    vector {BLOB|BYTEA} NOT NULL,
    PRIMARY KEY (bucket, partition_id, ordinal, model_id),
    FOREIGN KEY (bucket, partition_id, ordinal) REFERENCES chunks (bucket, partition_id, ordinal)
);

-- Vectors that came after their chunks, as ranges of ordinals: a cache of a partition's vectors reads these again.
CREATE TABLE late_vectors (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, number),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
){ WITHOUT ROWID|};

-- The knowledge graph. A name of somebody or something is a row for each partition; which names mean one is decided when it
-- is read, from all of them.
CREATE TABLE entities (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    normal TEXT NOT NULL,
    first_word TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (bucket, partition_id, id),
    UNIQUE (bucket, partition_id, normal),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
);
CREATE INDEX entities_by_first_word ON entities (bucket, partition_id, first_word);
-- Where it was named: a message or a record. The ends of a relation are mentioned where it is stated.
CREATE TABLE mentions (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    entity_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    session_id TEXT,
    sequence BIGINT,
    record_id TEXT,
    said_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, entity_id) REFERENCES entities (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
);
CREATE UNIQUE INDEX mentions_in_messages ON mentions (bucket, partition_id, session_id, sequence, entity_id)
    WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX mentions_in_records ON mentions (bucket, partition_id, record_id, entity_id) WHERE record_id IS NOT NULL;
CREATE INDEX mentions_by_entity ON mentions (bucket, partition_id, entity_id, id);

-- A record's relation holds as long as the record does; a message's from when it was said.
CREATE TABLE relations (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    subject_id BIGINT NOT NULL,
    predicate TEXT NOT NULL,
    object_id BIGINT,
    value TEXT,
    kind TEXT NOT NULL,
    polarity SMALLINT NOT NULL DEFAULT 1,
    sentence TEXT NOT NULL,
    session_id TEXT,
    sequence BIGINT,
    record_id TEXT,
    said_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, subject_id) REFERENCES entities (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, object_id) REFERENCES entities (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, session_id) REFERENCES sessions (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, record_id) REFERENCES records (bucket, partition_id, id)
);
CREATE INDEX relations_in_messages ON relations (bucket, partition_id, session_id, sequence) WHERE session_id IS NOT NULL;
CREATE INDEX relations_in_records ON relations (bucket, partition_id, record_id) WHERE record_id IS NOT NULL;
CREATE INDEX relations_by_subject ON relations (bucket, partition_id, subject_id);
CREATE INDEX relations_by_object ON relations (bucket, partition_id, object_id) WHERE object_id IS NOT NULL;

-- Work that is due, entered by the transaction that needs it. One row for each kind and detail of an owner: enqueued again
-- while it waits or runs, its requests are counted, so that its worker knows there is more to do. An owner need not have
-- a partition: a purge's job outlives it.
CREATE TABLE jobs (
    bucket SMALLINT NOT NULL,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Which session, record or model.
    detail TEXT NOT NULL,
    -- What people call it: a hash of its key, with the bucket in the last 12 bits.
    id BIGINT NOT NULL,
    requests BIGINT NOT NULL DEFAULT 1,
    run_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- Until then a worker holds it; afterwards that worker is taken for dead.
    leased_until BIGINT NOT NULL DEFAULT 0,
    error TEXT,
    dead SMALLINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, tenant, level, owner, kind, detail)
);
CREATE {|UNIQUE }INDEX jobs_by_id ON jobs (bucket, id);
-- By kind: many jobs of one kind do not hold up another.
CREATE INDEX jobs_due ON jobs (kind, dead, run_at, created_at, id);
-- What a worker claims next, in one bucket.
CREATE INDEX jobs_of_bucket ON jobs (bucket, kind, dead, run_at, created_at, id);

-- What was made under an idempotency key, for as long as somebody may ask again. The key itself is not here, and without
-- it the digest of the request confirms nobody's guess.
CREATE TABLE idempotency_keys (
    bucket SMALLINT NOT NULL,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    digest TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, tenant, level, owner, kind, key_hash)
){ WITHOUT ROWID|};
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (tenant, created_at);

-- Goals that come back. A row is leased to one runner at a time; each lease has a token of its own, and only the holder of
-- the last one may say how a run ended.
CREATE TABLE schedules (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    goal TEXT NOT NULL,
    name TEXT,
    text_folded TEXT NOT NULL,
    cadence TEXT NOT NULL,
    timezone TEXT NOT NULL,
    state TEXT NOT NULL,
    notify TEXT NOT NULL,
    channel TEXT,
    chat TEXT,
    thread TEXT,
    session_id TEXT,
    next_run_at BIGINT,
    due_at BIGINT,
    last_due_at BIGINT,
    skipped_from BIGINT,
    skipped_to BIGINT,
    last_run_at BIGINT,
    last_status TEXT,
    attempts BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    run_count BIGINT NOT NULL DEFAULT 0,
    max_runs BIGINT,
    ends_at BIGINT,
    anchor_at BIGINT NOT NULL,
    settled_at BIGINT,
    leased_until BIGINT NOT NULL DEFAULT 0,
    token BIGINT NOT NULL DEFAULT 0,
    claimed_at BIGINT,
    claimed_due_at BIGINT,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id) REFERENCES partitions (bucket, id)
);
CREATE INDEX schedules_due ON schedules (state, next_run_at);
CREATE INDEX schedules_of_user ON schedules (tenant, user_id, state);
CREATE INDEX schedules_by_id ON schedules (id);

-- What came of them. The whole output of a run is kept, and read by page.
CREATE TABLE schedule_runs (
    bucket SMALLINT NOT NULL,
    partition_id BIGINT NOT NULL,
    id TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    summary TEXT NOT NULL,
    output TEXT NOT NULL,
    characters BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    cost_nanos BIGINT NOT NULL,
    error TEXT,
    -- 0 nobody is notified, 1 somebody is to be, 2 somebody was. Until notice_until a runner is at it.
    notice SMALLINT NOT NULL DEFAULT 0,
    notice_until BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, partition_id, id),
    FOREIGN KEY (bucket, partition_id, schedule_id) REFERENCES schedules (bucket, partition_id, id)
);
CREATE INDEX schedule_runs_of ON schedule_runs (bucket, partition_id, schedule_id, ended_at);
CREATE INDEX schedule_runs_by_id ON schedule_runs (id);
CREATE INDEX schedule_runs_to_notify ON schedule_runs (notice_until) WHERE notice = 1;

-- Files that were imported, by their digest: a crash before the file is renamed imports nothing twice.
CREATE TABLE imports (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    name TEXT NOT NULL,
    sessions BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Imports that are under way, by the digest of what is imported and for whom: how far each has come. A row is written with
-- what it counts, and removed with the last of it.
CREATE TABLE transfers (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    -- Whose memory it becomes; empty for a whole tenant's.
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Who did what to whose memory. Names and ids, never a text. It refers to nothing: it outlives what it is about.
CREATE TABLE audit (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    principal TEXT NOT NULL,
    operation TEXT NOT NULL,
    access TEXT NOT NULL,
    outcome TEXT NOT NULL,
    user_id TEXT,
    agent TEXT,
    session_id TEXT,
    record_id TEXT,
    missing TEXT,
    calls BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX audit_by_time ON audit (tenant, at, id);
-- A purge takes a name out of the few rows that have it, however many others there are.
CREATE INDEX audit_by_user ON audit (tenant, user_id);
CREATE INDEX audit_by_principal ON audit (tenant, principal);
CREATE INDEX audit_by_session ON audit (tenant, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX audit_by_missing ON audit (tenant, missing) WHERE missing IS NOT NULL;

-- What was purged, counted; without content, and without a name: who knows the name can compute its digest.
CREATE TABLE receipts (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    what TEXT NOT NULL,
    digest TEXT NOT NULL,
    before_at BIGINT,
    asked_by TEXT,
    asked_at BIGINT NOT NULL,
    done_at BIGINT,
    counts TEXT NOT NULL,
    verified SMALLINT NOT NULL DEFAULT 0,
    remaining TEXT NOT NULL,
    -- What became of the bytes: gone, waiting for a job, or for somebody to vacuum.
    bytes TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX receipts_by_time ON receipts (tenant, asked_at, id);

-- What users may beyond their own memory: a right, how far it reaches, perhaps of whom. A reference table.
CREATE TABLE grants (
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    granted_by TEXT NOT NULL,
    PRIMARY KEY (tenant, user_id, name)
);

-- Keys that programs show to a server. Of a secret only the hash is here: it has 256 random bits, so that nobody finds
-- it by trying, and no salt is needed. A reference table.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,
    user_id TEXT,
    agent TEXT,
    -- A JSON list.
    grants TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
);
-- A name is one key's, until that is revoked.
CREATE UNIQUE INDEX api_keys_by_name ON api_keys (tenant, name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_of_user ON api_keys (tenant, user_id);

-- Facts about the store itself, such as which analysis its words were cut with. A reference table.
CREATE TABLE properties (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Tenants whose text is encrypted, and those that were found in plain text by a program that has keys. A row is never
-- removed. A reference table.
CREATE TABLE tenant_encryption (
    tenant TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('plaintext', 'encrypted', 'encrypting', 'rotating')),
    -- Of the key; every encrypted value begins with it.
    version BIGINT NOT NULL,
    check_value {BLOB|BYTEA} NOT NULL,
    old_check {BLOB|BYTEA} NOT NULL,
    -- How far an encryption or rotation has come.
    progress TEXT NOT NULL
);
-- One row, higher with every change of tenant_encryption: every transaction reads it, and looks again when it differs.
CREATE TABLE encryption_changes (
    number BIGINT NOT NULL
);
INSERT INTO encryption_changes (number) VALUES (0);{|

-- The last transaction of each writer in a bucket: how one whose answer was lost is known to have happened.
CREATE TABLE limpet_writers (
    bucket SMALLINT NOT NULL,
    id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (bucket, id)
);
CREATE SEQUENCE limpet_writer_ids;}
