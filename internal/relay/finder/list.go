package finder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// The names of the four tools.
const (
	SearchTools   = "search_tools"
	DescribeTools = "describe_tools"
	CallRead      = "call_read_tool"
	Call          = "call_tool"
)

// Ours reports whether a name is that of one of the four tools.
func Ours(name string) bool {
	return name == SearchTools || name == DescribeTools || name == CallRead || name == Call
}

// Instructions are what clients that search are told besides all other instructions.
const Instructions = "Most tools are not in the list of tools: find one with search_tools by what it does, before you say that something can't be done. " +
	"Then call it with call_read_tool if its line says [read], else with call_tool; describe_tools shows what its arguments are."

// List says what the definitions of the four tools depend on.
type List struct {
	Directory   string // of the servers; see Directory
	Annotations bool   // whether the client's revision has annotations
	Tasks       bool   // whether a tool may be called as a task, in a revision whose tools say so
}

// Append appends the definitions of the four tools, separated by commas.
func (l List) Append(dst []byte) []byte {
	for i, t := range four {
		if i > 0 {
			dst = append(dst, ',')
		}
		about := t.about
		if t.name == SearchTools {
			about += l.Directory
		}
		dst = jsonrpc.AppendQuote(append(dst, `{"name":`...), t.name)
		dst = jsonrpc.AppendQuote(append(dst, `,"description":`...), about)
		dst = append(append(dst, `,"inputSchema":`...), t.input...)
		if l.Annotations {
			dst = append(append(dst, `,"annotations":`...), t.annotations...)
		}
		dst = append(dst, `,"_meta":`+loaded...)
		if l.Tasks && (t.name == Call || t.name == CallRead) {
			dst = append(dst, `,"execution":{"taskSupport":"optional"}`...)
		}
		dst = append(dst, '}')
	}
	return dst
}

const (
	reads = `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`
	// Claude Code, which searches itself, would keep these tools from its model until that has searched for them.
	loaded = `{"anthropic/alwaysLoad":true}`
	called = `{"type":"object","properties":{"name":{"type":"string","description":"The tool's name, as search_tools shows it."},"arguments":{"type":"object","description":"The arguments of that tool."}},"required":["name"],"additionalProperties":false}`
)

var four = [...]struct{ name, about, input, annotations string }{
	{
		SearchTools,
		"Finds tools by what they do. This list shows only a few of the tools that you can use, so search before you say that something can't be done. " +
			"Say it with a verb and an object (delete a branch), not as a story. Each line of the answer is a tool's name with its parameters (? for optional ones), and what it does. " +
			"A line with [read] is for call_read_tool, all others are for call_tool. If you can guess the server, name it: that finds most.",
		`{"type":"object","properties":{"query":{"type":"string","description":"What the tool does, as a verb and an object (delete calendar event), or its name."},"server":{"type":"string","description":"Only tools of this server."},"limit":{"type":"integer","description":"At most 25.","default":8}},"additionalProperties":false}`,
		reads,
	},
	{
		DescribeTools,
		"Shows the whole definitions of up to 5 tools, with the schemas of their arguments.",
		`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":5,"description":"Names, as search_tools shows them."}},"required":["names"],"additionalProperties":false}`,
		reads,
	},
	{CallRead, "Calls a tool that only reads: one that search_tools shows with [read].", called, `{"readOnlyHint":true}`},
	{Call, "Calls any tool that search_tools shows.", called, `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
}

// Server is a line of the directory.
type Server struct {
	Name  string
	Tools int
	About string
}

// These constants bound the directory.
const (
	maxDirectory = 2 << 10
	maxServers   = 40 // if even the names are too long
	maxAbout     = 200
)

// Directory says which servers there are, in at most about 2 KB: all about each, or their names, or those of the
// biggest. It's the end of a text.
func Directory(all []Server) string {
	if len(all) == 0 {
		return "\n\nThere is no tool that you can use now."
	}
	out := "\n\nServers, with the number of their tools:"
	for _, s := range all {
		out += fmt.Sprintf("\n%s (%d)", s.Name, s.Tools)
		if s.About != "" {
			out += ": " + s.About
		}
	}
	if len(out) <= maxDirectory {
		return out
	}
	if out = "\n\nServers: " + joinServers(all); len(out) <= maxDirectory {
		return out
	}
	big := slices.Clone(all)
	slices.SortFunc(big, func(a, b Server) int { return cmp.Or(cmp.Compare(b.Tools, a.Tools), strings.Compare(a.Name, b.Name)) })
	big = big[:min(len(big), maxServers)]
	slices.SortFunc(big, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return fmt.Sprintf("\n\nThe biggest of %d servers: %s", len(all), joinServers(big))
}

func joinServers(all []Server) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
