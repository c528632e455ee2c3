package admin

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// maxName is the maximum number of bytes that Dragoman shows of a name from a peer.
const maxName = 128

// Text returns the report as text for a terminal. The ages in the report are relative to now. Text
// from peers is quoted, so that a peer cannot add lines to the report.
func (r *Report) Text(now time.Time) []byte {
	var b bytes.Buffer
	line, ago := textOf(&b, now)
	line(0, "---- dragoman %s, pid %d, %s for %s, configured %s ago", r.Version, r.PID, r.State, time.Duration(r.UptimeSeconds)*time.Second, ago(r.Configured))
	if r.Store != nil {
		line(0, "%s", r.Store.Line())
	}
	for _, x := range r.ProjectProblems {
		line(0, "%s", x.Line())
	}
	line(0, "clients: %s", counts(r.Conversations, r.Requests))
	if len(r.DemoClients) > 0 {
		line(1, "%s are clients of the demo; --quiet-demo leaves them out", strings.Join(r.DemoClients, " and "))
	}
	line(0, "in flight: %d of %s, %s refused at the limit", r.InFlight.Held, number(r.InFlight.Limit, "byte"), number(r.InFlight.Refused, "request"))
	for _, e := range r.Endpoints {
		if len(e.Conversations) > 0 || e.Requests > 0 {
			line(1, "%s: %s", e.Path, counts(e.Conversations, e.Requests))
		}
	}
	if tools := r.Tools.Line(); tools != "" {
		line(0, "%s", tools)
	}
	for _, s := range r.Servers {
		s.text(line, ago)
	}
	line(0, "parked calls: %d", len(r.Parked))
	for _, p := range r.Parked {
		line(1, "%s %s%s, %s, for %s", p.Server, excerpt.Word(p.Method, maxName), of(p.Principal), number(p.Questions, "open question"), ago(p.Since))
	}
	if r.Questions > 0 {
		line(0, "questions that wait for a person: %d; see `dragoman questions`", r.Questions)
	}
	line(0, "listens: %s", number(len(r.Listens), "client"))
	for _, l := range r.Listens {
		line(1, "%s: %d", l.Client, l.Open)
	}
	line(0, "losses: %s", number(len(r.Losses), "kind"))
	for _, l := range r.Losses {
		line(1, "%s %s: %d", l.Server, excerpt.Word(l.What, maxName), l.Count)
	}
	line(0, "limits: %s", number(len(r.Limits), "kind")+" of refusals")
	for _, l := range r.Limits {
		line(1, "%s %s %s: %d", l.Per, l.Of, l.Limit, l.Refused)
	}
	line(0, "---- end")
	return b.Bytes()
}

// LimitsLine returns one line that says how many calls limits have refused, or "" if none.
func LimitsLine(all []LimitRefusals) string {
	var of []string
	n := uint64(0)
	for _, l := range all {
		n += l.Refused
		if per := "per " + l.Per; !slices.Contains(of, per) {
			of = append(of, per)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("limits: %s refused since the start, %s", number(int64(n), "call"), strings.Join(of, ", "))
}

// ReplicasLine says which replicas there are, without those that have ended by themselves, or run again.
func ReplicasLine(all []Replica) string {
	var parts []string
	for _, x := range all {
		part := x.Name + " " + x.State
		again := slices.ContainsFunc(all, func(y Replica) bool { return y.runs() && y.Name == x.Name })
		switch {
		case x.State == "gone", x.State == "dead" && again:
			continue
		case x.State == "dead":
			part += fmt.Sprintf(" (silent for %s)", time.Duration(x.SilentSeconds)*time.Second)
		case x.Problem != "" && x.Self:
			part += " (this one; " + x.Problem + ")"
		case x.Problem != "":
			part += " (" + x.Problem + ")"
		case x.Self:
			part += " (this one)"
		case x.SilentSeconds > 3:
			part += fmt.Sprintf(" (silent for %d s)", x.SilentSeconds)
		}
		parts = append(parts, part)
	}
	return "replicas: " + strings.Join(parts, ", ")
}

// ReplicaLines says what each replica says of itself, if it isn't the same for all: one line for each with clients or
// with servers that don't work there, and one if they have different configurations, or different versions of Dragoman.
func ReplicaLines(all []Replica) (lines []string) {
	by, versions := map[string][]string{}, map[string][]string{} // the names of the replicas, by their digests and versions
	for i := range all {
		x := &all[i]
		if x.State == "ready" || x.State == "draining" {
			versions[x.Version] = append(versions[x.Version], x.Name)
		}
		if x.Digest == "" {
			continue
		}
		by[x.Digest] = append(by[x.Digest], x.Name)
		line := fmt.Sprintf("%s: sessions of clients: %d, requests without a session: %d, parked calls: %d", x.Name, x.Sessions, x.Requests, x.Parked)
		if x.Questions > 0 {
			line += fmt.Sprintf(", questions for a person: %d", x.Questions)
		}
		for _, s := range x.Servers {
			if s.Reason != "" && s.State != "ready" {
				line += "; " + s.Name + " " + s.State + ": " + s.Reason
			}
		}
		lines = append(lines, line)
	}
	if len(by) > 1 {
		lines = append(lines, "the replicas have different configurations ("+eachWith(by)+"); give all of them the same file")
	}
	if len(versions) > 1 {
		lines = append(lines, "the replicas have different versions of Dragoman ("+eachWith(versions)+"); update all of them")
	}
	return lines
}

// eachWith returns the names of replicas with what they have, of which by is the key.
func eachWith(by map[string][]string) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, strings.Join(by[what], ", ")+" "+what)
	}
	return strings.Join(parts, "; ")
}

// CallsOf returns how many calls to a server have ended, and how many run, at all replicas that have said it.
func (r *Report) CallsOf(s *Server) (ended uint64, running int) {
	ended, running = s.Calls, s.Running
	for i := range r.Replicas {
		if r.Replicas[i].Self {
			continue
		}
		for _, x := range r.Replicas[i].Servers {
			if x.Name == s.Name {
				ended, running = ended+x.Calls, running+x.Running
			}
		}
	}
	return ended, running
}

// Line returns one line that says why the project isn't in use as it is stored.
func (x ProjectProblem) Line() string { return "project " + x.Project + ": " + x.Problem }

// Line returns one line that says where what must last is kept, and what's wrong with it.
func (s *Store) Line() string {
	why := ""
	if s.Problem != "" {
		why = s.Problem
		if s.Action != "" {
			why += " (" + s.Action + ")"
		}
	}
	switch {
	case s.Place == string(store.Memory):
		return "store: in memory until dragoman ends, because " + why
	case why != "":
		return "store: " + s.Database + " can't be read now: " + why
	case s.Place == string(store.Absent):
		return "store: nothing yet; it will be " + s.Database
	}
	return "store: " + s.Database
}

// Text returns the complete state of the server as text for a terminal; see Report.Text.
func (s *Server) Text(now time.Time) []byte {
	var b bytes.Buffer
	s.text(textOf(&b, now))
	return b.Bytes()
}

// textOf returns two functions: line writes an indented line to b, and ago returns as text how much
// time has passed from a given time to now.
func textOf(b *bytes.Buffer, now time.Time) (line func(depth int, format string, args ...any), ago func(time.Time) string) {
	line = func(depth int, format string, args ...any) {
		b.WriteString(strings.Repeat("  ", depth))
		fmt.Fprintf(b, format, args...)
		b.WriteByte('\n')
	}
	return line, func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
}

func (s *Server) text(line func(int, string, ...any), ago func(time.Time) string) {
	about := s.Era
	if s.Revision != "" {
		about += " " + s.Revision
	}
	if s.Transport != "" {
		about += ", " + s.Transport
	}
	line(0, "server %s: %s for %s (%s, isolation %s), %s in flight, %d ended, %d failed, %s", s.Name, s.State, ago(s.Since), about, s.Isolation, number(s.Running, "call"), s.Calls, s.FailedCalls, number(s.Restarts, "restart"))
	if s.Reason != "" {
		line(1, "reason: %q", s.Reason)
	}
	if f := s.Failure; f != nil {
		line(1, "class: %s", excerpt.Word(string(f.Class), maxName))
		for _, words := range f.Evidence {
			line(1, "%s: %q", excerpt.Word(string(f.EvidenceFrom), maxName), words)
		}
		if f.Action != "" {
			line(1, "do: %q", f.Action)
		}
	}
	switch {
	case s.LastError == nil:
	case s.Reason != "" && s.LastError.Text == s.Reason:
		line(1, "last error: same as the reason, %s ago", ago(s.LastError.At))
	default:
		line(1, "last error, %s ago: %q", ago(s.LastError.At), s.LastError.Text)
	}
	switch {
	case s.RetryAt != nil:
		line(1, "failures in a row: %d, next attempt in %s", s.Attempts, strings.TrimPrefix(ago(*s.RetryAt), "-"))
	case s.Attempts > 0 && s.Opening > 0:
		line(1, "failures in a row: %d, being opened again", s.Attempts)
	}
	switch {
	case s.WorkerVersion != "" && s.WorkerCause != "":
		line(1, "codex worker: version %s, because version 2 failed: %q", s.WorkerVersion, s.WorkerCause)
	case s.WorkerVersion != "":
		line(1, "codex worker: version %s", s.WorkerVersion)
	case s.WorkerCause != "":
		line(1, "codex worker: %q", s.WorkerCause)
	}
	if s.Handshake != nil {
		line(1, "handshake, %s ago:", ago(s.Handshake.At))
		for _, step := range s.Handshake.Trace {
			line(2, "%s", printable(step))
		}
	}
	if s.Opening > 0 {
		line(1, "%s being opened", number(s.Opening, "session"))
	}
	if s.Unasked > 0 {
		line(1, "%s without an open request", number(s.Unasked, "answer"))
	}
	if s.Odd > 0 {
		line(1, "%s that could not be used", number(s.Odd, "other message"))
	}
	if s.Late > 0 {
		line(1, "%s for ended requests", number(s.Late, "progress notification"))
	}
	if s.Broadcasts {
		line(1, "sends messages for one session to all sessions")
	}
	for _, x := range s.Sessions {
		caps, state := "nothing asked", "in use"
		if len(x.Capabilities) > 0 {
			shown := make([]string, len(x.Capabilities))
			for i, name := range x.Capabilities {
				shown[i] = excerpt.Word(name, maxName)
			}
			caps = strings.Join(shown, " ")
		}
		if x.IdleSince != nil {
			state = "idle for " + ago(*x.IdleSince)
		}
		line(1, "%s session%s (%s), %s: %d in flight, %s, %s subscribed, %s watched, opened %s ago%s",
			x.Role, of(x.Principal), caps, x.Revision, x.Running, state, number(x.Hearers, "client"), number(x.Watched, "resource"), ago(x.Opened), ofChild(x.PID))
	}
	if l := s.Listen; l != nil {
		line(1, "subscribed to lists: tools %t, prompts %t, resources %t; to %s", l.Tools, l.Prompts, l.Resources, number(l.URIs, "single resource"))
	}
	for _, l := range s.Lists {
		read, more := "never read", ""
		switch {
		case l.ReadAt != nil:
			read = "read " + ago(*l.ReadAt) + " ago"
		case l.KeptAt != nil:
			read = "from disk, read " + ago(*l.KeptAt) + " ago"
		}
		for _, x := range []struct {
			on   bool
			text string
		}{{l.Stale, "stale"}, {l.Reading, "being read"}, {l.CutOff, "cut off"}, {l.Failed != "", s.listFailure(l.Failed)}} {
			if x.on {
				more += ", " + x.text
			}
		}
		line(1, "%s: %s, %s%s", l.Method, number(l.Items, "item"), read, more)
		for _, x := range l.Odd {
			line(2, "%q: %q", x.Name, x.Why)
		}
	}
}

// listFailure returns a text that says why Dragoman could not read a list. If the reason is the
// same as s.Reason, the text does not repeat it.
func (s *Server) listFailure(why string) string {
	if s.Reason != "" && strings.HasPrefix(why, s.Reason) {
		return "failed for the same reason"
	}
	return fmt.Sprintf("failed: %q", why)
}

// number returns a number and a noun as text. The noun is in the plural unless the number is 1.
func number[T int | int64](n T, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// counts returns the number of sessions of each transport, and the number of single requests, as
// text.
func counts(all map[string]int, requests int) string {
	var parts []string
	for _, transport := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%d by %s", all[transport], transport))
	}
	return strings.Join(append(parts, number(requests, "single request")), ", ")
}

func of(principal string) string {
	if principal == "" {
		return ""
	}
	return " of " + excerpt.Word(principal, maxName)
}

func ofChild(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(", pid %d", pid)
}

// printable returns s with its control characters escaped as in Go source.
func printable(s string) string {
	q := fmt.Sprintf("%q", s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
