//go:build unix

package built

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
)

// House is the configuration of a `dragoman serve` with all that a team decides: its clients need an API key, there are 200
// rules, pins hold, and a call that the audit can't record is refused. Nothing of it keeps the client named house from
// anything.
type House struct {
	File string   // the configuration
	Env  []string // what the program needs in its environment, besides ours

	program, audit string
	key, viewer    string
}

// Furnish writes a configuration with servers, a YAML text with the member mcpServers, into a folder of its own, and makes
// the keys.
func Furnish(ctx context.Context, program, folder, servers string) (*House, error) {
	h := &House{File: filepath.Join(folder, "dragoman.yaml"), Env: []string{"XDG_DATA_HOME=" + folder}, program: program, audit: filepath.Join(folder, "house", "audit")}
	settings, err := json.Marshal(map[string]any{ // every JSON document is also YAML
		"access":   map[string]any{"loopback": "keys"},
		"database": filepath.Join(folder, "house", "dragoman.db"),
		"policy":   rules(),
		"pins":     "hold",
		"audit":    map[string]any{"calls": "names", "onFailure": "refuse"},
	})
	if err == nil {
		err = os.WriteFile(h.File, []byte(servers+"\ndragoman: "+string(settings)+"\n"), 0o600)
	}
	if err != nil {
		return nil, err
	}
	if h.key, err = h.dragoman(ctx, "keys", "add", "house", "-c", h.File); err == nil {
		h.viewer, err = h.dragoman(ctx, "keys", "add", "viewer", "--role", "viewer", "-c", h.File)
	}
	return h, err
}

// rules returns rules of which the last but one lets the key house, and who needs no key, use everything.
func rules() (all []map[string]any) {
	for i := range 200 {
		all = append(all, map[string]any{"match": []string{fmt.Sprintf("*/never_%d_*", i), fmt.Sprintf("*/prompt:never_%d", i)}, "do": "deny"})
	}
	return append(all,
		map[string]any{"match": "*", "who": map[string]any{"keys": []string{"house"}, "roles": []string{"admin"}}, "do": "allow"},
		map[string]any{"match": "*", "do": "deny"})
}

func (h *House) dragoman(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.program, append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), h.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("dragoman %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

// Front returns a proxy to the serve at base that sends the key, for clients that can't. To paths of which to has the
// beginning, it sends what begins with the other.
func (h *House) Front(base string, to map[string]string) (http.Handler, error) {
	if resp, err := http.Post(base+"/mcp", "application/json", strings.NewReader("{}")); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusUnauthorized {
		return nil, fmt.Errorf("without a key, the endpoint answers %+v, %v", resp, err)
	}
	target, err := url.Parse(base)
	return fronttest.Proxy(func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which the conformance suite also sets to names that must be refused
		key := h.key
		if r.In.URL.Path == "/metrics" {
			key = h.viewer
		}
		r.Out.Header.Set("X-API-Key", key)
		if p, ok := to[r.In.URL.Path]; ok {
			r.Out.URL.Path = p
		}
	}, nil), err
}

// Check checks the audit when serve has ended: it's complete, has calls of the key, if there were any, and says of none
// that a pin held its tool.
func (h *House) Check(ctx context.Context, calls bool) error {
	if _, err := h.dragoman(ctx, "audit", "verify", "-c", h.File); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(h.audit, "*.jsonl"))
	if err != nil {
		return err
	}
	var lines []byte
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, b...)
	}
	if calls && !bytes.Contains(lines, []byte(`"name":"house"`)) {
		return errors.New("the audit has no line of the key")
	}
	if at := bytes.Index(lines, []byte(`"cause":"held"`)); at >= 0 {
		return fmt.Errorf("a definition was held: %.300s", lines[at:])
	}
	return nil
}

// ServeServers is [Serve] with these servers, a YAML text with the member mcpServers. If DRAGOMAN_HOUSE is set, it has a house,
// and the base URL is that of a proxy that sends the key.
func ServeServers(t testing.TB, program, servers string) (base string) {
	t.Helper()
	folder := t.TempDir()
	if os.Getenv("DRAGOMAN_HOUSE") == "" {
		file := filepath.Join(folder, "dragoman.yaml")
		if err := os.WriteFile(file, []byte(servers), 0o600); err != nil {
			t.Fatal(err)
		}
		return Serve(t, program, "-c", file)
	}
	t.Setenv("XDG_DATA_HOME", folder)
	h, err := Furnish(t.Context(), program, folder, servers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after serve has ended
		if err := h.Check(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
	proxy, err := h.Front(Serve(t, program, "-c", h.File), nil)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

// Behind returns the configuration of a server named fake, which `run` would get as a URL or a command after --.
func Behind(args []string) string {
	server := fmt.Sprintf("{url: %q}", args[0])
	if args[0] == "--" {
		server = fmt.Sprintf("{command: %q, args: [%s]}", args[1], quotedAll(args[2:]))
	}
	return "mcpServers: {fake: " + server + "}"
}

func quotedAll(args []string) string {
	var all []string
	for _, a := range args {
		all = append(all, fmt.Sprintf("%q", a))
	}
	return strings.Join(all, ", ")
}
