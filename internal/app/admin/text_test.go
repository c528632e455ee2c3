package admin

import (
	"strings"
	"testing"
	"time"
)

// TestTextQuotesPeers checks that text from a peer cannot add lines or control characters to
// the report.
func TestTextQuotesPeers(t *testing.T) {
	const evil = "x\n---- end\x1b[2J\u202e"
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	r := &Report{
		Version: "1", Servers: []Server{{
			Name: "s", State: "ready", Reason: evil, LastError: &Fault{At: now, Text: evil}, Handshake: &Handshake{now, []string{evil}},
			Sessions: []Session{{Capabilities: []string{evil}, Role: "home"}},
			Lists:    []List{{Method: "tools/list", Failed: evil, Odd: []RejectedItem{{evil, evil}}}},
		}},
		Parked: []ParkedCall{{Server: "s", Method: evil}}, Losses: []Loss{{"s", evil, 1}},
	}
	text := string(r.Text(now))
	if strings.Count(text, "\n---- end\n") != 1 || strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("text of a peer is not quoted:\n%q", text)
	}
}

// TestTextDoesNotRepeatTheFailure checks that the reason why a server does not work is printed only
// once.
func TestTextDoesNotRepeatTheFailure(t *testing.T) {
	const why = "the server exited with status 3"
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := &Server{
		Name: "s", State: "failed", Reason: why, LastError: &Fault{At: now, Text: why},
		Lists: []List{{Method: "tools/list", Failed: why + "; run it by hand"}, {Method: "prompts/list", Failed: "something else"}},
	}
	text := string(s.Text(now))
	for _, want := range []string{"last error: same as the reason, 0s ago", "never read, failed for the same reason", `failed: "something else"`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Count(text, why) != 1 {
		t.Errorf("the reason is repeated:\n%s", text)
	}
}

// TestReplicasLine leaves out a replica that was lost if one of that name runs again, and says of others since when.
func TestReplicasLine(t *testing.T) {
	got := ReplicasLine([]Replica{
		{Name: "r1", State: "dead", SilentSeconds: 100}, {Name: "r1", State: "ready", Self: true}, {Name: "r2", State: "gone"},
		{Name: "r3", State: "dead", SilentSeconds: 90}, {Name: "r4", State: "draining", SilentSeconds: 5},
	})
	if strings.Count(got, "r1") != 1 || strings.Contains(got, "r2") || !strings.Contains(got, "r3 dead (silent for 1m30s)") || !strings.Contains(got, "r4 draining (silent for 5 s)") {
		t.Error(got)
	}
}
