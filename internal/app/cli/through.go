package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// serveURL returns the base URL of the serve process that a command uses: the given URL, or else that
// of the process that locate finds, or else serveAddress.
func (l locator) serveURL(ctx context.Context, given, file string) (string, error) {
	if given == "" {
		at, err := l.locate(ctx, file, "its URL, for example http://ADDR", false)
		switch {
		case err != nil:
			return "", err
		case at != nil:
			return at.base(), nil
		}
	}
	return l.env.serveAddress(given, file)
}

// serveAddress returns the base URL of the serve process that a command uses. This is the given
// URL, or else the address in the configuration, or else the default address. serveAddress does not
// check whether a process answers at this address. If the configuration has errors, it uses the
// default address and returns no error.
func (e environment) serveAddress(given, file string) (string, error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", usagef("use a URL such as http://127.0.0.1:7300", "%q is not the URL of a running serve", given)
		}
		return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp"), nil
	}
	listen, _ := e.listenAddress(file)
	return reachable("http://" + listen), nil
}

// listenAddress returns the address on which serve listens according to the configuration. If there
// is no configuration, it returns the default address. If the configuration has errors, it returns
// the default address and these errors.
func (e environment) listenAddress(file string) (string, error) {
	if path, ok := e.configPath(file); ok {
		s, problems := config.Load(path)
		if s == nil {
			err := fmt.Errorf("cannot read the address of serve from %s: %w", path, errors.New(problems.Err().Error()))
			return config.Default().Listen, withHint(err, "name the address with --listen, or run `dragoman config check -c %s`", path)
		}
		return s.Listen, nil
	}
	return config.Default().Listen, nil
}

// atMostOneURL returns an error if there is more than one argument.
func atMostOneURL(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("remove it", "unexpected argument %q after the URL", args[1])
	}
	return nil
}

// probeTime is how long a command waits for a response of a running serve process. After this time,
// the command starts a configured server itself.
const probeTime = 5 * time.Second

// throughServe returns the configuration of a server that reaches s through a running serve
// process. If there is no such process, it returns s itself and false, and the user has agreed that the
// command starts it. The process must listen on this machine, at the configured address. It must also
// have loaded the same configuration file as this command, because another file may have a different
// server with the same name.
func (c *client) throughServe(ctx context.Context, s config.Server, file *opened) (config.Server, bool, error) {
	why := "--direct starts the server itself"
	if !c.direct {
		var base string
		var status admin.Report
		if base, status, why = c.serving(ctx); why == "" {
			if through, ok := endpointOf(s, base, &status); ok {
				c.tell("using the running serve at %s", base)
				if err := c.signInAtServe(ctx, s, base, &status); err != nil {
					return s, false, err
				}
				return locator{c.env}.withKey(ctx, through, base), true, nil
			}
			why = "the running serve does not have the server"
		}
		c.tell("starting %s, because no running serve is used: %s", s.Name, why)
	}
	if c.t.revision != "" {
		return s, false, usagef("start `dragoman serve`, or write `revision` for the server in the configuration file", "--revision needs a running serve, which translates for clients of that revision: %s", why)
	}
	return s, false, c.consent(ctx, c.where.file, file)
}

// endpointOf returns the configuration of a server that reaches s through the endpoint for s in a
// serve process. base is the base URL of the process, or "" if there is no process. If there is no
// such endpoint, endpointOf returns s itself and false.
func endpointOf(s config.Server, base string, r *admin.Report) (config.Server, bool) {
	for _, e := range r.Endpoints {
		if base == "" || e.Server != s.Name {
			continue
		}
		through, problem := config.Complete(config.Server{Name: s.Name, URL: base + e.Path, CallTimeout: s.CallTimeout, CallMax: s.CallMax})
		if problem == nil {
			return through, true
		}
	}
	return s, false
}

// withKey adds the key of the serve process at base to what reaches a server through it, if the process has
// proved that it is the user's. It needs the key if its clients need one.
func (l locator) withKey(ctx context.Context, s config.Server, base string) config.Server {
	run, err := l.runningAt(base)
	if err != nil {
		return s
	}
	defer run.close()
	if at, key := run.proven(ctx); key != "" && at.base == base {
		s.Header = append(slices.Clone(s.Header), config.Field{Name: "Authorization", Value: config.NewSecret("Bearer " + key)})
	}
	return s
}

// servedFailure returns the failure of a server that the command uses through a serve process. It
// takes the failure from the error response of the process. If the response contains no failure and
// the session could not be opened, servedFailure takes the failure from the status of the process. It
// returns nil if neither contains a failure.
func (c *client) servedFailure(ctx context.Context, err error, server string, through bool) *failure.Failure {
	if err == nil || !through || ctx.Err() != nil {
		return nil
	}
	if f := failureInData(err); f != nil {
		return f
	}
	var opening *handshake.Error
	if !errors.As(err, &opening) {
		return nil
	}
	_, report, why := c.serving(ctx)
	if s := serverNamed(&report, server); why == "" && s != nil {
		return s.Failure
	}
	return nil
}

// serving returns the base URL and the status of the serve process through which the command may use the
// server: the one that findElsewhere has found, or else that with the same configuration file. If there is
// none, why is the reason.
func (c *client) serving(ctx context.Context) (base string, status admin.Report, why string) {
	if c.foundAt != "" {
		return locator{c.env}.statusAt(ctx, c.foundAt, c.project)
	}
	return locator{c.env}.servingSame(ctx, c.where.file)
}

// findElsewhere looks for a server that isn't in the command's configuration file, such as one of `serve
// --demo`, among those of the user's running serve processes. err says that the file doesn't have it, or
// that there is no file. findElsewhere returns err if no process has the server either, and another error
// if several have it.
func (c *client) findElsewhere(ctx context.Context, err error) (config.Server, error) {
	var usage *usageError
	if !errors.As(err, &usage) || !c.where.configured() || c.file != "" || c.direct || c.t.special() != "" {
		return config.Server{}, err
	}
	var found []config.Server
	var lines, names []string
	l := locator{c.env}
	for _, p := range l.locateAll(ctx) {
		base, status, why := l.statusAt(ctx, p.base(), "")
		if why != "" || !p.proven {
			continue
		}
		for _, s := range status.Servers {
			names = append(names, s.Name)
		}
		if s, ok := endpointOf(config.Server{Name: c.where.target}, base, &status); ok {
			found, c.foundAt = append(found, s), base
			lines = append(lines, s.URL)
		}
	}
	switch _, hasFile := c.env.configPath(""); {
	case len(found) == 1:
		c.tell("using the running serve at %s", c.foundAt)
		return locator{c.env}.withKey(ctx, found[0], c.foundAt), nil
	case len(found) > 1:
		return config.Server{}, usagef("write its URL instead of the name: "+strings.Join(lines, " or "), "several running serves have a server named %q", c.where.target)
	case len(names) > 0 && (!hasFile || config.Suggest(c.where.target, names) != ""):
		return config.Server{}, unknownServer(c.where.target, "the running serve", names)
	}
	return config.Server{}, err
}

// inProject returns the configuration of a server of the project in --project, which a running serve has. No
// other command starts the servers of such a project.
func (c *client) inProject(ctx context.Context) (config.Server, error) {
	if !c.where.configured() || c.direct || c.t.special() != "" {
		return config.Server{}, usagef("remove --project, or name a server of the project", "--project works only with servers of a running serve")
	}
	base, status, err := c.projectAt(ctx)
	if err != nil {
		return config.Server{}, err
	}
	through, ok := endpointOf(config.Server{Name: c.where.target}, base, status)
	if !ok {
		return config.Server{}, noServer(c.where.target, status, c.file)
	}
	return locator{c.env}.withKey(ctx, through, base), nil
}

// projectAt returns the base URL of the running serve, and its status about the project in --project.
func (c *client) projectAt(ctx context.Context) (base string, status *admin.Report, err error) {
	l := locator{c.env}
	base, _, why := l.serving(ctx, c.file, false)
	if why != "" {
		return "", nil, withHint(errors.New("a running serve was not found: "+why), "start `dragoman serve`, which serves the project %s", c.project)
	}
	c.tell("using the running serve at %s", base)
	report, err := l.reportAt(ctx, base, c.project)
	if err != nil {
		return "", nil, err
	}
	c.foundAt = base
	return base, report, nil
}

// useJoined makes the command use the endpoint of all servers of a running serve, in the project in --project. If there
// is none, absent says so, and usage what to do.
func (c *client) useJoined(ctx context.Context, usage, absent string) error {
	if c.project != "" {
		base, status, err := c.projectAt(ctx)
		if err == nil {
			c.where.target, c.atURL = base+pathOf(status.Project)+"/mcp", true
		}
		return err
	}
	base, status, why := locator{c.env}.serving(ctx, c.file, false)
	at := slices.IndexFunc(status.Endpoints, func(e admin.Endpoint) bool { return e.Server == "" })
	if why != "" || at < 0 {
		return usagef(usage, "%s: %s", absent, why)
	}
	c.where.target, c.foundAt, c.atURL = base+status.Endpoints[at].Path, base, true
	c.tell("using the running serve at %s", base)
	return nil
}

// tell prints a line if --verbose is set.
func (w *world) tell(format string, args ...any) {
	if w.verbose {
		w.status.Printf(format, args...)
	}
}

// servingSame returns the base URL and the status of the serve process on this machine that uses
// the same configuration file as this command. If it finds no such process, why is the reason.
func (l locator) servingSame(ctx context.Context, file string) (base string, status admin.Report, why string) {
	if _, ok := l.env.configPath(file); !ok {
		return "", status, "no configuration file was found"
	}
	base, status, why = l.serving(ctx, file, true)
	if why == "" && !sameConfig(status.Config, l.env.servedPath(file)) {
		return "", status, "the serve at " + base + " uses another configuration file"
	}
	return base, status, why
}

// serving does the same as servingSame, except that the serve process may use any configuration
// file unless same is true. It uses the process that locate finds, or else looks at the configured or
// default address.
func (l locator) serving(ctx context.Context, file string, same bool) (base string, status admin.Report, why string) {
	at, err := l.locate(ctx, file, "--listen ADDR", same)
	switch {
	case err != nil:
		return "", status, err.Error()
	case at != nil && !at.proven:
		return "", status, "the serve at " + at.address + " does not answer"
	case at != nil:
		base = at.base()
	default:
		if base, err = l.env.serveAddress("", file); err != nil {
			return "", status, err.Error()
		}
	}
	return l.statusAt(ctx, base, "")
}

// statusAt returns base and what reportAt returns. If there is none that can be used, base is "" and why is the
// reason.
func (l locator) statusAt(ctx context.Context, base, project string) (_ string, status admin.Report, why string) {
	r, err := l.reportAt(ctx, base, project)
	if err != nil {
		return "", status, err.Error()
	}
	return base, *r, ""
}

// reportAt returns the status of the serve process at a base URL, about a project; "" means default.
func (l locator) reportAt(ctx context.Context, base, project string) (*admin.Report, error) {
	s, err := l.runningAt(base)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.project = project
	if host, _, _ := net.SplitHostPort(s.address); !transport.IsLoopback(host) {
		return nil, errors.New(base + " is not a loopback address")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := s.report(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errors.New("no `dragoman serve` answers at " + base)
	case err != nil:
		return nil, err
	case r.State != "serving":
		return nil, errors.New("the serve at " + base + " is stopping")
	}
	return r, nil
}

// firstLine returns the first line of a response, quoted and shortened.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return excerpt.Quote(line, 200)
}
