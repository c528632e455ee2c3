package main

// scene is one picture of a terminal.
type scene struct {
	name, title string
	files       map[string]string // the files in the directory of the scene, by name
	commands    []command
}

// command is one command of a scene.
type command struct {
	args   []string
	until  string // a text to wait for, after which the command keeps running; "" means to wait for the end of the command
	hidden bool   // neither the command nor its output is shown
}

func (c command) shown() []string { return append([]string{"dragoman"}, c.args...) }

const demo = "http://127.0.0.1:7300/mcp"

var scenes = []scene{
	{
		name: "serve", title: "dragoman serve --demo",
		commands: []command{{args: []string{"serve", "--demo"}, until: "shows this table again"}},
	},
	{
		name: "call", title: "Servers of both eras, called from a terminal",
		commands: []command{
			{args: []string{"serve", "--demo"}, until: "shows this table again", hidden: true},
			{args: []string{"call", demo, "legacy__greet", "name=Ada"}},
			{args: []string{"call", demo, "modern__add", "a=1", "b=41"}},
			{args: []string{"call", demo, "modern__add", "a=1"}},
			{args: []string{"call", demo, "legacy__ask_name", "--accept", "name=Ada"}},
		},
	},
	{
		name: "list", title: "Are all servers well?",
		files: map[string]string{".config/dragoman/config.yaml": `mcpServers:
  notes: {command: dragoman, args: [fake, strict-2024-11-05]}
  search: {command: dragoman, args: [fake, strict-2026-07-28]}
  github: {command: dragoman, args: [fake, crash-at=initialize]}
  files: {command: no-such-program}
`},
		commands: []command{{args: []string{"list"}}},
	},
	{
		name: "doctor", title: "dragoman doctor",
		commands: []command{{args: []string{"doctor", "--", "dragoman", "fake", "stdout-noise"}}},
	},
}
