-- name: chunks.insert
-- A document's chunk has a range of characters where a message's has one of sequences.
INSERT INTO chunks
    (id, space_id, kind, session_id, record_id, document_id, first_sequence, last_sequence, role, name, created_at,
     worded_at, hash, word_count, traits, terms, text)
VALUES
    (:id, :space_id, :kind, :session, :record, :document, :offset, :end_offset, :role, :name, :created_at, :worded_at, :hash,
     :word_count, :traits, :terms, :text)

-- name: chunks.insert_once
INSERT INTO chunks
    (id, space_id, kind, session_id, record_id, document_id, first_sequence, last_sequence, role, name, created_at,
     worded_at, hash, word_count, traits, terms, text)
VALUES
    (:id, :space_id, :kind, :session, :record, :document, :sequence, :sequence, :role, :name, :created_at, :worded_at, :hash,
     :word_count, :traits, :terms, :text)
ON CONFLICT (session_id, hash) DO UPDATE SET last_sequence = excluded.last_sequence, worded_at = excluded.worded_at
RETURNING id

-- name: chunks.of_session
SELECT id, word_count, terms FROM chunks WHERE session_id = :session AND space_id = :space_id ORDER BY id

-- name: chunks.of_record
SELECT id, word_count, terms FROM chunks WHERE record_id = :record AND space_id = :space_id ORDER BY id

-- name: chunks.of_document
SELECT id, word_count, terms FROM chunks WHERE document_id = :document AND space_id = :space_id ORDER BY id

-- name: chunks.cut_of_session
SELECT hash, first_sequence, last_sequence, text, id FROM chunks WHERE session_id = :session AND space_id = :space_id

-- name: chunks.cut_of_record
SELECT hash, first_sequence, last_sequence, text, id FROM chunks WHERE record_id = :record AND space_id = :space_id ORDER BY id

-- name: chunks.catalogue
SELECT id, session_id, first_sequence, role, name, created_at, word_count, traits, kind FROM chunks
WHERE id >= :low AND id < :high ORDER BY id

-- name: chunks.ids
SELECT id FROM chunks WHERE id >= :low AND id < :high ORDER BY id

-- name: chunks.unembedded
SELECT c.id, c.text FROM chunks c WHERE c.id >= :low AND c.id < :high
    AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.model_id = :model_id AND v.chunk_id = c.id)
ORDER BY c.id LIMIT :limit

-- name: chunks.untrue
-- Of records that have ended, or have not begun: two indexes, so that what is true costs nothing.
SELECT c.id FROM records r JOIN chunks c ON c.record_id = r.id
WHERE r.space_id = :space_id AND (r.valid_to IS NOT NULL OR r.superseded_by IS NOT NULL OR r.expires_at IS NOT NULL)
    AND (r.valid_to <= :now OR r.superseded_by IS NOT NULL OR r.expires_at <= :now)
UNION SELECT c.id FROM records r JOIN chunks c ON c.record_id = r.id WHERE r.space_id = :space_id AND r.valid_from > :now

-- name: chunks.tail
SELECT id, word_count, terms FROM chunks WHERE id >= :low AND id < :high ORDER BY id

-- name: chunks.delete
DELETE FROM chunks WHERE id = :id

-- name: chunks.allowed
SELECT c.id FROM chunks c LEFT JOIN records r ON r.id = c.record_id
WHERE c.id >= :low AND c.id < :high AND {where} ORDER BY c.id

-- name: words.postings
SELECT term, data FROM postings WHERE space_id = :space_id AND term IN :terms[]
ORDER BY term, first_ordinal

-- name: chunks.fetch
SELECT c.id, c.text, c.kind, coalesce(c.session_id, r.session_id), c.record_id, c.document_id, c.first_sequence, c.last_sequence, c.role, c.name,
    c.created_at, r.metadata, r.valid_from, r.valid_to, r.superseded_by, r.expires_at, r.layer, r.type, r.key,
    d.uri, d.title, d.metadata
FROM chunks c LEFT JOIN records r ON r.id = c.record_id LEFT JOIN documents d ON d.id = c.document_id
WHERE c.id IN :ids[]

-- name: words.block_before
SELECT max(first_ordinal) FROM postings WHERE space_id = :space_id AND term = :term AND first_ordinal <= :ordinal

-- name: words.blocks
SELECT first_ordinal, data FROM postings
WHERE space_id = :space_id AND term = :term AND first_ordinal >= :low AND first_ordinal <= :high ORDER BY first_ordinal

-- name: words.put
INSERT INTO postings (space_id, term, first_ordinal, data) VALUES (:space_id, :term, :first_ordinal, :data)
ON CONFLICT (space_id, term, first_ordinal) DO UPDATE SET data = excluded.data

-- name: words.drop
DELETE FROM postings WHERE space_id = :space_id AND term = :term AND first_ordinal = :first_ordinal

-- name: words.drop_space
DELETE FROM postings WHERE space_id = :space_id

-- name: words.everything
SELECT term, first_ordinal, data FROM postings WHERE space_id = :space_id ORDER BY term, first_ordinal

-- name: models.get
SELECT id, dimension FROM models WHERE name = :name

-- name: models.add
INSERT INTO models (name, dimension) VALUES (:name, :dimension) ON CONFLICT (name) DO NOTHING

-- name: vectors.late
SELECT coalesce(max(number), 0) FROM late_vectors WHERE space_id = :space_id

-- name: vectors.late_ranges
SELECT low, high FROM late_vectors WHERE space_id = :space_id AND number > :number ORDER BY number

-- name: vectors.note_late
INSERT INTO late_vectors (space_id, number, low, high)
SELECT :space_id, coalesce(max(number), 0) + 1, :low, :high FROM late_vectors WHERE space_id = :space_id

-- name: vectors.sealed_page
SELECT chunk_id, sealed FROM vectors
WHERE model_id = :model_id AND chunk_id >= :low AND chunk_id < :high AND sealed IS NOT NULL
ORDER BY chunk_id LIMIT :limit

-- name: vectors.sealed_some
SELECT chunk_id, sealed FROM vectors WHERE model_id = :model_id AND chunk_id IN :ids[] AND sealed IS NOT NULL

-- name: vectors.drop_model
DELETE FROM vectors WHERE model_id = :model_id

-- name: vectors.delete
DELETE FROM vectors WHERE chunk_id = :id

-- name: doctor.spaces
SELECT id FROM spaces ORDER BY id

-- name: doctor.space
SELECT tenant, level, owner, next_ordinal, merged_ordinal, chunk_count, word_count, removals FROM spaces WHERE id = :id {order}

-- name: doctor.space_chunks
SELECT id, word_count, terms, text, kind, name, created_at FROM chunks WHERE id >= :low AND id < :high ORDER BY id

-- name: doctor.reword
UPDATE chunks SET word_count = :word_count, terms = :terms WHERE id = :id

-- name: doctor.models
SELECT m.id, m.name, m.dimension, count(v.chunk_id) FROM models m LEFT JOIN vectors v ON v.model_id = m.id
GROUP BY m.id, m.name, m.dimension ORDER BY m.name

-- name: doctor.chunk_count
SELECT count(*) FROM chunks

-- name: words.last_blocks sqlite
-- CROSS JOIN fixes the order, term by term; SQLite would else walk the whole space.
SELECT p.term, p.first_ordinal, p.data FROM json_each(:terms) t CROSS JOIN postings p
    ON p.space_id = :space_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.space_id = :space_id AND q.term = t.value)

-- name: words.last_blocks postgres
SELECT p.term, p.first_ordinal, p.data FROM unnest(:terms::bigint[]) AS t (value) JOIN postings p
    ON p.space_id = :space_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.space_id = :space_id AND q.term = t.value)

-- name: vectors.put sqlite
INSERT INTO vectors (chunk_id, model_id, vector, sealed) VALUES (:id, :model_id, :vector, :sealed)
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.put postgres
INSERT INTO vectors (chunk_id, model_id, vector, sealed) VALUES (:id, :model_id, :vector::vector, :sealed)
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.put_late sqlite
INSERT INTO vectors (chunk_id, model_id, vector, sealed)
SELECT id, :model_id, :vector, :sealed FROM chunks WHERE id = :id
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.put_late postgres
INSERT INTO vectors (chunk_id, model_id, vector, sealed)
SELECT id, :model_id, :vector::vector, :sealed FROM chunks WHERE id = :id
ON CONFLICT (model_id, chunk_id) DO UPDATE SET vector = excluded.vector, sealed = excluded.sealed

-- name: vectors.page sqlite
SELECT chunk_id, vector FROM vectors WHERE model_id = :model_id AND chunk_id >= :low AND chunk_id < :high
ORDER BY chunk_id LIMIT :limit

-- name: vectors.page postgres
SELECT chunk_id, vector_send(vector) FROM vectors WHERE model_id = :model_id AND chunk_id >= :low AND chunk_id < :high
ORDER BY chunk_id LIMIT :limit

-- name: vectors.some sqlite
SELECT chunk_id, vector FROM vectors WHERE model_id = :model_id AND chunk_id IN :ids[]

-- name: vectors.some postgres
-- The scope is in the ids: each distance is exact, and no hit is lost to a filter.
SELECT chunk_id, 1 - (vector <=> :question::vector) FROM vectors WHERE model_id = :model_id AND chunk_id IN :ids[]
