package main

// scene is one picture of a terminal.
type scene struct {
	name, title string
	files       map[string]string // in its directory
	commands    []command
}

// command is one command of a scene.
type command struct {
	args   []string
	until  string // it goes on running once it has printed this; "" waits for its end
	hidden bool   // neither the command nor its output is shown
}

func (c command) shown() []string { return append([]string{"dragoman"}, c.args...) }

var scenes = []scene{
	{
		name: "serve", title: "dragoman serve --demo",
		commands: []command{{args: []string{"serve", "--demo", "--listen", "127.0.0.1:7300"}, until: "modern"}},
	},
	{
		name: "call", title: "One call across the eras",
		commands: []command{
			{args: []string{"serve", "--demo", "--listen", "127.0.0.1:7300"}, until: "modern", hidden: true},
			{args: []string{"call", "http://127.0.0.1:7300/mcp", "legacy__greet", "name=Ada"}},
			{args: []string{"call", "http://127.0.0.1:7300/mcp", "modern__add", "a=1", "b=41"}},
		},
	},
	{
		name: "doctor", title: "dragoman doctor",
		commands: []command{{args: []string{"doctor", "--", "dragoman", "fake", "stdout-noise"}}},
	},
	{
		name: "failure", title: "A failure says why",
		commands: []command{{args: []string{"list", "--", "node-not-installed", "server.js"}}},
	},
}
