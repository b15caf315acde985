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
INSERT INTO audit (@columns(audit)) VALUES (@values(audit))
ON CONFLICT (tenant, id) DO UPDATE
SET calls = audit.calls + excluded.calls,
    last_at = CASE WHEN audit.last_at > excluded.last_at THEN audit.last_at ELSE excluded.last_at END

-- name: audit.find
SELECT @columns(audit)
FROM audit WHERE tenant = :tenant AND {where} ORDER BY at DESC, id DESC LIMIT :limit OFFSET :offset

-- name: audit.erase_target
UPDATE audit SET user_id = :instead, session_id = NULL, record_id = NULL, missing = NULL
WHERE tenant = :tenant AND user_id = :user

-- name: audit.erase_sessions
UPDATE audit SET session_id = NULL, missing = NULL
WHERE tenant = :tenant AND session_id IN :sessions[]

-- name: audit.erase_principal
UPDATE audit SET principal = :instead WHERE tenant = :tenant AND principal = :user

-- name: audit.erase_grants
UPDATE audit SET missing = NULL WHERE tenant = :tenant AND missing IN (:reading, :writing)

-- name: audit.trim
DELETE FROM audit WHERE tenant = :tenant AND last_at < :before

-- name: api_keys.add
INSERT INTO api_keys (secret_hash, @columns(api_keys)) VALUES (:secret_hash, @values(api_keys))
ON CONFLICT DO NOTHING

-- name: api_keys.free_name
-- A key that has expired gives its name to the next, and counts as revoked since then.
UPDATE api_keys SET revoked_at = expires_at
WHERE tenant = :tenant AND name = :name AND revoked_at IS NULL AND expires_at <= :now

-- name: api_keys.select
SELECT @columns(api_keys) FROM api_keys WHERE {where} {order}

-- name: api_keys.revoke
UPDATE api_keys SET revoked_at = :now WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL

-- name: api_keys.used
UPDATE api_keys SET last_used_at = :now WHERE tenant = :tenant AND id = :id

-- name: api_keys.any
SELECT 1 FROM api_keys WHERE revoked_at IS NULL LIMIT 1

-- name: api_keys.required
SELECT 1 FROM properties WHERE name = 'api_keys_required'
UNION ALL
SELECT 1 FROM api_keys WHERE revoked_at IS NULL
LIMIT 1

-- name: api_keys.require
INSERT INTO properties (name, value) VALUES ('api_keys_required', 'true') ON CONFLICT (name) DO NOTHING

-- name: api_keys.allow_anonymous
DELETE FROM properties WHERE name = 'api_keys_required'

-- name: api_keys.disown
UPDATE api_keys SET created_by = :instead WHERE tenant = :tenant AND created_by = :user

-- name: api_keys.set_grants
UPDATE api_keys SET grants = :grants WHERE tenant = :tenant AND id = :id

-- name: api_keys.erase
DELETE FROM api_keys WHERE tenant = :tenant AND user_id = :user

-- name: api_keys.unname
UPDATE audit SET principal = :instead
WHERE tenant = :tenant AND principal = :principal AND at >= :since AND at <= :until

-- name: audit.sessions_of
SELECT s.id FROM sessions s WHERE s.bucket = :bucket AND s.tenant = :tenant AND s.user_id = :user
