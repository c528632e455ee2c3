package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// portrait writes what `dragoman status NAME` says about one server, in sentences for people. The dump of
// SIGUSR1 and `dragoman bug` have the same facts in the shorter form of admin.Server.Text.
type portrait struct {
	strings.Builder
	s     *admin.Server
	now   time.Time
	width int // the width to which text is broken; 0 for none
}

func (c *statusCommand) serverText(s *admin.Server, now time.Time) string {
	p := &portrait{s: s, now: now}
	if c.screen {
		p.width = c.columns()
	}
	p.state()
	p.failure()
	p.lastError()
	p.oddities()
	p.handshake()
	p.sessions()
	p.lists()
	return p.String()
}

// ago says how long something has been so.
func (p *portrait) ago(t time.Time) string { return spanOf(p.now.Sub(t)) }

// say writes text at an indentation.
func (p *portrait) say(indent int, text string) {
	lines := []string{clean(text)}
	if p.width > 0 {
		lines = screen.Wrap(lines[0], p.width-indent)
	}
	for _, l := range lines {
		p.WriteString(strings.Repeat(" ", indent) + l + "\n")
	}
}

// part begins a new part of the text.
func (p *portrait) part(title string) {
	p.WriteByte('\n')
	if title != "" {
		p.say(0, title)
	}
}

// stateSentences says, for some states, since when a server is in it.
var stateSentences = map[string]string{"failed": "hasn't worked", "unresponsive": "hasn't answered"}

func (p *portrait) state() {
	s := p.s
	text := s.Name + " " + cmp.Or(stateSentences[s.State], "has been "+s.State)
	if !s.Since.IsZero() {
		text += " for " + p.ago(s.Since)
	}
	p.say(0, text+".")
	switch {
	case s.Revision != "":
		p.say(0, "It speaks "+s.Revision+" ("+s.Era+") over "+cmp.Or(s.Transport, "an unknown transport")+".")
	case s.Transport != "":
		p.say(0, "It's reached over "+s.Transport+".")
	}
	switch s.Isolation {
	case "call":
		p.say(0, "Each call has a session of its own.")
	case "shared":
		p.say(0, "All clients share one session.")
	}
	calls := "No call has ended so far"
	if s.Calls > 0 {
		calls = quantity(int(s.Calls), "call") + " ended"
		if s.FailedCalls > 0 {
			calls += ", " + strconv.FormatUint(s.FailedCalls, 10) + " of them with an error"
		}
	}
	if s.Running > 0 {
		calls += ", and " + strconv.Itoa(s.Running) + " running now"
	}
	p.say(0, calls+".")
	if s.Restarts > 0 {
		p.say(0, "It has restarted "+times(s.Restarts)+".")
	}
}

// times returns how often something happened.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

// failure writes why the server is not ready, what shows it, and what to do.
func (p *portrait) failure() {
	s := p.s
	if s.Reason == "" && s.Failure == nil && s.RetryAt == nil && s.Opening == 0 {
		return
	}
	p.part("")
	switch f := s.Failure; {
	case f != nil:
		p.told(f.Sentence, f.Action, f.Evidence, string(f.EvidenceFrom))
	case s.Reason != "":
		p.say(0, s.Reason)
	}
	failures := ""
	if s.Attempts > 1 {
		failures = strconv.Itoa(s.Attempts) + " attempts have failed in a row. "
	}
	switch {
	case s.RetryAt != nil && s.RetryAt.After(p.now):
		p.say(0, failures+"The next one is in "+spanOf(s.RetryAt.Sub(p.now))+".")
	case s.Attempts > 0 && s.Opening > 0:
		p.say(0, failures+"It is being opened again now.")
	case s.Opening > 0:
		p.say(0, "It is being opened now.")
	}
}

// told writes a failure: the sentence, the evidence that the sentence doesn't quote, and the action.
func (p *portrait) told(sentence, action string, evidence []string, from string) {
	p.say(0, sentence)
	for _, line := range evidence {
		if strings.Contains(sentence, strconv.Quote(line)) {
			continue
		}
		line = clean(from) + " | " + clean(line)
		if p.width > 0 {
			line = screen.Fit(line, p.width-2)
		}
		p.WriteString("  " + line + "\n")
	}
	width := p.width
	if width == 0 {
		width = 1 << 20
	}
	if action != "" {
		p.WriteString(explained("", action, "", width))
	}
}

// lastError writes the last error of a server that works again, or that has another reason by now.
func (p *portrait) lastError() {
	e := p.s.LastError
	if e == nil || e.Text == p.s.Reason {
		return
	}
	p.part("Its last error was " + p.ago(e.At) + " ago:")
	if f := e.Failure; f != nil {
		p.told(e.Text, f.Action, f.Evidence, string(f.EvidenceFrom))
		return
	}
	p.say(0, e.Text)
}

// oddities writes what the server does that it should not.
func (p *portrait) oddities() {
	s := p.s
	var all []string
	for _, x := range []struct {
		n    int64
		noun string
		what string
	}{
		{s.Unasked, "answer", "without an open request"}, {s.Odd, "other message", "that could not be used"}, {s.Late, "progress notification", "for a request that had ended"},
	} {
		if x.n > 0 {
			all = append(all, "It sent "+quantity(int(x.n), x.noun)+" "+x.what+".")
		}
	}
	if s.Broadcasts {
		all = append(all, "It sends the messages for one session to all of its sessions.")
	}
	switch {
	case s.WorkerVersion != "" && s.WorkerCause != "":
		all = append(all, "The Codex worker speaks "+s.WorkerVersion+", because v2 failed: "+s.WorkerCause)
	case s.WorkerVersion != "":
		all = append(all, "The Codex worker speaks "+s.WorkerVersion+".")
	case s.WorkerCause != "":
		all = append(all, "The Codex worker: "+s.WorkerCause)
	}
	if len(all) == 0 {
		return
	}
	p.part("")
	for _, text := range all {
		p.say(0, text)
	}
}

// handshake writes the steps of the last handshake, which hang under their texts.
func (p *portrait) handshake() {
	h := p.s.Handshake
	if h == nil {
		return
	}
	p.part("Its last handshake was " + p.ago(h.At) + " ago:")
	for _, step := range h.Trace {
		step = clean(step)
		at, text, ok := strings.Cut(step, " ms  ")
		if !ok || p.width == 0 {
			p.WriteString(step + "\n")
			continue
		}
		at += " ms  "
		for i, l := range screen.Wrap(text, max(p.width-screen.Width(at), 20)) {
			if i > 0 {
				at = strings.Repeat(" ", screen.Width(at))
			}
			p.WriteString(at + l + "\n")
		}
	}
}

// roles says what a session is for, by its role.
var roles = map[string]string{
	"home": "session for the clients that share it", "lane": "session for calls in which the server may ask", "call": "session for one call", "link": "connection to a modern server",
}

func (p *portrait) sessions() {
	if len(p.s.Sessions) == 0 && p.s.Listen == nil {
		return
	}
	p.part(quantity(len(p.s.Sessions), "session") + ":")
	for _, x := range p.s.Sessions {
		text := x.Role
		if role := roles[x.Role]; role != "" {
			text = role
		}
		if x.Principal != "" {
			text += ", of " + x.Principal
		}
		text += ", opened " + p.ago(x.Opened) + " ago"
		if x.PID > 0 {
			text += ", pid " + strconv.Itoa(x.PID)
		}
		switch {
		case x.Running > 0:
			text += ", " + quantity(x.Running, "call") + " running"
		case x.IdleSince != nil:
			text += ", idle for " + p.ago(*x.IdleSince)
		}
		if x.Hearers > 0 {
			text += ", " + quantity(x.Hearers, "client") + " subscribed"
		}
		if x.Watched > 0 {
			text += ", " + quantity(x.Watched, "resource") + " watched"
		}
		if len(x.Capabilities) > 0 {
			text += ", declares " + strings.Join(x.Capabilities, " ")
		}
		p.say(2, text)
	}
	if l := p.s.Listen; l != nil {
		var all []string
		for _, x := range []struct {
			on   bool
			name string
		}{{l.Tools, "its tools"}, {l.Prompts, "its prompts"}, {l.Resources, "its resources"}, {l.URIs > 0, quantity(l.URIs, "single resource")}} {
			if x.on {
				all = append(all, x.name)
			}
		}
		if len(all) > 0 {
			p.say(2, "it tells us of changes to "+strings.Join(all, ", "))
		}
	}
}

func (p *portrait) lists() {
	if len(p.s.Lists) == 0 {
		return
	}
	p.part("Lists:")
	t := screen.Table{Width: p.width, Columns: []screen.Column{{Whole: true}, {Right: true, Whole: true}, {Wrap: true}}}
	for i := range p.s.Lists {
		l := &p.s.Lists[i]
		read := "never read"
		switch {
		case l.ReadAt != nil:
			read = "read " + p.ago(*l.ReadAt) + " ago"
		case l.KeptAt != nil:
			read = "from disk, read " + p.ago(*l.KeptAt) + " ago"
		}
		for _, x := range []struct {
			on   bool
			text string
		}{{l.Stale, "may have changed since"}, {l.Reading, "being read"}, {l.CutOff, "cut off, because it is too long"}, {l.Failed != "", "failed" + p.whyFailed(l.Failed)}} {
			if x.on {
				read += ", " + x.text
			}
		}
		t.Rows = append(t.Rows, screen.Cells("  "+l.Method, quantity(l.Items, "item"), read))
		under := ""
		for _, x := range l.Odd {
			under += explained(fmt.Sprintf("%s: %s", x.Name, x.Why), "", "    ", max(p.width, 80))
		}
		t.Under = append(t.Under, under)
	}
	p.WriteString(t.Text())
}

// whyFailed returns why a list could not be read. If that is why the server is not ready, it's said
// already.
func (p *portrait) whyFailed(why string) string {
	if p.s.Reason != "" && strings.HasPrefix(why, p.s.Reason) {
		return " for the same reason"
	}
	return ": " + why
}
