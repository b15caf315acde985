-- name: sessions.add
INSERT INTO sessions
    (id, tenant, user_id, agent, space_id, key, channel, chat, thread, state, metadata, created_at, last_active_at, expires_at,
     last_sequence, message_count)
VALUES
    (:id, :tenant, :user, :agent, :space_id, :key, :channel, :chat, :thread, :state, :metadata, :created_at, :last_active_at,
     :expires_at, 0, 0)
ON CONFLICT DO NOTHING

-- name: sessions.select
SELECT id, tenant, user_id, agent, channel, chat, thread, state, metadata, created_at, last_active_at, expires_at,
    last_sequence, message_count
FROM sessions s WHERE {where} {order}

-- name: sessions.head
SELECT last_sequence, message_count, last_active_at FROM sessions s WHERE {where} {order}

-- name: sessions.advance
UPDATE sessions SET last_sequence = :last_sequence, message_count = :message_count,
    last_active_at = CASE WHEN last_active_at > :active_at THEN last_active_at ELSE :active_at END,
    oldest_at = CASE WHEN oldest_at <= :oldest_at THEN oldest_at ELSE :oldest_at END
WHERE id = :session AND tenant = :tenant

-- name: sessions.set_state
UPDATE sessions SET state = :state WHERE id = :session AND tenant = :tenant

-- name: sessions.set_metadata
UPDATE sessions SET metadata = :metadata WHERE id = :session AND tenant = :tenant

-- name: sessions.set_expiry
UPDATE sessions SET expires_at = :expires_at WHERE id = :session AND tenant = :tenant

-- name: sessions.clear
UPDATE sessions SET message_count = 0, oldest_at = NULL, cleared_through = last_sequence WHERE id = :session AND tenant = :tenant

-- name: summaries.past
SELECT cleared_through, summary_epoch FROM sessions WHERE id = :session AND tenant = :tenant

-- name: sessions.delete
DELETE FROM sessions WHERE id = :session AND tenant = :tenant

-- name: sessions.delete_messages
DELETE FROM messages WHERE session_id = :session

-- name: sessions.delete_summary
DELETE FROM summaries WHERE session_id = :session

-- name: sessions.delete_kv
DELETE FROM kv WHERE session_id = :session

-- name: sessions.delete_usage
DELETE FROM usage WHERE session_id = :session

-- name: messages.insert
INSERT INTO messages
    (session_id, sequence, role, content, parts, name, tool_calls, tool_call_id, is_error, metadata, tokens, created_at,
     idempotency_key)
VALUES
    (:session, :sequence, :role, :content, :parts, :name, :tool_calls, :tool_call_id, :is_error, :metadata, :tokens, :created_at,
     :idempotency_key)

-- name: messages.replace
UPDATE messages SET content = :content, parts = :parts, tokens = :tokens WHERE session_id = :session AND sequence = :sequence

-- name: messages.select
SELECT m.sequence, m.role, m.content, m.parts, m.name, m.tool_calls, m.tool_call_id, m.is_error, m.metadata, m.tokens,
    m.created_at, m.idempotency_key
FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE {where} {order}

-- name: messages.count
SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id WHERE {where}

-- name: summaries.get
SELECT y.text, y.epoch, y.upper_sequence, y.message_count, y.updated_at
FROM summaries y JOIN sessions s ON s.id = y.session_id WHERE {where}

-- name: summaries.put
INSERT INTO summaries (session_id, text, epoch, upper_sequence, message_count, updated_at)
VALUES (:session, :text, :epoch, :upper_sequence, :message_count, :updated_at)
ON CONFLICT (session_id) DO UPDATE SET text = excluded.text, epoch = excluded.epoch,
    upper_sequence = excluded.upper_sequence, message_count = excluded.message_count, updated_at = excluded.updated_at

-- name: summaries.count_epoch
UPDATE sessions SET summary_epoch = :epoch WHERE id = :session AND tenant = :tenant

-- name: kv.select
SELECT k.key, k.value, k.updated_at FROM kv k JOIN sessions s ON s.id = k.session_id WHERE {where}
ORDER BY k.position DESC LIMIT :cap

-- name: kv.set
INSERT INTO kv (session_id, key, value, position, updated_at)
SELECT :session, :key, :value, coalesce(max(position), 0) + 1, :updated_at FROM kv WHERE session_id = :session
ON CONFLICT (session_id, key) DO UPDATE
SET value = excluded.value, position = excluded.position, updated_at = excluded.updated_at

-- name: kv.trim
DELETE FROM kv WHERE session_id = :session AND position <=
    (SELECT position FROM kv WHERE session_id = :session ORDER BY position DESC LIMIT 1 OFFSET :cap)

-- name: kv.delete
DELETE FROM kv WHERE session_id = :session AND key = :key

-- name: usage.add
INSERT INTO usage (session_id, model, calls, input_tokens, output_tokens, cached_tokens, cost_nanos)
VALUES (:session, :model, :calls, :input_tokens, :output_tokens, :cached_tokens, :cost_nanos)
ON CONFLICT (session_id, model) DO UPDATE SET calls = usage.calls + excluded.calls,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens,
    cached_tokens = usage.cached_tokens + excluded.cached_tokens,
    cost_nanos = usage.cost_nanos + excluded.cost_nanos

-- name: usage.select
SELECT u.model, CAST(sum(u.calls) AS BIGINT), CAST(sum(u.input_tokens) AS BIGINT), CAST(sum(u.output_tokens) AS BIGINT),
    CAST(sum(u.cached_tokens) AS BIGINT), CAST(sum(u.cost_nanos) AS BIGINT)
FROM usage u JOIN sessions s ON s.id = u.session_id WHERE {where} GROUP BY u.model ORDER BY u.model

-- name: cursors.get
SELECT c.sequence FROM cursors c JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = :session AND c.name = :name AND s.tenant = :tenant

-- name: cursors.set
INSERT INTO cursors (session_id, name, sequence) VALUES (:session, :name, :sequence)
ON CONFLICT (session_id, name) DO UPDATE SET sequence = excluded.sequence

-- name: sessions.delete_cursors
DELETE FROM cursors WHERE session_id = :session

-- name: doctor.session_counts
SELECT s.id, s.last_sequence, s.message_count, count(m.sequence), coalesce(max(m.sequence), 0)
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id
GROUP BY s.id, s.last_sequence, s.message_count
HAVING s.message_count <> count(m.sequence) OR s.last_sequence < coalesce(max(m.sequence), 0)

-- name: doctor.fix_session
UPDATE sessions SET message_count = :message_count, last_sequence = :last_sequence WHERE id = :session

-- name: doctor.summaries
SELECT y.session_id FROM summaries y JOIN sessions s ON s.id = y.session_id WHERE y.upper_sequence > s.last_sequence
