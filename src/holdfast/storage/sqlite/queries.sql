-- Statements that only SQLite understands this way. The PostgreSQL file has the same names.

-- name: words.last_blocks
SELECT p.term, p.first_ordinal, p.data FROM json_each(:terms) t JOIN postings p
    ON p.space_id = :space_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.space_id = :space_id AND q.term = t.value)

-- name: vectors.put
INSERT INTO vectors (space_id, model_id, ordinal, vector) VALUES (:space_id, :model_id, :ordinal, :vector)
ON CONFLICT (space_id, model_id, ordinal) DO UPDATE SET vector = excluded.vector

-- name: vectors.all
SELECT ordinal, vector FROM vectors WHERE space_id = :space_id AND model_id = :model_id ORDER BY ordinal

-- name: copy.number_spaces
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM spaces) WHERE name = 'spaces'

-- name: copy.number_models
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM models) WHERE name = 'models'
