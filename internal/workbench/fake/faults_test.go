package fake

import (
	"strings"
	"testing"
)

const legacyDate = "2025-06-18"

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

// The other tests of the faulty servers are in package doctor, which finds each fault
// (TestEveryFaultIsFound).

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
	for _, name := range []string{"crash-at=", "crash-at=never", "crash-at"} {
		if _, err := NewServer(name, Options{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
