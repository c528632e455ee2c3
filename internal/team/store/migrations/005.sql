-- Sign-in to servers. The id of a credential, of a registration and of a flow is made from what the value
-- is sealed for.
CREATE TABLE credentials (
	id TEXT PRIMARY KEY,
	project TEXT NOT NULL,
	server TEXT NOT NULL,
	subject TEXT NOT NULL,
	issuer TEXT NOT NULL,
	client TEXT NOT NULL,
	resource TEXT NOT NULL,
	sealed BYTEA NOT NULL,
	generation BIGINT NOT NULL,
	until TEXT NOT NULL,
	renews BIGINT NOT NULL,
	spent BIGINT NOT NULL,
	since TEXT NOT NULL,
	changed TEXT NOT NULL,
	owner TEXT NOT NULL,
	owned_until TEXT NOT NULL,
	fence BIGINT NOT NULL
);

CREATE TABLE registrations (
	id TEXT PRIMARY KEY,
	issuer TEXT NOT NULL,
	redirect TEXT NOT NULL,
	client TEXT NOT NULL,
	sealed BYTEA NOT NULL,
	until TEXT NOT NULL,
	made TEXT NOT NULL
);

CREATE TABLE flows (
	id TEXT PRIMARY KEY,
	project TEXT NOT NULL,
	server TEXT NOT NULL,
	subject TEXT NOT NULL,
	sealed BYTEA NOT NULL,
	began TEXT NOT NULL,
	until TEXT NOT NULL,
	opened TEXT NOT NULL,
	taken TEXT NOT NULL,
	outcome TEXT NOT NULL,
	UNIQUE (project, server, subject)
);
