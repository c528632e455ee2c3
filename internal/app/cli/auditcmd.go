package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// auditCommand is `dragoman audit` and its subcommands.
type auditCommand struct {
	*world
	houseFlags
	who, what, since string
	lines            int
}

func newAuditCommand(w *world) *cobra.Command {
	return group(&cobra.Command{
		Use:   "audit",
		Short: "Show who changed what and who called which tool, or verify that record",
		Long: `Show what people have changed and what clients have asked for, or look whether
that record is as it was written. Changes are always recorded, in the database.
Calls are recorded in files as soon as there are API keys; the setting
"audit" says how.`,
		Example: `  # Show the last acts and calls.
  dragoman audit show

  # Look whether any was changed or deleted.
  dragoman audit verify`,
	}, newAuditShowCommand(w), newAuditVerifyCommand(w))
}

func newAuditShowCommand(w *world) *cobra.Command {
	c := &auditCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show [flags]",
		Short: "Show the last acts of people and calls of clients",
		Long: `Show the last acts of people and calls of clients, the newest first. Secrets are
masked.

` + houseWho("acts", "operator"),
		Example: `  # Show what Ada did since yesterday.
  dragoman audit show --who Ada --since 24h

  # Show the calls of one tool, and what happened to keys.
  dragoman audit show --what github/create_issue
  dragoman audit show --what key:

  # Print everything of one project for a script.
  dragoman audit show --project shop -n 1000 --json`,
		Args:              noArguments,
		RunE:              c.show,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.who, "who", "", "show only what `NAME` did: a person, a key, or a subject")
	flags.StringVar(&c.what, "what", "", "show only what has `TEXT` in its action, object, method, tool, outcome or its cause")
	flags.StringVar(&c.since, "since", "", "show only what happened since `TIME`: 24h ago, 2026-12-24, or 2026-12-24T18:00:00Z")
	flags.IntVarP(&c.lines, "lines", "n", 100, "show the last `N`, 1000 at most")
	flags.StringVar(&c.project, "project", "", "show only what happened in the project `NAME`")
	flags.BoolVar(&c.asJSON, "json", false, "print each as JSON on one line")
	c.runningFlags.addFlags(cmd)
	return cmd
}

func newAuditVerifyCommand(w *world) *cobra.Command {
	c := &auditCommand{world: w}
	cmd := &cobra.Command{
		Use:   "verify [flags]",
		Short: "Look whether acts and calls are as they were recorded",
		Long: `Compute the hashes of all acts and calls again, and print the first that was
changed, moved or deleted. The command then fails. A line that a killed process
has left incomplete is no failure.

Somebody who can write to the database and to the files, and computes all hashes
again, leaves no trace. So note the hashes that this command prints, or send the
files to another machine.

` + houseWho("acts", "admin"),
		Example: `  dragoman audit verify

  # Note the hashes elsewhere.
  dragoman audit verify --json`,
		Args:              noArguments,
		RunE:              c.verify,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print JSON")
	c.runningFlags.addFlags(cmd)
	return cmd
}

func (c *auditCommand) show(cmd *cobra.Command, _ []string) error {
	query := url.Values{"limit": {strconv.Itoa(c.lines)}}
	if c.lines < 1 || c.lines > 1000 {
		return usagef("use a number from 1 to 1000; the files have the rest", "%d entries cannot be shown", c.lines)
	}
	if c.since != "" {
		at, ok := sinceOf(c.since, time.Now())
		if !ok {
			return usagef("write how long ago, such as 24h, or a time, such as 2026-12-24 or 2026-12-24T18:00:00Z", "%q is no time", c.since)
		}
		query.Set("since", at.Format(time.RFC3339))
	}
	for name, value := range map[string]string{"who": c.who, "what": c.what} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var found admin.AuditEntries
		if err := s.change(ctx, changeWait, asked{method: http.MethodGet, path: "/api/v1/audit", query: query}, &found); err != nil {
			return err
		}
		switch {
		case c.asJSON:
			for i := range found.Entries {
				if err := c.printJSON(found.Entries[i], ""); err != nil {
					return err
				}
			}
			return nil
		case len(found.Entries) == 0:
			c.status.Printf("nothing was found")
			return nil
		}
		return c.print(auditTable(found.Entries))
	})
}

// sinceOf returns the time that a text means.
func sinceOf(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	at, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	return at, err == nil
}

func auditTable(entries []admin.AuditEntry) screen.Table {
	t := screen.Table{Columns: []screen.Column{{Title: "TIME", Whole: true}, {Title: "WHO", Most: 20}, {Title: "THROUGH", Most: 20}, {Title: "PROJECT", Most: 16}, {Title: "WHAT", Most: 30}, {Title: "OF", Most: 48}, {Title: "DETAILS", Most: 60}}}
	for _, x := range entries {
		outcome := x.Outcome
		if x.Cause != "" {
			outcome += " (" + x.Cause + ")"
		}
		switch {
		case x.Kind == "act":
			outcome = changed(x.Was, x.Became)
		case x.Kind == "denied":
			outcome = strings.TrimSpace("denied " + x.From)
		case x.Kind == "missed":
			outcome = strconv.FormatInt(x.Refused, 10) + " refused, " + strconv.FormatInt(x.Lost, 10) + " not recorded, " + strconv.FormatInt(x.Denied, 10) + " denied"
		}
		t.Rows = append(t.Rows, screen.Cells(x.At.In(time.Local).Format(time.DateTime), cmp.Or(x.Who, x.Subject), x.Via, x.Project, x.What, x.Object, outcome))
	}
	return t
}

// changed says what an act has changed: each setting with its value before and after.
func changed(was, became json.RawMessage) string {
	var before, after map[string]json.RawMessage
	_ = json.Unmarshal(was, &before) // what isn't an object has nothing to say
	_ = json.Unmarshal(became, &after)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(both(before, after))) {
		a, b := before[name], after[name]
		switch {
		case a == nil:
			all = append(all, name+": "+valueText(b))
		case b == nil:
			all = append(all, name+": "+valueText(a)+" -> nothing")
		case !bytes.Equal(a, b):
			all = append(all, name+": "+valueText(a)+" -> "+valueText(b))
		}
	}
	return strings.Join(all, "; ")
}

func both(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(b)
	if all == nil {
		return a
	}
	maps.Copy(all, a)
	return all
}

// valueText returns a value as people write it: a text without quotes, and a list with commas.
func valueText(raw json.RawMessage) string {
	var list []json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		parts := make([]string, len(list))
		for i, x := range list {
			parts[i] = valueText(x)
		}
		return strings.Join(parts, ", ")
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // it was valid
	return b.String()
}

func (c *auditCommand) verify(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var v admin.AuditVerified
		if err := s.change(ctx, changeWait, asked{method: http.MethodGet, path: "/api/v1/audit/verify"}, &v); err != nil {
			return err
		}
		if c.asJSON {
			if err := c.printJSON(v, "  "); err != nil {
				return err
			}
		} else {
			c.tellVerified(&v)
		}
		if !v.Whole {
			return withHint(errors.New("the audit is not as it was recorded"), "find out who could write to the database and its folder at that time, and compare with a backup")
		}
		return nil
	})
}

// tellVerified prints what was found, in sentences.
func (c *auditCommand) tellVerified(v *admin.AuditVerified) {
	switch a := v.Acts; {
	case a.Broken != "":
		c.status.Printf("acts: %s", clean(a.Broken))
	case a.Last == 0:
		c.status.Printf("acts: none")
	default:
		c.status.Printf("acts: %d to %d are as they were recorded; the last has the hash %s", a.First, a.Last, clean(a.Sum))
	}
	for _, x := range v.Files {
		end := ""
		switch {
		case x.Broken != "":
			c.status.Printf("calls of %s: %s", clean(x.Process), clean(x.Broken))
			continue
		case x.Torn:
			end = "; its last line is incomplete, as a process leaves it that is killed while it writes"
		case !x.Ended:
			end = "; it still runs, or was killed"
		}
		if x.Unknown {
			end += "; the acts don't know who has written them, since they're older than all acts"
		}
		c.status.Printf("calls of %s: %s in %s are as they were recorded; the last has the hash %s%s", clean(x.Process), quantity(int(x.Lines), "line"), quantity(x.Files, "file"), clean(x.Sum), end)
	}
	for _, name := range v.Elsewhere {
		c.status.Printf("the file %s is not in the folder; it was deleted, or is on another machine", clean(name))
	}
}
