-- The newest transaction of each process that writes, by a mark only that process knows. A number alone does not tell whose a transaction
-- was: a standby that takes over gives those out again that it had not heard of.
CREATE TABLE writer (
    name text PRIMARY KEY,
    mark text NOT NULL,
    at timestamptz NOT NULL
);
