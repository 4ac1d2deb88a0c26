-- An agent that lives for long has little mail among many items, and looks for it at every turn.
CREATE INDEX record_mail ON record (thread, ordinal) WHERE kind = 'mail';
