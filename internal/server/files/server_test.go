package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
	"github.com/dragoman-mcp/dragoman/internal/server/tools/toolstest"
)

// deadline is the longest time that a test waits for an event.
const deadline = 60 * time.Second

// rig is a server with a client.
type rig struct {
	toolstest.Rig
	s       *Server
	updated chan string // URIs of updated resources
	lists   chan string // changes of the list of resources
	root    string      // the first root
}

// open starts a server on a new folder and connects a client.
func open(t *testing.T, o Options) *rig {
	t.Helper()
	return openWith(t, o, nil)
}

func openWith(t *testing.T, o Options, change func(*Server)) *rig {
	t.Helper()
	return connect(t, o, change, "")
}

// openVersion does the same as open for a client of one revision. "" means the newest revision.
func openVersion(t *testing.T, o Options, version string) *rig {
	t.Helper()
	return connect(t, o, nil, version)
}

func connect(t *testing.T, o Options, change func(*Server), version string) *rig {
	t.Helper()
	if o.Roots == nil {
		o.Roots = []string{t.TempDir()}
	}
	if o.Undo.Size == 0 {
		o.Undo.Size = 1 << 30
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	r := &rig{s: s, root: o.Roots[0], updated: make(chan string, 100), lists: make(chan string, 100)}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	hear := func(in chan<- string, what string) {
		select {
		case in <- what:
		case <-t.Context().Done(): // the test no longer reads, and Close waits for this function
		}
	}
	r.Rig = toolstest.Connect(t, s.Serve, version, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			hear(r.updated, req.Params.URI)
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { hear(r.lists, "") },
	})
	return r
}

type args = toolstest.Args

func (r *rig) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// put writes a file in the root.
func (r *rig) put(name, content string) {
	r.T.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(content), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// content returns the content of a file in the root, or "" if the file does not exist.
func (r *rig) content(name string) string {
	r.T.Helper()
	b, err := os.ReadFile(r.path(name))
	if err != nil && !os.IsNotExist(err) {
		r.T.Fatal(err)
	}
	return string(b)
}

// skipUnsupported skips a test that needs something that this system or its user cannot do. Any
// other error fails the test.
func skipUnsupported(t *testing.T, what string, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
		t.Skipf("%s: %v", what, err)
	}
	if code, ok := cause(err).(syscall.Errno); ok && runtime.GOOS == "windows" {
		switch code {
		case 1, 32, 1314: // ERROR_INVALID_FUNCTION, ERROR_SHARING_VIOLATION, ERROR_PRIVILEGE_NOT_HELD
			t.Skipf("%s: %v", what, err)
		}
	}
	t.Fatal(err)
}

// noTemps fails the test if a temporary file is left in the root.
func (r *rig) noTemps() {
	r.T.Helper()
	_ = filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), tempPrefix) {
			r.T.Errorf("%s is left", path)
		}
		return nil
	})
}

func TestTools(t *testing.T) {
	reading := []string{"get_metadata", "list_dir", "read_file", "search_files", "watch_folder"}
	writing := []string{"copy_file", "delete_file", "move_file", "write_file"}
	for _, test := range []struct {
		name string
		o    Options
		want []string
	}{
		{"all", Options{}, append(slices.Clone(reading), writing...)},
		{"read-only", Options{ReadOnly: true}, reading},
		{"prefixed", Options{Prefixed: true}, append(slices.Clone(reading), writing...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := open(t, test.o)
			list, err := r.Client.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range list.Tools {
				name := tool.Name
				if test.o.Prefixed {
					var ok bool
					if name, ok = strings.CutPrefix(name, "filesystem."); !ok {
						t.Errorf("%s lacks the prefix", name)
					}
				}
				got = append(got, name)
				flags, _ := tool.Meta[tools.DialectKey].(map[string]any)
				reads := slices.Contains(reading, name)
				if tool.Annotations.ReadOnlyHint != reads || *tool.Annotations.DestructiveHint == reads {
					t.Errorf("%s: the annotations are %+v", name, tool.Annotations)
				}
				if flags["confirmationRequired"] != !reads || flags["undoSupported"] != !reads {
					t.Errorf("%s: the flags are %v", name, flags)
				}
				if tool.OutputSchema == nil || tool.Description == "" || tool.Title == "" {
					t.Errorf("%s lacks an output schema, a description or a title", name)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("the tools are %v, want %v", got, test.want)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, roots := range [][]string{{file}, {filepath.Join(dir, "none")}, {dir, dir + "/."}} {
		if s, err := Open(Options{Roots: roots}); err == nil {
			_ = s.Close()
			t.Errorf("Open accepts %v", roots)
		}
	}
}

func TestSeveralRoots(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "docs"), filepath.Join(t.TempDir(), "docs")
	for _, d := range []string{a, b} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, Options{Roots: []string{a, b}})
	r.put("one.txt", "first")
	var list listOut
	r.OK("list_dir", args{}, &list)
	if len(list.Entries) != 2 || list.Entries[0].Name != "docs" || list.Entries[1].Name != "docs-2" {
		t.Fatalf("the roots are %+v", list.Entries)
	}
	r.OK("copy_file", args{"source": "docs/one.txt", "destination": "docs-2/sub/two.txt"}, nil)
	if text := r.OK("read_file", args{"path": b + "/sub/two.txt"}, nil); text != "first" {
		t.Errorf("the copy has %q", text)
	}
	r.OK("move_file", args{"source": "docs-2/sub", "destination": "docs/moved"}, nil)
	if r.content("moved/two.txt") != "first" {
		t.Error("the folder did not move to the other root")
	}
	if _, err := os.Stat(filepath.Join(b, "sub")); err == nil {
		t.Error("the folder is still in the first root")
	}
	var found searchOut
	r.OK("search_files", args{"pattern": "*.txt"}, &found)
	if len(found.Results) != 2 {
		t.Errorf("the search found %+v", found.Results)
	}
	r.Refused("read_file", args{"path": "other/one.txt"}, "docs, docs-2")
	r.Refused("read_file", args{"path": "."}, "several roots")
}

// TestEras reads a file with each revision that the SDK supports.
func TestEras(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			s, err := Open(Options{Roots: []string{t.TempDir()}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			client, server := mcp.NewInMemoryTransports()
			ss, err := s.mcp.Connect(t.Context(), server, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ss.Close() }()
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := c.Connect(t.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_dir"})
			if err != nil || res.IsError {
				t.Errorf("list_dir: %v %v", res, err)
			}
		})
	}
}

// noRequest is a request without a progress token, for handlers that a test calls directly.
func noRequest() *mcp.CallToolRequest {
	return &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}
}

// TestWrongArguments calls a tool with arguments that its schema does not allow.
func TestWrongArguments(t *testing.T) {
	r := open(t, Options{})
	r.put("a", "text")
	for want, a := range map[string]args{
		"offset must be an integer from 0 to 9007199254740992":               {"path": "a", "offset": 1e300},
		"line must be an integer from -9007199254740992 to 9007199254740992": {"path": "a", "line": -1e17},
		"limit must be an integer from 4 to 1048576":                         {"path": "a", "limit": "x"},
		"as must be one of auto, base64":                                     {"path": "a", "as": "hex"},
		"path must be a text":                                                {"path": 5},
		"The call lacks the argument path":                                   {"as": "auto"},
		"The tool has no argument wrong":                                     {"path": "a", "wrong": 1},
	} {
		r.Refused("read_file", a, want)
	}
	r.Refused("write_file", args{"path": "a", "content": "x", "overwrite": "yes"}, "overwrite must be true or false")
	r.Refused("read_file", args{"path": "a", "wrong": 1}, "Use the arguments as, limit, line, lines, offset, path")
	r.Refused("write_file", args{}, "The call lacks the arguments ")
	r.Refused("read_file", args{"path": "a", "wrong": 1, "more": 2}, "The tool does not have the arguments ")
	r.Refused("read_file", args{"path": "a", "as": "base64", "line": 1}, "Line and lines cannot be used if as is base64")
}
