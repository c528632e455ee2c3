//go:build unix

package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestAuditCommands shows and verifies the audit of a serve that runs, and then of none, after somebody has changed a
// line.
func TestAuditCommands(t *testing.T) {
	u := newUser(t)
	t.Run("running", func(t *testing.T) {
		x := *u
		x.T = t
		address := x.house()
		if code, out, said := x.run("audit", "show"); code != exitOK || out != "" || !strings.Contains(said, "nothing was found") {
			t.Errorf("nothing yet: %d %s%s", code, out, said)
		}
		_, key, _ := x.run("-q", "keys", "add", "ci")
		if !enters(t, address, strings.TrimSpace(key)) || enters(t, address, "drgk_wrong") {
			t.Fatal("the key doesn't work")
		}
		if code, out, said := x.run("audit", "show", "--what", "key:"); code != exitOK || !strings.Contains(out, "local") || !strings.Contains(out, "made") || strings.Contains(out, strings.TrimSpace(key)) || strings.Contains(out, "house:") {
			t.Errorf("%d %s%s", code, out, said)
		}
		_, key, _ = x.run("-q", "keys", "add", "deploys", "--role", "admin")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+"/api/v1/secrets/gh", strings.NewReader(`{"value":"hunter22"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
		if resp, err := http.DefaultClient.Do(r); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		if code, out, said := x.run("audit", "show", "--who", "deploys"); code != exitOK || !strings.Contains(out, "  deploys  api ") || !strings.Contains(out, "secret:default/gh") {
			t.Errorf("what a key did: %d %s%s", code, out, said)
		}
		code, out, said := x.run("audit", "show", "--json", "--since", "1h")
		var last admin.AuditEntry
		if line, _, _ := strings.Cut(out, "\n"); code != exitOK || json.Unmarshal([]byte(line), &last) != nil || !strings.Contains(out, `"denied"`) {
			t.Errorf("%d %s%s", code, out, said)
		}
		if code, out, said := x.run("audit", "verify"); code != exitOK || out != "" || !strings.Contains(said, "are as they were recorded; the last has the hash ") || !strings.Contains(said, "it still runs, or was killed") {
			t.Errorf("%d %s%s", code, out, said)
		}
	})

	files, _ := filepath.Glob(filepath.Join(u.home, "house", "audit", "*.jsonl"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	if code, _, said := u.run("audit", "verify"); code != exitOK || strings.Contains(said, "killed") {
		t.Errorf("%d %s", code, said)
	}
	b, err := os.ReadFile(files[0])
	if err == nil {
		err = os.WriteFile(files[0], bytes.Replace(b, []byte("127.0.0.1"), []byte("127.0.0.2"), 1), 0o600)
	}
	if code, out, said := u.run("audit", "verify"); err != nil || code != exitFailure || out != "" || !strings.Contains(said, "line 2 of "+filepath.Base(files[0])+" was changed") ||
		!strings.Contains(said, "error: the audit is not as it was recorded") || !strings.Contains(said, "hint: find out who could write") {
		t.Errorf("%v %d %s%s", err, code, out, said)
	}
	var v admin.AuditVerified
	if code, out, _ := u.run("audit", "verify", "--json"); code != exitFailure || json.Unmarshal([]byte(out), &v) != nil || v.Whole || v.Files[0].Broken == "" || v.Acts.Broken != "" {
		t.Errorf("%d %s", code, out)
	}
}

// TestAuditDetails checks that people read what an act has changed, and what came of a call, without JSON.
func TestAuditDetails(t *testing.T) {
	for _, tt := range []struct {
		x    admin.AuditEntry
		want string
	}{
		{admin.AuditEntry{Kind: "act", Became: []byte(`{"role":"caller","servers":["a","b"]}`)}, "role: caller; servers: a, b"},
		{admin.AuditEntry{Kind: "act", Was: []byte(`{"role":"caller","until":"x","same":1}`), Became: []byte(`{"role":"admin","same":1,"as":{"name": "n"}}`)}, `as: {"name":"n"}; role: caller -> admin; until: x -> nothing`},
		{admin.AuditEntry{Kind: "act", Was: []byte(`{"role":"caller"}`)}, "role: caller -> nothing"},
		{admin.AuditEntry{Kind: "act"}, ""},
		{admin.AuditEntry{Kind: "call", Outcome: "not_sent", Cause: "limit"}, "not_sent (limit)"},
	} {
		row := auditTable([]admin.AuditEntry{tt.x}).Rows[0]
		if got := row[len(row)-1].Text; got != tt.want {
			t.Errorf("%+v: %q", tt.x, got)
		}
	}
}
