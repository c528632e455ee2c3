package config

import (
	"bytes"
	"slices"
	"strings"
)

// ProjectInFile is a project that a file declares, with its text.
type ProjectInFile struct {
	Name string
	Text []byte
}

// exported are the lines above the text of a project in a file that ProjectFile returns, and inside is in
// front of each of its lines that isn't empty.
const exported, inside = "dragoman:\n  projects:\n    ", "      "

// ProjectFile returns a configuration file that declares one project, whose text is as ParseProject reads it.
// The text keeps its comments, unless it begins as a document of its own and so can't stand in another one.
// ProjectTexts returns the same text again.
func ProjectFile(name string, text []byte) ([]byte, Problems) {
	canonical, problems := ProjectText(text)
	if len(problems) > 0 {
		return nil, problems
	}
	file := wrapProject(name, text)
	if got, ok := FileProjectText("project.yaml", file, name); !ok || !bytes.Equal(got, canonical) || marksDocument(text) {
		file = wrapProject(name, canonical)
	}
	return file, nil
}

// marksDocument reports whether a line of a text may mean something only outside of a mapping.
func marksDocument(text []byte) bool {
	for line := range bytes.Lines(text) {
		for _, mark := range []string{"---", "...", "\ufeff"} {
			if bytes.HasPrefix(line, []byte(mark)) {
				return true
			}
		}
	}
	return false
}

func wrapProject(name string, text []byte) []byte {
	b := []byte(exported + word(name) + ":\n")
	for line := range bytes.Lines(text) {
		if line[0] != '\n' {
			b = append(b, inside...)
		}
		b = append(b, line...)
	}
	return b
}

// ProjectTexts returns the projects that the file with the content b declares, in their order. The text of
// one that ProjectFile has written is as it was, and that of any other is canonical; see ProjectText.
func ProjectTexts(file string, b []byte) (all []ProjectInFile, problems Problems) {
	names, problems := projectNames(file, b)
	for _, name := range names {
		text, ok := FileProjectText(file, b, name)
		if !ok {
			return nil, Problems{{File: file, Path: "dragoman.projects." + name, Text: "must be a mapping"}}
		}
		if own, ok := unwrapProject(name, b); ok && len(names) == 1 {
			if canonical, problems := ProjectText(own); len(problems) == 0 && bytes.Equal(canonical, text) {
				text = own
			}
		}
		all = append(all, ProjectInFile{name, text})
	}
	return all, problems
}

// projectNames returns the names of the projects that a file declares.
func projectNames(file string, b []byte) (names []string, problems Problems) {
	c, at := openFile(file, b, ourKey, "projects")
	c.source.show(file, c.problems)
	if at != nil {
		for _, m := range at.members {
			names = append(names, m.key)
		}
	}
	return names, c.problems
}

// openFile reads a file and returns what it has at a path of keys, or nil if there is nothing.
func openFile(file string, b []byte, path ...string) (*compiler, *node) {
	none := func(string) (string, bool) { return "", false }
	c := &compiler{file: file, home: ourKey, process: none, env: none}
	at := c.readFile(b)
	for _, key := range path {
		if at == nil {
			return c, nil
		}
		i := slices.IndexFunc(at.members, func(m member) bool { return m.key == key })
		if i < 0 {
			return c, nil
		}
		at = at.members[i].value
	}
	return c, at
}

// unwrapProject undoes wrapProject.
func unwrapProject(name string, file []byte) (text []byte, ok bool) {
	rest, ok := strings.CutPrefix(string(file), exported+word(name)+":\n")
	if !ok {
		return nil, false
	}
	for line := range strings.Lines(rest) {
		own, indented := strings.CutPrefix(line, inside)
		if !indented && line != "\n" {
			return nil, false
		}
		text = append(text, own...)
	}
	return text, true
}
