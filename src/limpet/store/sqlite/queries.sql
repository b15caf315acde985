-- Statements that only SQLite understands this way. The PostgreSQL file has the same names.

-- name: words.last_blocks
-- CROSS JOIN fixes the order, term by term; SQLite would else walk the whole space.
SELECT p.term, p.first_ordinal, p.data FROM json_each(:terms) t CROSS JOIN postings p
    ON p.space_id = :space_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.space_id = :space_id AND q.term = t.value)

-- name: vectors.put
INSERT INTO vectors (chunk_id, model_id, vector, sealed) VALUES (:id, :model_id, :vector, :sealed)
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.put_late
INSERT INTO vectors (chunk_id, model_id, vector, sealed)
SELECT id, :model_id, :vector, :sealed FROM chunks WHERE id = :id
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.page
SELECT chunk_id, vector FROM vectors WHERE model_id = :model_id AND chunk_id >= :low AND chunk_id < :high
ORDER BY chunk_id LIMIT :limit

-- name: vectors.some
SELECT chunk_id, vector FROM vectors WHERE model_id = :model_id AND chunk_id IN :ids[]

-- name: copy.number_jobs
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM jobs) WHERE name = 'jobs'

-- name: copy.number_spaces
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM spaces) WHERE name = 'spaces'

-- name: copy.number_models
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM models) WHERE name = 'models'

-- name: copy.number_entities
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM entities) WHERE name = 'entities'

-- name: copy.number_mentions
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM mentions) WHERE name = 'mentions'

-- name: copy.number_relations
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM relations) WHERE name = 'relations'
