package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
)

// fingerprint hashes the settings that a running server cannot adopt without a restart.
// The length of each text and each list is hashed too, so that two different configurations never
// give the hash the same input.
func fingerprint(s *Server, dialects []*dialect.Profile) string {
	h := sha256.New()
	var n [8]byte
	count := func(i int) {
		binary.LittleEndian.PutUint64(n[:], uint64(i))
		h.Write(n[:])
	}
	text := func(t string) {
		count(len(t))
		h.Write([]byte(t))
	}
	if s.Unusable != nil {
		text("without " + s.Unusable.reference())
	}
	text(s.Kind.String())
	text(s.Command)
	count(len(s.Args))
	for _, a := range s.Args {
		text(a)
	}
	count(len(s.Env))
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		text(k)
		text(s.Env[k].Reveal())
	}
	count(len(s.InheritEnv))
	for _, pattern := range s.InheritEnv {
		text(pattern)
	}
	text(s.Dir)
	text(s.URL)
	count(len(s.Header))
	for _, f := range s.Header {
		text(f.Name)
		text(f.Value.Reveal())
	}
	text(s.CAFile)
	s.SignIn.hash(text, count)
	text(s.Isolation.String())
	text(s.Revision.String())
	text(s.Dialect)
	count(s.Message)
	if s.Profile != nil {
		dialects = []*dialect.Profile{s.Profile}
	}
	for _, p := range dialects { // the YAML of a profile contains all its settings
		if s.Profile != nil || len(p.Detect.Has) > 0 {
			text(string(appendDialect(nil, p)))
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

// maskURL masks the parts of a URL that may be credentials: user info and query.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return mask
	}
	out := ""
	if u.Scheme != "" {
		out = u.Scheme + "://"
	}
	if u.User != nil {
		out += mask + "@"
	}
	out += u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		out += "?" + mask
	}
	return out
}

// writtenURL returns a URL as it stands in the file, with its references by name, for people. It masks the
// same as maskURL, and the defaults of references.
func writtenURL(text string) string {
	var names []string
	token := func(i int) string { return "dragoman-reference-" + strconv.Itoa(i) + "-" }
	text = reference().ReplaceAllStringFunc(text, func(ref string) string {
		name, _, _ := strings.Cut(strings.Trim(ref, "${}"), ":-")
		names = append(names, "${"+name+"}")
		return token(len(names) - 1)
	})
	out := maskURL(text)
	for i, name := range names {
		out = strings.Replace(out, token(i), name, 1)
	}
	return out
}
