package codex_test

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// scripted is a worker that sends the test's lines during turn u in thread t. The worker records
// what it receives.
type scripted struct {
	t     *testing.T
	pipe  transport.Pipe
	heard chan *jsonrpc.Message // messages that the worker receives after its turn has begun
	out   *io.PipeWriter
	wg    sync.WaitGroup
}

// script opens a worker and starts its turn. The call has the id 2 on the client's side. If
// resume is not nil, the worker does not read until resume is closed.
func script(t *testing.T, resume <-chan struct{}) *scripted {
	t.Helper()
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	s := &scripted{t: t, heard: make(chan *jsonrpc.Message, 4096), out: theirOut}
	s.wg.Go(func() {
		defer close(s.heard)
		answers := map[string]string{"initialize": `{"userAgent":"x"}`, "thread/start": `{"thread":{"id":"t"}}`, "turn/start": `{"turn":{"id":"u"}}`}
		lines := bufio.NewScanner(theirIn)
		begun := false
		for lines.Scan() {
			m, err := jsonrpc.Scan([]byte(lines.Text()), jsonrpc.Limits{})
			switch {
			case err != nil:
				t.Errorf("the worker gets %s: %v", lines.Bytes(), err)
			case m.Kind == jsonrpc.Request && answers[m.Method] != "":
				_, _ = theirOut.Write(append(jsonrpc.AppendResult(nil, m.ID, []byte(answers[m.Method])), '\n'))
				begun = begun || m.Method == "turn/start"
			case begun:
				s.heard <- m
			}
			if begun && resume != nil {
				<-resume
			}
		}
	})
	s.pipe = codex.New(codex.Options{}).Adapt(stdio.NewPipe(ourIn, ourOut, stdio.Options{Limits: jsonrpc.Limits{Bytes: stdio.MaxFromUpstream, Tolerant: true}}))
	s.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{}}}}`)
	if m := s.next(); m.Kind != jsonrpc.Result {
		t.Fatalf("initialize: %s", m.Raw)
	}
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"codex","arguments":{"prompt":"x"}}}`)
	synctest.Wait() // wait until the adapter knows the turn
	return s
}

func (s *scripted) send(line string) {
	s.t.Helper()
	if err := s.pipe.Write([]byte(line)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scripted) say(format string, a ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.out, format+"\n", a...); err != nil {
		s.t.Fatal(err)
	}
}

// next returns the next message for the client that is not progress.
func (s *scripted) next() *jsonrpc.Message {
	s.t.Helper()
	for range 200 {
		m, err := s.pipe.Read()
		if err != nil {
			s.t.Fatal(err)
		}
		if m.Method != "notifications/progress" {
			return m
		}
	}
	s.t.Fatal("all messages are progress")
	return nil
}

func (s *scripted) close() {
	_ = s.pipe.Close()
	_ = s.out.Close()
	s.wg.Wait()
}

// asking returns the text of a question to the user.
func asking(t *testing.T, m *jsonrpc.Message) string {
	t.Helper()
	if m.Method != "elicitation/create" {
		t.Fatalf("the message is not a question: %s", m.Raw)
	}
	s, _ := jsonrpc.Text(m.Raw, m.Param("message"))
	return s
}

// TestAlwaysShowsWhatItAllows checks that "accept always" shows its rule. The worker chooses
// the rule independently of the command.
func TestAlwaysShowsWhatItAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, nil)
		defer s.close()
		s.say(`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u","command":"ls","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","-rf"]}}]}}`)
		if m := s.next(); !strings.Contains(asking(t, m), `["rm","-rf"]`) {
			t.Errorf("the form offers a rule that it does not show: %s", m.Raw)
		}
	})
}

// TestPatchIsTheLatest checks that a question shows the latest version of a change, however
// many versions the worker announced.
func TestPatchIsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, nil)
		defer s.close()
		for i := range 64 {
			s.say(`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i%d","changes":[{"path":"harmless","kind":"add","diff":"+x"}]}}}`, i)
		}
		s.say(`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i0","changes":[{"path":"harmful","kind":"add","diff":"+x"}]}}}`)
		s.say(`{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"t","itemId":"i0"}}`)
		if m := s.next(); !strings.Contains(asking(t, m), "harmful") {
			t.Errorf("the question shows %s", m.Raw)
		}
		s.say(`{"method":"item/fileChange/requestApproval","id":1,"params":{"threadId":"t","itemId":"unheard"}}`)
		if m := s.next(); !strings.Contains(asking(t, m), "does not say which") {
			t.Errorf("for an unknown change the question shows %s", m.Raw)
		}
	})
}

// TestNamelessThreads checks that a question without a thread does not reach a client, even if
// a child thread without an id was announced.
func TestNamelessThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, nil)
		defer s.close()
		s.say(`{"method":"thread/started","params":{"thread":{"parentThreadId":"t"}}}`)
		s.say(`{"method":"item/commandExecution/requestApproval","id":0,"params":{"command":"ls"}}`)
		if m := <-s.heard; !strings.Contains(string(m.Raw), `"decline"`) {
			t.Errorf("the worker gets %s", m.Raw)
		}
	})
}

// TestQuestionsWithOneName checks that two questions with the same id become one field, so that
// the form has no duplicate member.
func TestQuestionsWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, nil)
		defer s.close()
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf(`{"id":"q%d","question":"?"}`, i%100))
		}
		s.say(`{"method":"item/tool/requestUserInput","id":0,"params":{"threadId":"t","questions":[%s]}}`, strings.Join(many, ","))
		m := s.next()
		asking(t, m)
		if err := jsonrpc.Valid(m.Raw, jsonrpc.Limits{}); err != nil {
			t.Errorf("the client gets %v: %.300s", err, m.Raw)
		}
		n := 0
		for range jsonrpc.Members(m.Raw, jsonrpc.Find(m.Raw, m.Param("requestedSchema"), "properties")) {
			n++
		}
		if n > 32 {
			t.Errorf("the form has %d fields", n)
		}
	})
}

// TestQuestionsAreBounded checks that a worker that sends many questions without getting answers
// cannot use unlimited memory.
func TestQuestionsAreBounded(t *testing.T) {
	for name, line := range map[string]string{
		"of nobody":      `{"method":"item/commandExecution/requestApproval","id":%d,"params":{"command":"ls"}}`,
		"unknown":        `{"method":"account/token","id":%d}`,
		"under one id":   `{"method":"item/commandExecution/requestApproval","id":"x","params":{"threadId":"t","command":"ls%d"}}`,
		"under many ids": `{"method":"item/commandExecution/requestApproval","id":%d,"params":{"threadId":"t","command":"ls"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resume := make(chan struct{})
				s := script(t, resume)
				synctest.Wait()
				before := runtime.NumGoroutine()
				for i := range 2000 {
					s.say(line, i)
				}
				synctest.Wait()
				if n := runtime.NumGoroutine() - before; n > 300 {
					t.Errorf("there are %d more goroutines", n)
				}
				close(resume)
				s.close()
			})
		})
	}
}
