//go:build unix

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
)

//go:embed queries.txt
var asked string

// gates are what each kind of queries must reach: which part of them finds a fitting tool among the first 5,
// among the first 8, and when the server is named. Each is what was measured last, less 0.02. In
// docs/adr/0050-search-mode.md it says why situations are so hard. Queries in other languages have no gate.
var gates = map[string][3]float64{
	"keywords":    {0.98, 0.98, 0.98},
	"imperatives": {0.89, 0.93, 0.98},
	"situations":  {0.19, 0.21, 0.90},
}

// query is a line of queries.txt.
type query struct {
	text string
	want map[string]bool // SERVER/TOOL
}

// set is what queries.txt asks, and of whom.
type set struct {
	servers [][2]string // name and package
	kinds   []string
	queries map[string][]query
}

func readSet() (s set, err error) {
	s.queries = map[string][]query{}
	for i, line := range strings.Split(asked, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || line[0] == '#':
		case words[0] == "server" && len(words) == 3:
			s.servers = append(s.servers, [2]string{words[1], words[2]})
		case line[0] == '[':
			s.kinds = append(s.kinds, strings.Trim(line, "[]"))
		case len(s.kinds) == 0:
			return s, fmt.Errorf("queries.txt:%d: a query before the first [KIND]", i+1)
		default:
			q := query{want: map[string]bool{}}
			var tools string
			q.text, tools, _ = strings.Cut(line, " => ")
			for _, t := range strings.FieldsFunc(tools, func(r rune) bool { return r == ',' || r == ' ' }) {
				q.want[t] = true
			}
			kind := s.kinds[len(s.kinds)-1]
			s.queries[kind] = append(s.queries[kind], q)
		}
	}
	return s, nil
}

// recall installs the servers of queries.txt, lists their tools, and reports whether the ranking of search
// mode finds among them what the queries ask for.
func recall(ctx context.Context, scratch string) (ok bool, err error) {
	s, err := readSet()
	if err != nil {
		return false, err
	}
	all, err := s.install(ctx, scratch)
	if err != nil {
		return false, err
	}
	listed := make([][]string, len(all))
	each(all, func(x *server) {
		tools, err := x.ask(ctx, legacy, x.bin, x.args...)
		if err != nil {
			x.state = err.Error()
		}
		listed[slices.Index(all, x)] = tools
	})
	m := measure{by: map[string]*ranking.Index{}, tools: map[string]bool{}}
	for i, x := range all {
		if x.state != "" {
			return false, fmt.Errorf("%s: %s", x.spec, x.state)
		}
		if err := m.index(s.servers[i][0], listed[i]); err != nil {
			return false, fmt.Errorf("%s: %w", x.spec, err)
		}
	}
	ok = m.report(s)
	m.cost(s)
	return ok, ctx.Err()
}

// install installs the servers of the set. None of them gets the network, if that can be kept from them here.
func (s *set) install(ctx context.Context, scratch string) ([]*server, error) {
	known, err := servers(regexp.MustCompile(""), scratch)
	if err != nil {
		return nil, err
	}
	all := make([]*server, len(s.servers))
	for i, pair := range s.servers {
		at := slices.IndexFunc(known, func(x *server) bool { return strings.HasPrefix(x.spec, pair[1]+"@") })
		if at < 0 {
			return nil, fmt.Errorf("servers.txt has no %s", pair[1])
		}
		all[i] = known[at]
	}
	alone := exec.CommandContext(ctx, "unshare", "--map-root-user", "--net", "true").Run() == nil
	if !alone {
		fmt.Println("no network namespace can be made here: the servers run with the network")
	}
	each(all, func(x *server) {
		if x.state = x.install(ctx); x.state == "" && alone {
			x.args, x.bin = append([]string{"--map-root-user", "--net", x.bin}, x.args...), "unshare"
		}
	})
	for _, x := range all {
		if x.state != "" {
			return nil, fmt.Errorf("%s: %s", x.spec, x.state)
		}
	}
	return all, ctx.Err()
}

// configure installs the servers of queries.txt, and writes a configuration of serve that has them by their names there.
func configure(ctx context.Context, file string) error {
	s, err := readSet()
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return err
	}
	all, err := s.install(ctx, folder)
	if err != nil {
		return err
	}
	for i, x := range all {
		x.name = s.servers[i][0]
	}
	return writeConfig(file, all)
}

// measure asks the ranking.
type measure struct {
	in    []*ranking.Index
	by    map[string]*ranking.Index
	tools map[string]bool // SERVER/TOOL
}

func (m *measure) index(name string, definitions []string) error {
	var tools []ranking.Tool
	for _, d := range definitions {
		var def struct{ Name string }
		if err := json.Unmarshal([]byte(d), &def); err != nil {
			return err
		}
		m.tools[name+"/"+def.Name] = true
		tools = append(tools, ranking.Tool{Name: name + "__" + def.Name, Bare: def.Name, Server: name, Definition: []byte(d)})
	}
	m.by[name] = ranking.New(tools)
	m.in = append(m.in, m.by[name])
	return nil
}

// report prints what was measured, and reports whether it is enough.
func (m *measure) report(s set) (ok bool) {
	ok = true
	fmt.Printf("%d servers, %d tools\n%-12s %8s %8s %8s %8s %14s\n", len(m.in), len(m.tools), "", "r@1", "r@5", "r@8", "held out", "server named")
	for _, kind := range s.kinds {
		all := s.queries[kind]
		for _, q := range all {
			for t := range q.want {
				if !m.tools[t] {
					fmt.Printf("%q: there is no %s\n", q.text, t)
					ok = false
				}
			}
		}
		if kind == "nothing" {
			fmt.Printf("%-12s %d of %d queries find something\n", kind, m.answered(all), len(all))
			continue
		}
		var half []query // that we didn't look at while we tuned
		for i := 1; i < len(all); i += 2 {
			half = append(half, all[i])
		}
		five, eight, named := m.found(all, 5), m.found(all, 8), m.named(all)
		fmt.Printf("%-12s %8.3f %8.3f %8.3f %8.3f %14.3f\n", kind, m.found(all, 1), five, eight, m.found(half, 5), named)
		if gate := gates[kind]; five < gate[0] || eight < gate[1] || named < gate[2] {
			fmt.Printf("%s: too few are found, %.2f, %.2f and %.2f are needed\n", kind, gate[0], gate[1], gate[2])
			ok = false
		}
	}
	return m.names() && ok
}

// found returns the part of the queries of which a fitting tool is among the first n.
func (m *measure) found(all []query, n int) float64 {
	yes := 0
	for _, q := range all {
		hits := ranking.Search(q.text, m.in, nil, n)
		if q.met(hits) {
			yes++
		} else if *misses && n == 5 {
			fmt.Printf("  %s\n", q.text)
			for _, h := range hits {
				fmt.Printf("    %5.2f %s\n", h.Score, h.Tool.Name)
			}
		}
	}
	return float64(yes) / float64(len(all))
}

// named does the same for queries that name the server of the tool: search mode then shows all its tools if
// they are not more than 40, and else 8.
func (m *measure) named(all []query) float64 {
	yes := 0
	for _, q := range all {
		server, _, _ := strings.Cut(slices.Min(slices.Collect(maps.Keys(q.want))), "/")
		x, n := m.by[server], 0
		if len(x.Tools()) > 40 {
			n = 8
		}
		if q.met(ranking.Search(q.text, []*ranking.Index{x}, nil, n)) {
			yes++
		}
	}
	return float64(yes) / float64(len(all))
}

func (q *query) met(hits []ranking.Hit) bool {
	return slices.ContainsFunc(hits, func(h ranking.Hit) bool { return q.want[h.Tool.Server+"/"+h.Tool.Bare] })
}

func (m *measure) answered(all []query) (n int) {
	for _, q := range all {
		n += len(ranking.Search(q.text, m.in, nil, 1))
	}
	return n
}

// names reports whether each tool's name finds it.
func (m *measure) names() (ok bool) {
	ok = true
	for _, x := range m.in {
		for _, t := range x.Tools() {
			if hits := ranking.Search(t.Name, m.in, nil, 1); len(hits) == 0 || hits[0].Tool != t {
				fmt.Printf("%s isn't found by its name\n", t.Name)
				ok = false
			}
		}
	}
	return ok
}
