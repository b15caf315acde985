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

-- name: properties.get
SELECT value FROM properties WHERE name = :name

-- name: properties.set
INSERT INTO properties (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: stats.tenants
SELECT DISTINCT tenant FROM spaces ORDER BY tenant

-- name: stats.counts
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages), (SELECT count(*) FROM records),
    (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors),
    (SELECT count(*) FROM spaces WHERE level = 'user' AND substr(owner, 1, 1) <> ' ')

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

-- name: copy.number_jobs sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM jobs) WHERE name = 'jobs'

-- name: copy.number_jobs postgres
SELECT setval(pg_get_serial_sequence('jobs', 'id'), max(id)) FROM jobs HAVING max(id) IS NOT NULL

-- name: copy.number_spaces sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM spaces) WHERE name = 'spaces'

-- name: copy.number_spaces postgres
SELECT setval(pg_get_serial_sequence('spaces', 'id'), max(id)) FROM spaces HAVING max(id) IS NOT NULL

-- name: copy.number_models sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM models) WHERE name = 'models'

-- name: copy.number_models postgres
SELECT setval(pg_get_serial_sequence('models', 'id'), max(id)) FROM models HAVING max(id) IS NOT NULL

-- name: copy.number_entities sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM entities) WHERE name = 'entities'

-- name: copy.number_entities postgres
SELECT setval(pg_get_serial_sequence('entities', 'id'), max(id)) FROM entities HAVING max(id) IS NOT NULL

-- name: copy.number_mentions sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM mentions) WHERE name = 'mentions'

-- name: copy.number_mentions postgres
SELECT setval(pg_get_serial_sequence('mentions', 'id'), max(id)) FROM mentions HAVING max(id) IS NOT NULL

-- name: copy.number_relations sqlite
UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM relations) WHERE name = 'relations'

-- name: copy.number_relations postgres
SELECT setval(pg_get_serial_sequence('relations', 'id'), max(id)) FROM relations HAVING max(id) IS NOT NULL
