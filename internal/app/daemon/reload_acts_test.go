//go:build unix

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestReloadsAreActs changes the file, asks the API, and changes nothing: each change is one act that says what has
// changed and through what, without values. For one person without a database, nothing is created.
func TestReloadsAreActs(t *testing.T) {
	t.Parallel()
	database, keys := filepath.Join(t.TempDir(), "dragoman.db"), t.TempDir()
	w := serveFile(t, "dragoman: {audit: {calls: names}}\n", func(o *ServeOptions) { o.Database, o.KeyFolders = database, []string{keys} })
	own, err := admin.ReadKeys([]string{keys}, strings.TrimPrefix(w.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	reload := func() answer { return w.post("/api/v1/reload", "", "Authorization", "Bearer "+own[0]) }
	const ruled = "dragoman: {audit: {calls: names}, policy: [{match: 'a/*', do: deny}], projects: {shop: {}}}\nmcpServers: {a: {command: /nothing/here, env: {TOKEN: hunter22}}}\n"
	w.write(t, ruled)
	w.waitLog(t, "configuration applied", 1)
	if a := reload(); a.status != http.StatusOK || !strings.Contains(a.body, "Added: a.") { // who asks after the watch was faster
		t.Fatal(a)
	}
	w.write(t, strings.ReplaceAll(ruled, "do: deny", "do: confirm"))
	if a := reload(); a.status != http.StatusOK {
		t.Fatal(a)
	}
	if a := reload(); a.status != http.StatusOK || !strings.Contains(a.body, "unchanged") {
		t.Fatal(a)
	}
	s, err := store.Open(t.Context(), store.Options{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	acts, err := s.Acts(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range acts {
		if a.Action == "reloaded" {
			all = append(all, fmt.Sprintf("%s %s %s %s", a.Actor, a.Via, a.Object, a.Became))
		}
	}
	if len(all) != 2 {
		t.Fatalf("%d acts: %q", len(all), all)
	}
	for _, part := range []string{"dragoman file configuration:dragoman.yaml", "Added: a.", "policy", "Projects: shop."} {
		if !strings.Contains(all[1], part) {
			t.Errorf("the act of the file lacks %q: %s", part, all[1])
		}
	}
	if text := strings.Join(all, ""); strings.Contains(text, "hunter22") || !strings.Contains(all[0], "policy") || strings.Contains(all[0], "Added") {
		t.Errorf("%q", all)
	}

	// Through the API or by itself, whichever came first has made the act.
	if by, _, _ := strings.Cut(all[0], " configuration"); by != "local api" && by != "dragoman file" {
		t.Errorf("%q", all[0])
	}

	none := filepath.Join(t.TempDir(), "none.db")
	w = serveFile(t, "dragoman: {}\n", func(o *ServeOptions) { o.Database = none })
	w.write(t, "dragoman: {policy: [{match: 'a/*', do: deny}]}\n")
	w.waitLog(t, "configuration applied", 1)
	if _, err := os.Stat(none); err == nil {
		t.Error("a reload has created a database")
	}
}

// TestReloadWithoutRecord checks that a changed configuration that can't be recorded is refused by whoever has asked for a
// record, and used by all others.
func TestReloadWithoutRecord(t *testing.T) {
	for _, tt := range []struct {
		audit   config.Audit
		refused bool
	}{{config.Audit{Calls: config.AuditNames}, true}, {config.Audit{Calls: config.AuditNames, OnFailure: config.FailContinue}, false}} {
		s, err := store.Open(t.Context(), store.Options{Database: filepath.Join(t.TempDir(), "dragoman.db")})
		if err != nil {
			t.Fatal(err)
		}
		d := &daemon{opts: ServeOptions{ConfigPath: "/x/dragoman.yaml", store: s}, log: slog.New(slog.DiscardHandler)}
		d.audit.Store(&tt.audit)
		if err := d.record(t.Context(), "before"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		by, cancel := context.WithTimeout(t.Context(), time.Minute)
		err = d.record(by, "after")
		cancel()
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "dragoman reload") {
			t.Errorf("%+v: %v", tt.audit, err)
		}
	}
}
