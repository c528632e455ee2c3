package cli

import (
	"os/exec"
	"strings"
	"testing"
)

// TestManPages checks that each command has a page with its flags and examples. If groff is
// installed, it also checks that groff reports no errors.
func TestManPages(t *testing.T) {
	root := testRoot()
	pages := map[string]string{}
	for _, p := range manPages(root) {
		pages[p.file] = string(p.roff)
	}
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		page := pages["dragoman-"+c.Name()+".1"]
		for _, want := range []string{".SH NAME\ndragoman\\-" + c.Name() + ` \- `, ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES", `\fBdragoman\fR(1)`} {
			if !strings.Contains(page, want) {
				t.Errorf("dragoman-%s.1 lacks %q:\n%s", c.Name(), want, page)
			}
		}
	}
	if p := pages["dragoman-serve.1"]; !strings.Contains(p, ".TP\n\\fB\\-\\-listen\\fR=\\fIADDR\\fR\n") || strings.Contains(p, "\n.yaml") {
		t.Errorf("dragoman-serve.1:\n%s", p)
	}
	if p := pages["dragoman.1"]; !strings.Contains(p, ".SH FILES") || !strings.Contains(p, ".SH ENVIRONMENT") || !strings.Contains(p, `\-\-version`) {
		t.Errorf("dragoman.1:\n%s", p)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is not installed, so it did not check the pages")
		return
	}
	for file, page := range pages {
		c := exec.Command(groff, "-ww", "-man", "-Tutf8", "-z")
		c.Stdin = strings.NewReader(page)
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v %s", file, err, out)
		}
	}
}

// TestRoffText checks that no line of text can become a roff request.
func TestRoffText(t *testing.T) {
	for in, want := range map[string]string{
		".yaml\n'x' a-b": `\&.yaml` + "\n" + `\(aqx\(aq a\-b`,
		`\e "q" ~/x`:     `\ee \(dqq\(dq \(ti/x`,
	} {
		if got := roffText(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
