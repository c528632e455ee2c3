-- Runs of a project's tools, prompts and resources that somebody has kept as examples, with their result. Neither the
-- request nor the result has a secret of the configuration.
CREATE TABLE examples (
	project TEXT NOT NULL,
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	request TEXT NOT NULL,
	result TEXT NOT NULL,
	made TEXT NOT NULL,
	actor TEXT NOT NULL,
	PRIMARY KEY (project, id)
);
