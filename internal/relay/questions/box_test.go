package questions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// asking asks a question in the background.
func asking(t *testing.T, b *Box, ctx context.Context, q Question) (ended func() (Answer, error)) {
	var running sync.WaitGroup
	var a Answer
	var err error
	running.Go(func() { a, err = b.Ask(ctx, q) })
	synctest.Wait()
	return func() (Answer, error) {
		running.Wait()
		return a, err
	}
}

// why returns the cause and the reason why there is no answer.
func why(err error) string {
	var no *mcp.NoAnswer
	if !errors.As(err, &no) {
		return fmt.Sprint(err)
	}
	return no.Cause + ": " + no.Error()
}

// TestEnds ends questions in each way, and checks what the call gets, what who comes later is told, and the events.
func TestEnds(t *testing.T) {
	gone := errors.New("the client has hung up")
	for _, tt := range []struct {
		name   string
		end    func(b *Box, id string, cancel context.CancelCauseFunc)
		action string // of the answer
		err    string
		told   string // to who comes later
		events string
	}{
		{"answered", func(b *Box, id string, _ context.CancelCauseFunc) {
			b.Answer(id, Answer{Action: "accept", By: identity.Named("eve"), Result: []byte("{}")})
		}, "accept", "<nil>", "", "ann: waits for a person;eve: accept ok"},
		{"late", func(*Box, string, context.CancelCauseFunc) { time.Sleep(Life); synctest.Wait() }, "", "no_answer: the question has waited for 10 minutes, and nobody has answered it", "has waited for 10 minutes, and nobody has answered it", "ann: waits for a person;ann: has waited for 10 minutes, and nobody has answered it failed"},
		{"gone", func(_ *Box, _ string, cancel context.CancelCauseFunc) { cancel(gone) }, "", gone.Error(), "is no longer asked, because its call has ended", "ann: waits for a person;ann: is no longer asked, because its call has ended cancelled"},
		{"closed", func(b *Box, _ string, _ context.CancelCauseFunc) { b.Close() }, "", "shutdown: the question " + stopping, stopping, "ann: waits for a person;ann: " + stopping + " failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []string
				p := &event.Publisher{}
				defer p.Tap(event.Of(event.Question), func(e event.Event) {
					events = append(events, strings.TrimSpace(e.Who.Key()+": "+e.Detail+" "+string(e.Outcome)))
				})()
				b := &Box{Events: p}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := asking(t, b, ctx, Question{Server: "s", Who: identity.Named("ann"), Message: "Really?"})
				all := b.All()
				if len(all) != 1 || all[0].Message != "Really?" || all[0].Until.Sub(all[0].Since) != Life {
					t.Fatalf("%+v wait", all)
				}
				tt.end(b, all[0].ID, cancel)
				a, err := ended()
				if a.Action != tt.action || why(err) != tt.err {
					t.Errorf("got %q, %q", a.Action, why(err))
				}
				if b.Answer(all[0].ID, Answer{Action: "decline"}) || b.Waiting() != 0 {
					t.Error("it waits still")
				}
				q, how, ok := b.Find(all[0].ID)
				if !ok || how == nil || how.Action != tt.action || how.Why != tt.told || q.Who.Key() != "ann" || q.Message != "" {
					t.Errorf("then: %+v, %+v, %t", q, how, ok)
				}
				if got := strings.Join(events, ";"); got != tt.events {
					t.Errorf("events: %s", got)
				}
			})
		})
	}
}

// TestUntil asks questions whose call has less time than a question, or more.
func TestUntil(t *testing.T) {
	for _, tt := range []struct {
		within, want time.Duration
		waited       string
	}{{570 * time.Second, 570 * time.Second, "9m30s"}, {time.Hour, Life, "10 minutes"}, {-time.Second, 0, "0s"}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := new(Box).Ask(t.Context(), Question{Until: began.Add(tt.within)})
			if took := time.Since(began); took != tt.want || why(err) != "no_answer: the question has waited for "+tt.waited+", and nobody has answered it" {
				t.Errorf("%s: after %s, %s", tt.within, took, why(err))
			}
		})
	}
}

// TestAnsweredOnce has many people answer the same question at the same time, while its call ends.
func TestAnsweredOnce(t *testing.T) {
	for range 200 {
		b := &Box{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var got Answer
		var err error
		running.Go(func() { got, err = b.Ask(ctx, Question{}) })
		for b.Waiting() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		id := b.All()[0].ID
		var won atomic.Int32
		for i := range 8 {
			running.Go(func() {
				if b.Answer(id, Answer{Action: "accept", By: identity.Named(fmt.Sprint(i))}) {
					won.Add(1)
				}
			})
		}
		running.Go(cancel)
		running.Wait()
		if n := won.Load(); n > 1 || (n == 1) != (err == nil) || err == nil && got.By == nil {
			t.Fatalf("%d answers count, the call got %+v, %v", n, got, err)
		}
	}
}

// at returns a question in a call of a program that nobody knows.
func at(conversation uint64, name, remote, server string) (q Question) {
	f := mcp.ClientInfo{Conversation: conversation, Remote: remote, Info: fmt.Appendf(nil, `{"name":%q}`, name)}
	q.Server = server
	q.Party, q.Machine = f.Program()
	return q
}

// TestFloods fills a box: by one caller, in calls of one server, by many callers, and by one server in the calls of
// many. An innocent caller of an innocent server always finds room, and whoever is refused hears why.
func TestFloods(t *testing.T) {
	for _, tt := range []struct {
		name   string
		asks   func(i int) Question
		fits   int
		reason string
	}{
		{"one caller, one server", func(int) Question { return Question{Party: "bad", Server: "bad"} }, MostAtServer, "8 others of this client about the server bad wait already"},
		{"one caller", func(i int) Question { return Question{Party: "bad", Server: fmt.Sprint(i)} }, MostOfCaller, "16 others of this client wait already"},
		{"one server", func(i int) Question { return Question{Party: fmt.Sprint(i), Server: "bad"} }, Most / 2, "64 others wait already"},
		{"sessions of one program", func(i int) Question { return at(uint64(i), "bad", "127.0.0.1", "bad") }, MostAtServer, "8 others of this client about the server bad wait already"},
		{"names on one machine, one server", func(i int) Question { return at(uint64(i), fmt.Sprint(i), fmt.Sprintf("127.0.0.%d", i), "bad") }, MostNearby, "32 others of this machine about the server bad wait already"},
		{"names on one machine", func(i int) Question { return at(0, fmt.Sprint(i), "::1", fmt.Sprint(i)) }, Most / 2, "64 others wait already"},
		{"sessions of one pipe", func(i int) Question { return at(uint64(i)+1, "bad", "", fmt.Sprint(i)) }, Most, "128 others wait already"},
		{"many callers", func(i int) Question { return Question{Party: fmt.Sprint(i), Server: fmt.Sprint(i)} }, Most, "128 others wait already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &Box{}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				for i := range tt.fits {
					running.Go(func() { _, _ = b.Ask(ctx, tt.asks(i)) })
				}
				synctest.Wait()
				if n := b.Waiting(); n != tt.fits {
					t.Fatalf("%d wait, want %d", n, tt.fits)
				}
				if _, err := b.Ask(ctx, tt.asks(tt.fits)); why(err) != "overloaded: the question was shown to nobody, because "+tt.reason {
					t.Errorf("one more: %s", why(err))
				}
				if tt.fits < Most {
					running.Go(func() { _, _ = b.Ask(ctx, Question{Party: "innocent", Server: "innocent"}) })
					synctest.Wait()
					if n := b.Waiting(); n != tt.fits+1 {
						t.Error("there is no room for somebody else")
					}
				}
				b.Answer(b.All()[0].ID, Answer{Action: "accept"})
				running.Go(func() { _, _ = b.Ask(ctx, tt.asks(Most)) })
				synctest.Wait()
				if n := b.Waiting(); n != min(tt.fits+1, Most) {
					t.Errorf("%d wait after an answer and another question", n)
				}
			})
		})
	}
}

// TestNew reads elicitations of all kinds, also those that nobody can be shown.
func TestNew(t *testing.T) {
	long := strings.Repeat("x", MostForm)
	for _, tt := range []struct{ params, want string }{
		{`{"message":"m","requestedSchema":{"type":"object"}}`, `form m  {"type":"object"}`},
		{`{"mode":"form","message":"m","requestedSchema":{}}`, `form m  {}`},
		{`{"mode":"url","message":"m","url":"https://a.example/","requestedSchema":{}}`, `link m https://a.example/ `},
		{`{"message":"` + long + `","requestedSchema":{}}`, "form " + long[:MostMessage-len("…")] + "…  {}"},
		{`{"message":"m","requestedSchema":{"a":"` + long + `"}}`, "bad_question: the question was shown to nobody, because it has no form of at most 65536 bytes"},
		{`{"message":"m"}`, "bad_question: the question was shown to nobody, because it has no form of at most 65536 bytes"},
		{`{"mode":"url","url":"` + long + `"}`, "bad_question: the question was shown to nobody, because it has no link of at most 8192 bytes"},
		{`{"mode":"url","message":"m"}`, "bad_question: the question was shown to nobody, because it has no link of at most 8192 bytes"},
	} {
		q, err := New(jsonrpc.ValueOf([]byte(tt.params)))
		got := fmt.Sprintf("%s %s %s %s", q.Kind(), q.Message, q.URL, q.Schema)
		if err != nil {
			got = why(err)
		}
		if got != tt.want {
			t.Errorf("%.80s: got %.120s, want %.120s", tt.params, got, tt.want)
		}
	}
}
