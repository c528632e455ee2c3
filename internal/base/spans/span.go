package spans

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind says on which side of a request a span is. The values are those of OTLP.
type Kind uint8

// The kinds of spans.
const (
	Server Kind = 2 // a client's request to us
	Client Kind = 3 // our request to a server
)

// Attr is an attribute of a span or an event: a text, or a number if Text is "".
type Attr struct {
	Key  string
	Text string
	Int  int64
}

// maxAttr is the maximum length of a text in bytes. The exporter masks secrets in it and cuts it further.
const maxAttr = 4 << 10

// Text returns an attribute with a text.
func Text(key, value string) Attr {
	if len(value) > maxAttr {
		value = strings.Clone(value[:maxAttr])
	}
	return Attr{Key: key, Text: value}
}

// Int returns an attribute with a number.
func Int(key string, n int64) Attr { return Attr{Key: key, Int: n} }

func (a Attr) isEmpty() bool { return a.Text == "" && a.Int == 0 }

// Event is something that happened during a span.
type Event struct {
	Time  time.Time
	Name  string
	Attrs []Attr
}

// maxEvents is the maximum number of events of a span. A server can cause events.
const maxEvents = 32

// Tracer starts spans. Its fields must not be changed after its first use. It is safe for concurrent use.
type Tracer struct {
	// Sample decides whether a trace is recorded. parent is what the client sent; it is zero if the client
	// sent nothing. Nil records what the client records, and each call of a client that sends nothing.
	Sample func(trace [16]byte, parent *Context) bool
	// Sink gets each recorded span when it has ended. It must not block.
	Sink func(*Span)
	// Project is the project of the spans; see For.
	Project string
}

// For returns a Tracer for the calls of one project. A nil Tracer returns nil.
func (t *Tracer) For(project string) *Tracer {
	if t == nil {
		return nil
	}
	of := *t
	of.Project = project
	return &of
}

// Span is one leg of a call. The exported fields are set when the span starts and do not change, except Name,
// which the owner may set until End, and End. Its methods may be called by several goroutines.
type Span struct {
	Context
	Parent [8]byte // the span id of the parent; zero if there is none
	Remote bool    // the parent is in another process
	// Link is the context of the HTTP request that carried the call, if it differs from that in the message.
	Link  Context
	Kind  Kind
	Name  string
	Start time.Time

	tracer *Tracer
	mu     sync.Mutex
	end    time.Time
	failed bool
	attrs  []Attr
	events []Event
	lost   int // the number of events beyond maxEvents
	legs   int
}

// Start starts the span of a client's request. in is the context that the client sent; it may be zero.
// A nil Tracer returns nil.
func (t *Tracer) Start(in Context) *Span {
	if t == nil {
		return nil
	}
	from := in // a copy, so that a nil Tracer allocates nothing
	return t.start(&from)
}

func (t *Tracer) start(in *Context) *Span {
	s := &Span{Context: *in, Kind: Server, Start: time.Now(), tracer: t}
	if in.IsZero() {
		binary.NativeEndian.PutUint64(s.Trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(s.Trace[8:], rand.Uint64()|1)
		s.Flags = 2
	} else {
		s.Parent, s.Remote = in.Span, true
	}
	keep := in.IsZero() || in.Sampled()
	if t.Sample != nil {
		keep = t.Sample(s.Trace, in)
	}
	s.Flags &^= sampled
	if keep {
		s.Flags |= sampled
	}
	s.newID()
	return s
}

// Project returns the project of the span's call.
func (s *Span) Project() string { return s.tracer.Project }

func (s *Span) newID() { binary.NativeEndian.PutUint64(s.Context.Span[:], rand.Uint64()|1) }

// Leg starts the span of a request that a server gets for the call. resent is true if a server got one before.
func (s *Span) Leg() (leg *Span, resent bool) {
	if s == nil {
		return nil, false
	}
	leg = &Span{Context: s.Context, Parent: s.Context.Span, Kind: Client, Start: time.Now(), tracer: s.tracer}
	leg.newID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.legs++
	return leg, s.legs > 1
}

// Set adds attributes. Those that are "" or 0 are left out.
func (s *Span) Set(attrs ...Attr) {
	if s == nil || !s.Sampled() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.end.IsZero() {
		return
	}
	for _, a := range attrs {
		if !a.isEmpty() {
			s.attrs = append(s.attrs, a)
		}
	}
}

// Event adds an event. Attributes that are "" or 0 are left out. After End it has no effect. Attributes are allocated even if s is nil, so on the path of a
// call ask for that first.
func (s *Span) Event(name string, attrs ...Attr) {
	if s == nil || !s.Sampled() {
		return
	}
	attrs = slices.DeleteFunc(attrs, Attr.isEmpty)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.end.IsZero():
	case len(s.events) >= maxEvents:
		s.lost++
	default:
		s.events = append(s.events, Event{now, name, attrs})
	}
}

// Fail says that the leg failed. why is one word for the attribute error.type, such as timeout or -32602.
func (s *Span) Fail(why string) {
	if s == nil {
		return
	}
	s.Set(Text("error.type", why))
	s.mu.Lock()
	s.failed = true
	s.mu.Unlock()
}

// End ends the span and gives it to the sink, if it is recorded. Further calls have no effect.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	ended := !s.end.IsZero()
	if !ended {
		s.end = time.Now()
	}
	s.mu.Unlock()
	if !ended && s.Sampled() {
		s.tracer.Sink(s)
	}
}

// Content is what was recorded of a span.
type Content struct {
	End    time.Time
	Failed bool
	Attrs  []Attr
	Events []Event
	Lost   int // the number of events that did not fit
}

// Content returns what was recorded. It must be called after End, and the result must not be modified.
func (s *Span) Content() Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Content{s.end, s.failed, s.attrs, s.events, s.lost}
}
