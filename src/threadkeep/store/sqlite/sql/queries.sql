-- name: find_tenant
SELECT id, name, key FROM tenant WHERE name = :name;

-- name: add_tenant
-- OR IGNORE: another process may have added it since it was looked for; then its key counts.
INSERT OR IGNORE INTO tenant (name, key) VALUES (:name, :key);

-- name: add_thread
INSERT INTO thread (tenant, name, dialect, created_at_ms, start, parent)
VALUES (:tenant, :name, :dialect, :created_at_ms, :start, :parent);

-- name: thread_end
-- The id of a thread and the ordinal of its next record. Read inside the write transaction: what another process appended is
-- seen here, or cannot happen before the commit.
SELECT owner.id, coalesce((SELECT max(record.ordinal) + 1 FROM record WHERE record.thread = owner.id), owner.start)
FROM thread AS owner
WHERE owner.tenant = :tenant AND owner.name = :name;

-- name: get_thread
SELECT
    owner.name, owner.dialect, owner.created_at_ms, coalesce(newest.at_ms, owner.created_at_ms), owner.start, parent.name,
    coalesce(newest.ordinal + 1, owner.start)
FROM thread AS owner
LEFT JOIN thread AS parent ON parent.id = owner.parent
LEFT JOIN record AS newest
    ON newest.thread = owner.id
    AND newest.ordinal = (SELECT max(record.ordinal) FROM record WHERE record.thread = owner.id)
WHERE owner.tenant = :tenant AND owner.name = :name;

-- name: list_threads
-- substr, not LIKE: '%' and '_' are letters of an id, and LIKE would fold case.
SELECT
    owner.name, owner.dialect, owner.created_at_ms, coalesce(newest.at_ms, owner.created_at_ms), owner.start, parent.name,
    coalesce(newest.ordinal + 1, owner.start)
FROM thread AS owner
LEFT JOIN thread AS parent ON parent.id = owner.parent
LEFT JOIN record AS newest
    ON newest.thread = owner.id
    AND newest.ordinal = (SELECT max(record.ordinal) FROM record WHERE record.thread = owner.id)
WHERE owner.tenant = :tenant AND owner.name >= :prefix AND substr(owner.name, 1, length(:prefix)) = :prefix
ORDER BY newest.id DESC, owner.id DESC
LIMIT :limit;

-- name: add_body
-- OR IGNORE makes the usual case, a body never seen, one statement; only a repeated body needs `find_body`.
INSERT OR IGNORE INTO body (tenant, digest, form, data) VALUES (?, ?, ?, ?);

-- name: find_body
SELECT id FROM body WHERE tenant = ? AND digest = ? AND erased_at_ms IS NULL;

-- name: append_record
-- The unique key on (thread, ordinal) is the last word against a stale writer.
INSERT INTO record (thread, ordinal, kind, at_ms, turn, tokens, target, chain, depth, redacted, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- `read` is composed of one of these two beginnings, one of the four sources after them, and filters whose values are
-- always bound.

-- name: read_whole
SELECT ordinal, kind, at_ms, turn, tokens, body.form, body.data, body.digest, target, chain, depth, redacted, body.erased_at_ms;

-- name: read_without_bodies
SELECT ordinal, kind, at_ms, turn, tokens, 0, x'', body.digest, target, chain, depth, redacted, body.erased_at_ms;

-- name: from_records
FROM record JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.tenant = ? AND thread.name = ?)
AND ordinal >= ? AND ordinal < ?;

-- name: from_ordinals
-- The plus signs keep the planner from walking the span: the ordinals asked for are the way in, the span only bounds them.
FROM record JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.tenant = ? AND thread.name = ?)
AND +ordinal >= ? AND +ordinal < ?;

-- name: from_landmarks
-- Named, because for several kinds the planner would rather walk the whole span, items and all, than sort a handful.
FROM record INDEXED BY record_landmark JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.tenant = ? AND thread.name = ?)
AND ordinal >= ? AND ordinal < ? AND kind NOT IN ('item', 'reply', 'note', 'mail');

-- name: from_turns
FROM record INDEXED BY record_by_turn JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.tenant = ? AND thread.name = ?)
AND ordinal >= ? AND ordinal < ? AND kind = 'turn';

-- name: lookup_chain
-- The join keeps tenants apart: digests are keyed per tenant, and a guess at another's still finds nothing.
SELECT record.id, thread.name, record.ordinal, record.depth
FROM record JOIN thread ON thread.id = record.thread
WHERE record.chain = :chain AND thread.tenant = :tenant;

-- name: bodies_to_erase
SELECT DISTINCT record.body FROM record JOIN body ON body.id = record.body
WHERE record.thread = :thread AND record.ordinal IN (SELECT value FROM json_each(:ordinals)) AND body.erased_at_ms IS NULL;

-- name: records_of_bodies
-- How many records lose their body, and the first of them that search may have seen. Walks the table: erasing is rare, and an index on `body`
-- would be paid for by every append.
SELECT count(*), min(id) FILTER (WHERE kind = 'item') FROM record WHERE body IN (SELECT value FROM json_each(:bodies));

-- name: erase_body
UPDATE body SET form = 0, data = x'', erased_at_ms = :at_ms WHERE id = :id;

-- name: count_erasure
UPDATE search_mark SET erasures = erasures + 1;

-- name: empty_index
INSERT INTO search (search) VALUES ('delete-all');

-- name: reset_index_mark
UPDATE search_mark SET upto = 0;

-- name: newest_record
SELECT coalesce(max(id), 0) FROM record;

-- name: index_state
SELECT upto, erasures, coalesce((SELECT max(id) FROM record), 0) FROM search_mark;

-- name: unindexed
SELECT record.id, thread.dialect, body.form, body.data
FROM record JOIN thread ON thread.id = record.thread JOIN body ON body.id = record.body
WHERE record.id > :upto AND record.id <= :newest AND record.kind = 'item' AND body.erased_at_ms IS NULL
ORDER BY record.id;

-- name: move_index_mark
-- Compare and set: of two searches that read the same batch, one writes it; a search that read it before an erasure does not.
UPDATE search_mark SET upto = :upto WHERE upto = :was AND erasures = :erasures;

-- name: index_text
INSERT INTO search (rowid, text) VALUES (?, ?);

-- name: search
-- The spans are materialized once, before the index is read; EXISTS, not a join: spans may overlap and a record is one hit.
-- CROSS JOIN holds the planner to the order: given spans first, their threads by name, not every thread for every span.
WITH span (thread, first, stop) AS MATERIALIZED (
    SELECT thread.id, json_extract(given.value, '$[1]'), json_extract(given.value, '$[2]')
    FROM json_each(:spans) AS given
    CROSS JOIN thread ON thread.tenant = :tenant AND thread.name = json_extract(given.value, '$[0]')
)
SELECT thread.name, record.ordinal, -bm25(search)
FROM search JOIN record ON record.id = search.rowid JOIN thread ON thread.id = record.thread
WHERE search MATCH :match AND EXISTS (
    SELECT 1 FROM span
    WHERE span.thread = record.thread AND record.ordinal >= span.first AND record.ordinal < span.stop
)
ORDER BY bm25(search), record.id DESC
LIMIT :limit;

-- name: cap_lease
-- More time left than its term: the clock went backwards since, and the term starts again.
UPDATE lease SET expires_at_ms = :now_ms + ttl_ms
WHERE tenant = :tenant AND key = :key AND expires_at_ms - ttl_ms > :now_ms;

-- name: acquire_lease
-- One statement decides: the row is free, or ours, or expired, or nothing changes.
INSERT INTO lease (tenant, key, holder, ttl_ms, expires_at_ms) VALUES (:tenant, :key, :holder, :ttl_ms, :now_ms + :ttl_ms)
ON CONFLICT (tenant, key) DO UPDATE
SET holder = excluded.holder, ttl_ms = excluded.ttl_ms, expires_at_ms = excluded.expires_at_ms
WHERE lease.holder = excluded.holder OR lease.expires_at_ms <= :now_ms;

-- name: release_lease
DELETE FROM lease WHERE tenant = :tenant AND key = :key AND holder = :holder;
