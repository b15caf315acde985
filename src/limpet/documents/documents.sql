-- name: documents.select
SELECT @columns(d documents),
    (SELECT count(*) FROM chunks c
     WHERE c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id)
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id
WHERE p.bucket = :bucket AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner AND {where} {order}

-- name: documents.insert
INSERT INTO documents (bucket, partition_id, @columns(documents))
VALUES (:bucket, :partition_id, @values(documents))

-- name: documents.update
UPDATE documents SET @set(documents) WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.delete
DELETE FROM documents WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id
