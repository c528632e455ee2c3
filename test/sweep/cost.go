//go:build unix

package main

import (
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
)

// cost prints what a task costs a model that searches, and one that has the whole list, in tokens of four bytes: what is
// in its context before it does anything, and what a search, a description and a call add. Both models read the result
// of the tool, so that isn't counted.
func (m *measure) cost(s set) {
	listed := 0
	for _, x := range m.in {
		for _, t := range x.Tools() {
			listed += len(t.Definition) + 1
		}
	}
	four := len(finder.List{Annotations: true, Directory: finder.Directory(m.Servers())}.Append(nil)) + len(finder.Instructions)
	found, shown, called, n := 0, 0, 0, 0
	for _, q := range s.queries["imperatives"] {
		hits := ranking.Search(q.text, m.in, nil, 8)
		if !q.met(hits) {
			continue // the model has to ask again
		}
		n++
		answer := finder.Search(jsonrpc.ValueOf(fmt.Appendf(nil, `{"query":%q}`, q.text)), m).Text
		found += len(fmt.Sprintf(`{"name":"search_tools","arguments":{"query":%q}}`, q.text)) + len(answer)
		for _, h := range hits {
			if q.want[h.Tool.Server+"/"+h.Tool.Bare] {
				if !strings.Contains(answer, string(h.Tool.Definition)) {
					shown += len(fmt.Sprintf(`{"name":"describe_tools","arguments":{"names":[%q]}}`, h.Tool.Name)) + len(h.Tool.Definition)
				}
				called += len(fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q,"arguments":}}`, h.Tool.Name))
				break
			}
		}
	}
	fmt.Printf("tokens of a task, on average of the %d imperatives that find a fitting tool\n", n)
	fmt.Printf("the whole list %d; searching: %d of the four tools, and then %d to find, %d to describe, %d to call, %d altogether\n",
		listed/4, four/4, found/n/4, shown/n/4, called/n/4, (four+(found+shown+called)/n)/4)
}

// measure is a finder.Tools.

func (m *measure) Count() int { return len(m.tools) }

func (m *measure) Search(query, server string, n int) []ranking.Hit {
	if server != "" {
		return ranking.Search(query, []*ranking.Index{m.by[server]}, nil, n)
	}
	return ranking.Search(query, m.in, nil, n)
}

func (m *measure) Nearest(name string, n int) []string { return ranking.Nearest(name, m.in, nil, n) }

func (m *measure) Definition(name string) []byte {
	for _, x := range m.in {
		for _, t := range x.Tools() {
			if t.Name == name {
				return t.Definition
			}
		}
	}
	return nil
}

func (m *measure) Reads(string) bool { return false }

func (m *measure) Servers() (all []finder.Server) {
	for _, x := range m.in {
		all = append(all, finder.Server{Name: x.Tools()[0].Server, Tools: len(x.Tools()), About: strings.Join(x.Words(4), ", ")})
	}
	return all
}

func (m *measure) Missing() []string { return nil }
