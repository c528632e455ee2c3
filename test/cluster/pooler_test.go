//go:build unix

package cluster

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestTC31 puts PgBouncer between the replicas and PostgreSQL. It gives each transaction another connection, so nothing
// that belongs to a connection works: settings, prepared statements, LISTEN. It refuses settings, or ignores them.
func TestTC31(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	program := built.Dragoman(t)
	for name, ignored := range map[string]string{
		"settings are refused": "",
		"settings are ignored": "ignore_startup_parameters = search_path, synchronous_commit, lock_timeout\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool(t, "haproxy")
			c, s := start(t, program, built.ClusterOptions{Through: func(database string) (string, error) {
				return pgbouncer(t, database, ignored), nil
			}})
			at := free(t)
			run(t, haproxy(t, example(t, "haproxy.cfg", c, at)), healthy("http://"+at))
			through(t, c, s, "http://"+at)
		})
	}
}

// pgbouncer starts PgBouncer in front of a database, and returns the URL of the database there.
func pgbouncer(t *testing.T, database, more string) string {
	t.Helper()
	path, env := tool(t, "pgbouncer")
	to, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pgbouncer") // and not t.TempDir, which others can't read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := free(t)
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	users, file := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	for name, text := range map[string]string{
		users: fmt.Sprintf("%q \"\"\n", to.User.Username()),
		file: fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\nunix_socket_dir =\npool_mode = transaction\nauth_type = trust\nauth_file = %s\n%s",
			to.Hostname(), to.Port(), host, port, users, more),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, file)
	cmd.Env = env
	if os.Geteuid() == 0 { // it refuses to run as root
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	run(t, cmd, func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	to.Host = at
	return to.String()
}
