package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/admin"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/failure"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
)

// serveAddress returns the base URL of the serve process that a command uses. It is the given URL,
// else the address in the configuration, else the default address. serveAddress does not check that
// a process answers at this address. It ignores a configuration with errors, because the running
// process uses the last valid one.
func (a *app) serveAddress(given, file string) (string, error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", usagef("use a URL such as http://127.0.0.1:7300", "%q is not the URL of a running serve", given)
		}
		return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp"), nil
	}
	listen, _ := a.listenAddress(file)
	return reachable("http://" + listen), nil
}

// listenAddress returns the address of serve in the configuration, or the default address if
// there is no configuration. If the configuration has errors, it returns these errors and the
// default address.
func (a *app) listenAddress(file string) (string, error) {
	if path, ok := a.configPath(file); ok {
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

// probeTime is how long a command waits for a running serve process before it starts a
// configured server itself.
const probeTime = 5 * time.Second

// throughServe returns a server that reaches s through a running serve process, or s itself if
// there is none. The process must listen on this machine, at the configured address. It must have
// loaded the same configuration file as this command, because another file may have a different
// server of the same name.
func (a *app) throughServe(ctx context.Context, s config.Server, file string) (config.Server, bool) {
	base, status, why := a.servingSame(ctx, file)
	if why == "" {
		if through, ok := endpointOf(s, base, &status); ok {
			a.tell("using the running serve at %s", base)
			return through, true
		}
		why = "the running serve does not have the server"
	}
	a.tell("starting %s, because no running serve is used: %s", s.Name, why)
	return s, false
}

// endpointOf returns a server that reaches s through the endpoint that a serve process has for
// it. base is the address of the serve process, "" for none.
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

// servedFailure returns the failure of a server behind a serve process, as that process describes
// it: in its error, or in its status if the session could not be opened. It returns nil if the
// process does not describe a failure.
func (a *app) servedFailure(ctx context.Context, err error, server, file string, through bool) *failure.Failure {
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
	_, report, why := a.servingSame(ctx, file)
	if s := serverNamed(&report, server); why == "" && s != nil {
		return s.Failure
	}
	return nil
}

// tell prints a line if --verbose is set.
func (a *app) tell(format string, args ...any) {
	if a.verbose {
		a.status.Printf(format, args...)
	}
}

// servingSame returns the address and the status of the serve process on this machine that uses the
// same configuration file as this command. If it finds no such process, it returns the reason in
// why.
func (a *app) servingSame(ctx context.Context, file string) (base string, status admin.Report, why string) {
	path, ok := a.configPath(file)
	if !ok {
		return "", status, "no configuration file was found"
	}
	base, status, why = a.serving(ctx, file)
	if why == "" && !sameFile(status.Config, path) {
		return "", status, "the serve at " + base + " uses another configuration file"
	}
	return base, status, why
}

// serving does the same as servingSame for a serve process with any configuration, at the
// configured or the default address.
func (a *app) serving(ctx context.Context, file string) (base string, status admin.Report, why string) {
	base, err := a.serveAddress("", file)
	if err != nil {
		return "", status, err.Error()
	}
	s, err := a.runningAt(base)
	if err != nil {
		return "", status, err.Error()
	}
	defer s.close()
	if host, _, _ := net.SplitHostPort(s.address); !config.IsLoopback(host) {
		return "", status, base + " is not a loopback address"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := s.report(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", status, "no serve answers at " + base
	case err != nil:
		return "", status, err.Error()
	case r.State != "serving":
		return "", status, "the serve at " + base + " is stopping"
	}
	return base, *r, ""
}

// firstLine returns the first line of an answer, quoted and cut.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return excerpt.Quote(line, 200)
}
