-- A space is one body of searchable text with its own word statistics. Chunks are numbered inside it; a number is never used again.
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('user', 'agent', 'global')),
    owner TEXT NOT NULL,
    -- Ordinals below this were given out, also to chunks that are gone. An append does not write here: the newest chunk counts too.
    next_ordinal BIGINT NOT NULL DEFAULT 0,
    -- Chunks below this ordinal are in the postings; those from it on are the tail, searched by their own terms.
    merged_ordinal BIGINT NOT NULL DEFAULT 0,
    -- Of the merged chunks.
    chunk_count BIGINT NOT NULL DEFAULT 0,
    word_count BIGINT NOT NULL DEFAULT 0,
    -- Counts every removal of chunks, so that whoever remembers the others knows when to look again.
    removals BIGINT NOT NULL DEFAULT 0,
    UNIQUE (tenant, level, owner)
);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    space_id BIGINT NOT NULL REFERENCES spaces (id),
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
    summary_epoch BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX sessions_live_key ON sessions (tenant, user_id, agent, key) WHERE state <> 'TERMINATED';
CREATE INDEX sessions_by_user ON sessions (tenant, user_id);
CREATE INDEX sessions_by_space ON sessions (space_id);

CREATE TABLE messages (
    session_id TEXT NOT NULL REFERENCES sessions (id),
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
    PRIMARY KEY (session_id, sequence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX messages_idempotency ON messages (session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE summaries (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    text TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    upper_sequence BIGINT NOT NULL,
    message_count BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE kv (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    position BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, key)
);
CREATE UNIQUE INDEX kv_by_position ON kv (session_id, position);

CREATE TABLE usage (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    model TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cost_nanos BIGINT NOT NULL,
    PRIMARY KEY (session_id, model)
);

CREATE TABLE records (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('session', 'user', 'agent', 'global')),
    owner TEXT NOT NULL,
    user_id TEXT,
    agent TEXT,
    session_id TEXT REFERENCES sessions (id),
    space_id BIGINT NOT NULL REFERENCES spaces (id),
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
    version BIGINT NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX records_key ON records (tenant, level, owner, key) WHERE key IS NOT NULL;
CREATE INDEX records_by_user ON records (tenant, user_id, updated_at, id);
CREATE INDEX records_by_activity ON records (tenant, updated_at, id);
CREATE INDEX records_by_session ON records (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX records_by_space ON records (space_id, fingerprint);

-- What a record said before each change.
CREATE TABLE record_versions (
    record_id TEXT NOT NULL REFERENCES records (id),
    version BIGINT NOT NULL,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    replaced_at BIGINT NOT NULL,
    PRIMARY KEY (record_id, version)
);

-- Tags and metadata once more as rows: equality on any key, dots and quotes included, by an index, on every backend.
CREATE TABLE record_tags (
    record_id TEXT NOT NULL REFERENCES records (id),
    tag TEXT NOT NULL,
    PRIMARY KEY (record_id, tag)
);
CREATE INDEX record_tags_by_tag ON record_tags (tag, record_id);
CREATE TABLE record_metadata (
    record_id TEXT NOT NULL REFERENCES records (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (record_id, key)
);
CREATE INDEX record_metadata_by_key ON record_metadata (key, record_id);

CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    uri TEXT NOT NULL,
    title TEXT,
    content_hash BLOB NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (space_id, uri)
);

-- A chunk's id is its space's number and its own in one (space << 32 | ordinal): the chunks of a space lie together.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    kind TEXT NOT NULL CHECK (kind IN ('message', 'record', 'document')),
    session_id TEXT REFERENCES sessions (id),
    record_id TEXT REFERENCES records (id),
    document_id TEXT REFERENCES documents (id),
    first_sequence BIGINT,
    last_sequence BIGINT,
    role TEXT,
    name TEXT,
    created_at BIGINT NOT NULL,
    -- When a message's text was last said again, or when a record took this wording.
    worded_at BIGINT NOT NULL,
    hash BLOB NOT NULL,
    word_count BIGINT NOT NULL,
    traits SMALLINT NOT NULL DEFAULT 0,
    terms BLOB NOT NULL,
    text TEXT NOT NULL
);
-- Only a message's chunk names its session, so the same text is stored once a session.
CREATE UNIQUE INDEX chunks_once_a_session ON chunks (session_id, hash);
CREATE INDEX chunks_by_record ON chunks (record_id) WHERE record_id IS NOT NULL;
CREATE INDEX chunks_by_document ON chunks (document_id) WHERE document_id IS NOT NULL;

-- The word index: for each term of a space, blocks of (ordinal, count, length) packed in eight bytes each.
CREATE TABLE postings (
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    term BIGINT NOT NULL,
    first_ordinal BIGINT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (space_id, term, first_ordinal)
) WITHOUT ROWID;

CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    dimension BIGINT NOT NULL
);
CREATE TABLE vectors (
    chunk_id BIGINT NOT NULL REFERENCES chunks (id),
    model_id BIGINT NOT NULL REFERENCES models (id),
    vector BLOB NOT NULL,
    PRIMARY KEY (model_id, chunk_id)
);
CREATE INDEX vectors_by_chunk ON vectors (chunk_id);

-- Snapshots that were taken in, by their digest: a crash before the file is renamed imports nothing twice.
CREATE TABLE imports (
    digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    sessions BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Facts about the store itself, such as which analysis its words were cut with.
CREATE TABLE properties (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
