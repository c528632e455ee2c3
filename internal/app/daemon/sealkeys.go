package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// sealWait is how long a key that has come into the file only opens what others seal. Until then, whoever replaces
// the file has to have replaced it everywhere.
const sealWait = 5 * time.Minute

// sealKeys are the keys of dragoman.sealKeys, which this process shares with other replicas, and its name among them.
// A nil *sealKeys is that of a process alone.
type sealKeys struct {
	path  string
	wait  time.Duration // how long new keys don't seal
	roots bridge.Roots
	since map[string]time.Time // by key: when it came into the file, as far as we know
	name  string               // new at each start, because what a process has in memory ends with it
}

// openSealKeys reads the file, if the configuration names one. The error is a *vault.Error.
func openSealKeys(path string, wait time.Duration) (*sealKeys, error) {
	if path == "" {
		return nil, nil
	}
	s := &sealKeys{path: path, wait: wait, name: rand.Text()[:13]}
	// A key that was in the file when we start is as old as the file at most. If the file is new, we can't know which
	// of its keys the others have; all of them have the last one, because new keys are put in front.
	var changed time.Time
	if st, err := os.Stat(path); err == nil {
		changed = st.ModTime()
	}
	return s, s.read(changed)
}

// read reads the file again. New keys count as new since now.
func (s *sealKeys) read(now time.Time) error {
	keys, err := vault.ReadSealing(s.path)
	if err != nil {
		return err
	}
	since, roots := map[string]time.Time{}, make([]bridge.Root, len(keys))
	for i, k := range keys {
		at, known := s.since[string(k.Secret)]
		if !known {
			at = now
		}
		since[string(k.Secret)] = at
		roots[i] = bridge.Root{ID: k.ID, Secret: k.Secret, From: at.Add(s.wait)}
	}
	s.since = since
	s.roots.Set(roots)
	return nil
}

// follow reads the file again when it changes, until ctx ends. While it can't be used, the keys before stay in force,
// with one warning.
func (s *sealKeys) follow(ctx context.Context, log *slog.Logger) {
	told := "" // the last warning since the file could be used
	err := config.WatchEnv(ctx, s.path, func() {
		err := s.read(time.Now())
		var bad *vault.Error
		switch {
		case err == nil:
			told = ""
			log.Info("the sealing keys were read again", "seconds", int(s.wait.Seconds()))
		case err.Error() == told:
		case errors.As(err, &bad):
			told = bad.Text
			log.Warn("the new sealing keys cannot be used; keeping the ones before", "cause", bad.Text, "action", bad.Next)
		}
	})
	if err != nil && ctx.Err() == nil {
		log.Warn("the sealing keys are not watched for changes", "cause", err.Error())
	}
}

// shared returns the secrets, or nil if there are none.
func (s *sealKeys) shared() *bridge.Roots {
	if s == nil {
		return nil
	}
	return &s.roots
}

// places returns how this process marks what only it has, or nil if it's alone.
func (s *sealKeys) places() transport.Places {
	if s == nil {
		return nil
	}
	return replica(s.name)
}

// replica is the name of a process among others with the same keys. As a transport.Places, it puts the name and a dot
// before an id. All names have the same length, and nothing else that clients get has a dot there.
type replica string

// Mark implements transport.Places.
func (r replica) Mark(id string) string { return string(r) + "." + id }

// Of implements transport.Places.
func (r replica) Of(id string) string {
	if home, _, ok := strings.Cut(id, "."); ok && len(home) == len(r) && home != string(r) {
		return home
	}
	return ""
}
