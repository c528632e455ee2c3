-- Our own authorization server: clients that have registered, what people have allowed them, and the grants
-- from which their tokens are. The text of a row is JSON, and its sum the signature of the row.
CREATE TABLE oauth_clients (
	id TEXT PRIMARY KEY,
	text TEXT NOT NULL,
	sum BYTEA NOT NULL,
	made TEXT NOT NULL,
	used TEXT NOT NULL
);

CREATE TABLE oauth_grants (
	id TEXT PRIMARY KEY,
	subject TEXT NOT NULL,
	client TEXT NOT NULL,
	text TEXT NOT NULL,
	sum BYTEA NOT NULL,
	open BIGINT NOT NULL,
	made TEXT NOT NULL,
	until TEXT NOT NULL
);

-- The id is made from everything that somebody has allowed.
CREATE TABLE oauth_consents (
	id TEXT PRIMARY KEY,
	subject TEXT NOT NULL,
	client TEXT NOT NULL,
	made TEXT NOT NULL
);
