package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"text/template"
)

// formula writes the Homebrew formula, with the checksums of the archives for four platforms. If
// one of these archives is not made, it does not write the formula.
func (r *release) formula() error {
	sums := map[string]string{}
	for _, p := range []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}} {
		if !slices.Contains(r.platforms, p) {
			log.Printf("the Homebrew formula is not written, because it needs the archive for %s", p)
			return nil
		}
		sum, err := fileSum(filepath.Join(r.dist, r.archiveName(p)+".tar.gz"))
		if err != nil {
			return err
		}
		sums[p.os+"_"+p.arch] = sum
	}
	text, err := os.ReadFile(filepath.Join(r.files, "dragoman.rb.tmpl"))
	if err != nil {
		return err
	}
	t, err := template.New("formula").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return fmt.Errorf("the formula: %w", err)
	}
	return r.write("dragoman.rb", func(w io.Writer) error {
		return t.Execute(w, map[string]any{"version": r.version, "summary": summary, "homepage": homepage, "license": license, "sums": sums})
	})
}
