-- name: notes.select
SELECT @columns(notes), partition_id FROM notes WHERE bucket = :bucket AND partition_id = (SELECT p.id FROM partitions p
    WHERE p.bucket = :bucket AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner) AND {where} ORDER BY name {order}

-- name: notes.insert
INSERT INTO notes (bucket, partition_id, @columns(notes)) VALUES (:bucket, :partition_id, @values(notes))

-- name: notes.update
UPDATE notes SET @set(notes)
WHERE bucket = :bucket AND partition_id = :partition_id AND name = :name AND version = :version - 1

-- name: notes.mark
UPDATE notes SET mirrored = :mirrored, pending = CASE WHEN version = :version THEN 0 ELSE pending END
WHERE bucket = :bucket AND partition_id = :partition_id AND name = :name
    AND (version = :version OR pending <> 0)

-- name: notes.delete
DELETE FROM notes WHERE bucket = :bucket AND partition_id = :partition_id AND name IN :names[]

-- name: notes.pending
SELECT p.tenant, p.level, p.owner, n.name
FROM notes n JOIN partitions p ON p.bucket = n.bucket AND p.id = n.partition_id WHERE n.pending = 1
ORDER BY n.partition_id, n.name

-- name: notes.names
SELECT name FROM notes WHERE bucket = :bucket AND partition_id = :partition_id ORDER BY name

-- name: items.list_outdated
-- Users whose records are not as they were when their files were last written.
SELECT p.tenant, p.owner, p.id, r.state FROM (
    SELECT bucket, partition_id, count(*) || ' ' || max(updated_at) AS state FROM records GROUP BY bucket, partition_id
) r JOIN partitions p ON p.bucket = r.bucket AND p.id = r.partition_id
LEFT JOIN properties q ON q.name = 'items ' || p.id
WHERE p.level = 'user' AND (q.value IS NULL OR q.value <> r.state)

-- name: items.forget_states
DELETE FROM properties WHERE name LIKE 'items %'
