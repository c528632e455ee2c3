-- The acts get a chain, in which those without one have no place.
DROP TABLE acts;

DELETE FROM counters WHERE name = 'acts';

CREATE TABLE acts (
	seq BIGINT PRIMARY KEY,
	actor TEXT NOT NULL,
	via TEXT NOT NULL,
	project TEXT NOT NULL,
	action TEXT NOT NULL,
	object TEXT NOT NULL,
	was TEXT NOT NULL,
	became TEXT NOT NULL,
	happened TEXT NOT NULL,
	prev BYTEA NOT NULL,
	sum BYTEA NOT NULL
);
