//go:build unix

package daemon

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestRefusalsOfLimits lets a key send more than it may. The refusals are in the status, in the metrics, beside the key,
// in the record of calls and in the audit, each with the limit. Another key has none.
func TestRefusalsOfLimits(t *testing.T) {
	t.Parallel()
	web := newWeb(t, true, func(s *webServer) { s.tools = `{"name":"echo","inputSchema":{"type":"object"}}` })
	c, problems := config.Parse("dragoman.yaml", []byte(`{mcpServers: {a: {url: "`+web.web.URL+`/mcp"}}, dragoman: {limits: {traffic: [{per: key, who: {keys: ["c*"]}, callsPerSecond: 0.01, burst: 2}]}}}`), nil)
	if c == nil {
		t.Fatal(problems)
	}
	keys := t.TempDir()
	r := serve(t, c, func(o *ServeOptions) {
		o.Database, o.KeyFolders = filepath.Join(t.TempDir(), "dragoman.db"), []string{keys}
	})
	own, err := admin.ReadKeys([]string{keys}, strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	root := []string{"Authorization", "Bearer " + own[0], "Content-Type", "application/json"}
	ids := map[string]string{}
	for _, name := range []string{"ci", "other"} {
		var k admin.NewAPIKey
		if err := json.Unmarshal([]byte(r.post("/api/v1/keys", `{"name":"`+name+`"}`, root...).body), &k); err != nil {
			t.Fatal(err)
		}
		ids[name] = k.ID
		for i := range 5 {
			got := r.modern("/mcp", "1", "tools/call", "a__echo", `"name":"a__echo","arguments":{}`, "Authorization", "Bearer "+k.Text).body
			if refused := strings.Contains(got, `the key \"ci\" gets at most 0.01 calls per second, and 2 at once`); refused != (name == "ci" && i >= 2) {
				t.Errorf("%s, call %d: %s", name, i, got)
			}
		}
	}
	read := func(path string) string {
		return strings.Join(strings.Fields(r.do(t.Context(), "GET", path, nil, root...).body), "")
	}
	for path, want := range map[string]string{
		"/api/v1/status": `"limit":"calls_per_second","refused":3`,
		"/metrics":       `dragoman_limit_refusals_total{limit="calls_per_second",party="k:` + ids["ci"] + `",per="key",project="default"}3`,
		"/api/v1/keys":   `"refused":3`,
		"/api/v1/calls":  `"cause":"limit"`,
		"/api/v1/audit":  `"outcome":"not_sent","cause":"limit"`,
	} {
		soon(t, path+" has "+want, func() bool { return strings.Contains(read(path), want) })
	}
	if got := read("/api/v1/keys"); strings.Count(got, `"refused"`) != 1 {
		t.Errorf("another key has refusals: %s", got)
	}
}
