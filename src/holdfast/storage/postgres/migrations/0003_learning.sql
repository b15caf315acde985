-- What a record is about: only what is about the same thing, and there the same attribute, may take its place.
ALTER TABLE records ADD COLUMN subject TEXT;
ALTER TABLE records ADD COLUMN attribute TEXT;
ALTER TABLE records ADD COLUMN value TEXT;
-- 0 where it denies: "does not eat meat".
ALTER TABLE records ADD COLUMN polarity SMALLINT NOT NULL DEFAULT 1;
-- How often it was said, and since when it is kept only to be read: faded, and no longer recalled.
ALTER TABLE records ADD COLUMN said BIGINT NOT NULL DEFAULT 1;
ALTER TABLE records ADD COLUMN archived_at BIGINT;
-- The records it was made from, as a list; once more as rows, to find what was made from one.
ALTER TABLE records ADD COLUMN inputs TEXT;
CREATE INDEX records_about ON records (space_id, subject, attribute) WHERE subject IS NOT NULL;

CREATE TABLE record_inputs (
    record_id TEXT NOT NULL REFERENCES records (id),
    input_id TEXT NOT NULL,
    PRIMARY KEY (record_id, input_id)
);
CREATE INDEX record_inputs_by_input ON record_inputs (input_id);

-- How far a kind of work has come through a session's messages.
CREATE TABLE cursors (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    name TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (session_id, name)
);

-- By kind: many jobs of one kind are no way to go through for one of another.
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (kind, dead, run_at, id);
