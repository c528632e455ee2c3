-- A definition that was trusted, approved or rejected. The hash isn't of what is kept, in which secrets are masked.
CREATE TABLE pins (
	project TEXT NOT NULL,
	server TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	sum TEXT NOT NULL,
	state TEXT NOT NULL,
	definition BYTEA NOT NULL,
	since TEXT NOT NULL,
	actor TEXT NOT NULL,
	PRIMARY KEY (project, server, kind, name, sum)
);
