package fake

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const legacyDate = "2025-06-18"

func TestNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "never-answers")
		l.want(ask(legacyDate, "1", "ping", "") + "\n" + ask(legacyDate, "2", "initialize", ""))
		l.end()
	})
}

// TestCrashAt checks that the server answers all requests before the step at which it crashes, and
// none after that.
func TestCrashAt(t *testing.T) {
	open := `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ready := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for step, c := range map[string]struct {
		says    []string
		answers int
	}{
		"start":       {nil, 0},
		"initialize":  {[]string{open}, 0},
		"initialized": {[]string{open, ready}, 1},
		"list":        {[]string{open, ready, ask(legacyDate, "1", "ping", ""), ask(legacyDate, "2", "prompts/list", "")}, 2},
		"call":        {[]string{open, ready, call(legacyDate, "1", "count", "")}, 1},
		"read":        {[]string{open, ready, ask(legacyDate, "1", "resources/read", `"uri":"fake://text"`)}, 1},
		"prompts/get": {[]string{open, ready, ask(legacyDate, "1", "prompts/get", `"name":"media"`)}, 1},
		"ping":        {[]string{ask(legacyDate, "1", "ping", "")}, 0},
	} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := play(t, "crash-at="+step)
				l.say(c.says...)
				if got := l.receive(); len(got) != c.answers {
					t.Errorf("%q, want %d answers", got, c.answers)
				}
				if err := <-l.done; !errors.Is(err, ErrDied) {
					t.Errorf("ServePipe: %v", err)
				}
				_ = l.s.Close()
			})
		})
	}
	for _, name := range []string{"crash-at=", "crash-at=never", "crash-at"} {
		if _, err := NewServer(name, Options{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestHalfLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "half-line")
		l.hello(legacyDate, "{}")
		whole := result(legacyDate, "1", words("1"))
		l.want(call(legacyDate, "1", "count", ""), whole[:len(whole)/2])
		if err := <-l.done; !errors.Is(err, ErrDied) {
			t.Errorf("ServePipe: %v", err)
		}
		_ = l.s.Close()
	})
}

func TestNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "stdout-noise")
		got := l.receive()
		if len(got) != 4 || got[0] != "Fake server running on stdio" || got[1] != "" {
			t.Errorf("%q", got)
		}
		l.want(ask(legacyDate, "1", "ping", ""), "DEBUG: about to say something", `{"jsonrpc":"2.0","id":1,"result":{}}`)
		l.end()
	})
}

func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "slow-start", "ms=5000")
		began := time.Now()
		l.say(ask(legacyDate, "1", "ping", "")) // say returns when the server reads the line
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the server read after %v", took)
		}
		l.end()
	})
}

func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "flood", "count=500")
		l.hello(legacyDate, "{}")
		l.say(call(legacyDate, "1", "count", ""))
		got := l.receive()
		if len(got) != 501 || !strings.Contains(got[499], `"data":"message 500"`) || got[500] != result(legacyDate, "1", words("1")) {
			t.Errorf("%d messages, the last is %q", len(got), got[len(got)-1:])
		}
		l.end()
	})
}

// TestFloodWithoutEnd checks that an endless flood ends when its call is cancelled.
func TestFloodWithoutEnd(t *testing.T) {
	s, err := NewServer("flood", Options{Set: map[string]string{"count": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, s)
	l.say(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, call(legacyDate, "1", "count", ""))
	for range 20000 {
		<-l.lines
	}
	l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, ask(legacyDate, "2", "ping", ""))
	for line := range l.lines {
		if line == `{"jsonrpc":"2.0","id":2,"result":{}}` {
			break
		}
	}
	l.end()
}

func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "wrong-id-type")
		l.want(ask(legacyDate, "1", "ping", ""), `{"jsonrpc":"2.0","id":"1","result":{}}`)
		l.want(ask(legacyDate, `"2"`, "ping", ""), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		l.want(ask(legacyDate, `"a"`, "ping", ""), `{"jsonrpc":"2.0","id":"a","result":{}}`)
		l.end()
	})
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "id-zero-errors")
		l.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found: notifications/initialized"}}`)
		l.end()
	})
}

func TestEndlessCursor(t *testing.T) {
	for how, want := range map[string][]string{"new": {"prompts-page-1", "prompts-page-2", "prompts-page-3"}, "same": {"prompts-again", "prompts-again", "prompts-again"}} {
		synctest.Test(t, func(t *testing.T) {
			l := play(t, "endless-cursor", "cursors="+how)
			l.hello(legacyDate, "{}")
			params := ""
			for i, cursor := range want {
				l.say(ask(legacyDate, string(rune('1'+i)), "prompts/list", params))
				got := l.receive()
				if len(got) != 1 || !strings.HasSuffix(got[0], `"nextCursor":"`+cursor+`"}}`) {
					t.Errorf("%q", got)
				}
				params = `"cursor":"` + cursor + `"`
			}
			l.end()
		})
	}
}

func TestBadSchemas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "bad-schema", "page=100")
		l.hello(legacyDate, "{}")
		l.say(ask(legacyDate, "1", "tools/list", ""))
		var list struct {
			Result struct {
				Tools []struct {
					Name        string
					InputSchema json.RawMessage
				}
			}
		}
		if err := json.Unmarshal([]byte(l.receive()[0]), &list); err != nil {
			t.Fatal(err)
		}
		var bad []string
		for _, tool := range list.Result.Tools {
			if strings.HasPrefix(tool.Name, "schema_") {
				bad = append(bad, tool.Name)
			}
		}
		if want := []string{"schema_dialect", "schema_empty", "schema_header", "schema_invalid", "schema_ref"}; !slices.Equal(bad, want) {
			t.Errorf("%q", bad)
		}
		l.want(call(legacyDate, "2", "schema_ref", ""), result(legacyDate, "2", words("ran")))
		l.end()
	})
}

// TestEveryProfile checks that NewServer accepts every server profile, with its default settings
// and with every revision.
func TestEveryProfile(t *testing.T) {
	for _, p := range Profiles() {
		if p.Side != ServerSide {
			continue
		}
		name := p.Name
		if strings.HasSuffix(name, "=") {
			name += "call"
		}
		sets := []map[string]string{nil, {}}
		for _, setting := range p.Settings {
			sets[1][setting.Name] = setting.Default
			if setting.Name == "revision" {
				for _, ed := range editions() {
					sets = append(sets, map[string]string{"revision": ed.date})
				}
			}
		}
		for _, set := range sets {
			s, err := NewServer(name, Options{Set: set})
			if err != nil {
				t.Errorf("%s with %v: %v", name, set, err)
				continue
			}
			_ = s.Close()
		}
		if p.About == "" || !strings.HasSuffix(p.About, ".") {
			t.Errorf("%s: %q is not a sentence", p.Name, p.About)
		}
		if _, ok := Lookup(ServerSide, name); !ok {
			t.Errorf("%s was not found", name)
		}
	}
}
