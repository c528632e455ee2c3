package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// ClientReport describes what a stage has found out about its clients.
type ClientReport struct {
	Findings []Finding // the findings, worst first
	Visits   []Visit   // one visit per conversation
	Checks   []Check   // all checks, in the order in which they are shown
	Messages int       // number of messages received
}

// Check is something that a client has to do, and whether the client does it.
type Check struct {
	ID    string // a stable id of one word
	Title string // what the client has to do
	State CheckState
	Codes []string // the codes of the findings that say what is wrong; nil if State is not CheckWrong
}

// CheckState says whether a client does what a check requires.
type CheckState string

// These are the values of CheckState.
const (
	CheckRight   CheckState = "right"
	CheckWrong   CheckState = "wrong"
	CheckNotSeen CheckState = "not_seen" // the client did nothing to which the check applies
)

// checksLocked returns all checks. The caller holds s.mu.
func (s *Stage) checksLocked() []Check {
	out := make([]Check, len(clientChecks))
	for i, c := range clientChecks {
		out[i] = Check{ID: c.id, Title: c.title, State: CheckNotSeen}
		if s.judged[c.id] {
			out[i].State = CheckRight
		}
		for _, code := range c.codes {
			if _, found := s.found[code]; found {
				out[i].State, out[i].Codes = CheckWrong, append(out[i].Codes, code)
			}
		}
	}
	return out
}

// Visit describes one conversation.
type Visit struct {
	Client    string   // the name and version of the client; "" if unknown
	OpensWith string   // the method of the request that opened the conversation
	Offers    string   // the version that the client offered last; "" if none
	Revision  string   // the revision in use
	Declares  []string // the client's capabilities
	Requests  int      // requests since the opening
}

// Report returns what the stage has recorded so far.
func (s *Stage) Report() *ClientReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &ClientReport{Messages: s.messages}
	lists, opened := false, false
	for _, v := range s.all {
		if v.opened == "" {
			continue
		}
		opened = true
		lists = lists || v.lists
		r.Visits = append(r.Visits, v.visit())
	}
	if opened && !lists {
		s.find(ClientNeverLists, nil)
	}
	for _, f := range s.found {
		r.Findings = append(r.Findings, f)
	}
	slices.SortFunc(r.Findings, severity)
	r.Checks = s.checksLocked()
	return r
}

// visit describes the conversation. The caller holds the mutex of the stage.
func (v *visitor) visit() Visit {
	return Visit{
		Client: redact([]byte(v.name), nil), OpensWith: clip(v.opened), Offers: redact([]byte(v.version), nil),
		Revision: v.revision.String(), Declares: slices.Clone(v.declares), Requests: v.requests,
	}
}

// String describes a visit on one line. It quotes the client's name, and any other text from the
// client that is not a single plain word.
func (v Visit) String() string { return v.opening() + ", " + requests(v.Requests) }

// opening does the same as String, without the number of requests.
func (v Visit) opening() string {
	who := "a client without a name"
	if v.Client != "" {
		who = excerpt.Quote(v.Client, shown)
	}
	s := who + " opens with " + excerpt.Word(v.OpensWith, shown)
	if v.Offers != "" {
		s += ", offers " + excerpt.Word(v.Offers, shown)
	}
	declares := make([]string, len(v.Declares))
	for i, name := range v.Declares {
		declares[i] = excerpt.Word(name, 40)
	}
	return s + ", speaks " + v.Revision + ", declares " + listed(declares)
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return strconv.Itoa(n) + " requests"
}

// JSON returns the report as one object: {"findings":[…],"verdict":{…},"checks":[…]}.
func (r *ClientReport) JSON() []byte {
	out := fmt.Appendf(beginJSON(r.Findings), "{\"reached\":%t,\"healthy\":%t,\"messages\":%d,\"conversations\":[", r.Messages > 0, Worst(r.Findings) != Error, r.Messages)
	for i, v := range r.Visits {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendMembers(out, "client", v.Client, "opensWith", v.OpensWith, "offers", v.Offers, "revision", v.Revision)
		out = append(out[:len(out)-1], `,"declares":`...)
		out = jsonrpc.AppendStrings(out, v.Declares)
		out = fmt.Appendf(out, `,"requests":%d}`, v.Requests)
	}
	out = append(out, "]},\n\"checks\":["...)
	for i, c := range r.Checks {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendMembers(append(out, '\n'), "id", c.ID, "check", c.Title, "state", string(c.State))
		if len(c.Codes) > 0 {
			out = jsonrpc.AppendStrings(append(out[:len(out)-1], `,"findings":`...), c.Codes)
			out = append(out, '}')
		}
	}
	return append(out, `]}`...)
}

// Text returns one line per visit.
func (r *ClientReport) Text() string {
	if r.Messages == 0 {
		return "no client has sent a message\n"
	}
	var b strings.Builder
	for _, v := range r.Visits {
		b.WriteString(v.String() + "\n")
	}
	return b.String()
}
