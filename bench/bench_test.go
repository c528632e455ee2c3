package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
)

// TestMain lets the test binary run as every process that a comparison starts. The subcommands
// "echo", "proxy" and "bare" are those of bench. With "run" and "serve" the test binary is a stand-in
// for Dragoman that relays messages without translation.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "echo", "proxy", "bare":
			main()
			os.Exit(0)
		case "run":
			fmt.Fprintln(os.Stderr, standIn(os.Args[2:]))
			os.Exit(1)
		case "serve":
			fmt.Fprintln(os.Stderr, standInServe(os.Args[2:]))
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// standInServe forwards /s/echo/mcp to the URL in the configuration.
func standInServe(args []string) error {
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "url: '")
	address, _, _ := strings.Cut(rest, "'")
	return forward(args[3], "/s/echo/mcp", address)
}

// forward forwards requests to path on addr to another address.
func forward(addr, path, to string) error {
	target, err := url.Parse(to)
	if err != nil {
		return err
	}
	return http.ListenAndServe(addr, proxyTo(func(r *httputil.ProxyRequest) {
		if r.In.URL.Path == path {
			r.Out.URL = target
		}
	}))
}

func standIn(args []string) error {
	switch {
	case args[0] == "--":
		return syscall.Exec(args[1], args[1:], os.Environ())
	case len(args) == 1:
		return pipe(args[0])
	case args[2] != "--":
		return forward(args[1], "/mcp", args[2])
	}
	return bridge(args[1], args[3:])
}

// pipe passes messages from stdin to url, one at a time.
func pipe(url string) error {
	session := ""
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		req, err := http.NewRequest("POST", url, bytes.NewReader(lines.Bytes()))
		if err != nil {
			return err
		}
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		if body, _ := io.ReadAll(res.Body); len(body) > 0 {
			fmt.Printf("%s\n", body)
		}
		res.Body.Close()
	}
	return nil
}

// bridge passes messages from HTTP to a child on stdio, one at a time.
func bridge(addr string, child []string) error {
	cmd := exec.Command(child[0], child[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var mu sync.Mutex
	lines := bufio.NewReader(stdout)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = stdin.Write(append(body, '\n'))
		if bytes.Contains(body, []byte(`"notifications/`)) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		line, _ := lines.ReadBytes('\n')
		w.Header().Set("Mcp-Session-Id", "one")
		_, _ = w.Write(line)
	}))
}

// TestCompare runs a short comparison. It checks that the cells without translation succeed, and
// that the cell with translation fails.
func TestCompare(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = compareTo(t.Context(), []string{"-dragoman", self, "-time", "10ms", "-rounds", "2", "-clients", "4,2", "-sizes", "256,65536",
		"-cells", "MM,LL,ML", "-paths", "direct,proxy,bare,http,events,stdio,piped,idle", "-only", "load,start", "-guests", "3", "-starts", "1", "-settle", "10ms", "-json"}, &out)
	var r report.Report
	if json.Unmarshal(out.Bytes(), &r) != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	// The stand-in does not translate, so only the mixed cell fails, on both paths, and legacy clients
	// that are idle in front of the modern upstream.
	if err == nil || len(r.Failures) != 3 || !strings.HasPrefix(r.Failures[0], "dragoman http M>L: ") ||
		!strings.HasPrefix(r.Failures[1], "dragoman http, idle sessions M>M: ") || !strings.HasPrefix(r.Failures[2], "dragoman stdio M>L: ") {
		t.Fatalf("%v: %q", err, r.Failures)
	}
	// The idle sessions are only measured with small texts, and with two clients only what has a
	// target. A contestant that failed has no rows.
	if len(r.Load) != 15+14+4 || len(r.Starts) != 3 {
		t.Fatalf("%d and %d rows", len(r.Load), len(r.Starts))
	}
	for _, l := range r.Load {
		if l.Calls < 2*l.Clients || l.Rate.Median <= 0 || l.P99.Median < l.P50.Median {
			t.Errorf("%v: %+v", l.Who, l)
		}
		if (l.CPU == nil) != (l.Path == report.Direct) || (l.CPURatio == nil) != (l.Path == report.Direct || l.Path == report.Proxy) {
			t.Errorf("%v: CPU %v, ratio %v", l.Who, l.CPU, l.CPURatio)
		}
		if (l.ChildCPU != nil) != (l.Path == report.Stdio) || (l.Children == 1) != (l.Path == report.Stdio) {
			t.Errorf("%v: child CPU %v, %d children", l.Who, l.ChildCPU, l.Children)
		}
	}
	if len(r.Targets) == 0 {
		t.Error("no targets")
	}
}

// TestCompareAgainst checks that -against also measures a base binary on the paths through Dragoman.
// No target may apply to the base binary.
func TestCompareAgainst(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = compareTo(t.Context(), []string{"-dragoman", self, "-against", self, "-time", "10ms", "-rounds", "3", "-clients", "2",
		"-sizes", "256", "-cells", "MM", "-paths", "direct,proxy,http,stdio", "-only", "load", "-json"}, &out)
	var r report.Report
	if err != nil || json.Unmarshal(out.Bytes(), &r) != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(r.Load) != 6 || len(r.Versus) != 2 {
		t.Fatalf("%d rows, %d comparisons", len(r.Load), len(r.Versus))
	}
	for _, v := range r.Versus {
		if v.Base || !v.To.Base || v.Pairs != 3 || v.CPU == nil || v.Rate == nil || v.CPU.Median <= 0 {
			t.Errorf("%+v", v)
		}
	}
	if len(r.Targets) != 3 { // the CPU time of http and stdio, and calls per second
		t.Errorf("the targets include the base binary: %+v", r.Targets)
	}
}

// TestCompareServe checks that the paths of "dragoman serve" are compared with the right ones, and that each comparison
// has a target.
func TestCompareServe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = compareTo(t.Context(), []string{"-dragoman", self, "-time", "10ms", "-rounds", "3", "-clients", "2",
		"-sizes", "1024", "-cells", "MM,LL", "-paths", "serve,console,recording,header,signedin", "-only", "load", "-json"}, &out)
	var r report.Report
	if err != nil || json.Unmarshal(out.Bytes(), &r) != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(r.Load) != 10 || len(r.Versus) != 6 || len(r.Targets) != 6 {
		t.Fatalf("%d rows, %d comparisons, %d targets", len(r.Load), len(r.Versus), len(r.Targets))
	}
	for i, v := range r.Versus {
		to := map[string]string{report.SignedIn: report.Header}
		if v.To.Path != cmp.Or(to[v.Path], report.Serve) || v.To.Client != v.Client || v.Pairs != 3 || v.CPU == nil || v.CPU.Median <= 0 {
			t.Errorf("%+v", v)
		}
		if x := r.Targets[i]; x.Cell != v.Cell() || !strings.Contains(x.Promise, v.Name()) {
			t.Errorf("%+v", x)
		}
	}
}

// TestIdleOpeners checks how many connections each kind of idle session keeps open.
func TestIdleOpeners(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- serveBare(ctx, []string{"-listen", addr}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			break
		}
	}
	for name, c := range map[string]struct {
		open  func(string, int, *[]*load.Client) error
		conns int
	}{"connected": {openConnected, 3}, "streaming": {openStreaming, 6}} {
		var clients []*load.Client
		for i := range 3 {
			if err := c.open(addr, i, &clients); err != nil {
				t.Fatal(name, err)
			}
		}
		if len(clients) != c.conns {
			t.Errorf("%s: %d connections", name, len(clients))
		}
		for _, c := range clients {
			c.Close()
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-cells", "M>L,ll", "-sizes", "30, 64"})
	if err != nil || strings.Join(o.cells, " ") != "ML LL" || len(o.sizes) != 2 {
		t.Errorf("%+v %v", o, err)
	}
	for _, args := range []string{"-cells MX", "-sizes 1", "-paths x", "-only x", "-rounds 0", "-time 0s", "-clients 9000", "stray", "-nope"} {
		if _, err := parseOptions(strings.Fields(args)); err == nil {
			t.Errorf("%s: accepted", args)
		} else if _, ok := err.(usageError); !ok {
			t.Errorf("%s: %T", args, err)
		}
	}
}
