package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// TestSlowReader checks that a server that prints a lot does not wait for a reader that
// stopped reading. When the reader continues, it learns exactly how many lines it missed.
func TestSlowReader(t *testing.T) {
	const lines = 100_000
	ring := logring.New()
	say := ring.Stderr("loud", nil)
	say([]byte("0"))
	api := New(Options{Recent: ring, Local: true})
	mux := http.NewServeMux()
	api.Routes(mux)
	web := httptest.NewServer(mux)
	defer web.Close()
	defer api.Drain()
	c, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(256 << 10)
	if _, err := io.WriteString(c, "GET /api/v1/logs/stream?server=loud&limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if _, err := in.Peek(1); err != nil { // wait until the stream is open
		t.Fatal(err)
	}
	for i := range lines {
		say([]byte(strconv.Itoa(i + 1)))
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := eventstream.NewReader(resp.Body, eventstream.Limits{})
	missed := 0
	for before := -1; before < lines; {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Name != EventRecord {
			continue
		}
		var r LogRecord
		if err := json.Unmarshal(e.Data, &r); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(r.Text)
		if err != nil || n != before+1+int(r.Missed) {
			t.Fatalf("line %q after %d, and %d missed", r.Text, before, r.Missed)
		}
		before, missed = n, missed+int(r.Missed)
	}
	t.Logf("missed %d of %d lines", missed, lines)
	if missed == 0 {
		t.Error("nothing was missed")
	}
}

// TestAttributes checks that attributes keep their order when they are encoded as JSON and
// decoded again.
func TestAttributes(t *testing.T) {
	in := Attributes{{"z", `1 "x"`}, {"a", ""}, {"m", "é"}}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"z":"1 \"x\"","a":"","m":"é"}` {
		t.Errorf("%s, %v", b, err)
	}
	var out Attributes
	if err := json.Unmarshal(b, &out); err != nil || len(out) != 3 || out[0] != in[0] || out[2] != in[2] {
		t.Errorf("%v, %v", out, err)
	}
	for in, want := range map[string]string{`[]`: "the attributes are not an object", `"a"`: "the attributes are not an object", `{"a":1}`: "number"} {
		if err := json.Unmarshal([]byte(in), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// TestLogRecordsAreMasked checks that a record of ours that has a name from a server shows no secret.
func TestLogRecordsAreMasked(t *testing.T) {
	r := serving(t, demoServer(t, "s", "legacy"))
	log := slog.New(logring.NewHandler(r.api.opts.Recent, slog.DiscardHandler))
	log.Warn("not sent to clients", "server", "s", "why", "db://u:hunter2-secret@h/x is left out")
	log.Warn("not sent to clients", "why", "com.x/hunter2-secret is left out")
	var logs Logs
	r.get("/api/v1/logs", &logs)
	text := fmt.Sprint(logs.Records)
	if strings.Contains(text, "hunter2-secret") || strings.Count(text, "is left out") != 2 {
		t.Error(text)
	}
}
