-- name: records.insert
INSERT INTO records (bucket, partition_id, external_id, owner, source_session, source_sequence, @columns(records))
VALUES (:bucket, :partition_id, :external_id, :owner, :source_session, :source_sequence, @values(records))

-- name: records.update
UPDATE records SET @set(records) WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: records.select
SELECT @columns(r records) FROM records r WHERE {where} {order}

-- name: records.of_chunks
-- By the messages of the chunks, and by ids. CROSS JOIN fixes the order; SQLite would else read all records.
SELECT @columns(r records) FROM chunks c {CROSS |}JOIN records r ON r.bucket = c.bucket AND r.partition_id = c.partition_id
    AND r.source_session = c.session_id AND r.source_sequence IN (c.first_sequence, c.last_sequence)
WHERE c.bucket = :bucket AND c.partition_id = :partition_id AND c.ordinal IN :ordinals[]
UNION ALL SELECT @columns(r records) FROM chunks c {CROSS |}JOIN records r
    ON r.bucket = c.bucket AND r.partition_id = c.partition_id AND r.id = c.record_id
WHERE c.bucket = :bucket AND c.partition_id = :partition_id AND c.ordinal IN :ordinals[]

-- name: records.standing
-- Ids are chosen first: to sort whole rows takes twice as long.
SELECT @columns(r records) FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND r.id IN
    (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where} ORDER BY {order} LIMIT :limit)
ORDER BY {order}

-- name: records.is_taken
-- By an id that does not say its bucket, or by one that does and is another's.
SELECT 1 FROM records WHERE bucket = :bucket AND id = :id UNION ALL SELECT 1 FROM records WHERE external_id = :id LIMIT 1

-- name: records.newest
-- Of those with a key, and of each layer, pinned ones apart.
SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 0 AND r.key IS NOT NULL ORDER BY r.updated_at DESC, r.id DESC LIMIT :keyed) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 1 AND r.key IS NOT NULL ORDER BY r.updated_at DESC, r.id DESC LIMIT :keyed) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 0 AND r.layer = 'working' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :working) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 1 AND r.layer = 'working' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :working) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 0 AND r.layer = 'semantic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :semantic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 1 AND r.layer = 'semantic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :semantic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 0 AND r.layer = 'procedural' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :procedural) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 1 AND r.layer = 'procedural' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :procedural) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 0 AND r.layer = 'episodic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :episodic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id AND {where}
    AND r.pinned = 1 AND r.layer = 'episodic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :episodic) p

-- name: records.count
SELECT count(*) FROM records r WHERE {where}

-- name: records.add_version
INSERT INTO record_versions (bucket, partition_id, record_id, version, body, updated_at, replaced_at)
VALUES (:bucket, :partition_id, :id, :version, :body, :updated_at, :replaced_at)

-- name: records.versions
SELECT version, body FROM record_versions
WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id ORDER BY version

-- name: records.version_at
SELECT version, body FROM record_versions
WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id AND updated_at <= :as_of AND replaced_at > :as_of
ORDER BY version DESC LIMIT 1

-- name: records.delete
DELETE FROM records WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: records.delete_versions
DELETE FROM record_versions WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id

-- name: records.delete_tags
DELETE FROM record_tags WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id

-- name: records.delete_metadata
DELETE FROM record_metadata WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id

-- name: records.delete_inputs
DELETE FROM record_inputs WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :id

-- name: records.add_tag
INSERT INTO record_tags (bucket, partition_id, record_id, tag) VALUES (:bucket, :partition_id, :id, :tag)

-- name: records.add_metadata
INSERT INTO record_metadata (bucket, partition_id, record_id, key, value)
VALUES (:bucket, :partition_id, :id, :key, :value)

-- name: records.add_input
INSERT INTO record_inputs (bucket, partition_id, record_id, input_id) VALUES (:bucket, :partition_id, :id, :input)

-- name: records.count_use
UPDATE records SET uses = uses + :count, last_used_at = CASE WHEN last_used_at > :now THEN last_used_at ELSE :now END
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: records.set_confidence
UPDATE records SET said = said + :said, uses = uses + :said, confidence = :confidence,
    last_used_at = CASE WHEN last_used_at > :now THEN last_used_at ELSE :now END
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: records.labels
SELECT tenant, bucket, partition_id, id, tags, metadata, inputs FROM records ORDER BY bucket, partition_id, id

-- name: records.all_inputs
SELECT bucket, partition_id, record_id, input_id FROM record_inputs

-- name: records.all_tags
SELECT bucket, partition_id, record_id, tag FROM record_tags

-- name: records.all_metadata
SELECT bucket, partition_id, record_id, key, value FROM record_metadata
