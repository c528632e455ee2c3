package registry

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// file is a file of a bundle. A name with / at the end is a folder.
type file struct {
	name, text string
	mode       fs.FileMode
}

func packed(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		if f.mode != 0 {
			h.SetMode(f.mode)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const manifest = `{"manifest_version":"0.3","name":"weather","version":"1.0.0","server":{"type":"node","entry_point":"server/index.js",
	"mcp_config":{"command":"node","args":["${__dirname}/server/index.js"]}}}`

// offer serves a bundle and returns the way to it.
func offer(t *testing.T, b []byte) (*http.Client, Way) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }))
	t.Cleanup(s.Close)
	sum := sha256.Sum256(b)
	return s.Client(), wayTo(t, s.URL+"/weather.mcpb", hex.EncodeToString(sum[:]))
}

func wayTo(t *testing.T, address, sum string) Way {
	t.Helper()
	return ways(t, fmt.Sprintf(`"packages":[{"registryType":"mcpb","identifier":%q,"fileSha256":%q,"transport":{"type":"stdio"}}]`, address, sum))[0]
}

func TestInstall(t *testing.T) {
	signed := append(packed(t, file{"manifest.json", manifest, 0o644}, file{"server/", "", fs.ModeDir | 0o755}, file{"server/index.js", "x", 0o600}, file{"bin/tool", "x", 0o700}), "MCPB_SIG_V1…MCPB_SIG_END"...)
	c, w := offer(t, signed)
	dir := t.TempDir()
	if _, err := w.Entry(Answers{Agreed: true}); err == nil || !strings.Contains(err.Error(), "must be installed first") {
		t.Error(err)
	}
	_, err := Install(t.Context(), c, &w, dir, false)
	if _, ok := errors.AsType[*Cautioned](err); !ok || !strings.Contains(err.Error(), "which is not one of the usual hosts") {
		t.Fatal(err)
	}
	u, err := Install(t.Context(), c, &w, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"server/index.js": 0o644, "bin/tool": 0o755} {
		if st, err := os.Stat(filepath.Join(u.Dir, name)); err != nil || runtime.GOOS != "windows" && st.Mode() != mode {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	run := u.Way(Host{OS: "linux", Home: "/home/me"})
	entry, err := run.Entry(Answers{})
	if err != nil {
		t.Fatal(err)
	}
	if got := line(t, entry); got != "node|"+u.Dir+"/server/index.js" || run.Program != "node" {
		t.Errorf("%s, %+v", got, run)
	}
	if srv, _ := written(t, entry); srv.Dir != u.Dir {
		t.Errorf("%s", srv.Dir)
	}
	// The same bundle is not downloaded again, and nothing else is left in the folder.
	c.Transport = nil
	again, err := Install(t.Context(), c, &w, dir, true)
	left, _ := os.ReadDir(dir)
	if err != nil || again.Dir != u.Dir || len(left) != 1 {
		t.Errorf("%+v, %v, %v", again, err, left)
	}
}

func TestHostileBundle(t *testing.T) {
	ok := file{"manifest.json", manifest, 0o644}
	var many []file
	for i := range maxFiles {
		many = append(many, file{fmt.Sprintf("f%d", i), "", 0o644})
	}
	for _, c := range []struct {
		name, want string
		bundle     []byte
	}{
		{"slip", "is not a plain relative path", packed(t, ok, file{"../evil", "x", 0o644})},
		{"deep slip", "is not a plain relative path", packed(t, ok, file{"a/../../evil", "x", 0o644})},
		{"absolute", "is not a plain relative path", packed(t, ok, file{"/tmp/evil", "x", 0o644})},
		{"Windows slip", "is not a plain relative path", packed(t, ok, file{`..\evil`, "x", 0o644})},
		{"drive", "is not a plain relative path", packed(t, ok, file{"C:/evil", "x", 0o644})},
		{"control character", "control character", packed(t, ok, file{"a\x1b[2Jb", "x", 0o644})},
		{"symlink", "is a link or a device", packed(t, ok, file{"link", "/etc", fs.ModeSymlink | 0o777}, file{"link/passwd", "x", 0o644})},
		{"device", "is a link or a device", packed(t, ok, file{"dev", "", fs.ModeDevice | 0o666})},
		{"twice", "file exists", packed(t, ok, file{"a", "x", 0o644}, file{"a", "y", 0o644})},
		{"long path", "is too long", packed(t, ok, file{strings.Repeat("a", maxPath+1), "x", 0o644})},
		{"many files", "more than 20000 files", packed(t, append(many, ok)...)},
		{"no archive", "is not a zip archive", []byte("<html>")},
		{"no manifest", "has no manifest.json", packed(t, file{"a", "x", 0o644})},
		{"manifest is a folder", "cannot read the bundle", packed(t, file{"manifest.json/", "", fs.ModeDir | 0o755})},
		{"bad manifest", "cannot be used", packed(t, file{"manifest.json", `{"name":7}`, 0o644})},
	} {
		client, w := offer(t, c.bundle)
		outer := t.TempDir()
		dir := filepath.Join(outer, "bundles")
		_, err := Install(t.Context(), client, &w, dir, true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		printable(t, err.Error())
		left, _ := os.ReadDir(dir)
		around, _ := os.ReadDir(outer)
		if len(left) != 0 || len(around) != 1 {
			t.Errorf("%s: left %v, %v", c.name, left, around)
		}
	}
}

func TestBundleDownload(t *testing.T) {
	b := packed(t, file{"manifest.json", manifest, 0o644})
	sum := sha256.Sum256(b)
	good := hex.EncodeToString(sum[:])
	storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }))
	t.Cleanup(storage.Close)
	plain := httptest.NewServer(storage.Config.Handler)
	t.Cleanup(plain.Close)
	to := ""
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	}))
	t.Cleanup(front.Close)
	for _, c := range []struct{ to, sum, want string }{
		{storage.URL + "/x", good, ""},
		{storage.URL + "/x", strings.Repeat("0", 64), "so it is another file"},
		{plain.URL + "/x", good, "which is not as safe"},
		{"https://127.0.0.1:0", good, "cannot download"},
		{front.URL, good, "redirects too often"},
		{"", good, "the status is 403"},
	} {
		to = c.to
		w := wayTo(t, front.URL+"/a.mcpb", c.sum)
		_, err := Install(t.Context(), storage.Client(), &w, t.TempDir(), true)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestManifest(t *testing.T) {
	home := Host{OS: "linux", Home: "/home/me"}
	dir := filepath.Join(t.TempDir(), "b")
	way := func(text string, h Host) Way {
		t.Helper()
		m, err := parseManifest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		u := &Bundle{Dir: dir, what: "b", manifest: m}
		return u.Way(h)
	}
	full := `{"name":"my-tool","version":"1","server":{"type":"binary","entry_point":"bin/tool","mcp_config":{
		"command":"bin/tool","args":["--config","${__dirname}/c.json","--dirs","${user_config.dirs}","--level","${user_config.level}","--quiet=${user_config.quiet}","${AWS_SECRET_ACCESS_KEY}","${user_config.none}"],
		"env":{"API_KEY":"${user_config.api_key}","HOME_DIR":"${HOME}","BASE":"${user_config.base}"},
		"platform_overrides":{"win32":{"command":"bin/tool.exe","args":["win"]},"darwin":{"env":{}}}}},
		"user_config":{
			"dirs":{"type":"directory","title":"Folders","description":"What it reads","multiple":true,"required":true,"default":["${HOME}/Desktop"]},
			"api_key":{"type":"string","title":"Key","description":"Key","sensitive":true,"required":true,"default":"x"},
			"level":{"type":"number","title":"Level","description":"","min":1,"max":3},
			"quiet":{"type":"boolean","title":"Quiet","description":"","default":true},
			"base":{"type":"string","title":"Base","description":""}}}`
	for _, c := range []struct {
		name    string
		host    Host
		answers map[string][]string
		want    string
	}{
		{"defaults", home, nil, dir + "/bin/tool|--config|" + dir + "/c.json|--dirs|/home/me/Desktop|--quiet=true|${AWS_SECRET_ACCESS_KEY}|${user_config.none} ; API_KEY=<MY_TOOL_API_KEY> ; HOME_DIR=/home/me"},
		{"answers", home, map[string][]string{"dirs": {"/a", "${HOME}"}, "level": {"2"}, "base": {"https://x"}, "quiet": {"false"}, "api_key": {"never"}},
			dir + "/bin/tool|--config|" + dir + "/c.json|--dirs|/a|${HOME}|--level|2|--quiet=false|${AWS_SECRET_ACCESS_KEY}|${user_config.none} ; API_KEY=<MY_TOOL_API_KEY> ; BASE=https://x ; HOME_DIR=/home/me"},
		{"Windows", Host{OS: "windows", Home: "/home/me"}, nil, dir + "/bin/tool.exe|win ; API_KEY=<MY_TOOL_API_KEY> ; HOME_DIR=/home/me"},
		{"macOS", Host{OS: "darwin", Home: "/Users/me"}, nil, dir + "/bin/tool|--config|" + dir + "/c.json|--dirs|/Users/me/Desktop|--quiet=true|${AWS_SECRET_ACCESS_KEY}|${user_config.none}"},
	} {
		w := way(full, c.host)
		entry, err := w.Entry(Answers{Values: c.answers})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := line(t, entry); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	w := way(full, home)
	var keys []string
	for _, x := range w.Wants {
		keys = append(keys, x.Key)
	}
	if want := []string{"dirs", "api_key", "level", "quiet", "base"}; !slices.Equal(keys, want) || w.Wants[0].About != "Folders: What it reads" {
		t.Errorf("%+v", w.Wants)
	}
	if _, err := w.Entry(Answers{Values: map[string][]string{"level": {"4"}}}); err == nil || !strings.Contains(err.Error(), "more than 3") {
		t.Error(err)
	}
	uv := way(`{"name":"u","version":"1","server":{"type":"uv","entry_point":"src/server.py"}}`, home)
	if entry, err := uv.Entry(Answers{}); err != nil || line(t, entry) != "uv|run|--directory|"+dir+"|src/server.py" {
		t.Errorf("%+v, %v", uv, err)
	}
	for text, want := range map[string]string{
		`{"name":"a","server":{"type":"uv","entry_point":"../x.py"}}`:                                                             "not a plain relative path",
		`{"name":"a","server":{"type":"node","mcp_config":{}}}`:                                                                   "does not say how to start it",
		`{"name":"a","server":{"type":"node","mcp_config":{"command":"node"}},"compatibility":{"platforms":["win32"]}}`:           "is only for win32",
		`{"name":"a","server":{"type":"node","mcp_config":{"command":"a\u0000"}}}`:                                                "control character",
		`{"name":"a","server":{"type":"node","mcp_config":{"command":"node","args":["` + strings.Repeat("a", maxText+1) + `"]}}}`: "longer than 4 KiB",
	} {
		if w := way(text, home); !strings.Contains(w.Problem, want) {
			t.Errorf("%s: %+v", text, w)
		}
	}
	if w := way(`{"name":"a","server":{"type":"binary","mcp_config":{"command":"../../bin/sh"}}}`, home); len(w.Cautions) != 1 || !strings.Contains(w.Cautions[0], "not in the bundle") {
		t.Errorf("%+v", w)
	}
}

// FuzzManifest checks the same as FuzzServer, for bundles.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifest))
	f.Add([]byte(`{"name":"a","server":{"type":"uv","entry_point":"a","mcp_config":{"command":"./${HOME}","args":["-x","${user_config.a}","$${user_config.b}"]}},"user_config":{"a":{"type":"string","multiple":true,"default":[1,"${X}"]},"b":{"sensitive":true}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			printable(t, err.Error())
			return
		}
		u := &Bundle{Dir: "/b", what: "b", manifest: m}
		check(t, u.Way(Host{OS: "linux", Home: "/home/me"}))
	})
}
