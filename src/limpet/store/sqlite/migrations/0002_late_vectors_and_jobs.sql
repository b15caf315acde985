-- Work that is due, entered by the transaction that needs it. One row for each kind and key: asked for again while it
-- waits or runs, it is numbered anew, so that whoever runs it knows there is more to do.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    tenant TEXT NOT NULL,
    payload TEXT NOT NULL,
    asked BIGINT NOT NULL DEFAULT 1,
    run_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- Until then somebody is at it; afterwards that one is taken for dead.
    leased_until BIGINT NOT NULL DEFAULT 0,
    error TEXT,
    dead SMALLINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    UNIQUE (kind, key)
);
CREATE INDEX jobs_due ON jobs (dead, run_at);

-- Vectors that came after their chunks, as ranges of chunk ids: whoever remembers a space's vectors reads these again.
CREATE TABLE late_vectors (
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    number BIGINT NOT NULL,
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    PRIMARY KEY (space_id, number)
);

-- Records that may not be true any more, or not yet: a search leaves them out before it chooses.
CREATE INDEX records_that_end ON records (space_id)
    WHERE valid_to IS NOT NULL OR superseded_by IS NOT NULL OR expires_at IS NOT NULL;
CREATE INDEX records_that_begin ON records (space_id, valid_from);
