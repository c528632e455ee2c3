package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/calls"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// Calls is the response of /api/v1/calls: running and ended calls, newest first.
type Calls struct {
	Calls []Call `json:"calls"`
	// Before is the value for the query parameter "before" that selects older calls. It is 0 if
	// there are no older calls.
	Before uint64 `json:"before,omitempty"`
}

// Call is one call of a client. Secrets in its texts are masked.
type Call struct {
	Number uint64 `json:"number"`
	// Outcome is "running", "ok", "tool_error" (the result of a tool has isError), "failed" (the
	// server answered with an error), "cancelled", "refused" (Dragoman answered with an error,
	// and no server got the call), "parked" (the call waits for answers of the client),
	// "not_sent" or "unknown".
	Outcome string     `json:"outcome"`
	Cause   string     `json:"cause,omitempty"` // why Dragoman answered with an error: timeout, cancelled, exited …
	Code    int64      `json:"code,omitempty"`  // the code of the error that the client got
	Client  CallClient `json:"client"`
	Server  string     `json:"server,omitempty"` // "" if the call is for no server or for several
	// Revision is the server's revision. It is "" if no server got the call.
	Revision string    `json:"revision,omitempty"`
	Method   string    `json:"method"`
	Name     string    `json:"name,omitempty"`   // the name of the tool, prompt or resource, as the client sees it
	Target   string    `json:"target,omitempty"` // the name of the tool, prompt or resource, as the server knows it
	Started  time.Time `json:"started"`
	// Seconds is how long the call took, or how long it has been running.
	Seconds float64 `json:"seconds"`
	In      int     `json:"in"`  // bytes of the client's requests
	Out     int     `json:"out"` // bytes of the answers that the client got
	// Requests is the number of the client's requests for this call: 1, and one for each retry
	// with answers.
	Requests  int        `json:"requests"`
	ToolError bool       `json:"toolError,omitempty"` // the outcome is "tool_error"
	Losses    []CallLoss `json:"losses,omitempty"`
	Recorded  bool       `json:"recorded"` // /api/v1/calls/NUMBER has its messages
	TraceID   string     `json:"traceId,omitempty"`
	// Missed is true if calls before this one were dropped before they could be read.
	Missed bool `json:"missed,omitempty"`
}

// CallClient is the client of a call, as it describes itself.
type CallClient struct {
	Name      string `json:"name,omitempty"`
	Version   string `json:"version,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Principal string `json:"principal,omitempty"` // an alias
}

// CallLoss is something that was left out of a call, and why.
type CallLoss struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// OutcomeRunning is the Outcome of a call that has not ended.
const OutcomeRunning = "running"

// EventCall is the event of /api/v1/calls/stream. Its data is a call that has ended. The same call
// is sent again if it continues after it was parked, or if a loss is found late.
const EventCall = "call"

// Bounds of the routes of calls.
const (
	usualCalls      = 50
	mostCalls       = 2000
	mostCallStreams = 64
)

// callQuery has the parameters of a request for calls.
type callQuery struct {
	server, client, method, outcome, text string
	before                                uint64 // 0 means no limit
	limit                                 int
}

// readCallQuery reads the parameters of a request. If ok is false, it has written an error
// response.
func (a *API) readCallQuery(w http.ResponseWriter, r *http.Request) (q callQuery, ok bool) {
	values := r.URL.Query()
	q = callQuery{
		server: values.Get("server"), client: values.Get("client"), method: values.Get("method"), outcome: values.Get("outcome"),
		text: strings.ToLower(values.Get("q")), limit: usualCalls,
	}
	bad := func(name, detail string) (callQuery, bool) {
		refuse(w, Problem{Type: "parameter", Title: `The parameter "` + name + `" is invalid`, Status: http.StatusBadRequest, Instance: r.URL.Path, Detail: detail})
		return q, false
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostCalls {
			return bad("limit", fmt.Sprintf("Write a number from 0 to %d.", mostCalls))
		}
		q.limit = n
	}
	if text := values.Get("before"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return bad("before", "Write the number of a call.")
		}
		q.before = n
	}
	return q, true
}

// may reports whether a call can match a query, without comparing texts.
func (q *callQuery) may(c *calls.Call) bool {
	return (q.before == 0 || c.Number < q.before) && (q.server == "" || q.server == c.Server)
}

// selects reports whether a query selects a call.
func (q *callQuery) selects(c *Call) bool {
	has := func(list ...string) bool {
		for _, text := range list {
			if strings.Contains(strings.ToLower(text), q.text) {
				return true
			}
		}
		return false
	}
	switch {
	case q.client != "" && !strings.EqualFold(q.client, c.Client.Name) && q.client != c.Client.Principal:
	case q.method != "" && q.method != c.Method:
	case q.outcome != "" && q.outcome != c.Outcome && !(q.outcome == "loss" && len(c.Losses) > 0):
	case q.text != "" && !has(c.Server, c.Name, c.Target, c.Method, c.Client.Name, c.Cause, c.TraceID):
	default:
		return true
	}
	return false
}

// callsOf returns the calls that a query selects.
func (a *API) callsOf(q callQuery) Calls {
	out := Calls{Calls: []Call{}}
	clean := a.cleaner()
	now := time.Now()
	for _, c := range a.opts.Calls.All() {
		if !q.may(&c) {
			continue
		}
		x := a.call(&c, now, clean)
		if !q.selects(&x) {
			continue
		}
		if len(out.Calls) == q.limit {
			if q.limit > 0 {
				out.Before = out.Calls[q.limit-1].Number
			}
			break
		}
		out.Calls = append(out.Calls, x)
	}
	return out
}

// CallQuery selects calls. The zero value selects all.
type CallQuery struct {
	Server, Client, Method, Outcome, Text string // the parameters of /api/v1/calls; "" selects all
	Before                                uint64 // only calls with a lower number; 0 means no limit
	Limit                                 int    // the most calls to return
}

// CallsOf returns the calls that a query selects, newest first. Secrets in them are masked.
func (a *API) CallsOf(q CallQuery) Calls {
	return a.callsOf(callQuery{server: q.Server, client: q.Client, method: q.Method, outcome: q.Outcome, text: strings.ToLower(q.Text), before: q.Before, limit: q.Limit})
}

// RecentCalls returns the last calls to a server by the clients with a name, newest first. "" means
// every server or every client. Secrets in them are masked.
func (a *API) RecentCalls(server, client string, limit int) []Call {
	return a.callsOf(callQuery{server: server, client: client, limit: limit}).Calls
}

// cleaner returns a function that makes texts of calls safe to show. The first argument is
// the server of the call.
func (a *API) cleaner() func(server, text string) string {
	known := map[string]func(string) string{}
	done := map[[2]string]string{} // most calls have the same few texts, so the results are cached
	return func(server, text string) string {
		if text == "" {
			return ""
		}
		if out, ok := done[[2]string{server, text}]; ok {
			return out
		}
		clean, ok := known[server]
		if !ok {
			clean = excerpt.MaskSecrets
			if a.opts.Runtime != nil {
				clean = a.opts.Runtime.Clean(server)
			}
			known[server] = clean
		}
		out := excerpt.Line(clean(text), maxName)
		done[[2]string{server, text}] = out
		return out
	}
}

// call converts a call to its JSON form.
func (a *API) call(c *calls.Call, now time.Time, clean func(server, text string) string) Call {
	text := func(s string) string { return clean(c.Server, s) }
	x := Call{
		Number: c.Number, Outcome: string(c.Outcome), Cause: c.Cause, Code: c.Code,
		Client: CallClient{
			Name: text(c.Client.Name), Version: text(c.Client.Version), Revision: revisionText(c.Client.Revision), Principal: a.alias.of(c.Client.Who.Key()),
		},
		Server: c.Server, Revision: revisionText(c.To), Method: text(c.Method), Name: text(c.Name), Target: text(c.Target),
		Started: c.Start.UTC(), Seconds: c.Took.Seconds(), In: c.In, Out: c.Out, Requests: c.Asked, ToolError: c.Outcome == event.ToolError,
		Recorded: c.Recorded, TraceID: c.Trace,
	}
	if c.Running() {
		x.Outcome, x.Seconds = OutcomeRunning, now.Sub(c.Start).Seconds()
	}
	for _, l := range c.Losses {
		x.Losses = append(x.Losses, CallLoss{text(l.What), text(l.Why)})
	}
	return x
}

func revisionText(r mcp.Revision) string {
	if r == mcp.Unknown {
		return ""
	}
	return r.String()
}

// serveCalls answers /api/v1/calls.
func (a *API) serveCalls(w http.ResponseWriter, r *http.Request) {
	if q, ok := a.readCallQuery(w, r); ok {
		writeJSON(w, r, a.callsOf(q))
	}
}

// serveCallStream answers /api/v1/calls/stream: first the last calls that have ended, oldest first,
// then each call when it ends.
func (a *API) serveCallStream(w http.ResponseWriter, r *http.Request) {
	q, ok := a.readCallQuery(w, r)
	if !ok {
		return
	}
	ring := a.opts.Calls
	after := ring.Last(q.limit)
	if id := lastEventID(r); id != "" && !parseEventID(id, ring.Epoch(), &after) {
		after = 0 // an id of another process has no position here
	}
	a.callStreams.Serve(w, r, func(out []byte) ([]byte, <-chan struct{}, bool) {
		ended, missed, more := ring.Since(after, streamBatch)
		clean := a.cleaner()
		for i := range ended {
			after = ended[i].Seq
			if !q.may(&ended[i]) {
				continue
			}
			x := a.call(&ended[i], ended[i].Start, clean)
			if !q.selects(&x) {
				continue
			}
			x.Missed, missed = missed, false
			data, err := json.Marshal(x)
			if err != nil {
				continue // cannot happen: a call has only values that JSON can encode
			}
			out = eventstream.AppendEvent(out, eventID(ring.Epoch(), after), EventCall, data)
		}
		return out, more, false
	})
}
