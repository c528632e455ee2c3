package runtime

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// TestRedactorTakesAllSecrets checks two secrets that begin alike: Dragoman masks the longer
// secret completely. It also masks the value of a variable in an argument or a URL.
func TestRedactorTakesAllSecrets(t *testing.T) {
	t.Setenv("TOKEN", "arg-canary-1")
	t.Setenv("ROOM", "path-canary-2")
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	yaml := "mcpServers:\n" +
		"  a: {command: x, args: [\"--token=${TOKEN}\", plain-argument], env: {A_TOKEN: hunter2, B_PASSWORD: hunter2-and-more, ROLE: server, MODE: legacy}}\n" +
		"  b: {url: \"https://user:password-3@127.0.0.1/${ROOM}/mcp?key=query-canary-4&x=1\"}\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot, problems := config.Load(file)
	if snapshot == nil {
		t.Fatal(problems)
	}
	for i, test := range []struct{ said, want string }{
		{"no hunter2-and-more, no hunter2, --token=arg-canary-1 is bad, plain-argument is good",
			"no ***, no ***, --token=*** is bad, plain-argument is good"},
		{`Error: the server needs MODE legacy, and aHVudGVyMi1hbmQtbW9yZQ== as hunter2%2Dand`, `Error: the server needs MODE legacy, and ***Q== as ***%2Dand`},
		{"GET /path-canary-2/mcp with query-canary-4 as user with password-3: 404", "GET /***/mcp with *** as user with ***: 404"},
		{"DB_PASSWORD=of-its-own1 pw: s3cret-canary, max_tokens=100000, postgres://db:canary@h.example/x", "DB_PASSWORD=*** pw: ***, max_tokens=100000, postgres://***@h.example/x"},
	} {
		if got := redactor(snapshot.Servers[min(i/2, 1)])(test.said); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// TestRedactorKnowsEscapes checks a secret in a line of JSON that a server writes to stderr.
func TestRedactorKnowsEscapes(t *testing.T) {
	clean := redactor(serverOf(t, `a: {command: x, env: {API_TOKEN: 'Zoë&"7/x'}}`))
	for _, line := range []string{
		`{"level":"error","msg":"the token Zoë\u0026\"7/x is bad"}`,
		`{"level":"error","msg":"the token Zo\u00eb&\"7\/x is bad"}`,
		`{"level":"error","msg":"the token \u005ao\u00eb\u0026\u00227\u002fx is bad"}`,
	} {
		if got, want := clean(line), `{"level":"error","msg":"the token *** is bad"}`; got != want {
			t.Errorf("%s became %s", line, got)
		}
	}
}

// TestSecretsOfEarlierConfigurations changes a secret and removes a server by reloads, and
// checks that the runtime still masks the old secrets, because recorded messages contain them.
// The runtime keeps a limited number of old secrets.
func TestSecretsOfEarlierConfigurations(t *testing.T) {
	of := func(names ...string) *config.Snapshot {
		c := *config.Default()
		for _, name := range names {
			s, problem := config.Complete(config.Server{Name: name[:1], Command: "x", Lazy: true, Env: map[string]config.Secret{"A_TOKEN": config.NewSecret(name + "-canary")}})
			if problem != nil {
				t.Fatal(problem)
			}
			c.Servers = append(c.Servers, s)
		}
		return &c
	}
	first := of("a-one", "b-one")
	r := New(Options{Config: first, Events: &event.Publisher{}, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Principal: identity.Anyone, Budget: transport.NewBudget(1 << 20)})
	defer r.Close(StopLimit)
	p := r.Default()
	p.apply(first)
	p.apply(of("a-two"))
	const said = "a-one-canary, b-one-canary, a-two-canary, a-three"
	for _, server := range []string{"a", "b", ""} {
		if got := p.Clean(server)(said); got != "***, ***, ***, a-three" {
			t.Errorf("for server %q: %s", server, got)
		}
	}
	if again := testing.AllocsPerRun(100, func() { p.Clean("a") }); again > 0 {
		t.Errorf("Clean makes a function for each call: %v allocations", again)
	}
	if got := p.Report().Servers[0].Clean(said); got != "***, ***, ***, a-three" {
		t.Errorf("in the report: %s", got)
	}
	for _, secret := range []string{"a-one-canary", "b-one-canary", "a-two-canary"} {
		if !slices.Contains(p.Secrets(), secret) {
			t.Errorf("%s is not a secret any more", secret)
		}
	}
	// A reload must not modify the list of old secrets that a reader already has, even if a secret
	// becomes old again.
	p.apply(first)
	_, former := p.masks()
	before := slices.Clone(former)
	p.apply(of("a-two"))
	if !slices.Equal(former, before) {
		t.Errorf("the list of a reader was %q, and is %q now", before, former)
	}
	large := of("c-one")
	for i := range mostFormer + 10 {
		large.Servers[0].Env[fmt.Sprint("TOKEN_", i)] = config.NewSecret(fmt.Sprint("many-canary-", i))
	}
	p.apply(large)
	p.apply(of("a-three"))
	if n := len(p.Secrets()); n < mostFormer || n > mostFormer+len(secretsOf(first)) {
		t.Errorf("%d secrets are kept", n)
	}
}
