package doctor

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// inProcess is a Child that runs in this process.
type inProcess struct {
	from *io.PipeReader
	to   *io.PipeWriter
	done chan struct{}
}

// startInProcess returns a function that starts run as a Child. run must return after in has ended.
func startInProcess(run func(in *io.PipeReader, out *io.PipeWriter)) func(context.Context) (Child, error) {
	return func(context.Context) (Child, error) {
		in, to := io.Pipe()
		from, out := io.Pipe()
		c := &inProcess{from: from, to: to, done: make(chan struct{})}
		go func() {
			defer close(c.done)
			run(in, out)
		}()
		return c, nil
	}
}

func (c *inProcess) Streams() (io.Reader, io.WriteCloser) { return c.from, c.to }
func (c *inProcess) Epitaph() string                      { return "exit status 1" }
func (c *inProcess) Stop() {
	_ = c.to.Close()
	_ = c.from.Close()
	<-c.done
}

func startFake(t *testing.T, name string, set map[string]string) func(context.Context) (Child, error) {
	return startInProcess(func(in *io.PipeReader, out *io.PipeWriter) {
		s, err := fake.NewServer(name, fake.Options{Set: set})
		if err != nil {
			t.Error(err)
			return
		}
		_ = s.ServePipe(context.Background(), in, out)
		_ = s.Close()
	})
}

// look examines a fake server on a pipe and returns the report.
func look(t *testing.T, name string, set map[string]string, o Options) *Report {
	t.Helper()
	r, err := Examine(t.Context(), Target{Start: startFake(t, name, set)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r *Report) (out []string) {
	for _, f := range r.Findings {
		out = append(out, f.Code)
	}
	return out
}

func dump(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(string(f.Level) + " " + f.Code + "\n\t" + strings.ReplaceAll(f.Evidence, "\n", "\n\t") + "\n")
	}
	return b.String() + r.Verdict.String()
}

// TestStrictServersAreHealthy checks that strict servers have no errors or warnings, on a pipe and
// over the HTTP transport of their revision. Clients of all revisions can use each server through
// Dragoman, but only clients of its own revision directly.
func TestStrictServersAreHealthy(t *testing.T) {
	o := Options{Deep: true, Call: "count"}
	for _, rev := range mcp.Revisions() {
		name := "strict-" + rev.String()
		for transport, examine := range map[string]func(*testing.T) *Report{
			"a pipe": func(t *testing.T) *Report { return look(t, name, nil, o) },
			"HTTP":   func(t *testing.T) *Report { return callFake(t, name, o) },
		} {
			t.Run(rev.String()+" over "+transport, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := examine(t)
					v := r.Verdict
					if w := Worst(r.Findings); w == Error || w == Warning {
						t.Errorf("unexpected findings:\n%s", dump(r))
					}
					if want := "works with: " + rev.String() + "; through Dragoman: all"; v.String() != want || !v.Reached || !v.Healthy {
						t.Errorf("%+v\nwant %s", v, want)
					}
					for _, rv := range v.Revisions {
						if !rv.Through || rv.Works != (rv.Revision == rev) {
							t.Errorf("client %s: through is %t, works is %t", rv.Revision, rv.Through, rv.Works)
						}
					}
					if o := v.Offer; o.Name != "fake" || o.Version == "" || len(o.Lists) != 4 || o.Lists[0].Kind != "tools" || o.Lists[0].Items < 10 || o.Tokens < 300 {
						t.Errorf("the server offers %+v", o)
					}
				})
			})
		}
	}
}

// faults lists the expected findings of each fake that is not strict.
var faults = map[string][]string{
	"broadcasts":               {Broadcasts},
	"bad-schema":               {SchemaDialect, SchemaEmpty, SchemaHeader, SchemaInvalid, SchemaRef},
	"crash-at=start":           {Unreachable},
	"crash-at=initialize":      {Dies, ProbeDies},
	"crash-at=server/discover": {ProbeDies},
	"crash-at=initialized":     {Dies},
	"crash-at=list":            {Dies},
	"crash-at=call":            {Dies},
	"crash-at=read":            {Dies},
	"crash-at=prompts/get":     {Dies},
	"codex-app-server":         {NotMCP},
	"codex-app-server-old":     {NotMCP},
	"dies-on-probe":            {ProbeDies},
	"reject-v2":                {NoRevision, NoVersionMember},
	"wrong-code-on-unknown":    {UnknownCode},
	"manifest-parameters":      {Manifest},
	"manifest-python":          {Manifest, NoteAnswered},
	"manifest-ts":              {Manifest, NoteAnswered},
	"push-manifest":            {PushesManifest, InitializeRefused},
	"gate-initialized":         {LateGate},
	"silent-on-unknown":        {UnknownSilent},
	"strict-version":           {VersionRefused},
	"strict-version text":      {VersionRefused},
	"string-codes":             {ErrorCode},
	"endless-cursor":           {Endless},
	"endless-cursor same":      {CursorRepeats},
	"flood":                    {Floods},
	"half-line":                {HalfLine},
	"id-zero-errors":           {NoteAnswered},
	"never-answers":            {Unreachable},
	"slow-start":               {SlowStart},
	"stdout-noise":             {Noise},
	"wrong-id-type":            {IDType},
}

// TestEveryFaultIsFound examines every server profile that is not strict. A profile without a row
// in faults fails the test.
func TestEveryFaultIsFound(t *testing.T) {
	sets := map[string]map[string]string{"endless-cursor same": {"cursors": "same"}, "strict-version text": {"says": "text"}}
	rows := map[string]bool{}
	for row, want := range faults {
		name, _, _ := strings.Cut(row, " ")
		p, ok := fake.Lookup(fake.ServerSide, name)
		if !ok {
			t.Errorf("unknown profile %s", name)
			continue
		}
		rows[p.Name] = true
		t.Run(row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{}
				if name == "flood" || name == "half-line" || name == "crash-at=call" {
					o.Call = "count"
				}
				var r *Report
				if name == "broadcasts" { // only a server with several sessions can broadcast, and on a pipe it has only one
					r = callFake(t, name, o)
				} else {
					r = look(t, name, sets[row], o)
				}
				for _, code := range want {
					if !slices.Contains(codes(r), code) {
						t.Errorf("%s was not found:\n%s", code, dump(r))
					}
				}
				t.Logf("%s", dump(r))
			})
		})
	}
	for _, p := range fake.Profiles() {
		if p.Side == fake.ServerSide && p.Kind != fake.Strict && !rows[p.Name] {
			t.Errorf("the profile %s has no row with its expected findings", p.Name)
		}
	}
}
