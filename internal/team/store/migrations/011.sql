-- What people need to recognise their sessions: in which browser it is, from which address it was last used, and
-- how it began. What seen has is a time now, and a day in older rows.
ALTER TABLE sessions ADD COLUMN browser TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN way TEXT NOT NULL DEFAULT '';

-- When the session ends that the invitation opens; '' is thirty days after it was accepted.
ALTER TABLE invitations ADD COLUMN ends TEXT NOT NULL DEFAULT '';
