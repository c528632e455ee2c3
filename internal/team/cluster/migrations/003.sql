-- What a crash of the database loses of it is told again within a second.
CREATE UNLOGGED TABLE usage (
	incarnation TEXT NOT NULL,
	party TEXT NOT NULL,
	demand DOUBLE PRECISION NOT NULL,
	in_flight INTEGER NOT NULL,
	written TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (incarnation, party)
);
CREATE TABLE heads (
	trail TEXT PRIMARY KEY,
	replica TEXT NOT NULL,
	file INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	sum BYTEA NOT NULL,
	code BYTEA NOT NULL,
	written TIMESTAMPTZ NOT NULL
);
