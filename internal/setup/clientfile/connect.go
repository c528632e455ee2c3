package clientfile

import (
	"slices"
	"strconv"
)

// Entry is the entry that the command connect writes into a client's file. Either URL or Command is
// set.
type Entry struct {
	Name    string   // the key of the entry in the mapping of servers
	URL     string   // an endpoint of Dragoman
	Command []string // a program and its arguments
	// Key is the name of the environment variable with the API key that the client sends to URL; "" for none. No
	// file has the key itself.
	Key string
}

// RunWords returns the command of a client whose file takes no URLs. key is as in [Entry], and the key doesn't stand on the
// command line, which every user of the machine can read.
func RunWords(program, url, key string) []string {
	if key == "" {
		return []string{program, "run", url}
	}
	return []string{program, "run", "--header", "X-API-Key=" + key, url}
}

// value returns the entry in the format of the client. ask is as in keyFrom.
func (e Entry) value(c *Client, ask bool) *Value {
	if e.URL == "" {
		return c.byCommand(e.Command)
	}
	v := c.byURL(e.URL)
	if e.Key != "" {
		v.Members = append(v.Members, c.keyFrom(e.Key, ask))
	}
	return v
}

// keyFrom returns the member of an entry with which a client sends the value of an environment variable as its API key.
// If ask is true, VS Code asks its user for the key instead.
func (c *Client) keyFrom(variable string, ask bool) Member {
	text := "Bearer ${" + variable + "}"
	switch {
	case c.ID == "codex":
		return Member{Key: "bearer_token_env_var", Value: Text(variable)}
	case c.asks() && ask:
		text = "Bearer ${input:" + keyInput + "}"
	case c.refs == refsEditor:
		text = "Bearer ${env:" + variable + "}"
	case c.refs == refsOpencode:
		text = "Bearer {env:" + variable + "}"
	}
	return Member{Key: "headers", Value: Mapping("Authorization", Text(text))}
}

// asks reports whether the client's file can say for which values the client asks its user.
func (c *Client) asks() bool { return c.ID == "vscode" }

// keyInput is the ID of the input for the key.
const keyInput = "dragoman-key"

// withInput returns a file that makes the client ask for the key.
func withInput(name string, b []byte) ([]byte, error) {
	input := Mapping("type", Text("promptString"), "id", Text(keyInput), "description", Text("API key of Dragoman"), "password", boolean(true))
	return set(name, b, []string{"inputs"}, &Value{Kind: List, Items: []*Value{input}})
}

// Snippet returns what a file of a client has that contains nothing but the entry. With a key, a client that can ask its user
// for it does.
func Snippet(c *Client, name string, e Entry) ([]byte, error) {
	ask := c.asks() && e.Key != "" && e.URL != ""
	path, _ := c.find(nil)
	b, err := set(name, nil, append(slices.Clone(path), e.Name), e.value(c, ask))
	if err != nil || !ask {
		return b, err
	}
	return withInput(name, b)
}

// Taken is the error for an entry whose name is already used by a server that is not Dragoman.
type Taken struct{ Name string }

// Error returns a text that names the server.
func (e *Taken) Error() string {
	return "the file already has a server named " + strconv.Quote(e.Name) + ", which is not Dragoman"
}

// Connect adds the entry e to the file b of a client, and returns the new file. All other bytes
// stay the same. If the file already has this entry, Connect returns b itself. addresses are the
// addresses of Dragoman's endpoint. Connect replaces an older entry with the same name if that
// entry starts Dragoman or has one of these addresses. Each error is a *SyntaxError or a *Taken.
func Connect(c *Client, name string, b []byte, e Entry, addresses []string) ([]byte, error) {
	root, err := Parse(name, b)
	if err != nil {
		return nil, err
	}
	path, servers := c.find(root)
	if servers != nil && servers.Kind != Map && servers.Kind != Null {
		return nil, &SyntaxError{name, servers.Line, servers.Col, quoted(path) + " is " + servers.Kind.String() + ", not an object"}
	}
	path = append(slices.Clone(path), e.Name)
	want := e.value(c, false)
	if old := root.Get(path...); old != nil {
		if same(old, want) {
			return b, nil
		}
		if !ours(c, old, addresses) {
			return nil, &Taken{e.Name}
		}
	}
	return set(name, b, path, want)
}

// ours reports whether an entry of a client's file starts Dragoman or connects to it.
func ours(c *Client, entry *Value, addresses []string) bool {
	m := Member{Key: "x", Value: entry}
	if entry.Kind != Map {
		return false
	}
	s := readServer(c, &m, "", nil, Options{Addresses: addresses})
	if s.Dragoman {
		return true
	}
	// A client that cannot use a URL has the command `dragoman run URL` instead. Check for that
	// command.
	words := wordsOf(entry)
	args, ok := ourArgs(words)
	return ok && len(args) > 1 && args[0] == "run" && isDragoman(nil, args[len(args)-1], addresses)
}

// Connected returns the names of the entries in a client's file that start Dragoman or connect to
// it.
func Connected(c *Client, root *Value, addresses []string) []string {
	var out []string
	if _, servers := c.find(root); isMap(servers) {
		for _, m := range servers.Members {
			if ours(c, m.Value, addresses) {
				out = append(out, m.Key)
			}
		}
	}
	return out
}

// History is a client's file and its older versions.
type History struct {
	Name    string // the end of Name tells the format
	Now     []byte
	Earlier [][]byte // the newest first
}

// Has reports whether a file of the client has a server with this name.
func (c *Client) Has(root *Value, name string) bool {
	_, servers := c.find(root)
	return servers.Get(name) != nil
}

// Remake returns the file that Connect would create for an entry if there were no file. It
// takes the entry from root. ok is false if root has no such entry.
func Remake(c *Client, name string, root *Value, entry string) (b []byte, ok bool) {
	path, servers := c.find(root)
	value := servers.Get(entry)
	if value == nil {
		return nil, false
	}
	path = append(slices.Clone(path), entry)
	b, err := set(name, nil, path, value)
	return b, err == nil
}
