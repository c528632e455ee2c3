-- The statements are the same for SQLite and PostgreSQL. SQLite takes the type BYTEA for any other, and
-- leaves bytes as they are.
CREATE TABLE acts (
	seq BIGINT PRIMARY KEY,
	actor TEXT NOT NULL,
	action TEXT NOT NULL,
	object TEXT NOT NULL,
	happened TEXT NOT NULL
);

CREATE TABLE house (
	name TEXT PRIMARY KEY,
	value BYTEA NOT NULL
);

CREATE TABLE secrets (
	project TEXT NOT NULL,
	name TEXT NOT NULL,
	sealed BYTEA NOT NULL,
	changed TEXT NOT NULL,
	actor TEXT NOT NULL,
	PRIMARY KEY (project, name)
);
