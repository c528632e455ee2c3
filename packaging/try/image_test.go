//go:build linux

package try

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImage checks that the archive is both a valid OCI layout and a valid docker archive of
// the same image. The image must have no shell, must not run as root, and must have a health
// check that works.
func TestImage(t *testing.T) {
	file := result(t, "dragoman_*_linux_"+runtime.GOARCH+".oci.tar")
	dir := t.TempDir()
	unpack(t, file, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	one := manifest.Manifests[0]
	if one.Platform == nil || one.Platform.OS != "linux" || one.Platform.Architecture != runtime.GOARCH || one.Annotations["org.opencontainers.image.ref.name"] != version(t) {
		t.Errorf("%+v", one)
	}
	img, err := index.Image(one.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Errorf("as OCI: %v", err)
	}
	docker, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(docker); err != nil {
		t.Errorf("for docker: %v", err)
	}
	a, err := img.ConfigName()
	b, err2 := docker.ConfigName()
	if err := errors.Join(err, err2); err != nil || a != b {
		t.Errorf("the two formats have different images: %s and %s, %v", a, b, err)
	}
	wantConfig(t, img)
	root := t.TempDir()
	files := wantFiles(t, img, root)
	pem, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) || strings.Count(string(pem), "BEGIN CERTIFICATE") < 80 {
		t.Errorf("authorities: %d bytes, %v", len(pem), err)
	}
	program := filepath.Join(root, "usr/bin/dragoman")
	if out := run(t, "", []string{}, program, "version"); !strings.HasPrefix(out, "dragoman "+version(t)+" (") || files["usr/bin/dragoman"] != 0o755 {
		t.Errorf("%s %o", out, files["usr/bin/dragoman"])
	}
	run(t, "", []string{}, program, "config", "check", "-c", filepath.Join(root, "etc/dragoman/dragoman.yaml"))
}

func wantConfig(t *testing.T, img v1.Image) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/dragoman"}) || c.Cmd[0] != "serve" || file.Architecture != runtime.GOARCH {
		t.Errorf("%+v", c)
	}
	// With the form CMD, the check runs without a shell.
	if c.Healthcheck == nil || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/usr/bin/dragoman", "-q", "healthcheck"}) {
		t.Errorf("%+v", c.Healthcheck)
	}
	if c.Labels["org.opencontainers.image.version"] != version(t) {
		t.Errorf("%v", c.Labels)
	}
}

// wantFiles checks the files in the image, writes them below root, and returns their modes.
func wantFiles(t *testing.T, img v1.Image, root string) map[string]fs.FileMode {
	t.Helper()
	files := map[string]fs.FileMode{}
	for _, h := range extract(t, img, root) {
		name := strings.TrimSuffix(h.Name, "/")
		files[name] = h.FileInfo().Mode()
		if name == "var/lib/dragoman" && h.Uid != 65532 {
			t.Errorf("HOME belongs to %d", h.Uid)
		}
	}
	if files["tmp"] != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("/tmp: %v", files["tmp"])
	}
	for name := range files {
		if strings.HasSuffix(name, "/sh") || strings.Contains(name, "busybox") {
			t.Errorf("it has %s", name)
		}
	}
	return files
}

// extract writes the files of an image below root, with their modes. If the test runs as root, they
// have their owners too.
func extract(t *testing.T, img v1.Image, root string) (headers []*tar.Header) {
	t.Helper()
	flat := mutate.Extract(img)
	defer flat.Close()
	for r := tar.NewReader(flat); ; {
		h, err := r.Next()
		if err == io.EOF {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		to := filepath.Join(root, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			writeFile(t, to, r)
		}
		if err = errors.Join(err, os.Chmod(to, h.FileInfo().Mode())); err == nil && os.Geteuid() == 0 {
			err = os.Chown(to, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			writeFile(t, filepath.Join(dir, filepath.FromSlash(h.Name)), r)
		}
	}
}

func writeFile(t *testing.T, to string, from io.Reader) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755); err == nil {
			_, err = io.Copy(f, from)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
