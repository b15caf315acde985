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
-- A purge takes a name out of the few rows that have it, however many others there are.
CREATE INDEX audit_by_user ON audit (tenant, user_id);
CREATE INDEX audit_by_principal ON audit (tenant, principal);
CREATE INDEX audit_by_session ON audit (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX audit_by_missing ON audit (tenant, missing) WHERE missing IS NOT NULL;

-- Schedules: goals that come back. A row is leased to one runner at a time; each lease has a number of its own, and only
-- whoever holds the last one may say how a run ended.
CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    goal TEXT NOT NULL,
    goal_folded TEXT NOT NULL,
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
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX schedules_due ON schedules (state, next_run_at);
CREATE INDEX schedules_of_user ON schedules (tenant, user_id, state);

-- What came of them. The whole of what a run said is kept, and read by page.
CREATE TABLE schedule_runs (
    id TEXT PRIMARY KEY,
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
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
    -- 0 nobody is told, 1 somebody is to be, 2 somebody was. Until notice_until somebody is at it.
    notice SMALLINT NOT NULL DEFAULT 0,
    notice_until BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX schedule_runs_of ON schedule_runs (schedule_id, ended_at);
CREATE INDEX schedule_runs_to_tell ON schedule_runs (notice_until) WHERE notice = 1;

-- Imports that are under way, by the digest of what is imported and for whom: how far each has come. Its row is written
-- with what it tells of, and goes with the last of it.
CREATE TABLE moves (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    -- Whose memory it becomes; empty for a whole tenant's.
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    marked_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Purge and retention.
-- What was purged, counted; without content, and without a name: whoever knows the name can tell its digest.
CREATE TABLE receipts (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
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
    bytes TEXT NOT NULL
);
CREATE INDEX receipts_by_time ON receipts (tenant, asked_at, id);
-- Whose memory a job works on, as level/name: what is purged is found without looking through everybody's jobs.
ALTER TABLE jobs ADD COLUMN owner TEXT;
UPDATE jobs SET owner = json_extract(key, '$[2]') || '/' || json_extract(key, '$[3]');
CREATE INDEX jobs_by_owner ON jobs (tenant, owner);
-- When a session's oldest message was said: retention looks nowhere else. It changes with the first message, not with the next.
ALTER TABLE sessions ADD COLUMN oldest_at BIGINT;
UPDATE sessions SET oldest_at = (SELECT min(m.created_at) FROM messages m WHERE m.session_id = sessions.id);
CREATE INDEX sessions_by_oldest ON sessions (tenant, agent, oldest_at) WHERE oldest_at IS NOT NULL;
CREATE INDEX sessions_that_expire ON sessions (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX documents_by_change ON documents (space_id, updated_at);

-- Tenants whose text is sealed, and those that were found open by a program that has keys. A row is never removed.
CREATE TABLE seals (
    tenant TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('open', 'sealed', 'sealing', 'rotating')),
    -- Of the key; every sealed value begins with it.
    version BIGINT NOT NULL,
    check_value BLOB NOT NULL,
    old_check BLOB NOT NULL,
    -- How far a sealing or rotation has come.
    progress TEXT NOT NULL
);
-- One row, higher with every change of the seals: every transaction reads it, and looks again when it differs.
CREATE TABLE seal_changes (
    number BIGINT NOT NULL
);
INSERT INTO seal_changes (number) VALUES (0);
-- A sealed tenant's vector is here, and the other column is empty.
ALTER TABLE vectors ADD COLUMN sealed BLOB;
