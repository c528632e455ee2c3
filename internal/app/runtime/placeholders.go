package runtime

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// fill replaces the placeholders {{client.name}}, {{client.version}}, {{revision}} and {{project}}
// in Dragoman's own instructions. The name and the version come from the client, so fill cuts them
// and makes them printable. fill does not replace unknown placeholders, or placeholders in an
// inserted value. After the function fill has inserted maxInstructions bytes, it stops replacing
// placeholders.
func fill(text, project string, f *mcp.ClientInfo) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	var b strings.Builder
	for added := 0; ; {
		before, rest, open := strings.Cut(text, "{{")
		b.WriteString(before)
		if !open {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}}")
		value, known := "", false
		if closed && added < maxInstructions {
			value, known = placeholder(strings.TrimSpace(name), project, f)
		}
		if !known { // keep the braces, and look for placeholders in the text after them
			b.WriteString("{{")
			text = rest
			continue
		}
		b.WriteString(value)
		added += len(value)
		text = after
	}
}

func placeholder(name, project string, f *mcp.ClientInfo) (value string, known bool) {
	switch name {
	case "client.name":
		return member(f, "name"), true
	case "client.version":
		return member(f, "version"), true
	case "revision":
		if f == nil {
			return unknown, true
		}
		return f.Revision.String(), true
	case "project":
		return project, true
	}
	return "", false
}

// unknown is the value of a placeholder if the client did not send the value.
const unknown = "unknown"

// member returns the string that the client's Implementation object has under key, on one line. If
// there is no such string, member returns unknown.
func member(f *mcp.ClientInfo, key string) string {
	if f == nil {
		return unknown
	}
	text, _ := jsonrpc.Text(f.Info, jsonrpc.Find(f.Info, jsonrpc.Whole(f.Info), key))
	if text = strings.TrimSpace(excerpt.Name(text)); text == "" {
		return unknown
	}
	return text
}
