-- Prompts of projects. Of each, newest is the last version, and published the one that is served, or 0.
CREATE TABLE prompts (
	project TEXT NOT NULL,
	name TEXT NOT NULL,
	newest BIGINT NOT NULL,
	published BIGINT NOT NULL,
	active BIGINT NOT NULL,
	PRIMARY KEY (project, name)
);

-- A version is never changed. Its arguments are JSON.
CREATE TABLE prompt_versions (
	project TEXT NOT NULL,
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	description TEXT NOT NULL,
	text TEXT NOT NULL,
	arguments TEXT NOT NULL,
	made TEXT NOT NULL,
	actor TEXT NOT NULL,
	PRIMARY KEY (project, name, version)
);
