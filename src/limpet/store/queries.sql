-- Statements that mean the same to both dialects. {where} and {order} are filled from the fixed clauses in the code beside;
-- IN :names[] takes a list, which each dialect passes its own way.

-- name: spaces.add
INSERT INTO spaces (tenant, level, owner) VALUES (:tenant, :level, :owner)
ON CONFLICT (tenant, level, owner) DO NOTHING

-- name: spaces.get
-- With the newest chunk's id (4294967296 is 2 to the 32), since an append does not write here, and the store's model.
SELECT s.id, s.next_ordinal, s.merged_ordinal, s.chunk_count, s.word_count, s.removals,
    (SELECT max(c.id) FROM chunks c WHERE c.id >= s.id * 4294967296 AND c.id < (s.id + 1) * 4294967296),
    (SELECT value FROM properties WHERE name = 'model'), (SELECT value FROM properties WHERE name = 'purges')
FROM spaces s WHERE s.tenant = :tenant AND s.level = :level AND s.owner = :owner {order}

-- name: spaces.number
SELECT id FROM spaces WHERE tenant = :tenant AND level = :level AND owner = :owner

-- name: spaces.advance
UPDATE spaces
SET next_ordinal = :next_ordinal, merged_ordinal = :merged_ordinal, chunk_count = :chunk_count,
    word_count = :word_count, removals = :removals
WHERE id = :id

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

-- name: records.insert
INSERT INTO records
    (id, tenant, level, owner, user_id, agent, session_id, space_id, layer, type, key, title, content, tags, metadata, confidence,
     salience, refs, fingerprint, source, origin, created_at, updated_at, last_used_at, uses, valid_from, valid_to, superseded_by,
     expires_at, pinned, version, subject, attribute, value, polarity, said, archived_at, inputs)
VALUES
    (:id, :tenant, :level, :owner, :user, :agent, :session, :space_id, :layer, :type, :key, :title, :content, :tags, :metadata,
     :confidence, :salience, :refs, :fingerprint, :source, :origin, :created_at, :updated_at, :last_used_at, :uses, :valid_from,
     :valid_to, :superseded_by, :expires_at, :pinned, :version, :subject, :attribute, :value, :polarity, :said,
     :archived_at, :inputs)

-- name: records.update
UPDATE records SET layer = :layer, type = :type, key = :key, title = :title, content = :content, tags = :tags,
    metadata = :metadata, confidence = :confidence, salience = :salience, refs = :refs, fingerprint = :fingerprint,
    source = :source, origin = :origin, updated_at = :updated_at, last_used_at = :last_used_at, uses = :uses,
    valid_from = :valid_from, valid_to = :valid_to, superseded_by = :superseded_by, expires_at = :expires_at,
    pinned = :pinned, version = :version, subject = :subject, attribute = :attribute, value = :value,
    polarity = :polarity, said = :said, archived_at = :archived_at, inputs = :inputs
WHERE id = :id AND tenant = :tenant

-- name: records.select
SELECT r.id, r.tenant, r.level, r.user_id, r.agent, r.session_id, r.layer, r.type, r.key, r.title, r.content, r.tags,
    r.metadata, r.confidence, r.salience, r.refs, r.fingerprint, r.source, r.origin, r.created_at, r.updated_at,
    r.last_used_at, r.uses, r.valid_from, r.valid_to, r.superseded_by, r.expires_at, r.pinned, r.version,
    r.subject, r.attribute, r.value, r.polarity, r.said, r.archived_at, r.inputs
FROM records r WHERE {where} {order}

-- name: records.newest
-- Of those with a key, and of each layer, pinned ones apart.
SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 0 AND r.key IS NOT NULL ORDER BY r.updated_at DESC, r.id DESC LIMIT :keyed) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 1 AND r.key IS NOT NULL ORDER BY r.updated_at DESC, r.id DESC LIMIT :keyed) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 0 AND r.layer = 'working' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :working) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 1 AND r.layer = 'working' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :working) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 0 AND r.layer = 'semantic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :semantic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 1 AND r.layer = 'semantic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :semantic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 0 AND r.layer = 'procedural' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :procedural) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 1 AND r.layer = 'procedural' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :procedural) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 0 AND r.layer = 'episodic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :episodic) p
UNION ALL SELECT id FROM (SELECT r.id FROM records r WHERE r.space_id = :space_id AND {where}
    AND r.pinned = 1 AND r.layer = 'episodic' AND r.key IS NULL
    ORDER BY r.updated_at DESC, r.id DESC LIMIT :episodic) p

-- name: records.count
SELECT count(*) FROM records r WHERE {where}

-- name: records.keep_version
INSERT INTO record_versions (record_id, version, body, updated_at, replaced_at)
VALUES (:id, :version, :body, :updated_at, :replaced_at)

-- name: records.versions
SELECT version, body FROM record_versions WHERE record_id = :id ORDER BY version

-- name: records.version_at
SELECT version, body FROM record_versions WHERE record_id = :id AND updated_at <= :as_of AND replaced_at > :as_of
ORDER BY version DESC LIMIT 1

-- name: records.delete
DELETE FROM records WHERE id = :id AND tenant = :tenant

-- name: records.delete_versions
DELETE FROM record_versions WHERE record_id = :id

-- name: records.delete_tags
DELETE FROM record_tags WHERE record_id = :id

-- name: records.delete_metadata
DELETE FROM record_metadata WHERE record_id = :id

-- name: records.delete_inputs
DELETE FROM record_inputs WHERE record_id = :id

-- name: records.add_input
INSERT INTO record_inputs (record_id, input_id) VALUES (:id, :input)

-- name: records.used
UPDATE records SET uses = uses + 1, last_used_at = CASE WHEN last_used_at > :now THEN last_used_at ELSE :now END
WHERE id = :id AND tenant = :tenant AND space_id = :space_id

-- name: records.weigh
UPDATE records SET said = said + :said, confidence = :confidence, last_used_at = CASE WHEN last_used_at > :now THEN last_used_at ELSE :now END
WHERE id = :id AND tenant = :tenant AND space_id = :space_id

-- name: cursors.get
SELECT c.sequence FROM cursors c JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = :session AND c.name = :name AND s.tenant = :tenant

-- name: cursors.set
INSERT INTO cursors (session_id, name, sequence) VALUES (:session, :name, :sequence)
ON CONFLICT (session_id, name) DO UPDATE SET sequence = excluded.sequence

-- name: sessions.delete_cursors
DELETE FROM cursors WHERE session_id = :session

-- name: records.add_tag
INSERT INTO record_tags (record_id, tag) VALUES (:id, :tag)

-- name: records.add_metadata
INSERT INTO record_metadata (record_id, key, value) VALUES (:id, :key, :value)

-- name: documents.select
SELECT d.id, d.uri, d.title, d.metadata, d.content_hash, d.created_at, d.updated_at,
    (SELECT count(*) FROM chunks c WHERE c.document_id = d.id)
FROM documents d JOIN spaces s ON s.id = d.space_id
WHERE s.tenant = :tenant AND s.level = :level AND s.owner = :owner AND {where} {order}

-- name: documents.insert
INSERT INTO documents (id, space_id, uri, title, content_hash, metadata, created_at, updated_at)
VALUES (:id, :space_id, :uri, :title, :content_hash, :metadata, :created_at, :updated_at)

-- name: documents.update
UPDATE documents SET title = :title, content_hash = :content_hash, metadata = :metadata, updated_at = :updated_at
WHERE id = :id AND space_id = :space_id

-- name: documents.delete
DELETE FROM documents WHERE id = :id AND space_id = :space_id

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

-- name: jobs.ask
-- One that is put off after a failure stays so: whoever asks during an outage must not make it hurry. One laid aside is
-- revived. Any other runs at the earliest time that somebody asked for.
INSERT INTO jobs (kind, key, tenant, payload, owner, run_at, created_at)
VALUES (:kind, :key, :tenant, :payload, :owner, :run_at, :now)
ON CONFLICT (kind, key) DO UPDATE SET asked = jobs.asked + 1,
    attempts = CASE WHEN jobs.dead = 1 THEN 0 ELSE jobs.attempts END, dead = 0,
    run_at = CASE WHEN jobs.dead = 1 THEN excluded.run_at
        WHEN jobs.attempts > 0 AND jobs.leased_until = 0 THEN jobs.run_at
        WHEN jobs.run_at < excluded.run_at THEN jobs.run_at
        ELSE excluded.run_at END

-- name: jobs.hurry
UPDATE jobs SET attempts = 0, dead = 0, run_at = 0 WHERE kind = :kind

-- name: jobs.due
SELECT id, kind, payload, asked, attempts FROM jobs
WHERE dead = 0 AND run_at <= :now AND leased_until <= :now AND {where}
ORDER BY run_at, id LIMIT 1 {order}

-- name: jobs.lease
UPDATE jobs SET leased_until = :leased_until, run_at = :leased_until, attempts = attempts + 1 WHERE id = :id

-- name: jobs.renew
UPDATE jobs SET leased_until = :until, run_at = CASE WHEN run_at = leased_until THEN :until ELSE run_at END
WHERE id = :id AND leased_until = :leased_until

-- name: jobs.finish
DELETE FROM jobs WHERE id = :id AND leased_until = :leased_until AND asked = :asked

-- name: jobs.release
-- It was asked for meanwhile, and runs when that was wanted.
UPDATE jobs SET leased_until = 0, attempts = 0, error = NULL WHERE id = :id AND leased_until = :leased_until

-- name: jobs.again
UPDATE jobs SET leased_until = 0, attempts = 0, error = NULL,
    run_at = CASE WHEN asked <> :asked AND run_at < :run_at THEN run_at ELSE :run_at END
WHERE id = :id AND leased_until = :leased_until

-- name: jobs.fail
-- Asked for during its last attempt it is revived, as it would be if it were asked for after it.
UPDATE jobs SET leased_until = 0, run_at = :run_at, error = :error,
    dead = CASE WHEN asked = :asked THEN :dead ELSE 0 END,
    attempts = CASE WHEN asked <> :asked AND :dead = 1 THEN 0 ELSE attempts END
WHERE id = :id AND leased_until = :leased_until

-- name: jobs.next
-- A few: the first ones may be leased, and asked for again meanwhile.
SELECT CASE WHEN run_at < leased_until THEN leased_until ELSE run_at END FROM jobs WHERE dead = 0 AND {where}
ORDER BY run_at, id LIMIT 16

-- name: jobs.count
SELECT count(*) FROM jobs WHERE dead = 0 AND {where}

-- name: jobs.astray
SELECT 1 FROM jobs WHERE dead = 0 AND (leased_until > :ahead
    OR (leased_until = 0 AND attempts > 0 AND run_at > :latest)
    OR (leased_until = 0 AND attempts = 0 AND created_at > :ahead AND run_at > :now))
LIMIT 1

-- name: jobs.mend_held
UPDATE jobs SET leased_until = 0, run_at = :now
WHERE dead = 0 AND (leased_until > :ahead OR (leased_until = 0 AND attempts > 0 AND run_at > :latest))

-- name: jobs.mend_asked
-- As long from now as it was from when it was asked for.
UPDATE jobs SET run_at = CASE WHEN run_at > created_at THEN :now + run_at - created_at ELSE :now END, created_at = :now
WHERE dead = 0 AND leased_until = 0 AND attempts = 0 AND created_at > :ahead AND run_at > :now

-- name: jobs.withdraw
DELETE FROM jobs WHERE kind = :kind AND key = :key

-- name: jobs.find
SELECT id, kind, payload, run_at, attempts, leased_until, error, dead, created_at FROM jobs
WHERE tenant = :tenant AND {where}
ORDER BY dead, run_at, id LIMIT :limit OFFSET :offset

-- name: jobs.retry
UPDATE jobs SET dead = 0, attempts = 0, leased_until = 0, run_at = :now
WHERE dead = 1 AND tenant = :tenant AND (:any_id = 1 OR id IN :ids[]) AND (:any_kind = 1 OR kind = :kind)

-- name: jobs.drop
DELETE FROM jobs WHERE dead = 1 AND tenant = :tenant AND id IN :ids[]

-- name: spaces.list
-- A name never begins with a space; the row of a user who was purged does, and is nobody's.
SELECT tenant, level, owner FROM spaces WHERE substr(owner, 1, 1) <> ' ' ORDER BY id

-- name: entities.add
INSERT INTO entities (space_id, normal, first_word, name) VALUES (:space_id, :normal, :first_word, :name)
ON CONFLICT (space_id, normal) DO NOTHING

-- name: entities.numbers
SELECT normal, id FROM entities WHERE space_id = :space_id AND normal IN :names[]

-- name: entities.all
SELECT normal, id FROM entities WHERE space_id = :space_id

-- name: entities.select
-- With how often each was taken for what.
SELECT e.id, e.normal, e.name, m.kind, count(*) FROM entities e JOIN mentions m ON m.entity_id = e.id
WHERE e.space_id = :space_id AND {where} GROUP BY e.id, e.normal, e.name, m.kind ORDER BY e.id

-- name: entities.prune
DELETE FROM entities WHERE id = :id AND space_id = :space_id
    AND NOT EXISTS (SELECT 1 FROM mentions m WHERE m.entity_id = :id)
    AND NOT EXISTS (SELECT 1 FROM relations r WHERE r.subject_id = :id OR r.object_id = :id)

-- name: mentions.add_message
INSERT INTO mentions (entity_id, space_id, kind, session_id, sequence, said_at)
VALUES (:entity_id, :space_id, :kind, :session, :sequence, :said_at)
ON CONFLICT (session_id, sequence, entity_id) WHERE session_id IS NOT NULL DO NOTHING

-- name: mentions.add_record
INSERT INTO mentions (entity_id, space_id, kind, record_id, said_at)
VALUES (:entity_id, :space_id, :kind, :record, :said_at)
ON CONFLICT (record_id, entity_id) WHERE record_id IS NOT NULL DO NOTHING

-- name: mentions.of_session
SELECT DISTINCT entity_id FROM mentions WHERE session_id = :session AND space_id = :space_id ORDER BY entity_id

-- name: mentions.of_record
SELECT DISTINCT entity_id FROM mentions WHERE record_id = :record AND space_id = :space_id ORDER BY entity_id

-- name: mentions.drop_session
DELETE FROM mentions WHERE session_id = :session AND space_id = :space_id

-- name: mentions.drop_record
DELETE FROM mentions WHERE record_id = :record AND space_id = :space_id

-- name: mentions.select
SELECT entity_id, session_id, sequence, record_id, said_at FROM mentions
WHERE space_id = :space_id AND {where} ORDER BY id {order}

-- name: mentions.stamp
-- Changes with every change: what goes is counted, and what comes is numbered higher.
SELECT count(*), coalesce(max(id), 0) FROM mentions WHERE space_id = :space_id

-- name: mentions.places
-- Of records only the chunk tells where they are; of messages the session and the number do.
SELECT m.entity_id, m.session_id, m.sequence, c.id FROM mentions m LEFT JOIN chunks c ON c.record_id = m.record_id
WHERE m.space_id = :space_id AND {where} ORDER BY m.id

-- name: relations.add
INSERT INTO relations (space_id, subject_id, predicate, object_id, value, kind, polarity, sentence, session_id, sequence,
    record_id, said_at)
VALUES (:space_id, :subject_id, :predicate, :object_id, :value, :kind, :polarity, :sentence, :session, :sequence,
    :record, :said_at)

-- name: relations.drop_session
DELETE FROM relations WHERE session_id = :session AND space_id = :space_id

-- name: relations.drop_record
DELETE FROM relations WHERE record_id = :record AND space_id = :space_id

-- name: relations.select
SELECT x.subject_id, x.predicate, x.object_id, x.value, x.kind, x.polarity, x.sentence, x.session_id, x.sequence,
    x.record_id, x.said_at, coalesce(r.valid_from, x.said_at), r.valid_to, r.expires_at
FROM relations x LEFT JOIN records r ON r.id = x.record_id
WHERE x.space_id = :space_id AND {where} ORDER BY x.id

-- name: graph.behind
SELECT s.id FROM sessions s LEFT JOIN cursors c ON c.session_id = s.id AND c.name = :name
WHERE s.space_id = :space_id AND s.message_count > 0 AND s.last_sequence > coalesce(c.sequence, 0)
ORDER BY s.id

-- name: doctor.lost_mentions
SELECT m.id, m.entity_id FROM mentions m JOIN entities e ON e.id = m.entity_id
WHERE m.space_id <> e.space_id OR (m.session_id IS NULL) = (m.record_id IS NULL)
    OR (m.session_id IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM messages g WHERE g.session_id = m.session_id AND g.sequence = m.sequence))

-- name: doctor.lost_relations
SELECT x.id FROM relations x
WHERE (x.session_id IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM messages g WHERE g.session_id = x.session_id AND g.sequence = x.sequence))
    OR (x.session_id IS NULL) = (x.record_id IS NULL)

-- name: doctor.idle_entities
SELECT e.id FROM entities e WHERE NOT EXISTS (SELECT 1 FROM mentions m WHERE m.entity_id = e.id)

-- name: doctor.drop_mention
DELETE FROM mentions WHERE id = :id

-- name: doctor.drop_relation
DELETE FROM relations WHERE id = :id

-- name: doctor.drop_relations_of
DELETE FROM relations WHERE subject_id = :id OR object_id = :id

-- name: doctor.drop_entity
DELETE FROM entities WHERE id = :id

-- name: imports.seen
SELECT 1 FROM imports WHERE tenant = :tenant AND digest = :digest

-- name: imports.note
INSERT INTO imports (digest, tenant, name, sessions, messages, imported_at)
VALUES (:digest, :tenant, :name, :sessions, :messages, :imported_at)

-- name: properties.get
SELECT value FROM properties WHERE name = :name

-- name: properties.set
INSERT INTO properties (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: doctor.spaces
SELECT id FROM spaces ORDER BY id

-- name: doctor.space
SELECT tenant, level, owner, next_ordinal, merged_ordinal, chunk_count, word_count, removals FROM spaces WHERE id = :id {order}

-- name: doctor.space_chunks
SELECT id, word_count, terms, text, kind, name, created_at FROM chunks WHERE id >= :low AND id < :high ORDER BY id

-- name: doctor.reword
UPDATE chunks SET word_count = :word_count, terms = :terms WHERE id = :id

-- name: doctor.session_counts
SELECT s.id, s.last_sequence, s.message_count, count(m.sequence), coalesce(max(m.sequence), 0)
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id
GROUP BY s.id, s.last_sequence, s.message_count
HAVING s.message_count <> count(m.sequence) OR s.last_sequence < coalesce(max(m.sequence), 0)

-- name: doctor.fix_session
UPDATE sessions SET message_count = :message_count, last_sequence = :last_sequence WHERE id = :session

-- name: doctor.summaries
SELECT y.session_id FROM summaries y JOIN sessions s ON s.id = y.session_id WHERE y.upper_sequence > s.last_sequence

-- name: doctor.models
SELECT m.id, m.name, m.dimension, count(v.chunk_id) FROM models m LEFT JOIN vectors v ON v.model_id = m.id
GROUP BY m.id, m.name, m.dimension ORDER BY m.name

-- name: doctor.chunk_count
SELECT count(*) FROM chunks

-- name: doctor.records
SELECT tenant, id, tags, metadata, inputs FROM records ORDER BY id

-- name: doctor.inputs
SELECT record_id, input_id FROM record_inputs ORDER BY record_id, input_id

-- name: doctor.tags
SELECT record_id, tag FROM record_tags ORDER BY record_id, tag

-- name: doctor.metadata
SELECT record_id, key, value FROM record_metadata ORDER BY record_id, key

-- name: stats.tenants
SELECT DISTINCT tenant FROM spaces ORDER BY tenant

-- name: stats.counts
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages), (SELECT count(*) FROM records),
    (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors),
    (SELECT count(*) FROM spaces WHERE level = 'user' AND substr(owner, 1, 1) <> ' ')

-- name: grants.put
INSERT INTO grants (tenant, user_id, name, granted_at, granted_by)
VALUES (:tenant, :user, :name, :granted_at, :granted_by)
ON CONFLICT (tenant, user_id, name) DO NOTHING

-- name: grants.remove
DELETE FROM grants WHERE tenant = :tenant AND user_id = :user AND name = :name

-- name: grants.of
SELECT name FROM grants WHERE tenant = :tenant AND user_id = :user

-- name: grants.list
SELECT user_id, name, granted_at, granted_by FROM grants WHERE tenant = :tenant AND {where} ORDER BY user_id, name

-- name: grants.erase
DELETE FROM grants WHERE tenant = :tenant AND (user_id = :user OR name IN (:reading, :writing))

-- name: grants.disown
UPDATE grants SET granted_by = :instead WHERE tenant = :tenant AND granted_by = :user

-- name: audit.add
-- An id that is there already: the same call again, counted in its row.
INSERT INTO audit
    (id, tenant, at, last_at, principal, verb, access, outcome, user_id, agent, session_id, record_id, missing, calls)
VALUES
    (:id, :tenant, :at, :last_at, :principal, :verb, :access, :outcome, :user, :agent, :session, :record, :missing,
     :calls)
ON CONFLICT (id) DO UPDATE
SET calls = audit.calls + excluded.calls,
    last_at = CASE WHEN audit.last_at > excluded.last_at THEN audit.last_at ELSE excluded.last_at END

-- name: audit.find
SELECT id, at, last_at, principal, tenant, verb, access, outcome, user_id, agent, session_id, record_id, missing, calls
FROM audit WHERE tenant = :tenant AND {where} ORDER BY at DESC, id DESC LIMIT :limit OFFSET :offset

-- name: audit.erase_target
UPDATE audit SET user_id = :instead, session_id = NULL, record_id = NULL, missing = NULL
WHERE tenant = :tenant AND user_id = :user

-- name: audit.erase_sessions
UPDATE audit SET session_id = NULL, missing = NULL
WHERE tenant = :tenant AND session_id IN (SELECT id FROM sessions WHERE tenant = :tenant AND user_id = :user)

-- name: audit.erase_principal
UPDATE audit SET principal = :instead WHERE tenant = :tenant AND principal = :user

-- name: audit.erase_grants
UPDATE audit SET missing = NULL WHERE tenant = :tenant AND missing IN (:reading, :writing)

-- name: audit.trim
DELETE FROM audit WHERE tenant = :tenant AND last_at < :before

-- name: api_keys.add
INSERT INTO api_keys
    (id, tenant, name, secret_hash, user_id, agent, grants, created_at, created_by, expires_at)
VALUES
    (:id, :tenant, :name, :secret_hash, :user, :agent, :grants, :created_at, :created_by, :expires_at)
ON CONFLICT DO NOTHING

-- name: api_keys.free_name
-- A key that has expired gives its name to the next, and counts as revoked since then.
UPDATE api_keys SET revoked_at = expires_at
WHERE tenant = :tenant AND name = :name AND revoked_at IS NULL AND expires_at <= :now

-- name: api_keys.select
SELECT id, tenant, name, user_id, agent, grants, created_at, created_by, expires_at, revoked_at, last_used_at
FROM api_keys WHERE {where} {order}

-- name: api_keys.revoke
UPDATE api_keys SET revoked_at = :now WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL

-- name: api_keys.used
UPDATE api_keys SET last_used_at = :now WHERE tenant = :tenant AND id = :id

-- name: api_keys.any
SELECT 1 FROM api_keys WHERE revoked_at IS NULL LIMIT 1

-- name: api_keys.disown
UPDATE api_keys SET created_by = :instead WHERE tenant = :tenant AND created_by = :user

-- name: api_keys.set_grants
UPDATE api_keys SET grants = :grants WHERE tenant = :tenant AND id = :id

-- name: api_keys.erase
DELETE FROM api_keys WHERE tenant = :tenant AND user_id = :user

-- name: api_keys.unname
UPDATE audit SET principal = :instead
WHERE tenant = :tenant AND principal = :principal AND at >= :since AND at <= :until

-- name: once.add
INSERT INTO once (tenant, owner, kind, key_hash, digest, made_id, made_at)
VALUES (:tenant, :owner, :kind, :key_hash, :digest, :made_id, :made_at)
ON CONFLICT (tenant, owner, kind, key_hash) DO UPDATE
SET digest = excluded.digest, made_id = excluded.made_id, made_at = excluded.made_at

-- name: once.get
SELECT made_id, digest, made_at FROM once
WHERE tenant = :tenant AND owner = :owner AND kind = :kind AND key_hash = :key_hash

-- name: once.trim
DELETE FROM once WHERE (tenant, owner, kind, key_hash) IN
    (SELECT tenant, owner, kind, key_hash FROM once WHERE tenant = :tenant AND made_at < :before LIMIT :limit)

-- name: once.before
DELETE FROM once WHERE tenant = :tenant AND owner = :owner AND made_at < :before

-- name: schedules.select
SELECT s.id, s.tenant, s.user_id, s.agent, s.goal, s.cadence, s.timezone, s.state, s.notify, s.channel, s.chat, s.thread,
    s.session_id, s.next_run_at, s.due_at, s.last_due_at, s.last_run_at, s.last_status, s.attempts, s.failures,
    s.run_count, s.max_runs, s.ends_at, s.anchor_at, s.settled_at, s.leased_until, s.metadata, s.created_at,
    s.updated_at, s.token, s.skipped_from, s.skipped_to
FROM schedules s WHERE {where} {order}

-- name: schedules.count
SELECT count(*) FROM schedules s WHERE {where}

-- name: schedules.insert
INSERT INTO schedules (id, tenant, user_id, agent, goal, goal_folded, cadence, timezone, state, notify, channel, chat,
    thread, session_id, next_run_at, due_at, last_due_at, skipped_from, skipped_to, last_run_at, last_status, attempts,
    failures, run_count, max_runs, ends_at, anchor_at, settled_at, metadata, created_at, updated_at)
VALUES (:id, :tenant, :user, :agent, :goal, :goal_folded, :cadence, :timezone, :state, :notify, :channel, :chat,
    :thread, :session_id, :next_run_at, :due_at, :last_due_at, :skipped_from, :skipped_to, :last_run_at,
    :last_status, :attempts, :failures, :run_count, :max_runs, :ends_at, :anchor_at, :settled_at, :metadata, :created_at, :updated_at)

-- name: schedules.update
UPDATE schedules SET agent = :agent, goal = :goal, goal_folded = :goal_folded, cadence = :cadence,
    timezone = :timezone, state = :state, notify = :notify, channel = :channel, chat = :chat, thread = :thread,
    session_id = :session_id, next_run_at = :next_run_at, due_at = :due_at, last_due_at = :last_due_at,
    skipped_from = :skipped_from, skipped_to = :skipped_to,
    last_run_at = :last_run_at, last_status = :last_status, attempts = :attempts, failures = :failures,
    run_count = :run_count, max_runs = :max_runs, ends_at = :ends_at, anchor_at = :anchor_at,
    settled_at = :settled_at, metadata = :metadata, updated_at = :updated_at
WHERE id = :id AND tenant = :tenant AND user_id = :user

-- name: schedules.delete
DELETE FROM schedules WHERE id = :id AND tenant = :tenant AND user_id = :user

-- name: schedules.delete_runs
DELETE FROM schedule_runs WHERE schedule_id IN (SELECT s.id FROM schedules s WHERE s.id = :id AND s.tenant = :tenant
    AND s.user_id = :user)

-- name: schedules.ended
-- The oldest of a user's that have ended, beyond those that are kept.
SELECT id FROM schedules WHERE tenant = :tenant AND user_id = :user AND state IN ('completed', 'failed')
    AND leased_until = 0
ORDER BY updated_at DESC, id DESC LIMIT 1000 OFFSET :keep

-- name: schedules.lease
UPDATE schedules SET leased_until = :until, token = token + 1, attempts = attempts + 1 WHERE id = :id

-- name: schedules.renew
UPDATE schedules SET leased_until = :until WHERE id = :id AND token = :token AND leased_until > 0

-- name: schedules.release
UPDATE schedules SET leased_until = 0 WHERE id = :id AND token = :token AND leased_until > 0

-- name: schedules.put_back
-- Not run after all: its begun run does not count.
UPDATE schedules SET leased_until = :until, attempts = attempts - 1, token = token + 1
WHERE id = :id AND token = :token AND leased_until > 0

-- name: schedules.free
UPDATE schedules SET leased_until = 0, token = token + 1 WHERE id = :id AND leased_until > :ahead

-- name: schedules.next
SELECT CASE WHEN next_run_at < leased_until THEN leased_until ELSE next_run_at END, tenant FROM schedules s
WHERE state = 'active' AND next_run_at IS NOT NULL AND {where} ORDER BY next_run_at LIMIT 16

-- name: schedules.tenants
SELECT DISTINCT tenant FROM schedules

-- name: schedules.insert_run
INSERT INTO schedule_runs (id, schedule_id, due_at, started_at, ended_at, status, attempt, missed, summary, output,
    characters, turns, cost_nanos, error, notice, notice_until)
VALUES (:id, :schedule_id, :due_at, :started_at, :ended_at, :status, :attempt, :missed, :summary, :output,
    :characters, :turns, :cost_nanos, :error, :notice, :notice_until)

-- name: schedules.trim_runs
DELETE FROM schedule_runs WHERE schedule_id = :schedule_id AND id NOT IN (
    SELECT r.id FROM schedule_runs r WHERE r.schedule_id = :schedule_id ORDER BY r.ended_at DESC, r.id DESC LIMIT :keep)

-- name: schedules.runs
SELECT r.id, r.schedule_id, r.due_at, r.started_at, r.ended_at, r.status, r.attempt, r.missed, r.summary,
    r.characters, r.turns, r.cost_nanos, r.error, r.notice
FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id WHERE {where} {order}

-- name: schedules.whole_output
SELECT r.id, r.output FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id WHERE {where}

-- name: schedules.output
SELECT substr(r.output, :first, :count), r.characters
FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id WHERE {where}

-- name: schedules.notice
SELECT r.id, r.schedule_id, s.tenant, s.user_id, r.output FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.notice = 1 AND r.notice_until <= :now AND r.ended_at > :oldest AND {where}
ORDER BY r.notice_until, r.id LIMIT 1 {order}

-- name: schedules.hold_notice
UPDATE schedule_runs SET notice_until = :until WHERE id = :id AND notice = 1

-- name: schedules.told
UPDATE schedule_runs SET notice = 2 WHERE id = :id AND notice = 1

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

-- name: seals.generation
SELECT number FROM seal_changes

-- name: seals.changed
UPDATE seal_changes SET number = number + 1

-- name: seals.get
SELECT state, version, check_value, old_check, progress FROM seals WHERE tenant = :tenant

-- name: seals.all
SELECT tenant, state, version, check_value, old_check, progress FROM seals ORDER BY tenant

-- name: seals.has_rows
SELECT 1 FROM spaces WHERE tenant = :tenant
UNION ALL SELECT 1 FROM imports WHERE tenant = :tenant
UNION ALL SELECT 1 FROM moves WHERE tenant = :tenant LIMIT 1

-- name: seals.put
INSERT INTO seals (tenant, state, version, check_value, old_check, progress)
VALUES (:tenant, :state, :version, :check_value, :old_check, :progress)
ON CONFLICT (tenant) DO UPDATE SET state = excluded.state, version = excluded.version,
    check_value = excluded.check_value, old_check = excluded.old_check, progress = excluded.progress

-- name: seals.progress
UPDATE seals SET progress = :progress WHERE tenant = :tenant
