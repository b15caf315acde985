-- name: sessions.add
INSERT INTO sessions (bucket, partition_id, external_id, key, cleared_through, @columns(sessions))
VALUES (:bucket, :partition_id, :external_id, :key, :cleared_through, @values(sessions))
ON CONFLICT DO NOTHING

-- name: sessions.select
SELECT @columns(s sessions), s.partition_id FROM sessions s WHERE {where} {order}

-- name: sessions.head
SELECT s.last_sequence, s.message_count, s.last_active_at, s.partition_id, s.state, s.expires_at, s.oldest_at FROM sessions s WHERE {where} {order}

-- name: sessions.locate
SELECT s.partition_id FROM sessions s WHERE {where}

-- name: sessions.is_taken
-- By an id that does not say its bucket, or by one that does and is another's.
SELECT 1 FROM sessions WHERE bucket = :bucket AND id = :id UNION ALL SELECT 1 FROM sessions WHERE external_id = :id LIMIT 1

-- name: sessions.advance
-- Without the moment of the oldest message, which hardly ever changes: to set it writes its index again.
UPDATE sessions SET last_sequence = :last_sequence, message_count = :message_count, last_active_at = :active_at
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.set_oldest
UPDATE sessions SET oldest_at = :oldest_at WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.set_state
UPDATE sessions SET state = :state WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.set_metadata
UPDATE sessions SET metadata = :metadata WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.set_expiry
UPDATE sessions SET expires_at = :expires_at WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.clear
UPDATE sessions SET message_count = 0, oldest_at = NULL, cleared_through = last_sequence
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.hide
-- Nothing of a session is found without its tenant. The key and the external id are free again.
UPDATE sessions SET tenant = '', state = 'TERMINATED', external_id = NULL, expires_at = NULL, oldest_at = NULL
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: sessions.is_deleted
SELECT 1 FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session AND length(tenant) = 0

-- name: sessions.find_deleted
-- And whether a job is to remove them.
SELECT p.tenant, p.level, p.owner, s.id,
    EXISTS (SELECT 1 FROM jobs j WHERE j.bucket = s.bucket AND (j.kind = 'purge' OR j.kind = 'remove-session' AND j.detail = s.id))
FROM sessions s JOIN partitions p ON p.bucket = s.bucket AND p.id = s.partition_id WHERE length(s.tenant) = 0 ORDER BY s.id

-- name: sessions.delete
DELETE FROM sessions WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session AND length(tenant) = 0

-- name: messages.first
SELECT sequence FROM messages WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session
ORDER BY sequence LIMIT :limit

-- name: messages.delete
DELETE FROM messages WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence IN :sequences[]

-- name: sessions.delete_messages
DELETE FROM messages WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: sessions.delete_summary
DELETE FROM summaries WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: sessions.delete_kv
DELETE FROM kv WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: sessions.delete_usage
DELETE FROM usage WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: sessions.delete_cursors
DELETE FROM cursors WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session

-- name: sessions.find_miscounted
SELECT s.bucket, s.partition_id, s.id, s.last_sequence, count(m.sequence), coalesce(max(m.sequence), 0)
FROM sessions s LEFT JOIN messages m ON m.bucket = s.bucket AND m.partition_id = s.partition_id AND m.session_id = s.id
WHERE s.tenant <> ''
GROUP BY s.bucket, s.partition_id, s.id, s.last_sequence, s.message_count
HAVING s.message_count <> count(m.sequence) OR s.last_sequence < coalesce(max(m.sequence), 0)

-- name: sessions.set_counts
UPDATE sessions SET message_count = :message_count, last_sequence = :last_sequence
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: messages.insert
INSERT INTO messages (bucket, partition_id, session_id, @columns(messages))
VALUES (:bucket, :partition_id, :session, @values(messages))

-- name: messages.replace
UPDATE messages SET content = :content, parts = :parts, tokens = :tokens
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND sequence = :sequence

-- name: messages.select
SELECT @columns(m messages)
FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.partition_id = m.partition_id AND s.id = m.session_id
WHERE {where} {order}

-- name: messages.unsummarised
SELECT @columns(m messages)
FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.partition_id = m.partition_id AND s.id = m.session_id
WHERE {where} AND m.sequence > coalesce((SELECT y.upper_sequence FROM summaries y WHERE y.bucket = :bucket
    AND y.partition_id = s.partition_id AND y.session_id = s.id), 0)
ORDER BY m.sequence

-- name: messages.count
SELECT count(*)
FROM messages m JOIN sessions s ON s.bucket = m.bucket AND s.partition_id = m.partition_id AND s.id = m.session_id
WHERE {where}

-- name: summaries.get
SELECT y.text, y.epoch, y.upper_sequence, y.message_count, y.updated_at, y.written_sequence, y.written_characters
FROM summaries y JOIN sessions s ON s.bucket = y.bucket AND s.partition_id = y.partition_id AND s.id = y.session_id
WHERE {where}

-- name: summaries.sessions
SELECT s.id
FROM summaries y JOIN sessions s ON s.bucket = y.bucket AND s.partition_id = y.partition_id AND s.id = y.session_id
WHERE {where} ORDER BY s.id

-- name: summaries.watermarks
SELECT s.cleared_through, s.summary_epoch FROM sessions s WHERE {where}

-- name: summaries.put
INSERT INTO summaries (bucket, partition_id, session_id, text, epoch, upper_sequence, message_count, updated_at,
    written_sequence, written_characters)
VALUES (:bucket, :partition_id, :session, :text, :epoch, :upper_sequence, :message_count, :updated_at,
    :written_sequence, :written_characters)
ON CONFLICT (bucket, partition_id, session_id) DO UPDATE SET text = excluded.text, epoch = excluded.epoch,
    upper_sequence = excluded.upper_sequence, message_count = excluded.message_count, updated_at = excluded.updated_at,
    written_sequence = excluded.written_sequence, written_characters = excluded.written_characters

-- name: summaries.set_epoch
UPDATE sessions SET summary_epoch = :epoch WHERE bucket = :bucket AND partition_id = :partition_id AND id = :session

-- name: summaries.find_too_high
SELECT y.session_id
FROM summaries y JOIN sessions s ON s.bucket = y.bucket AND s.partition_id = y.partition_id AND s.id = y.session_id
WHERE y.upper_sequence > s.last_sequence

-- name: kv.select
SELECT k.key, k.value, k.updated_at
FROM kv k JOIN sessions s ON s.bucket = k.bucket AND s.partition_id = k.partition_id AND s.id = k.session_id
WHERE {where} ORDER BY k.position DESC LIMIT :cap

-- name: kv.sessions
SELECT DISTINCT s.id
FROM kv k JOIN sessions s ON s.bucket = k.bucket AND s.partition_id = k.partition_id AND s.id = k.session_id
WHERE {where} ORDER BY s.id

-- name: kv.set
INSERT INTO kv (bucket, partition_id, session_id, key, value, position, updated_at)
SELECT s.bucket, s.partition_id, s.id, :key, :value, coalesce((SELECT max(k.position) FROM kv k
    WHERE k.bucket = :bucket AND k.partition_id = :partition_id AND k.session_id = :session), 0) + 1, :updated_at
FROM sessions s WHERE s.bucket = :bucket AND s.partition_id = :partition_id AND s.id = :session
ON CONFLICT (bucket, partition_id, session_id, key) DO UPDATE
SET value = excluded.value, position = excluded.position, updated_at = excluded.updated_at

-- name: kv.trim
DELETE FROM kv WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND position <=
    (SELECT position FROM kv WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session
     ORDER BY position DESC LIMIT 1 OFFSET :cap)

-- name: kv.delete
DELETE FROM kv WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND key = :key

-- name: usage.add
INSERT INTO usage
    (bucket, partition_id, session_id, model, calls, input_tokens, output_tokens, cached_tokens, cost_nanos)
VALUES
    (:bucket, :partition_id, :session, :model, :calls, :input_tokens, :output_tokens, :cached_tokens, :cost_nanos)
ON CONFLICT (bucket, partition_id, session_id, model) DO UPDATE SET calls = usage.calls + excluded.calls,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens,
    cached_tokens = usage.cached_tokens + excluded.cached_tokens,
    cost_nanos = usage.cost_nanos + excluded.cost_nanos

-- name: usage.select
SELECT u.model, CAST(sum(u.calls) AS BIGINT), CAST(sum(u.input_tokens) AS BIGINT), CAST(sum(u.output_tokens) AS BIGINT),
    CAST(sum(u.cached_tokens) AS BIGINT), CAST(sum(u.cost_nanos) AS BIGINT)
FROM usage u JOIN sessions s ON s.bucket = u.bucket AND s.partition_id = u.partition_id AND s.id = u.session_id
WHERE {where} GROUP BY u.model ORDER BY u.model

-- name: cursors.get
SELECT sequence FROM cursors
WHERE bucket = :bucket AND partition_id = :partition_id AND session_id = :session AND name = :name

-- name: cursors.set
INSERT INTO cursors (bucket, partition_id, session_id, name, sequence)
VALUES (:bucket, :partition_id, :session, :name, :sequence)
ON CONFLICT (bucket, partition_id, session_id, name) DO UPDATE SET sequence = excluded.sequence
