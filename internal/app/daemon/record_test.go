//go:build unix

package daemon

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

const (
	tapedHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	tapedCall  = `{"jsonrpc":"2.0","id":"a" ,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi","password":"p"}}}`
)

// TestRecordThenReplay records a conversation with a server process. Then Replay acts as the server
// for the same client, and as the client for the same server. Apart from masked secrets, both get
// the same bytes as before.
func TestRecordThenReplay(t *testing.T) {
	t.Parallel()
	server := child(t, "s", "legacy").Server
	lines := []string{tapedHello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, tapedCall}
	client := func(in io.WriteCloser, out io.Reader) (heard []string) {
		r := bufio.NewReader(out)
		for _, l := range lines {
			_, _ = io.WriteString(in, l+"\n")
			if strings.Contains(l, `"id"`) {
				line, err := r.ReadString('\n')
				if err != nil {
					t.Errorf("after %s: %v", l, err)
				}
				heard = append(heard, line)
			}
		}
		_ = in.Close()
		_, _ = io.Copy(io.Discard, r)
		return heard
	}
	// with runs f, connects the client to the streams of f, and returns what the client has
	// received.
	with := func(f func(in io.ReadCloser, out io.WriteCloser)) []string {
		in, toProgram := io.Pipe()
		fromProgram, out := io.Pipe()
		var done sync.WaitGroup
		done.Go(func() {
			f(in, out)
			_ = out.Close()
			_ = in.Close()
		})
		heard := client(toProgram, fromProgram)
		done.Wait()
		return heard
	}

	var file logtest.Buffer
	first := with(func(in io.ReadCloser, out io.WriteCloser) {
		code, err := Record(t.Context(), RecordOptions{Server: server, Tape: &file, About: "A test.", Stdin: in, Stdout: out})
		if err != nil || code != 0 {
			t.Errorf("record: %d, %v", code, err)
		}
	})
	text := file.String()
	if strings.Contains(text, `"password":"p"`) || strings.Contains(text, `\"password\":\"p\"`) || !strings.Contains(text, tapedHello+"\n") || !strings.Contains(text, "-- server.close --") {
		t.Errorf("the tape is\n%s", text)
	}
	played, err := tape.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	again := with(func(in io.ReadCloser, out io.WriteCloser) {
		d, err := Replay(t.Context(), ReplayOptions{Tape: played, Stdin: in, Stdout: out, Options: tape.Options{Timeout: time.Minute}})
		if err != nil || len(d) > 0 {
			t.Errorf("replay to the client: %v, %v", d, err)
		}
	})
	if strings.ReplaceAll(strings.Join(first, ""), `\"p\"`, `\"[secret-1]\"`) != strings.Join(again, "") {
		t.Errorf("the client got %q, from the tape %q", first, again)
	}
	d, err := Replay(t.Context(), ReplayOptions{Tape: played, Server: &server, Options: tape.Options{Timeout: time.Minute}})
	if err != nil || len(d) > 0 {
		t.Errorf("replay to the server: %v, %v", d, err)
	}
}

// TestRecordTellsHowTheServerEnded checks that Record returns the server's exit code, writes it to
// the tape, and passes on the server's stderr.
func TestRecordTellsHowTheServerEnded(t *testing.T) {
	t.Parallel()
	var file, stderr logtest.Buffer
	in, held := io.Pipe()
	defer held.Close()
	code, err := Record(t.Context(), RecordOptions{Server: child(t, "s", "exit").Server, Tape: &file, Stderr: &stderr, Stdin: in, Stdout: discard{}})
	if code != 3 || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
	if !strings.Contains(stderr.String(), "THE_TOKEN is not set") || !strings.Contains(file.String(), "exit status 3") {
		t.Errorf("stderr is %q; tape:\n%s", stderr.String(), file.String())
	}
}

// TestTapeThatFails checks that Record reports an error if it cannot write the tape, and that the
// session continues.
func TestTapeThatFails(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, tapedHello+"\n")
		_ = out.Close()
	}()
	var heard logtest.Buffer
	code, err := Record(t.Context(), RecordOptions{Server: child(t, "s", "legacy").Server, Tape: full{}, Stdin: in, Stdout: keep{&heard}})
	if code != 0 || err == nil || !strings.Contains(err.Error(), "the recording is incomplete") {
		t.Errorf("ended with %d, %v", code, err)
	}
	if !strings.Contains(heard.String(), "protocolVersion") {
		t.Errorf("heard %q", heard.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrInvalid }

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

type keep struct{ *logtest.Buffer }

func (keep) Close() error { return nil }

// TestReplayOverHTTPEnds checks that Replay returns when the client has sent all requests of the
// tape.
func TestReplayOverHTTPEnds(t *testing.T) {
	t.Parallel()
	played, err := tape.Parse([]byte("-- client.request 1 --\nGET /deep/mcp\n\n-- server.response 1 --\n405\nAllow: POST\n"))
	if err != nil {
		t.Fatal(err)
	}
	at := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, err := Replay(t.Context(), ReplayOptions{Tape: played, Listen: "127.0.0.1:0", Ready: func(u string) { at <- u }})
		if len(d) > 0 || err != nil {
			t.Errorf("%v, %v", d, err)
		}
	}()
	address := <-at
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" || !strings.HasSuffix(address, "/deep/mcp") {
		t.Errorf("%s answers %s %v", address, res.Status, res.Header)
	}
	<-done
}

// TestRecordTellsOfSignals checks that Record returns the exit code that a shell would report if a
// signal kills the server.
func TestRecordTellsOfSignals(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("the machine has no shell")
	}
	var file logtest.Buffer
	in, held := io.Pipe()
	defer held.Close()
	code, err := Record(t.Context(), RecordOptions{Server: config.Server{Command: sh, Args: []string{"-c", "kill -ABRT $$"}}, Tape: &file, Stdin: in, Stdout: discard{}})
	if code != 128+int(syscall.SIGABRT) || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
}
