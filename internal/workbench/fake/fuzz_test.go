package fake

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// seeds calls add with conversations, which have one message per line.
func seeds(add func(string)) {
	ready := `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for _, ed := range editions() {
		open := ""
		if ed.has(handshake) {
			open = opening(ed.date) + "\n" + ready
		}
		d := ed.date
		add(open + call(d, "1", "echo", `"text":"x"`) + "\n" + call(d, "2", "add", `"a":1e308,"b":1e308`))
		add(open + ask(d, "1", "tools/list", `"cursor":"tools-from-4"`) + "\n" + ask(d, "2", "resources/read", `"uri":"fake://items/\u0000"`))
		add(open + call(d, "1", "ask_all", "") + "\n" + `{"jsonrpc":"2.0","id":1,"result":` + sampleAnswer + `}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		add("[" + ask(d, "1", "ping", "") + "," + call(d, "2", "wait", `"steps":1,"ms":0`) + "]")
		add(open + ask(d, "1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["fake://text",1]}`) + "\n" + call(d, "2", "touch", `"uri":"fake://text"`))
		add(open + ask(d, "1", "completion/complete", `"ref":{"type":"ref/resource","uri":"fake://items/{id}"},"argument":{"name":"id","value":""}`))
	}
	add("\r\n\x00[[[")
}

type collector struct{ bytes.Buffer }

func (*collector) Close() error { return nil }

// FuzzPipe checks that each line from the server is one message or one batch of answers, and that
// ServePipe returns when its input ends.
func FuzzPipe(f *testing.F) {
	seeds(func(s string) {
		for i := range editions() {
			f.Add(i, s)
		}
	})
	f.Fuzz(func(t *testing.T, i int, in string) {
		all := editions()
		ed := all[(i%len(all)+len(all))%len(all)]
		s, err := NewServer("strict-"+ed.date, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out collector
		if err := s.ServePipe(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		for line := range bytes.Lines(out.Bytes()) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if _, err := jsonrpc.Scan(line, jsonrpc.Limits{}); err == nil {
				continue
			}
			if ed.has(batches) {
				if items, err := jsonrpc.ScanBatch(line, jsonrpc.Limits{Tolerant: true}); err == nil && len(items) > 0 {
					continue
				}
			}
			if m, err := jsonrpc.Scan(line, jsonrpc.Limits{Tolerant: true}); err != nil || m.Kind != jsonrpc.Failure {
				t.Errorf("%s: not a message: %q", ed.date, line)
			}
		}
	})
}

// FuzzPost checks that no POST makes the handler panic, and that every response of type
// application/json is valid JSON.
func FuzzPost(f *testing.F) {
	seeds(func(s string) {
		for i := range editions() {
			f.Add(i, s, "Mcp-Method: tools/call\nMcp-Name: echo\nMcp-Protocol-Version: 2026-07-28")
		}
	})
	f.Fuzz(func(t *testing.T, i int, in, headers string) {
		all := editions()
		ed := all[(i%len(all)+len(all))%len(all)]
		s, err := NewServer("strict-"+ed.date, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		h := s.Handler()
		session := ""
		for line := range strings.Lines(in) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(line))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
				r.Header.Set("Mcp-Protocol-Version", ed.date)
			}
			for h := range strings.Lines(headers) {
				name, value, _ := strings.Cut(strings.TrimSuffix(h, "\n"), ":")
				r.Header[http.CanonicalHeaderKey(name)] = []string{strings.TrimSpace(value)}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			cancel()
			if id := w.Header().Get("Mcp-Session-Id"); id != "" {
				session = id
			}
			if w.Header().Get("Content-Type") == "application/json" && jsonrpc.Valid(w.Body.Bytes(), jsonrpc.Limits{}) != nil {
				t.Errorf("%s: not JSON: %q", ed.date, w.Body.String())
			}
		}
	})
}
