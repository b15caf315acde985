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

-- The knowledge graph. A name of somebody or something is a row for each space; which names mean one is decided when it
-- is read, from all of them.
CREATE TABLE entities (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    normal TEXT NOT NULL,
    first_word TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (space_id, normal)
);
CREATE INDEX entities_by_first_word ON entities (space_id, first_word);
-- Where it was named: a message or a record. The ends of a relation are mentioned where it is stated.
CREATE TABLE mentions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_id BIGINT NOT NULL REFERENCES entities (id),
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    kind TEXT NOT NULL,
    session_id TEXT REFERENCES sessions (id),
    sequence BIGINT,
    record_id TEXT REFERENCES records (id),
    said_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX mentions_in_messages ON mentions (session_id, sequence, entity_id) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX mentions_in_records ON mentions (record_id, entity_id) WHERE record_id IS NOT NULL;
CREATE INDEX mentions_by_entity ON mentions (entity_id, id);
CREATE INDEX mentions_by_space ON mentions (space_id, id);

-- A record's relation holds as long as the record does; a message's from when it was said.
CREATE TABLE relations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space_id BIGINT NOT NULL REFERENCES spaces (id),
    subject_id BIGINT NOT NULL REFERENCES entities (id),
    predicate TEXT NOT NULL,
    object_id BIGINT REFERENCES entities (id),
    value TEXT,
    kind TEXT NOT NULL,
    polarity SMALLINT NOT NULL DEFAULT 1,
    sentence TEXT NOT NULL,
    session_id TEXT REFERENCES sessions (id),
    sequence BIGINT,
    record_id TEXT REFERENCES records (id),
    said_at BIGINT NOT NULL
);
CREATE INDEX relations_in_messages ON relations (session_id, sequence) WHERE session_id IS NOT NULL;
CREATE INDEX relations_in_records ON relations (record_id) WHERE record_id IS NOT NULL;
CREATE INDEX relations_by_subject ON relations (subject_id);
CREATE INDEX relations_by_object ON relations (object_id) WHERE object_id IS NOT NULL;
CREATE INDEX relations_by_space ON relations (space_id, id);
