package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// saver writes content from a server to files in one folder. It never writes outside of this
// folder, does not follow links that lead out of the folder, and never overwrites a file.
type saver struct {
	dir   string
	root  *os.Root
	saved int            // the number of saved files
	next  map[string]int // for each file name that was used: the number that save adds to the name next
}

// maxSaved is the maximum number of files that one command saves. Without this limit, a server
// could fill a disk even with empty files.
const maxSaved = 1000

// newSaver opens the folder dir, and creates it if it does not exist. It returns nil if dir is "".
// The caller must close the saver.
func newSaver(dir string) (*saver, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, withHint(fmt.Errorf("cannot make the folder of --save: %w", err), "choose another folder")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, withHint(fmt.Errorf("cannot open the folder of --save: %w", err), "choose another folder")
	}
	return &saver{dir: dir, root: root, next: map[string]int{}}, nil
}

// Close closes the folder. It does nothing if s is nil.
func (s *saver) Close() {
	if s != nil {
		_ = s.root.Close()
	}
}

// extensionsOf maps common media types to file extensions. Package mime is not used, because it
// reads tables of the operating system that differ between machines.
var extensionsOf = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg", "image/bmp": ".bmp", "image/tiff": ".tiff",
	"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac", "audio/webm": ".weba", "audio/mp4": ".m4a",
	"video/mp4": ".mp4", "video/webm": ".webm", "application/pdf": ".pdf", "application/json": ".json", "application/zip": ".zip", "application/gzip": ".gz",
	"text/plain": ".txt", "text/html": ".html", "text/markdown": ".md", "text/csv": ".csv", "text/css": ".css", "text/xml": ".xml", "application/xml": ".xml",
	"application/javascript": ".js", "text/javascript": ".js", "application/yaml": ".yaml", "text/yaml": ".yaml",
}

// reserved contains the device names of Windows. A file must not have one of these names, even with
// an extension.
var reserved = func() map[string]bool {
	out := map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}
	for i := range 10 {
		out["com"+strconv.Itoa(i)], out["lpt"+strconv.Itoa(i)] = true, true
	}
	return out
}()

// fileName converts a text to a file name that is safe on every system. The name contains only
// letters, digits, dots, dashes and underscores. It has at most about 100 bytes. It does not start
// or end with a dot. It does not start with a dash, because programs would treat such a name as a
// flag.
func fileName(wish string) string {
	const longest = 100
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r), strings.ContainsRune("._-", r):
			return r
		}
		return '_'
	}, wish)
	for len(name) > longest {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	name = strings.TrimLeft(strings.Trim(name, "._"), "-._")
	stem, _, _ := strings.Cut(name, ".")
	if reserved[strings.ToLower(stem)] {
		name = "_" + name
	}
	return name
}

// nameOf returns a file name for content with a URI and a media type. It uses the last part of the
// URI. If this part is not usable, it uses the parameter named otherwise.
func nameOf(uri, mime, otherwise string) string {
	name := ""
	if u, err := url.Parse(uri); err == nil {
		last := u.Path
		if last == "" {
			last = u.Opaque
		}
		if last = path.Base(last); last != "." && last != "/" {
			name = fileName(last)
		}
	}
	if name == "" {
		name = fileName(otherwise)
	}
	if name == "" {
		name = "content"
	}
	kind, _, _ := strings.Cut(strings.ToLower(mime), ";")
	if path.Ext(name) == "" {
		if ext, ok := extensionsOf[strings.TrimSpace(kind)]; ok {
			name += ext
		} else if kind != "" && !strings.HasPrefix(kind, "text/") {
			name += ".bin"
		}
	}
	return name
}

// save writes data to a new file and returns the path of the file. If a file with this name exists,
// save adds a number to the name.
func (s *saver) save(name string, data []byte) (string, error) {
	const most = 10_000
	if s.saved == maxSaved {
		return "", withHint(fmt.Errorf("cannot save to %s: the server sent more than %d files", s.dir, maxSaved), "the first %d files are saved; ask the server for fewer items", maxSaved)
	}
	wish, ext := name, path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := max(s.next[wish], 1); n <= most; n++ {
		if n > 1 {
			name = stem + "-" + strconv.Itoa(n) + ext
		}
		f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("cannot save to %s: %w", s.dir, err)
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = s.root.Remove(name)
			return "", fmt.Errorf("cannot save to %s: %w", s.dir, err)
		}
		s.saved++
		s.next[wish] = n + 1
		return filepath.Join(s.dir, name), nil
	}
	return "", fmt.Errorf("cannot save to %s: %d files have the name %s already", s.dir, most, name)
}

// decode returns the bytes that a JSON string encodes in base64. It accepts the standard and the
// URL-safe alphabet, with or without padding, because servers use different forms.
func decode(raw []byte, at jsonrpc.Span) ([]byte, error) {
	text, ok := jsonrpc.Text(raw, at)
	if !ok {
		return nil, errors.New("the server sent no data")
	}
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(text), "=")
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the data of the server is not base64")
	}
	return b, nil
}
