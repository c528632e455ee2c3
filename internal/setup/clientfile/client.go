package clientfile

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is one MCP client with a known configuration file. Callers get clients from Clients, ByID
// or Identify.
type Client struct {
	ID    string // the name on the command line, such as "claude-code"
	Title string // the name in messages, such as "Claude Code"
	// Reload tells the user how to make the client read a changed file: "restart Cursor". It names only
	// what the client's own documents say, and is true for new, changed and removed entries.
	Reload string
	// HTTP means that an entry in the client's file can specify a server by URL.
	HTTP bool

	refs      refs
	converted bool                  // entries in the client's file have a different format from entries in dragoman.yaml
	container []string              // the path of keys to the servers
	timeout   string                // the unit of the key "timeout"; "" if the client has no such key
	byURL     func(string) *Value   // creates the entry for a URL
	byCommand func([]string) *Value // creates the entry for a command
}

// Clients returns the clients with a known configuration file, in a fixed order.
func Clients() []*Client { return slices.Clone(clients) }

var clients = []*Client{
	{
		ID: "claude", Title: "Claude Desktop", Reload: "quit Claude Desktop and start it again",
		refs: refsNone, container: []string{"mcpServers"}, byCommand: command(""),
	},
	{
		ID: "claude-code", Title: "Claude Code", Reload: "start a new session of Claude Code", HTTP: true,
		refs: refsBraces, container: []string{"mcpServers"}, timeout: "ms", byURL: typed("http"), byCommand: command("stdio"),
	},
	{
		ID: "cursor", Title: "Cursor", Reload: "restart Cursor", HTTP: true,
		refs: refsEditor, container: []string{"mcpServers"}, byURL: typed(""), byCommand: command(""),
	},
	{
		ID: "vscode", Title: "VS Code", Reload: "reload the window of VS Code, or start the server with the command MCP: List Servers", HTTP: true,
		refs: refsEditor, container: []string{"servers"}, byURL: typed("http"), byCommand: command("stdio"),
	},
	{
		ID: "codex", Title: "Codex", Reload: "start Codex again; its command line, editor extension and app all read this file", HTTP: true,
		refs: refsNone, container: []string{"mcp_servers"}, byURL: typed(""), byCommand: command(""),
	},
	{
		ID: "gemini", Title: "Gemini CLI", Reload: "start Gemini CLI again", HTTP: true,
		refs: refsDollar, container: []string{"mcpServers"}, timeout: "ms",
		byURL:     func(url string) *Value { return Mapping("url", Text(url), "type", Text("http")) },
		byCommand: command(""),
	},
	{
		ID: "opencode", Title: "opencode", Reload: "start opencode again", HTTP: true,
		refs: refsOpencode, container: []string{"mcp"}, timeout: "ms", byURL: typed("remote"),
		byCommand: func(words []string) *Value { return Mapping("type", Text("local"), "command", Texts(words)) },
	},
}

// generic represents an unknown client whose file has mcpServers.
var generic = &Client{ID: "", Title: "an MCP client", refs: refsAny, container: []string{"mcpServers"}}

// ByID returns the client with the given ID.
func ByID(id string) (*Client, bool) {
	for _, c := range clients {
		if c.ID == id {
			return c, true
		}
	}
	return nil, false
}

// otherNames are further names of clients, as people write them.
var otherNames = map[string]string{
	"claudedesktop": "claude", "claudecode": "claude-code", "claudecli": "claude-code",
	"code": "vscode", "visualstudiocode": "vscode", "copilot": "vscode", "githubcopilot": "vscode",
	"codexcli": "codex", "geminicli": "gemini",
}

// ByName returns the client with the given ID, or with another usual name, such as claude-desktop. Upper
// case, spaces, dashes and underscores make no difference.
func ByName(word string) (*Client, bool) {
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
	if other := otherNames[plain]; other != "" {
		plain = other
	}
	return ByID(plain)
}

// IDs returns the IDs of all clients.
func IDs() []string {
	var out []string
	for _, c := range clients {
		out = append(out, c.ID)
	}
	return out
}

// typed returns a function that creates an entry for a URL. If kind is not "", the entry has a
// member "type" with this value.
func typed(kind string) func(string) *Value {
	return func(url string) *Value {
		if kind == "" {
			return Mapping("url", Text(url))
		}
		return Mapping("type", Text(kind), "url", Text(url))
	}
}

// command returns a function that creates an entry for a command. If kind is not "", the entry has
// a member "type" with this value.
func command(kind string) func([]string) *Value {
	return func(words []string) *Value {
		v := Mapping("command", Text(words[0]), "args", Texts(words[1:]))
		if kind == "" {
			return v
		}
		v.Members = append([]Member{{Key: "type", Value: Text(kind)}}, v.Members...)
		return v
	}
}

// Identify returns the client that a file belongs to. It first looks at the path, and then at the
// keys in the file. If the file has mcpServers but could belong to any client, Identify returns a
// client with the ID "". It returns nil if it finds no client.
func Identify(path string, root *Value) *Client {
	slashed := strings.ToLower(strings.ReplaceAll(filepath.ToSlash(path), `\`, "/"))
	folders := strings.Split(slashed, "/")
	base := folders[len(folders)-1]
	folder := ""
	if len(folders) > 1 {
		folder = folders[len(folders)-2]
	}
	pick := func(id string) *Client { c, _ := ByID(id); return c }
	switch {
	case base == "claude_desktop_config.json":
		return pick("claude")
	case base == ".claude.json", base == ".mcp.json" && root.Get("mcpServers") != nil:
		return pick("claude-code")
	case folder == ".cursor" && root.Get("mcpServers") != nil:
		return pick("cursor")
	case folder == ".gemini" && strings.HasSuffix(base, ".json"):
		return pick("gemini")
	case isMap(root.Get("mcp_servers")):
		return pick("codex")
	case isMap(root.Get("mcpServers")):
		return generic
	case isOrchestrator(path, root):
		return orchestrator
	case isMap(root.Get("servers")), isMap(root.Get("mcp", "servers")) && !strings.HasPrefix(base, "opencode"):
		return pick("vscode")
	case isMap(root.Get("mcp")):
		return pick("opencode")
	}
	return nil
}

// Plain reports whether the servers in a client's files have the same format as in dragoman.yaml.
func (c *Client) Plain() bool { return (c.ID == "" || c.ID == "claude") && !c.converted }

func isMap(v *Value) bool { return v != nil && v.Kind == Map }

// containers returns the paths of keys at which a file of the client may have servers. The caller
// uses the first path that exists.
func (c *Client) containers(root *Value) [][]string {
	switch c.ID {
	case "vscode":
		return [][]string{{"servers"}, {"mcp", "servers"}, {"mcpServers"}}
	case "opencode":
		if inner := root.Get("mcp", "servers"); isMap(inner) && inner.Get("command") == nil && inner.Get("url") == nil {
			return [][]string{{"mcp", "servers"}} // the format since version 2 of opencode
		}
	}
	return [][]string{c.container}
}

// find returns the path of keys to the servers in a file, and the servers. If the file has no
// servers yet, find returns the path at which to add them, and nil.
func (c *Client) find(root *Value) ([]string, *Value) {
	paths := c.containers(root)
	for _, p := range paths {
		if v := root.Get(p...); v != nil {
			return p, v
		}
	}
	return paths[0], nil
}
