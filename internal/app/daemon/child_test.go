//go:build unix

package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// journalVar is the environment variable with the name of the file in which a server records its
// events. The file also contains the events before a restart of the server.
const journalVar = "DAEMON_TEST_JOURNAL"

// gateVar is the environment variable that delays a server until a file exists. "exit FILE" makes the
// server exit with status 3 while FILE does not exist. "wait FILE" makes the server wait for FILE.
const gateVar = "DAEMON_TEST_GATE"

func passGate(gate string) {
	how, file, _ := strings.Cut(gate, " ")
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if how == "exit" {
			fmt.Fprintln(os.Stderr, "not yet")
			os.Exit(3)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// runAsServer runs the process as a stdio server. mode selects the behaviour of the server:
//
//	legacy    speaks 2025-11-25
//	modern    speaks 2026-07-28 only
//	mute      never answers
//	exit      writes to stderr and exits with status 3
//	kill      is killed by a signal before its first byte
//	leave     answers initialize, then exits
//	noisy     legacy, with a banner, constant stderr output, and wrong answers in between
//	stubborn  legacy, ignores SIGTERM and the end of stdin
//	crlf      legacy, with CRLF at the end of every line and empty lines in between
//	latin     legacy, with lines that are not UTF-8 in between, on both streams
//	parent    legacy, with a stubborn child of its own that holds its streams
//
// "legacy:700" and "modern:700" list 700 tools, in pages. Each tool answers with its name.
// For other calls, the name of the tool selects the behaviour; see tool.
func runAsServer(mode string) {
	mode, many, _ := strings.Cut(mode, ":")
	s := &fakeServer{mode: mode, out: os.Stdout, running: make(map[jsonrpc.ID]chan struct{})}
	s.many, _ = strconv.Atoi(many)
	s.note("start %d", os.Getpid())
	if gate := os.Getenv(gateVar); gate != "" {
		passGate(gate)
	}
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "THE_TOKEN is not set")
		os.Exit(3)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "parent":
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = append(os.Environ(), asServer+"=stubborn")
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		idle, err := grandchild.StdinPipe() // the child's own stdin, so that it does not read messages of the protocol
		if err != nil || grandchild.Start() != nil {
			os.Exit(1)
		}
		defer idle.Close()
	case "noisy":
		fmt.Println("Server started on stdio")
		go func() {
			for {
				_, _ = fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 100))
				time.Sleep(time.Millisecond)
			}
		}()
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1})
		if err != nil || mode == "mute" {
			continue
		}
		s.take(m)
	}
	s.note("eof")
	if mode == "stubborn" {
		select {}
	}
}

type fakeServer struct {
	mode string
	many int // number of tools

	mu      sync.Mutex
	out     io.Writer
	running map[jsonrpc.ID]chan struct{} // closed when the call is cancelled
	lastAsk int
	asks    map[string]chan *jsonrpc.Message
}

func (s *fakeServer) note(format string, args ...any) {
	f, err := os.OpenFile(os.Getenv(journalVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

func (s *fakeServer) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := "\n"
	switch s.mode {
	case "crlf":
		end = "\r\n\r\n"
	case "latin":
		_, _ = fmt.Fprintln(os.Stderr, "gr\xfc\xdfe")
		_, _ = io.WriteString(s.out, "gr\xfc\xdfe\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"\xff\"}}\n")
	}
	_, _ = s.out.Write(append(b[:len(b):len(b)], end...))
}

func (s *fakeServer) result(m *jsonrpc.Message, result string) {
	if s.mode == "modern" {
		result = `{"resultType":"complete",` + result[1:]
		result = strings.Replace(result, ",}", "}", 1)
	}
	s.write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}

func (s *fakeServer) take(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
		s.mu.Lock()
		c := s.asks[string(m.ID)]
		delete(s.asks, string(m.ID))
		s.mu.Unlock()
		if c != nil {
			c <- m
		}
		return
	}
	if s.mode == "noisy" {
		fmt.Fprintln(os.Stdout, `{"jsonrpc":"2.0","id":424242,"result":{"stray":true}}`)
		fmt.Fprintln(os.Stdout, `half a {"json`)
	}
	switch m.Method {
	case mcp.MethodDiscover:
		if s.mode == "modern" {
			s.result(m, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},"serverInfo":{"name":"child","version":"1"},"instructions":"be kind"}`)
			return
		}
	case mcp.MethodInitialize:
		if s.mode == "modern" {
			break
		}
		s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true,"listChanged":true}},"serverInfo":{"name":"child","version":"1"},"instructions":"be kind"}`)
		if s.mode == "leave" {
			os.Exit(0)
		}
		return
	case mcp.MethodListTools:
		s.note("list")
		if s.many > 0 {
			s.result(m, s.page(m))
			return
		}
		s.result(m, `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"crash","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"progress","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}}]}`)
		return
	case mcp.MethodListResources:
		s.result(m, `{"resources":[{"uri":"test://one","name":"one"}]}`)
		return
	case mcp.MethodListen:
		s.listen(m)
		return
	case mcp.MethodCallTool:
		gone := make(chan struct{})
		s.mu.Lock()
		s.running[m.ID] = gone
		s.mu.Unlock()
		name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
		s.note("call %s %s", name, m.ID)
		go func() {
			s.tool(m, name, gone)
			s.mu.Lock()
			delete(s.running, m.ID)
			s.mu.Unlock()
		}()
		return
	case mcp.NoteCancelled:
		id := jsonrpc.ID(m.Param("requestId").Of(m.Raw))
		s.note("cancelled %s", id)
		s.mu.Lock()
		if gone := s.running[id]; gone != nil {
			close(gone)
			delete(s.running, id)
		}
		s.mu.Unlock()
		return
	case mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		s.result(m, `{}`)
		return
	}
	if m.Kind == jsonrpc.Request {
		s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}))
	}
}

// page returns one page of the list, with at most a hundred tools.
func (s *fakeServer) page(m *jsonrpc.Message) string {
	cursor, _ := jsonrpc.Text(m.Raw, m.Param("cursor"))
	from, _ := strconv.Atoi(cursor)
	to := min(from+100, s.many)
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(`{"name":"t%04d","inputSchema":{"type":"object"}}`, i))
	}
	next := ""
	if to < s.many {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	return `{"tools":[` + strings.Join(all, ",") + `]` + next + `}`
}

func (s *fakeServer) listen(m *jsonrpc.Message) {
	gone := make(chan struct{})
	s.mu.Lock()
	s.running[m.ID] = gone
	s.mu.Unlock()
	meta := `{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}`
	s.write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(`{"_meta":`+meta+`,"notifications":`+string(m.Param("notifications").Of(m.Raw))+`}`)))
}

// tool does what the name of the tool says.
func (s *fakeServer) tool(m *jsonrpc.Message, name string, gone <-chan struct{}) {
	args := string(m.Param("arguments").Of(m.Raw))
	if at := m.Param(mcp.KeyMeta); !jsonrpc.Find(m.Raw, at, mcp.KeyTraceparent).IsZero() {
		s.note("traced %s", at.Of(m.Raw))
	}
	text := func(t string) {
		s.result(m, `{"content":[{"type":"text","text":`+string(jsonrpc.AppendQuote(nil, t))+`}]}`)
	}
	token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw)
	progress := func(tok []byte, n int) {
		s.write(jsonrpc.AppendNotification(nil, mcp.NoteProgress, []byte(fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":%s}`, tok, n, jsonrpc.AppendQuote(nil, args)))))
	}
	switch name {
	case "echo": // sends progress with its arguments, then answers with them
		if token != nil {
			progress(token, 1)
		}
		text(args)
	case "pid":
		text(fmt.Sprint(os.Getpid()))
	case "env":
		text(strings.Join(os.Environ(), "\n"))
	case "hang": // waits until it is cancelled and sends no answer
		<-gone
	case "work": // sends progress when it has begun, then waits like hang
		progress(token, 1)
		<-gone
	case "slow":
		time.Sleep(300 * time.Millisecond)
		text(args)
	case "crash":
		os.Exit(7)
	case "progress": // exits between a progress notification and the answer
		progress(token, 1)
		time.Sleep(50 * time.Millisecond)
		os.Exit(7)
	case "half": // exits in the middle of its answer
		s.mu.Lock()
		fmt.Print(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"te`)
		os.Exit(7)
	case "large": // answers with as many bytes as requested
		n, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Param("arguments"), "n"))
		text(strings.Repeat("x", int(n)))
	case "endless": // writes a line that does not end, longer than what Dragoman skips (256 MiB)
		s.mu.Lock()
		for range 300 {
			_, _ = os.Stdout.Write([]byte(strings.Repeat("x", 1<<20)))
		}
		s.mu.Unlock()
		select {}
	case "mute": // close stdout and keep running
		_ = os.Stdout.Close()
		select {}
	case "twice": // answers twice, and a third time with an unknown id
		text("first")
		text("second")
		s.write(jsonrpc.AppendResult(nil, "9999", []byte(`{"content":[]}`)))
	case "request": // sends a request, which a modern server must not do
		s.write([]byte(`{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`))
		time.Sleep(50 * time.Millisecond)
		text("done")
	case "storm": // sends progress with a wrong token, backwards, in a flood, and after the answer
		progress([]byte("987654"), 1)
		for i := range 20000 {
			progress(token, i+1)
		}
		progress(token, 1)
		text("done")
		progress(token, 30000)
	case "flood": // sends notifications until it is cancelled
		progress(token, 1)
		for {
			select {
			case <-gone:
				return
			default:
				s.write([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
			}
		}
	case "ask for": // sends the request in its arguments to the client, and answers with the response
		answer := make(chan *jsonrpc.Message, 1)
		s.mu.Lock()
		s.lastAsk++
		id := fmt.Sprintf(`"ask-%d"`, s.lastAsk)
		if s.asks == nil {
			s.asks = make(map[string]chan *jsonrpc.Message)
		}
		s.asks[id] = answer
		s.mu.Unlock()
		s.write([]byte(`{"jsonrpc":"2.0","id":` + id + "," + args[1:]))
		select {
		case a := <-answer:
			text(string(a.Raw))
		case <-gone:
		}
	case "ask", "ask on": // send a request to the client; "ask on" then waits until it is cancelled
		s.mu.Lock()
		s.lastAsk++
		id := fmt.Sprintf(`"ask-%d"`, s.lastAsk)
		if s.asks == nil {
			s.asks = make(map[string]chan *jsonrpc.Message)
		}
		answer := make(chan *jsonrpc.Message, 1)
		s.asks[id] = answer
		s.mu.Unlock()
		s.write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":` + string(jsonrpc.AppendQuote(nil, args)) + `,"requestedSchema":{"type":"object","properties":{}}}}`))
		select {
		case a := <-answer:
			if name == "ask on" {
				s.note("answered")
				<-gone
				return
			}
			text(args + " " + string(a.ResultMember("content").Of(a.Raw)) + string(a.Error.Of(a.Raw)))
		case <-gone:
		}
	default:
		if s.many > 0 {
			text(name)
			return
		}
		s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + name}))
	}
}

// upstreamUnderTest is the configuration of a server, with its journal.
type upstreamUnderTest struct {
	config.Server
	journal   string
	complains bool // whether the test expects that the server records violations
}

// childEnv returns the environment with which the test binary acts as a server.
func childEnv(mode, journal string) map[string]config.Secret {
	env := map[string]config.Secret{asServer: config.NewSecret(mode), journalVar: config.NewSecret(journal)}
	if race := os.Getenv(leaktest.RaceOptions); race != "" {
		env[leaktest.RaceOptions] = config.NewSecret(race)
	}
	return env
}

// child returns a server of the given mode. name is its name in the configuration.
func child(t testing.TB, name, mode string, more ...func(*config.Server)) *upstreamUnderTest {
	t.Helper()
	u := &upstreamUnderTest{journal: filepath.Join(t.TempDir(), "journal")}
	s := config.Server{
		Name: name, Command: os.Args[0], Dir: t.TempDir(),
		Env: childEnv(mode, u.journal),
	}
	for _, f := range more {
		f(&s)
	}
	complete, problem := config.Complete(s)
	if problem != nil {
		t.Fatal(problem)
	}
	u.Server = complete
	return u
}

// count returns how often an event is in the journal.
func (u *upstreamUnderTest) count(what string) int { return len(u.entries(what)) }

// entries returns the journal lines that start with what, without this prefix.
func (u *upstreamUnderTest) entries(what string) (rest []string) {
	b, _ := os.ReadFile(u.journal)
	for line := range strings.SplitSeq(string(b), "\n") {
		if line == what || strings.HasPrefix(line, what+" ") {
			rest = append(rest, strings.TrimPrefix(line[len(what):], " "))
		}
	}
	return rest
}

// pids returns the process ids of all processes of the server so far.
func (u *upstreamUnderTest) pids(t testing.TB) []int {
	t.Helper()
	b, _ := os.ReadFile(u.journal)
	var all []int
	for line := range strings.SplitSeq(string(b), "\n") {
		var pid int
		if n, _ := fmt.Sscanf(line, "start %d", &pid); n == 1 {
			all = append(all, pid)
		}
	}
	return all
}

// patience returns the time limit for an operation that takes at most the time most on an idle
// machine. The limit allows for a busy machine, but is shorter than the timeouts of Dragoman (30
// seconds and more).
func patience(most time.Duration) time.Duration { return max(5*most, 25*time.Second) }

// await polls until ok returns true. It fails the test if this takes longer than patience(within).
func await(t testing.TB, what string, within time.Duration, ok func() bool) {
	t.Helper()
	within = patience(within)
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not true after %v", what, within)
		}
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	at := strings.LastIndexByte(string(b), ')')
	return at > 0 && !strings.HasPrefix(string(b[at+1:]), " Z")
}
