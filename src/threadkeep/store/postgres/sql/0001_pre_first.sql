CREATE TABLE tenant (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    key bytea NOT NULL CHECK (length(key) = 32)
);

-- `name` is the public id. `parent` is where a fork came from; nothing of the parent is copied.
CREATE TABLE thread (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenant (id),
    name text NOT NULL COLLATE "C",
    dialect text NOT NULL,
    created_at_ms bigint NOT NULL,
    start bigint NOT NULL CHECK (start >= 0),
    parent bigint REFERENCES thread (id),
    -- The tenant stands last here and below: every query names it, and a planner without statistics would seek by it alone.
    UNIQUE (name, tenant)
);

-- Bytes as they are: the server compresses large values by itself, and keeps them apart from the row.
CREATE TABLE body (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenant (id),
    digest bytea NOT NULL CHECK (length(digest) = 20),
    erased_at_ms bigint,
    data bytea NOT NULL,
    CHECK (erased_at_ms IS NULL OR length(data) = 0)
);

-- Tombstones are left out: bytes that were erased may be appended again, as a row of their own.
CREATE UNIQUE INDEX body_by_digest ON body (digest, tenant) WHERE erased_at_ms IS NULL;

-- `written` orders records across threads. It is given when a row is made, not when it is committed, so that it orders what one
-- writer did, and is no watermark.
CREATE TABLE record (
    thread bigint NOT NULL REFERENCES thread (id),
    ordinal bigint NOT NULL,
    tenant bigint NOT NULL REFERENCES tenant (id),
    written bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (
        kind IN ('meta', 'turn', 'context', 'item', 'reply', 'checkpoint', 'undo', 'rollback', 'mail', 'note')
    ),
    at_ms bigint NOT NULL,
    turn bigint NOT NULL,
    tokens bigint NOT NULL,
    target bigint,
    chain bytea,
    depth bigint,
    redacted boolean NOT NULL DEFAULT false,
    body bigint NOT NULL REFERENCES body (id),
    -- What refuses a stale writer.
    PRIMARY KEY (thread, ordinal),
    CHECK ((chain IS NULL) = (depth IS NULL))
) PARTITION BY HASH (thread);

-- By thread, so that a thread's records lie together and no partition is hotter than the others.
CREATE TABLE record_0 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE record_1 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE record_2 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE record_3 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE record_4 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE record_5 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE record_6 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE record_7 PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER 7);

CREATE INDEX record_by_chain ON record (chain) WHERE chain IS NOT NULL;

-- Finding the newest checkpoint of a million-record thread touches no item row.
CREATE INDEX record_landmark ON record (thread, kind, ordinal) WHERE kind NOT IN ('item', 'reply', 'note', 'mail');

CREATE INDEX record_by_turn ON record (thread, turn) WHERE kind = 'turn';

CREATE INDEX record_by_body ON record (body);

CREATE TABLE lease (
    tenant bigint NOT NULL REFERENCES tenant (id),
    key text NOT NULL,
    holder text NOT NULL,
    ttl_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- The words of an item record, put here by the first search that could find them. Sought by thread: behind the tenant's wall the planner
-- may not hand a text match to an index, because the operator could tell of rows it must not see.
CREATE TABLE search (
    thread bigint NOT NULL,
    ordinal bigint NOT NULL,
    tenant bigint NOT NULL REFERENCES tenant (id),
    words tsvector NOT NULL,
    PRIMARY KEY (thread, ordinal)
);

-- Append-only is the database's affair. TRUNCATE fires no row trigger, and reaches a partition past its parent: each has a trigger of its own.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END;
$$;

CREATE TRIGGER record_is_append_only BEFORE UPDATE OR DELETE ON record FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER thread_is_append_only BEFORE UPDATE OR DELETE ON thread FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER tenant_is_append_only BEFORE UPDATE OR DELETE ON tenant FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER record_stays BEFORE TRUNCATE ON record FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER thread_stays BEFORE TRUNCATE ON thread FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER tenant_stays BEFORE TRUNCATE ON tenant FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER body_stays BEFORE TRUNCATE ON body FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The one change a body knows is that it is erased on request; what it was is what its digest says.
CREATE FUNCTION keep_digest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.digest <> OLD.digest
        OR OLD.erased_at_ms IS NOT NULL OR NEW.erased_at_ms IS NULL
    THEN
        RAISE EXCEPTION 'a body keeps its bytes until it is erased, and its digest for good'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;

CREATE TRIGGER body_keeps_its_digest BEFORE UPDATE OR DELETE ON body FOR EACH ROW EXECUTE FUNCTION keep_digest();

-- The tenant's wall: whatever a query says, rows of another tenant are not there. FORCE, because the owner would else walk through it.
CREATE FUNCTION current_tenant() RETURNS bigint LANGUAGE sql STABLE
RETURN nullif(current_setting('threadkeep.tenant', true), '')::bigint;

-- A tenant is found by its name, before its number is known; its key is nobody else's to read.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY own_name ON tenant
USING (name = current_setting('threadkeep.tenant_name', true)) WITH CHECK (name = current_setting('threadkeep.tenant_name', true));

ALTER TABLE thread ENABLE ROW LEVEL SECURITY;
ALTER TABLE thread FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON thread USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());

ALTER TABLE body ENABLE ROW LEVEL SECURITY;
ALTER TABLE body FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON body USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());

ALTER TABLE record ENABLE ROW LEVEL SECURITY;
ALTER TABLE record FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON record USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());

ALTER TABLE lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE lease FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON lease USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());

ALTER TABLE search ENABLE ROW LEVEL SECURITY;
ALTER TABLE search FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON search USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant());

-- A policy binds who comes through the parent; a partition that is asked by its own name needs its own.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'record'::regclass LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', part);
        EXECUTE format('CREATE POLICY own_rows ON %s USING (tenant = current_tenant()) WITH CHECK (tenant = current_tenant())', part);
        EXECUTE format('CREATE TRIGGER record_stays BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    END LOOP;
END;
$$;
