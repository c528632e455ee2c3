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

func (a *app) logsCommand() *cobra.Command {
	var f runningFlags
	var follow, asJSON bool
	var lines int
	c := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of a running \"dragoman serve\" and the stderr of its servers",
		Long: `Print the last log records of a running "dragoman serve", and what its servers
wrote to stderr. With NAME, print only the records of the server NAME.

"dragoman serve" keeps the last records in memory, up to 1,000 records and 256
KiB for each server. Records of level info are kept even if the configured log
level is warn or error. Secrets are masked, and control characters are escaped.

With -f, the command prints new records until you press Ctrl-C or "dragoman
serve" stops. If records arrive faster than the terminal can print them, the
command drops some records and prints how many. The command never slows the
servers down.`,
		Example: `  # Print the last records, and the last records of one server.
  dragoman logs
  dragoman logs github

  # Print the last 5 records of one server, and then its new records.
  dragoman logs github -f -n 5

  # Print the errors as JSON, one record per line.
  dragoman logs --json | jq 'select(.level == "error")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("name at most one server", "unexpected argument %q after %q", args[1], args[0])
			}
			if lines < 0 {
				return usagef("use 0 or more", "-n does not accept %d", lines)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			a.startLog(0, nil)
			s, err := a.running(c.Context(), &f)
			if err != nil {
				return err
			}
			defer s.close()
			query := url.Values{"limit": {strconv.Itoa(lines)}}
			if len(args) > 0 {
				query.Set("server", args[0])
			}
			print := func(r *admin.LogRecord) error { return a.printLogRecord(r, asJSON) }
			if follow {
				err = a.followStream(c.Context(), s, "/api/v1/logs/stream", query, taking(admin.EventRecord, print))
			} else {
				err = printLogs(c.Context(), s, query, print)
			}
			var p *problemError
			if errors.As(err, &p) && p.kind == "no-such-server" {
				r, e := s.report(c.Context())
				if e != nil {
					return e
				}
				return noServer(args[0], r)
			}
			return signalOr(c.Context(), err)
		},
		ValidArgsFunction: a.completeRunning(&f),
	}
	flags := flagsInOrder(c)
	flags.BoolVarP(&follow, "follow", "f", false, "print new records as they come, until Ctrl-C")
	flags.IntVarP(&lines, "lines", "n", 100, "print the last `N` records first")
	flags.BoolVar(&asJSON, "json", false, "print each record as JSON on one line")
	f.add(c)
	return c
}

// printLogs prints the last log records.
func printLogs(ctx context.Context, s *running, query url.Values, print func(*admin.LogRecord) error) error {
	var all admin.Logs
	if err := s.decode(ctx, "/api/v1/logs", query, &all); err != nil {
		return err
	}
	for i := range all.Records {
		if err := print(&all.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

// printLogRecord prints a log record on one line. If records before this record were dropped, it
// first prints a line with the number of dropped records.
func (a *app) printLogRecord(r *admin.LogRecord, asJSON bool) error {
	if asJSON {
		return a.printJSON(r, "")
	}
	var b bytes.Buffer
	if r.Missed > 0 {
		fmt.Fprintf(&b, "… records dropped: %d …\n", r.Missed)
	}
	b.WriteString(logLine(r, time.Local, a.screen && a.status.colour))
	b.WriteByte('\n')
	_, err := a.stdout.Write(b.Bytes())
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
