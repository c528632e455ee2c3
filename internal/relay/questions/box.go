// Package questions keeps what waits for a person in one project: Dragoman's own questions about calls, and servers'
// elicitations, whose client can't show them. A call waits in [Box.Ask] until somebody answers with [Box.Answer],
// until its time is up, or until the client or the server doesn't want the answer any more.
//
// A Box lives in memory: the call that waits is lost with its process, and so is the question. Who may see and answer
// what is decided by whoever asks the Box; see package admin. The package does no I/O, and starts no goroutine.
package questions

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These constants bound a Box. Callers, machines and servers share the places fairly: nobody takes more than half of
// those that are free, see [transport.Quota]. A caller is a principal, or a program that nobody knows. One that changes
// its name is bounded by its machine.
const (
	Most         = 128 // questions that wait at the same time
	MostOfCaller = 16  // of them, in calls of one caller
	MostAtServer = 8   // of these, about one server
	MostNearby   = 32  // about one server, of all programs on one machine that nobody knows
	MostMessage  = 16 << 10
	MostURL      = 8 << 10
	MostForm     = 64 << 10 // bytes of a form's schema
	mostEnded    = 128      // questions that are remembered after their end, so that a late answer hears what became of them
)

// Life is how long a question waits.
const Life = 10 * time.Minute

// Question waits for a person. It's immutable once it's asked.
type Question struct {
	ID     string              // set by Ask; nobody can guess it
	Rule   bool                // Dragoman asks whether a call may be sent; otherwise its server asks
	Server string              // which server the call is for
	Item   string              // its tool, prompt or resource; "" if it's not known
	Who    *identity.Principal // who has sent the call; nil if unknown
	Client string              // the name of the client
	// Party and Machine are whose places the question takes; see mcp.ClientInfo.Program. Machine may be "".
	Party, Machine string
	Call           uint64 // the number of the call
	// Message is what the person reads. URL is the page that they should open. Without a page, Schema is that of
	// the form. None of them has its secrets masked.
	Message, URL string
	Schema       []byte
	Since        time.Time // set by Ask
	// Until is when nobody waits for the answer any more. Ask sets it, unless it's sooner than Life from now.
	Until time.Time
}

// Answer is how a question has ended.
type Answer struct {
	Action string              // accept, decline or cancel; "" if nobody has answered
	By     *identity.Principal // who has answered
	At     time.Time
	Result []byte // the ElicitResult
	Why    string // if nobody has answered
}

// Box has the questions of one project. The zero value is ready to use. It's safe for concurrent use.
type Box struct {
	Events *event.Publisher // gets an event for each question that arrives, and one for its end; may be nil

	mu       sync.Mutex
	open     []*waiting // oldest first
	ended    []ended    // oldest first
	callers  transport.Quota
	machines transport.Quota
	servers  transport.Quota
	together map[pair]int // by caller and server, and by machine and server
	closed   bool
}

type pair struct{ party, server string }

// pairs returns where a question is counted in Box.together.
func (q *Question) pairs() []pair {
	all := []pair{{q.Party, q.Server}}
	if q.Machine != "" {
		all = append(all, pair{q.Machine, q.Server})
	}
	return all
}

// waiting is a question that has no answer yet.
type waiting struct {
	Question
	answer chan Answer // capacity 1; gets the answer of whoever has removed the question from Box.open
}

type ended struct {
	Question
	Answer
}

// New returns the question of an elicitation with these params. The error says why nobody can be asked.
func New(params jsonrpc.Value) (q Question, err error) {
	q.Message, _ = params.Get("message").Text()
	q.Message = excerpt.Cut(q.Message, MostMessage)
	form := params.Get("requestedSchema")
	switch mode, _ := params.Get("mode").Text(); {
	case mode == "url":
		q.URL, _ = params.Get("url").Text()
		if q.URL == "" || len(q.URL) > MostURL {
			return q, &mcp.NoAnswer{Cause: "bad_question", Why: fmt.Sprintf("was shown to nobody, because it has no link of at most %d bytes", MostURL)}
		}
	case form.Kind() != '{' || len(form.Raw()) > MostForm:
		return q, &mcp.NoAnswer{Cause: "bad_question", Why: fmt.Sprintf("was shown to nobody, because it has no form of at most %d bytes", MostForm)}
	default:
		q.Schema = slices.Clone(form.Raw())
	}
	return q, nil
}

// Ask lets a question wait, and returns its answer. If there is none, the error is a *mcp.NoAnswer, or the cause of
// ctx.
func (b *Box) Ask(ctx context.Context, q Question) (Answer, error) {
	w := &waiting{Question: q, answer: make(chan Answer, 1)}
	w.ID, w.Since = rand.Text(), time.Now()
	if end := w.Since.Add(Life); w.Until.IsZero() || w.Until.After(end) {
		w.Until = end
	}
	life := max(0, w.Until.Sub(w.Since))
	if why := b.add(w); why != nil {
		return Answer{}, why
	}
	b.publish(w, Answer{Why: "waits for a person"}, "")
	late := time.NewTimer(life)
	defer late.Stop()
	var a Answer
	select {
	case a = <-w.answer:
	case <-late.C:
		a = b.end(w, Answer{Why: "has waited for " + waited(life) + ", and nobody has answered it"})
	case <-ctx.Done():
		a = b.end(w, Answer{Why: "is no longer asked, because its call has ended"})
	}
	switch {
	case a.Action != "":
		b.publish(w, a, event.OK)
		return a, nil
	case ctx.Err() != nil:
		b.publish(w, a, event.Cancelled)
		return a, context.Cause(ctx)
	}
	b.publish(w, a, mcp.Failed)
	cause := "no_answer"
	if a.Why == stopping {
		cause = "shutdown"
	}
	return a, &mcp.NoAnswer{Cause: cause, Why: a.Why}
}

// waited returns a duration in words.
func waited(d time.Duration) string {
	if d%time.Minute == 0 && d > time.Minute {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.Round(time.Second).String()
}

// add adds a question, unless there are too many.
func (b *Box) add(w *waiting) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := pair{w.Party, w.Server}
	own, _ := b.callers.Taken(w.Party)
	why := ""
	switch {
	case b.closed:
		return &mcp.NoAnswer{Cause: "shutdown", Why: stopping}
	case b.together[at] >= MostAtServer:
		why = fmt.Sprintf("was shown to nobody, because %d others of this client about the server %s wait already", MostAtServer, w.Server)
	case own >= MostOfCaller:
		why = fmt.Sprintf("was shown to nobody, because %d others of this client wait already", MostOfCaller)
	case w.Machine != "" && b.together[pair{w.Machine, w.Server}] >= MostNearby:
		why = fmt.Sprintf("was shown to nobody, because %d others of this machine about the server %s wait already", MostNearby, w.Server)
	case !b.callers.Room(w.Party, Most), w.Machine != "" && !b.machines.Room(w.Machine, Most), !b.servers.Room(w.Server, Most):
		why = fmt.Sprintf("was shown to nobody, because %d others wait already", len(b.open))
	}
	if why != "" {
		return &mcp.NoAnswer{Cause: "overloaded", Why: why}
	}
	if b.together == nil {
		b.together = make(map[pair]int)
	}
	for _, p := range w.pairs() {
		b.together[p]++
	}
	b.callers.Take(w.Party)
	if w.Machine != "" {
		b.machines.Take(w.Machine)
	}
	b.servers.Take(w.Server)
	b.open = append(b.open, w)
	return nil
}

const stopping = "has no answer, because Dragoman is stopping"

// end ends a question without an answer. If somebody has just answered it, end returns this answer.
func (b *Box) end(w *waiting, a Answer) Answer {
	b.mu.Lock()
	ours := b.removeLocked(w, a)
	b.mu.Unlock()
	if !ours {
		return <-w.answer
	}
	return a
}

// removeLocked takes a question out of those that wait. It reports whether it was there.
func (b *Box) removeLocked(w *waiting, a Answer) bool {
	i := slices.Index(b.open, w)
	if i < 0 {
		return false
	}
	b.open = slices.Delete(b.open, i, i+1)
	for _, p := range w.pairs() {
		if b.together[p]--; b.together[p] == 0 {
			delete(b.together, p)
		}
	}
	b.callers.Give(w.Party)
	if w.Machine != "" {
		b.machines.Give(w.Machine)
	}
	b.servers.Give(w.Server)
	a.At = time.Now()
	kept := ended{w.Question, a}
	kept.Message, kept.URL, kept.Schema, kept.Result = "", "", nil, nil
	if b.ended = append(b.ended, kept); len(b.ended) > mostEnded {
		b.ended = slices.Delete(b.ended, 0, 1)
	}
	return true
}

// Answer answers a question: the call that waits for it goes on. a.Action and a.By must be set, and a.Result be what
// the question wants. It reports false if the question doesn't wait any more.
func (b *Box) Answer(id string, a Answer) bool {
	b.mu.Lock()
	i := slices.IndexFunc(b.open, func(w *waiting) bool { return w.ID == id })
	if i < 0 {
		b.mu.Unlock()
		return false
	}
	w := b.open[i]
	b.removeLocked(w, a)
	b.mu.Unlock()
	w.answer <- a // has room, since whoever removes a question is the only one who sends
	return true
}

// All returns the questions that wait, oldest first.
func (b *Box) All() []Question {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Question, len(b.open))
	for i, w := range b.open {
		all[i] = w.Question
	}
	return all
}

// Find returns the question with an id, or whose id begins with at least 8 characters of it. If it doesn't wait any more, how says what became of it, and its texts are
// gone. For a question that was never asked, or is forgotten, ok is false.
func (b *Box) Find(id string) (q Question, how *Answer, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := func(full string) bool { return full == id || len(id) >= 8 && strings.HasPrefix(full, id) }
	for _, w := range b.open {
		if is(w.ID) {
			return w.Question, nil, true
		}
	}
	for i := range b.ended {
		if x := &b.ended[i]; is(x.ID) {
			a := x.Answer
			return x.Question, &a, true
		}
	}
	return q, nil, false
}

// Waiting returns the number of questions that wait.
func (b *Box) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// WaitingOf returns the number of questions that wait in calls of the principals with a subject.
func (b *Box) WaitingOf(subject string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.open {
		if w.Who != nil && w.Who.Subject == subject {
			n++
		}
	}
	return n
}

// ByServer returns how many questions wait, by server.
func (b *Box) ByServer() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]int)
	for _, w := range b.open {
		all[w.Server]++
	}
	return all
}

// Close ends all questions without an answer, and takes no others.
func (b *Box) Close() {
	a := Answer{Why: stopping}
	b.mu.Lock()
	b.closed = true
	all := slices.Clone(b.open)
	for _, w := range all {
		b.removeLocked(w, a)
	}
	b.mu.Unlock()
	for _, w := range all {
		w.answer <- a
	}
}

// publish says that a question has arrived, or with an outcome that it has ended.
func (b *Box) publish(w *waiting, a Answer, outcome mcp.Outcome) {
	if b.Events == nil {
		return
	}
	e := event.Event{
		Kind: event.Question, Level: slog.LevelInfo, Who: w.Who, Server: w.Server, Name: excerpt.Cut(w.Item, 200), Call: w.Call,
		Method: w.Kind(), Outcome: outcome, Detail: a.Why,
	}
	if outcome != "" {
		e.Took = time.Since(w.Since)
	}
	if a.Action != "" {
		e.Who, e.Detail = a.By, a.Action
	}
	b.Events.Publish(e)
}

// Kind returns confirmation, form or link.
func (q *Question) Kind() string {
	switch {
	case q.Rule:
		return "confirmation"
	case q.URL != "":
		return "link"
	}
	return "form"
}
