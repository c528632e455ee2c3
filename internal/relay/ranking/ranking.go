package ranking

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Tool is what an index knows of a tool. It must not be modified.
type Tool struct {
	Name   string // as the client calls it
	Bare   string // Name without the server's prefix; "" if it has none
	Server string
	// Hint is what the server is about: its operator's words for it, or its title. It may be empty.
	Hint       string
	Definition []byte // valid JSON, as tools/list has it
}

// Index has the tools of one server, ready to be searched.
type Index struct {
	tools []*Tool
	texts []string
}

// New indexes the tools of one server. It keeps the definitions, which must not be modified afterwards.
func New(tools []Tool) *Index {
	x := &Index{}
	for i := range tools {
		t := &tools[i]
		about, _ := jsonrpc.ValueOf(t.Definition).Get("description").Text()
		x.tools = append(x.tools, t)
		x.texts = append(x.texts, strings.ToLower(t.Name+" "+t.Server+" "+t.Hint+" "+about))
	}
	return x
}

// Tools returns the tools of the index in the order in which New got them.
func (x *Index) Tools() []*Tool { return x.tools }

// Hit is a tool that was found. Scores of different searches can't be compared.
type Hit struct {
	Tool  *Tool
	Score float64 // 0 if nothing in the tool fits the query
	Named bool    // whether its name stands in the query
}

// Search returns the n tools that fit the query best, of those that may allows; a nil may allows all. Tools
// that the query names come first, and of equal tools the one whose name sorts first. If n is 0 or less, it
// returns all allowed tools, also those that fit nothing.
func Search(query string, in []*Index, may func(*Tool) bool, n int) []Hit {
	var hits []Hit
	words := strings.Fields(strings.ToLower(query))
	for _, x := range in {
		for i, t := range x.tools {
			if may != nil && !may(t) {
				continue
			}
			h := Hit{Tool: t, Named: slices.Contains(words, strings.ToLower(t.Name))}
			for _, w := range words {
				if strings.Contains(x.texts[i], w) {
					h.Score++
				}
			}
			if h.Score > 0 || n <= 0 {
				hits = append(hits, h)
			}
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		if a.Named != b.Named {
			if a.Named {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Tool.Name, b.Tool.Name))
	})
	if n > 0 && len(hits) > n {
		hits = hits[:n]
	}
	return hits
}

// Nearest returns the n names, of the tools that may allows, that are most like name: misspelt, in other
// case or with other separators. It returns names even if none is near.
func Nearest(name string, in []*Index, may func(*Tool) bool, n int) []string {
	var out []string
	for _, x := range in {
		for _, t := range x.tools {
			if may == nil || may(t) {
				out = append(out, t.Name)
			}
		}
	}
	slices.Sort(out)
	return out[:min(n, len(out))]
}

// Words returns the n commonest words of the tools that say what the server is about, for a directory of
// the servers. An index without such words returns none.
func (x *Index) Words(n int) []string { return nil }

// Line describes the tool in one line: name(parameter, optional?) [read] First sentence. It's at most 300
// bytes longer than the name.
func (t *Tool) Line(read bool) string {
	if read {
		return t.Name + "() [read]"
	}
	return t.Name + "()"
}
