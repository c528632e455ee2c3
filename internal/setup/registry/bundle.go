package registry

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// These bound a bundle.
const (
	maxBundle   = 256 << 20 // the bytes of the .mcpb file
	maxUnpacked = 1 << 30   // the bytes of all its files
	maxFiles    = 20_000
	maxPath     = 240     // the bytes of one path, which must also fit on Windows
	maxManifest = 1 << 20 // the bytes of manifest.json
	// maxMarks is how often the mark of a directory entry may occur in the file. It bounds the memory
	// that package zip takes before it returns anything. Archives within the bundle have marks too.
	maxMarks = 10 * maxFiles
)

// bundleSource is where a bundle comes from.
type bundleSource struct {
	address string
	sum     string // the SHA-256 in hexadecimal digits
}

// bundle sets the source of a bundle.
func (b *builder) bundle(p *packageJSON) {
	b.way.What = excerpt.Word(p.Identifier, 200)
	if bad := badAddress(p.Identifier); bad != "" {
		b.fail("%s", bad)
	}
	if !sha256Sum().MatchString(p.FileSHA256) {
		b.fail("has no SHA-256, so nobody could notice another file in its place")
	}
	u, err := url.Parse(p.Identifier)
	if err == nil && u.Host != "github.com" && u.Host != "gitlab.com" {
		b.caution("takes the bundle from %s, which is not one of the usual hosts", excerpt.Word(u.Host, 100))
	}
	b.way.bundle = bundleSource{p.Identifier, p.FileSHA256}
}

// Bundle is an unpacked bundle.
type Bundle struct {
	Dir     string // the absolute path of the folder
	Name    string // safe to print, like all texts
	Version string

	what     string
	manifest manifestJSON
}

// Install downloads the bundle of a way, checks its SHA-256 and unpacks it into a new folder below
// dir. If the same bundle is there already, Install uses it. A Way of the bundle itself then replaces
// w; see Bundle.Way. agreed means the same as Answers.Agreed.
//
// Unlike Registry, Install follows redirects to other hosts, because the usual hosts of bundles
// redirect to their storage. The checksum is what protects the user.
func Install(ctx context.Context, client *http.Client, w *Way, dir string, agreed bool) (*Bundle, error) {
	switch {
	case w.Problem != "":
		return nil, fmt.Errorf("%s %s", w.What, w.Problem)
	case w.bundle.address == "":
		return nil, fmt.Errorf("%s is not a bundle", w.What)
	case len(w.Cautions) > 0 && !agreed:
		return nil, &Cautioned{w.Cautions}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder for bundles: %w", err)
	}
	name := strings.TrimSuffix(path.Base(w.bundle.address), ".mcpb")
	final := filepath.Join(dir, clientfile.Name(excerpt.Cut(name, 40))+"-"+w.bundle.sum[:16])
	if _, err := os.Stat(final); err == nil {
		return openBundle(final, w.What)
	}
	f, err := os.CreateTemp(dir, ".download-*")
	if err != nil {
		return nil, fmt.Errorf("cannot store the bundle: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	size, err := download(ctx, client, w.bundle, f)
	if err != nil {
		return nil, fmt.Errorf("cannot download %s: %w", w.What, err)
	}
	part, err := os.MkdirTemp(dir, ".unpack-*")
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the bundle: %w", err)
	}
	defer os.RemoveAll(part) // finds nothing after the rename
	if err := unpack(ctx, f, size, part); err != nil {
		return nil, fmt.Errorf("cannot unpack %s: %w", w.What, err)
	}
	b, err := openBundle(part, w.What)
	if err != nil {
		return nil, err
	}
	if entry := b.manifest.Server.EntryPoint; b.manifest.Server.Type == "binary" && badPath(entry) == "" {
		// A bundle that was packed on Windows does not say which files are programs.
		if err := os.Chmod(filepath.Join(part, filepath.FromSlash(entry)), 0o755); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot unpack %s: %w", w.What, err)
		}
	}
	if err := os.Rename(part, final); err != nil {
		return nil, fmt.Errorf("cannot store the bundle: %w", err)
	}
	return openBundle(final, w.What)
}

// download writes a bundle to f and checks its SHA-256. It returns the size.
func download(ctx context.Context, client *http.Client, from bundleSource, f io.Writer) (int64, error) {
	own := *client
	own.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if bad := badURL(next.URL); bad != "" || next.URL.Scheme != before[0].URL.Scheme {
			return fmt.Errorf("it redirects to %s, which is not as safe", excerpt.Quote(next.URL.Redacted(), 200))
		}
		if len(before) > 5 {
			return errors.New("it redirects too often")
		}
		return nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, from.address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := own.Do(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the status is %d", resp.StatusCode)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(resp.Body, maxBundle+1))
	switch {
	case err != nil:
		return 0, err
	case n > maxBundle:
		return 0, fmt.Errorf("it is larger than %d MiB", maxBundle>>20)
	case hex.EncodeToString(sum.Sum(nil)) != from.sum:
		return 0, errors.New("its SHA-256 is not the one in the registry, so it is another file")
	}
	return n, nil
}

// unpack writes the files of a zip archive into dir. It stops at the first path that is not plain,
// and at the first file that is neither regular nor a folder.
func unpack(ctx context.Context, r io.ReaderAt, size int64, dir string) error {
	if err := countMarks(r, size); err != nil {
		return err
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return errors.New("it is not a zip archive")
	}
	if len(z.File) > maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(maxUnpacked)
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if bad := badPath(f.Name); bad != "" {
			return fmt.Errorf("the path %s %s", excerpt.Quote(f.Name, 100), bad)
		}
		switch mode := f.Mode(); {
		case mode.IsDir():
			err = root.MkdirAll(path.Clean(f.Name), 0o755)
		case mode.IsRegular():
			left, err = unpackFile(root, f, left)
		default:
			err = fmt.Errorf("%s is a link or a device", excerpt.Quote(f.Name, 100))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unpackFile writes one file of at most left bytes, and returns how many bytes are left then.
func unpackFile(root *os.Root, f *zip.File, left int64) (int64, error) {
	in, err := f.Open()
	if err != nil {
		return 0, fmt.Errorf("%s cannot be read: %w", excerpt.Quote(f.Name, 100), err)
	}
	defer in.Close()
	if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return 0, err
	}
	mode := fs.FileMode(0o644)
	if f.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", excerpt.Quote(f.Name, 100), err)
	}
	n, err := io.Copy(out, io.LimitReader(in, left+1))
	if e := out.Close(); err == nil {
		err = e
	}
	if err == nil && n > left {
		err = fmt.Errorf("its files have more than %d MiB", maxUnpacked>>20)
	}
	return left - n, err
}

// badPath returns the problem with a path in an archive, or "". It refuses what leaves the folder on
// any system, whichever this one is.
func badPath(p string) string {
	clean := strings.TrimSuffix(p, "/")
	switch {
	case len(p) > maxPath:
		return "is too long"
	case clean == "" || strings.HasPrefix(p, "/") || strings.ContainsAny(p, `\:`) || !filepath.IsLocal(filepath.FromSlash(clean)) || path.Clean(clean) != clean:
		return "is not a plain relative path"
	case strings.ContainsFunc(p, unicode.IsControl):
		return "contains a control character"
	}
	return ""
}

// countMarks counts the marks of directory entries in a file.
func countMarks(r io.ReaderAt, size int64) error {
	mark := []byte("PK\x01\x02")
	b := make([]byte, 1<<20)
	n := 0
	for at := int64(0); at < size; at += int64(len(b) - len(mark) + 1) { // the next part begins with the end of this one
		got, err := r.ReadAt(b[:min(int64(len(b)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n += bytes.Count(b[:got], mark); n > maxMarks {
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
	}
	return nil
}
