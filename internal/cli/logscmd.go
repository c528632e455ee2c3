package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/admin"
	"github.com/dragoman-mcp/dragoman/internal/screen"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

func (a *app) logsCommand() *cobra.Command {
	var f runningFlags
	var follow, asJSON bool
	var lines int
	c := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the log of a running serve and the stderr of its servers",
		Long: `Print the last records of a running "dragoman serve": its own log, and what its
servers wrote to stderr. With NAME, print only the records of one server.

The running serve keeps the last records in memory, up to 1,000 and 256 KiB for
each server. It keeps records of level info even if its own log shows fewer.
Secrets are masked and control characters are escaped.

With -f, the command prints new records until you press Ctrl-C or serve stops.
If records come faster than the terminal takes them, it says how many were
dropped. Servers never wait for it.`,
		Example: `  # Print the last records of everything, and those of one server.
  dragoman logs
  dragoman logs github

  # Follow one server, starting with its last 5 records.
  dragoman logs github -f -n 5

  # Print the errors as JSON, one record per line.
  dragoman logs --json | jq 'select(.level == "error")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("name one server, or none for all", "unexpected argument %q after %q", args[1], args[0])
			}
			if lines < 0 {
				return usagef("use a number from 0", "-n does not accept %d", lines)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			a.startLog(0, nil)
			s, err := a.running(&f)
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
				err = a.followLogs(c.Context(), s, query, print)
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
	flags.IntVarP(&lines, "lines", "n", 100, "begin with the last `N` records")
	flags.BoolVar(&asJSON, "json", false, "print each record as JSON on one line")
	f.add(c)
	return c
}

// printLogs prints the last records.
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

// Pauses between attempts to reconnect a broken stream of records.
const (
	rejoinPause = time.Second
	rejoinTries = 5
)

// followLogs prints new records until ctx ends or the serve process stops. If the connection
// breaks, it reconnects and continues after the last record that it printed.
func (a *app) followLogs(ctx context.Context, s *running, query url.Values, print func(*admin.LogRecord) error) error {
	last, began := "", false
	for failures := 0; ; {
		ended, err := followOnce(ctx, s, query, &last, func(r *admin.LogRecord) error {
			failures = 0
			return print(r)
		}, func() { began, failures = true, 0 })
		var written *printError
		switch {
		case ended:
			if !a.quiet {
				a.status.Printf("serve at %s has stopped", s.address)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &written):
			return written.err
		case !began || failures >= rejoinTries:
			return err
		}
		failures++
		t := time.NewTimer(rejoinPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// printError says that a record could not be printed.
type printError struct{ err error }

func (e *printError) Error() string { return e.err.Error() }

// followOnce prints records from one connection. last is the id of the last printed record, ""
// for none. It calls opened when the serve process has accepted the request. ended is true if
// the serve process is stopping.
func followOnce(ctx context.Context, s *running, query url.Values, last *string, print func(*admin.LogRecord) error, opened func()) (ended bool, err error) {
	header := []string{"Accept", "text/event-stream"}
	if *last != "" {
		header = append(header, "Last-Event-ID", *last)
	}
	resp, err := s.get(ctx, "/api/v1/logs/stream", query, header...)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	opened()
	in := eventstream.NewReader(resp.Body, eventstream.Limits{})
	for {
		e, err := in.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = s.absent("the connection to `dragoman serve` at " + s.address + " ended")
			}
			return false, err
		}
		switch e.Name {
		case admin.EventEnd:
			return true, nil
		case admin.EventRecord:
			var r admin.LogRecord
			if err := json.Unmarshal(e.Data, &r); err != nil {
				return false, fmt.Errorf("read a record: %w", err)
			}
			*last = e.ID
			if err := print(&r); err != nil {
				return false, &printError{err}
			}
		}
	}
}

// printLogRecord prints a record on one line. If records were dropped before it, a line before
// it says how many.
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

// logLine returns a record on one line.
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
	b.WriteString(paint(style, strings.ToUpper(r.Level)))
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

// quoteValue makes a value safe to print, and quotes it unless it is a single word.
func quoteValue(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '=' }) {
		return strconv.Quote(s)
	}
	return clean(s)
}
