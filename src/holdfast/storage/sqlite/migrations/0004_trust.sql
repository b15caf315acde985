-- What stands in a context whatever is asked: the newest of each layer, and the newest that have a key.
CREATE INDEX records_newest_of_layer ON records (space_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (space_id, pinned, updated_at, id) WHERE key IS NOT NULL;

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
