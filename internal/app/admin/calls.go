package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// Calls is the response of /api/v1/calls. It contains running and ended calls, newest first.
type Calls struct {
	Calls  []Call `json:"calls" doc:"running and ended calls, the newest first"`
	Before uint64 `json:"before,omitempty" doc:"the parameter before for the next older calls; left out if there are none"`
	// Missing are those whose calls aren't there.
	Missing []Missing `json:"missing,omitempty" doc:"the other replicas that have not said which calls they know; left out if all have, or for a process alone"`
}

// Call is one call from a client. Secrets in its strings are masked.
type Call struct {
	Project   string     `json:"project" doc:"the project whose endpoint the client used"`
	Replica   string     `json:"replica,omitempty" doc:"the name of the replica that has the call; left out for a process alone"`
	Number    uint64     `json:"number" doc:"the number of the call in this process; later calls have higher numbers"`
	Outcome   string     `json:"outcome" doc:"running; ok; cancelled; tool_error: the result has isError; failed: the server answered with an error; refused: Dragoman answered with an error, and no server got the call; parked: the call waits for its client's answers; not_sent: it failed before the server got it; unknown: it failed, but the server may have run it"`
	Cause     string     `json:"cause,omitempty" doc:"why Dragoman answered with an error, such as timeout or exited"`
	Code      int64      `json:"code,omitempty" doc:"the code of the JSON-RPC error that the client got; left out if it got none"`
	Reason    string     `json:"reason,omitempty" doc:"what the client was told about the failure: the error's message, or the first text of a failed tool's result; left out without the key, and if the answer wasn't kept whole"`
	Client    CallClient `json:"client" doc:"the client that made the call"`
	Server    string     `json:"server,omitempty" doc:"the server's name; left out if the call has none or several"`
	Revision  string     `json:"revision,omitempty" doc:"the server's protocol revision; left out if no server got the call"`
	Method    string     `json:"method" doc:"the MCP method, such as tools/call"`
	Name      string     `json:"name,omitempty" doc:"the client's name for the tool or prompt, or the resource's URI"`
	Target    string     `json:"target,omitempty" doc:"the server's name for the tool or prompt, or the resource's URI"`
	Started   time.Time  `json:"started" doc:"when the first request of the call arrived"`
	Seconds   float64    `json:"seconds" doc:"how many seconds the call took, or has been running so far"`
	In        int        `json:"in" doc:"length of all the client's requests for this call, in bytes"`
	Out       int        `json:"out" doc:"length of all answers to the client, in bytes"`
	Requests  int        `json:"requests" doc:"number of requests that the client sent for this call: the first, and a retry for each set of answers to the server's questions"`
	Retries   []uint64   `json:"retries,omitempty" doc:"the numbers of the client's retries, at most 16; they are missing in the list of calls, and /api/v1/calls/NUMBER has this call for each of them"`
	ToolError bool       `json:"toolError,omitempty" doc:"true if outcome is tool_error"`
	Losses    []CallLoss `json:"losses,omitempty" doc:"parts of the messages that were left out"`
	Recorded  bool       `json:"recorded" doc:"whether /api/v1/calls/NUMBER has the call's messages"`
	TraceID   string     `json:"traceId,omitempty" doc:"the W3C trace id that the client sent"`
	Missed    bool       `json:"missed,omitempty" doc:"only in events: true if earlier calls were dropped because the reader was too slow"`
}

// CallClient describes the client of a call. Name, Version and Revision come from the client itself.
type CallClient struct {
	Name      string `json:"name,omitempty" doc:"the name that the client gives itself"`
	Version   string `json:"version,omitempty" doc:"the version of the client's program, as the client states it"`
	Revision  string `json:"revision,omitempty" doc:"the client's protocol revision; left out if it isn't known"`
	Principal string `json:"principal,omitempty" doc:"an alias of the client's principal, which doesn't reveal it"`
	Who       string `json:"who,omitempty" doc:"the name of the key or person whose credentials the client uses; only for operators"`
}

// CallLoss describes something that Dragoman left out of a call, and the reason.
type CallLoss struct {
	What string `json:"what" doc:"what was left out, such as structuredContent or a method"`
	Why  string `json:"why" doc:"the reason for the loss, as a phrase"`
}

// ID returns what a path or a person says for the call: its number, after the name of its replica if there are several.
func (c Call) ID() string {
	number := strconv.FormatUint(c.Number, 10)
	if c.Replica == "" {
		return number
	}
	return c.Replica + "." + number
}

// OutcomeRunning is the Outcome of a call that has not ended.
const OutcomeRunning = "running"

// EventCall is the name of the events of /api/v1/calls/stream. The data of an event is a Call that
// has ended. The stream sends a call again if the call continues after it was parked, or if one of
// its losses becomes known after the call has ended.
const EventCall = "call"

// Limits of the routes for calls.
const (
	usualCalls      = 50
	mostCalls       = 2000
	mostCallStreams = 64
)

// CallQuery selects calls. In all fields except Limit, the zero value selects all calls.
type CallQuery struct {
	Server, Client, Method, Outcome, Text string // the query parameters of /api/v1/calls; "" selects all calls
	Before                                uint64 // only calls with a lower number, or that have started earlier if it's a time; 0 means no limit
	Limit                                 int    // the maximum number of calls to return
	Named                                 bool   // with CallClient.Who, which is for operators
}

// readCallQuery reads the query parameters of a request.
func readCallQuery(r *http.Request) (q CallQuery, bad *Problem) {
	values := r.URL.Query()
	q = CallQuery{
		Server: values.Get("server"), Client: values.Get("client"), Method: values.Get("method"), Outcome: values.Get("outcome"), Text: values.Get("q"), Limit: usualCalls,
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostCalls {
			return q, badParameter("limit", fmt.Sprintf("Write a number from 0 to %d.", mostCalls))
		}
		q.Limit = n
	}
	if text := values.Get("before"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return q, badParameter("before", "Write the number of a call.")
		}
		q.Before = n
	}
	return q, nil
}

// leastTime is from where on CallQuery.Before is a time, in microseconds since 1970: numbers of several replicas say
// nothing about which call is older. No process counts that far.
const leastTime = 1 << 49

// may reports whether a call matches the parameters before and server of a query.
func (q *CallQuery) may(c *calls.Call) bool {
	older := q.Before == 0 || c.Number < q.Before
	if q.Before >= leastTime {
		older = uint64(c.Start.UnixMicro()) < q.Before
	}
	return older && (q.Server == "" || q.Server == c.Server)
}

// selects reports whether a call matches the parameters client, method, outcome and q of a query.
func (q *CallQuery) selects(c *Call) bool {
	wanted := strings.ToLower(q.Text)
	has := func(list ...string) bool {
		for _, text := range list {
			if strings.Contains(strings.ToLower(text), wanted) {
				return true
			}
		}
		return false
	}
	switch {
	case q.Client != "" && !strings.EqualFold(q.Client, c.Client.Name) && !strings.EqualFold(q.Client, c.Client.Who) && q.Client != c.Client.Principal:
	case q.Method != "" && q.Method != c.Method:
	case q.Outcome != "" && q.Outcome != c.Outcome && !(q.Outcome == "loss" && len(c.Losses) > 0):
	case q.Text != "" && !has(c.Server, c.Name, c.Target, c.Method, c.Client.Name, c.Client.Who, c.Cause, c.TraceID):
	default:
		return true
	}
	return false
}

// callAPI shows the calls of clients with their messages, and records them.
type callAPI struct {
	project project
	house   house
	access  *Access
	calls   *calls.Ring
	alias   *aliases
	fleet   *fleet
	streams *Streams
}

// CallsFrom returns the calls that q selects, newest first, also those of the other replicas. They answer whoever has sent
// r. If r is nil, they aren't asked.
func (a *callAPI) CallsFrom(r *http.Request, q CallQuery) Calls {
	out := a.CallsOf(q)
	a.gather(r, &q, &out)
	return out
}

// gather adds the calls of the other replicas.
func (a *callAPI) gather(r *http.Request, q *CallQuery, out *Calls) {
	if len(a.fleet.of(r)) == 0 {
		return
	}
	more := out.Before > 0
	out.Missing = gather(a.fleet, r, a.fleet.path("/calls", q.values()), func(_ Other, x *Calls) {
		more = more || x.Before > 0
		out.Calls = append(out.Calls, x.Calls...)
	})
	slices.SortStableFunc(out.Calls, func(x, y Call) int { return y.Started.Compare(x.Started) })
	if len(out.Calls) > q.Limit {
		out.Calls, more = out.Calls[:q.Limit], true
	}
	if out.Before = 0; more && len(out.Calls) > 0 {
		out.Before = uint64(out.Calls[len(out.Calls)-1].Started.UnixMicro())
	}
}

// values returns the query parameters of a request with q.
func (q *CallQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for name, text := range map[string]string{"server": q.Server, "client": q.Client, "method": q.Method, "outcome": q.Outcome, "q": q.Text} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.Before > 0 {
		v.Set("before", strconv.FormatUint(q.Before, 10))
	}
	return v
}

// CallsOf returns the calls of this process that q selects, newest first. Secrets in the calls are masked.
func (a *callAPI) CallsOf(q CallQuery) Calls {
	out := Calls{Calls: []Call{}}
	clean := a.cleaner()
	now := time.Now()
	for _, c := range a.calls.All() {
		if !q.may(&c) {
			continue
		}
		x := a.call(&c, now, clean, q.Named)
		if !q.selects(&x) {
			continue
		}
		if len(out.Calls) == q.Limit {
			if q.Limit > 0 {
				out.Before = out.Calls[q.Limit-1].Number
			}
			break
		}
		out.Calls = append(out.Calls, x)
	}
	return out
}

// cleaner returns a function that masks secrets in a text from a call, and limits the length of the
// text. The first argument of this function is the server of the call.
func (a *callAPI) cleaner() func(server, text string) string {
	known := map[string]func(string) string{}
	done := map[[2]string]string{} // a cache of results, because most calls contain the same few texts
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
			if a.project.Project != nil {
				clean = a.project.Clean(server)
			}
			known[server] = clean
		}
		out := excerpt.Line(clean(text), maxName)
		done[[2]string{server, text}] = out
		return out
	}
}

// call converts a calls.Call to a Call. For a call that is still running, Seconds is measured until
// now. If named is true, it has CallClient.Who.
func (a *callAPI) call(c *calls.Call, now time.Time, clean func(server, text string) string, named bool) Call {
	text := func(s string) string { return clean(c.Server, s) }
	x := Call{
		Project: a.project.name(), Replica: a.fleet.self(), Number: c.Number, Outcome: string(c.Outcome), Cause: c.Cause, Code: c.Code,
		Client: CallClient{
			Name: text(c.Client.Name), Version: text(c.Client.Version), Revision: revisionText(c.Client.Revision), Principal: a.alias.of(c.Client.Who.Key()),
		},
		Server: c.Server, Revision: revisionText(c.To), Method: text(c.Method), Name: text(c.Name), Target: text(c.Target),
		Started: c.Start.UTC(), Seconds: c.Took.Seconds(), In: c.In, Out: c.Out, Requests: c.Asked, Retries: c.Retries, ToolError: c.Outcome == event.ToolError,
		Recorded: c.Recorded, TraceID: c.Trace,
	}
	if c.Running() {
		x.Outcome, x.Seconds = OutcomeRunning, now.Sub(c.Start).Seconds()
	}
	if named {
		x.Client.Who = a.house.callerOf(c.Client.Who)
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

// readCalls answers /api/v1/calls.
func (a *callAPI) readCalls(r *http.Request) (any, *Problem) {
	q, bad := readCallQuery(r)
	if bad != nil {
		return nil, bad
	}
	q.Named = a.house.knowsCallers(r)
	out := a.CallsOf(q)
	reason := a.reasonsFor(r)
	for i := range out.Calls {
		out.Calls[i].Reason = reason(&out.Calls[i])
	}
	a.gather(r, &q, &out)
	return out, nil
}

// writeCallStream answers /api/v1/calls/stream. It first sends the last calls that have ended,
// oldest first. After that it sends each call when the call ends.
func (a *callAPI) writeCallStream(w http.ResponseWriter, r *http.Request) *Problem {
	q, bad := readCallQuery(r)
	if bad != nil {
		return bad
	}
	q.Named = a.house.knowsCallers(r)
	ring := a.calls
	after := ring.Last(q.Limit)
	if id := lastEventID(r); id != "" && !parseEventID(id, ring.Epoch(), &after) {
		after = 0 // the id is from an earlier process, so start with the oldest call
		if a.fleet.self() != "" {
			after = ring.Last(0) // or from another replica, whose calls the reader has
		}
	}
	next, end := a.fleet.follow(r, "/calls/stream", q.values(), EventCall, func(out []byte) ([]byte, <-chan struct{}, bool) {
		ended, missed, more := ring.Since(after, streamBatch)
		clean, reason := a.cleaner(), a.reasonsFor(r)
		for i := range ended {
			after = ended[i].Seq
			if !q.may(&ended[i]) {
				continue
			}
			x := a.call(&ended[i], ended[i].Start, clean, q.Named)
			if !q.selects(&x) {
				continue
			}
			x.Missed, missed = missed, false
			x.Reason = reason(&x)
			data, err := json.Marshal(x)
			if err != nil {
				continue // cannot happen, because JSON can encode all values in a Call
			}
			out = eventstream.AppendEvent(out, eventID(ring.Epoch(), after), EventCall, data)
		}
		return out, more, false
	})
	defer end()
	a.streams.Serve(w, r, next)
	return nil
}
