package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestTLS checks which pairs of files can be named, and that a key which stands in the file by mistake isn't shown.
func TestTLS(t *testing.T) {
	const key = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg"
	for _, c := range []struct {
		setting string
		want    TLS
		bad     string
	}{
		{`{cert: a.pem, key: "/etc/b.pem"}`, TLS{filepath.Join("here", "a.pem"), "/etc/b.pem"}, ""},
		{`{cert: "${CERT}", key: b.pem}`, TLS{filepath.Join("here", "c.pem"), filepath.Join("here", "b.pem")}, ""},
		{`{cert: a.pem}`, TLS{}, "dragoman.tls: key is missing; write {cert: FILE, key: FILE}, with the paths of two PEM files"},
		{`{key: a.pem}`, TLS{}, "cert is missing"},
		{`{}`, TLS{}, "cert is missing"},
		{`{cert: "", key: b.pem}`, TLS{}, "must not be empty"},
		{`{cert: a.pem, key: "-----BEGIN PRIVATE KEY-----\n` + key + `\n"}`, TLS{}, "dragoman.tls.key: is not a path; write the key into a file of its own, and the path of this file here"},
		{`{cert: a.pem, kye: "` + key + `"}`, TLS{}, "unknown key"},
		{`a.pem`, TLS{}, "must be a mapping"},
	} {
		s, problems := Parse(filepath.Join("here", "f"), []byte("mcpServers: {}\ndragoman: {tls: "+c.setting+"}"), env("CERT=c.pem"))
		text := listing(problems)
		for _, p := range problems {
			text += p.Source
		}
		if c.bad != "" {
			if s != nil || !strings.Contains(text, c.bad) || strings.Contains(text, key) {
				t.Errorf("%s: %s", c.setting, text)
			}
			continue
		}
		if s == nil || len(problems) > 0 || s.TLS != c.want {
			t.Errorf("%s: %+v, %s", c.setting, s, text)
			continue
		}
		again, problems := Parse("f", s.AppendYAML(nil), nil)
		if again == nil || strings.HasSuffix(again.TLS.Key, "b.pem") != strings.HasSuffix(c.want.Key, "b.pem") {
			t.Errorf("%s is printed as\n%s%s", c.setting, s.AppendYAML(nil), listing(problems))
		}
	}
}
