-- What stands in a context whatever is asked: the newest of each layer, and the newest that have a key.
CREATE INDEX records_newest_of_layer ON records (space_id, pinned, layer, updated_at, id) WHERE key IS NULL;
CREATE INDEX records_newest_with_key ON records (space_id, pinned, updated_at, id) WHERE key IS NOT NULL;

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
