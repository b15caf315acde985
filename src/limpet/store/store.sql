-- name: partitions.add
-- Its id is the next in the bucket, 4096 above the last.
INSERT INTO partitions (bucket, id, tenant, level, owner)
SELECT :bucket, coalesce(max(id), :bucket) + 4096, :tenant, :level, :owner FROM partitions WHERE bucket = :bucket
ON CONFLICT (bucket, tenant, level, owner) DO NOTHING

-- name: partitions.get
-- With the newest chunk's ordinal, since an append does not write here, and the store's model.
SELECT p.id, p.next_ordinal, p.merged_ordinal, p.chunk_count, p.word_count, p.removals, p.next_graph_id,
    (SELECT max(c.ordinal) FROM chunks c WHERE c.bucket = :bucket AND c.partition_id = p.id),
    (SELECT value FROM properties WHERE name = 'model'), (SELECT value FROM properties WHERE name = 'purges')
FROM partitions p WHERE p.bucket = :bucket AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner

-- name: partitions.find_id
SELECT id FROM partitions WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner {order}

-- name: partitions.list
-- A name never begins with a space; the row of a user who was purged does, and is nobody's.
SELECT tenant, level, owner FROM partitions WHERE substr(owner, 1, 1) <> ' ' ORDER BY id

-- name: partitions.list_tenants
SELECT DISTINCT tenant FROM partitions ORDER BY tenant

-- name: jobs.enqueue
-- One that is put off after a failure stays so: who enqueues it during an outage must not make it hurry. A dead one is
-- revived. Any other runs at the earliest time that somebody asked for.
INSERT INTO jobs (bucket, tenant, level, owner, kind, detail, id, run_at, created_at)
VALUES (:bucket, :tenant, :level, :owner, :kind, :detail, :id, :run_at, :now)
ON CONFLICT (bucket, tenant, level, owner, kind, detail) DO UPDATE SET requests = jobs.requests + 1,
    attempts = CASE WHEN jobs.dead = 1 THEN 0 ELSE jobs.attempts END, dead = 0,
    run_at = CASE WHEN jobs.dead = 1 THEN excluded.run_at
        WHEN jobs.attempts > 0 AND jobs.leased_until = 0 THEN jobs.run_at
        WHEN jobs.run_at < excluded.run_at THEN jobs.run_at
        ELSE excluded.run_at END

-- name: jobs.make_due
UPDATE jobs SET attempts = 0, dead = 0, run_at = 0 WHERE kind = :kind

-- name: jobs.take_over
UPDATE jobs SET leased_until = 0, run_at = :now WHERE kind = :kind AND dead = 0

-- name: jobs.due_buckets
-- Where there is work, without a lock: what is locked must be in one bucket.
SELECT kind, bucket, count(*) FROM jobs WHERE dead = 0 AND run_at <= :now AND leased_until <= :now AND {where}
GROUP BY kind, bucket ORDER BY min(run_at), min(created_at), bucket

-- name: jobs.due
SELECT id, tenant, level, owner, kind, detail, requests, attempts FROM jobs
WHERE bucket = :bucket AND dead = 0 AND run_at <= :now AND leased_until <= :now AND {where}
ORDER BY run_at, created_at, id LIMIT 1 {order}

-- name: jobs.lease
UPDATE jobs SET leased_until = :leased_until, run_at = :leased_until, attempts = attempts + 1
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail

-- name: jobs.renew
UPDATE jobs SET leased_until = :until, run_at = CASE WHEN run_at = leased_until THEN :until ELSE run_at END
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND id = :id AND leased_until = :leased_until

-- name: jobs.finish
DELETE FROM jobs
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND id = :id AND leased_until = :leased_until AND requests = :requests

-- name: jobs.release
-- It was enqueued meanwhile, and runs when that was wanted.
UPDATE jobs SET leased_until = 0, attempts = 0, error = NULL
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND id = :id AND leased_until = :leased_until

-- name: jobs.run_again
UPDATE jobs SET leased_until = 0, attempts = 0, error = NULL,
    run_at = CASE WHEN requests <> :requests AND run_at < :run_at THEN run_at ELSE :run_at END
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND id = :id AND leased_until = :leased_until

-- name: jobs.fail
-- Enqueued during its last attempt it is revived, as it would be if it were enqueued after it.
UPDATE jobs SET leased_until = 0, run_at = :run_at, error = :error,
    dead = CASE WHEN requests = :requests THEN :dead ELSE 0 END,
    attempts = CASE WHEN requests <> :requests AND :dead = 1 THEN 0 ELSE attempts END
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND id = :id AND leased_until = :leased_until

-- name: jobs.next
-- A few: the first ones may be leased, and enqueued again meanwhile.
SELECT CASE WHEN run_at < leased_until THEN leased_until ELSE run_at END FROM jobs WHERE dead = 0 AND {where}
ORDER BY run_at LIMIT 16

-- name: jobs.count
SELECT count(*) FROM jobs WHERE dead = 0 AND {where}

-- name: jobs.find_misdated
SELECT 1 FROM jobs WHERE dead = 0 AND (leased_until > :ahead
    OR (leased_until = 0 AND attempts > 0 AND run_at > :latest)
    OR (leased_until = 0 AND attempts = 0 AND created_at > :ahead AND run_at > :now))
LIMIT 1

-- name: jobs.release_misdated
UPDATE jobs SET leased_until = 0, run_at = :now
WHERE dead = 0 AND (leased_until > :ahead OR (leased_until = 0 AND attempts > 0 AND run_at > :latest))

-- name: jobs.redate
-- As long from now as it was from when it was enqueued.
UPDATE jobs SET run_at = CASE WHEN run_at > created_at THEN :now + run_at - created_at ELSE :now END, created_at = :now
WHERE dead = 0 AND leased_until = 0 AND attempts = 0 AND created_at > :ahead AND run_at > :now

-- name: jobs.cancel
DELETE FROM jobs
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail

-- name: jobs.is_waiting
SELECT 1 FROM jobs
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND detail = :detail
    AND dead = 0

-- name: jobs.find
SELECT id, tenant, level, owner, kind, detail, run_at, attempts, leased_until, error, dead, created_at FROM jobs
WHERE tenant = :tenant AND {where}
ORDER BY dead, run_at, created_at, id LIMIT :limit OFFSET :offset

-- name: jobs.retry
UPDATE jobs SET dead = 0, attempts = 0, leased_until = 0, run_at = :now
WHERE dead = 1 AND tenant = :tenant AND (:any_id = 1 OR id IN :ids[]) AND (:any_kind = 1 OR kind = :kind)

-- name: jobs.drop
DELETE FROM jobs WHERE dead = 1 AND tenant = :tenant AND id IN :ids[]

-- name: idempotency_keys.put
INSERT INTO idempotency_keys (bucket, tenant, level, owner, kind, key_hash, digest, resource_id, created_at)
VALUES (:bucket, :tenant, :level, :owner, :kind, :key_hash, :digest, :resource_id, :created_at)
ON CONFLICT (bucket, tenant, level, owner, kind, key_hash) DO UPDATE
SET digest = excluded.digest, resource_id = excluded.resource_id, created_at = excluded.created_at

-- name: idempotency_keys.get
SELECT resource_id, digest, created_at FROM idempotency_keys
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND kind = :kind AND key_hash = :key_hash

-- name: idempotency_keys.trim
DELETE FROM idempotency_keys WHERE (bucket, tenant, level, owner, kind, key_hash) IN
    (SELECT bucket, tenant, level, owner, kind, key_hash FROM idempotency_keys
     WHERE tenant = :tenant AND created_at < :before LIMIT :limit)

-- name: idempotency_keys.delete_before
DELETE FROM idempotency_keys
WHERE bucket = :bucket AND tenant = :tenant AND level = :level AND owner = :owner AND created_at < :before

-- name: properties.get
SELECT value FROM properties WHERE name = :name

-- name: properties.add_spending
INSERT INTO properties (name, value) VALUES (:name, CAST(:day AS TEXT) || ' ' || CAST(:nanos AS TEXT))
ON CONFLICT (name) DO UPDATE SET value = CAST(:day AS TEXT) || ' ' || CAST(CAST(:nanos AS BIGINT)
    + CASE WHEN substr(properties.value, 1, 10) = CAST(:day AS TEXT) THEN CAST(substr(properties.value, 12) AS BIGINT) ELSE 0 END AS TEXT)

-- name: properties.set
INSERT INTO properties (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: store.count_rows
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages), (SELECT count(*) FROM records),
    (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors),
    (SELECT count(*) FROM partitions WHERE level = 'user' AND substr(owner, 1, 1) <> ' ')

-- name: encryption.generation
SELECT number FROM encryption_changes

-- name: encryption.count_change
UPDATE encryption_changes SET number = number + 1

-- name: encryption.get
SELECT state, version, check_value, old_check, progress FROM tenant_encryption WHERE tenant = :tenant

-- name: encryption.all
SELECT tenant, state, version, check_value, old_check, progress FROM tenant_encryption ORDER BY tenant

-- name: encryption.has_rows
SELECT 1 FROM partitions WHERE tenant = :tenant
UNION ALL SELECT 1 FROM imports WHERE tenant = :tenant
UNION ALL SELECT 1 FROM transfers WHERE tenant = :tenant LIMIT 1

-- name: encryption.put
INSERT INTO tenant_encryption (tenant, state, version, check_value, old_check, progress)
VALUES (:tenant, :state, :version, :check, :old_check, :progress)
ON CONFLICT (tenant) DO UPDATE SET state = excluded.state, version = excluded.version,
    check_value = excluded.check_value, old_check = excluded.old_check, progress = excluded.progress

-- name: encryption.save_progress
UPDATE tenant_encryption SET progress = :progress WHERE tenant = :tenant
