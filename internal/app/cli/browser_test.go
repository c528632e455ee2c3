//go:build unix

package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func envOf(pairs ...string) environment {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

// TestTA28_BrowserGetsAURL starts real programs as browsers: each gets the URL and nothing else.
func TestTA28_BrowserGetsAURL(t *testing.T) {
	dir := t.TempDir()
	script, log := filepath.Join(dir, "browser"), filepath.Join(dir, "log")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" >> '"+log+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		b, _ := os.ReadFile(log)
		_ = os.Remove(log)
		return string(b)
	}
	open := func(browser, link string) error {
		return envOf("BROWSER="+browser).seat().Open(context.Background(), link)
	}
	const link = "https://id.example/authorize?a=b&c=%20d#e"
	for browser, want := range map[string]string{
		script: "1\n" + link + "\n", "no-such-browser:" + script: "1\n" + link + "\n", "/bin/false:" + script + " --new-tab": "2\n--new-tab\n" + link + "\n",
		script + " x=%s y": "2\nx=" + link + "\ny\n",
	} {
		if err := open(browser, link); err != nil {
			t.Errorf("%s: %v", browser, err)
		}
		if got := said(); got != want {
			t.Errorf("%s: %q, want %q", browser, got, want)
		}
	}
	if err := open("/bin/false", link); err == nil {
		t.Error("a browser that failed was opened")
	}
}
