-- Who has written what. An id is that of a user whom Dragoman has vouched for. It's empty if the name is
-- only what the client has said, and both are if nobody knows, as in everything that was written before.
ALTER TABLE items ADD COLUMN author TEXT NOT NULL DEFAULT '';

ALTER TABLE items ADD COLUMN author_id TEXT NOT NULL DEFAULT '';

ALTER TABLE items ADD COLUMN editor TEXT NOT NULL DEFAULT '';

ALTER TABLE items ADD COLUMN editor_id TEXT NOT NULL DEFAULT '';

ALTER TABLE comments ADD COLUMN author_id TEXT NOT NULL DEFAULT '';

ALTER TABLE prompts ADD COLUMN editor TEXT NOT NULL DEFAULT '';

ALTER TABLE prompts ADD COLUMN editor_id TEXT NOT NULL DEFAULT '';
