-- What stands in a context whatever is asked: the newest of each layer, and the newest that have a key.
CREATE INDEX records_newest_of_layer ON records (space_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (space_id, pinned, updated_at, id) WHERE key IS NOT NULL;

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
