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

-- name: records.add_tag
INSERT INTO record_tags (record_id, tag) VALUES (:id, :tag)

-- name: records.add_metadata
INSERT INTO record_metadata (record_id, key, value) VALUES (:id, :key, :value)

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

-- name: doctor.records
SELECT tenant, id, tags, metadata, inputs FROM records ORDER BY id

-- name: doctor.inputs
SELECT record_id, input_id FROM record_inputs ORDER BY record_id, input_id

-- name: doctor.tags
SELECT record_id, tag FROM record_tags ORDER BY record_id, tag

-- name: doctor.metadata
SELECT record_id, key, value FROM record_metadata ORDER BY record_id, key
