-- The statements are the same for SQLite and PostgreSQL.
CREATE TABLE items (
	id TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	rank BIGINT NOT NULL,
	number BIGINT NOT NULL,
	parent TEXT REFERENCES items (id),
	title TEXT NOT NULL,
	description TEXT NOT NULL,
	status TEXT NOT NULL,
	type TEXT NOT NULL,
	priority TEXT NOT NULL,
	version BIGINT NOT NULL,
	created TEXT NOT NULL,
	updated TEXT NOT NULL,
	haystack TEXT NOT NULL
);

CREATE UNIQUE INDEX items_order ON items (rank, number);

CREATE INDEX items_parent ON items (parent);

CREATE TABLE relations (
	id TEXT PRIMARY KEY,
	number BIGINT NOT NULL,
	source TEXT NOT NULL REFERENCES items (id),
	type TEXT NOT NULL,
	target TEXT NOT NULL REFERENCES items (id),
	created TEXT NOT NULL,
	UNIQUE (source, type, target)
);

CREATE INDEX relations_target ON relations (target);

CREATE TABLE comments (
	id TEXT PRIMARY KEY,
	number BIGINT NOT NULL,
	item TEXT NOT NULL REFERENCES items (id),
	author TEXT NOT NULL,
	body TEXT NOT NULL,
	resolved BIGINT NOT NULL,
	created TEXT NOT NULL,
	haystack TEXT NOT NULL
);

CREATE INDEX comments_item ON comments (item, number);

CREATE TABLE prompts (
	name TEXT PRIMARY KEY,
	title TEXT NOT NULL,
	description TEXT NOT NULL,
	content TEXT NOT NULL,
	active BIGINT NOT NULL,
	version BIGINT NOT NULL,
	created TEXT NOT NULL,
	updated TEXT NOT NULL
);

CREATE UNIQUE INDEX prompts_active ON prompts (active) WHERE active = 1;
