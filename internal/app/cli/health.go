package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const (
	// healthTime is how long the command list waits for each server if --timeout is not given, and if the
	// server may not take longer to start.
	healthTime = 30 * time.Second
	// healthAtOnce is how many servers the command list examines at the same time.
	healthAtOnce = 8
)

// The states of a server in the table of the command list.
const (
	stateReady    = "ready"
	stateFailed   = "failed"
	stateSignIn   = "sign-in" // the server answers, but the user must sign in
	stateDisabled = "disabled"
	stateStarting = "starting" // a running serve process still starts it
)

// serveReport is the report of a running serve process about one server.
type serveReport = admin.Server

// health is the health of one configured server. Scripts read its JSON form, so new versions may
// add JSON members but must not rename any.
type health struct {
	Name      string         `json:"name"`
	State     string         `json:"state"`
	Revision  string         `json:"revision,omitempty"`
	Transport string         `json:"transport,omitempty"`
	Counts    map[string]int `json:"counts,omitempty"` // the number of items in each list, by the kind of list; has no entry for lists that the server does not offer
	Tokens    int            `json:"contextTokens,omitempty"`
	ReadyMS   int64          `json:"readyMs,omitempty"`
	// Via is "serve" if the values come from a running serve process, else "direct".
	Via     string           `json:"via,omitempty"`
	Failure *failure.Failure `json:"failure,omitempty"`
	// Reason explains the state of a server that has no failure, such as one that is starting.
	Reason string `json:"reason,omitempty"`
	// Lists contains, for each kind of list that could not be read, the reason.
	Lists map[string]string `json:"failedLists,omitempty"`
	// LeftOut contains, for each kind of list, the items that Dragoman left out: by name, with the
	// reason.
	LeftOut map[string]map[string]string `json:"leftOut,omitempty"`

	index int
}

// listHealth examines all configured servers and prints the health of each.
func (c *listCommand) listHealth(ctx context.Context) error {
	if given := c.t.given(); given != "" {
		return usagef("name a URL, or a command after --", "%s needs a server", given)
	}
	snapshot, err := c.serversToExamine(ctx)
	if err != nil {
		return err
	}
	c.startLog(slog.LevelError, nil)
	route, err := c.routes(ctx, snapshot)
	if err != nil {
		return err
	}
	c.desk = c.openDesk(c.houseConfig(c.file), false)
	defer c.desk.Close()
	c.showProgress()
	rows := c.examineAll(ctx, snapshot.Servers, route, c.rowPrinter(snapshot.Servers))
	c.status.End()
	if err := signalOr(ctx, ctx.Err()); err != nil {
		return err
	}
	if c.asJSON {
		if err := c.printJSON(rows, "  "); err != nil {
			return err
		}
	}
	if what, wait := lackingOf(rows); what != "" {
		if !c.quiet {
			more := "`dragoman doctor NAME" + configWords(c.file) + "` examines one"
			switch {
			case wait:
				more = "try again later"
			case c.foundAt != "":
				more = "`dragoman status NAME` describes one"
			}
			c.status.Printf("%s; %s", what, more)
		}
		return errReported
	}
	return nil
}

// examining returns the options for a session with one of several servers. Who is signed in uses that, but nobody is
// asked to sign in.
func (c *listCommand) examining(s config.Server, through bool) daemon.ConnectOptions {
	o := daemon.ConnectOptions{Server: s, Log: c.log, Progress: func(string, string) {}, Version: version()}
	if !through {
		o.Desk = c.desk
	}
	return o
}

// lackingOf says how many servers cannot be used, and why. what is "" if all are ready. wait says that the
// others only need more time.
func lackingOf(rows []health) (what string, wait bool) {
	failed, starting, limited := 0, 0, 0
	for _, r := range rows {
		switch {
		case r.State == stateStarting:
			starting++
		case r.State != stateReady && r.State != stateDisabled:
			failed++
		case len(r.Lists) > 0:
			limited++
		}
	}
	is := "are"
	if starting == 1 {
		is = "is"
	}
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{failed, "cannot be used"}, {starting, is + " still starting"}, {limited, "cannot be listed completely"}} {
		switch {
		case x.n == 0:
		case len(parts) == 0:
			parts = append(parts, strconv.Itoa(x.n)+" of "+quantity(len(rows), "server")+" "+x.what)
		default:
			parts = append(parts, strconv.Itoa(x.n)+" "+x.what)
		}
	}
	return strings.Join(parts, ", and "), failed+limited == 0
}

// serversToExamine returns the servers of the configuration file. If there is none, it returns those of the
// running serve process.
func (c *listCommand) serversToExamine(ctx context.Context) (*opened, error) {
	path, ok := c.env.configPath(c.file)
	if !ok {
		return c.serversOfServe(ctx)
	}
	file, problems := c.env.open(path)
	switch {
	case file == nil:
		return nil, problems.Refusal(false)
	case len(file.Servers) == 0:
		return nil, withHint(fmt.Errorf("%s has no servers", clean(path)), "%s", addServer)
	}
	return file, nil
}

// serversOfServe returns the servers of the user's running serve process, by their names alone: the command
// reaches them through the process.
func (c *listCommand) serversOfServe(ctx context.Context) (*opened, error) {
	l := locator{c.env}
	at, err := l.locate(ctx, "", "`dragoman list tools http://ADDR/mcp`", false)
	if err != nil {
		return nil, err
	}
	all := &opened{Snapshot: &config.Snapshot{}}
	if at != nil && at.proven && !c.direct {
		base, status, _ := l.statusAt(ctx, at.base(), "")
		for _, s := range status.Servers {
			one := config.Server{Name: s.Name}
			if _, ok := endpointOf(one, base, &status); ok {
				all.Servers = append(all.Servers, one)
			}
		}
		c.foundAt = base
	}
	if len(all.Servers) == 0 {
		err := c.env.noConfig()
		return nil, withHint(err, "%s; to list one server, use `dragoman list URL` or `dragoman list -- COMMAND`", hintsOf(err)[0])
	}
	return all, nil
}

// routes returns a function that says how to reach a server: through a running serve process, or
// directly. If a server must be started, the user has agreed to that.
func (c *listCommand) routes(ctx context.Context, file *opened) (route func(config.Server) (config.Server, *serveReport), err error) {
	base, serving, why := "", admin.Report{}, "--direct is set"
	if !c.direct {
		c.where.file = c.file
		base, serving, why = c.serving(ctx)
	}
	if why == "" {
		c.tell("using the running serve at %s", base)
	} else {
		c.tell("starting the servers, because no running serve is used: %s", why)
	}
	route = func(s config.Server) (config.Server, *serveReport) {
		through, report := behindServe(s, base, &serving)
		if report != nil {
			through = locator{c.env}.withKey(ctx, through, base)
		}
		return through, report
	}
	starts := func(s config.Server) bool {
		_, known := route(s)
		return known == nil && !s.Disabled
	}
	if slices.ContainsFunc(file.Servers, starts) {
		err = c.consent(ctx, c.file, file)
	}
	return route, err
}

// behindServe returns the configuration of a server that reaches s through a running serve process
// at base, and the report of the process about s. If the process does not have s, it returns s
// unchanged and nil.
func behindServe(s config.Server, base string, r *admin.Report) (config.Server, *serveReport) {
	through, ok := endpointOf(s, base, r)
	if report := serverNamed(r, s.Name); ok && report != nil {
		return through, report
	}
	return s, nil
}

// examineAll examines several servers at the same time, and returns the health of each in the order
// of the configuration. It calls done for each result in the same order, as soon as the results before it
// are known, always from the goroutine that called examineAll. If ctx ends, examineAll leaves out the
// servers without a result.
func (c *listCommand) examineAll(ctx context.Context, servers []config.Server, route func(config.Server) (config.Server, *serveReport), done func(health)) []health {
	found := make(chan health)
	places := make(chan struct{}, healthAtOnce)
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() {
			if s.Disabled {
				found <- health{Name: s.Name, State: stateDisabled, index: i}
				return
			}
			places <- struct{}{}
			defer func() { <-places }()
			through, report := route(s)
			c.examineOne(ctx, through, report, c.limitOf(through), func(h health) {
				h.index = i
				found <- h
			})
		})
	}
	var end sync.WaitGroup
	end.Go(func() {
		all.Wait()
		close(found)
	})
	waiting := map[string]bool{}
	for _, s := range servers {
		waiting[s.Name] = true
	}
	c.status.Step("", stillWaiting(servers, waiting))
	var rows []health
	early, next := map[int]health{}, 0 // results that wait for those of earlier servers
	for h := range found {
		delete(waiting, h.Name)
		if ctx.Err() == nil {
			early[h.index] = h
			rows = append(rows, h)
		}
		for ; ctx.Err() == nil; next++ {
			first, known := early[next]
			if !known {
				break
			}
			done(first)
		}
		c.status.Step("", stillWaiting(servers, waiting))
	}
	end.Wait()
	slices.SortFunc(rows, func(x, y health) int { return x.index - y.index })
	return rows
}

// limitOf returns how long the command waits for a server.
func (c *listCommand) limitOf(s config.Server) time.Duration {
	return cmp.Or(c.timeout, max(healthTime, s.StartTimeout))
}

func stillWaiting(servers []config.Server, waiting map[string]bool) string {
	var names []string
	runner := ""
	for _, s := range servers {
		if waiting[s.Name] {
			names = append(names, s.Name)
			runner = cmp.Or(runner, s.Runner())
		}
	}
	text := "waiting for " + joinNames(names)
	switch {
	case len(names) == 0:
		return ""
	case runner != "":
		text += "; " + runner + " may have to download a package"
	}
	return text
}

// examineOne opens a session with a server, passes the server's health to done, and closes the
// session. report is the report of a serve process about the server, or nil.
func (c *listCommand) examineOne(ctx context.Context, s config.Server, report *serveReport, limit time.Duration, done func(health)) {
	outer := ctx
	whole, stop := context.WithTimeoutCause(ctx, limit+endTime, timeoutError{limit})
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError{limit})
	defer cancel()
	startWithin(&s, limit)
	h := health{Name: s.Name, Via: "direct"}
	broken := func(ctx context.Context, err error) {
		if report != nil {
			report = cmp.Or(c.reportNow(outer, s.Name), report) // the server may have failed since
		}
		done(h.broken(ctx, err, report))
	}
	if report != nil {
		h.Via = "serve"
		if needsSignIn(report) {
			done(h.broken(ctx, nil, report)) // it would show us the tool sign_in
			return
		}
	} else if err := usable(s); err != nil {
		broken(whole, err)
		return
	}
	began := time.Now()
	session, err := c.backend.Connect(whole, c.examining(s, report != nil))
	if err != nil {
		broken(whole, err)
		return
	}
	defer func() { _ = session.Close() }()
	d, err := session.Describe(ctx)
	if err != nil {
		broken(ctx, err)
		return
	}
	h.ReadyMS = max(1, time.Since(began).Milliseconds())
	h.State, h.Revision, h.Transport, h.Counts = stateReady, d.Revision.String(), d.Transport, map[string]int{}
	if report != nil {
		if report.Revision == "" { // it was still starting when the command began
			report = cmp.Or(c.reportNow(outer, s.Name), report)
		}
		// The serve process may speak one revision with this command and another revision with the
		// server. The table shows the server's revision and transport.
		h.Transport = report.Transport
		if report.Revision != "" {
			h.Revision = report.Revision
		}
	}
	if err := h.count(ctx, session, d, report, limit); err != nil {
		h.Counts, h.Lists = nil, nil
		broken(ctx, err)
		return
	}
	if report != nil && report.Revision == "" { // what we have listed may have been the tool sign_in
		if now := c.reportNow(outer, s.Name); needsSignIn(now) {
			done(health{Name: h.Name, Via: h.Via}.broken(ctx, nil, now))
			return
		}
	}
	done(h)
}

// needsSignIn reports whether a serve process can't use a server before somebody has signed in. r may be nil.
func needsSignIn(r *serveReport) bool {
	return r != nil && r.Failure != nil && r.Failure.Class == failure.NeedsSignIn
}

// reportNow returns what the running serve process says about a server now, or nil if it says nothing.
func (c *listCommand) reportNow(ctx context.Context, server string) *serveReport {
	_, report, _ := c.serving(ctx)
	return serverNamed(&report, server)
}

// count reads the server's lists. It returns an error if the server is gone; a list that cannot be read for another
// reason is recorded in h.
func (h *health) count(ctx context.Context, session Session, d runtime.Description, report *serveReport, limit time.Duration) error {
	for _, kind := range listKinds {
		if !has(d.Capabilities, kindOfList[kind]) {
			continue
		}
		l, err := session.List(ctx, kind)
		if err == nil {
			h.Counts[kind] = len(l.Items)
			h.leftOut(kind, l.LeftOut, report)
			if kind == "tools" {
				h.Tokens = cost(l.Items) + tokens.Text(d.Instructions)
			}
			continue
		}
		why := failureOf(h.Name, err)
		switch {
		case errors.As(context.Cause(ctx), new(timeoutError)):
			// There is no time left for the other lists.
			h.listFails(kind, "server "+strconv.Quote(h.Name)+" did not answer "+runtime.ListMethod(kind)+" within "+limit.String())
			return nil
		case ctx.Err() != nil, goneWith(why.Class):
			return err
		}
		h.listFails(kind, why.Sentence)
	}
	return nil
}

// listFails records why the list of a server that is open could not be read.
func (h *health) listFails(kind, why string) {
	if h.Lists == nil {
		h.Lists = map[string]string{}
	}
	h.Lists[kind] = why
}

// goneWith reports whether a failure of this class means that the server is no longer open.
func goneWith(c failure.Class) bool {
	switch c {
	case failure.Exited, failure.MissingVariable, failure.NotJSON, failure.CutOff, failure.ConnectionRefused, failure.Unreachable:
		return true
	}
	return false
}

// leftOut stores the items that were left out of a list. report is the report of a serve process about
// the server, or nil. If there is one, that process has left the items out.
func (h *health) leftOut(kind string, left map[string]string, report *serveReport) {
	if report != nil {
		left = map[string]string{}
		for _, l := range report.Lists {
			for _, x := range l.Odd {
				if l.Method == runtime.ListMethod(kind) {
					left[x.Name] = x.Why
				}
			}
		}
	}
	if len(left) == 0 {
		return
	}
	if h.LeftOut == nil {
		h.LeftOut = map[string]map[string]string{}
	}
	h.LeftOut[kind] = left
}

// broken returns the health of a server that failed with err. report is the report of a serve
// process about the server, or nil.
func (h health) broken(ctx context.Context, err error, report *serveReport) health {
	var late timeoutError
	h.State = stateFailed
	if report != nil && slices.Contains([]string{stateStarting, "stopped", "unresponsive"}, report.State) {
		h.State = report.State
	}
	switch {
	case h.State == stateStarting && report.Failure == nil:
		h.Reason = "it has been starting for " + spanOf(time.Since(report.Since))
		if report.Reason != "" {
			h.Reason += "; " + report.Reason
		}
		return h
	case report != nil && report.Failure != nil:
		h.Failure = report.Failure
	case errors.As(context.Cause(ctx), &late):
		h.Failure = &failure.Failure{
			Class: failure.Silent, Server: h.Name, Sentence: "server " + strconv.Quote(h.Name) + " was not ready within " + late.after.String(),
			Action: "give the server more time with --timeout, or run `dragoman doctor " + shellWord(h.Name) + "`",
		}
	default:
		h.Failure = failureOf(h.Name, err)
	}
	if h.Failure.Class == failure.Silent && report == nil {
		f := *h.Failure
		f.Action = "give the server more time with --timeout, or run `dragoman doctor " + shellWord(h.Name) + "`"
		h.Failure = &f
	}
	if h.Failure.Class == failure.NeedsSignIn {
		h.State = stateSignIn
	}
	return h
}

// failureOf converts an error from a configured server to a failure.
func failureOf(server string, err error) *failure.Failure {
	if f := failureInData(err); f != nil {
		return f
	}
	if f := failureIn(err); f != nil {
		return f
	}
	return failure.Of(err, failure.Facts{Server: server})
}

// failureInData returns the failure in the data of an error response. This failure comes from
// another Dragoman process between this command and the server. failureInData returns nil if the
// data contains no failure.
func failureInData(err error) *failure.Failure {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return nil
	}
	at := jsonrpc.Find(wire.Data, jsonrpc.Whole(wire.Data), "failure")
	if at.IsZero() {
		return nil
	}
	return failure.Parse(at.Of(wire.Data))
}

// healthColumns returns the columns of the table. The widths fit all usual values, so that each row
// can be printed before the other rows are known.
func healthColumns(servers []config.Server) []screen.Column {
	name := len("SERVER")
	for _, s := range servers {
		name = max(name, min(screen.Width(clean(s.Name)), widestName))
	}
	return []screen.Column{
		{Title: "SERVER", Whole: true, Least: name}, {Title: "STATE", Whole: true, Least: 8}, {Title: "REVISION", Whole: true, Least: 10, Spare: 1}, {Title: "VIA", Whole: true, Least: 5, Spare: 5},
		{Title: "TOOLS", Whole: true, Right: true}, {Title: "PROMPTS", Whole: true, Right: true, Spare: 4}, {Title: "RESOURCES", Whole: true, Right: true, Spare: 3},
		{Title: "TOKENS", Whole: true, Right: true, Least: 7, Spare: 2}, {Title: "TIME", Whole: true, Right: true, Least: 7},
	}
}

// rowPrinter returns the function that prints the row of a server. On a terminal, this function
// prints each row immediately, because a user is waiting. Otherwise, it prints the rows in the
// order of the configuration. With --json, it prints nothing.
func (c *listCommand) rowPrinter(servers []config.Server) func(health) {
	if c.asJSON {
		return func(health) {}
	}
	columns := healthColumns(servers)
	titled := false
	print := func(h health) {
		t := screen.Table{Columns: columns, Rows: [][]screen.Cell{h.cells()}, Colour: c.screen && c.status.colour}
		if c.screen {
			t.Width = c.width
		}
		text := t.Text()
		if titled {
			_, text, _ = strings.Cut(text, "\n")
		}
		titled = true
		text += h.notes(c.columns())
		c.status.erase()
		_, _ = c.stdout.Write([]byte(text))
	}
	if c.screen {
		return print
	}
	waiting, next := map[int]health{}, 0
	return func(h health) {
		waiting[h.index] = h
		for {
			h, ok := waiting[next]
			if !ok {
				return
			}
			delete(waiting, next)
			next++
			print(h)
		}
	}
}

// cells returns the table cells for a server.
func (h *health) cells() []screen.Cell {
	style := map[string]screen.Style{stateReady: screen.Green, stateFailed: screen.Red, stateSignIn: screen.Yellow, stateStarting: screen.Yellow, "stopped": screen.Yellow, "unresponsive": screen.Red, stateDisabled: screen.Dim}[h.State]
	count := func(kind string) screen.Cell {
		if h.Lists[kind] != "" {
			return screen.Cell{Text: "!", Style: screen.Red}
		}
		n, ok := h.Counts[kind]
		templates := h.Counts["templates"]
		switch {
		case !ok:
			return screen.Cell{Text: "-", Style: screen.Dim}
		case kind == "resources" && templates > 0:
			return screen.Cell{Text: strconv.Itoa(n) + " + " + strconv.Itoa(templates)}
		}
		return screen.Cell{Text: strconv.Itoa(n)}
	}
	row := []screen.Cell{{Text: h.Name}, {Text: h.State, Style: style}}
	if h.State != stateReady {
		return row
	}
	cost := "-"
	if h.Tokens > 0 {
		cost = strings.TrimSuffix(strings.TrimPrefix(tokens.About(h.Tokens), "about "), " tokens")
	}
	took := strconv.FormatInt(h.ReadyMS, 10) + " ms"
	if h.ReadyMS >= 10_000 {
		took = strconv.FormatInt(h.ReadyMS/1000, 10) + " s"
	}
	return append(row, screen.Cell{Text: h.Revision}, screen.Cell{Text: h.Transport}, count("tools"), count("prompts"), count("resources"), screen.Cell{Text: cost}, screen.Cell{Text: took})
}

// notes returns the lines below a server's row in the table: the failure of the server with the
// action to take, the failures of its lists, and the items that are left out of them.
func (h *health) notes(width int) string {
	var b strings.Builder
	if h.Reason != "" {
		b.WriteString(wrap(clean(h.Reason), "    ", width))
	}
	if h.Failure != nil {
		b.WriteString(wrap(clean(h.Failure.Sentence), "    ", width))
		for i, line := range unsaid(h.Failure) {
			if i == 3 {
				break
			}
			b.WriteString("      " + h.evidence() + screen.Fit(clean(line), max(width-20, 20)) + "\n")
		}
		if h.Failure.Action != "" {
			b.WriteString(explained("", h.Failure.Action, "    ", width))
		}
	}
	for _, kind := range listKinds {
		if why := h.Lists[kind]; why != "" {
			b.WriteString(wrap("open, but its list of "+kind+" fails: "+clean(why), "    ", width))
		}
		for _, line := range leftOutLines(h.LeftOut[kind]) {
			b.WriteString(wrap(kind+": "+line, "    ", width))
		}
	}
	return b.String()
}

// evidence returns the prefix for each line of evidence. The prefix shows that the line is not a
// message of Dragoman.
func (h *health) evidence() string {
	if h.Failure.EvidenceFrom == "" {
		return "| "
	}
	return clean(string(h.Failure.EvidenceFrom)) + " | "
}
