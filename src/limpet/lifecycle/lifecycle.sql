-- name: imports.seen
SELECT 1 FROM imports WHERE tenant = :tenant AND digest = :digest

-- name: imports.note
INSERT INTO imports (digest, tenant, name, sessions, messages, imported_at)
VALUES (:digest, :tenant, :name, :sessions, :messages, :imported_at)

-- name: imports.progress
SELECT state FROM moves WHERE tenant = :tenant AND digest = :digest

-- name: imports.mark
INSERT INTO moves (tenant, digest, user_id, name, state, marked_at)
VALUES (:tenant, :digest, :user, :name, :state, :now)
ON CONFLICT (tenant, digest) DO UPDATE SET state = excluded.state, marked_at = excluded.marked_at

-- name: imports.finish
DELETE FROM moves WHERE tenant = :tenant AND digest = :digest

-- name: moving.session_ids
SELECT s.id FROM sessions s WHERE {where} AND s.id > :after ORDER BY s.id LIMIT :limit

-- name: moving.put_session
INSERT INTO sessions
    (id, tenant, user_id, agent, space_id, key, channel, chat, thread, state, metadata, created_at, last_active_at, expires_at,
     cleared_through)
VALUES
    (:id, :tenant, :user, :agent, :space_id, :key, :channel, :chat, :thread, :state, :metadata, :created_at, :last_active_at,
     :expires_at, :cleared_through)
ON CONFLICT DO NOTHING

-- name: moving.settle_session
UPDATE sessions SET last_sequence = CASE WHEN last_sequence < :last_sequence THEN :last_sequence ELSE last_sequence END,
    summary_epoch = CASE WHEN summary_epoch = 0 THEN :epoch ELSE summary_epoch END
WHERE id = :session AND tenant = :tenant

-- name: moving.cursors
SELECT c.name, c.sequence FROM cursors c JOIN sessions s ON s.id = c.session_id WHERE {where}

-- name: moving.put_cursor
INSERT INTO cursors (session_id, name, sequence) VALUES (:session, :name, :sequence) ON CONFLICT (session_id, name) DO NOTHING

-- name: moving.waiting
SELECT 1 FROM jobs WHERE kind = :kind AND key = :key AND dead = 0

-- name: moving.has_message
SELECT 1 FROM messages m JOIN sessions s ON s.id = m.session_id WHERE {where} AND m.sequence = :sequence

-- name: moving.record_ids
SELECT r.id FROM records r WHERE {where} AND r.id > :after ORDER BY r.id LIMIT :limit

-- name: moving.versions
SELECT record_id, version, body, replaced_at FROM record_versions WHERE record_id IN :ids[] ORDER BY record_id, version

-- name: moving.documents
SELECT s.level, s.owner, d.id, d.uri, d.title, d.metadata, d.content_hash, d.created_at, d.updated_at
FROM documents d JOIN spaces s ON s.id = d.space_id
WHERE s.tenant = :tenant AND {where} ORDER BY d.id LIMIT :limit

-- name: moving.pieces
SELECT c.id, c.text, coalesce(c.first_sequence, 0) FROM chunks c
WHERE c.document_id = :document AND c.space_id = :space_id AND c.id > :after ORDER BY c.id LIMIT :limit

-- name: moving.last_piece
SELECT coalesce(max(c.first_sequence), -1) FROM chunks c WHERE c.document_id = :document AND c.space_id = :space_id

-- name: moving.mentions
SELECT m.session_id, m.sequence, m.record_id, m.said_at, e.normal, e.name, m.kind
FROM mentions m JOIN entities e ON e.id = m.entity_id
WHERE m.space_id = :space_id AND {where} ORDER BY m.sequence, m.id LIMIT :limit

-- name: moving.relations
SELECT x.sequence, a.normal, x.predicate, b.normal, x.value, x.kind, x.polarity, x.sentence, x.subject_id
FROM relations x JOIN entities a ON a.id = x.subject_id LEFT JOIN entities b ON b.id = x.object_id
WHERE x.space_id = :space_id AND {where} ORDER BY x.sequence, x.id

-- name: moving.sessions_elsewhere
SELECT id, tenant, user_id FROM sessions WHERE id IN :ids[]

-- name: moving.records_elsewhere
SELECT id, tenant, coalesce(user_id, '') FROM records WHERE id IN :ids[]

-- name: moving.documents_elsewhere
SELECT d.id, s.tenant, s.level || ':' || s.owner FROM documents d JOIN spaces s ON s.id = d.space_id WHERE d.id IN :ids[]

-- name: moving.schedules_elsewhere
SELECT id, tenant, user_id FROM schedules WHERE id IN :ids[]

-- name: moving.runs_elsewhere
SELECT r.id, s.tenant, r.schedule_id FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.id IN :ids[]

-- name: moving.run_ids
SELECT r.id FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id
WHERE {where} AND r.id > :after ORDER BY r.id LIMIT :limit

-- name: moving.session_totals
SELECT count(*), coalesce(sum(s.message_count), 0) FROM sessions s WHERE {where}

-- name: moving.spaces
-- Without those of users who were purged.
SELECT level, owner FROM spaces WHERE tenant = :tenant AND substr(owner, 1, 1) <> ' '

-- name: purge.hide_space
-- The row stays, since its number must not be given out again; the name goes.
UPDATE spaces SET owner = ' ' || id, next_ordinal = 0, merged_ordinal = 0, chunk_count = 0, word_count = 0, removals = 0
WHERE id = :id

-- name: purge.hidden
SELECT id FROM spaces WHERE substr(owner, 1, 1) = ' ' AND id IN :ids[]

-- name: purge.count
INSERT INTO properties (name, value) VALUES ('purges', '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(properties.value AS INTEGER) + 1 AS TEXT)

-- name: purge.learned_elsewhere
-- Records of other spaces that were made from a space's records, each with the input.
SELECT DISTINCT o.id FROM records r JOIN record_inputs i ON i.input_id = r.id JOIN records o ON o.id = i.record_id
WHERE r.space_id = :space_id AND o.space_id <> :space_id ORDER BY o.id

-- name: purge.sessions
SELECT id FROM sessions WHERE space_id = :space_id ORDER BY id

-- name: purge.sample
SELECT id, text FROM chunks WHERE id >= :low AND id < :high AND {where} ORDER BY id DESC LIMIT :limit

-- name: purge.older_messages
SELECT m.sequence FROM messages m WHERE m.session_id = :session AND m.created_at < :moment ORDER BY m.sequence {order}

-- name: purge.chunks
SELECT id, word_count, terms, hash, first_sequence, last_sequence FROM chunks
WHERE session_id = :session AND space_id = :space_id ORDER BY id

-- name: purge.mentioned
SELECT DISTINCT entity_id FROM mentions
WHERE session_id = :session AND space_id = :space_id AND sequence IN :sequences[] ORDER BY entity_id

-- name: purge.relations
DELETE FROM relations WHERE session_id = :session AND space_id = :space_id AND sequence IN :sequences[]

-- name: purge.mentions
DELETE FROM mentions WHERE session_id = :session AND space_id = :space_id AND sequence IN :sequences[]

-- name: purge.messages
DELETE FROM messages WHERE session_id = :session AND sequence IN :sequences[]

-- name: purge.recount
UPDATE sessions SET message_count = (SELECT count(*) FROM messages m WHERE m.session_id = sessions.id),
    oldest_at = (SELECT min(m.created_at) FROM messages m WHERE m.session_id = sessions.id)
WHERE id = :session AND tenant = :tenant

-- name: purge.sessions_before
SELECT id FROM sessions WHERE space_id = :space_id AND (oldest_at < :moment OR last_active_at < :moment) ORDER BY id

-- name: purge.learned_from
-- Of a source the session comes first; an id has nothing in it that LIKE would take for more.
SELECT id FROM records WHERE space_id = :space_id AND (session_id = :session OR source LIKE :source) ORDER BY id

-- name: purge.versions
DELETE FROM record_versions WHERE record_id IN (SELECT r.id FROM records r WHERE r.id = :id AND r.tenant = :tenant)

-- name: purge.versions_of
DELETE FROM record_versions WHERE body LIKE :named
    AND record_id IN (SELECT r.id FROM records r WHERE r.space_id = :space_id)

-- name: purge.bodies
SELECT v.record_id, v.version, v.body FROM record_versions v JOIN records r ON r.id = v.record_id
WHERE r.space_id = :space_id AND (v.record_id, v.version) > (:record, :version)
ORDER BY v.record_id, v.version LIMIT :limit

-- name: purge.version
DELETE FROM record_versions WHERE record_id = :record AND version = :version

-- name: purge.records_before
SELECT id FROM records WHERE space_id = :space_id AND updated_at < :moment ORDER BY id LIMIT :limit

-- name: purge.kv_before
DELETE FROM kv WHERE updated_at < :moment AND session_id IN (SELECT s.id FROM sessions s WHERE s.space_id = :space_id)

-- name: purge.versions_before
DELETE FROM record_versions WHERE updated_at < :moment
    AND record_id IN (SELECT r.id FROM records r WHERE r.space_id = :space_id)

-- name: purge.documents_before
SELECT d.id FROM documents d JOIN spaces s ON s.id = d.space_id
WHERE s.tenant = :tenant AND s.level = :level AND s.owner = :owner AND d.updated_at < :moment ORDER BY d.id {order}

-- name: retention.sessions
SELECT id, user_id, agent FROM sessions WHERE tenant = :tenant AND {where} ORDER BY id LIMIT :limit

-- name: retention.agents
SELECT DISTINCT agent FROM sessions WHERE tenant = :tenant AND oldest_at IS NOT NULL ORDER BY agent

-- name: retention.records
SELECT id FROM records WHERE tenant = :tenant AND updated_at < :moment AND (last_used_at IS NULL OR last_used_at < :moment)
    AND pinned = 0 AND origin <> 'explicit' AND id > :after ORDER BY id LIMIT :limit

-- name: retention.documents
SELECT d.id, s.level, s.owner FROM spaces s JOIN documents d ON d.space_id = s.id
WHERE s.tenant = :tenant AND d.updated_at < :moment AND d.id > :after ORDER BY d.id LIMIT :limit

-- name: retention.count_messages
SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE s.tenant = :tenant AND s.agent = :agent AND s.oldest_at < :moment AND m.created_at < :moment

-- name: receipts.add
INSERT INTO receipts (id, tenant, what, digest, before_at, asked_by, asked_at, counts, remaining, bytes)
VALUES (:id, :tenant, :what, :digest, :before_at, :asked_by, :asked_at, :counts, :remaining, :bytes)

-- name: receipts.update
UPDATE receipts SET done_at = :done_at, counts = :counts, verified = :verified, remaining = :remaining, bytes = :bytes
WHERE id = :id AND tenant = :tenant

-- name: receipts.erased
UPDATE receipts SET bytes = 'gone' WHERE bytes = 'waiting' AND done_at IS NOT NULL AND done_at <= :moment

-- name: receipts.select
SELECT id, what, digest, before_at, asked_by, asked_at, done_at, counts, verified, remaining, bytes FROM receipts
WHERE tenant = :tenant AND {where} {order}
