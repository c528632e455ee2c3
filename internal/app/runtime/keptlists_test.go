package runtime

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// serverOf returns the only server of a configuration.
func serverOf(t testing.TB, yaml string) config.Server {
	t.Helper()
	s, problems := config.Parse("dragoman.yaml", []byte("mcpServers:\n  "+yaml+"\n"), func(string) (string, bool) { return "", false })
	if s == nil {
		t.Fatal(problems)
	}
	return s.Servers[0]
}

const plainServer = `a: {command: x, args: [--key, abcdefgh12345678], env: {API_TOKEN: "sesame/street-7", MODE: legacy}}`

// listFolder returns a folder for lists that does not exist yet, and the log of its user.
func listFolder(t testing.TB) (*listFiles, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return &listFiles{folder: filepath.Join(t.TempDir(), "new", "lists"), key: []byte("k"), log: slog.New(slog.NewTextHandler(said, nil))}, said
}

func rawItems(all ...string) (items [][]byte) {
	for _, x := range all {
		items = append(items, []byte(x))
	}
	return items
}

func recalled(s *shelf, method string) string {
	items, _ := s.Recall(method)
	return string(bytes.Join(items, []byte("|")))
}

// filesIn returns the names and the contents of all files in the folder.
func filesIn(t *testing.T, l *listFiles) (names []string, text string) {
	t.Helper()
	entries, err := os.ReadDir(l.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(l.folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		names, text = append(names, e.Name()), text+string(b)
	}
	return names, text
}

// TestKeptLists checks that another process gets the bytes of a list that was kept, for the same server
// only. Neither the names nor the contents of the files tell what the settings contain.
func TestKeptLists(t *testing.T) {
	files, said := listFolder(t)
	c := serverOf(t, plainServer)
	s := files.shelf(event.DefaultProject, c)
	read := time.Now().Add(-time.Minute).Truncate(time.Second)
	tools := rawItems(`{ "name":"one", "x":1e400}`, `{"name":"two\u0041"}`)
	s.Keep(mcp.MethodListTools, tools, read)
	s.Keep(mcp.MethodListPrompts, nil, read)
	s.Keep("", rawItems(`{"tools":{}}`), read)
	next := files.shelf(event.DefaultProject, c)
	items, at := next.Recall(mcp.MethodListTools)
	if !bytes.Equal(bytes.Join(items, nil), bytes.Join(tools, nil)) || !at.Equal(read) {
		t.Errorf("the list is %q of %s, want %q of %s", items, at, tools, read)
	}
	if got := recalled(next, ""); got != `{"tools":{}}` {
		t.Errorf("the capabilities are %s", got)
	}
	if got := recalled(next, mcp.MethodListPrompts); got != "" {
		t.Errorf("the prompts are %s", got)
	}
	for _, other := range []string{
		strings.Replace(plainServer, "a:", "b:", 1), strings.Replace(plainServer, "--key", "--other", 1), strings.Replace(plainServer, "sesame", "another", 1),
		strings.Replace(plainServer, "command: x", "command: y", 1), `a: {url: "http://127.0.0.1/"}`,
	} {
		if got := recalled(files.shelf(event.DefaultProject, serverOf(t, other)), mcp.MethodListTools); got != "" {
			t.Errorf("%s has the list %s", other, got)
		}
	}
	stranger := &listFiles{folder: files.folder, key: []byte("another"), log: files.log}
	if got := recalled(stranger.shelf(event.DefaultProject, c), mcp.MethodListTools); got != "" {
		t.Errorf("a process with another key has the list %s", got)
	}
	names, text := filesIn(t, files)
	if all := strings.Join(names, " ") + text; len(names) != 2 || strings.Contains(all, "abcdefgh") || strings.Contains(all, "sesame") {
		t.Errorf("the folder has %s", all)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{files.folder: 0o700, filepath.Join(files.folder, names[0]): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has the mode %v, want %v (%v)", path, info.Mode(), want, err)
			}
		}
	}
	s.Keep(mcp.MethodListTools, nil, time.Now())
	if got := recalled(next, mcp.MethodListTools); got != "" {
		t.Errorf("the list of a server without tools is %s", got)
	}
	if said.Len() != 0 {
		t.Errorf("the log has %s", said)
	}
	var none *listFiles
	if none.shelf(event.DefaultProject, c).Keep("", tools, read); recalled(none.shelf(event.DefaultProject, c), "") != "" {
		t.Error("a list is kept without a folder")
	}
}

// TestListsWithSecretsAreNotKept checks a server whose tools contain a secret from its settings. The
// list that was kept before goes too, and the log says once why.
func TestListsWithSecretsAreNotKept(t *testing.T) {
	for _, said := range []string{
		"sesame&street-ä7", `sesame\u0026street-ä7`, `sesame&street-\u00e4\u0037`, `{\"a\":\"sesame\\u0026street-\u00e4\\u0037\"}`,
		"c2VzYW1lJnN0cmVldC3DpDc", `c2VzYW1lJnN0cmVldC3D\u0070Dc=`, "sesame%26street-%C3%A47", `sesame\u002526street-%C3%A47`,
	} {
		files, log := listFolder(t)
		s := files.shelf(event.DefaultProject, serverOf(t, `a: {command: x, env: {API_TOKEN: "sesame&street-ä7"}}`))
		s.Keep(mcp.MethodListTools, rawItems(`{"name":"one"}`), time.Now())
		if recalled(s, mcp.MethodListTools) == "" {
			t.Fatal("no list is kept")
		}
		s.Keep(mcp.MethodListTools, rawItems(`{"name":"one","description":"uses `+said+`"}`), time.Now())
		if names, text := filesIn(t, files); len(names) != 0 {
			t.Errorf("%s: the folder has %q", said, text)
		}
		s.Keep(mcp.MethodListTools, rawItems(`{"name":"two","description":"uses `+said+`"}`), time.Now())
		if want := "msg=\"a list is not kept, because it contains a secret\" server=a list=tools/list\n"; strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: the log has %s", said, log)
		}
	}
}

// TestKeptListThatCannotBeUsed checks files that were changed since. Each is refused with a log record,
// and the next list replaces it.
func TestKeptListThatCannotBeUsed(t *testing.T) {
	write := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(format int, server, method, read, items string) string {
		return fmt.Sprintf(`{"format":%d,"server":%q,"method":%q,"read":%q,"items":%s}`, format, server, method, read, items)
	}
	const old, tool = "2020-01-01T00:00:00Z", `[{"name":"evil"}]`
	for name, spoil := range map[string]func(t *testing.T, path string){
		"empty":             write(""),
		"half":              write(file(1, "a", mcp.MethodListTools, old, `[{"name":"evil"}`)[:90]),
		"not JSON":          write("tools: []"),
		"not an object":     write(tool),
		"twice":             write(`{"items":[{}],` + file(1, "a", mcp.MethodListTools, old, tool)[1:]),
		"not UTF-8":         write(file(1, "a", mcp.MethodListTools, old, "[{\"name\":\"\xff\"}]")),
		"deep":              write(file(1, "a", mcp.MethodListTools, old, `[{"name":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+"}]")),
		"another format":    write(file(2, "a", mcp.MethodListTools, old, tool)),
		"another server":    write(file(1, "b", mcp.MethodListTools, old, tool)),
		"another list":      write(file(1, "a", mcp.MethodListPrompts, old, tool)),
		"no time":           write(file(1, "a", mcp.MethodListTools, "", tool)),
		"from the future":   write(file(1, "a", mcp.MethodListTools, "2999-01-01T00:00:00Z", tool)),
		"no items":          write(file(1, "a", mcp.MethodListTools, old, "[]")),
		"items are a text":  write(file(1, "a", mcp.MethodListTools, old, `"x"`)),
		"an item is a text": write(file(1, "a", mcp.MethodListTools, old, `[{"name":"evil"},"x"]`)),
		"too large":         write(file(1, "a", mcp.MethodListTools, old, tool+strings.Repeat(" ", maxListFile))),
		"a folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a symlink": func(t *testing.T, path string) {
			good := filepath.Join(t.TempDir(), "good")
			write(file(1, "a", mcp.MethodListTools, old, tool))(t, good)
			if err := os.Symlink(good, path); err != nil {
				t.Skip(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, said := listFolder(t)
			s := files.shelf(event.DefaultProject, serverOf(t, plainServer))
			path := s.path(mcp.MethodListTools)
			s.Keep(mcp.MethodListTools, rawItems(`{"name":"one"}`), time.Now())
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			spoil(t, path)
			next := files.shelf(event.DefaultProject, serverOf(t, plainServer))
			if got := recalled(next, mcp.MethodListTools); got != "" {
				t.Errorf("the list is %s", got)
			}
			if !strings.Contains(said.String(), "level=INFO msg=\"a kept list is not used\" server=a list=tools/list cause=") || strings.Contains(said.String(), "evil") {
				t.Errorf("the log has %s", said)
			}
			next.Keep(mcp.MethodListTools, rawItems(`{"name":"two"}`), time.Now())
			want := `{"name":"two"}`
			if name == "a folder" {
				want = ""
			}
			if got := recalled(next, mcp.MethodListTools); got != want {
				t.Errorf("the next list is %s, want %s", got, want)
			}
		})
	}
}

// TestKeptListsAreBounded checks that a very long list is not kept, that the oldest files go when there
// are too many, and that a list that stays the same is not written each time it is read.
func TestKeptListsAreBounded(t *testing.T) {
	files, _ := listFolder(t)
	c := serverOf(t, plainServer)
	s := files.shelf(event.DefaultProject, c)
	began := time.Now()
	s.Keep(mcp.MethodListTools, rawItems(`{"name":"`+strings.Repeat("x", maxListFile)+`"}`), began)
	if got := recalled(files.shelf(event.DefaultProject, c), mcp.MethodListTools); got != "" {
		t.Errorf("a list of %d bytes is kept", len(got))
	}
	s.Keep(mcp.MethodListTools, rawItems(`{"name":"one"}`), began)
	path := s.path(mcp.MethodListTools)
	if err := os.Chtimes(path, began.Add(-time.Minute), began.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	unchanged := func() bool {
		info, err := os.Stat(path)
		return err == nil && info.ModTime().Before(began.Add(-30*time.Second))
	}
	s.Keep(mcp.MethodListTools, rawItems(`{"name":"one"}`), began.Add(time.Minute))
	if !unchanged() {
		t.Error("the same list is written again")
	}
	s.Keep(mcp.MethodListTools, rawItems(`{"name":"one"}`), began.Add(2*rewriteList))
	if unchanged() {
		t.Error("the time of a list in use is never written again")
	}
	for i := range maxListFiles + 3 {
		old := filepath.Join(files.folder, fmt.Sprintf("%d.json", i))
		at := began.Add(time.Duration(i-2000) * time.Minute)
		if err := os.WriteFile(old, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(old, at, at); err != nil {
			t.Fatal(err)
		}
	}
	s.Keep(mcp.MethodListPrompts, rawItems(`{"name":"p"}`), began)
	names, _ := filesIn(t, files)
	if len(names) != maxListFiles || recalled(s, mcp.MethodListPrompts) == "" {
		t.Errorf("there are %d files", len(names))
	}
	if _, err := os.Stat(filepath.Join(files.folder, "0.json")); err == nil {
		t.Error("the oldest file is still there")
	}
	large := filepath.Join(files.folder, "large.json")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxListBytes+1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(large, began.AddDate(-1, 0, 0), began.AddDate(-1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	s.Keep(mcp.MethodListResources, rawItems(`{"uri":"x:y"}`), began)
	if _, err := os.Stat(large); err == nil {
		t.Error("the folder is too large")
	}
}

// TestProcessesShareTheLists lets several processes write and read the list of one server. A reader
// always gets a whole list.
func TestProcessesShareTheLists(t *testing.T) {
	files, said := listFolder(t)
	c := serverOf(t, plainServer)
	long := strings.Repeat("x", 100_000)
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			s := files.shelf(event.DefaultProject, c)
			for n := range 50 {
				s.Keep(mcp.MethodListTools, rawItems(fmt.Sprintf(`{"name":"%d-%d","x":%q}`, i, n, long)), time.Now())
				if got := recalled(files.shelf(event.DefaultProject, c), mcp.MethodListTools); len(got) < len(long) {
					t.Errorf("a reader got %q", got)
				}
			}
		})
	}
	running.Wait()
	if names, _ := filesIn(t, files); len(names) != 1 || said.Len() != 0 {
		t.Errorf("the folder has %v, the log has %s", names, said)
	}
}

// TestListsThatCannotBeWritten checks that the log says so once.
func TestListsThatCannotBeWritten(t *testing.T) {
	files, said := listFolder(t)
	if err := os.WriteFile(filepath.Dir(files.folder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := files.shelf(event.DefaultProject, serverOf(t, plainServer))
	for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts} {
		s.Keep(method, rawItems(`{"name":"one"}`), time.Now())
	}
	if n := strings.Count(said.String(), "could not be kept"); n != 1 {
		t.Errorf("the log has %s", said)
	}
}

// FuzzKeptList reads arbitrary files. A list that is accepted has only objects.
func FuzzKeptList(f *testing.F) {
	f.Add([]byte(`{"format":1,"server":"a","method":"tools/list","read":"2020-01-01T00:00:00Z","items":[{"name":"x"}]}`))
	f.Add([]byte(`{"format":1,"server":"a","method":"tools/list","read":"2020-01-01T00:00:00Z","items":[{"name":"x"},[]]}`))
	f.Add([]byte(`[]`))
	files, _ := listFolder(f)
	s := files.shelf(event.DefaultProject, serverOf(f, plainServer))
	f.Fuzz(func(t *testing.T, raw []byte) {
		items, read, err := s.parse(raw, mcp.MethodListTools)
		if err != nil {
			return
		}
		again, at, err := s.parse(s.text(mcp.MethodListTools, items, read), mcp.MethodListTools)
		if err != nil || !bytes.Equal(bytes.Join(again, nil), bytes.Join(items, nil)) || !at.Equal(read.Truncate(time.Second)) {
			t.Errorf("%v: %q of %s became %q of %s", err, items, read, again, at)
		}
		for _, x := range items {
			if x[0] != '{' {
				t.Errorf("an item is %q", x)
			}
		}
	})
}
