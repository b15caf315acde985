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
