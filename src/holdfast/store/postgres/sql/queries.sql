-- name: enter
-- For this transaction alone: behind a pooler the next one may belong to somebody else.
SELECT set_config('holdfast.tenant', %(tenant)s, true), set_config('search_path', %(schema)s, true);

-- name: find_tenant
SELECT id, key FROM tenant WHERE name = %(name)s;

-- name: add_tenant
INSERT INTO tenant (name, key) VALUES (%(name)s, %(key)s) ON CONFLICT (name) DO NOTHING;

-- name: add_thread
INSERT INTO thread (tenant, name, dialect, created_at_ms, start, parent)
VALUES (%(tenant)s, %(name)s, %(dialect)s, %(created_at_ms)s, %(start)s, %(parent)s)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id;

-- name: thread_end
SELECT owner.id, coalesce((SELECT record.ordinal + 1 FROM record WHERE record.thread = owner.id ORDER BY record.ordinal DESC LIMIT 1), owner.start)
FROM thread AS owner WHERE owner.name = %(name)s;

-- name: get_thread
SELECT
    owner.name, owner.dialect, owner.created_at_ms, coalesce(newest.at_ms, owner.created_at_ms), owner.start, parent.name,
    coalesce(newest.ordinal + 1, owner.start)
FROM thread AS owner
LEFT JOIN thread AS parent ON parent.id = owner.parent
LEFT JOIN LATERAL (
    SELECT record.ordinal, record.at_ms FROM record WHERE record.thread = owner.id ORDER BY record.ordinal DESC LIMIT 1
) AS newest ON true
WHERE owner.name = %(name)s;

-- name: list_threads
SELECT
    owner.name, owner.dialect, owner.created_at_ms, coalesce(newest.at_ms, owner.created_at_ms), owner.start, parent.name,
    coalesce(newest.ordinal + 1, owner.start)
FROM thread AS owner
LEFT JOIN thread AS parent ON parent.id = owner.parent
LEFT JOIN LATERAL (
    SELECT record.ordinal, record.at_ms, record.written
    FROM record WHERE record.thread = owner.id ORDER BY record.ordinal DESC LIMIT 1
) AS newest ON true
WHERE starts_with(owner.name, %(prefix)s)
ORDER BY coalesce(newest.written, 0) DESC, owner.id DESC
LIMIT %(limit)s;

-- name: add_bodies
-- Another transaction may be adding the same bytes: this one then waits for it, and takes its row in the next statement.
INSERT INTO body (tenant, digest, data)
SELECT %(tenant)s, given.digest, given.data FROM unnest(%(digests)s::bytea[], %(data)s::bytea[]) AS given (digest, data)
ON CONFLICT (tenant, digest) WHERE erased_at_ms IS NULL DO NOTHING;

-- name: find_bodies
SELECT digest, id FROM body WHERE digest = ANY (%(digests)s::bytea[]) AND erased_at_ms IS NULL;

-- name: append_records
INSERT INTO record (thread, ordinal, tenant, kind, at_ms, turn, tokens, target, chain, depth, redacted, body)
SELECT %(thread)s, given.ordinal, %(tenant)s, given.kind, given.at_ms, given.turn, given.tokens, given.target, given.chain, given.depth,
    given.redacted, given.body
FROM unnest(
    %(ordinals)s::bigint[], %(kinds)s::text[], %(at_ms)s::bigint[], %(turns)s::bigint[], %(tokens)s::bigint[], %(targets)s::bigint[],
    %(chains)s::bytea[], %(depths)s::bigint[], %(redacted)s::boolean[], %(bodies)s::bigint[]
) AS given (ordinal, kind, at_ms, turn, tokens, target, chain, depth, redacted, body)
ORDER BY given.ordinal;

-- name: read
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.name = %(name)s)
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s::text[]))
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint);

-- name: landmarks
-- The same for kinds a thread has few of, worded so that the planner sees the partial index.
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = (SELECT thread.id FROM thread WHERE thread.name = %(name)s)
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND kind NOT IN ('item', 'reply', 'note', 'mail')
AND kind = ANY (%(kinds)s::text[])
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint);

-- name: lookup
SELECT record.chain, thread.name, record.ordinal, record.depth
FROM record JOIN thread ON thread.id = record.thread
WHERE record.chain = ANY (%(chains)s::bytea[])
ORDER BY record.written DESC;

-- name: unindexed
-- Item records of the spans that no search has seen; what was erased has no words.
SELECT record.thread, record.ordinal, thread.dialect, body.data
FROM unnest(%(names)s::text[], %(starts)s::bigint[], %(stops)s::bigint[]) AS span (name, start, stop)
JOIN thread ON thread.name = span.name
JOIN record ON record.thread = thread.id AND record.ordinal >= span.start AND record.ordinal < span.stop AND record.kind = 'item'
JOIN body ON body.id = record.body AND body.erased_at_ms IS NULL
WHERE NOT EXISTS (SELECT 1 FROM search WHERE search.thread = record.thread AND search.ordinal = record.ordinal)
LIMIT %(limit)s;

-- name: index_words
-- Looked at again: what was erased since it was read must not be indexed now.
INSERT INTO search (thread, ordinal, tenant, words)
SELECT given.thread, given.ordinal, %(tenant)s, to_tsvector('english', given.words)
FROM unnest(%(threads)s::bigint[], %(ordinals)s::bigint[], %(words)s::text[]) AS given (thread, ordinal, words)
JOIN record ON record.thread = given.thread AND record.ordinal = given.ordinal
JOIN body ON body.id = record.body AND body.erased_at_ms IS NULL
ON CONFLICT (thread, ordinal) DO NOTHING;

-- name: search
WITH asked AS (SELECT to_tsquery('english', %(query)s) AS query)
SELECT thread.name, search.ordinal, ts_rank_cd(search.words, asked.query, 1)
FROM asked, search JOIN thread ON thread.id = search.thread
WHERE search.words @@ asked.query AND EXISTS (
    SELECT 1 FROM unnest(%(names)s::text[], %(starts)s::bigint[], %(stops)s::bigint[]) AS span (name, start, stop)
    WHERE span.name = thread.name AND search.ordinal >= span.start AND search.ordinal < span.stop
)
ORDER BY 3 DESC, search.ordinal DESC
LIMIT %(limit)s;

-- name: bodies_to_erase
SELECT DISTINCT record.body FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s AND record.ordinal = ANY (%(ordinals)s::bigint[]) AND body.erased_at_ms IS NULL;

-- name: forget_words
DELETE FROM search USING record
WHERE record.body = ANY (%(bodies)s::bigint[]) AND search.thread = record.thread AND search.ordinal = record.ordinal;

-- name: records_of_bodies
SELECT count(*) FROM record WHERE body = ANY (%(bodies)s::bigint[]);

-- name: erase_bodies
UPDATE body SET data = ''::bytea, erased_at_ms = %(at_ms)s WHERE id = ANY (%(bodies)s::bigint[]);

-- name: hold_lease_to_its_term
-- More time left than it was taken for: the clock went backwards since, and its term begins anew.
UPDATE lease SET expires_at_ms = %(now_ms)s + ttl_ms WHERE key = %(key)s AND expires_at_ms - ttl_ms > %(now_ms)s;

-- name: take_lease
-- One statement decides: the row is free, or ours, or expired, or nothing changes.
INSERT INTO lease (tenant, key, holder, ttl_ms, expires_at_ms)
VALUES (%(tenant)s, %(key)s, %(holder)s, %(ttl_ms)s, %(now_ms)s + %(ttl_ms)s)
ON CONFLICT (tenant, key) DO UPDATE
SET holder = excluded.holder, ttl_ms = excluded.ttl_ms, expires_at_ms = excluded.expires_at_ms
WHERE lease.holder = excluded.holder OR lease.expires_at_ms <= %(now_ms)s;

-- name: give_back_lease
DELETE FROM lease WHERE key = %(key)s AND holder = %(holder)s;
