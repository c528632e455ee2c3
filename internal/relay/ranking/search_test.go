package ranking

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// tool returns a tool of a server. More are members of its definition.
func tool(server, name, about string, more ...string) Tool {
	def := jsonrpc.AppendQuote([]byte(`{"name":`), name)
	def = jsonrpc.AppendQuote(append(def, `,"description":`...), about)
	for _, m := range more {
		def = append(append(def, ','), m...)
	}
	return Tool{Name: server + "__" + name, Bare: name, Server: server, Definition: append(def, '}')}
}

func names(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Tool.Name)
	}
	return out
}

// office has two servers with a few tools that are easily confused.
func office() []*Index {
	return []*Index{
		New([]Tool{
			tool("files", "read_file", "Reads a file as text.", `"inputSchema":{"properties":{"path":{"description":"where it is"},"encoding":{"enum":["utf8","latin1"]}}}`),
			tool("files", "delete_file", "Deletes a file for good."),
			tool("files", "listDirectory", "Lists what is in a directory. It can sort by size."),
		}),
		New([]Tool{
			tool("tracker", "create_issue", "Creates an issue.", `"inputSchema":{"properties":{"assignee":{}}}`),
			tool("tracker", "search", "Searches issues for words."),
			tool("tracker", "search_files", "Searches the files that are attached to issues."),
			tool("tracker", "翻译", "将文本翻译成另一种语言。"),
		}),
	}
}

func TestSearch(t *testing.T) {
	for query, want := range map[string]string{
		"delete a file":                         "files__delete_file",
		"remove the document":                   "files__delete_file",
		"what's in this folder?":                "files__listDirectory",
		"latin1":                                "files__read_file",
		"assign it to somebody":                 "tracker__create_issue",
		"assignee":                              "tracker__create_issue",
		"file a new ticket":                     "tracker__create_issue",
		"请翻译这段文字":                               "tracker__翻译",
		"list directory":                        "files__listDirectory",
		"latin 1":                               "files__read_file",
		"sorting":                               "files__listDirectory",
		"tracker":                               "tracker__create_issue",
		"call tracker__search_files":            "tracker__search_files",
		"delete, then call files__read_file.":   "files__read_file",
		"FILES__READ_FILE":                      "files__read_file",
		"delete `listdirectory`":                "files__delete_file",
		"listdirectory":                         "files__listDirectory",
		"search":                                "tracker__search",
		"use create_issue, not files__create_x": "tracker__create_issue",
		"":                                      "",
		"the of and":                            "",
	} {
		got := ""
		if hits := Search(query, office(), nil, 1); len(hits) > 0 {
			got = hits[0].Tool.Name
		}
		if got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
}

// TestForms has two tools that differ in nothing but the form of a word.
func TestForms(t *testing.T) {
	in := []*Index{New([]Tool{tool("a", "see_issue", "x"), tool("a", "see_issues", "x")})}
	for query, want := range map[string]string{"issue": "a__see_issue", "issues": "a__see_issues", "tickets": "a__see_issue"} {
		if hits := Search(query, in, nil, 2); len(hits) != 2 || hits[0].Tool.Name != want {
			t.Errorf("%q finds %v, want %q first of both", query, names(hits), want)
		}
	}
}

// TestSearchAll asks for all tools: those that don't fit come last.
func TestSearchAll(t *testing.T) {
	hits := Search("delete", office(), func(x *Tool) bool { return x.Server == "files" }, 0)
	if got := strings.Join(names(hits), " "); got != "files__delete_file files__listDirectory files__read_file" || hits[1].Score != 0 {
		t.Error(got, hits[1].Score)
	}
}

// TestNothingOfHidden is TA55 for the ranking: order and scores are those of an index without the hidden
// tools.
func TestNothingOfHidden(t *testing.T) {
	all, seen := crowd(20, 25), crowd(20, 25)
	may := func(x *Tool) bool { return strings.HasSuffix(x.Name, "1") }
	for i, x := range seen {
		var tools []Tool
		for _, y := range x.tools {
			if may(y) {
				tools = append(tools, *y)
			}
		}
		seen[i] = New(tools)
	}
	for _, query := range queries(100) {
		got, want := Search(query, all, may, 25), Search(query, seen, nil, 25)
		if !slices.EqualFunc(got, want, func(a, b Hit) bool {
			return a.Tool.Name == b.Tool.Name && a.Score == b.Score && a.Named == b.Named
		}) {
			t.Fatalf("%q: %v, without the hidden tools %v", query, names(got), names(want))
		}
		if got, want := Nearest(query, all, may, 3), Nearest(query, seen, nil, 3); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, without the hidden tools %v", query, got, want)
		}
	}
}

// TestExactName is TS09: the tool that a query names is first, whatever else the query says.
func TestExactName(t *testing.T) {
	servers := 200
	if testing.Short() {
		servers = 20
	}
	in := crowd(servers, 25)
	for _, x := range in {
		y := x.tools[len(x.tools)-1]
		for _, query := range []string{y.Name, "delete the file with " + y.Name + ", please", strings.ToUpper(y.Name)} {
			if hits := Search(query, in, nil, 8); len(hits) == 0 || hits[0].Tool != y || !hits[0].Named {
				t.Errorf("%q finds %v", query, names(hits))
			}
		}
	}
}

// TestNeverNothing is TS09's other half: what finds nothing still has nearest names.
func TestNeverNothing(t *testing.T) {
	in := crowd(20, 25)
	for _, query := range queries(1000) {
		if len(Search(query, in, nil, 8)) == 0 && len(Nearest(query, in, nil, 3)) != 3 {
			t.Errorf("nothing for %q", query)
		}
	}
}

// TestDeterministic is TS12: neither the order of servers nor that of tools nor that of maps matters.
func TestDeterministic(t *testing.T) {
	one, other := crowd(20, 25), crowd(20, 25)
	rand.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
	for i, x := range other {
		var tools []Tool
		for _, j := range rand.Perm(len(x.tools)) {
			tools = append(tools, *x.tools[j])
		}
		other[i] = New(tools)
		for _, same := range one {
			if same.tools[0].Server == tools[0].Server && !slices.Equal(same.Words(5), other[i].Words(5)) {
				t.Errorf("%s: %q and %q", tools[0].Server, same.Words(5), other[i].Words(5))
			}
		}
	}
	for _, query := range queries(100) {
		a, b := Search(query, one, nil, 25), Search(query, other, nil, 25)
		if !slices.EqualFunc(a, b, func(a, b Hit) bool { return a.Tool.Name == b.Tool.Name && a.Score == b.Score }) {
			t.Fatalf("%q: %v and %v", query, names(a), names(b))
		}
	}
}

// TestNearest is TS23 for the ranking.
func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"files__raed_file":       "files__read_file",
		"read_file":              "files__read_file",
		"ReadFile":               "files__read_file",
		"read file":              "files__read_file",
		"files.list-directory":   "files__listDirectory",
		"FILES__LISTDIRECTORY":   "files__listDirectory",
		"tracker__issue_create":  "tracker__create_issue",
		"tracker__serach":        "tracker__search",
		"翻":                      "tracker__翻译",
		"":                       "", // any will do
		strings.Repeat("x", 1e6): "",
	} {
		if got := Nearest(name, office(), nil, 1); len(got) != 1 || want != "" && got[0] != want {
			t.Errorf("%.40q is near to %q, want %q", name, got, want)
		}
	}
	if got := Nearest("a", office(), func(*Tool) bool { return false }, 3); len(got) != 0 {
		t.Error(got)
	}
}

func TestWords(t *testing.T) {
	x := New([]Tool{
		tool("git-hub", "github_list_issues", ""), tool("git-hub", "create_issue", ""), tool("git-hub", "closeIssues", ""),
		tool("git-hub", "create_repository", ""), tool("git-hub", "list_repositories", ""), tool("git-hub", "get_hub", ""),
	})
	if got := x.Words(5); !slices.Equal(got, []string{"issues", "repositories", "github"}) {
		t.Errorf("%q", got)
	}
	for definition, want := range map[string]string{
		`{"title":"Fetch a URL"}`: "url", `{"annotations":{"title":"Fetch\nfrom the \u001b[31m web"}}`: "31 web",
		`{}`: "fetch", `{"title":"Get"}`: "fetch", `{"title":7}`: "fetch",
	} {
		x := New([]Tool{{Name: "one__fetch", Bare: "fetch", Server: "one", Definition: []byte(definition)}})
		if got := strings.Join(x.Words(5), " "); got != want {
			t.Errorf("%s: %q, want %q", definition, got, want)
		}
	}
	if got := New(nil).Words(5); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

var (
	someVerbs = strings.Fields("list get create delete update search read write move copy run stop start send merge count")
	someNouns = strings.Fields("file issue branch message channel page table record user commit pod chart index bucket task label image event invoice report")
)

// crowd returns servers with invented tools. It's always the same.
func crowd(servers, tools int) (out []*Index) {
	for i := range servers {
		out = append(out, New(crowded(i, tools)))
	}
	return out
}

// crowded returns the tools of one of the servers. A definition has about 1,800 bytes, as real ones have.
func crowded(server, tools int) (out []Tool) {
	r := rand.New(rand.NewPCG(uint64(server), 7))
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	text := func(words int) string {
		var b strings.Builder
		for i := range words {
			fmt.Fprintf(&b, "%s %s%d %s", pick(someVerbs), pick(someNouns), r.IntN(8), []string{"of the ", "in a ", ". It "}[i%3])
		}
		return b.String()
	}
	for j := range tools {
		var params []string
		for k := range 1 + r.IntN(6) {
			params = append(params, fmt.Sprintf(`"%s_%d":{"type":"string","description":"%s"}`, pick(someNouns), k, text(4)))
		}
		out = append(out, tool(fmt.Sprintf("server%d", server), fmt.Sprintf("%s_%s_%d", pick(someVerbs), pick(someNouns), j), text(55),
			`"inputSchema":{"type":"object","properties":{`+strings.Join(params, ",")+`}}`))
	}
	return out
}

// queries returns invented queries, of which some make no sense.
func queries(n int) (out []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		q := someVerbs[r.IntN(len(someVerbs))] + " the " + someNouns[r.IntN(len(someNouns))]
		if i%4 == 0 {
			q = fmt.Sprintf("%s %x", q, r.Uint64())
		}
		if i%10 == 0 {
			q = fmt.Sprintf("%x\x00\xff 日本語 ?!", r.Uint64())
		}
		out = append(out, q)
	}
	return out
}
