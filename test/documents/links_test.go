package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks checks the links in all documents that point to files of this tree, with their
// anchors.
func TestLinks(t *testing.T) {
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "changelog/*/*.md", "examples/*/*.md", ".github/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	links := 0
	for _, path := range all {
		for _, m := range link.FindAllStringSubmatch(withoutCode(t, path), -1) {
			to := m[1] + m[2]
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(to, "#")
			target := path
			if file != "" {
				dir := filepath.Dir(path)
				if strings.Contains(path, "unreleased") {
					dir = root // a release moves these entries into CHANGELOG.md, so their links are relative to the root
				}
				target = filepath.Join(dir, file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the target of the link %s does not exist", path, to)
				continue
			}
			if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: %s: there is no such heading", path, to)
			}
		}
	}
	if links < 50 {
		t.Errorf("found only %d links", links)
	}
}

func withoutCode(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// anchors returns the anchors of a document: those that GitHub creates for its headings, and
// explicit ones.
func anchors(t *testing.T, path string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(withoutCode(t, path), -1) {
		text := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		text = dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
		out[strings.ReplaceAll(text, " ", "-")] = true
	}
	for _, m := range regexp.MustCompile(`<a (?:id|name)="([^"]+)"`).FindAllStringSubmatch(withoutCode(t, path), -1) {
		out[m[1]] = true
	}
	return out
}
