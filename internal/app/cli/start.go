package cli

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// startOptions has the values that serve prints after its start, besides the state of the servers.
type startOptions struct {
	program  string // how this program was started, for example "go run ./cmd/dragoman"
	endpoint string // the URL for clients
	console  bool   // serve has a console
	flags    string // the flags with which other commands find this process, with a leading space; "" for none
	away     bool   // other machines can reach the endpoint, so that the commands need https and an API key
	public   string // the public URL of the configuration; "" for none
}

// showStart prints the state of the servers after the start of serve: as one table, or as one log
// record for each server.
func (c *serveCommand) showStart(o startOptions, s daemon.Start) {
	now := time.Now()
	if c.status.records.Load() != nil {
		c.recordStart(s, now)
		return
	}
	width := 0
	if c.status.terminal {
		width = c.status.width()
	}
	_, _ = io.WriteString(c.status, o.text(s, now, width, c.status.colour)) // a single write, so that no log line appears inside the table
}

// text returns the table of the servers after the start, and the next steps for the user.
func (o startOptions) text(s daemon.Start, now time.Time, width int, colour bool) string {
	r := s.Report
	projects := projectsAfterStart(s.Projects)
	if len(r.Servers) == 0 && projects == "" {
		ways := "`" + o.program + " import` takes those of another client, or add some under mcpServers in " + cmp.Or(clean(r.Config), "dragoman.yaml") + "\n"
		if o.console {
			ways = "add one in the console, or " + ways
		}
		return "dragoman: no server is configured; " + ways
	}
	t := screen.Table{Width: width, Colour: colour, Columns: []screen.Column{
		{Title: "SERVER", Whole: true, Most: widestName}, {Title: "STATE", Whole: true}, {Title: "REVISION", Whole: true, Spare: 1},
		{Title: "TRANSPORT", Whole: true, Spare: 2}, {Title: "TOOLS", Right: true, Whole: true}, {Title: "TIME", Right: true, Whole: true},
	}}
	for i := range r.Servers {
		x := &r.Servers[i]
		t.Rows = append(t.Rows, []screen.Cell{
			{Text: x.Name}, stateCell(x), {Text: x.Revision}, {Text: x.Transport}, {Text: toolsOf(x)}, {Text: readyText(x, s.Began)},
		})
	}
	annotate(&t, r.Servers, now)
	table := ""
	if len(r.Servers) > 0 {
		table = t.Text()
	}
	return table + projects + "dragoman: `" + o.program + " connect CLIENT" + clean(o.connectFlags()) + "` connects a client\n" + o.again()
}

// again returns the line with the command that shows the table again, or "" if none can.
func (o startOptions) again() string {
	flags, with := o.flags, ""
	if o.away {
		flags, with = " --url "+cmp.Or(o.public, strings.TrimSuffix(o.endpoint, "/mcp")), ", with an API key in "+keyVariable+","
		if !strings.HasPrefix(flags, " --url https:") {
			return ""
		}
	}
	return "dragoman: `" + o.program + " status" + clean(flags) + "`" + with + " shows this table again\n"
}

// projectsAfterStart returns a line about the projects other than default, or "" if there are none.
func projectsAfterStart(all []daemon.StartedProject) string {
	var words []string
	for _, p := range all {
		words = append(words, fmt.Sprintf("%s (%d of %s ready)", clean(p.Name), p.Ready, quantity(p.Servers, "server")))
	}
	if len(words) == 0 {
		return ""
	}
	return "dragoman: further projects: " + strings.Join(words, ", ") + "\n"
}

// connectFlags returns the flags with which `dragoman connect` writes the address of this process. The
// configured address is the right one unless serve was started with --listen.
func (o startOptions) connectFlags() string {
	if strings.HasPrefix(o.flags, " --listen ") {
		return " --url " + strings.TrimSuffix(o.endpoint, "/mcp")
	}
	return o.flags
}

// flagsOf returns the flags with which other commands find this serve process. If the operating
// system has chosen the port, these flags name the actual address instead of the configured one.
func flagsOf(o startOptions, address string) string {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" {
		return o.flags
	}
	u, err := url.Parse(o.endpoint)
	if err != nil {
		return o.flags
	}
	return " --listen " + u.Host
}

// readyText returns how long a server took to become ready, or "" if the server is not ready.
func readyText(s *admin.Server, began time.Time) string {
	if s.State != "ready" {
		return ""
	}
	return spanOf(s.Since.Sub(began))
}

// recordStart logs a record for each server, and one record with the number of servers in each
// state.
func (c *serveCommand) recordStart(s daemon.Start, now time.Time) {
	count := map[string]int{}
	for i := range s.Report.Servers {
		x := &s.Report.Servers[i]
		count[x.State]++
		attrs := []slog.Attr{slog.String("code", "server_state"), slog.String("server", x.Name), slog.String("state", x.State)}
		text := func(key, value string) {
			if value != "" {
				attrs = append(attrs, slog.String(key, value))
			}
		}
		text("revision", x.Revision)
		text("transport", x.Transport)
		if n, err := strconv.Atoi(toolsOf(x)); err == nil {
			attrs = append(attrs, slog.Int("tools", n))
		}
		level := slog.LevelInfo
		switch {
		case x.State == "ready":
			attrs = append(attrs, slog.Int64("ready_ms", max(0, x.Since.Sub(s.Began).Milliseconds())))
		case x.Failure != nil:
			level = slog.LevelWarn
			text("class", string(x.Failure.Class))
			text("sentence", x.Failure.Sentence)
			text("action", x.Failure.Action)
		default:
			text("reason", x.Reason)
		}
		if x.State != "ready" && x.RetryAt != nil && x.RetryAt.After(now) {
			attrs = append(attrs, slog.Int64("next_attempt_ms", x.RetryAt.Sub(now).Milliseconds()))
		}
		c.status.record(level, "state of a server after the start", attrs...)
	}
	c.status.record(slog.LevelInfo, fmt.Sprintf("servers after the start: %d", len(s.Report.Servers)), slog.String("code", "started"),
		slog.Int("ready", count["ready"]), slog.Int("starting", count["starting"]), slog.Int("idle", count["idle"]),
		slog.Int("failed", count["failed"]+count["unresponsive"]))
	for _, p := range s.Projects {
		c.status.record(slog.LevelInfo, fmt.Sprintf("servers after the start: %d", p.Servers), slog.String("code", "started"), slog.String("project", p.Name), slog.Int("ready", p.Ready))
	}
}

// showConsole prints how to open the console. serve calls it after the start. A link is a secret,
// and output that does not go to a terminal may be stored. Therefore, showConsole prints a link
// only on a terminal.
func (c *serveCommand) showConsole(page daemon.Console, flags string) {
	switch {
	case c.quiet:
	case page.Off != "":
		c.note(page.Off)
	case page.Link == nil:
		c.status.Printf("the console is at %s, for people with an invitation", page.URL)
	case c.status.terminal && c.status.records.Load() == nil:
		c.status.Printf("the console is at %s (works once, within 10 minutes)", page.Link())
	default:
		c.status.Printf("the console is at %s; run `%s console%s` for a link that opens it", page.URL, c.program, clean(flags))
	}
}

// showStatus prints the full status when the process gets SIGUSR1.
func (c *serveCommand) showStatus(r *admin.Report) {
	if c.status.records.Load() == nil {
		_, _ = c.status.Write(r.Text(time.Now())) // a single write, so that no log line appears inside the status
		return
	}
	c.status.record(slog.LevelInfo, "status", slog.String("code", "status"), slog.Any("status", r))
}
