//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEnvFileReload changes a variable in the file that dragoman.envFile names. Dragoman restarts
// only the server that uses the variable. If other users can read the file, Dragoman ignores the
// change.
func TestEnvFileReload(t *testing.T) {
	t.Parallel()
	one, other := child(t, "one", "legacy"), child(t, "other", "legacy")
	config := text(one, other) + "\n"
	config = strings.Replace(config, "dragoman: {", "dragoman: {envFile: x.env, ", 1)
	config = strings.Replace(config, "  one: {command:", "  one: {args: [\"${ENV_FILE_TEST}\"], command:", 1)
	dir := t.TempDir()
	env := filepath.Join(dir, "x.env")
	config = strings.Replace(config, "x.env", env, 1)
	put := func(value string, mode os.FileMode) {
		t.Helper()
		next := env + ".new"
		if err := os.WriteFile(next, []byte("ENV_FILE_TEST="+value+"\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(next, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, env); err != nil {
			t.Fatal(err)
		}
	}
	put("hunter2-first", 0o600)
	w := serveFile(t, config)
	w.call("/mcp", "one__echo", "{}").wantText(t, "{}")
	put("hunter2-open", 0o644)
	await(t, "the open file is refused", time.Minute, func() bool { return strings.Contains(w.log.String(), "other users of this machine can read the file") })
	if err := os.Chmod(env, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the mode counts", time.Minute, func() bool { return strings.Contains(w.log.String(), "settings=args") })
	w.call("/mcp", "one__echo", "{}").wantText(t, "{}")
	log := w.log.String()
	if strings.Contains(log, "hunter2") || strings.Contains(log, "server=other settings") || !strings.Contains(log, "effect=restarted") || !strings.Contains(log, "kept=1") {
		t.Error(log)
	}
}
