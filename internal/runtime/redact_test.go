package runtime

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/config"
)

// TestRedactorTakesAllSecrets checks two secrets that begin alike: Dragoman masks the longer
// secret completely. It also masks the value of a variable in an argument or a URL.
func TestRedactorTakesAllSecrets(t *testing.T) {
	t.Setenv("TOKEN", "arg-canary-1")
	t.Setenv("ROOM", "path-canary-2")
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	yaml := "mcpServers:\n" +
		"  a: {command: x, args: [\"--token=${TOKEN}\", plain-argument], env: {A: hunter2, B: hunter2-and-more}}\n" +
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
		{"GET /path-canary-2/mcp with query-canary-4 as user with password-3: 404", "GET /***/mcp with *** as user with ***: 404"},
		{"DB_PASSWORD=of-its-own1 pw: s3cret-canary, max_tokens=100000, postgres://db:canary@h.example/x", "DB_PASSWORD=*** pw: ***, max_tokens=100000, postgres://***@h.example/x"},
	} {
		if got := redactor(snapshot.Servers[min(i, 1)])(test.said); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
