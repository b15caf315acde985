-- What stands in a context whatever is asked: the newest of each layer, and the newest that have a key.
CREATE INDEX records_newest_of_layer ON records (space_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (space_id, pinned, updated_at, id) WHERE key IS NOT NULL;
