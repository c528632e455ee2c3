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
