CREATE TABLE tenant (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;

-- `name` is the public id. `parent` is where a fork came from; nothing of the parent is copied.
CREATE TABLE thread (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenant (id),
    name TEXT NOT NULL,
    dialect TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    start INTEGER NOT NULL CHECK (start >= 0),
    parent INTEGER REFERENCES thread (id),
    UNIQUE (tenant, name)
) STRICT;

-- `form` says how `data` holds the bytes: 0 as they are, 1 deflated. `digest` is over the bytes themselves; it and the tombstone's mark stand
-- before `data` so that reading them alone never follows a large body into its overflow pages.
CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenant (id),
    digest BLOB NOT NULL CHECK (length(digest) = 20),
    form INTEGER NOT NULL CHECK (form IN (0, 1)),
    erased_at_ms INTEGER,
    data BLOB NOT NULL,
    CHECK (erased_at_ms IS NULL OR length(data) = 0)
) STRICT;

-- Tombstones are left out: bytes that were erased may be appended again, as a row of their own.
CREATE UNIQUE INDEX body_by_digest ON body (tenant, digest) WHERE erased_at_ms IS NULL;

-- `id` is one sequence over the whole file: rows are never deleted, so it only grows, and "newest" has a meaning across threads.
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES thread (id),
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (
        kind IN ('meta', 'turn', 'context', 'item', 'reply', 'checkpoint', 'undo', 'rollback', 'mail', 'note')
    ),
    at_ms INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    target INTEGER,
    chain BLOB,
    depth INTEGER,
    redacted INTEGER NOT NULL DEFAULT 0 CHECK (redacted IN (0, 1)),
    body INTEGER NOT NULL REFERENCES body (id),
    UNIQUE (thread, ordinal),
    CHECK ((chain IS NULL) = (depth IS NULL))
) STRICT;

CREATE INDEX record_by_chain ON record (chain) WHERE chain IS NOT NULL;

-- Covers every column a record has: finding the newest checkpoint of a million-record thread touches no item row.
CREATE INDEX record_landmark ON record (thread, kind, ordinal, at_ms, turn, tokens, target, chain, depth, redacted, body)
WHERE kind NOT IN ('item', 'reply', 'note', 'mail');

CREATE INDEX record_by_turn ON record (thread, turn) WHERE kind = 'turn';

CREATE TABLE lease (
    tenant INTEGER NOT NULL REFERENCES tenant (id),
    key TEXT NOT NULL,
    holder TEXT NOT NULL,
    ttl_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

-- Contentless: the words are here, the text stays in `body`. A row's rowid is its record's id.
CREATE VIRTUAL TABLE search USING fts5 (text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');

-- Every item record up to `upto` is in `search`, unless it was erased; it moves in the transaction that adds the rows. `erasures` counts, so that
-- text which was read before an erasure is not indexed after it.
CREATE TABLE search_mark (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    upto INTEGER NOT NULL,
    erasures INTEGER NOT NULL
) STRICT;

INSERT INTO search_mark (only_row, upto, erasures) VALUES (1, 0, 0);

CREATE TRIGGER record_is_never_updated BEFORE UPDATE ON record
BEGIN
    SELECT RAISE (ABORT, 'records are append-only');
END;

CREATE TRIGGER record_is_never_deleted BEFORE DELETE ON record
BEGIN
    SELECT RAISE (ABORT, 'records are append-only');
END;

CREATE TRIGGER thread_is_never_updated BEFORE UPDATE ON thread
BEGIN
    SELECT RAISE (ABORT, 'threads are append-only');
END;

CREATE TRIGGER thread_is_never_deleted BEFORE DELETE ON thread
BEGIN
    SELECT RAISE (ABORT, 'threads are append-only');
END;

-- `data` stays free: a body may be recompressed, or erased on request. What it was is what its digest says.
CREATE TRIGGER body_keeps_its_digest BEFORE UPDATE OF id, tenant, digest ON body
BEGIN
    SELECT RAISE (ABORT, 'a body keeps its digest');
END;

CREATE TRIGGER body_stays_erased BEFORE UPDATE ON body WHEN OLD.erased_at_ms IS NOT NULL
BEGIN
    SELECT RAISE (ABORT, 'what was erased stays erased');
END;

CREATE TRIGGER body_is_never_deleted BEFORE DELETE ON body
BEGIN
    SELECT RAISE (ABORT, 'a body keeps its digest');
END;

CREATE TRIGGER tenant_is_never_updated BEFORE UPDATE ON tenant
BEGIN
    SELECT RAISE (ABORT, 'a new key would orphan every chain of the tenant');
END;
