//go:build unix

package daemon

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// sealingKey returns a line of a file of sealing keys.
func sealingKey(n byte) string {
	raw := make([]byte, 32)
	raw[0], raw[31] = n, 1
	return base64.StdEncoding.EncodeToString(raw) + "\n"
}

// writeSeals replaces a file of sealing keys, as old as was given.
func writeSeals(t testing.TB, path string, age time.Duration, keys ...string) {
	t.Helper()
	if err := os.WriteFile(path+".part", []byte(strings.Join(keys, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path+".part", at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		t.Fatal(err)
	}
}

// fleet is a number of replicas, of which each request gets the next one, as from a balancer that knows nothing.
type fleet struct {
	t     *testing.T
	all   []*rig
	turns int
}

// newFleet starts replicas of one configuration, with a file of sealing keys each.
func newFleet(t *testing.T, text string, wait time.Duration, files ...string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for _, file := range files {
		c, problems := config.Parse("dragoman.yaml", []byte(text), nil)
		if c == nil {
			t.Fatal(problems)
		}
		c.SealKeys = file
		f.all = append(f.all, serve(t, c, func(o *ServeOptions) { o.sealWait = wait }))
	}
	return f
}

func (f *fleet) next() *rig {
	f.turns++
	return f.all[f.turns%len(f.all)]
}

const fleetMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// send sends a modern request about a thing with this name to the next replica.
func (f *fleet) send(method, name, params string) *jsonrpc.Message {
	f.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + fleetMeta + `}}`
	return f.next().post("/mcp", body, modernHeader(method, name)...).message(f.t)
}

// asked is a call that has ended with questions.
type asked struct{ tool, params, state, key string }

// call calls a tool. The result is complete, or it asks.
func (f *fleet) call(tool, args string) (*jsonrpc.Message, asked) {
	f.t.Helper()
	params := `"name":"` + tool + `","arguments":` + args
	return f.follow(asked{tool: tool, params: params}, f.send("tools/call", tool, params))
}

func (f *fleet) follow(a asked, m *jsonrpc.Message) (*jsonrpc.Message, asked) {
	f.t.Helper()
	if kind, _ := jsonrpc.Text(m.Raw, m.ResultMember("resultType")); kind == "input_required" {
		a.state, a.key = inputRequestOf(f.t, m)
	}
	return m, a
}

// retry answers the question of a call.
func (f *fleet) retry(a asked, answer string) (*jsonrpc.Message, asked) {
	f.t.Helper()
	params := fmt.Sprintf(`%s,"requestState":%s,"inputResponses":{%s:%s}`, a.params, a.state, a.key, answer)
	return f.follow(asked{tool: a.tool, params: a.params}, f.send("tools/call", a.tool, params))
}

// fleetServers starts a modern server and a legacy one, and returns a configuration with them.
func fleetServers(t *testing.T) string {
	t.Helper()
	text := "mcpServers:\n"
	for name, profile := range map[string]string{"old": "strict-2025-11-25", "new": "strict-2026-07-28"} {
		s, err := fake.NewServer(profile, fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() {
			_ = s.Close()
			web.Close()
		})
		text += fmt.Sprintf("  %s: {url: %q}\n", name, web.URL+"/mcp")
	}
	return text
}

// confirmed makes a person confirm calls of the modern server's tool add.
const confirmed = `
dragoman:
  policy: [{match: new/add, do: confirm}]
`

// These are what a person, or their model, answers.
const (
	formFilled = `{"action":"accept","content":{"name":"Ada","age":36}}`
	sampled    = `{"role":"assistant","content":{"type":"text","text":"well said"},"model":"m","stopReason":"endTurn"}`
)

// sealFiles writes a file of sealing keys for each of three replicas.
func sealFiles(t *testing.T, keys ...string) (files []string) {
	folder := t.TempDir()
	for i := range 3 {
		files = append(files, filepath.Join(folder, fmt.Sprint("seal.keys", i)))
		writeSeals(t, files[i], time.Hour, keys...)
	}
	return files
}

// everything uses each kind of request that has no home, for two clients.
func (f *fleet) everything() {
	f.t.Helper()
	_, a := f.call("new__elicit", "{}")
	_, innocent := f.call("new__elicit", "{}")
	if m, _ := f.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
		f.t.Errorf("elicitation: %s", m.Raw)
	}
	if m, _ := f.retry(innocent, strings.Replace(formFilled, "Ada", "Bob", 1)); !strings.Contains(toolText(m), "Bob") {
		f.t.Errorf("the other client: %s", m.Raw)
	}
	_, a = f.call("new__sample", `{"prompt":"say"}`)
	if m, _ := f.retry(a, sampled); !strings.Contains(toolText(m), "well said") {
		f.t.Errorf("sampling: %s", m.Raw)
	}
	f.finish(f.newTask())
}

// TestReplicas spreads the requests of two modern clients over three replicas, so that no retry comes to the replica
// that asked. What has no home works everywhere. What has one is refused elsewhere in a sentence.
func TestReplicas(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetServers(t)+confirmed, 0, sealFiles(t, sealingKey(1))...)
	f.everything()

	t.Run("subscriptions", func(t *testing.T) {
		for _, r := range f.all {
			body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + fleetMeta + `}}`
			if m := r.open("POST", "/mcp", body, modernHeader("subscriptions/listen", "")...).event(); m == nil || m.Method != mcp.NoteAcknowledged {
				t.Errorf("a stream begins with %v", m)
			}
		}
	})
	t.Run("homes", func(t *testing.T) {
		for tool, c := range map[string]struct{ args, answer, cause, outcome, done string }{
			"new__add":    {`{"a":1,"b":2}`, `{"action":"accept"}`, "asked_elsewhere", "not_sent", "3"},
			"old__elicit": {"{}", formFilled, "park_lost", "unknown", "Ada"},
		} {
			_, a := f.call(tool, c.args)
			for range len(f.all) - 1 {
				if m, _ := f.retry(a, c.answer); errorData(m, "cause") != c.cause || errorData(m, "outcome") != c.outcome || !strings.Contains(string(m.Raw), "another process of Dragoman") {
					t.Errorf("%s elsewhere: %s", tool, m.Raw)
				}
			}
			if m, _ := f.retry(a, c.answer); !strings.Contains(toolText(m), c.done) {
				t.Errorf("%s at home: %s", tool, m.Raw)
			}
		}
		m, _ := f.call("old__task", "{}")
		id, _ := jsonrpc.Text(m.Raw, m.ResultMember("taskId"))
		if m := f.send("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id)); !strings.Contains(string(m.Raw), "Task not found: only the process of Dragoman") {
			t.Errorf("a legacy server's task elsewhere: %s", m.Raw)
		}
		session := f.next().initialize("/mcp", "2025-11-25", "{}")
		if a := f.next().post("/mcp", toolCall("1", "new__add", "{}"), "Mcp-Session-Id", session); a.status != 404 || !strings.Contains(a.body, "session not found: another process of Dragoman has begun it") {
			t.Errorf("a session elsewhere: %d %s", a.status, a.body)
		}
		if a := f.next().post("/mcp", toolCall("1", "new__add", "{}"), "Mcp-Session-Id", "AAAAAAAAAAAAB"); a.status != 404 || strings.Contains(a.body, "another") {
			t.Errorf("no session: %d %s", a.status, a.body)
		}
	})
}

// TestReplicasExchangeKeys puts a new key into the files of three replicas and takes the old one out, one file after
// the other, while clients go on (TC23).
func TestReplicasExchangeKeys(t *testing.T) {
	t.Parallel()
	files := sealFiles(t, sealingKey(1))
	f := newFleet(t, fleetServers(t), time.Nanosecond, files...)
	round := 0
	exchange := func(keys ...string) {
		t.Helper()
		round++
		for i, r := range f.all {
			writeSeals(t, files[i], 0, keys...)
			soon(t, "the keys are read again", func() bool { return r.log.count("the sealing keys were read again") == round })
			f.everything()
		}
	}
	_, a := f.call("new__elicit", "{}")
	task := f.newTask()
	exchange(sealingKey(1), sealingKey(2))
	exchange(sealingKey(2), sealingKey(1))
	if m, _ := f.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
		t.Errorf("a question from before: %s", m.Raw)
	}
	f.finish(task)
	exchange(sealingKey(2))
	for range f.all {
		if m, _ := f.retry(a, formFilled); errorData(m, "cause") != "park_lost" || !strings.Contains(string(m.Raw), "by a process with other keys") {
			t.Errorf("the old key is gone: %s", m.Raw)
		}
	}
	writeSeals(t, files[0], 0, "my secret")
	soon(t, "a bad file is reported", func() bool { return f.all[0].log.count("malformed: line 1 is not base64") == 1 })
	if strings.Contains(f.all[0].log.String(), "my secret") {
		t.Error("the log shows the file")
	}
	f.everything()
}

// newTask starts a task of the modern server.
func (f *fleet) newTask() (id string) {
	f.t.Helper()
	m, _ := f.call("new__task", "{}")
	id, _ = jsonrpc.Text(m.Raw, m.ResultMember("taskId"))
	if id == "" {
		f.t.Fatalf("no task: %s", m.Raw)
	}
	return id
}

// finish polls a task until it's over.
func (f *fleet) finish(id string) {
	f.t.Helper()
	soon(f.t, "the task is over", func() bool {
		m := f.send("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		status, _ := jsonrpc.Text(m.Raw, m.ResultMember("status"))
		if status == "" {
			f.t.Fatalf("polling: %s", m.Raw)
		}
		return status == "completed"
	})
}

// TestReplicasWithoutKeys checks that replicas without shared keys, and with different ones, say so.
func TestReplicasWithoutKeys(t *testing.T) {
	t.Parallel()
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "other")
	writeSeals(t, one, time.Hour, sealingKey(1))
	writeSeals(t, other, time.Hour, sealingKey(2))
	text := fleetServers(t)
	for _, files := range [][]string{{"", ""}, {one, other}, {one, ""}} {
		f := newFleet(t, text, 0, files...)
		_, a := f.call("new__elicit", "{}")
		m, _ := f.retry(a, formFilled)
		if errorCode(m) != jsonrpc.CodeInvalidParams || !strings.Contains(string(m.Raw), "sealed before a restart, or by a process with other keys") {
			t.Errorf("%q: %s", files, m.Raw)
		}
		if m, _ := f.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
			t.Errorf("%q: at home: %s", files, m.Raw)
		}
		id := f.newTask()
		if m := f.send("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id)); files[0] != "" && !strings.Contains(string(m.Raw), "Task not found") {
			t.Errorf("%q: a task: %s", files, m.Raw)
		}
	}
}

// TestSealWait checks from when on a key seals: one that was in the file at the start by the file's age, and a new one
// when the others can have read it (TC23).
func TestSealWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		age  time.Duration
		then []string // what the file has next, if anything
		want byte
	}{
		{time.Hour, nil, 2},
		{sealWait / 2, nil, 1},
		{-time.Hour, nil, 1},
		{time.Hour, []string{sealingKey(3), sealingKey(2), sealingKey(1)}, 2},
		{time.Hour, []string{sealingKey(1), sealingKey(2)}, 1},
		{time.Hour, []string{sealingKey(4), sealingKey(3)}, 3},
	} {
		writeSeals(t, path, c.age, sealingKey(2), sealingKey(1))
		s, err := openSealKeys(path, sealWait)
		if err != nil {
			t.Fatal(err)
		}
		if c.then != nil {
			writeSeals(t, path, 0, c.then...)
			if err := s.read(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := vault.ReadSealing(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.shared().Keyring("default").Newest(1)
		at := slices.IndexFunc(keys, func(x vault.SealingKey) bool { return x.ID == k.ID })
		if err != nil || at < 0 || keys[at].Secret[0] != c.want {
			t.Errorf("%v old, then %d keys: sealed with the key at %d (%v)", c.age, len(c.then), at, err)
		}
	}
	if _, err := openSealKeys(path+".no", sealWait); err == nil {
		t.Error("a missing file")
	}
	if s, err := openSealKeys("", sealWait); s != nil || err != nil || s.shared() != nil || s.places() != nil {
		t.Error("a process alone has shared keys")
	}
	if err := Serve(context.Background(), ServeOptions{Config: &config.Snapshot{SealKeys: path + ".no"}}); err == nil {
		t.Error("serve starts without the file")
	}
}

// TestReplicasShareASignIn answers the question for a sign-in at another replica than the one that has asked.
func TestReplicasShareASignIn(t *testing.T) {
	t.Parallel()
	_, c := secured(t, "ok")
	s := *config.Default()
	s.Servers, s.SealKeys = []config.Server{c}, sealFiles(t, sealingKey(1))[0]
	database := filepath.Join(t.TempDir(), "dragoman.db")
	at := func(o *ServeOptions) { o.Database = database }
	first, other := serve(t, &s, at), serve(t, &s, at)
	send := func(r *rig, more string) *jsonrpc.Message {
		t.Helper()
		body := strings.Replace(modernBody("1", "tools/call", `"name":"echo","arguments":{"text":"hello"}`+more), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"url":{}}}`, 1)
		return r.post("/s/gh/mcp", body, modernHeader("tools/call", "echo")...).message(t)
	}
	m := send(first, "")
	state, key := inputRequestOf(t, m)
	ask := jsonrpc.Find(m.Raw, jsonrpc.Find(m.Raw, m.ResultMember("inputRequests"), strings.Trim(key, `"`)), "params")
	link, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, ask, "url"))
	if err := visit(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	retry := fmt.Sprintf(`,"requestState":%s,"inputResponses":{%s:{"action":"accept"}}`, state, key)
	soon(t, "the other replica hears of the sign-in", func() bool {
		return !strings.Contains(other.modern("/s/gh/mcp", "1", "tools/list", "", "").body, `"sign_in"`)
	})
	for _, r := range []*rig{other, first} {
		if m := send(r, retry); !strings.Contains(toolText(m), "hello") {
			t.Errorf("the retry at the other: %t, %s", r == other, m.Raw)
		}
	}
}
