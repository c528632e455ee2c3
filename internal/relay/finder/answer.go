package finder

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
)

// Tools are the tools among which a client searches. They have nothing else.
type Tools interface {
	// Count returns how many there are.
	Count() int
	// Search returns the n tools that fit a query best, all of the given server if n is 0.
	Search(query, server string, n int) []ranking.Hit
	// Nearest returns the n names that are most like a name.
	Nearest(name string, n int) []string
	// Definition returns the definition of a tool, as the client's list has it, or nil.
	Definition(name string) []byte
	// Reads reports whether call_read_tool may call a tool.
	Reads(name string) bool
	// Servers returns the servers that have tools, sorted by name.
	Servers() []Server
	// Missing returns the servers that have not listed their tools.
	Missing() []string
}

// Answer is the text of a result.
type Answer struct {
	Text   string
	Failed bool // the text says what was wrong with the call
}

func failed(format string, args ...any) Answer { return Answer{fmt.Sprintf(format, args...), true} }

// These constants bound the answers.
const (
	usualLimit  = 8
	maxLimit    = 25
	wholeServer = 40 // a server with at most so many tools is shown whole
	ahead       = 1.5
	attached    = 2 << 10 // the bytes of the definition of a tool that is far ahead
	nearest     = 3
	maxNames    = 5
	maxDescribe = 64 << 10
	maxQuery    = 1 << 10
	maxRepeated = 128
)

// Search answers search_tools.
func Search(args jsonrpc.Value, tools Tools) Answer {
	query, _ := args.Get("query").Text()
	query = excerpt.Cut(query, maxQuery)
	limit := usualLimit
	if n, ok := args.Get("limit").Int(); ok {
		limit = int(min(max(n, 1), maxLimit))
	}
	name, _ := args.Get("server").Text()
	of, bad := serverOf(name, tools)
	if bad != nil {
		return *bad
	}
	whole := of.Name != "" && of.Tools <= wholeServer
	if whole {
		limit = 0
	}
	hits := tools.Search(query, of.Name, limit)
	if len(hits) == 0 {
		return nothing(query, tools)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s of %s tools", grouped(len(hits)), grouped(tools.Count()))
	switch {
	case whole:
		fmt.Fprintf(&out, ", all of %s. describe_tools shows parameters.", of.Name)
	case of.Name != "":
		fmt.Fprintf(&out, ", of %s, the closest first; it may be that none fits. describe_tools shows parameters.", of.Name)
	default:
		out.WriteString(", the closest first; it may be that none fits. describe_tools shows parameters; name a server to see all it has.")
	}
	for _, h := range hits {
		out.WriteString("\n" + h.Tool.Line(tools.Reads(h.Tool.Name)))
	}
	if first := hits[0]; first.Score > 0 && (len(hits) == 1 || first.Score >= ahead*hits[1].Score) && len(first.Tool.Definition) < attached {
		out.WriteString("\nIf it's the first, this is its definition:\n")
		out.Write(tools.Definition(first.Tool.Name))
	}
	return Answer{Text: out.String() + missing(tools)}
}

// serverOf finds the server that a query names. Case doesn't count.
func serverOf(name string, tools Tools) (s Server, bad *Answer) {
	if name == "" {
		return s, nil
	}
	all := tools.Servers()
	if i := slices.IndexFunc(all, func(s Server) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	if i := slices.IndexFunc(all, func(s Server) bool { return strings.EqualFold(s.Name, name) }); i >= 0 {
		return all[i], nil
	}
	a := failed("There is no server %s.%s%s", quoted(name), Directory(all), missing(tools))
	return s, &a
}

// nothing is the answer to a query that no tool fits. A model that is told nothing gives up.
func nothing(query string, tools Tools) Answer {
	out := fmt.Sprintf("No tool of %s fits these words. Try others, or name a server.%s", grouped(tools.Count()), Directory(tools.Servers()))
	if near := tools.Nearest(query, nearest); len(near) > 0 {
		out += "\n\nNames that are alike: " + strings.Join(near, ", ")
	}
	return Answer{Text: out + missing(tools)}
}

// missing says which servers have not listed their tools, so that their tools can't be found.
func missing(tools Tools) string {
	all := tools.Missing()
	if len(all) == 0 {
		return ""
	}
	more := ""
	if n := len(all) - maxNames; n > 0 {
		all, more = all[:maxNames], fmt.Sprintf(" and %d more", n)
	}
	return "\n\nThese servers can't be searched, because they have not listed their tools: " + strings.Join(all, ", ") + more
}

// Describe answers describe_tools.
func Describe(args jsonrpc.Value, tools Tools) Answer {
	var names []string
	list := args.Get("names")
	for v := range list.Elements() {
		if name, ok := v.Text(); ok {
			names = append(names, name)
		}
	}
	if name, ok := list.Text(); ok { // one name, without the list around it
		names = []string{name}
	}
	if len(names) == 0 || len(names) > maxNames {
		return failed("names must be a list of 1 to %d names, as search_tools shows them.", maxNames)
	}
	var parts, left []string
	size, known := 0, false
	for _, name := range names {
		switch def := tools.Definition(name); {
		case def == nil:
			parts = append(parts, unknown(name, tools))
		case size+len(def) > maxDescribe:
			left, known = append(left, name), true
		default:
			size, known = size+len(def)+1, true
			parts = append(parts, string(def))
		}
	}
	if len(left) > 0 {
		parts = append(parts, fmt.Sprintf("Left out, because all together have more than %d KiB: %s", maxDescribe>>10, strings.Join(left, ", ")))
	}
	return Answer{Text: strings.Join(parts, "\n"), Failed: !known}
}

// Unknown is the answer to a call of a tool that the client can't find.
func Unknown(name string, tools Tools) Answer { return Answer{unknown(name, tools), true} }

func unknown(name string, tools Tools) string {
	out := "There is no tool " + quoted(name) + "."
	if near := tools.Nearest(name, nearest); len(near) > 0 {
		out += " Names that are alike: " + strings.Join(near, ", ") + "."
	}
	return out + " search_tools finds tools by what they do."
}

// NotRead is the answer of call_read_tool to a call of a tool that may do more than read.
func NotRead(name string) Answer {
	return failed("%s was not called: nobody here has said that it only reads. Call it with call_tool.", name)
}

// Inner returns the tool that the arguments of call_tool or call_read_tool name, and the arguments for it, which are
// absent if there are none. bad is the answer if they don't say it clearly.
func Inner(args jsonrpc.Value) (name string, inner jsonrpc.Value, bad *Answer) {
	fail := func(format string, more ...any) (string, jsonrpc.Value, *Answer) {
		a := failed(format+` Write {"name": "TOOL", "arguments": {…}}.`, more...)
		return "", jsonrpc.Value{}, &a
	}
	var extra []string
	for k := range args.Members() {
		if key, _ := k.Text(); key != "name" && key != "arguments" {
			extra = append(extra, quoted(key))
		}
	}
	inner = args.Get("arguments")
	name, named := args.Get("name").Text()
	_, isText := inner.Text()
	switch kind := inner.Kind(); {
	case isText:
		return fail("arguments is a text, but must be an object.")
	case kind != 0 && kind != 'n' && kind != '{':
		return fail("arguments must be an object.")
	case !named && !inner.Get("name").Absent():
		return fail("The tool's name is inside arguments, but belongs beside them.")
	case !named || name == "":
		return fail("name must be the name of a tool, as search_tools shows it.")
	case len(extra) > 0:
		return fail("%s can't stand beside name: what is for the tool belongs into arguments.", strings.Join(extra[:min(len(extra), maxNames)], ", "))
	}
	return name, inner, nil
}

// quoted writes a name that a model has made up, with all that can't be seen in it.
func quoted(name string) string { return strconv.Quote(excerpt.Cut(name, maxRepeated)) }

// grouped writes a number with a comma between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Client is a client that searches tools itself, and from which version on it does.
type Client struct{ Name, Since string }

// Themselves are the clients that want to see all tools, because they search among them in a way of their own
// and keep a permission for each.
var Themselves = []Client{{"claude-code", "2.1.7"}, {"codex-mcp-client", "0.144.0"}}

// Itself reports whether a client with an Implementation object searches tools itself.
func Itself(info []byte) bool {
	name, _ := jsonrpc.ValueOf(info).Get("name").Text()
	version, _ := jsonrpc.ValueOf(info).Get("version").Text()
	return slices.ContainsFunc(Themselves, func(c Client) bool { return c.Name == name && compareVersions(version, c.Since) >= 0 })
}

// compareVersions compares the numbers of two versions. What isn't a number is 0.
func compareVersions(a, b string) int {
	part := func(s *string) int {
		first, rest, _ := strings.Cut(*s, ".")
		*s = rest
		n, _ := strconv.Atoi(first[:len(first)-len(strings.TrimLeft(first, "0123456789"))])
		return n
	}
	for range 3 {
		if c := cmp.Compare(part(&a), part(&b)); c != 0 {
			return c
		}
	}
	return 0
}
