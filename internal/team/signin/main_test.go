package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// place is where processes keep what they share.
type place struct{ Database, Schema, Key string }

// peer is a process that uses a server, as `run` does.
type peer struct {
	place
	Server   string        // the URL of a strict
	Subject  string        // whose sign-in it is; "" for the local user
	Callback string        // see Settings
	Kill     string        // the step at which it kills itself
	Force    bool          // renew the token that is there
	Alive    time.Duration // see Options
	Calls    int           // how many calls it makes, all at once
	For      time.Duration // and again and again for so long
}

func TestMain(m *testing.M) { peertest.Main(m, peer.run) }

func (p place) open(ctx context.Context) (*store.Safe, error) {
	s, err := store.Open(ctx, store.Options{Database: p.Database, Schema: p.Schema})
	if err != nil {
		return nil, err
	}
	return store.NewSafe(s, vault.New(vault.Options{File: p.Key})), nil
}

// tab tells the issuer that a browser was opened.
func (p peer) tab(ctx context.Context, link string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server+"/tab?link="+url.QueryEscape(link), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// desk returns a Desk as the process has it.
func (p peer) desk() *Desk {
	return New(Options{
		Open: p.open, Egress: egress.New(egress.Options{}), Browser: p.tab, Alone: true, Log: slog.New(slog.DiscardHandler), alive: p.Alive,
		step: func(name string) {
			if name == "holds the port" {
				fmt.Println(name)
			}
			if name == p.Kill {
				if self, err := os.FindProcess(os.Getpid()); err == nil {
					_ = self.Kill()
				}
				select {}
			}
		},
	})
}

// run makes calls until all have succeeded, and waits for the person in between.
func (p peer) run(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	d := p.desk()
	defer d.Close()
	s, err := d.Server("default", "srv", p.Server+"/mcp", Settings{Callback: p.Callback})
	if err != nil {
		return err
	}
	end := time.Now().Add(p.For)
	for {
		failed := make(chan error, p.Calls)
		for range p.Calls {
			d.group.Go(func() { failed <- p.call(ctx, s) })
		}
		for range p.Calls {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			return err
		}
		fmt.Println("called")
		if !time.Now().Before(end) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// call calls until somebody has signed in.
func (p peer) call(ctx context.Context, s *Server) error {
	for {
		if p.Force {
			safe, err := s.d.open(ctx)
			if err != nil {
				return err
			}
			a := s.account(s.subject(p.Subject))
			t, err := a.current(ctx, safe)
			if err != nil {
				return err
			}
			if t != nil {
				if _, err := a.renewForced(ctx, safe, t); err != nil {
					return err
				}
			}
		}
		status, err := call(ctx, s, p.Subject, p.Server+"/mcp")
		var n *Needed
		if errors.As(err, &n) {
			f, err := s.Begin(ctx, n.Of, true)
			if err == nil {
				err = f.Wait(ctx)
			}
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		if err != nil || status != 200 {
			return fmt.Errorf("status %d: %w", status, err)
		}
		return nil
	}
}

// both runs a test with SQLite and with PostgreSQL.
func both(t *testing.T, test func(t *testing.T, p place)) {
	dbtest.Both(t, func(t *testing.T, where, schema string) {
		test(t, place{where, schema, filepath.Join(t.TempDir(), "vault.key")})
	})
}

// file returns a place with SQLite.
func file(t *testing.T) place {
	dir := t.TempDir()
	return place{Database: filepath.Join(dir, "dragoman.db"), Key: filepath.Join(dir, "vault.key")}
}

// rig is a Desk of this process with a server.
type rig struct {
	*Desk
	s    *Server
	tabs chan string
	to   string
}

// newRig returns a Desk for the local user. change may change its options.
func newRig(t *testing.T, p place, to *strict, settings Settings, change func(*Options)) *rig {
	t.Helper()
	r := &rig{tabs: make(chan string, 100), to: to.URL + "/mcp"}
	var opened *store.Store
	o := Options{
		Open: func(ctx context.Context) (*store.Safe, error) {
			safe, err := p.open(ctx)
			if err == nil {
				opened = safe.Store()
			}
			return safe, err
		},
		Egress: egress.New(egress.Options{}), Alone: true,
		Browser: func(_ context.Context, link string) error { r.tabs <- link; return nil },
	}
	if change != nil {
		change(&o)
	}
	r.Desk = New(o)
	var err error
	if r.s, err = r.Desk.Server("default", "srv", r.to, settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if opened != nil {
			_ = opened.Close()
		}
	})
	return r
}

// call makes a call, and returns the status of the server's last answer.
func (r *rig) call(ctx context.Context, scope string) (int, error) {
	return call(ctx, r.s, scope, r.to)
}

// signIn signs somebody in, with a browser that is opened at once.
func (r *rig) signIn(t *testing.T, to *strict, of store.SignIn, who string) {
	t.Helper()
	f, err := r.s.begin(t.Context(), of, false)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, err := to.visit(t.Context(), f.Link(), who); err != nil || status != 200 {
		t.Fatalf("the last page has the status %d: %v", status, err)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}
