package runtime

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// listFiles keeps the lists of servers in a folder, one file for each list, so that a later process can
// show them while the servers start. Several processes may use the folder at the same time: a file is
// always replaced as a whole. A list that cannot be written or read is only not kept.
type listFiles struct {
	folder string
	key    []byte // for the names of the files
	log    *slog.Logger
	failed atomic.Bool // the log already says that lists cannot be written
}

// These constants bound the files. If the folder exceeds maxListFiles or maxListBytes, the oldest files
// are removed.
const (
	maxListFile  = 4 << 20
	maxListFiles = 1000
	maxListBytes = 64 << 20
	// rewriteList is how old the time in a file may become while the list stays the same.
	rewriteList = time.Hour
)

// listFormat is the version of the format of the files.
const listFormat = 1

// shelf keeps the lists of one server. It implements [catalog.Keeper]. A nil shelf keeps nothing.
type shelf struct {
	files   *listFiles
	project string                   // "" for the default project
	name    string                   // the name of the server
	id      string                   // the fingerprint of its settings: with other settings it is another server
	clean   func(text string) string // masks the secrets in its settings

	mu     sync.Mutex
	last   map[string]keptList // the lists in the files, by method
	logged map[string]bool     // the lists of which the log says that they contain a secret, by method
}

// keptList is what a shelf knows about a file.
type keptList struct {
	sum  [sha256.Size]byte // of the items
	read time.Time
}

// shelf returns the shelf of a project's server, or nil if no lists are kept.
func (l *listFiles) shelf(project string, c config.Server) *shelf {
	if l == nil {
		return nil
	}
	if project == event.DefaultProject {
		project = ""
	}
	return &shelf{
		files: l, project: project, name: c.Name, id: c.Fingerprint, clean: excerpt.MaskKnown(c.Secrets()),
		last: make(map[string]keptList), logged: make(map[string]bool),
	}
}

// path returns the path of the file for a list. The name of the file is a keyed hash, because the
// settings may contain secrets that could be guessed.
func (s *shelf) path(method string) string {
	h := hmac.New(sha256.New, s.files.key)
	texts := []string{s.name, s.id, method}
	if s.project != "" {
		texts = append(texts, s.project)
	}
	for _, text := range texts {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	return filepath.Join(s.files.folder, hex.EncodeToString(h.Sum(nil)[:16])+".json")
}

// Recall implements [catalog.Keeper].
func (s *shelf) Recall(method string) (items [][]byte, read time.Time) {
	if s == nil {
		return nil, time.Time{}
	}
	raw, err := readListFile(s.path(method))
	if err == nil {
		items, read, err = s.parse(raw, method)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, time.Time{}
	case err != nil:
		s.files.log.Info("a kept list is not used", "server", s.name, "list", method, "cause", err.Error())
		return nil, time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[method] = keptList{sumOf(items), read}
	return items, read
}

// readListFile reads a file of at most maxListFile bytes.
func readListFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file") // opening a pipe could wait forever
	case info.Size() > maxListFile:
		return nil, errors.New("the file is too large")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxListFile)) // a file that has grown since is not complete, so parse refuses it
}

// parse returns the items in a file, and when they were read. It trusts nothing in the file.
func (s *shelf) parse(raw []byte, method string) (items [][]byte, read time.Time, err error) {
	if err := jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: maxListFile}); err != nil {
		return nil, read, err
	}
	v := jsonrpc.ValueOf(raw)
	format, ok := v.Get("format").Int()
	text, _ := v.Get("read").Text()
	read, bad := time.Parse(time.RFC3339, text)
	switch {
	case v.Kind() != '{' || !ok || format != listFormat:
		return nil, read, errors.New("the file has another format")
	case !v.Get("server").Is(s.name) || !v.Get("method").Is(method):
		return nil, read, errors.New("the file is about another list")
	case bad != nil || read.IsZero() || read.After(time.Now().Add(time.Minute)):
		return nil, read, errors.New("the time in the file is not valid")
	}
	for x := range v.Get("items").Elements() {
		if x.Kind() != '{' {
			return nil, read, errors.New("an item is not an object")
		}
		items = append(items, x.Raw())
	}
	if len(items) == 0 {
		return nil, read, errors.New("the file has no items")
	}
	return items, read, nil
}

// Keep implements [catalog.Keeper].
func (s *shelf) Keep(method string, items [][]byte, read time.Time) {
	if s == nil {
		return
	}
	now := keptList{sumOf(items), read}
	s.mu.Lock()
	last, known := s.last[method]
	if known && last.sum == now.sum && read.Sub(last.read) < rewriteList {
		s.mu.Unlock()
		return
	}
	s.last[method] = now
	s.mu.Unlock()
	path, text := s.path(method), s.text(method, items, read)
	if len(items) == 0 || len(text) > maxListFile || jsonrpc.Valid(text, jsonrpc.Limits{Bytes: maxListFile}) != nil || s.tells(method, string(text)) {
		_ = os.Remove(path) // an older list would be wrong
		return
	}
	err := s.files.write(path, text)
	if err != nil && !s.files.failed.Swap(true) {
		s.files.log.Warn("the servers' lists could not be kept, so after the next start clients see them only when the servers are ready", "cause", err.Error())
	}
}

// text returns the content of a file.
func (s *shelf) text(method string, items [][]byte, read time.Time) []byte {
	out := fmt.Appendf(nil, `{"format":%d,"server":`, listFormat)
	out = jsonrpc.AppendQuote(append(jsonrpc.AppendQuote(out, s.name), `,"method":`...), method)
	out = jsonrpc.AppendQuote(append(out, `,"read":`...), read.UTC().Format(time.RFC3339))
	out = append(out, `,"items":[`...)
	for i, x := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, '\n'), x...)
	}
	return append(out, "]}\n"...)
}

// tells reports whether the text of a list contains a secret from the configuration of the server,
// whatever escapes the server writes it with. For the first such list of a method, tells writes a log
// record.
func (s *shelf) tells(method, text string) bool {
	if s.clean(text) == text {
		return false
	}
	s.mu.Lock()
	again := s.logged[method]
	s.logged[method] = true
	s.mu.Unlock()
	if !again {
		s.files.log.Info("a list is not kept, because it contains a secret", "server", s.name, "list", method)
	}
	return true
}

// write replaces a file, and removes the oldest files if there are too many.
func (l *listFiles) write(path string, text []byte) error {
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(l.folder, ".list-*") // os.CreateTemp sets the mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	l.tidy()
	return nil
}

// tidy removes the oldest files until the folder is within its bounds. These are mostly files of
// servers that were removed or whose settings have changed.
func (l *listFiles) tidy() {
	entries, _ := os.ReadDir(l.folder)
	var all []fs.FileInfo
	size := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, info)
			size += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for len(all) > maxListFiles || size > maxListBytes {
		_ = os.Remove(filepath.Join(l.folder, all[0].Name()))
		size -= all[0].Size()
		all = all[1:]
	}
}

func sumOf(items [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, x := range items {
		fmt.Fprintf(h, "%d ", len(x))
		h.Write(x)
	}
	h.Sum(sum[:0])
	return sum
}
