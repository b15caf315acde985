-- Keys that programs show to a server. Of a secret only the hash is here: it has 256 random bits, so that nobody finds
-- it by trying, and no salt is needed.
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

-- What was made under an idempotency key, for as long as somebody may ask again. The key itself is not here, and without
-- it the digest of what was asked confirms nobody's guess.
CREATE TABLE once (
    tenant TEXT NOT NULL,
    -- Whose, as level/name: as of jobs.
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    digest TEXT NOT NULL,
    made_id TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, owner, kind, key_hash)
);
CREATE INDEX once_by_time ON once (tenant, made_at);
