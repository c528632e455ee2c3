package transcript

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// step is one section of a file, except the section config.
type step struct {
	party  string // "client" or "upstream"
	action string // "send", "expect" or "close"
	lines  []string
}

func (s *step) name() string { return s.party + "." + s.action }

// script is one parsed file.
type script struct {
	file   string
	prose  []byte
	config string
	steps  []step
}

func parse(file string) (*script, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	archive := txtar.Parse(b)
	s := &script{file: file, prose: archive.Comment}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		return nil, fmt.Errorf("%s: the file does not begin with a description of the conversation", file)
	}
	for i, f := range archive.Files {
		if f.Name == "config" {
			if i > 0 {
				return nil, fmt.Errorf("%s: config has to be the first section", file)
			}
			s.config = string(f.Data)
			continue
		}
		party, action, _ := strings.Cut(f.Name, ".")
		st := step{party: party, action: action, lines: split(f.Data)}
		if party != "client" && party != "upstream" {
			return nil, fmt.Errorf("%s: section %q must begin with client or upstream", file, f.Name)
		}
		switch action {
		case "expect":
		case "send":
			if len(st.lines) == 0 {
				return nil, fmt.Errorf("%s: section %q sends nothing", file, f.Name)
			}
		case "close":
			if len(st.lines) > 0 {
				return nil, fmt.Errorf("%s: section %q must be empty", file, f.Name)
			}
		default:
			return nil, fmt.Errorf("%s: section %q: want send, expect or close", file, f.Name)
		}
		s.steps = append(s.steps, st)
	}
	if len(s.steps) == 0 {
		return nil, fmt.Errorf("%s: no conversation", file)
	}
	return s, nil
}

// split returns the lines of a section, without the empty lines at its beginning and end.
func split(b []byte) []string {
	text := strings.Trim(string(b), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// format returns the script as the text of a file.
func (s *script) format() []byte {
	archive := &txtar.Archive{Comment: s.prose}
	if s.config != "" {
		archive.Files = append(archive.Files, txtar.File{Name: "config", Data: []byte(s.config)})
	}
	for _, st := range s.steps {
		var data []byte
		for _, l := range st.lines {
			data = append(append(data, l...), '\n')
		}
		archive.Files = append(archive.Files, txtar.File{Name: st.name(), Data: data})
	}
	return txtar.Format(archive)
}

// Lines returns the lines of all sections except config, from the files that match the pattern.
// Fuzz tests use these lines as seeds.
func Lines(pattern string) ([][]byte, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, f := range files {
		s, err := parse(f)
		if err != nil {
			return nil, err
		}
		for _, st := range s.steps {
			for _, l := range st.lines {
				lines = append(lines, []byte(l))
			}
		}
	}
	return lines, nil
}

const wildcard = "<*>"

// matches reports whether the line got equals the expected line want. A wildcard in want matches
// any text without a double quote.
func matches(want, got string) bool {
	head, rest, wild := strings.Cut(want, wildcard)
	tail, ok := strings.CutPrefix(got, head)
	if !ok || !wild {
		return ok && tail == ""
	}
	for n := 0; ; n++ { // try each length n of the text that the wildcard matches
		if matches(rest, tail[n:]) {
			return true
		}
		if n == len(tail) || tail[n] == '"' {
			return false
		}
	}
}
