package load

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/bench/internal/echo"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

func startEcho(t *testing.T, era words.Era) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	s := &echo.HTTP{Era: era}
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestClientAndEcho(t *testing.T) {
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			addr := startEcho(t, era)
			c, err := Gather(func(n int) *Client { return Dial(addr, era, n) }, 4)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Disperse()
			for _, size := range []int{MinSize, 256, 1024, 64 << 10} {
				c.Prepare(size)
				s, err := c.Run(0) // one call per client
				if err != nil || s.Calls != 4 || s.P99 < s.P50 || s.P50 <= 0 {
					t.Fatalf("%d: %+v %v", size, s, err)
				}
			}
			one := c.clients[0]
			if err := one.List(); err != nil {
				t.Error(err)
			}
			if era == words.Legacy {
				if ok, err := one.Listen(); ok || err != nil {
					t.Error(ok, err)
				}
			}
			if err := c.clients[1].Leave(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPipe checks that clients that share a pipe get their own answers, also out of order, and an
// error if the server ends.
func TestPipe(t *testing.T) {
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			requests, in := io.Pipe()
			out, answers := io.Pipe()
			go func() {
				defer answers.Close()
				var held []byte
				for lines := bufio.NewScanner(requests); lines.Scan(); {
					answer := echo.Reply(nil, era, lines.Bytes())
					switch {
					case answer == nil:
					case !bytes.Contains(lines.Bytes(), []byte("tools/call")):
						_, _ = answers.Write(append(answer, '\n'))
					case held == nil:
						held = append(answer, '\n')
					default: // the second call is answered first
						_, _ = answers.Write(slices.Concat([]byte(`{"jsonrpc":"2.0","method":"notifications/message"}`+"\n"), answer, []byte("\n"), held))
						held = nil
					}
				}
			}()
			p := NewPipe(in, out)
			c, err := Gather(func(n int) *Client { return p.Dial(era, n) }, 2)
			if err != nil {
				t.Fatal(err)
			}
			c.Prepare(MinSize)
			if s, err := c.Run(0); err != nil || s.Calls != 2 {
				t.Fatal(s, err)
			}
			if err := c.clients[0].List(); err != nil {
				t.Error(err)
			}
			_ = in.Close()
			<-p.ended
			if _, err := p.ask([]byte("x\n"), []byte("7"), make(chan []byte, 1)); err == nil {
				t.Error("no error after the end")
			}
		})
	}
}

// TestCallChecks checks that every kind of wrong answer is detected, and that correct answers
// are accepted.
func TestCallChecks(t *testing.T) {
	const right = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"TEXT"}]}}`
	for _, c := range []struct{ name, answer, fault string }{
		{"right", right, ""},
		{"other order", `{ "result" : {"content":[{"text":"TEXT","type":"text"}], "resultType":"complete","x":{}}, "id":ID,"jsonrpc":"2.0"}`, ""},
		{"stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: " + right + "\n\n", ""},
		{"id as string", strings.Replace(right, "ID", `"ID"`, 1), `the answer has the id "100300000000001", want 100300000000001`},
		{"id of another", strings.Replace(right, "ID", "7", 1), "the answer has the id 7, want 100300000000001"},
		{"no id", strings.Replace(right, `"id":ID,`, ``, 1), "no id"},
		{"text of another", strings.Replace(right, "TEXT", strings.Repeat("x", 256), 1), "different from byte 0"},
		{"text cut", strings.Replace(right, `TEXT"}`, `CUT"}`, 1), "different from byte"},
		{"error", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"m"}}`, "-32603"},
		{"tool error", strings.Replace(right, `"content"`, `"isError":true,"content"`, 1), "the tool failed"},
		{"no resultType", strings.Replace(right, `"resultType":"complete",`, ``, 1), "resultType"},
		{"no content", `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`, "content"},
		{"image", strings.Replace(right, `"type":"text"`, `"type":"image"`, 1), "image"},
		{"no version", strings.Replace(right, `"jsonrpc":"2.0",`, ``, 1), "jsonrpc is missing"},
		{"half", right[:40], "not valid JSON"},
		{"stream without answer", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", "no answer"},
		{"stream with two", "data: " + right + "\n\ndata: " + right + "\n\n", "2 answers"},
		{"status", "", "HTTP 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var client *Client
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.answer == "" {
					w.WriteHeader(503)
					return
				}
				if strings.Contains(c.answer, "data: ") {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				// The client does not change its buffers while it waits for this answer.
				text := string(client.text)
				out := strings.NewReplacer("ID", string(client.id), "TEXT", text, "CUT", text[:len(text)-1]).Replace(c.answer)
				_, _ = w.Write([]byte(out))
			}))
			defer srv.Close()
			client = Dial(strings.TrimPrefix(srv.URL, "http://"), words.Modern, 3)
			defer client.Close()
			client.Prepare(256)
			_, err := client.Call()
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Fatalf("got %v, want %q", err, c.fault)
			}
		})
	}
}

// TestWatch checks that only notifications may come on a stream for notifications.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		event string
		wrong bool
	}{
		"notification": {`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, false},
		"answer":       {`{"jsonrpc":"2.0","id":7,"result":{}}`, true},
		"request":      {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, true},
	} {
		for _, era := range []words.Era{words.Modern, words.Legacy} {
			t.Run(name+" "+era.String(), func(t *testing.T) {
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = w.Write([]byte(": hello\n\ndata: " + c.event + "\n\n"))
				}))
				defer srv.Close()
				client := Dial(strings.TrimPrefix(srv.URL, "http://"), era, 3)
				defer client.Close()
				if ok, err := client.Listen(); !ok || err != nil {
					t.Fatal(ok, err)
				}
				if err := client.Watch(); (err != nil) != c.wrong {
					t.Error(err)
				}
			})
		}
	}
}

func TestTextsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	addr := startEcho(t, words.Modern)
	for n := range 2 {
		c := Dial(addr, words.Modern, n)
		c.Prepare(64)
		for range 3 {
			if _, err := c.Call(); err != nil {
				t.Fatal(err)
			}
			if text := string(c.text); seen[text] || seen[string(c.id)] {
				t.Errorf("%s twice", text)
			} else {
				seen[text], seen[string(c.id)] = true, true
			}
		}
		c.Close()
	}
}

func TestQuantile(t *testing.T) {
	s := make([]int, 100)
	for i := range s {
		s[i] = i
	}
	if Quantile(s, 0.5) != 50 || Quantile(s, 0.99) != 99 || Quantile(s, 1) != 99 || Quantile([]int(nil), 0.5) != 0 {
		t.Error(Quantile(s, 0.5), Quantile(s, 0.99), Quantile(s, 1))
	}
}
