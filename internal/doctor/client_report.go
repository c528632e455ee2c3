package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// ClientReport is the record of a stage.
type ClientReport struct {
	Findings []Finding // the findings, worst first
	Visits   []Visit   // one visit per conversation
	Messages int       // number of messages received
}

// Visit describes one conversation.
type Visit struct {
	Client    string   // name and version; "" if unknown
	OpensWith string   // the method of the first request
	Offers    string   // the first version that the client offered, or ""
	Revision  string   // the revision in use
	Declares  []string // the client's capabilities
	Requests  int      // requests since the opening
}

// Report returns the record so far.
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
		r.Visits = append(r.Visits, Visit{
			Client: redact([]byte(v.name), nil), OpensWith: clip(v.opened), Offers: redact([]byte(v.version), nil),
			Revision: v.revision.String(), Declares: slices.Clone(v.declares), Requests: v.requests,
		})
	}
	if opened && !lists {
		s.find(ClientNeverLists, nil)
	}
	for _, f := range s.found {
		r.Findings = append(r.Findings, f)
	}
	slices.SortFunc(r.Findings, severity)
	return r
}

// String describes a visit on one line. It quotes the client's name, and any other text of the
// client that is not a single plain word.
func (v Visit) String() string {
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
	return s + ", speaks " + v.Revision + ", declares " + listed(declares) + ", " + requests(v.Requests)
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return strconv.Itoa(n) + " requests"
}

// JSON returns the report as one object: {"findings":[…],"verdict":{…}}.
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
	return append(out, `]}}`...)
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
