package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// strictPeer makes the strict clients and servers of internal/workbench/fake usable like an SDK. Each test
// connects one strict peer to one SDK.
type strictPeer struct{}

func (strictPeer) serveStdio(era string, _ observer) error {
	s, err := fake.NewServer("strict-"+era, fake.Options{Version: "1"})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return s.ServePipe(context.Background(), os.Stdin, os.Stdout)
}

// strictHandler is a strict server over HTTP. It also gives access to the recorded violations.
type strictHandler struct {
	http.Handler
	*fake.Server
}

func (strictPeer) serveHTTP(era, transport string, _ observer) (http.Handler, func()) {
	s, err := fake.NewServer("strict-"+era, fake.Options{Version: "1"})
	if err != nil {
		panic(err)
	}
	path := "/mcp"
	if transport == events {
		path = "/sse"
	}
	inner := s.Handler()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			r.URL.Path = path // the URLs of the other servers have no path, so set the path that the strict server needs
		}
		inner.ServeHTTP(w, r)
	})
	return strictHandler{h, s}, func() { _ = s.Close() }
}

// strictClient wraps a strict client with the functions that the steps need.
type strictClient struct {
	c   *fake.Client
	rev string
}

func (strictPeer) connect(ctx context.Context, at place, revision string) (client, error) {
	where := fake.Where{URL: at.url, In: at.in, Out: at.out}
	c, err := fake.OpenClient(ctx, "strict-"+revision, where, fake.ClientOptions{
		Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
			switch a.Method {
			case "sampling/createMessage":
				return []byte(`{"role":"assistant","content":{"type":"text","text":"` + sampleAnswer + `"},"model":"m"}`), nil
			case "roots/list":
				return []byte(`{"roots":[{"uri":"` + rootURI + `","name":"interop"}]}`), nil
			case "elicitation/create":
				return []byte(`{"action":"accept","content":{"name":"` + formAnswer + `"}}`), nil
			}
			return fake.Obliging(a)
		},
	})
	if err != nil {
		return nil, err
	}
	return &strictClient{c, revision}, nil
}

func (s *strictClient) revision() string { return s.rev }

func (s *strictClient) serverName() string {
	var hello struct {
		ServerInfo struct{ Name string }
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(s.c.Greeting(), &hello)
	if raw, ok := hello.Meta["io.modelcontextprotocol/serverInfo"]; ok {
		_ = json.Unmarshal(raw, &hello.ServerInfo)
	}
	return hello.ServerInfo.Name
}

func (s *strictClient) close() error { return s.c.Close() }

// get calls a method and decodes its result.
func (s *strictClient) get(ctx context.Context, method string, params, into any, o fake.CallOptions) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r, err := s.c.Call(ctx, method, raw, o)
	if err != nil {
		return err
	}
	if r.Err != nil {
		return &wireError{r.Err.Code, r.Err}
	}
	return json.Unmarshal(r.Result, into)
}

type object = map[string]any

// all reads a whole list and returns one member of each item.
func (s *strictClient) all(ctx context.Context, method, key, member string) (values []string, err error) {
	params := object{}
	for {
		var page map[string]json.RawMessage
		if err := s.get(ctx, method, params, &page, fake.CallOptions{}); err != nil {
			return nil, err
		}
		var entries []map[string]any
		if err := json.Unmarshal(page[key], &entries); err != nil {
			return nil, err
		}
		for _, e := range entries {
			values = append(values, fmt.Sprint(e[member]))
		}
		if page["nextCursor"] == nil {
			return values, nil
		}
		params["cursor"] = page["nextCursor"]
	}
}

func (s *strictClient) tools(ctx context.Context) ([]string, error) {
	return s.all(ctx, "tools/list", "tools", "name")
}

func (s *strictClient) call(ctx context.Context, tool string, args map[string]any, onProgress func(float64)) (*result, error) {
	if args == nil {
		args = object{}
	}
	o := fake.CallOptions{}
	if onProgress != nil {
		o.Progress = true
		o.OnProgress = func(n fake.Notice) {
			at := jsonrpc.Find(n.Params, jsonrpc.Whole(n.Params), "progress")
			p, _ := strconv.ParseFloat(string(at.Of(n.Params)), 64)
			onProgress(p)
		}
	}
	var r struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	err := s.get(ctx, "tools/call", object{"name": tool, "arguments": args}, &r, o)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	return &result{text.String(), string(r.StructuredContent), r.IsError}, nil
}

func (s *strictClient) resources(ctx context.Context) ([]string, error) {
	return s.all(ctx, "resources/list", "resources", "uri")
}

func (s *strictClient) templates(ctx context.Context) ([]string, error) {
	return s.all(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
}

func (s *strictClient) read(ctx context.Context, uri string) (string, []byte, error) {
	var r struct {
		Contents []struct{ URI, Text, Blob string }
	}
	if err := s.get(ctx, "resources/read", object{"uri": uri}, &r, fake.CallOptions{}); err != nil {
		return "", nil, err
	}
	if len(r.Contents) != 1 || r.Contents[0].URI != uri {
		return "", nil, fmt.Errorf("read %d contents", len(r.Contents))
	}
	blob, err := base64.StdEncoding.DecodeString(r.Contents[0].Blob)
	return r.Contents[0].Text, blob, err
}

func (s *strictClient) prompts(ctx context.Context) ([]string, error) {
	return s.all(ctx, "prompts/list", "prompts", "name")
}

func (s *strictClient) prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	var r struct {
		Messages []struct{ Content struct{ Text string } }
	}
	if err := s.get(ctx, "prompts/get", object{"name": name, "arguments": args}, &r, fake.CallOptions{}); err != nil {
		return "", err
	}
	if len(r.Messages) != 1 {
		return "", fmt.Errorf("%d messages", len(r.Messages))
	}
	return r.Messages[0].Content.Text, nil
}

func (s *strictClient) complete(ctx context.Context, prompt, argument, value string) ([]string, error) {
	var r struct {
		Completion struct{ Values []string }
	}
	err := s.get(ctx, "completion/complete", object{
		"ref": object{"type": "ref/prompt", "name": prompt}, "argument": object{"name": argument, "value": value},
	}, &r, fake.CallOptions{})
	return r.Completion.Values, err
}

// strictEnds returns the strict peers as clients or servers, over the transports of their
// revisions.
func strictEnds() (all []row) {
	for _, rev := range []string{"2024-11-05", "2025-03-26", "2025-06-18", legacy, modern} {
		second := stream
		if rev == "2024-11-05" {
			second = events
		}
		all = append(all, row{"strict", rev, pipe}, row{"strict", rev, second})
	}
	return all
}

// shortly reports whether the short test uses a pair with these revisions. The short test uses the
// oldest and the newest legacy revision, and the modern revision.
func shortly(revs ...string) bool {
	return !slices.Contains(revs, "2025-03-26") && !slices.Contains(revs, "2025-06-18")
}

// TestStrictClients replaces the strict servers behind Dragoman with servers of the SDKs.
// Everything that a strict client receives must be valid in its revision.
func TestStrictClients(t *testing.T) {
	wit := newWitness()
	t.Cleanup(wit.http.Close)
	for _, r := range strictEnds() {
		for _, c := range columns() {
			// Use one transport for each kind of server, but both transports for a server of the
			// oldest revision.
			odd := c.transport == pipe
			if c.era == both || c.era == modern || c.era != "2024-11-05" && odd == (c.sdk == "go-sdk") || testing.Short() && !shortly(r.revision, c.era) {
				continue
			}
			t.Run(strings.ReplaceAll(r.String()+"/"+c.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				log := &logtest.Buffer{}
				out, seen := takeStrictly(wit, r, c, log)
				for _, s := range out.failed() {
					if limitOf(r, c, s) == nil {
						t.Errorf("%s: %v", s, out[s])
					}
				}
				for _, v := range seen {
					if !excused(c.sdk, v) {
						t.Errorf("the client recorded a violation: %s", v)
					}
				}
				if t.Failed() && testing.Verbose() {
					t.Logf("Dragoman says:\n%s", log.String())
				}
			})
		}
	}
}

// takeStrictly runs all steps, and also returns the violations that the client recorded.
func takeStrictly(wit *witness, r row, c column, log *logtest.Buffer) (out outcome, violations []string) {
	out = takeAnd(wit, r, c, false, log, func(c client) { violations = c.(*strictClient).c.Violations() })
	return out, violations
}

// serverBreaks maps each SDK to texts of the violations that its server causes and that Dragoman
// does not correct.
var serverBreaks = map[string][]string{}

// canSpeak reports whether a revision has a feature.
func canSpeak(date string, f mcp.Feature) bool {
	rev, _ := mcp.ParseRevision(date)
	return rev.Can(f)
}

func excused(sdk, violation string) bool {
	return slices.ContainsFunc(serverBreaks[sdk], func(part string) bool { return strings.Contains(violation, part) })
}

// TestStrictServers replaces the strict clients in front of Dragoman with clients of the SDKs.
// Everything that a strict server receives must be valid in its revision.
func TestStrictServers(t *testing.T) {
	wit := newWitness()
	t.Cleanup(wit.http.Close)
	for _, r := range rows() {
		for _, s := range strictEnds() {
			c := column{"strict", s.revision, s.transport, false}
			alike := (r.transport == pipe) == (c.transport == pipe) // half of the pairs are enough
			if r.revision == "" || !shortly(r.revision) || alike != (r.sdk == "go-sdk") || testing.Short() && !shortly(r.revision, c.era) {
				continue
			}
			t.Run(strings.ReplaceAll(r.String()+"/"+c.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				if err := serveStrictly(t, wit, r, c); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func serveStrictly(t *testing.T, wit *witness, r row, c column) (err error) {
	at, end := c.start(wit)
	defer end()
	s, err := c.server(at, wit)
	if err != nil {
		return err
	}
	log := &logtest.Buffer{}
	at, stop, err := bridge(r, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 4*stepLimit)
	defer cancel()
	cl, err := sdks[r.sdk].connect(ctx, at, r.revision)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = cl.close() }()
	var wrong []error
	for _, step := range fakeSteps {
		if n := step.needs; n != nil && (!canSpeak(r.revision, *n) || !canSpeak(c.era, *n)) || limitOf(r, c, step.limit) != nil {
			continue
		}
		if err := step.run(ctx, cl); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	told, err := cl.call(ctx, "violations", noArgs, nil)
	if err != nil {
		return errors.Join(append(wrong, fmt.Errorf("violations: %w", err))...)
	}
	for _, v := range strings.FieldsFunc(told.text, func(r rune) bool { return r == '\n' }) {
		if probe := strings.HasPrefix(v, "initialize:") || strings.HasPrefix(v, "server/discover:"); !probe {
			wrong = append(wrong, fmt.Errorf("the server saw a violation: %s", v))
		}
	}
	return errors.Join(wrong...)
}
