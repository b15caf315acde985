-- name: schedules.select
SELECT @columns(s schedules), s.leased_until, s.token FROM schedules s WHERE {where} {order}

-- name: schedules.count
SELECT count(*) FROM schedules s WHERE {where}

-- name: schedules.insert
INSERT INTO schedules (bucket, partition_id, text_folded, @columns(schedules))
VALUES (:bucket, :partition_id, :text_folded, @values(schedules))

-- name: schedules.update
UPDATE schedules SET text_folded = :text_folded, @set(schedules)
WHERE bucket = :bucket AND tenant = :tenant AND user_id = :user_id AND id = :id

-- name: schedules.delete
DELETE FROM schedules WHERE bucket = :bucket AND tenant = :tenant AND user_id = :user AND id = :id

-- name: schedules.delete_runs
DELETE FROM schedule_runs WHERE (bucket, partition_id, schedule_id) IN
    (SELECT s.bucket, s.partition_id, s.id FROM schedules s
     WHERE s.bucket = :bucket AND s.tenant = :tenant AND s.user_id = :user AND s.id = :id)

-- name: schedules.ended
-- The oldest of a user's that have ended, beyond those that are kept.
SELECT id FROM schedules WHERE bucket = :bucket AND tenant = :tenant AND user_id = :user AND state IN ('completed', 'failed')
    AND leased_until = 0
ORDER BY updated_at DESC, id DESC LIMIT 1000 OFFSET :keep

-- name: schedules.lease
UPDATE schedules SET leased_until = :until, token = token + 1, attempts = attempts + 1, claimed_at = :now,
    claimed_due_at = due_at WHERE bucket = :bucket AND id = :id

-- name: schedules.claimed
SELECT claimed_at, claimed_due_at FROM schedules WHERE bucket = :bucket AND id = :id

-- name: schedules.renew
UPDATE schedules SET leased_until = :until WHERE bucket = :bucket AND id = :id AND token = :token AND leased_until > 0

-- name: schedules.release
UPDATE schedules SET leased_until = 0 WHERE bucket = :bucket AND id = :id AND token = :token AND leased_until > 0

-- name: schedules.give_back
-- Not run after all: its begun run does not count.
UPDATE schedules SET leased_until = :until, attempts = attempts - 1, token = token + 1
WHERE bucket = :bucket AND id = :id AND token = :token AND leased_until > 0

-- name: schedules.clear_lease
UPDATE schedules SET leased_until = 0, token = token + 1 WHERE bucket = :bucket AND id = :id AND leased_until > :ahead

-- name: schedules.next
SELECT CASE WHEN next_run_at < leased_until THEN leased_until ELSE next_run_at END, tenant FROM schedules s
WHERE state = 'active' AND next_run_at IS NOT NULL AND {where} ORDER BY next_run_at LIMIT 16

-- name: schedules.tenants
SELECT DISTINCT tenant FROM schedules

-- name: schedules.insert_run
INSERT INTO schedule_runs (bucket, partition_id, output, characters, notice, notice_until, @columns(schedule_runs))
SELECT s.bucket, s.partition_id, :output, :characters, :notice, :notice_until, @values(schedule_runs)
FROM schedules s WHERE s.bucket = :bucket AND s.id = :schedule_id AND s.tenant = :tenant

-- name: schedules.trim_runs
DELETE FROM schedule_runs WHERE (bucket, partition_id, schedule_id) IN
    (SELECT s.bucket, s.partition_id, s.id FROM schedules s WHERE s.bucket = :bucket AND s.id = :schedule_id)
    AND id NOT IN (SELECT r.id FROM schedule_runs r JOIN schedules s
        ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id
    WHERE s.bucket = :bucket AND s.id = :schedule_id ORDER BY r.ended_at DESC, r.id DESC LIMIT :keep)

-- name: schedules.runs
SELECT @columns(r schedule_runs), r.characters, r.notice
FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id WHERE {where} {order}

-- name: schedules.whole_output
SELECT r.id, r.output FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id WHERE {where}

-- name: schedules.output
SELECT substr(r.output, :first, :count), r.characters
FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id WHERE {where}

-- name: schedules.notice
SELECT r.id, r.schedule_id, s.tenant, s.user_id, r.output FROM schedule_runs r JOIN schedules s
    ON s.bucket = r.bucket AND s.partition_id = r.partition_id AND s.id = r.schedule_id
WHERE r.notice = 1 AND r.notice_until <= :now AND r.ended_at > :oldest AND {where}
ORDER BY r.notice_until, r.id LIMIT :limit {order}

-- name: schedules.lease_notice
UPDATE schedule_runs SET notice_until = :until WHERE bucket = :bucket AND id = :id AND notice = 1

-- name: schedules.mark_notified
UPDATE schedule_runs SET notice = 2 WHERE bucket = :bucket AND id = :id AND notice = 1
