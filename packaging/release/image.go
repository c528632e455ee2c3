package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonRoot is the user id and the group id of the program in the image. A host usually has no user
// or group with this id.
const nonRoot = 65532

// image writes the container image of a Linux platform. The file is one archive that is valid in
// two formats: an OCI image layout, and the format that every version of "docker load" reads. Both
// formats refer to the same blobs.
func (r *release) image(p platform) error {
	img, err := r.newImage(p)
	if err != nil {
		return err
	}
	entries, err := r.layout(img)
	if err != nil {
		return err
	}
	return r.write(r.archiveName(p)+".oci.tar", func(w io.Writer) error { return r.tar(w, entries) })
}

// newImage creates the image. The image contains the program, the certificates of public
// authorities, a user, a configuration and writable folders. It contains no shell and no package
// manager.
func (r *release) newImage(p platform) (v1.Image, error) {
	config, err := os.ReadFile(filepath.Join(r.files, "dragoman.yaml"))
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(r.built(p))
	if err != nil {
		return nil, err
	}
	layers := [][]entry{
		{
			{name: "etc/", mode: 0o755},
			{name: "etc/dragoman/", mode: 0o755},
			{name: "etc/dragoman/dragoman.yaml", body: config, mode: 0o644},
			{name: "etc/group", body: fmt.Appendf(nil, "root:x:0:\ndragoman:x:%d:\n", nonRoot), mode: 0o644},
			{name: "etc/passwd", body: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\ndragoman:x:%d:%d:Dragoman:/var/lib/dragoman:/sbin/nologin\n", nonRoot, nonRoot), mode: 0o644},
			{name: "etc/ssl/", mode: 0o755},
			{name: "etc/ssl/certs/", mode: 0o755},
			{name: "etc/ssl/certs/ca-certificates.crt", body: authorities(), mode: 0o644},
			{name: "tmp/", mode: 0o777 | fs.ModeSticky},
			{name: "var/", mode: 0o755},
			{name: "var/lib/", mode: 0o755},
			{name: "var/lib/dragoman/", mode: 0o750, uid: nonRoot},
		},
		{
			{name: "usr/", mode: 0o755},
			{name: "usr/bin/", mode: 0o755},
			{name: "usr/bin/dragoman", body: binary, mode: 0o755},
		},
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, entries := range layers {
		var b bytes.Buffer
		if err := r.tar(&b, entries); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		what := []string{"certificates, user and configuration", "the program"}[i]
		img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make release", Comment: what}})
		if err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Author = "linux", p.arch, v1.Time{Time: r.date}, ""
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", nonRoot, nonRoot),
		Env:          []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/var/lib/dragoman"},
		Entrypoint:   []string{"/usr/bin/dragoman"},
		Cmd:          []string{"serve", "-c", "/etc/dragoman/dragoman.yaml"},
		WorkingDir:   "/var/lib/dragoman",
		ExposedPorts: map[string]struct{}{"7300/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/dragoman", "-q", "healthcheck"}, Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: 10 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":       program,
			"org.opencontainers.image.description": summary,
			"org.opencontainers.image.source":      homepage,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.commit,
			"org.opencontainers.image.licenses":    license,
			"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
		},
	}
	return mutate.ConfigFile(img, file)
}

// authorities returns the certificates of public authorities that Mozilla trusts without
// restrictions, as PEM. The certificates come from a pinned module and not from this machine.
func authorities() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}

// layout returns the files of the archive that contains an image.
func (r *release) layout(img v1.Image) ([]entry, error) {
	entries := []entry{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	blob := func(h v1.Hash, b []byte) string {
		name := "blobs/" + h.Algorithm + "/" + h.Hex
		entries = append(entries, entry{name: name, body: b, mode: 0o644})
		return name
	}
	digest, err := img.Digest()
	raw, err1 := img.RawManifest()
	config, err2 := img.RawConfigFile()
	configName, err3 := img.ConfigName()
	layers, err4 := img.Layers()
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		return nil, err
	}
	blob(digest, raw)
	old := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(configName, config), RepoTags: []string{imageName + ":" + r.version}}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			return nil, err
		}
		body, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		old.Layers = append(old.Layers, blob(h, b))
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: types.OCIManifestSchema1, Size: int64(len(raw)), Digest: digest,
		Platform: &v1.Platform{OS: file.OS, Architecture: file.Architecture},
		Annotations: map[string]string{
			"org.opencontainers.image.ref.name": r.version,
			"io.containerd.image.name":          imageName + ":" + r.version,
		},
	}}}
	for name, content := range map[string]any{"index.json": index, "manifest.json": []any{old}} {
		b, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: name, body: b, mode: 0o644})
	}
	entries = append(entries, entry{name: "oci-layout", body: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644})
	sortEntries(entries)
	return entries, nil
}
