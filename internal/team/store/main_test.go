package store

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// peer sets one secret after the other, and prints the name of each that the store has acknowledged, with
// the time.
type peer struct{ Where, Schema, Prefix string }

func TestMain(m *testing.M) { peertest.Main(m, peer.run) }

func (p peer) run(ctx context.Context) error {
	s, err := Open(ctx, Options{Database: p.Where, Schema: p.Schema})
	for n := 0; err == nil; n++ {
		name := fmt.Sprint(p.Prefix, n)
		err = set(ctx, s, name, "sealed "+name)
		fmt.Println(name, time.Now().UnixNano())
		time.Sleep(5 * time.Millisecond) // gives the others a turn
	}
	return err
}

// both runs a test with SQLite and with PostgreSQL. There is no database yet.
func both(t *testing.T, test func(t *testing.T, o Options)) {
	dbtest.Both(t, func(t *testing.T, where, schema string) { test(t, Options{Database: where, Schema: schema}) })
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func set(ctx context.Context, s *Store, name, sealed string) error {
	return s.Write(ctx, "ada", func(t *Tx) error {
		return t.SetSecret(Secret{Project: "shop", Name: name, Sealed: []byte(sealed)})
	})
}

// secrets returns the secrets of a snapshot as PROJECT/NAME=VALUE by ACTOR.
func secrets(s *Snapshot) string {
	var all []string
	for _, x := range s.Secrets() {
		all = append(all, fmt.Sprintf("%s/%s=%s by %s", x.Project, x.Name, x.Sealed, x.Actor))
	}
	return strings.Join(all, ", ")
}

// await waits for a snapshot in which something holds, and returns it.
func await(t *testing.T, s *Store, what string, holds func(*Snapshot) bool) *Snapshot {
	t.Helper()
	end := time.After(time.Minute)
	for {
		now := s.Snapshot()
		if holds(now) {
			return now
		}
		select {
		case <-now.Replaced():
		case <-end:
			t.Fatalf("no snapshot in a minute: %s", what)
		}
	}
}

// logged is a log.
type logged struct{ logtest.Buffer }

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
