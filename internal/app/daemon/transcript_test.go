//go:build unix

package daemon

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// TestTranscript saves a call with progress as a transcript. Then Replay takes Dragoman's part of
// the transcript, first with the real server and then with a client. Neither replay may differ from
// the transcript.
func TestTranscript(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"legacy", "modern"} {
		for _, client := range []string{"2025-06-18", modernVersion} {
			t.Run(client+" to "+server, func(t *testing.T) {
				t.Parallel()
				u := child(t, "child", server)
				option, key := withKey(t)
				var link string
				r := serve(t, snapshot(u), option, func(o *ServeOptions) { o.Console = func(c Console) { link = c.Link() } })
				const params = `"name":"child__echo","arguments":{"v": 1e400}`
				body := strings.Replace(modernBody("7", "tools/call", params), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
				header := modernHeader("tools/call", "child__echo")
				if client != modernVersion {
					header = []string{"Mcp-Session-Id", r.initialize("/mcp", client, "{}")}
					body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `,"_meta":{"progressToken":"p"}}}`
				}
				r.post("/mcp", body, header...).wantText(t, `{"v": 1e400}`)
				call := r.awaitCalls("?method=tools/call", 1)[0]
				path := "/api/v1/calls/" + decimal(call.Number) + "/transcript"
				if a := r.do(t.Context(), "GET", path, nil); a.status != 401 {
					t.Errorf("without the key: %d", a.status)
				}
				a := r.do(t.Context(), "GET", path, nil, key(r)...)
				if a.status != 200 || !strings.Contains(a.body, "notifications/progress") || !strings.Contains(a.header.Get("Content-Disposition"), "call-"+decimal(call.Number)+".txtar") {
					t.Fatalf("%d %v %s", a.status, a.header, a.body)
				}
				browser := r.enter(link)
				if saved := r.do(t.Context(), "GET", "/console/calls/"+decimal(call.Number)+"/wires.txtar", nil, browser...); saved.body != a.body {
					t.Errorf("the console saves another file: %d %s", saved.status, saved.body)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()

				played, err := tape.ParseWire([]byte(a.body), tape.WireServer)
				if err != nil {
					t.Fatal(err)
				}
				found, err := Replay(ctx, ReplayOptions{Tape: played, Server: &u.Server, Stderr: io.Discard, Options: tape.Options{Timeout: time.Minute}})
				if err != nil || len(found) != 0 {
					t.Errorf("the server behaves differently: %v %v\n%s", found, err, a.body)
				}

				played, err = tape.ParseWire([]byte(a.body), "")
				if err != nil {
					t.Fatal(err)
				}
				in, toTape := io.Pipe()
				fromTape, out := io.Pipe()
				done := make(chan error, 1)
				go func() {
					found, err := Replay(ctx, ReplayOptions{Tape: played, Stdin: in, Stdout: out, Options: tape.Options{Timeout: time.Minute}})
					if len(found) > 0 {
						t.Errorf("the client behaves differently: %v\n%s", found, a.body)
					}
					done <- err
				}()
				lines := bufio.NewScanner(fromTape)
				say := func(line string) {
					t.Helper()
					if _, err := io.WriteString(toTape, line+"\n"); err != nil {
						t.Fatal(err)
					}
				}
				hear := func(want string) {
					t.Helper()
					if !lines.Scan() || !strings.Contains(lines.Text(), want) {
						t.Fatalf("the tape says %s %v, want %s", lines.Text(), lines.Err(), want)
					}
				}
				if client != modernVersion {
					say(initializeBody(client, "{}"))
					hear(`"protocolVersion":"` + client + `"`)
					say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				say(strings.Replace(body, `"id":7`, `"id":"mine"`, 1))
				hear("notifications/progress")
				hear(`"id":"mine"`)
				_ = toTape.Close()
				if err := <-done; err != nil {
					t.Errorf("the replay: %v", err)
				}
			})
		}
	}
}

// TestTranscriptMasksEncodedSecrets checks that neither the story of a call nor its transcript has a
// configured secret, in whatever form client and server repeat it.
func TestTranscriptMasksEncodedSecrets(t *testing.T) {
	t.Parallel()
	const secret = "sésame&street/7"
	forms := []string{
		secret, base64.StdEncoding.EncodeToString([]byte("me:" + secret)), url.QueryEscape(secret),
		`s\u00e9same&street/7`, `sésame\u0026street\/7`, `INFO {\"msg\":\"s\\u00e9same\\u0026street/7\"}`,
	}
	u := newWeb(t, true).as(t, "web")
	c, problem := config.Complete(config.Server{Name: "web", URL: u.Server.URL, Header: []config.Field{{Name: "X-Api-Key", Value: config.NewSecret(secret)}}})
	if problem != nil {
		t.Fatal(problem)
	}
	option, key := withKey(t)
	r := serve(t, snapshot(&upstreamUnderTest{Server: c}), option)
	r.post("/mcp", modernBody(`"id-1"`, "tools/call", `"name":"web__echo","arguments":{"s":["`+strings.Join(forms, `","`)+`"]}`), modernHeader("tools/call", "web__echo")...)
	call := r.awaitCalls("?method=tools/call&q=echo", 1)[0]
	for _, path := range []string{"/transcript", ""} {
		a := r.do(t.Context(), "GET", "/api/v1/calls/"+decimal(call.Number)+path, nil, key(r)...)
		if a.status != 200 || !strings.Contains(a.body, "web__echo") {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, part := range []string{"same", "street", "FtZSZz", "c2Ft", "%26"} {
			if strings.Contains(a.body, part) {
				t.Errorf("%q shows %s: %s", path, part, a.body)
			}
		}
	}
}
