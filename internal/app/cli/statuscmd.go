package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// watchPause is the time between two requests of status --watch.
const watchPause = time.Second

// statusCommand is `dragoman status`.
type statusCommand struct {
	*world
	runningFlags
	project       string
	watch, asJSON bool

	name string // the server, or "" for all
}

func newStatusCommand(w *world) *cobra.Command {
	c := &statusCommand{world: w}
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the state of a running \"dragoman serve\" and its servers",
		Long: `Ask a running "dragoman serve" for its state, and print a table
of its servers. CALLS counts the calls that have ended since it started, RUNNING
those that haven't. For a server that isn't ready, you see why, and when it's
tried again. If a changed configuration file was refused, a line above the table
says why. With NAME, print all details of the server NAME, including the steps
of its last handshake.

With --watch, the table is updated every second until you press Ctrl-C; if
stdout is not a terminal, you get a line for each change instead. If "dragoman
serve" stops, the command waits until it runs again.

Without --listen, the command uses your "dragoman serve" that has the same
configuration file, even if the file has errors now. If there is none, it uses
the only one that runs, and if there are several, it lists them. If you run
none, it looks at the address in the configuration file, or else at
127.0.0.1:7300. To another machine, "dragoman serve" shows its status only
for an API key: use --url, with a key that has at least the role viewer in the
environment variable DRAGOMAN_KEY.`,
		Example: `  dragoman status
  dragoman status github

  # Ask one on another machine, with the key in DRAGOMAN_KEY.
  dragoman status --url https://mcp.example.com

  # Watch the servers, or append every change to a file.
  dragoman status --watch
  dragoman status --watch >> changes.log

  # Print the names of the servers that are not ready.
  dragoman status --json | jq -r '.servers[] | select(.state != "ready") | .name'`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.env.completeTarget(&c.file),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.watch, "watch", false, "draw the table again every second, or print each change if stdout is not a terminal")
	flags.BoolVar(&c.asJSON, "json", false, "print the status as JSON; with --watch, one line for each change")
	addProjectFlag(flags, &c.project)
	c.addFlags(cmd)
	return cmd
}

func (c *statusCommand) check(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("name at most one server", "unexpected argument %q after %q", args[1], args[0])
	}
	return nil
}

func (c *statusCommand) run(cmd *cobra.Command, args []string) error {
	c.startLog(0, nil)
	s, err := locator{c.env}.running(cmd.Context(), &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project, c.name = c.project, ""
	if len(args) > 0 {
		c.name = args[0]
	}
	if c.watch {
		return signalOr(cmd.Context(), c.watchStatus(cmd.Context(), s))
	}
	r, err := c.statusOf(cmd.Context(), s)
	if err != nil {
		return signalOr(cmd.Context(), err)
	}
	if c.asJSON {
		return c.printStatusJSON(r, "  ")
	}
	_, err = io.WriteString(c.stdout, c.statusText(s.site(), r, time.Now()))
	return err
}

// statusOf returns the status of a running serve process. If the command names a server that the
// process doesn't have, statusOf returns an error.
func (c *statusCommand) statusOf(ctx context.Context, s *running) (*admin.Report, error) {
	r, err := s.report(ctx)
	if err == nil && c.name != "" && serverNamed(r, c.name) == nil {
		err = noServer(c.name, r, c.file)
	}
	return r, err
}

// serverNamed returns the server called name in a report. It returns nil if the report has no such
// server.
func serverNamed(r *admin.Report, name string) *admin.Server {
	for i := range r.Servers {
		if r.Servers[i].Name == name {
			return &r.Servers[i]
		}
	}
	return nil
}

// printStatusJSON prints a report as JSON. With NAME, it prints only that server.
func (c *statusCommand) printStatusJSON(r *admin.Report, indent string) error {
	var value any = r
	if c.name != "" {
		value = serverNamed(r, c.name)
	}
	return c.printJSON(value, indent)
}

// statusText returns the status for people: a table of all servers, or all details of one server.
func (c *statusCommand) statusText(base string, r *admin.Report, now time.Time) string {
	if c.name != "" {
		return c.serverText(serverNamed(r, c.name), now)
	}
	var b strings.Builder
	b.WriteString(c.paragraph(fmt.Sprintf("dragoman %s at %s%s/mcp, pid %d, %s for %s", clean(r.Version), clean(base), pathOf(r.Project), r.PID, clean(r.State), spanOf(time.Duration(r.UptimeSeconds)*time.Second))))
	b.WriteString(c.paragraph(projectsLine(r) + clientsText(r)))
	if r.Refusal != nil {
		b.WriteString(c.paragraph(refusalLine(r.Refusal) + " (" + spanOf(now.Sub(r.Refusal.Since)) + " ago)"))
	}
	if r.Store != nil && (r.Store.Place != string(store.Absent) || r.Store.Problem != "") {
		b.WriteString(c.paragraph(clean(r.Store.Line())))
	}
	if len(r.Replicas) > 0 {
		b.WriteString(c.paragraph(clean(admin.ReplicasLine(r.Replicas))))
		for _, line := range admin.ReplicaLines(r.Replicas) {
			b.WriteString(c.paragraph(clean(line)))
		}
	}
	if r.Audit != nil && r.Audit.Line() != "" {
		b.WriteString(c.paragraph(clean(r.Audit.Line())))
	}
	for _, line := range []string{admin.LimitsLine(r.Limits), r.Tools.Line()} {
		if line != "" {
			b.WriteString(c.paragraph(line))
		}
	}
	for _, x := range r.ProjectProblems {
		b.WriteString(c.paragraph(clean(x.Line())))
	}
	const most = 3 // `dragoman rules` has them all
	for i, x := range r.RuleWarnings {
		if i == most {
			b.WriteString(c.paragraph(fmt.Sprintf("and %d more about rules; `dragoman rules` lists them", len(r.RuleWarnings)-most)))
			break
		}
		b.WriteString(c.paragraph(clean(lowerFirst(x))))
	}
	b.WriteByte('\n')
	if len(r.Servers) == 0 {
		b.WriteString("no server is configured\n")
		return b.String()
	}
	t := screen.Table{Colour: c.screen && c.status.colour, Columns: []screen.Column{
		{Title: "SERVER", Whole: true, Most: widestName}, {Title: "STATE", Whole: true}, {Title: "FOR", Right: true, Whole: true},
		{Title: "REVISION", Whole: true, Spare: 1}, {Title: "TRANSPORT", Whole: true, Spare: 4},
		{Title: "TOOLS", Right: true, Whole: true, Spare: 2}, {Title: "CALLS", Right: true, Whole: true}, {Title: "RUNNING", Right: true, Whole: true, Spare: 3},
	}}
	if c.screen {
		t.Width = c.width
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		calls, running := r.CallsOf(s)
		t.Rows = append(t.Rows, []screen.Cell{
			{Text: s.Name}, stateCell(s), {Text: spanOf(now.Sub(s.Since))}, {Text: s.Revision}, {Text: s.Transport},
			{Text: toolsOf(s)}, {Text: strconv.FormatUint(calls, 10)}, {Text: strconv.Itoa(running)},
		})
	}
	annotate(&t, r.Servers, now)
	b.WriteString(t.Text())
	return b.String()
}

// pathOf returns what is in front of the paths of a project.
func pathOf(project string) string {
	if cmp.Or(project, event.DefaultProject) == event.DefaultProject {
		return ""
	}
	return "/p/" + project
}

// projectsLine names the project of a report if it isn't default, or else the other projects.
func projectsLine(r *admin.Report) string {
	switch {
	case pathOf(r.Project) != "":
		return "project " + clean(r.Project) + "; "
	case len(r.Projects) > 1:
		return "project default, beside " + clean(strings.Join(r.Projects[1:], ", ")) + "; "
	}
	return ""
}

// clientsText returns the numbers of client sessions, requests without a session, parked calls, and
// questions that wait for a person as text.
func clientsText(r *admin.Report) string {
	n := 0
	for _, c := range r.Conversations {
		n += c
	}
	text := fmt.Sprintf("sessions of clients: %d, requests without a session: %d, parked calls: %d", n, r.Requests, len(r.Parked))
	if r.Questions > 0 {
		text += fmt.Sprintf(", questions for a person: %d", r.Questions)
	}
	return text
}

// paragraph returns text as lines: broken to the width of the terminal if there is one.
func (c *statusCommand) paragraph(text string) string {
	if c.screen {
		return wrap(text, "", c.width)
	}
	return text + "\n"
}

// refusalLine says why the configuration file is not used.
func refusalLine(x *admin.Refusal) string { return "configuration: " + clean(x.Text) }

// stateCell returns a table cell with the state of a server, in the colour of that state.
func stateCell(s *admin.Server) screen.Cell {
	if s.State == stateFailed && s.Failure != nil && s.Failure.Class == failure.NeedsSignIn {
		return screen.Cell{Text: stateSignIn, Style: screen.Yellow}
	}
	style := map[string]screen.Style{"ready": screen.Green, "failed": screen.Red, "unresponsive": screen.Red, "stopped": screen.Yellow, "starting": screen.Yellow, "idle": screen.Dim}[s.State]
	return screen.Cell{Text: s.State, Style: style}
}

// toolsOf returns the number of tools of a server, or "" if Dragoman does not have its list of tools
// yet.
func toolsOf(s *admin.Server) string {
	if l := toolListOf(s); l != nil && (l.ReadAt != nil || l.KeptAt != nil) {
		return strconv.Itoa(l.Items)
	}
	return ""
}

// toolListOf returns the state of the list of tools of a server, or nil if it was never requested.
func toolListOf(s *admin.Server) *admin.List {
	for i := range s.Lists {
		if s.Lists[i].Method == mcp.MethodListTools {
			return &s.Lists[i]
		}
	}
	return nil
}

// note is what a table says about a server: text that says why it isn't ready or what is wrong with its
// lists, and for a failure what to do about it.
type note struct{ text, action string }

// notesOf says why a server is not ready, what the user can do, and when Dragoman tries again. It also
// says which lists of an open server cannot be read, and whether clients see a list of tools from disk.
func notesOf(s *admin.Server, now time.Time) (notes []note) {
	add := func(text string) { notes = append(notes, note{text: text}) }
	switch {
	case s.State == "ready":
	case s.Failure != nil:
		notes = append(notes, note{s.Failure.Sentence, s.Failure.Action})
	case s.Reason != "":
		add(s.Reason)
	}
	switch {
	case s.State == "ready":
	case s.RetryAt != nil && s.RetryAt.After(now):
		add("next attempt in " + spanOf(s.RetryAt.Sub(now)))
	case s.Failure != nil && s.Opening > 0:
		add("Dragoman is trying again now")
	case s.State == "idle" && s.Reason == "":
		add("starts on first use")
	}
	for _, l := range s.Lists {
		switch {
		case s.State != "ready":
		case l.Failed != "":
			add("open, but " + l.Method + " fails: " + l.Failed)
		case l.Reading && l.ReadAt == nil:
			add("open, but has not answered " + l.Method + " yet")
		}
	}
	if l := toolListOf(s); l != nil && l.KeptAt != nil {
		add("list from disk, read at " + l.KeptAt.Local().Format("2006-01-02 15:04"))
	}
	if s.State == "ready" {
		for _, text := range oddItems(s) {
			add(text)
		}
	}
	return notes
}

// noteOf returns the notes about a server as one text, for a table that has a column for them.
func noteOf(s *admin.Server, now time.Time) string {
	var parts []string
	for _, n := range notesOf(s, now) {
		parts = append(parts, n.text)
		if n.action != "" {
			parts = append(parts, n.action)
		}
	}
	return strings.Join(parts, "; ")
}

// notesBelow returns the notes about a server as lines for below its row, as `dragoman list` prints them.
func notesBelow(s *admin.Server, now time.Time, width int) string {
	var b strings.Builder
	for _, n := range notesOf(s, now) {
		b.WriteString(explained(n.text, n.action, "    ", width))
	}
	return b.String()
}

// explained returns lines with a text and, below it, what to do.
func explained(text, action, indent string, width int) string {
	lines := wrap(clean(text), indent, width)
	if action != "" {
		for i, l := range wrapped(clean(action), width-len(indent)-len("-> ")) {
			lines += indent + []string{"-> ", "   "}[min(i, 1)] + l + "\n"
		}
	}
	return lines
}

// annotate puts the notes about the servers into a table that has a row for each of them. On a terminal
// they stand under the rows, elsewhere in a column, so that each server stays on one line.
func annotate(t *screen.Table, servers []admin.Server, now time.Time) {
	if t.Width > 0 {
		for i := range servers {
			t.Under = append(t.Under, notesBelow(&servers[i], now, min(t.Width, widestText)))
		}
		return
	}
	t.Columns = append(t.Columns, screen.Column{Title: "NOTE", Wrap: true})
	for i := range servers {
		t.Rows[i] = append(t.Rows[i], screen.Cell{Text: noteOf(&servers[i], now)})
	}
}

// oddItems returns text about the first item that clients do not see, or see under another name, and
// the number of the others.
func oddItems(s *admin.Server) (parts []string) {
	n := 0
	for _, l := range s.Lists {
		for _, x := range l.Odd {
			if n++; n == 1 {
				parts = append(parts, excerpt.Word(x.Name, 60)+": "+x.Why)
			}
		}
	}
	if n > 1 {
		parts = append(parts, strconv.Itoa(n-1)+" more in `dragoman status "+s.Name+"`")
	}
	return parts
}

// spanOf formats a duration for people, with two units at most.
func spanOf(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// watchStatus shows the status every second until ctx ends.
func (c *statusCommand) watchStatus(ctx context.Context, s *running) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	w := watcher{statusCommand: c, address: s.address, base: s.site()}
	for {
		r, err := c.statusOf(ctx, s)
		var absent *absentError
		switch {
		case err == nil:
			err = w.show(r, time.Now())
		case ctx.Err() != nil:
		case errors.As(err, &absent) && w.began:
			err = w.lost(err.Error())
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watcher shows the status of a serve process repeatedly.
type watcher struct {
	*statusCommand
	address, base string // where serve is, without and with the scheme

	began bool
	drawn int               // the number of lines that the last call of draw wrote
	why   string            // the refusal that was printed last; "" if the configuration file is used
	last  map[string]string // the last line printed for each server
	gone  bool              // the user knows that serve does not answer
	json  []byte            // the last report as JSON, without the uptime
}

// show draws the status on a terminal. Otherwise, it prints the changes since the last report. With
// --json, it prints the whole report after each change.
func (w *watcher) show(r *admin.Report, now time.Time) error {
	back := w.gone
	w.began, w.gone = true, false
	switch {
	case w.asJSON:
		var value any = serverNamed(r, w.name)
		if w.name == "" {
			quiet := *r
			quiet.UptimeSeconds = 0
			value = quiet
		}
		b, err := json.Marshal(value)
		if err != nil || bytes.Equal(b, w.json) {
			return err
		}
		w.json = b
		return w.printStatusJSON(r, "")
	case w.screen:
		return w.draw(w.statusText(w.base, r, now))
	}
	var lines []string
	next := map[string]string{}
	if back || w.last == nil {
		lines = append(lines, fmt.Sprintf("dragoman %s at %s, pid %d, %s", clean(r.Version), w.address, r.PID, clean(r.State)))
	}
	why := ""
	if r.Refusal != nil {
		why = refusalLine(r.Refusal)
	}
	if w.why != why {
		lines = append(lines, cmp.Or(why, "configuration: the file is used again"))
	}
	w.why = why
	for i := range r.Servers {
		s := &r.Servers[i]
		if w.name != "" && w.name != s.Name {
			continue
		}
		next[s.Name] = changeLine(s)
		if w.last[s.Name] != next[s.Name] {
			lines = append(lines, next[s.Name])
		}
	}
	for _, gone := range slices.Sorted(maps.Keys(w.last)) {
		if _, ok := next[gone]; !ok {
			lines = append(lines, clean(gone)+" removed")
		}
	}
	w.last = next
	return w.append(now, lines...)
}

// changeLine describes the state of a server. It leaves out values that change all the time.
func changeLine(s *admin.Server) string {
	parts := []string{clean(s.Name), clean(s.State)}
	if s.State == "ready" {
		parts = append(parts, cmp.Or(s.Revision, "?"), cmp.Or(s.Transport, "?"))
		if n := toolsOf(s); n != "" {
			parts = append(parts, "tools="+n)
		}
		if s.Restarts > 0 {
			parts = append(parts, "restarts="+strconv.Itoa(s.Restarts))
		}
	} else if s.Reason != "" {
		parts = append(parts, strconv.Quote(s.Reason))
	}
	return strings.Join(parts, " ")
}

// lost tells the user that the serve process does not answer. If stdout is not a terminal, lost
// prints this only once. With --json, lost prints nothing.
func (w *watcher) lost(why string) error {
	if w.asJSON {
		w.json = nil
		return nil
	}
	if w.screen {
		return w.draw(why + "; trying again\n")
	}
	if w.gone {
		return nil
	}
	w.gone, w.last = true, nil
	return w.append(time.Now(), why+"; trying again")
}

// append prints lines, each with the current time.
func (w *watcher) append(now time.Time, lines ...string) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(now.Format(time.DateTime) + " " + l + "\n")
	}
	_, err := io.WriteString(w.stdout, b.String())
	return err
}

// draw replaces the text that it wrote last. It cuts the text to the height of the terminal, so
// that the next call starts at the same first line.
func (w *watcher) draw(text string) error {
	width, height := w.width, 0
	if f, ok := w.stdout.(*os.File); ok {
		if x, y, err := term.GetSize(int(f.Fd())); err == nil {
			width, height = x, y
		}
	}
	w.width = width
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if height > 2 && len(lines) > height-1 {
		lines = append(lines[:height-2], fmt.Sprintf("… lines more: %d", len(lines)-height+2))
	}
	var b strings.Builder
	if w.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", w.drawn)
	}
	b.WriteString("\x1b[?7l") // turn off line wrapping: the terminal cuts a line that is too long
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?7h")
	w.drawn = len(lines)
	_, err := io.WriteString(w.stdout, b.String())
	return err
}
