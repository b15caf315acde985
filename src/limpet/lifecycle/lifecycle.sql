-- name: imports.find
SELECT 1 FROM imports WHERE tenant = :tenant AND digest = :digest

-- name: imports.add
INSERT INTO imports (tenant, digest, name, sessions, messages, imported_at)
VALUES (:tenant, :digest, :name, :sessions, :messages, :imported_at)

-- name: transfers.get
SELECT state FROM transfers WHERE tenant = :tenant AND digest = :digest

-- name: transfers.put
INSERT INTO transfers (tenant, digest, user_id, name, state, updated_at)
VALUES (:tenant, :digest, :user, :name, :state, :now)
ON CONFLICT (tenant, digest) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at

-- name: transfers.delete
DELETE FROM transfers WHERE tenant = :tenant AND digest = :digest

-- name: transfers.session_ids
SELECT s.id, s.user_id FROM sessions s WHERE {where} AND s.id > :after ORDER BY s.id LIMIT :limit

-- name: transfers.settle_session
UPDATE sessions SET last_sequence = CASE WHEN last_sequence < :last_sequence THEN :last_sequence ELSE last_sequence END,
    summary_epoch = CASE WHEN summary_epoch = 0 THEN :epoch ELSE summary_epoch END
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: transfers.cursors
SELECT name, sequence FROM cursors WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: transfers.session_external_id
SELECT external_id FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session
    AND external_id <> id

-- name: transfers.record_external_ids
SELECT r.id, r.external_id FROM records r WHERE {where} AND r.external_id <> r.id

-- name: transfers.add_cursor
INSERT INTO cursors (bucket, partition_id, session_id, name, sequence)
VALUES (:bucket, :partition_id, :session, :name, :sequence)
ON CONFLICT (bucket, partition_id, session_id, name) DO NOTHING

-- name: transfers.has_message
SELECT 1 FROM messages WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence = :sequence

-- name: transfers.record_ids
SELECT r.id FROM records r WHERE {where} AND r.id > :after ORDER BY r.id LIMIT :limit

-- name: transfers.versions
SELECT v.record_id, v.version, v.body, v.replaced_at
FROM record_versions v JOIN records r ON r.bucket = v.bucket AND r.partition_id = v.partition_id AND r.id = v.record_id
WHERE {where} ORDER BY v.record_id, v.version

-- name: transfers.documents
SELECT p.level, p.owner, d.id, d.uri, d.title, d.metadata, d.content_hash, d.created_at, d.updated_at
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id
WHERE p.tenant = :tenant AND d.version IS NOT NULL AND {where} ORDER BY d.id LIMIT :limit

-- name: transfers.pieces
SELECT c.ordinal, c.text, coalesce(c.first_sequence, 0)
FROM documents d JOIN chunks c ON c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id AND c.version = d.version
WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.id = :document AND c.ordinal > :after ORDER BY c.ordinal LIMIT :limit

-- name: transfers.last_piece
SELECT coalesce(max(c.first_sequence), -1), min(d.version)
FROM documents d LEFT JOIN chunks c ON c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id AND c.version = d.version
WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.id = :document

-- name: transfers.mentions
SELECT m.session_id, m.sequence, m.record_id, m.said_at, e.normal, e.name, m.kind
FROM mentions m JOIN entities e ON e.bucket = m.bucket AND e.partition_id = m.partition_id AND e.id = m.entity_id
WHERE m.bucket = :bucket AND m.partition_id = :partition_id AND {where} ORDER BY m.sequence, m.id LIMIT :limit

-- name: transfers.relations
SELECT x.sequence, a.normal, x.predicate, b.normal, x.value, x.kind, x.polarity, x.sentence, x.subject_id
FROM relations x
    JOIN entities a ON a.bucket = x.bucket AND a.partition_id = x.partition_id AND a.id = x.subject_id
    LEFT JOIN entities b ON b.bucket = x.bucket AND b.partition_id = x.partition_id AND b.id = x.object_id
WHERE x.bucket = :bucket AND x.partition_id = :partition_id AND {where} ORDER BY x.sequence, x.id

-- name: transfers.session_owners
SELECT id, tenant, user_id FROM sessions WHERE bucket = :bucket AND id IN :ids[]
UNION SELECT id, tenant, user_id FROM sessions WHERE external_id IN :ids[] AND id = external_id

-- name: transfers.record_owners
SELECT id, tenant, coalesce(user_id, '') FROM records WHERE bucket = :bucket AND id IN :ids[]
UNION SELECT id, tenant, coalesce(user_id, '') FROM records WHERE external_id IN :ids[] AND id = external_id

-- name: transfers.document_owners
SELECT d.id, p.tenant, p.level || ':' || p.owner
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id WHERE d.id IN :ids[]

-- name: transfers.schedule_owners
SELECT id, tenant, user_id FROM schedules WHERE id IN :ids[]

-- name: transfers.run_owners
SELECT r.id, s.tenant, r.schedule_id
FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id
WHERE r.id IN :ids[]

-- name: transfers.run_ids
SELECT r.id
FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id
WHERE {where} AND r.id > :after ORDER BY r.id LIMIT :limit

-- name: transfers.session_totals
SELECT count(*), coalesce(sum(s.message_count), 0) FROM sessions s WHERE {where}

-- name: transfers.partitions
-- Without those of users who were purged.
SELECT level, owner FROM partitions WHERE tenant = :tenant AND substr(owner, 1, 1) <> ' '

-- name: purge.hide_partition
-- The row stays, since its id must not be given out again; the name goes first, so that nobody finds anything.
UPDATE partitions SET owner = :hidden WHERE bucket = :bucket AND id = :partition_id

-- name: purge.find_hidden_partition
SELECT id FROM partitions WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :hidden

-- name: purge.hide_sessions
UPDATE sessions SET tenant = '' WHERE bucket = :bucket AND (bucket, partition_id, id) IN (
    SELECT bucket, partition_id, id FROM sessions
    WHERE bucket = :bucket AND partition_id = :partition_id AND tenant <> '' LIMIT :limit)

-- name: purge.deleted_sessions
SELECT id FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id AND length(tenant) = 0 ORDER BY id

-- name: purge.empty_partition
UPDATE partitions SET owner = ' ' || id, next_ordinal = 0, merged_ordinal = 0, chunk_count = 0, word_count = 0, removals = 0
WHERE bucket = :bucket AND id = :partition_id

-- name: purge.count
INSERT INTO properties (name, value) VALUES ('purges', '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(properties.value AS INTEGER) + 1 AS TEXT)

-- name: purge.derived_elsewhere
-- Records of other partitions that were made from a partition's records. Not a join: those may be on other machines.
SELECT DISTINCT o.id
FROM record_inputs i JOIN records o ON o.bucket = i.bucket AND o.partition_id = i.partition_id AND o.id = i.record_id
WHERE i.input_id IN (SELECT r.id FROM records r WHERE r.bucket = :bucket AND r.partition_id = :partition_id)
    AND i.partition_id <> :partition_id ORDER BY o.id LIMIT :limit

-- name: purge.sessions
SELECT id FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id ORDER BY id

-- name: purge.sample
SELECT ordinal, text FROM chunks WHERE bucket = :bucket AND partition_id = :partition_id AND {where} ORDER BY ordinal DESC LIMIT :limit

-- name: purge.older_messages
SELECT sequence FROM messages
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND created_at < :moment ORDER BY sequence {order}

-- name: purge.chunks
SELECT ordinal, word_count, terms, hash, first_sequence, last_sequence FROM chunks
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session
    AND (first_sequence BETWEEN :low AND :high OR last_sequence BETWEEN :low AND :high) ORDER BY ordinal

-- name: purge.chunk_sizes
SELECT first_sequence, last_sequence, length(terms) FROM chunks
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session
    AND (first_sequence BETWEEN :low AND :high OR last_sequence BETWEEN :low AND :high)

-- name: purge.recount
UPDATE sessions SET
    message_count = (SELECT count(*) FROM messages m WHERE m.bucket = :bucket AND m.partition_id = :partition_id AND m.session_id = :session),
    oldest_at = (SELECT min(m.created_at) FROM messages m WHERE m.bucket = :bucket AND m.partition_id = :partition_id AND m.session_id = :session)
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: purge.sessions_before
SELECT id FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id AND tenant <> '' AND (oldest_at < :moment OR last_active_at < :moment) ORDER BY id

-- name: purge.records_from_session
-- Of a source the session comes first; an id has nothing in it that LIKE would take for more.
SELECT id FROM records WHERE bucket = :bucket AND partition_id = :partition_id AND (session_id = :session OR source LIKE :source) ORDER BY id

-- name: purge.versions_naming
DELETE FROM record_versions WHERE bucket = :bucket AND partition_id = :partition_id AND body LIKE :named

-- name: purge.bodies
SELECT record_id, version, body FROM record_versions
WHERE bucket = :bucket AND partition_id = :partition_id AND (record_id, version) > (:record, :version)
ORDER BY record_id, version LIMIT :limit

-- name: purge.version
DELETE FROM record_versions WHERE bucket = :bucket AND partition_id = :partition_id AND record_id = :record AND version = :version

-- name: purge.records_before
SELECT id FROM records WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment ORDER BY id LIMIT :limit

-- name: purge.learned_before
SELECT id FROM records WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment
    AND pinned = 0 AND origin <> 'explicit' ORDER BY id LIMIT :limit

-- name: purge.explicit_in_session
SELECT id FROM records WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session
    AND (pinned = 1 OR origin = 'explicit') ORDER BY id LIMIT 1

-- name: purge.kv_before
DELETE FROM kv WHERE bucket = :bucket AND (bucket, partition_id, session_id, key) IN (SELECT bucket, partition_id, session_id, key FROM kv
    WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment LIMIT :limit)

-- name: purge.versions_before
DELETE FROM record_versions WHERE bucket = :bucket AND (bucket, partition_id, record_id, version) IN (SELECT bucket, partition_id, record_id, version FROM record_versions
    WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment LIMIT :limit)

-- name: purge.learned_versions_before
DELETE FROM record_versions WHERE bucket = :bucket AND (bucket, partition_id, record_id, version) IN (SELECT bucket, partition_id, record_id, version FROM record_versions
    WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment
        AND record_id NOT IN (
            SELECT id FROM records
            WHERE bucket = :bucket AND partition_id = :partition_id AND (pinned = 1 OR origin = 'explicit')
        ) LIMIT :limit)

-- name: purge.documents_before
SELECT id FROM documents WHERE bucket = :bucket AND partition_id = :partition_id AND updated_at < :moment AND {where} ORDER BY id {order}

-- name: retention.sessions
SELECT id, user_id, agent FROM sessions WHERE tenant = :tenant AND {where} ORDER BY id LIMIT :limit

-- name: retention.users
SELECT owner FROM partitions WHERE tenant = :tenant AND level = 'user' ORDER BY owner

-- name: retention.agents
SELECT DISTINCT agent FROM sessions WHERE tenant = :tenant AND oldest_at IS NOT NULL ORDER BY agent

-- name: retention.records
SELECT id FROM records WHERE tenant = :tenant AND updated_at < :moment AND (last_used_at IS NULL OR last_used_at < :moment)
    AND pinned = 0 AND origin <> 'explicit' AND id > :after ORDER BY id LIMIT :limit

-- name: retention.documents
SELECT d.id, p.level, p.owner FROM partitions p JOIN documents d ON d.bucket = p.bucket AND d.partition_id = p.id
WHERE p.tenant = :tenant AND d.updated_at < :moment AND d.id > :after ORDER BY d.id LIMIT :limit

-- name: retention.count_messages
SELECT count(*)
FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.partition_id = m.partition_id AND s.id = m.session_id
WHERE s.tenant = :tenant AND s.agent = :agent AND s.oldest_at < :moment AND m.created_at < :moment

-- name: receipts.add
INSERT INTO receipts (@columns(receipts)) VALUES (@values(receipts))

-- name: receipts.update
UPDATE receipts SET @set(receipts) WHERE tenant = :tenant AND id = :id

-- name: receipts.mark_erased
UPDATE receipts SET bytes = 'gone' WHERE bytes = 'waiting' AND done_at IS NOT NULL AND done_at <= :moment

-- name: receipts.select
SELECT @columns(receipts) FROM receipts WHERE tenant = :tenant AND {where} {order}
