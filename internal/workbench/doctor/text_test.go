package doctor

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestOnlyText examines commands that print text and no message. The examination ends after the
// timeout of the first answer and the timeout of one more request. It says what the command printed,
// and not that the server was ready.
func TestOnlyText(t *testing.T) {
	const text = "Listening on :3000"
	for name, odd := range map[string]func(p *plain, line string, m *jsonrpc.Message) bool{
		"text in place of each answer": func(p *plain, _ string, _ *jsonrpc.Message) bool { p.say(text); return true },
		"text once": func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == waysIn()[0].method {
				p.say(text)
			}
			return true
		},
		"text and the end": func(p *plain, _ string, _ *jsonrpc.Message) bool { p.say(text); _ = p.out.Close(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := Examine(t.Context(), Target{Start: startPlain(odd), Name: "s", Program: "s"}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 36*time.Second {
					t.Errorf("the examination took %s", took)
				}
				v := r.Verdict
				if v.Reached || v.Healthy || v.Offer.Ready != 0 || !slices.Equal(codes(r), []string{Unreachable}) || !strings.Contains(r.Findings[0].Evidence, text) {
					t.Errorf("the verdict is %+v:\n%s", v, dump(r))
				}
				if f := v.Failure; f == nil || f.Class != failure.NotJSON || !strings.Contains(f.Sentence, text) || !slices.Equal(f.Evidence, []string{text}) {
					t.Errorf("the failure is %+v", f)
				}
			})
		})
	}
}

// TestWebPageIsNotReady checks that a web server without MCP does not count as ready.
func TestWebPageIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := call(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<title>Welcome</title>")
		}), "/mcp", Options{})
		if v := r.Verdict; !v.Reached || v.Healthy || v.Offer.Ready != 0 {
			t.Errorf("the verdict is %+v:\n%s", v, dump(r))
		}
	})
}
