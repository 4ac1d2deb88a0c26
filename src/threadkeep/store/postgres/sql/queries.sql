-- name: list_migrations
SELECT version, phase FROM threadkeep.migration ORDER BY version;

-- name: has_migrations
SELECT to_regclass('threadkeep.migration') IS NOT NULL;

-- name: add_migration
INSERT INTO threadkeep.migration (version, phase) VALUES (%(version)s, %(phase)s);

-- name: lock_migrations
-- An arbitrary number, the same in every process: of several that open a database at once, one migrates and the others wait. A
-- migration that waits longer than this for a table gives up, because a gateway's readers queue behind it.
SELECT set_config('lock_timeout', '3s', true), pg_advisory_xact_lock(1751932006);

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS threadkeep;

-- name: create_migrations
CREATE TABLE threadkeep.migration (version integer PRIMARY KEY, phase text NOT NULL CHECK (phase IN ('pre', 'post')));

-- name: use_schema
SELECT set_config('search_path', 'threadkeep, pg_temp', true);

-- name: bypasses_row_security
SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user;

-- name: has_role
SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'threadkeep_tenant')
AND has_table_privilege((SELECT oid FROM pg_roles WHERE rolname = 'threadkeep_tenant'), 'threadkeep.record', 'INSERT');

-- name: create_role
-- A role belongs to the whole server: a process of another database may be creating it at this moment.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'threadkeep_tenant') THEN
        CREATE ROLE threadkeep_tenant NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END;
$$;

-- name: grant_role
-- Only what it needs: history is only added to, a body may be erased, leases and the words of a search come and go.
GRANT USAGE ON SCHEMA threadkeep TO threadkeep_tenant;
GRANT SELECT, INSERT ON threadkeep.tenant, threadkeep.thread, threadkeep.record, threadkeep.body TO threadkeep_tenant;
GRANT UPDATE (data, erased_at_ms) ON threadkeep.body TO threadkeep_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON threadkeep.lease, threadkeep.search, threadkeep.writer TO threadkeep_tenant;

-- name: enter_tenant
-- For this transaction only: behind a pooler the next one may belong to another tenant. The role comes last: it may set nothing else.
SELECT
    set_config('search_path', 'threadkeep, pg_temp', true),
    set_config('threadkeep.tenant', %(tenant)s, true),
    set_config('threadkeep.tenant_name', %(name)s, true),
    -- Every query here seeks. Without current statistics the planner would rather gather and sort a whole thread.
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    -- No query is worth compiling, which a server decides by estimated cost.
    set_config('jit', 'off', true),
    set_config('role', %(role)s, true);

-- name: begin_write
-- A server may be configured not to wait for its disk; an append must wait. The mark and the transaction's number show afterwards
-- whether it was committed, if the connection is lost during the commit.
WITH marked AS (
    INSERT INTO threadkeep.writer (name, mark, at) VALUES (%(writer)s, %(mark)s, now())
    ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, at = excluded.at
)
SELECT
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
    pg_current_xact_id()::text;

-- name: has_mark
SELECT EXISTS (SELECT 1 FROM threadkeep.writer WHERE name = %(writer)s AND mark = %(mark)s);

-- name: transaction_status
SELECT pg_xact_status(%(transaction)s::xid8);

-- name: remove_writer
-- Also the rows of writers that were killed; one that is alive adds its row again.
DELETE FROM threadkeep.writer WHERE name = %(writer)s OR at < now() - interval '1 day';

-- name: find_tenant
SELECT id, key FROM tenant WHERE name = %(name)s;

-- name: add_tenant
INSERT INTO tenant (name, key) VALUES (%(name)s, %(key)s) ON CONFLICT (name) DO NOTHING;

-- name: add_threads
INSERT INTO thread (tenant, name, dialect, created_at_ms, start, parent)
SELECT %(tenant)s, given.name, given.dialect, given.created_at_ms, given.start, given.parent
FROM unnest(
    %(names)s::text[], %(dialects)s::text[], %(created_at_ms)s::bigint[], %(starts)s::bigint[], %(parents)s::bigint[]
) WITH ORDINALITY AS given (name, dialect, created_at_ms, start, parent, place)
ORDER BY given.place
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id, name;

-- name: find_threads
SELECT owner.id, owner.name, owner.dialect, owner.created_at_ms, owner.start,
    (SELECT parent.name FROM thread AS parent WHERE parent.id = owner.parent)
FROM thread AS owner
WHERE owner.name = ANY (%(names)s::text[]);

-- name: thread_end
-- Here and below a thread is given by its number: with a known value the planner plans for one partition, not eight.
SELECT record.ordinal, record.at_ms FROM record WHERE record.thread = %(thread)s ORDER BY record.ordinal DESC LIMIT 1;

-- name: thread_ends
SELECT given.thread, newest.ordinal FROM unnest(%(threads)s::bigint[]) AS given (thread), LATERAL (
    SELECT record.ordinal FROM record WHERE record.thread = given.thread ORDER BY record.ordinal DESC LIMIT 1
) AS newest;

-- name: list_threads
SELECT
    owner.name, owner.dialect, owner.created_at_ms, coalesce(newest.at_ms, owner.created_at_ms), owner.start,
    (SELECT parent.name FROM thread AS parent WHERE parent.id = owner.parent),
    coalesce(newest.ordinal + 1, owner.start)
FROM thread AS owner
LEFT JOIN LATERAL (
    SELECT record.ordinal, record.at_ms, record.written
    FROM record WHERE record.thread = owner.id ORDER BY record.ordinal DESC LIMIT 1
) AS newest ON true
WHERE starts_with(owner.name, %(prefix)s)
ORDER BY coalesce(newest.written, 0) DESC, owner.id DESC
LIMIT %(limit)s;

-- name: add_bodies
-- Another transaction may be adding the same bytes: this one then waits for it, and finds its row in the next statement.
INSERT INTO body (tenant, digest, data)
SELECT %(tenant)s, given.digest, given.data FROM unnest(%(digests)s::bytea[], %(data)s::bytea[]) AS given (digest, data)
ON CONFLICT (tenant, digest) WHERE erased_at_ms IS NULL DO NOTHING
RETURNING digest, id;

-- name: find_bodies
-- Held until the commit: an erasure meanwhile would remove the new record's bytes.
SELECT digest, id FROM body WHERE digest = ANY (%(digests)s::bytea[]) AND erased_at_ms IS NULL FOR SHARE;

-- name: append_records
INSERT INTO record (thread, ordinal, tenant, kind, at_ms, turn, tokens, target, chain, depth, redacted, body)
SELECT given.thread, given.ordinal, %(tenant)s, given.kind, given.at_ms, given.turn, given.tokens, given.target, given.chain, given.depth,
    given.redacted, given.body
FROM unnest(
    %(threads)s::bigint[], %(ordinals)s::bigint[], %(kinds)s::text[], %(at_ms)s::bigint[], %(turns)s::bigint[], %(tokens)s::bigint[],
    %(targets)s::bigint[], %(chains)s::bytea[], %(depths)s::bigint[], %(redacted)s::boolean[], %(bodies)s::bigint[]
) WITH ORDINALITY AS given (thread, ordinal, kind, at_ms, turn, tokens, target, chain, depth, redacted, body, place)
ORDER BY given.place;

-- name: newest
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s::text[]))
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: read
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s::text[]))
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
ORDER BY ordinal ASC LIMIT %(limit)s;

-- name: newest_landmarks
-- For kinds a thread has few of: each is sought from its end in the partial index, and only what was found is sorted.
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM (
    SELECT sought.* FROM unnest(%(kinds)s::text[]) AS wanted (kind), LATERAL (
        SELECT record.* FROM record
        WHERE record.thread = %(thread)s
        AND record.kind = wanted.kind AND record.kind NOT IN ('item', 'reply', 'note', 'mail')
        AND ordinal >= %(start)s AND ordinal < %(stop)s
        AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
        AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
        ORDER BY ordinal DESC LIMIT %(limit)s
    ) AS sought
    ORDER BY ordinal DESC LIMIT %(limit)s
) AS found JOIN body ON body.id = found.body
ORDER BY ordinal DESC;

-- name: landmarks
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM (
    SELECT sought.* FROM unnest(%(kinds)s::text[]) AS wanted (kind), LATERAL (
        SELECT record.* FROM record
        WHERE record.thread = %(thread)s
        AND record.kind = wanted.kind AND record.kind NOT IN ('item', 'reply', 'note', 'mail')
        AND ordinal >= %(start)s AND ordinal < %(stop)s
        AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
        AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
        ORDER BY ordinal ASC LIMIT %(limit)s
    ) AS sought
    ORDER BY ordinal ASC LIMIT %(limit)s
) AS found JOIN body ON body.id = found.body
ORDER BY ordinal ASC;

-- name: newest_turn
-- Materialized: asked for the order and the bound as well, the planner would go through the thread's turns until it comes upon this one.
-- As a range, and in its order: without statistics it would else guess the index over landmarks to be as good.
WITH begun AS MATERIALIZED (
    SELECT record.* FROM record
    WHERE record.thread = %(thread)s AND record.kind = 'turn' AND record.turn BETWEEN %(turn)s AND %(turn)s
    ORDER BY record.turn
)
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM begun JOIN body ON body.id = begun.body
WHERE ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: turn
WITH begun AS MATERIALIZED (
    SELECT record.* FROM record
    WHERE record.thread = %(thread)s AND record.kind = 'turn' AND record.turn BETWEEN %(turn)s AND %(turn)s
    ORDER BY record.turn
)
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM begun JOIN body ON body.id = begun.body
WHERE ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
ORDER BY ordinal ASC LIMIT %(limit)s;

-- name: newest_mail
-- The literal kind lets the planner choose the index that holds nothing else.
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s AND record.kind = 'mail'
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: mail
SELECT ordinal, kind, at_ms, turn, tokens, CASE WHEN %(bodies)s THEN body.data ELSE ''::bytea END, body.digest, target, chain, depth,
    redacted, body.erased_at_ms
FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s AND record.kind = 'mail'
AND ordinal >= %(start)s AND ordinal < %(stop)s
AND (%(ordinals)s::bigint[] IS NULL OR ordinal = ANY (%(ordinals)s::bigint[]))
AND (%(turn)s::bigint IS NULL OR turn = %(turn)s::bigint)
ORDER BY ordinal ASC LIMIT %(limit)s;

-- name: lookup_chains
-- Materialized: the planner must not start with the threads, which would walk all of their records.
WITH found AS MATERIALIZED (
    SELECT record.chain, record.thread, record.ordinal, record.depth, record.written
    FROM record WHERE record.chain = ANY (%(chains)s::bytea[])
)
SELECT found.chain, (SELECT thread.name FROM thread WHERE thread.id = found.thread), found.ordinal, found.depth
FROM found
ORDER BY found.written DESC;

-- name: unindexed
-- Item records of a span that no search has seen; what was erased has no words. `+ 0` here and below: said plainly, it would let the
-- planner take the index over digests, and with it go through every body of the tenant.
SELECT record.ordinal, body.data FROM record JOIN body ON body.id = record.body AND body.erased_at_ms + 0 IS NULL
WHERE record.thread = %(thread)s AND record.ordinal >= %(start)s AND record.ordinal < %(stop)s AND record.kind = 'item'
AND (SELECT search.ordinal FROM search WHERE search.thread = %(thread)s AND search.ordinal = record.ordinal) IS NULL
ORDER BY record.ordinal
LIMIT %(limit)s;

-- name: index_words
-- Looked at again, and held: what was erased since it was read, or is being erased, must not be indexed now. The bound of one keeps
-- the planner from beginning with the thread's records.
INSERT INTO search (thread, ordinal, tenant, words)
SELECT %(thread)s, given.ordinal, %(tenant)s, to_tsvector('english', given.words)
FROM unnest(%(ordinals)s::bigint[], %(words)s::text[]) AS given (ordinal, words), LATERAL (
    SELECT body.id FROM record JOIN body ON body.id = record.body
    WHERE record.thread = %(thread)s AND record.ordinal = given.ordinal AND body.erased_at_ms + 0 IS NULL
    LIMIT 1
    FOR SHARE OF body
) AS held
ON CONFLICT (thread, ordinal) DO NOTHING;

-- name: search
WITH asked AS (SELECT to_tsquery('english', %(query)s) AS query)
SELECT DISTINCT search.thread, search.ordinal, ts_rank_cd(search.words, asked.query, 1)
FROM asked, unnest(%(threads)s::bigint[], %(starts)s::bigint[], %(stops)s::bigint[]) AS span (thread, start, stop)
JOIN search ON search.thread = span.thread AND search.ordinal >= span.start AND search.ordinal < span.stop
WHERE search.words @@ asked.query
ORDER BY 3 DESC, search.ordinal DESC
LIMIT %(limit)s;

-- name: bodies_to_erase
SELECT DISTINCT record.body FROM record JOIN body ON body.id = record.body
WHERE record.thread = %(thread)s AND record.ordinal = ANY (%(ordinals)s::bigint[]) AND body.erased_at_ms + 0 IS NULL;

-- name: remove_words
DELETE FROM search USING record
WHERE record.body = ANY (%(bodies)s::bigint[]) AND search.thread = record.thread AND search.ordinal = record.ordinal;

-- name: records_of_bodies
SELECT count(*) FROM record WHERE body = ANY (%(bodies)s::bigint[]);

-- name: erase_bodies
-- Another process may be erasing the same bodies: what it erased is counted there, not here.
UPDATE body SET data = ''::bytea, erased_at_ms = %(at_ms)s WHERE id = ANY (%(bodies)s::bigint[]) AND erased_at_ms + 0 IS NULL
RETURNING id;

-- name: vacuum_bodies
-- The bytes of the replaced row stay in its page until it is vacuumed.
VACUUM (INDEX_CLEANUP ON) threadkeep.body;

-- name: cap_lease
-- More time left than its term: the clock went backwards since, and the term starts again.
UPDATE lease SET expires_at_ms = %(now_ms)s + ttl_ms WHERE key = %(key)s AND expires_at_ms - ttl_ms > %(now_ms)s;

-- name: acquire_lease
-- One statement decides: the row is free, or ours, or expired, or nothing changes.
INSERT INTO lease (tenant, key, holder, ttl_ms, expires_at_ms)
VALUES (%(tenant)s, %(key)s, %(holder)s, %(ttl_ms)s, %(now_ms)s + %(ttl_ms)s)
ON CONFLICT (tenant, key) DO UPDATE
SET holder = excluded.holder, ttl_ms = excluded.ttl_ms, expires_at_ms = excluded.expires_at_ms
WHERE lease.holder = excluded.holder OR lease.expires_at_ms <= %(now_ms)s;

-- name: release_lease
DELETE FROM lease WHERE key = %(key)s AND holder = %(holder)s;

-- name: notify
-- Numbers only: anyone who may connect to the database receives its notifications, of any tenant.
SELECT pg_notify('threadkeep', %(tenant)s::text || ' ' || given.thread::text) FROM unnest(%(threads)s::bigint[]) AS given (thread);

-- name: listen
LISTEN threadkeep;

-- name: backend_pid
SELECT pg_backend_pid();
