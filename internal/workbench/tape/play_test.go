package tape

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorded records a conversation. A line that begins with c is from the client, and a line that begins
// with s is from the server.
func recorded(t *testing.T, lines ...string) (file string) {
	t.Helper()
	var b bytes.Buffer
	r := NewRecorder(&b, "A test.", nil)
	for _, l := range lines {
		section := clientLine
		if l[0] == 's' {
			section = serverLine
		}
		r.line(section, []byte(l[2:]))
	}
	r.closed(clientClose, "")
	r.Ended("exit status 0")
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return b.String()
}

func parsed(t *testing.T, file string) *Tape {
	t.Helper()
	tp, err := Parse([]byte(file))
	if err != nil {
		t.Fatalf("%v in\n%s", err, file)
	}
	return tp
}

var talk = []string{
	`c {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"a"},"protocolVersion":"2025-06-18"}}`,
	`s a banner`,
	`s {"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"s"},"capabilities":{}}}`,
	`c {"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`c {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1.50},"_meta":{"progressToken":1}}}`,
	`s {"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"message":"?"}}`,
	`c {"jsonrpc":"2.0","id":0,"result":{"action":"accept"}}`,
	`s {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
	`s {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"at 2026-01-01T00:00:00Z"}],"at":"2026-01-01T00:00:00Z"}}`,
}

// against replays the tape to a peer. The function script plays the peer: say sends a line, and
// receive returns the next line from the replay.
func against(t *testing.T, tp *Tape, client bool, script func(say func(string), receive func() string)) []Difference {
	t.Helper()
	var out []Difference
	synctest.Test(t, func(t *testing.T) {
		fromPeer, peerOut := io.Pipe()
		peerIn, toPeer := io.Pipe()
		done := make(chan error, 1)
		go func() {
			d, err := tp.PlayPipe(t.Context(), client, Ends{fromPeer, toPeer}, func() { _ = fromPeer.Close() }, Options{})
			out = d
			done <- err
		}()
		in := bufio.NewReader(peerIn)
		heard := make(chan string, 100)
		go func() {
			defer close(heard)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				heard <- strings.TrimSuffix(line, "\n")
			}
		}()
		script(func(l string) { fmt.Fprintln(peerOut, l) }, func() string { return <-heard })
		_ = peerOut.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for range heard { // read until the channel is closed
		}
	})
	return out
}

// TestServerIsPlayedToTheSameClient checks that other ids, tokens, names and spellings are not
// reported as differences.
func TestServerIsPlayedToTheSameClient(t *testing.T) {
	tp := parsed(t, recorded(t, talk...))
	d := against(t, tp, false, func(say func(string), receive func() string) {
		say(`{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025\u002d06-18","clientInfo":{"name":"b","version":"9"}}}`)
		if got := receive(); got != "a banner" {
			t.Errorf("heard %s", got)
		}
		if got := receive(); !strings.Contains(got, `"id":"x","result"`) {
			t.Errorf("heard %s", got)
		}
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		say(`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"arguments":{"n":1.5},"name":"t","_meta":{"progressToken":"tok"}}}`)
		if got := receive(); !strings.Contains(got, `"id":0,"method":"elicitation/create"`) {
			t.Errorf("heard %s", got)
		}
		say(`{"jsonrpc":"2.0","id":0,"result":{"action":"accept"}}`)
		if got := receive(); !strings.Contains(got, `"progressToken":"tok"`) {
			t.Errorf("heard %s", got)
		}
		if got := receive(); !strings.Contains(got, `"id":"y"`) {
			t.Errorf("heard %s", got)
		}
	})
	if len(d) > 0 {
		t.Errorf("differs: %v", d)
	}
}

// TestManyDifferences checks that a replay with too many differences says so, whether one message or
// many messages differ.
func TestManyDifferences(t *testing.T) {
	var members strings.Builder
	for i := range maxDifferences + 9 {
		fmt.Fprintf(&members, `,"m%d":1`, i)
	}
	for name, say := range map[string]func(say func(string)){
		"one message": func(say func(string)) {
			say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"` + members.String() + `}}`)
		},
		"many messages": func(say func(string)) {
			for i := range maxDifferences + 9 {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/n%d"}`, i))
			}
		},
	} {
		d := against(t, parsed(t, recorded(t, talk...)), false, func(s func(string), _ func() string) { say(s) })
		if len(d) != maxDifferences+1 || d[maxDifferences].String() != "further differences are not shown; the limit is 50" {
			t.Errorf("%s: %d differences, the last is %v", name, len(d), d[len(d)-1])
		}
	}
}

func TestClientThatDiffers(t *testing.T) {
	tp := parsed(t, recorded(t, talk...))
	d := against(t, tp, false, func(say func(string), receive func() string) {
		say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","x":1}}`)
		receive()
		receive()
		say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		if got := receive(); !strings.Contains(got, `"id":2,"error"`) {
			t.Errorf("heard %s", got)
		}
	})
	want := []string{
		`client initialize params.protocolVersion: the recording has "2025-06-18", the peer has "2024-11-05"`,
		`client initialize params.x: the recording has nothing, the peer has 1`,
		`not in the recording: the recording has nothing, the peer has {"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`client notifications/initialized: the recording has {"jsonrpc":"2.0","method":"notifications/initialized"}, the peer has nothing`,
		`client tools/call: the recording has {`,
		`client: the recording has {"jsonrpc":"2.0","id":0,"result"`,
	}
	if len(d) != len(want) {
		t.Fatalf("differs: %v", d)
	}
	for i, w := range want {
		if !strings.HasPrefix(d[i].String(), w) {
			t.Errorf("difference %d is %s, want %s", i, d[i], w)
		}
	}
}

// TestClientIsPlayedToAServer checks that a server with the same behaviour causes no differences,
// and that a server with another behaviour causes differences.
func TestClientIsPlayedToAServer(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{`"at 2026-01-01T00:00:00Z"`, ""},
		{`"at noon"`, `server result.content[0].text: the recording has "at 2026-01-01T00:00:00Z", the peer has "at noon"`},
	} {
		tp := parsed(t, recorded(t, talk...))
		d := against(t, tp, true, func(say func(string), receive func() string) {
			receive()
			say("a banner")
			say(`{"jsonrpc":"2.0","id":0,"result":{"capabilities":{},"serverInfo":{"name":"other"}}}`)
			receive()
			receive()
			say(`{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"?"}}`)
			if got := receive(); got != `{"jsonrpc":"2.0","id":77,"result":{"action":"accept"}}` {
				t.Errorf("heard %s", got)
			}
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			say(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":` + c.text + `}],"at":"2030-12-31T00:00:00Z"}}`)
		})
		var got string
		if len(d) > 0 {
			got = d[0].String()
		}
		if got != c.want || len(d) > 1 {
			t.Errorf("differs: %v, want %s", d, c.want)
		}
	}
}

// TestSilentPeer checks that a missing message from a server is reported once, and that the replay
// continues.
func TestSilentPeer(t *testing.T) {
	tp := parsed(t, recorded(t,
		`c {"jsonrpc":"2.0","id":1,"method":"a"}`, `s {"jsonrpc":"2.0","id":1,"result":{}}`,
		`c {"jsonrpc":"2.0","id":2,"method":"b"}`, `s {"jsonrpc":"2.0","id":2,"result":{}}`))
	began := time.Time{}
	d := against(t, tp, true, func(say func(string), receive func() string) {
		began = time.Now()
		receive()
		if got := receive(); !strings.Contains(got, `"method":"b"`) {
			t.Errorf("heard %s", got)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited %s", waited)
		}
		say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
	if len(d) != 1 || d[0].Tape != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("differs: %v", d)
	}
}

// TestPipeIsTransparent checks that bytes pass without changes, in whole lines or in parts of
// lines.
func TestPipeIsTransparent(t *testing.T) {
	up := "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"token\":\"abcdef\"}}\r\n\n\xff\n"
	down := "banner\n-- server --\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"abcdef\"}}\nhalf"
	var file bytes.Buffer
	r := NewRecorder(&file, "A test.\n-- no section --", []string{"abcdef"})
	var toServer, toClient closer
	if err := r.Pipe(Ends{strings.NewReader(up), &toClient}, Ends{strings.NewReader(down), &toServer}, nil); err != nil {
		t.Fatal(err)
	}
	r.Ended("exit status 3")
	if toServer.String() != up || toClient.String() != down || !toServer.closed {
		t.Errorf("passed %q and %q", toServer.String(), toClient.String())
	}
	tp := parsed(t, file.String())
	var got []string
	for _, e := range tp.entries {
		got = append(got, e.section+" "+string(e.body))
	}
	for _, want := range []string{
		"client {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"token\":\"[secret-1]\"}}\r", "client \xff", "client.close ",
		"server banner", "server -- server --", `server {"jsonrpc":"2.0","id":1,"result":{"t":"[secret-1]"}}`, "server half", "server.close exit status 3",
	} {
		if !strings.Contains("\x01"+strings.Join(got, "\x01")+"\x01", "\x01"+want+"\x01") {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

type closer struct {
	bytes.Buffer
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }
