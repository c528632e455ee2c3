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
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	// answerWait is the maximum duration of a request to a running serve process. The process
	// answers from memory, so it needs little time.
	answerWait = 10 * time.Second
	// changeWait is the maximum duration of a request that changes what serve stores. The database may be
	// in use by other processes for 15 seconds.
	changeWait = 45 * time.Second
	// pageWait is the maximum duration of a request for a page, such as /healthz.
	pageWait = 5 * time.Second
	// maxReport is the maximum number of bytes that a command reads from one response, and maxObjects that of
	// objects and lists in it, which take more room in memory than "{}".
	maxReport  = 16 << 20
	maxObjects = 200_000
)

// running represents a serve process, usually on this machine. Its methods are safe for concurrent
// use.
type running struct {
	base    string   // the URL before the path of a request; "" means http:// and address
	address string   // host:port
	folders []string // the folders that may contain the key files of serve
	key     string   // the API key that every request gets; "" for a process of this machine
	tls     bool     // a process of this machine that speaks TLS, and so takes only API keys; see unverified
	project string   // the project that requests to the API are about; "" means default
	prove   bool     // send the key, if there is one, also where the process answers without it but says more with it
	http    *http.Client
}

// runningFlags select the serve process to which a command sends its requests.
type runningFlags struct{ file, listen, url string }

func (f *runningFlags) addFlags(c *cobra.Command) {
	f.addLocalFlags(c)
	c.Flags().StringVar(&f.url, "url", "", "use the \"dragoman serve\" at `URL`, with the API key in DRAGOMAN_KEY")
}

// addLocalFlags adds the flags for a command that needs the process to be on this machine.
func (f *runningFlags) addLocalFlags(c *cobra.Command) {
	addConfigFlag(c, &f.file)
	c.Flags().StringVar(&f.listen, "listen", "", "use the \"dragoman serve\" at `ADDR` (host:port)")
}

// words returns the flags that name the same serve, for a command in a hint.
func (f *runningFlags) words() string {
	out := configWords(f.file)
	if f.listen != "" {
		out += " --listen " + shellWord(f.listen)
	}
	if f.url != "" {
		out += " --url " + shellWord(f.url)
	}
	return out
}

// running returns the serve process at the URL in --url or the address in --listen, or else the one that locate finds. If
// there is none, it returns the process at the configured or default address, without a check that
// the process exists: it may belong to another user.
func (l locator) running(ctx context.Context, f *runningFlags) (*running, error) {
	if f.url != "" {
		return l.remote(f)
	}
	address := f.listen
	if address == "" {
		at, err := l.locate(ctx, f.file, "--listen ADDR", false)
		switch {
		case err != nil:
			return nil, err
		case at != nil:
			return l.runningOf(&at.Presence, at.address)
		}
		if address, err = l.env.listenAddress(f.file); err != nil {
			return nil, err
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usagef("use --listen HOST:PORT, for example --listen 127.0.0.1:7300", "%q is not an address", address)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.Unmap().IsUnspecified() {
		host = "localhost"
	}
	return l.runningAt("http://" + net.JoinHostPort(host, port))
}

// runningOf returns a serve process of the user at one of its addresses. One that speaks TLS has a certificate for
// another name, so it must prove who it is in another way.
func (l locator) runningOf(p *admin.Presence, address string) (*running, error) {
	if !p.TLS {
		return l.runningAt("http://" + address)
	}
	s, err := l.runningAt("https://" + address)
	if err == nil {
		s.unverified()
	}
	return s, err
}

// runningAt returns the serve process at a base URL, which may have a path. The HTTP client uses no
// proxy, because the process is usually on this machine. It follows no redirects, because serve
// sends none.
func (l locator) runningAt(base string) (*running, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, usagef("use a URL such as http://127.0.0.1:7300", "%q is not the URL of a running serve", base)
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), map[bool]string{true: "443", false: "80"}[u.Scheme == "https"])
	}
	s := &running{base: base, address: address, folders: admin.KeyFolders(l.env), http: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if u.Scheme == "https" && transport.IsLoopback(u.Hostname()) {
		s.unverified()
	}
	return s, nil
}

// close closes the idle connections.
func (s *running) close() { s.http.CloseIdleConnections() }

// get sends a GET request to the API; see ask.
func (s *running) get(ctx context.Context, path string, query url.Values, header ...string) (*http.Response, error) {
	return s.ask(ctx, http.MethodGet, path, query, header...)
}

// ask sends a request to the API and returns the response, whose status is 2xx. For any other
// status, it returns an error that says what the user can do. The request has no body. Some requests
// require a proof that they come from the user who started serve. For these requests, ask sends the key
// that serve stores for this user, after the process has proved that it has this key. It also sends the
// key if other programs have taken all streams, because some places are only for this user. The caller
// must close the body of the response.
func (s *running) ask(ctx context.Context, method, path string, query url.Values, header ...string) (*http.Response, error) {
	return s.askAs(ctx, asked{method: method, path: path, query: query}, header...)
}

// asked is a request to the API.
type asked struct {
	method, path string
	query        url.Values
	body         []byte // JSON; nil if there is none
}

// askAs does the same as ask. The body may be secret, so only a process that has proved who it is gets it,
// with the key.
func (s *running) askAs(ctx context.Context, q asked, header ...string) (*http.Response, error) {
	if s.key != "" {
		return s.send(ctx, q, append(header, "Authorization", "Bearer "+s.key)...)
	}
	if s.prove && !s.tls {
		if at, key := s.proven(ctx); key != "" {
			return at.send(ctx, q, append(header, "Authorization", "Bearer "+key)...)
		}
	}
	first := q
	first.body = nil
	resp, err := s.send(ctx, first, header...)
	if err == nil && q.body != nil {
		_ = resp.Body.Close()
		return nil, s.notServe()
	}
	var denied *problemError
	if s.tls && errors.As(err, &denied) && denied.kind == "no-access" {
		return nil, &problemError{denied.kind, "the `dragoman serve` at " + s.address + " speaks TLS, and needs an API key also from this machine", "use --url, with a key in " + keyVariable}
	}
	if s.tls || !errors.As(err, &denied) || denied.kind != "no-access" && denied.kind != "too-many-streams" {
		return resp, err
	}
	var full error
	if denied.kind == "too-many-streams" {
		full = err
	}
	found := false
	for _, address := range admin.KeyAddresses(s.address) {
		keys, _ := admin.ReadKeys(s.folders, address)
		found = found || len(keys) > 0
		key := s.at(address).keyFor(ctx, keys)
		if key == "" {
			continue
		}
		resp, err = s.at(address).send(ctx, q, append(header, "Authorization", "Bearer "+key)...)
		if !errors.As(err, &denied) || denied.kind != "too-many-streams" {
			return resp, err
		}
		full = err
	}
	if full != nil {
		return nil, full
	}
	text := "the key of the `dragoman serve` at " + s.address + " was not found"
	if found {
		text = "the `dragoman serve` at " + s.address + " does not accept the key that was found"
	}
	return nil, withHint(errors.New(text), "run this command as the user who started `dragoman serve`, with the same XDG_RUNTIME_DIR and HOME")
}

// proven returns the address at which the process has proved that it has one of the user's keys, and this key. The
// key is "" if there is none.
func (s *running) proven(ctx context.Context) (*running, string) {
	for _, address := range admin.KeyAddresses(s.address) {
		if keys, _ := admin.ReadKeys(s.folders, address); len(keys) > 0 {
			if key := s.at(address).keyFor(ctx, keys); key != "" {
				return s.at(address), key
			}
		}
	}
	return s, ""
}

// at returns a copy of s that sends requests to another address of the same process.
func (s *running) at(address string) *running {
	if address == s.address {
		return s
	}
	out := *s
	out.address, out.base = address, "http://"+address
	if u, err := url.Parse(s.base); err == nil && s.base != "" {
		u.Host = address
		out.base = u.String()
	}
	return &out
}

// page requests a page that requires no key. It accepts any status. It returns at most the first
// maxReport bytes of the response body.
func (s *running) page(ctx context.Context, path string, header ...string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pageWait, fmt.Errorf("no answer within %s", pageWait))
	defer cancel()
	resp, err := s.do(ctx, asked{method: http.MethodGet, path: path}, header...)
	if err != nil {
		var wrapped *url.Error // remove this wrapper, because its text repeats the URL
		switch {
		case context.Cause(ctx) != nil:
			err = context.Cause(ctx)
		case errors.As(err, &wrapped):
			err = wrapped.Err
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxReport))
	return resp.StatusCode, body, err
}

// site returns the URL of the process without a path of the API.
func (s *running) site() string { return cmp.Or(s.base, "http://"+s.address) }

// do sends one HTTP request.
func (s *running) do(ctx context.Context, q asked, header ...string) (*http.Response, error) {
	address := s.site() + q.path
	if query := s.about(q); len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, bytes.NewReader(q.body))
	if err != nil {
		return nil, usagef("use --listen HOST:PORT", "%q is not an address", s.address)
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.http.Do(req)
}

// about returns the query of a request, which also names the project.
func (s *running) about(q asked) url.Values {
	if s.project == "" || q.query.Has("project") || !strings.HasPrefix(q.path, "/api/v1/") {
		return q.query
	}
	query := url.Values{"project": {s.project}}
	maps.Copy(query, q.query)
	return query
}

// addProjectFlag adds the flag --project of commands that read from a running serve.
func addProjectFlag(flags *pflag.FlagSet, project *string) {
	flags.StringVar(project, "project", "", "use the project `NAME` of the running serve (default: default)")
}

// send does the same as askAs, except that it does not add the user's key.
func (s *running) send(ctx context.Context, q asked, header ...string) (*http.Response, error) {
	resp, err := s.do(ctx, q, header...)
	var usage *usageError
	if errors.As(err, &usage) {
		return nil, err
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if s.key != "" {
			return nil, s.unreachable(err)
		}
		return nil, &absentError{"no `dragoman serve` answers at " + s.address, ""}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	refusal, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var p admin.Problem
	if json.Unmarshal(refusal, &p) != nil || !strings.HasPrefix(p.Type, "urn:dragoman:problem:") {
		return nil, s.notServe()
	}
	kind := strings.TrimPrefix(p.Type, "urn:dragoman:problem:")
	text, detail := lowerFirst(excerpt.Line(p.Title, maxQuoted)), strings.TrimSuffix(excerpt.Line(p.Detail, maxQuoted), ".")
	hint := ""
	switch {
	case detail == "":
	case kind == "no-such-project" && s.key == "": // with a key, refusedKey says more
		return nil, usagef("`dragoman projects` lists the projects", "%s", lowerFirst(detail))
	case kind == "no-such-call":
		text, hint, _ = strings.Cut(lowerFirst(detail), ". ")
		hint += "; `dragoman calls` lists them"
	case kind == "no-such-server" || kind == "no-such-project" || kind == "in-file" || kind == "no-file": // the detail says the same as the title, and more
		text = lowerFirst(detail)
	default:
		text += ": " + lowerFirst(detail)
	}
	return nil, s.refusedKey(&problemError{kind: kind, text: text, hint: hint}, detail)
}

// notServe returns the error for an answer that serve would not give.
func (s *running) notServe() error {
	out := &absentError{text: "the program at " + s.address + " is not `dragoman serve`"}
	if s.key != "" {
		out.hint = "check the URL; it is what clients use, without /mcp"
	}
	return out
}

// absentError means that no serve process answers at the address.
type absentError struct{ text, hint string }

func (e *absentError) Error() string { return e.text }

func (e *absentError) Hint() string {
	if e.hint != "" {
		return e.hint
	}
	return "start `dragoman serve`, or name the address of a running serve with --listen or its configuration file with -c"
}

// problemError is an error response from a running serve process. kind is the last part of the
// problem type.
type problemError struct{ kind, text, hint string }

func (e *problemError) Error() string { return e.text }

func (e *problemError) Hint() string {
	if e.kind == "not-found" {
		return "the running serve and this command have different versions; restart serve with the version of this command"
	}
	return e.hint
}

// decode sends a GET request to the API and decodes the JSON response. into is a pointer to the
// result.
func (s *running) decode(ctx context.Context, path string, query url.Values, into any) error {
	return s.exchange(ctx, http.MethodGet, path, query, into)
}

// exchange does the same as decode, with any method.
func (s *running) exchange(ctx context.Context, method, path string, query url.Values, into any) error {
	return s.change(ctx, answerWait, asked{method: method, path: path, query: query}, into)
}

// change sends a request to the API, waits for the answer, and decodes it as JSON. into is a pointer to the
// result. header alternates names and values.
func (s *running) change(ctx context.Context, wait time.Duration, q asked, into any, header ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("`dragoman serve` at %s accepts connections but does not answer", s.address))
	defer cancel()
	resp, err := s.askAs(ctx, q, header...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case len(body) > maxReport || objectsIn(body) > maxObjects:
		return s.tooLarge()
	case err != nil || json.Unmarshal(body, into) != nil:
		return s.notServe()
	}
	return nil
}

// tooLarge returns the error for an answer that is larger than those of serve.
func (s *running) tooLarge() error {
	return withHint(fmt.Errorf("the answer of the program at %s is too large", s.address), "check whether it is `dragoman serve`, which sends %d MiB at most", maxReport>>20)
}

// objectsIn returns the number of objects and lists in a JSON text.
func objectsIn(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			n++
		}
	}
	return n
}

// report returns the status of the serve process.
func (s *running) report(ctx context.Context) (*admin.Report, error) {
	r := &admin.Report{}
	if err := s.decode(ctx, "/api/v1/status", nil, r); err != nil {
		return nil, err
	}
	if r.Name != "dragoman" {
		return nil, s.notServe()
	}
	return r, nil
}

// noServer returns the error for a name that no server of the serve process has. It may be that of a
// server that the configuration disables. file is the value of -c.
func noServer(name string, r *admin.Report, file string) error {
	if snapshot, _ := config.Load(r.Config); r.Config != "" && snapshot != nil && pathOf(r.Project) == "" {
		if x, ok := snapshot.Server(name); ok && x.Disabled {
			return disabledServer(name, r.Config, file)
		}
	}
	var names []string
	for _, s := range r.Servers {
		names = append(names, s.Name)
	}
	return unknownServer(name, "the running serve", names)
}

// disabledServer returns the error for a server that the configuration file at path disables. file is
// the value of -c.
func disabledServer(name, path, file string) error {
	return usagef("run `dragoman enable "+shellWord(name)+configWords(file)+"`", "server %q is disabled in %s", name, clean(path))
}
