CREATE TABLE replicas (
	incarnation TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	address TEXT NOT NULL,
	fingerprint BYTEA NOT NULL,
	code BYTEA NOT NULL,
	protocol INTEGER NOT NULL,
	version TEXT NOT NULL,
	state TEXT NOT NULL,
	started TIMESTAMPTZ NOT NULL,
	seen TIMESTAMPTZ NOT NULL
);
