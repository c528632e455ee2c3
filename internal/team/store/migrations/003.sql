CREATE TABLE people (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	folded TEXT NOT NULL UNIQUE,
	sum BYTEA NOT NULL,
	added TEXT NOT NULL,
	actor TEXT NOT NULL
);

-- Each row has all roles of a person in a project.
CREATE TABLE roles (
	person TEXT NOT NULL,
	project TEXT NOT NULL,
	roles TEXT NOT NULL,
	sum BYTEA NOT NULL,
	PRIMARY KEY (person, project)
);

CREATE TABLE invitations (
	person TEXT PRIMARY KEY,
	sum BYTEA NOT NULL,
	project TEXT NOT NULL,
	until TEXT NOT NULL,
	actor TEXT NOT NULL
);

CREATE TABLE sessions (
	id TEXT PRIMARY KEY,
	sum BYTEA NOT NULL,
	person TEXT NOT NULL,
	began TEXT NOT NULL,
	until TEXT NOT NULL,
	seen TEXT NOT NULL
);
