package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const (
	locateTime   = 2 * time.Second // how long a serve process may take to prove who it is
	locateAtOnce = 64              // processes that are asked at the same time
)

// located is a serve process of the user that has written down where it is.
type located struct {
	admin.Presence
	address string // where the process can be reached from this machine
	// proven is false if a program accepts connections at the address but does not answer, and the
	// process still exists. It is probably the process, which is stuck.
	proven bool
}

// locator finds the running serve processes of the user.
type locator struct{ env environment }

// locateAll returns the serve processes of the user that run now, the youngest first. It leaves out
// those that have crashed, even if another program listens at their address now.
func (l locator) locateAll(ctx context.Context) []located {
	all := admin.Presences(admin.KeyFolders(l.env))
	found := make([]*located, len(all))
	var asking sync.WaitGroup
	free := make(chan struct{}, locateAtOnce)
	for i := range all {
		free <- struct{}{}
		asking.Go(func() {
			found[i] = l.locateOne(ctx, &all[i])
			<-free
		})
	}
	asking.Wait()
	var out []located
	for _, f := range found {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// locateOne returns a process if it still runs, even if it does not answer; see located.proven. Otherwise
// it returns nil.
func (l locator) locateOne(ctx context.Context, p *admin.Presence) (found *located) {
	for _, address := range p.Reachable() {
		s, err := l.runningOf(p, address)
		if err != nil {
			continue
		}
		proof, challenge, err := s.challenge(ctx)
		s.close()
		var late net.Error
		switch {
		case err == nil && p.Proves(address, challenge, proof):
			return &located{*p, address, true}
		case errors.As(err, &late) && late.Timeout() && p.Alive():
			found = &located{*p, address, false}
		}
	}
	return found
}

// challenge asks the program at the address of s to prove that it is the serve process of the user.
func (s *running) challenge(ctx context.Context) (proof, challenge string, err error) {
	ctx, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	challenge = admin.Challenge()
	resp, err := s.do(ctx, asked{method: http.MethodGet, path: "/healthz"}, admin.ChallengeHeader, challenge)
	if err != nil {
		return "", "", err
	}
	// Read the answer to its end, so that the next request, which may have the key, uses the same
	// connection.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10))
	_ = resp.Body.Close()
	return resp.Header.Get(admin.ProofHeader), challenge, nil
}

// keyFor returns the key of keys that the program at the address of s has already. It returns "" if
// the program has none of them.
func (s *running) keyFor(ctx context.Context, keys []string) string {
	proof, challenge, err := s.challenge(ctx)
	if err != nil {
		return ""
	}
	return admin.Proves(keys, s.address, challenge, proof)
}

// locate returns the serve process that a command should use, or nil if it has found none. file is
// the value of -c. A process that uses the same configuration file as the command is preferred; if
// same is true or file is not "", locate returns no other. If several remain, it prefers the one that
// listens at the configured address. It returns an error that lists the processes if several remain
// even so. flag says how the user can name one; ADDR stands for its address.
func (l locator) locate(ctx context.Context, file, flag string, same bool) (*located, error) {
	all := l.locateAll(ctx)
	choice := slices.DeleteFunc(slices.Clone(all), func(p located) bool { return !sameConfig(p.Config, l.env.servedPath(file)) })
	usual := func(p located) bool { return !p.Flagged }
	if len(choice) == 0 && file == "" && !same {
		choice = all
		listen, err := l.env.listenAddress(file)
		usual = func(p located) bool { return err == nil && slices.Contains(admin.KeyAddresses(listen), p.address) }
	}
	if i := slices.IndexFunc(choice, usual); i >= 0 && len(choice) > 1 && !slices.ContainsFunc(choice[i+1:], usual) {
		choice = choice[i : i+1]
	}
	switch len(choice) {
	case 0:
		return nil, nil
	case 1:
		return &choice[0], nil
	}
	var lines []string
	for _, p := range choice {
		lines = append(lines, p.text())
	}
	return nil, usagef("choose one with "+strings.ReplaceAll(flag, "ADDR", choice[0].address),
		"several `dragoman serve` are running: %s", strings.Join(lines, "; "))
}

// base returns the URL of a process without a path.
func (p *located) base() string {
	if p.TLS {
		return "https://" + p.address
	}
	return "http://" + p.address
}

// text describes a process on one line.
func (p *located) text() string {
	file := "without a configuration file"
	if p.Config != "" {
		file = "with " + clean(p.Config)
	}
	return p.base() + " (pid " + strconv.Itoa(p.PID) + ", " + file + ")"
}

// servedPath returns the path of the configuration file that serve would use if it were started with
// the same -c in the same folder. The file need not exist.
func (e environment) servedPath(file string) string {
	path, ok := e.configPath(file)
	if !ok {
		places := config.Places(e)
		path = places[len(places)-1]
	}
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// sameConfig reports whether two paths name the same configuration file. The file need not exist.
func sameConfig(a, b string) bool { return a != "" && (a == b || sameFile(a, b)) }
