-- The minute in which the key was last used. It isn't signed, and says nothing about what the key may do.
ALTER TABLE keys ADD COLUMN used TEXT NOT NULL DEFAULT '';
