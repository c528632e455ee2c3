package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// entry is one file of an archive or image. If its name ends with a slash, the entry is a folder.
type entry struct {
	name string // the path, with slashes
	body []byte
	mode fs.FileMode
	uid  int // the user id and the group id of the owner
}

// archiveName returns the name of a platform's archive without its extension.
func (r *release) archiveName(p platform) string {
	return program + "_" + r.version + "_" + p.os + "_" + p.arch
}

// archive creates the archive for a platform. It contains a folder with the program, its documents,
// manual pages and completions.
func (r *release) archive(p platform) error {
	entries, err := r.archived(p)
	if err != nil {
		return err
	}
	if p.os == "windows" {
		return r.write(r.archiveName(p)+".zip", func(w io.Writer) error { return r.zip(w, entries) })
	}
	return r.write(r.archiveName(p)+".tar.gz", func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(r.tar(z, entries), z.Close())
	})
}

func (r *release) archived(p platform) ([]entry, error) {
	top := r.archiveName(p) + "/"
	entries := []entry{{name: top, mode: 0o755}}
	add := func(name, from string, mode fs.FileMode) error {
		b, err := os.ReadFile(from)
		entries = append(entries, entry{name: top + name, body: b, mode: mode})
		return err
	}
	err := add(p.binary(), r.built(p), 0o755)
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
		err = errors.Join(err, add(name, filepath.Join(r.root, name), 0o644))
	}
	for _, dir := range []string{r.completions(), r.man()} {
		all, e := names(dir)
		err = errors.Join(err, e)
		entries = append(entries, entry{name: top + filepath.Base(dir) + "/", mode: 0o755})
		for _, name := range all {
			err = errors.Join(err, add(filepath.Base(dir)+"/"+name, filepath.Join(dir, name), 0o644))
		}
	}
	return entries, err
}

// tar writes entries as a tar file. The time of each entry is the date of the release.
func (r *release) tar(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.body)), ModTime: r.date, Typeflag: tar.TypeReg, Format: tar.FormatPAX, Uid: e.uid, Gid: e.uid}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.body); err != nil {
			return err
		}
	}
	return t.Close()
}

// zip writes entries as a zip file. The time of each entry is the date of the release.
func (r *release) zip(w io.Writer, entries []entry) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(e.mode)
		if strings.HasSuffix(e.name, "/") {
			h.Method = zip.Store
			h.SetMode(e.mode | fs.ModeDir)
		}
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.body); err != nil {
			return err
		}
	}
	return z.Close()
}

// write creates a file in the folder of the results. The function body writes its content. If this
// fails, write removes the file.
func (r *release) write(name string, body func(io.Writer) error) error {
	to := filepath.Join(r.dist, name)
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(body(f), f.Close()); err != nil {
		_ = os.Remove(to)
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// checksums writes SHA256SUMS, in the format that sha256sum reads.
func (r *release) checksums() error {
	all, err := names(r.dist)
	if err != nil {
		return err
	}
	return r.write("SHA256SUMS", func(w io.Writer) error {
		for _, name := range slices.DeleteFunc(all, func(n string) bool { return n == "SHA256SUMS" }) {
			sum, err := fileSum(filepath.Join(r.dist, name))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s  %s\n", sum, path.Base(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fileSum returns the SHA-256 of a file in hexadecimal.
func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
