package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const listenLimit = 10 * time.Second // the time limit for a process to start listening

// stage holds the contestants and the processes of one run of bench.
type stage struct {
	options
	self      string // the path of this binary
	dir       string // a temporary directory
	upstreams [2]string
	processes []*proc.Process
	// contestants holds all contestants in the order in which line creates them. After a
	// contestant has failed, its err is set and fit omits it.
	contestants []*contestant
	failures    []string
	issuer      *issuer // nil until somebody signs in
}

// contestant is one configuration to measure: a path from a client of one era to an upstream
// of one era.
type contestant struct {
	report.Who
	client, upstream words.Era
	addr             string
	middle           *proc.Process // nil for a direct connection
	pipe             *load.Pipe    // the clients' connection if they are on stdio, otherwise nil
	crowd            *load.Crowd
	guests           []*load.Client // the idle sessions of Crowded
	keys             []string       // the API keys that its clients send, each another one; nil for none
	samples          map[setting][]sample
	base             *contestant // the same contestant with the binary from -against, or nil
	plain            *contestant // the contestant that plainOf says, or nil
	err              error
}

// open creates the temporary directory, starts the upstreams, and builds Dragoman if necessary.
func (s *stage) open(ctx context.Context) error {
	var err error
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "dragoman-bench-"); err != nil {
		return err
	}
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		p, addr, err := s.launch(nil, s.self, func(addr string) []string {
			return []string{"echo", "-until-eof", "-http", addr, "-era", era.String()}
		})
		if p != nil {
			s.processes = append(s.processes, p)
		}
		if err != nil {
			return fmt.Errorf("upstream: %w", err)
		}
		s.upstreams[era] = addr
	}
	if s.dragoman == "" && slices.ContainsFunc(s.paths, throughDragoman) {
		say("building dragoman")
		if s.dragoman, err = build(ctx, s.root, s.dir); err != nil {
			s.fail("dragoman", err)
		}
	}
	return nil
}

// set starts the contestants, and sends a first request through each.
func (s *stage) set(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	s.line()
	for _, c := range s.contestants {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.enter(ctx, c); err != nil {
			c.err = err
			s.fail(c.String(), err)
		}
	}
	return nil
}

var eras = map[byte]words.Era{'M': words.Modern, 'L': words.Legacy}

// line creates the contestants. A cell is a pair of eras, such as ML: the client's era, then the
// upstream's. A direct connection and the proxies do not translate, so they have only the cells MM
// and LL. If there is no Dragoman binary, line omits the contestants that need it.
func (s *stage) line() {
	for _, path := range allPaths {
		if !s.wants(path) || s.dragoman == "" && throughDragoman(path) {
			continue
		}
		for _, cell := range allCells {
			client, upstream := eras[cell[0]], eras[cell[1]]
			if throughDragoman(path) && !mixes(path) && client != upstream {
				continue
			} else if !throughDragoman(path) {
				// Dragoman in a mixed cell, such as ML, is compared with a proxy in the cell
				// that has the client's era twice, such as MM.
				if client != upstream || !slices.ContainsFunc(s.cells, func(c string) bool { return c[0] == cell[0] }) {
					continue
				}
			} else if !slices.Contains(s.cells, cell) {
				continue
			}
			c := &contestant{
				Who:    report.Who{Path: path, Client: client.Letter(), Upstream: upstream.Letter()},
				client: client, upstream: upstream, samples: map[setting][]sample{},
			}
			c.plain = s.plainOf(c)
			s.contestants = append(s.contestants, c)
			if s.against != "" && throughDragoman(path) {
				base := *c
				base.Base, base.plain, base.samples = true, nil, map[setting][]sample{}
				c.base = &base
				s.contestants = append(s.contestants, c.base) // directly after c, so that c and its base run one after the other
			}
		}
	}
	// What is compared has the same client era, and so runs soon after the other.
	slices.SortStableFunc(s.contestants, func(a, b *contestant) int { return cmp.Compare(a.client, b.client) })
}

// plainOf returns the contestant that differs from c only in what c is there to measure, or nil.
func (s *stage) plainOf(c *contestant) *contestant {
	path := map[string]string{
		report.Events: report.HTTP, report.Crowded: report.HTTP, report.Many: report.Few,
		report.Console: report.Serve, report.Recording: report.Serve, report.Keys: report.Serve, report.Audited: report.Serve, report.Guarded: report.Serve, report.Keyring: report.Keys,
		report.SignedIn: report.Header, report.Filtered: report.Listed,
	}[c.Path]
	switch {
	case path != "":
		return s.find(path, c.client, c.upstream)
	case c.client != c.upstream:
		return s.find(c.Path, c.client, c.client)
	}
	return nil
}

// mixes reports whether a path through Dragoman is also measured in mixed cells. The other paths are
// about something that translation has no part in.
func mixes(path string) bool { return path == report.HTTP || path == report.Stdio }

// throughDragoman reports whether Dragoman is between client and upstream on a path.
func throughDragoman(path string) bool {
	return path != report.Direct && path != report.Proxy && path != report.Floor
}

// find returns the contestant with the given path and eras, or nil if it does not exist. It ignores
// contestants that use the binary from -against.
func (s *stage) find(path string, client, upstream words.Era) *contestant {
	for _, c := range s.contestants {
		if c.Path == path && c.client == client && c.upstream == upstream && !c.Base {
			return c
		}
	}
	return nil
}

// enter starts the process between client and upstream, and checks that tools/list gets an answer
// through this process. For a direct connection, enter only sets the address.
func (s *stage) enter(ctx context.Context, c *contestant) error {
	if c.Path == report.Direct {
		c.addr = s.upstreams[c.upstream]
		return nil
	}
	env, arguments, err := s.arguments(c)
	if err != nil {
		return err
	}
	if c.Path == report.Piped {
		var in io.Writer
		var out io.Reader
		if c.middle, in, out, err = proc.StartPiped(env, s.binary(c), arguments("")...); err != nil {
			return err
		}
		c.pipe = load.NewPipe(in, out)
	} else {
		c.middle, c.addr, err = s.launch(env, s.binary(c), arguments)
	}
	if c.middle != nil {
		s.processes = append(s.processes, c.middle)
	}
	if err != nil {
		return err
	}
	switch c.Path {
	case report.Serve, report.Console, report.Recording, report.Keys, report.Keyring, report.Audited, report.Guarded, report.Header, report.SignedIn:
		c.addr += "/s/" + served + "/mcp" // the endpoint of one server, where tool names have no prefix
	}
	if err := s.firstList(c); err != nil {
		return c.middle.Explain(err)
	}
	if c.Path == report.Crowded {
		say("opening %d idle sessions", s.guests)
		for i := range s.guests {
			if err := openConnected(c.addr, i, &c.guests); err != nil {
				return c.middle.Explain(fmt.Errorf("idle session %d: %w", i, err))
			}
		}
		pause(ctx, s.settle)
	}
	return nil
}

// dial returns a client of c.
func (c *contestant) dial(number int) *load.Client {
	if c.pipe != nil {
		return c.pipe.Dial(c.client, number)
	}
	client := load.Dial(c.addr, c.client, number)
	if len(c.keys) > 0 {
		client.Key = c.keys[number%len(c.keys)]
	}
	switch c.Path {
	case report.Listed, report.Filtered:
		client.Lists = true
		fallthrough
	case report.Few, report.Many:
		client.Tool = served + "__echo"
	}
	return client
}

func (s *stage) binary(c *contestant) string {
	switch {
	case !throughDragoman(c.Path):
		return s.self
	case c.Base:
		return s.against
	}
	return s.dragoman
}

// arguments describes how to start the process between client and upstream. It returns variables to
// add to the environment, and a function that returns the arguments for a listen address.
func (s *stage) arguments(c *contestant) (env []string, arguments func(addr string) []string, err error) {
	url := "http://" + s.upstreams[c.upstream]
	run := func(target ...string) func(string) []string {
		return func(addr string) []string {
			args := append([]string{"run"}, s.dragomanArgs...)
			if addr != "" {
				args = append(args, "--listen", addr)
			}
			return append(args, target...)
		}
	}
	switch c.Path {
	case report.Proxy:
		return nil, func(addr string) []string { return []string{"proxy", "-until-eof", "-listen", addr, "-to", url} }, nil
	case report.Floor:
		return nil, func(addr string) []string {
			return []string{"bare", "-until-eof", "-listen", addr, "-era", c.client.String()}
		}, nil
	case report.HTTP, report.Crowded, report.Piped:
		return nil, run(url + "/mcp"), nil
	case report.Events:
		return nil, run(url + "/events"), nil
	case report.Stdio:
		return nil, run(append([]string{"--"}, s.child(c.upstream)...)...), nil
	}
	path := "/mcp"
	if c.Path == report.Header || c.Path == report.SignedIn {
		path = "/closed"
	}
	if c.Path == report.Listed || c.Path == report.Filtered {
		path = "/large"
	}
	return s.serve(c, url+path)
}

// served is the name of the upstream in the configuration of "dragoman serve".
const served = "echo"

// serve returns the same values as arguments, for "dragoman serve". The servers of Few and Many have
// the same URL, and the name of the one that gets the calls is in the middle of the alphabet.
func (s *stage) serve(c *contestant, url string) (env []string, arguments func(addr string) []string, err error) {
	settings := "  record: off\n"
	if c.Path == report.Recording {
		settings = "  record: memory\n"
	}
	if c.Path == report.Audited {
		settings += "  audit: {calls: names}\n"
	}
	if c.Path == report.Guarded {
		settings += "  audit: {calls: names}\n  pins: hold\n  policy:\n" + manyRules()
	}
	if c.Path == report.Filtered {
		settings += "  policy:\n  - {match: '" + served + "/tool_9*', do: deny}\n" + manyRules()
	}
	var file string
	servers := fmt.Sprintf("  %s: {url: '%s'%s}\n", served, url, map[string]string{report.Header: ", headers: {Authorization: Bearer access-000}"}[c.Path])
	for i := range map[string]int{report.Few: 10, report.Many: 200, report.Keyring: 200}[c.Path] - 1 {
		servers += fmt.Sprintf("  %c%d: {url: '%s'}\n", 'a'+i%26, i, url)
	}
	if n := map[string]int{report.Keys: 1, report.Keyring: 10_000, report.Guarded: 1, report.Header: people, report.SignedIn: people}[c.Path]; n > 0 {
		env, file, c.keys, err = s.inhabited(c, url, servers, settings+"  access: {loopback: keys}\n", n)
	} else {
		env, file, err = s.configure(servers, settings)
	}
	return env, func(addr string) []string {
		args := []string{"serve", "-c", file, "--listen", addr}
		if c.Path != report.Console && c.Path != report.Recording {
			args = append(args, "--no-console")
		}
		return append(args, s.dragomanArgs...)
	}, err
}

// manyRules returns 200 rules for the server of the calls, of which the last one allows all.
func manyRules() string {
	var all strings.Builder
	for i := range 199 {
		fmt.Fprintf(&all, "  - {match: ['%s/never_%d_*', '%s/prompt:never_%d'], do: deny}\n", served, i, served, i)
	}
	fmt.Fprintf(&all, "  - {match: '%s/*', do: allow}\n", served)
	return all.String()
}

// configure writes a configuration of "dragoman serve" with lines for mcpServers and for dragoman.
// All files that the process uses are in a temporary directory of its own, through env.
func (s *stage) configure(servers, settings string) (env []string, file string, err error) {
	dir, err := os.MkdirTemp(s.dir, "serve-")
	if err != nil {
		return nil, "", err
	}
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		env = append(env, name+"="+dir)
	}
	file = filepath.Join(dir, "dragoman.yaml")
	return env, file, os.WriteFile(file, []byte("mcpServers:\n"+servers+"dragoman:\n"+settings), 0o600)
}

// child returns the command line of a stdio upstream.
func (s *stage) child(era words.Era) []string {
	return []string{s.self, "echo", "-stdio", "-era", era.String()}
}

func (s *stage) firstList(c *contestant) error {
	client := c.dial(0)
	defer client.Close()
	if err := client.Open(); err != nil {
		return err
	}
	if err := client.List(); err != nil {
		return err
	}
	return client.Leave()
}

// launch starts a process with a free address as its listen address, and waits until the process
// listens. launch returns a process that has started even if it does not listen.
func (s *stage) launch(env []string, binary string, args func(addr string) []string) (*proc.Process, string, error) {
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, "", err
	}
	p, err := proc.Start(env, binary, args(addr)...)
	if err != nil {
		return nil, "", err
	}
	return p, addr, p.Await(addr, listenLimit)
}

// strike stops all processes and removes the temporary directory.
func (s *stage) strike() {
	for _, c := range s.contestants {
		if c.crowd != nil {
			c.crowd.Disperse()
		}
		for _, g := range c.guests {
			g.Close()
		}
	}
	for _, p := range slices.Backward(s.processes) { // stop each process between client and upstream before the upstream
		p.Stop()
	}
	if s.issuer != nil {
		s.issuer.close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *stage) wants(path string) bool { return slices.Contains(s.paths, path) }

func (s *stage) fail(who string, err error) {
	s.failures = append(s.failures, who+": "+err.Error())
	say("FAILED %s: %v", who, err)
}

// fit returns the contestants that have not failed.
func (s *stage) fit() []*contestant {
	return slices.DeleteFunc(slices.Clone(s.contestants), func(c *contestant) bool { return c.err != nil })
}

// turns returns the contestants that have not failed and are measured with a setting. Other numbers of
// clients than the first are only for what has a target there, and large texts not for what they would
// only blur.
func (s *stage) turns(at setting) []*contestant {
	return slices.DeleteFunc(s.fit(), func(c *contestant) bool {
		switch {
		case at.clients != s.clients[0]:
			return c.Path != report.HTTP && c.Path != report.Proxy || c.client != c.upstream
		case at.size > 1024:
			return slices.Contains(allPaths[slices.Index(allPaths, report.Crowded):], c.Path)
		}
		return false
	})
}

// say prints a line for the user to stderr. Results go to stdout.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
