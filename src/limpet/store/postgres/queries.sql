-- Statements that only PostgreSQL understands this way. The SQLite file has the same names.

-- name: words.last_blocks
SELECT p.term, p.first_ordinal, p.data FROM unnest(:terms::bigint[]) AS t (value) JOIN postings p
    ON p.space_id = :space_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.space_id = :space_id AND q.term = t.value)

-- name: vectors.put
INSERT INTO vectors (chunk_id, model_id, vector, sealed) VALUES (:id, :model_id, :vector::vector, :sealed)
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.put_late
INSERT INTO vectors (chunk_id, model_id, vector, sealed)
SELECT id, :model_id, :vector::vector, :sealed FROM chunks WHERE id = :id
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.page
SELECT chunk_id, vector_send(vector) FROM vectors WHERE model_id = :model_id AND chunk_id >= :low AND chunk_id < :high
ORDER BY chunk_id LIMIT :limit

-- name: vectors.some
-- The scope is in the ids: each distance is exact, and no hit is lost to a filter.
SELECT chunk_id, 1 - (vector <=> :question::vector) FROM vectors WHERE model_id = :model_id AND chunk_id IN :ids[]

-- name: copy.number_jobs
SELECT setval(pg_get_serial_sequence('jobs', 'id'), max(id)) FROM jobs HAVING max(id) IS NOT NULL

-- name: copy.number_spaces
SELECT setval(pg_get_serial_sequence('spaces', 'id'), max(id)) FROM spaces HAVING max(id) IS NOT NULL

-- name: copy.number_models
SELECT setval(pg_get_serial_sequence('models', 'id'), max(id)) FROM models HAVING max(id) IS NOT NULL

-- name: copy.number_entities
SELECT setval(pg_get_serial_sequence('entities', 'id'), max(id)) FROM entities HAVING max(id) IS NOT NULL

-- name: copy.number_mentions
SELECT setval(pg_get_serial_sequence('mentions', 'id'), max(id)) FROM mentions HAVING max(id) IS NOT NULL

-- name: copy.number_relations
SELECT setval(pg_get_serial_sequence('relations', 'id'), max(id)) FROM relations HAVING max(id) IS NOT NULL
