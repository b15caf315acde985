-- name: documents.select
-- Without those whose first version is being written, or that are being removed.
SELECT @columns(d documents),
    (SELECT count(*) FROM chunks c
     WHERE c.bucket = :bucket AND c.partition_id = d.partition_id AND c.document_id = d.id AND c.version = d.version)
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id
WHERE d.bucket = :bucket AND p.bucket = :bucket AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner AND d.version IS NOT NULL
    AND {where} {order}

-- name: documents.find_hidden
SELECT id FROM documents WHERE bucket = :bucket AND partition_id = :partition_id AND uri = :uri AND version IS NULL

-- name: documents.last_version
SELECT coalesce(d.version, 0), coalesce((SELECT max(c.version) FROM chunks c
    WHERE c.bucket = :bucket AND c.partition_id = d.partition_id AND c.document_id = d.id), 0)
FROM documents d WHERE d.bucket = :bucket AND d.partition_id = :partition_id AND d.id = :id

-- name: documents.insert
INSERT INTO documents (bucket, partition_id, version, unsettled, @columns(documents))
VALUES (:bucket, :partition_id, :version, :unsettled, @values(documents))

-- name: documents.update
UPDATE documents SET @set(documents) WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.publish
UPDATE documents SET @set(documents), created_at = :created_at, version = :version, unsettled = 1
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.hide
UPDATE documents SET version = NULL, unsettled = 1 WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.unsettle
UPDATE documents SET unsettled = 1 WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.settle
UPDATE documents SET unsettled = 0
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id AND version IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.bucket = :bucket AND c.partition_id = :partition_id
        AND c.document_id = :id AND c.version <> documents.version)

-- name: documents.delete_hidden
DELETE FROM documents WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id AND version IS NULL
    AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.bucket = :bucket AND c.partition_id = :partition_id
        AND c.document_id = :id)

-- name: documents.find_unsettled
-- And whether a job is to settle them.
SELECT p.tenant, p.level, p.owner, d.id,
    EXISTS (SELECT 1 FROM jobs j WHERE j.bucket = d.bucket AND j.kind = 'remove-document' AND j.detail LIKE d.id || ' %')
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id WHERE d.unsettled = 1 ORDER BY d.id
