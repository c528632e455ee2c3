package fake

import (
	"encoding/base64"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// headerArg is a tool argument that the client also sends in a header (2026-07-28 §Streamable HTTP,
// "Custom Headers from Tool Parameters").
type headerArg struct {
	path   []string // the path of the argument: the names of the members below arguments
	header string   // the header's name without Mcp-Param-
}

// learnMirrors records which arguments of the listed tools the client must also send in headers.
func (c *Client) learnMirrors(result []byte) {
	found := map[string][]headerArg{}
	for t := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "tools")) {
		name, _ := jsonrpc.Text(result, jsonrpc.Find(result, t, "name"))
		if args := headerArgs(result, jsonrpc.Find(result, t, "inputSchema"), nil); len(args) > 0 {
			found[name] = args
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, args := range found {
		c.mirrors[name] = args
	}
}

// headerArgs returns the arguments in schema that have x-mcp-header. path is the path of schema.
// headerArgs searches only the keyword properties, to a depth of 8.
func headerArgs(raw []byte, schema jsonrpc.Span, path []string) (out []headerArg) {
	const deepest = 8
	if len(path) == deepest {
		return nil
	}
	for m := range jsonrpc.Members(raw, jsonrpc.Find(raw, schema, "properties")) {
		key, _ := jsonrpc.Text(raw, m.Key)
		at := append(path[:len(path):len(path)], key)
		if h, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, m.Value, "x-mcp-header")); ok && h != "" {
			out = append(out, headerArg{at, h})
		}
		out = append(out, headerArgs(raw, m.Value, at)...)
	}
	return out
}

// mirrorsOf returns the header values of a call. Each key is a header's name without Mcp-Param-.
func (c *Client) mirrorsOf(f *pendingRequest) map[string]string {
	c.mu.Lock()
	args := c.mirrors[f.name]
	c.mu.Unlock()
	out := map[string]string{}
	for _, a := range args {
		at := jsonrpc.Find(f.params, jsonrpc.Whole(f.params), "arguments")
		for _, name := range a.path {
			at = jsonrpc.Find(f.params, at, name)
		}
		switch jsonrpc.KindOf(f.params, at) {
		case '"':
			v, _ := jsonrpc.Text(f.params, at)
			out[a.header] = headerValue(v)
		case '0', 't', 'f':
			out[a.header] = string(at.Of(f.params))
		}
	}
	return out
}

// headerValue encodes a value for a header (2026-07-28 §Streamable HTTP, "Value
// Encoding").
func headerValue(v string) string {
	const open, end = "=?base64?", "?="
	plain := strings.Trim(v, " \t") == v && !(strings.HasPrefix(v, open) && strings.HasSuffix(v, end))
	for i := range len(v) {
		if b := v[i]; (b < 0x20 || b > 0x7e) && b != '\t' {
			plain = false
		}
	}
	if plain {
		return v
	}
	return open + base64.StdEncoding.EncodeToString([]byte(v)) + end
}
