package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// logsCommand is `dragoman logs`.
type logsCommand struct {
	*world
	runningFlags
	project        string
	follow, asJSON bool
	lines          int
}

func newLogsCommand(w *world) *cobra.Command {
	c := &logsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of a running \"dragoman serve\" and the stderr of its servers",
		Long: `Print the last log records of a running "dragoman serve", and what its servers
wrote to stderr. With NAME, print only those of the server NAME.

The last records are kept in memory, up to 1,000 and 256 KiB for each server.
Level info is kept even if the configured log level is warn or error. Secrets
are masked, and control characters escaped.

With -f, new records follow until you press Ctrl-C or "dragoman serve" stops. If
they come faster than your terminal can print them, some are dropped and you see
how many; the servers are never slowed down.`,
		Example: `  # Print the last records, and the last records of one server.
  dragoman logs
  dragoman logs github

  # Print the last 5 records of one server, and then its new records.
  dragoman logs github -f -n 5

  # Print the errors as JSON, one record per line.
  dragoman logs --json | jq 'select(.level == "error")'`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.env.completeTarget(&c.file),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVarP(&c.follow, "follow", "f", false, "print new records as they come, until Ctrl-C")
	flags.IntVarP(&c.lines, "lines", "n", 100, "print the last `N` records first")
	flags.BoolVar(&c.asJSON, "json", false, "print each record as JSON on one line")
	addProjectFlag(flags, &c.project)
	c.addFlags(cmd)
	return cmd
}

func (c *logsCommand) check(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("name at most one server", "unexpected argument %q after %q", args[1], args[0])
	}
	if c.lines < 0 {
		return usagef("use 0 or more", "-n does not accept %d", c.lines)
	}
	return nil
}

func (c *logsCommand) run(cmd *cobra.Command, args []string) error {
	c.startLog(0, nil)
	s, err := locator{c.env}.running(cmd.Context(), &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = c.project
	query := url.Values{"limit": {strconv.Itoa(c.lines)}}
	if len(args) > 0 {
		query.Set("server", args[0])
	}
	if c.follow {
		err = (&stream{from: s, path: "/api/v1/logs/stream", query: query, take: taking(admin.EventRecord, c.printLogRecord)}).follow(cmd.Context(), c.world)
	} else {
		err = c.printLogs(cmd.Context(), s, query)
	}
	var p *problemError
	if errors.As(err, &p) && p.kind == "no-such-server" {
		r, e := s.report(cmd.Context())
		if e != nil {
			return e
		}
		return noServer(args[0], r, c.file)
	}
	return signalOr(cmd.Context(), err)
}

// printLogs prints the last log records.
func (c *logsCommand) printLogs(ctx context.Context, s *running, query url.Values) error {
	var all admin.Logs
	if err := s.decode(ctx, "/api/v1/logs", query, &all); err != nil {
		return err
	}
	for i := range all.Records {
		if err := c.printLogRecord(&all.Records[i]); err != nil {
			return err
		}
	}
	c.tellMissing(all.Missing, "its records are not here")
	return nil
}

// tellMissing says which replicas have not said what they know.
func (w *world) tellMissing(all []admin.Missing, so string) {
	for _, x := range all {
		w.status.label(yellow, "warning", "replica "+x.Replica+": "+x.Problem+", so "+so)
	}
}

// printLogRecord prints a log record on one line. If records before this record were dropped, it
// first prints a line with the number of dropped records.
func (c *logsCommand) printLogRecord(r *admin.LogRecord) error {
	if c.asJSON {
		return c.printJSON(r, "")
	}
	var b bytes.Buffer
	if r.Missed > 0 {
		fmt.Fprintf(&b, "… records dropped: %d …\n", r.Missed)
	}
	b.WriteString(logLine(r, time.Local, c.screen && c.status.colour))
	b.WriteByte('\n')
	_, err := c.stdout.Write(b.Bytes())
	return err
}

// logLine returns a log record as one line of text.
func logLine(r *admin.LogRecord, zone *time.Location, colour bool) string {
	paint := func(y screen.Style, s string) string {
		if !colour {
			return s
		}
		return y.Paint(s)
	}
	var b strings.Builder
	b.WriteString(paint(screen.Dim, r.Time.In(zone).Format(time.DateTime)))
	b.WriteByte(' ')
	if r.Replica != "" {
		b.WriteString(paint(screen.Dim, clean(r.Replica)) + " ")
	}
	if r.Source == admin.SourceStderr {
		b.WriteString(paint(screen.Bold, clean(r.Server)) + " stderr: " + clean(r.Text))
		return b.String()
	}
	style := map[string]screen.Style{"error": screen.Red, "warn": screen.Yellow, "debug": screen.Dim}[r.Level]
	b.WriteString(paint(style, strings.ToUpper(clean(r.Level))))
	b.WriteByte(' ')
	if r.Server != "" {
		b.WriteString(paint(screen.Bold, clean(r.Server)) + ": ")
	}
	b.WriteString(clean(r.Text))
	for _, x := range r.Attributes {
		b.WriteString(" " + paint(screen.Dim, clean(x.Key)+"=") + quoteValue(x.Value))
	}
	return b.String()
}

// quoteValue makes a value safe for a terminal. If the value is empty or contains a space, a quote
// or an equals sign, quoteValue quotes it.
func quoteValue(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '=' }) {
		return strconv.Quote(s)
	}
	return clean(s)
}
