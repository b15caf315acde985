-- name: chunks.insert
-- A document's chunk has a range of characters where a message's has one of sequences.
INSERT INTO chunks
    (bucket, partition_id, ordinal, kind, session_id, record_id, document_id, version, first_sequence, last_sequence,
     role, name, created_at, worded_at, hash, word_count, flags, terms, text)
VALUES
    (:bucket, :partition_id, :ordinal, :kind, :session, :record, :document, :version, :offset, :end_offset, :role, :name, :created_at,
     :worded_at, :hash, :word_count, :flags, :terms, :text)

-- name: chunks.insert_once
INSERT INTO chunks
    (bucket, partition_id, ordinal, kind, session_id, record_id, document_id, first_sequence, last_sequence, role, name,
     created_at, worded_at, hash, word_count, flags, terms, text)
VALUES
    (:bucket, :partition_id, :ordinal, :kind, :session, :record, :document, :sequence, :sequence, :role, :name, :created_at,
     :worded_at, :hash, :word_count, :flags, :terms, :text)
ON CONFLICT (bucket, partition_id, session_id, hash) WHERE session_id IS NOT NULL
DO UPDATE SET
    first_sequence = CASE WHEN excluded.first_sequence < chunks.first_sequence THEN excluded.first_sequence ELSE chunks.first_sequence END,
    last_sequence = CASE WHEN excluded.last_sequence > chunks.last_sequence THEN excluded.last_sequence ELSE chunks.last_sequence END,
    worded_at = CASE WHEN excluded.worded_at > chunks.worded_at THEN excluded.worded_at ELSE chunks.worded_at END

-- name: chunks.terms
-- Without an order of its own: to have it, SQLite would walk the whole partition.
SELECT ordinal, word_count, terms FROM chunks
WHERE bucket = :bucket AND partition_id = :partition_id AND {where} {order}

-- name: chunks.hidden
-- Of documents: other versions than the one to be seen. Of sessions that were deleted: all. Both are being removed or
-- written; the indexes hold nothing else, so that this costs nothing when nothing is.
-- CROSS JOIN fixes the order; SQLite would else walk the whole partition.
SELECT c.ordinal FROM documents d {CROSS |}JOIN chunks c
    ON c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id
WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.unsettled = 1
    AND (d.version IS NULL OR c.version <> d.version)
UNION ALL SELECT c.ordinal FROM sessions s {CROSS |}JOIN chunks c
    ON c.bucket = s.bucket AND c.partition_id = s.partition_id AND c.session_id = s.id
WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND length(s.tenant) = 0

-- name: chunks.unseen
-- Those, and the ones of records that have ended, or have not begun: two indexes, so that what is true costs nothing.
-- SQLite would else read all records of the partition.
SELECT c.ordinal FROM documents d {CROSS |}JOIN chunks c
    ON c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id
WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.unsettled = 1
    AND (d.version IS NULL OR c.version <> d.version)
UNION ALL SELECT c.ordinal FROM sessions s {CROSS |}JOIN chunks c
    ON c.bucket = s.bucket AND c.partition_id = s.partition_id AND c.session_id = s.id
WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND length(s.tenant) = 0
UNION ALL SELECT c.ordinal FROM records r{ INDEXED BY records_that_end|} {CROSS |}JOIN chunks c
    ON c.bucket = r.bucket AND c.partition_id = r.partition_id AND c.record_id = r.id
WHERE r.bucket = :bucket AND r.partition_id = :partition_id
    AND (r.valid_to IS NOT NULL OR r.superseded_by IS NOT NULL OR r.expires_at IS NOT NULL)
    AND (r.valid_to <= :now OR r.superseded_by IS NOT NULL OR r.expires_at <= :now)
UNION ALL SELECT c.ordinal FROM records r {CROSS |}JOIN chunks c
    ON c.bucket = r.bucket AND c.partition_id = r.partition_id AND c.record_id = r.id
WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND r.valid_from > :now
    AND r.valid_from > r.created_at AND r.valid_from > r.updated_at

-- name: chunks.count_version
SELECT count(*) FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND document_id = :id AND version = :version

-- name: chunks.texts
-- The plus: not by the index of ordinals, which holds all of the partition.
SELECT hash, first_sequence, last_sequence, text, ordinal FROM chunks
WHERE bucket = :bucket AND partition_id = :partition_id AND {where} ORDER BY +ordinal

-- name: chunks.catalogue
-- In few columns: they may be many rows. The kinds are numbered as SourceKind lists them.
SELECT ordinal, session_id, coalesce(first_sequence, 0) AS sequence, name, created_at, word_count,
    CAST(flags * 8 + CASE kind WHEN 'message' THEN 0 WHEN 'record' THEN 2 ELSE 4 END
        + CASE WHEN role = 'user' THEN 1 ELSE 0 END AS BIGINT) AS marks
FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal >= :low ORDER BY ordinal

-- name: chunks.names
-- Of those who spoke from an ordinal on.
SELECT ordinal, name FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal >= :low
    AND name IS NOT NULL AND session_id IS NOT NULL ORDER BY ordinal

-- name: chunks.new
-- The same, and the words.
SELECT ordinal, session_id, first_sequence, role, name, created_at, word_count, flags, kind, terms FROM chunks
WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal >= :low ORDER BY ordinal

-- name: chunks.ordinals
SELECT ordinal FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id ORDER BY ordinal

-- name: chunks.unembedded
SELECT c.ordinal, c.text FROM chunks c
WHERE c.bucket = :bucket AND c.partition_id = :partition_id AND c.ordinal >= :low
    AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.bucket = :bucket AND v.partition_id = :partition_id AND v.ordinal = c.ordinal AND v.model_id = :model_id)
ORDER BY c.ordinal LIMIT :limit

-- name: chunks.tail
SELECT ordinal, word_count, terms FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal >= :low ORDER BY ordinal

-- name: chunks.delete
DELETE FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal = :ordinal

-- name: chunks.allowed
SELECT c.ordinal FROM chunks c LEFT JOIN records r
    ON r.bucket = c.bucket AND r.partition_id = c.partition_id AND r.id = c.record_id
WHERE c.bucket = :bucket AND c.partition_id = :partition_id AND {where} ORDER BY c.ordinal

-- name: chunks.fetch
-- A record that was true when it was written begins with 0: the clock that wrote it may be ahead of the reader's.
SELECT c.ordinal, c.text, c.kind, coalesce(c.session_id, r.session_id), c.record_id, c.document_id, c.first_sequence,
    c.last_sequence, c.role, c.name, c.created_at, r.metadata,
    CASE WHEN r.valid_from > r.created_at AND r.valid_from > r.updated_at THEN r.valid_from WHEN r.id IS NOT NULL THEN 0 END, r.valid_to, r.superseded_by, r.expires_at,
    r.layer, r.type, r.key, d.uri, d.title, d.metadata
FROM chunks c
    LEFT JOIN records r ON r.bucket = c.bucket AND r.partition_id = c.partition_id AND r.id = c.record_id
    LEFT JOIN documents d ON d.bucket = c.bucket AND d.partition_id = c.partition_id AND d.id = c.document_id
WHERE c.bucket = :bucket AND c.partition_id = :partition_id AND c.ordinal IN :ordinals[]

-- name: chunks.count
SELECT count(*) FROM chunks

-- name: chunks.analysed
SELECT ordinal, word_count, terms, text, kind, name, created_at FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id ORDER BY ordinal

-- name: chunks.set_terms
UPDATE chunks SET word_count = :word_count, terms = :terms WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal = :ordinal

-- name: partitions.advance
UPDATE partitions
SET next_ordinal = :next_ordinal, merged_ordinal = :merged_ordinal, chunk_count = :chunk_count,
    word_count = :word_count, removals = :removals
WHERE bucket = :bucket AND id = :partition_id

-- name: partitions.find_purged
SELECT id FROM partitions WHERE substr(owner, 1, 1) = ' ' AND id IN :ids[]

-- name: partitions.ids
SELECT id FROM partitions ORDER BY id

-- name: partitions.counters
SELECT tenant, level, owner, next_ordinal, merged_ordinal, chunk_count, word_count, removals
FROM partitions WHERE bucket = :bucket AND id = :partition_id {order}

-- name: postings.find
SELECT term, data FROM postings WHERE bucket = :bucket AND partition_id = :partition_id AND term IN :terms[]
ORDER BY term, first_ordinal

-- name: postings.blocks
-- Of each term the blocks that may hold an ordinal of the span. CROSS JOIN fixes the order, term by term.
SELECT p.term, p.first_ordinal, p.data FROM {json_each(:terms) t|unnest(:terms::bigint[]) AS t (value)} {CROSS |}JOIN postings p
    ON p.bucket = :bucket AND p.partition_id = :partition_id AND p.term = t.value AND p.first_ordinal <= :high
    AND p.first_ordinal >= coalesce((SELECT max(q.first_ordinal) FROM postings q WHERE q.bucket = :bucket
        AND q.partition_id = :partition_id AND q.term = t.value AND q.first_ordinal <= :low), 0)

-- name: postings.put
INSERT INTO postings (bucket, partition_id, term, first_ordinal, data)
VALUES (:bucket, :partition_id, :term, :first_ordinal, :data)
ON CONFLICT (bucket, partition_id, term, first_ordinal) DO UPDATE SET data = excluded.data

-- name: postings.delete
DELETE FROM postings WHERE bucket = :bucket AND partition_id = :partition_id AND term = :term AND first_ordinal = :first_ordinal

-- name: postings.delete_all
DELETE FROM postings WHERE bucket = :bucket AND partition_id = :partition_id

-- name: postings.all
SELECT term, first_ordinal, data FROM postings WHERE bucket = :bucket AND partition_id = :partition_id ORDER BY term, first_ordinal

-- name: postings.last_blocks
-- CROSS JOIN fixes the order, term by term; SQLite would else walk the whole partition.
SELECT p.term, p.first_ordinal, p.data FROM {json_each(:terms) t|unnest(:terms::bigint[]) AS t (value)} {CROSS |}JOIN postings p
    ON p.bucket = :bucket AND p.partition_id = :partition_id AND p.term = t.value AND p.first_ordinal =
        (SELECT max(q.first_ordinal) FROM postings q WHERE q.bucket = :bucket AND q.partition_id = :partition_id AND q.term = t.value)

-- name: models.get
SELECT id, dimension FROM models WHERE name = :name

-- name: models.add
INSERT INTO models (id, name, dimension) SELECT coalesce(max(id), 0) + 1, :name, :dimension FROM models WHERE TRUE
ON CONFLICT (name) DO NOTHING

-- name: models.counts
SELECT m.id, m.name, m.dimension, count(v.ordinal) FROM models m LEFT JOIN vectors v ON v.model_id = m.id
GROUP BY m.id, m.name, m.dimension ORDER BY m.name

-- name: vectors.last_late
SELECT coalesce(max(number), 0) FROM late_vectors WHERE bucket = :bucket AND partition_id = :partition_id

-- name: vectors.late_ranges
SELECT low, high FROM late_vectors WHERE bucket = :bucket AND partition_id = :partition_id AND number > :number ORDER BY number

-- name: vectors.add_late
INSERT INTO late_vectors (bucket, partition_id, number, low, high)
SELECT p.bucket, p.id, coalesce((SELECT max(l.number) FROM late_vectors l
    WHERE l.bucket = :bucket AND l.partition_id = :partition_id), 0) + 1, :low, :high
FROM partitions p WHERE p.bucket = :bucket AND p.id = :partition_id

-- name: vectors.delete_model
DELETE FROM vectors WHERE model_id = :model_id

-- name: vectors.delete
DELETE FROM vectors WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal = :ordinal

-- name: vectors.put
-- Of a chunk that is there: a session that has the text already has no second one.
INSERT INTO vectors (bucket, partition_id, ordinal, model_id, vector)
SELECT bucket, partition_id, ordinal, :model_id, :vector FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal = :ordinal
ON CONFLICT (bucket, partition_id, ordinal, model_id) DO UPDATE SET vector = excluded.vector

-- name: vectors.page
SELECT ordinal, vector FROM vectors
WHERE bucket = :bucket AND partition_id = :partition_id AND ordinal >= :low AND ordinal < :high AND model_id = :model_id ORDER BY ordinal LIMIT :limit

-- name: graph.advance
UPDATE partitions SET next_graph_id = :next_graph_id WHERE bucket = :bucket AND id = :partition_id

-- name: graph.find_unread
SELECT s.id
FROM sessions s LEFT JOIN cursors c
    ON c.bucket = s.bucket AND c.partition_id = s.partition_id AND c.session_id = s.id AND c.name = :name
WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND s.message_count > 0 AND s.last_sequence > coalesce(c.sequence, 0)
ORDER BY s.id

-- name: entities.add
INSERT INTO entities (bucket, partition_id, id, normal, first_word, name)
VALUES (:bucket, :partition_id, :id, :normal, :first_word, :name)
ON CONFLICT (bucket, partition_id, normal) DO NOTHING

-- name: entities.find_ids
SELECT normal, id FROM entities WHERE bucket = :bucket AND partition_id = :partition_id AND normal IN :names[]

-- name: entities.all
SELECT normal, id FROM entities WHERE bucket = :bucket AND partition_id = :partition_id

-- name: entities.select
-- With how often each was taken for what.
SELECT e.id, e.normal, e.name, m.kind, count(*)
FROM entities e JOIN mentions m ON m.bucket = e.bucket AND m.partition_id = e.partition_id AND m.entity_id = e.id
WHERE e.bucket = :bucket AND e.partition_id = :partition_id AND {where}
    AND (m.session_id IS NULL OR m.session_id NOT IN (SELECT s.id FROM sessions s
        WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND length(s.tenant) = 0))
GROUP BY e.id, e.normal, e.name, m.kind ORDER BY e.id

-- name: entities.prune
DELETE FROM entities WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id
    AND NOT EXISTS (SELECT 1 FROM mentions m WHERE m.bucket = :bucket AND m.partition_id = :partition_id AND m.entity_id = :id)
    AND NOT EXISTS (SELECT 1 FROM relations x WHERE x.bucket = :bucket AND x.partition_id = :partition_id AND (x.subject_id = :id OR x.object_id = :id))

-- name: entities.find_unmentioned
SELECT e.bucket, e.partition_id, e.id FROM entities e
WHERE NOT EXISTS (SELECT 1 FROM mentions m
    WHERE m.bucket = e.bucket AND m.partition_id = e.partition_id AND m.entity_id = e.id)

-- name: entities.delete
DELETE FROM entities WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: mentions.add_message
INSERT INTO mentions (bucket, partition_id, id, entity_id, kind, session_id, sequence, said_at)
VALUES (:bucket, :partition_id, :id, :entity_id, :kind, :session, :sequence, :said_at)
ON CONFLICT (bucket, partition_id, session_id, sequence, entity_id) WHERE session_id IS NOT NULL DO NOTHING

-- name: mentions.add_record
INSERT INTO mentions (bucket, partition_id, id, entity_id, kind, record_id, said_at)
VALUES (:bucket, :partition_id, :id, :entity_id, :kind, :record, :said_at)
ON CONFLICT (bucket, partition_id, record_id, entity_id) WHERE record_id IS NOT NULL DO NOTHING

-- name: mentions.of_session
SELECT DISTINCT entity_id FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session ORDER BY entity_id

-- name: mentions.of_record
SELECT DISTINCT entity_id FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :record ORDER BY entity_id

-- name: mentions.of_messages
SELECT DISTINCT entity_id FROM mentions
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence IN :sequences[] ORDER BY entity_id

-- name: mentions.delete_messages
DELETE FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence IN :sequences[]

-- name: relations.delete_messages
DELETE FROM relations WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence IN :sequences[]

-- name: mentions.delete_session
DELETE FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: mentions.delete_record
DELETE FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :record

-- name: mentions.select
SELECT entity_id, session_id, sequence, record_id, said_at FROM mentions m
WHERE bucket = :bucket AND partition_id = :partition_id AND {where}
    AND (m.session_id IS NULL OR m.session_id NOT IN (SELECT s.id FROM sessions s
        WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND length(s.tenant) = 0))
ORDER BY id {order}

-- name: mentions.stamp
-- Changes with every change: what goes is counted, and what comes is numbered higher.
SELECT count(*), coalesce(max(id), 0) FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id

-- name: mentions.places
-- Of records only the chunk tells where they are; of messages the session and the number do.
SELECT m.entity_id, m.session_id, m.sequence, c.ordinal
FROM mentions m LEFT JOIN chunks c
    ON c.bucket = m.bucket AND c.partition_id = m.partition_id AND c.record_id = m.record_id
WHERE m.bucket = :bucket AND m.partition_id = :partition_id AND {where} ORDER BY m.id

-- name: mentions.find_lost
SELECT m.bucket, m.partition_id, m.id FROM mentions m
WHERE (m.session_id IS NULL) = (m.record_id IS NULL)
    OR (m.session_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages g WHERE g.bucket = m.bucket
        AND g.partition_id = m.partition_id AND g.session_id = m.session_id AND g.sequence = m.sequence))

-- name: mentions.delete
DELETE FROM mentions WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: relations.add
INSERT INTO relations
    (bucket, partition_id, id, subject_id, predicate, object_id, value, kind, polarity, sentence, session_id, sequence,
     record_id, said_at)
VALUES
    (:bucket, :partition_id, :id, :subject_id, :predicate, :object_id, :value, :kind, :polarity, :sentence, :session,
     :sequence, :record, :said_at)

-- name: relations.delete_session
DELETE FROM relations WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: relations.delete_record
DELETE FROM relations WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :record

-- name: relations.select
SELECT x.subject_id, x.predicate, x.object_id, x.value, x.kind, x.polarity, x.sentence, x.session_id, x.sequence,
    x.record_id, x.said_at, coalesce(r.valid_from, x.said_at), r.valid_to, r.expires_at
FROM relations x LEFT JOIN records r
    ON r.bucket = x.bucket AND r.partition_id = x.partition_id AND r.id = x.record_id
WHERE x.bucket = :bucket AND x.partition_id = :partition_id AND {where}
    AND (x.session_id IS NULL OR x.session_id NOT IN (SELECT s.id FROM sessions s
        WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND length(s.tenant) = 0))
ORDER BY x.id

-- name: relations.find_lost
SELECT x.bucket, x.partition_id, x.id FROM relations x
WHERE (x.session_id IS NULL) = (x.record_id IS NULL)
    OR (x.session_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages g WHERE g.bucket = x.bucket
        AND g.partition_id = x.partition_id AND g.session_id = x.session_id AND g.sequence = x.sequence))

-- name: relations.delete
DELETE FROM relations WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: relations.delete_of_entity
DELETE FROM relations WHERE bucket = :bucket AND partition_id = :partition_id AND (subject_id = :id OR object_id = :id)
