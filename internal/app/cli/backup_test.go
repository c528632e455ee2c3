package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestBackup checks which database is copied, and what the command says if there is none to copy.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	data, named := filepath.Join(dir, "data", "dragoman", "dragoman.db"), filepath.Join(dir, "named.db")
	for i, path := range []string{data, named} {
		s, err := store.Open(t.Context(), store.Options{Database: path})
		if err == nil {
			err = s.Write(t.Context(), "ada", func(t *store.Tx) error { return t.SetHouse("which", []byte{byte(i)}) })
			err = errors.Join(err, s.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(name, database string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("{mcpServers: {}, dragoman: {database: "+database+"}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, other := file("plain.yaml", data), file("other.yaml", "named.db")
	absent, postgres := file("absent.yaml", "absent.db"), file("postgres.yaml", "postgres://me@127.0.0.1:1/x")
	invalid := file("invalid.yaml", "mysql://x")
	for i, c := range []struct {
		data string // XDG_DATA_HOME
		args []string
		want byte   // the database in the copy
		bad  string // in the error and its hints
	}{
		{filepath.Join(dir, "data"), []string{"-c", other}, 1, ""},
		{filepath.Join(dir, "data"), []string{"-c", plain}, 0, ""},
		{filepath.Join(dir, "data"), nil, 0, ""},
		{filepath.Join(dir, "nothing"), nil, 0, "nothing has been stored yet"},
		{"", []string{"-c", absent}, 0, "nothing has been stored yet"},
		{"", []string{"-c", postgres}, 0, "pg_dump --schema=dragoman"},
		{"", []string{"-c", invalid}, 0, "unknown scheme"},
		{"", []string{"-c", plain, "more"}, 0, "takes one file"},
	} {
		t.Setenv("XDG_DATA_HOME", c.data)
		to := filepath.Join(dir, fmt.Sprint("copy", i))
		env := func(string) (string, bool) { return "", false }
		a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: env, program: "dragoman", status: newStatus(io.Discard, false, env)}}
		root := a.root()
		root.SetArgs(append([]string{"backup", to}, c.args...))
		err := root.ExecuteContext(t.Context())
		if c.bad != "" {
			if err == nil || !strings.Contains(fmt.Sprint(err, hintsOf(err)), c.bad) {
				t.Errorf("%v: %v %v", c.args, err, hintsOf(err))
			}
			if _, err := os.Stat(to); err == nil {
				t.Errorf("%v: there is a copy", c.args)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		s, err := store.Open(t.Context(), store.Options{Database: to})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Snapshot().House("which"); len(got) != 1 || got[0] != c.want {
			t.Errorf("%v: the copy is of the database %v", c.args, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "nothing")); err == nil {
		t.Error("a folder was created")
	}
}
