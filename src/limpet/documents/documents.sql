-- name: documents.select
SELECT d.id, d.uri, d.title, d.metadata, d.content_hash, d.created_at, d.updated_at,
    (SELECT count(*) FROM chunks c
     WHERE c.bucket = d.bucket AND c.partition_id = d.partition_id AND c.document_id = d.id)
FROM documents d JOIN partitions p ON p.bucket = d.bucket AND p.id = d.partition_id
WHERE p.bucket = :bucket AND p.tenant = :tenant AND p.level = :level AND p.owner = :owner AND {where} {order}

-- name: documents.insert
INSERT INTO documents (bucket, partition_id, id, uri, title, content_hash, metadata, created_at, updated_at)
VALUES (:bucket, :partition_id, :id, :uri, :title, :content_hash, :metadata, :created_at, :updated_at)

-- name: documents.update
UPDATE documents SET title = :title, content_hash = :content_hash, metadata = :metadata, updated_at = :updated_at
WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id

-- name: documents.delete
DELETE FROM documents WHERE bucket = :bucket AND partition_id = :partition_id AND id = :id
