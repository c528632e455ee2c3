package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Verdict says what works with the server directly, and what works through Dragoman.
type Verdict struct {
	// Reached is false if the server has sent no message, and has not answered over HTTP either.
	Reached   bool
	Healthy   bool // no finding has level error
	Revisions []RevisionVerdict
	// SignIn means that the server answers only clients that have signed in, so the doctor could
	// not check much. SignIn is not an error.
	SignIn bool
	// Through means that Dragoman can open the server and has requested its tools.
	// RevisionVerdict.Through says for which clients this works.
	Through bool
	Dialect string // the dialect in which Dragoman opens the server; "" for standard MCP
	Why     string // the reason why Dragoman cannot open the server
	Offer   Offer
	// Failure is the reason why the server cannot be used through Dragoman. It is nil if the server
	// can be used.
	Failure *failure.Failure
}

// RevisionVerdict says whether clients of one revision can use the server, without and with
// Dragoman.
type RevisionVerdict struct {
	Revision mcp.Revision
	Works    bool
	Why      string // why clients of this revision cannot use the server without Dragoman
	// Through means that a client of this revision got the tools through Dragoman.
	Through bool
}

// verdictLocked returns the verdict. The caller holds e.mu.
func (e *exam) verdictLocked() Verdict {
	v := Verdict{Reached: e.reached, Healthy: true, Through: e.through.works, Dialect: e.through.dialect, Why: e.redact([]byte(e.through.why)), Offer: e.offerLocked()}
	_, v.SignIn = e.found[WantsCredentials]
	v.Failure = e.failureLocked()
	for _, f := range e.found {
		v.Healthy = v.Healthy && f.Level != Error
	}
	all := mcp.Revisions()
	slices.Reverse(all)
	for _, r := range all {
		rv := RevisionVerdict{Revision: r, Why: "the server was not reached"}
		if a := e.tried[r]; a != nil {
			rv.Works, rv.Why = a.opened, ""
			if !a.opened {
				rv.Why = e.redact([]byte(a.why))
			}
		}
		rv.Through = slices.Contains(e.through.revisions, r)
		v.Revisions = append(v.Revisions, rv)
	}
	return v
}

// String returns the verdict on one line, such as "works with: 2025-06-18, 2025-11-25;
// through Dragoman: all".
func (v Verdict) String() string {
	var dates []string
	for _, r := range v.Revisions {
		if r.Works {
			dates = append(dates, r.Revision.String())
		}
	}
	through := "all"
	switch {
	case !v.Through:
		through = "none"
	case v.Dialect != "":
		through += " (dialect " + v.Dialect + ")"
	}
	return "works with: " + listed(dates) + "; through Dragoman: " + through
}

func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// JSON returns the report as one object: {"findings":[…],"verdict":{…},"passed":[…]}.
func (r *Report) JSON() []byte {
	out := append(r.Verdict.append(beginJSON(r.Findings)), `,
"passed":`...)
	return append(jsonrpc.AppendStrings(out, r.Passed), '}')
}

// beginJSON returns the beginning of the JSON of a report, up to and including the key "verdict".
func beginJSON(findings []Finding) []byte {
	out := []byte(`{"findings":[`)
	for i, f := range findings {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendFinding(append(out, '\n'), f)
	}
	return append(out, "],\n\"verdict\":"...)
}

func (v Verdict) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"reached":%t,"healthy":%t,"summary":`, v.Reached, v.Healthy)
	dst = jsonrpc.AppendQuote(dst, v.String())
	dst = v.Offer.append(dst)
	if v.SignIn {
		dst = append(dst, `,"signIn":true`...)
	}
	dst = append(dst, `,"revisions":[`...)
	for i, r := range v.Revisions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"revision":"%s","works":%t,"throughDragoman":%t`, r.Revision, r.Works, r.Through)
		if r.Why != "" {
			dst = jsonrpc.AppendQuote(append(dst, `,"why":`...), r.Why)
		}
		dst = append(dst, '}')
	}
	dst = fmt.Appendf(dst, `],"throughDragoman":{"works":%t`, v.Through)
	for _, m := range [][2]string{{"dialect", v.Dialect}, {"why", v.Why}} {
		if m[1] != "" {
			dst = append(jsonrpc.AppendQuote(append(dst, ','), m[0]), ':')
			dst = jsonrpc.AppendQuote(dst, m[1])
		}
	}
	dst = append(dst, '}')
	if v.Failure != nil {
		dst = v.Failure.AppendJSON(append(dst, `,"failure":`...))
	}
	return append(dst, '}')
}
