CREATE TABLE projects (
	name TEXT PRIMARY KEY,
	text TEXT NOT NULL,
	version BIGINT NOT NULL,
	changed TEXT NOT NULL,
	actor TEXT NOT NULL
);
