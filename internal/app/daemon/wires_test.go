//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// wireLog keeps the messages that a fake client or a fake server captures. A line begins with "> "
// if the fake has sent the message, and with "< " if the fake has received it.
type wireLog struct {
	server bool // the fake is a server
	mu     sync.Mutex
	lines  []string
}

func (l *wireLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var line struct {
		Capture struct {
			Direction string
			Payload   json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &line); err != nil {
		return 0, err
	}
	way := "< "
	if (line.Capture.Direction == "response") == l.server {
		way = "> "
	}
	l.lines = append(l.lines, way+string(line.Capture.Payload))
	return len(b), nil
}

// take returns the messages of calls since the last forget. It leaves out the messages of
// handshakes, lists and pings.
func (l *wireLog) take(t *testing.T) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := map[string]bool{} // the requests of calls
	for _, line := range l.lines {
		m, err := jsonrpc.Scan([]byte(line[2:]), jsonrpc.Limits{Bytes: len(line), Tolerant: true})
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		other := map[byte]string{'<': ">", '>': "<"}[line[0]]
		switch {
		case m.Kind == jsonrpc.Notification && !slices.Contains([]string{mcp.NoteProgress, mcp.NoteCancelled, mcp.NoteMessage}, m.Method):
		case m.Kind == jsonrpc.Request && !slices.Contains([]string{mcp.MethodCallTool, mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodElicit}, m.Method):
		case m.Kind != jsonrpc.Request && m.Kind != jsonrpc.Notification && !asked[other+string(m.ID)]:
		default:
			if m.Kind == jsonrpc.Request {
				asked[line[:1]+string(m.ID)] = true
			}
			out = append(out, line)
		}
	}
	return out
}

func (l *wireLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

// storyLines returns the messages of stories on one wire, as lines of a wireLog. It leaves out
// messages without a body, such as a request that continues a stream.
func storyLines(stories []admin.Story, wire string) (lines []string, masked [][]admin.Range) {
	for _, s := range stories {
		for _, m := range s.Messages {
			if m.Wire != wire || m.Size == 0 || m.Error != "" && wire == admin.WireClient {
				continue // the fakes have not captured this message
			}
			way := "> "
			if m.Direction == "sent" {
				way = "< "
			}
			lines, masked = append(lines, way+string(m.Bytes())), append(masked, m.Masked)
		}
	}
	return lines, masked
}

// differ describes the first difference between the captured lines and the lines of a story, or
// returns "". Bytes that are masked in the story may differ.
func differ(seen, told []string, masked [][]admin.Range) string {
	for i := range max(len(seen), len(told)) {
		switch {
		case i >= len(seen):
			return fmt.Sprintf("message %d is only in the story: %s", i, told[i])
		case i >= len(told):
			return fmt.Sprintf("message %d is not in the story: %s", i, seen[i])
		}
		b := []byte(seen[i])
		for _, r := range masked[i] {
			for j := r[0] + 2; j < r[1]+2 && j < len(b) && j < len(told[i]); j++ {
				b[j] = told[i][j]
			}
		}
		if string(b) != told[i] {
			return fmt.Sprintf("message %d is\n%s\nand in the story\n%s", i, seen[i], told[i])
		}
	}
	return ""
}

// sides returns the lines of sent messages, followed by the lines of received messages.
func sides(lines []string, masked [][]admin.Range) (out []string, outMasked [][]admin.Range) {
	for _, way := range []byte(">-<") {
		for i, l := range lines {
			if l[0] == way {
				out = append(out, l)
				if masked != nil {
					outMasked = append(outMasked, masked[i])
				}
			}
		}
	}
	return out, outMasked
}

// TestBothWires makes calls of each kind from strict fake clients to strict fake servers, over
// HTTP. The story of each call has the messages that the two fakes have sent and received, byte for
// byte and in the same order. Every header field in a story has a note that gives the reason for
// the field.
func TestBothWires(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"2025-11-25", modernVersion} {
		for _, server := range []string{"2025-11-25", modernVersion} {
			t.Run(client+" to "+server, func(t *testing.T) {
				t.Parallel()
				testBothWires(t, client, server)
			})
		}
	}
}

func testBothWires(t *testing.T, client, server string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ofServer, ofClient := &wireLog{server: true}, &wireLog{}
	set := map[string]string{}
	if server != modernVersion {
		set["drop"] = "2" // only a server of 2025-11-25 can continue a stream that was closed
	}
	s, err := fake.NewServer("strict-"+server, fake.Options{Capture: ofServer, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	defer func() { _ = s.Close() }()
	c, problem := config.Complete(config.Server{Name: "web", URL: web.URL + s.Path(), Header: []config.Field{{Name: "X-Team", Value: config.NewSecret("blue")}}})
	if problem != nil {
		t.Fatal(problem)
	}
	option, key := withKey(t)
	r := serve(t, snapshot(&upstreamUnderTest{Server: c}), option)
	defer func() { _ = r.stop() }() // stop Dragoman before web, because web.Close waits until Dragoman's streams end
	header := key(r)
	peer, err := fake.OpenClient(ctx, "strict-"+client, fake.Where{URL: r.base + "/mcp"}, fake.ClientOptions{Capture: ofClient})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, method, params string, o fake.CallOptions) error {
		got, err := peer.Call(ctx, method, []byte(params), o)
		if err == nil && got.Err != nil {
			err = got.Err
		}
		return err
	}
	tool := func(name, arguments string) string {
		return `{"name":"web__` + name + `","arguments":` + arguments + `}`
	}
	if err := call(ctx, mcp.MethodCallTool, tool("echo", `{"text":"first"}`), fake.CallOptions{}); err != nil { // opens the session with the server
		t.Fatal(err)
	}
	last := r.awaitCalls("", 1)[0].Number
	// check compares the stories of the calls since the last check with the messages that the fakes
	// have captured. If crossing is true, it compares sent and received messages separately,
	// because in a cancelled call they may cross.
	check := func(name string, crossing bool) []admin.Story {
		t.Helper()
		var stories []admin.Story
		problem := ""
		holds := func() bool {
			stories = nil
			for _, x := range slices.Backward(r.awaitCalls("", 1)) {
				if x.Number > last && slices.Contains([]string{mcp.MethodCallTool, mcp.MethodGetTask, mcp.MethodTaskResult}, x.Method) {
					stories = append(stories, r.story(x.Number, header))
				}
			}
			if len(stories) == 0 {
				problem = "there is no story"
				return false
			}
			for _, x := range []struct {
				name, wire string
				log        *wireLog
			}{{"client", admin.WireClient, ofClient}, {"server", admin.WireServer, ofServer}} {
				seen := x.log.take(t)
				told, masked := storyLines(stories, x.wire)
				if crossing {
					seen, _ = sides(seen, nil)
					told, masked = sides(told, masked)
				}
				if problem = differ(seen, told, masked); problem != "" {
					problem = "the wire of the " + x.name + ": " + problem
					return false
				}
			}
			for _, s := range stories {
				if problem = headsOf(s); problem != "" {
					return false
				}
			}
			return true
		}
		// Repeat the comparison, because Dragoman and the fakes may record the last messages a
		// little later.
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %s", name, problem)
			}
		}
		for _, s := range stories {
			last = max(last, s.Number)
		}
		ofServer.forget()
		ofClient.forget()
		return stories
	}
	ofServer.forget()
	ofClient.forget()

	if err := call(ctx, mcp.MethodCallTool, tool("echo", `{"text":"plain"}`), fake.CallOptions{}); err != nil {
		t.Error(err)
	}
	check("plain", false)
	if err := call(ctx, mcp.MethodCallTool, tool("wait", `{"steps":3,"ms":1}`), fake.CallOptions{Progress: true}); err != nil {
		t.Error(err)
	}
	told := check("progress", false)
	if resumes := notesOf(told[0])["resume"] != ""; resumes != (server != modernVersion) {
		t.Errorf("progress: the story has a request that continues the stream: %v", resumes)
	}
	if err := call(ctx, mcp.MethodCallTool, tool("elicit", `{}`), fake.CallOptions{}); err != nil {
		t.Error(err)
	}
	told = check("elicitation", false)
	if want := map[bool]int{false: 1, true: 2}[client == modernVersion]; told[0].Requests != want {
		t.Errorf("elicitation: %d requests of the client, want %d", told[0].Requests, want)
	}
	if client != modernVersion && server == modernVersion { // for a legacy client, Dragoman itself polls the task of the modern server
		if err := call(ctx, mcp.MethodCallTool, tool("task_only", `{}`), fake.CallOptions{}); err != nil {
			t.Error(err)
		}
		told = check("task", false)
		if polls, _ := storyLines(told, admin.WireServer); !strings.Contains(strings.Join(polls, ""), `"tasks/get"`) {
			t.Errorf("task: no poll in %q", polls)
		}
	}
	giving, up := context.WithCancel(ctx) // up cancels the next call, after the server has received it
	ended := make(chan error, 1)
	go func() {
		ended <- call(giving, mcp.MethodCallTool, tool("wait", `{"steps":1,"ms":60000}`), fake.CallOptions{Progress: true})
	}()
	await(t, "the call", time.Minute, func() bool { return len(ofServer.take(t)) > 0 })
	up()
	if err := <-ended; err == nil {
		t.Error("the call was not cancelled")
	}
	told = check("cancelled", true)
	if told[0].Cause != "cancelled" {
		t.Errorf("cancelled: the cause is %q", told[0].Cause)
	}
	if err := peer.Close(); err != nil {
		t.Error(err)
	}
	for _, v := range append(peer.Violations(), s.Violations()...) {
		t.Errorf("violation: %s", v)
	}
}

// headsOf checks that each header field of each HTTP head in a story has an edit with a note. It
// returns a description of the first fault, or "".
func headsOf(s admin.Story) string {
	notes := notesOf(s)
	want := map[string]string{
		"Mcp-Session-Id": "session", "Mcp-Protocol-Version": "version", "Mcp-Method": "mirror", "Mcp-Name": "mirror", "Last-Event-Id": "resume",
		"X-Team": "configured", "Accept": "connection", "User-Agent": "connection", "Date": "connection",
	}
	for i, m := range s.Messages {
		// Another goroutine sends a cancellation, so the story lacks the HTTP request of the
		// cancellation.
		if m.Wire == admin.WireServer && m.Direction == "sent" && m.Request == nil && !strings.Contains(string(m.Bytes()), mcp.NoteCancelled) {
			return fmt.Sprintf("message %d was sent without a request: %s", i, m.Bytes())
		}
		for _, h := range []*admin.Head{m.Request, m.Response} {
			if h == nil {
				continue
			}
			kind := "added"
			if m.Direction == "received" || h == m.Response && m.Request != nil {
				kind = "removed"
			}
			for _, f := range h.Headers {
				e := h.Of(f[0])
				if e == nil || e.Kind != kind || e.Note == "" || notes[e.Reason] != e.Note || want[f[0]] != "" && e.Reason != want[f[0]] {
					return fmt.Sprintf("message %d: %s has the edit %+v", i, f[0], e)
				}
			}
		}
	}
	return ""
}
