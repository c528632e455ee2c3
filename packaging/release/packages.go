package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages creates the deb and rpm packages for a Linux platform.
func (r *release) packages(p platform) error {
	for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		info, err := r.packageInfo(p, format)
		if err != nil {
			return err
		}
		if info, err = prepare(info, format); err != nil {
			return err
		}
		// GitHub replaces the character ~ in file names, for example in the file name of version
		// 1.2.3~rc.1.
		name := strings.ReplaceAll(packager.ConventionalFileName(info), "~", "-")
		if err := r.write(name, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

// prepare sets defaults and checks that no required field is missing.
func prepare(info *nfpm.Info, format string) (*nfpm.Info, error) {
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, format)
}

func (r *release) packageInfo(p platform, format string) (*nfpm.Info, error) {
	contents, err := r.contents(p, format)
	script := func(name string) string { return filepath.Join(r.files, name) }
	info := &nfpm.Info{
		Name: program, Arch: p.arch, Platform: "linux", Version: r.version, Release: "1", MTime: r.date,
		Section: "net", Priority: "optional", Maintainer: maintainer, Homepage: homepage, License: license,
		Description: summary + "\n" + description, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			// The program itself runs without other packages, except that it needs ca-certificates
			// for servers over HTTPS. Many MCP servers run on nodejs, npm or python3.
			Recommends: []string{"ca-certificates"},
			Suggests:   []string{"nodejs", "npm", "python3"},
			Contents:   contents,
			// Do not use the umask of this process.
			Umask: 0o022,
			Scripts: nfpm.Scripts{
				PreInstall: script("preinstall.sh"), PostInstall: script("postinstall.sh"),
				PreRemove: script("preremove.sh"), PostRemove: script("postremove.sh"),
			},
			Deb: nfpm.Deb{Predepends: []string{"passwd"}, Compression: "gzip", Fields: map[string]string{"Bugs": homepage + "/issues"}},
			RPM: nfpm.RPM{Summary: summary, BuildHost: "localhost", Group: "System/Servers", Compression: "gzip", Packager: maintainer},
		},
	}
	if format == "rpm" {
		info.Depends = []string{"/usr/sbin/useradd"}
	}
	return info, err
}

// contents returns the files of a package.
func (r *release) contents(p platform, format string) (all files.Contents, err error) {
	add := func(to, from, kind, group string, mode fs.FileMode) {
		all = append(all, &files.Content{
			Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: group, Mode: mode, MTime: r.date},
		})
	}
	packed := func(name string) string { return filepath.Join(r.files, name) }
	completion := func(shell string) string { return filepath.Join(r.completions(), shells[shell]) }
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
	const doc = "/usr/share/doc/dragoman/"
	add("/usr/bin/dragoman", r.built(p), "", "root", 0o755)
	add("/usr/lib/systemd/system/dragoman.service", packed("dragoman.service"), "", "root", 0o644)
	// The service can read this file but cannot change it.
	add("/etc/dragoman/dragoman.yaml", packed("dragoman.yaml"), "config|noreplace", "dragoman", 0o640)
	add("/usr/share/bash-completion/completions/dragoman", completion("bash"), "", "root", 0o644)
	add("/usr/share/zsh/"+zsh+"/_dragoman", completion("zsh"), "", "root", 0o644)
	add("/usr/share/fish/vendor_completions.d/dragoman.fish", completion("fish"), "", "root", 0o644)
	for to, from := range map[string]string{"copyright": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md"} {
		add(doc+to, filepath.Join(r.root, from), "", "root", 0o644)
	}
	pages, err := names(r.man())
	for _, name := range pages {
		small := filepath.Join(r.work, "man.gz", name+".gz")
		err = errors.Join(err, compress(small, filepath.Join(r.man(), name)))
		add("/usr/share/man/man1/"+name+".gz", small, "", "root", 0o644)
	}
	return all, err
}

// compress compresses the file from with gzip and writes the result to the file to. The gzip header
// contains no name and no date.
func compress(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	plain, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(plain); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}
