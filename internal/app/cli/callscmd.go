package cli

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// callOutcomes are the valid values of --outcome.
var callOutcomes = []string{"running", "ok", "tool_error", "failed", "cancelled", "refused", "parked", "not_sent", "unknown", "loss"}

// callsCommand is `dragoman calls`.
type callsCommand struct {
	*world
	runningFlags
	project        string
	follow, asJSON bool
	save           string

	// These flags select calls.
	server, client, method, outcome, search string
	lines                                   int
}

func newCallsCommand(w *world) *cobra.Command {
	c := &callsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "calls [NUMBER]",
		Short: "Print the calls that clients make through a running \"dragoman serve\"",
		Long: `Print the last calls of clients to a running "dragoman serve", the oldest first.
A line has the client, the server, the tool or method, the outcome and the
duration. Before the client is the name of its key or person, if it has one. Why
a call failed stands at its end, on a terminal under it.

With NUMBER, print the messages of one call, on the client's side and on the
server's, with what was changed between them and why. A letter marks each
reason, a number in brackets each part that was lost in translation. If several
replicas serve together, you get the calls of all, and NUMBER begins with the
name of one, as in the table: r1.41.

"dragoman serve" keeps the last 2,000 calls in memory, and up to 64 MiB of
their messages unless the setting "record" says otherwise. Secrets are masked.
Lists that "dragoman call" and its like have read are not kept, unless they
failed; their numbers are missing.

OUTCOME is one of these. "running": the call has not ended. "ok": the server
answered with a result. "tool_error": the result says that the tool failed.
"failed": the server answered with an error. "cancelled": the client cancelled
the call or disconnected. "refused": Dragoman answered with an error, and the
call reached no server. "parked": the call waits for the client to answer the
server's request. "not_sent": the call could not be sent to the server.
"unknown": the server may or may not have run it. --outcome also takes "loss",
for all calls of which a part was lost in translation.

With -f, the command prints each call when it ends, until you press Ctrl-C or
"dragoman serve" stops.`,
		Example: `  # Print the last calls, and the last calls to one server.
  dragoman calls
  dragoman calls --server github

  # Print both sides of one call.
  dragoman calls 41

  # Save a call, and act as its server for a client.
  dragoman calls 41 --save call.txtar
  dragoman replay call.txtar

  # Follow what one client does.
  dragoman calls -f --client "Claude Code"

  # Print the calls that did not succeed, as JSON.
  dragoman calls --json | jq 'select(.outcome != "ok")'`,
		Args: c.check,
		RunE: c.run,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *callsCommand) addFlags(cmd *cobra.Command) {
	flags := flagsInOrder(cmd)
	flags.BoolVarP(&c.follow, "follow", "f", false, "print each call when it ends, until Ctrl-C")
	flags.IntVarP(&c.lines, "lines", "n", 50, "print the last `N` calls")
	flags.StringVar(&c.server, "server", "", "print only the calls to the server `NAME`")
	flags.StringVar(&c.client, "client", "", "print only the calls of the client `NAME`")
	flags.StringVar(&c.method, "method", "", "print only the calls of `METHOD`, such as tools/call")
	flags.StringVar(&c.outcome, "outcome", "", "print only calls with this `OUTCOME`")
	flags.StringVar(&c.search, "search", "", "print only calls with `TEXT` in their metadata, such as the tool name or the trace id")
	flags.StringVar(&c.save, "save", "", "write both sides of the call to the new file `FILE`, for dragoman replay")
	flags.BoolVar(&c.asJSON, "json", false, "print each call as JSON on one line")
	addProjectFlag(flags, &c.project)
	c.runningFlags.addFlags(cmd)
}

func (c *callsCommand) check(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("give the number of one call", "unexpected argument %q after %q", args[1], args[0])
	}
	if len(args) == 1 {
		if !isCall(args[0]) {
			return usagef("use --server NAME for the calls to one server", "%q is not the number of a call", args[0])
		}
		if c.save != "" && c.asJSON {
			return usagef("remove one of them", "--save and --json cannot be used together")
		}
		if c.follow {
			return usagef("remove -f or the number", "-f cannot be used with the number of a call")
		}
	}
	if c.lines < 0 {
		return usagef("use 0 or more", "-n does not accept %d", c.lines)
	}
	if c.save != "" && len(args) == 0 {
		return usagef("add the number of a call", "--save needs the number of a call")
	}
	return oneOf("--outcome", c.outcome, callOutcomes)
}

func (c *callsCommand) run(cmd *cobra.Command, args []string) error {
	c.startLog(0, nil)
	s, err := locator{c.env}.running(cmd.Context(), &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = c.project
	s.prove = true // why calls failed is only for the user
	if c.save != "" {
		return signalOr(cmd.Context(), c.saveTranscript(cmd.Context(), s, args[0]))
	}
	if len(args) == 1 {
		return signalOr(cmd.Context(), c.printStory(cmd.Context(), s, args[0]))
	}
	print := c.callPrinter(time.Local)
	if c.follow {
		if err := c.checkServer(cmd.Context(), s); err != nil {
			return signalOr(cmd.Context(), err)
		}
		err = (&stream{from: s, path: "/api/v1/calls/stream", query: c.query(), take: taking(admin.EventCall, print)}).follow(cmd.Context(), c.world)
	} else {
		err = c.printCalls(cmd.Context(), s, print)
	}
	return signalOr(cmd.Context(), err)
}

// query returns the flags that select calls as query parameters for the API.
func (c *callsCommand) query() url.Values {
	v := url.Values{"limit": {strconv.Itoa(c.lines)}}
	for key, value := range map[string]string{"server": c.server, "client": c.client, "method": c.method, "outcome": c.outcome, "q": c.search} {
		if value != "" {
			v.Set(key, value)
		}
	}
	return v
}

// all reports whether the flags match all calls.
func (c *callsCommand) all() bool {
	return c.server == "" && c.client == "" && c.method == "" && c.outcome == "" && c.search == ""
}

// checkServer returns an error if the value of --server is not the name of a configured server.
func (c *callsCommand) checkServer(ctx context.Context, s *running) error {
	if c.server == "" {
		return nil
	}
	r, err := s.report(ctx)
	if err != nil {
		return err
	}
	for _, x := range r.Servers {
		if x.Name == c.server {
			return nil
		}
	}
	return noServer(c.server, r, c.file)
}

// isCall reports whether text says which call: its number, after the name of its replica if there are several.
func isCall(text string) bool {
	name, number, named := strings.Cut(text, ".")
	if !named {
		name, number = "r", text
	}
	n, err := strconv.ParseUint(number, 10, 64)
	return err == nil && n > 0 && name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// oneOf returns an error if value is neither "" nor in list. flag is the flag that has this value.
func oneOf(flag, value string, list []string) error {
	if value == "" {
		return nil
	}
	for _, x := range list {
		if x == value {
			return nil
		}
	}
	return usagef(didYouMean(value, list, "use "+strings.Join(list[:len(list)-1], ", ")+" or "+list[len(list)-1]), "%s does not accept %q", flag, value)
}

// printCalls prints the last calls that match the flags, the oldest first. It also prints calls to
// servers that are no longer configured.
func (c *callsCommand) printCalls(ctx context.Context, s *running, print func(*admin.Call) error) error {
	var all admin.Calls
	if err := s.decode(ctx, "/api/v1/calls", c.query(), &all); err != nil {
		return err
	}
	for i := len(all.Calls) - 1; i >= 0; i-- {
		if err := print(&all.Calls[i]); err != nil {
			return err
		}
	}
	c.tellMissing(all.Missing, "its calls are not here")
	if len(all.Calls) > 0 {
		return nil
	}
	if err := c.checkServer(ctx, s); err != nil {
		return err
	}
	switch {
	case c.quiet, c.lines == 0:
	case c.all():
		c.status.Printf("no calls; a call appears here after the first request of a client")
	default:
		c.status.Printf("no call matches; `dragoman calls` prints the last calls without a filter")
	}
	return nil
}

// callPrinter returns a function that prints a call as a row of a table, or as one line of JSON. On a
// terminal, what went wrong stands under the row. On a narrow one the row has only the time of day, and a
// line of its own says when another day begins.
func (c *callsCommand) callPrinter(zone *time.Location) func(*admin.Call) error {
	began := false
	width := 0
	if c.screen {
		width = c.width
	}
	day := time.Now().In(zone).Format(time.DateOnly)
	return func(x *admin.Call) error {
		if c.asJSON {
			return c.printJSON(x, "")
		}
		var b bytes.Buffer
		if x.Missed {
			b.WriteString("… calls dropped …\n")
		}
		t := callTable(!began, width)
		began = true
		t.Colour = c.screen && c.status.colour
		t.Rows = [][]screen.Cell{callRow(x, zone, width)}
		if width > 0 {
			t.Under = []string{callBelow(x, min(width, widestText))}
		}
		if today := x.Started.In(zone).Format(time.DateOnly); narrow(width) && today != day {
			day = today
			b.WriteString(day + "\n")
		}
		b.WriteString(t.Text())
		_, err := c.stdout.Write(b.Bytes())
		return err
	}
}

// The widths of a terminal from which the table of calls has the time and the client, its usual columns, and a
// note about calls that went well.
const (
	tightCalls   = 74
	wideCalls    = 120
	roomForNotes = 141
)

// narrow reports whether a terminal is too narrow for the usual table of calls. width is 0 if
// the output is not a terminal.
func narrow(width int) bool { return width > 0 && width < wideCalls }

// callTable returns a table of calls without rows. The columns have fixed widths, so that
// consecutive tables of one row each look like a single table.
func callTable(titles bool, width int) screen.Table {
	columns := []screen.Column{
		{Title: "CALL", Right: true, Whole: true, Least: 6}, {Title: "STARTED", Whole: true, Least: 19}, {Title: "OUTCOME", Whole: true, Least: 10},
		{Title: "TOOK", Right: true, Whole: true, Least: 8}, {Title: "CLIENT", Least: 18, Most: 18}, {Title: "SERVER", Least: 14, Whole: true, Most: 14},
		{Title: "CALLED", Whole: true, Least: 28, Most: 28}, {Title: "NOTE"},
	}
	if width > 0 && width < roomForNotes {
		columns = columns[:7]
	}
	if narrow(width) {
		columns[0].Least, columns[1].Least, columns[3].Least = 5, len(time.TimeOnly), 7
		client := min(18, max(10, width-70))
		columns[4].Least, columns[4].Most = client, client
		columns[5].Least, columns[5].Most = 10, 10
		columns[6] = screen.Column{Title: "CALLED"}
	}
	columns = tight(columns, width)
	if !titles {
		for i := range columns {
			columns[i].Title = ""
		}
	}
	return screen.Table{Columns: columns, Width: width}
}

// callRow returns the table cells for a call.
func callRow(c *admin.Call, zone *time.Location, width int) []screen.Cell {
	outcome := screen.Cell{Text: c.Outcome, Style: screen.Green}
	switch {
	case c.Outcome == string(event.ToolError):
		outcome.Style = screen.Yellow
	case c.Outcome == admin.OutcomeRunning, c.Outcome == "parked":
		outcome.Style = screen.Dim
	case c.Outcome != "ok":
		outcome.Style = screen.Red
	}
	started, client, note := time.DateTime, strings.TrimSpace(c.Client.Name+" "+c.Client.Version), callNote(c)
	if narrow(width) {
		started, client = time.TimeOnly, c.Client.Name
	}
	if c.Client.Who != "" {
		client = strings.TrimSuffix(c.Client.Who+": "+c.Client.Name, ": ")
	}
	if width > 0 {
		note = strings.Join(callAside(c), "; ")
	}
	return tight([]screen.Cell{
		{Text: c.ID()}, {Text: c.Started.In(zone).Format(started), Style: screen.Dim}, outcome,
		{Text: tookOf(c)}, {Text: client}, {Text: c.Server}, {Text: calledOf(c)}, {Text: note},
	}, width)
}

// tight leaves out the time and the client of a row where there would be no room for what was called.
func tight[T any](row []T, width int) []T {
	if width == 0 || width >= tightCalls {
		return row
	}
	return append([]T{row[0]}, row[2], row[3], row[5], row[6])
}

// callBelow returns the lines under the row of a call: what went wrong, and what its client was told. A bar
// marks the latter, since it usually comes from the server.
func callBelow(c *admin.Call, width int) string {
	const indent = "       " // the width of the first column and the gap after it
	out := wrap(clean(strings.Join(callTrouble(c), "; ")), indent, width)
	return out + wrap(clean(c.Reason), indent+"| ", width)
}

// tookOf returns the duration of a call as text.
func tookOf(c *admin.Call) string {
	d := time.Duration(c.Seconds * float64(time.Second))
	if d < 10*time.Millisecond {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	}
	return spanOf(d)
}

// calledOf returns what the client called. For tools/call, this is the name of the tool. For other
// methods, it is the method and the name of the prompt or resource.
func calledOf(c *admin.Call) string {
	if c.Method == mcp.MethodCallTool {
		return cmp.Or(c.Target, c.Name, c.Method)
	}
	return strings.TrimSpace(c.Method + " " + cmp.Or(c.Target, c.Name))
}

// callNote describes the unusual facts about a call on one line. It returns "" if there are none.
func callNote(c *admin.Call) string {
	parts := callTrouble(c)
	if c.Reason != "" {
		parts = append(parts, excerpt.Quote(c.Reason, maxQuoted))
	}
	return strings.Join(append(parts, callAside(c)...), "; ")
}

// callTrouble returns what went wrong with a call: its error, and what was lost.
func callTrouble(c *admin.Call) (parts []string) {
	if c.Cause != "" && c.Cause != c.Outcome {
		parts = append(parts, c.Cause)
	}
	if c.Code != 0 {
		parts = append(parts, "error "+strconv.FormatInt(c.Code, 10))
	}
	for _, l := range c.Losses {
		parts = append(parts, "lost "+l.What)
	}
	return parts
}

// callAside returns what is unusual about a call that went well.
func callAside(c *admin.Call) (parts []string) {
	if c.Client.Revision != c.Revision && c.Client.Revision != "" && c.Revision != "" {
		parts = append(parts, c.Client.Revision+" to "+c.Revision)
	}
	if c.Requests > 1 {
		parts = append(parts, "requests: "+strconv.Itoa(c.Requests))
	}
	return parts
}
