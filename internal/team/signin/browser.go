package signin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// World is what decides how a person gets to an issuer.
type World struct {
	Getenv func(string) string
	System string // runtime.GOOS
	// Run starts a program, and returns an error if that opens nothing.
	Run func(ctx context.Context, name string, args ...string) error
}

// Remote reports whether the person sits at another machine and came here by SSH.
func (w World) Remote() bool { return w.Getenv("SSH_CONNECTION") != "" || w.Getenv("SSH_TTY") != "" }

// HasBrowser reports whether a browser can be opened where the person sees it.
func (w World) HasBrowser() bool {
	switch {
	case w.Getenv("BROWSER") != "":
		return true
	case w.Remote():
		return w.Getenv("DISPLAY") != "" // forwarded X
	case w.System == "windows" || w.System == "darwin":
		return true
	}
	return w.Getenv("DISPLAY") != "" || w.Getenv("WAYLAND_DISPLAY") != ""
}

// Open opens a URL in the browser: the first program of BROWSER that can be started, or else the system's. No
// shell sees the URL, which must be one for browsers (TA28).
func (w World) Open(ctx context.Context, link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.ContainsFunc(link, unsafeInLink) {
		return errors.New("this is no address for a browser")
	}
	err = errors.New("no program is known that opens it")
	for _, words := range w.programs(link) {
		if err = w.Run(ctx, words[0], words[1:]...); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// unsafeInLink reports whether a character may have a meaning for a program beyond that of a URL.
func unsafeInLink(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'`<>\\^{|}$();", r)
}

// programs returns the commands that may open a link.
func (w World) programs(link string) (all [][]string) {
	for _, text := range strings.Split(w.Getenv("BROWSER"), ":") {
		words := strings.Fields(text)
		named := false
		for i, word := range words {
			if i > 0 && strings.Contains(word, "%s") {
				words[i], named = strings.ReplaceAll(word, "%s", link), true
			}
		}
		if len(words) > 0 && !named {
			words = append(words, link)
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	if len(all) > 0 {
		return all
	}
	switch w.System {
	case "darwin":
		return [][]string{{"open", link}}
	case "windows":
		return [][]string{{"rundll32", "url.dll,FileProtocolHandler", link}}
	}
	return [][]string{{"xdg-open", link}}
}

// Tunnel returns the command with which a person who came by SSH lets their browser reach the port at which it's
// expected here, or "" if there's no need.
func (w World) Tunnel(port int) string {
	if !w.Remote() || port == 0 {
		return ""
	}
	host := "THIS-MACHINE"
	if f := strings.Fields(w.Getenv("SSH_CONNECTION")); len(f) == 4 && net.ParseIP(f[2]) != nil {
		host = f[2]
	}
	if user := w.Getenv("USER"); user != "" {
		host = user + "@" + host
	}
	return fmt.Sprintf("ssh -N -L %d:127.0.0.1:%d %s", port, port, host)
}
