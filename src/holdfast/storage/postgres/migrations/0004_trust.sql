-- What stands in a context whatever is asked: the newest of each layer, and the newest that have a key.
CREATE INDEX records_newest_of_layer ON records (space_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (space_id, pinned, updated_at, id) WHERE key IS NOT NULL;

-- What users may beyond their own: a right, how far it reaches, perhaps of whom.
CREATE TABLE grants (
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    granted_by TEXT NOT NULL,
    PRIMARY KEY (tenant, user_id, name)
);

-- Who did what to whose memory. Names and ids, never a text. It refers to nothing: it outlives what it tells of.
CREATE TABLE audit (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    principal TEXT NOT NULL,
    verb TEXT NOT NULL,
    access TEXT NOT NULL,
    outcome TEXT NOT NULL,
    user_id TEXT,
    agent TEXT,
    session_id TEXT,
    record_id TEXT,
    missing TEXT,
    calls BIGINT NOT NULL
);
CREATE INDEX audit_by_time ON audit (tenant, at, id);
