package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// house is the store of a "dragoman serve", with n API keys.
type house struct {
	env    []string
	file   string
	safe   *store.Safe
	owners []string // the subjects that the keys act for
	keys   []string
}

// configureHouse is configure with a store that has n API keys, each of somebody else. The caller must close the store.
func (s *stage) configureHouse(servers, settings string, n int) (h house, err error) {
	if h.env, h.file, err = s.configure(servers, settings+"  database: house.db\n"); err != nil {
		return h, err
	}
	folder, ctx := filepath.Dir(h.file), context.Background()
	db, err := store.Open(ctx, store.Options{Database: filepath.Join(folder, "house.db")})
	if err != nil {
		return h, err
	}
	h.safe = store.NewSafe(db, vault.New(vault.Options{File: filepath.Join(folder, "vault.key")}))
	wishes := make([]access.Wish, n)
	for i := range wishes {
		h.owners = append(h.owners, fmt.Sprint("owner ", i))
		wishes[i] = access.Wish{Name: fmt.Sprint("key ", i), Owner: h.owners[i], Project: "default", Role: identity.Caller}
	}
	h.keys, _, err = access.NewDesk(h.safe).MakeAll(ctx, "local", wishes)
	if err != nil {
		return h, errors.Join(err, db.Close())
	}
	return h, nil
}

// houses is how many pairs of processes have their idle memory compared.
const houses = 5

// measureHouse measures what an existing store with one key costs "dragoman serve": the time until it
// listens, and the memory when nothing happens. A serve with a store and one without take turns.
func (s *stage) measureHouse(ctx context.Context, r *report.Report) error {
	if s.dragoman == "" {
		return nil
	}
	say("house: %d starts, and the memory of %d pairs", s.starts, houses)
	h, err := s.compareHouses(ctx)
	if err == nil {
		h.Person, err = s.memoryOfPeople(ctx)
	}
	if err != nil {
		s.fail("serve with a store", err)
		return ctx.Err()
	}
	r.House = h
	return nil
}

func (s *stage) compareHouses(ctx context.Context) (*report.House, error) {
	h, err := s.configureHouse("  "+served+": {command: 'true'}\n", "", 1)
	if err != nil {
		return nil, err
	}
	envWith, fileWith := h.env, h.file
	envWithout, fileWithout, err := s.configure("  "+served+": {command: 'true'}\n", "")
	if err := errors.Join(err, h.safe.Store().Close()); err != nil {
		return nil, err
	}
	var with, without, more, memory, own []float64
	for n := range s.starts + 1 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		a, stopA, err := s.startServe(envWith, fileWith)
		stopA()
		b, stopB, err2 := s.startServe(envWithout, fileWithout)
		stopB()
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if n > 0 { // the first round only loads the binary into memory
			with, without, more = append(with, micros(a.after)/1000), append(without, micros(b.after)/1000), append(more, micros(a.after-b.after)/1000)
		}
	}
	for range houses {
		a, stopA, err := s.startServe(envWith, fileWith)
		b, stopB, err2 := s.startServe(envWithout, fileWithout)
		if err = errors.Join(err, err2); err == nil && pause(ctx, s.settle) {
			a.memory, a.own, err = proc.Resident(a.pid)
			b.memory, b.own, err2 = proc.Resident(b.pid)
			err = errors.Join(err, err2)
		}
		stopA()
		stopB()
		if err != nil {
			return nil, err
		}
		memory, own = append(memory, float64(a.memory-b.memory)), append(own, float64(a.own-b.own))
	}
	all := &report.House{With: report.Summarize(with), Without: report.Summarize(without), More: report.Summarize(more), Memory: report.Summarize(memory), Own: report.Summarize(own)}
	all.More.Low, all.More.High = report.Middle(more)
	return all, ctx.Err()
}

// startServe starts "dragoman serve", and returns when it listens. stop is never nil.
func (s *stage) startServe(env []string, file string) (n struct {
	started
	pid int
}, stop func(), err error) {
	stop = func() {}
	addr, err := proc.FreeAddr()
	if err != nil {
		return n, stop, err
	}
	begun := time.Now()
	p, err := proc.Start(env, s.dragoman, "serve", "--no-console", "-c", file, "--listen", addr)
	if err != nil {
		return n, stop, err
	}
	stop, n.pid = p.Stop, p.PID()
	for time.Since(begun) < listenLimit {
		if conn, err := net.Dial("tcp", addr); err == nil {
			n.after = time.Since(begun)
			return n, stop, conn.Close()
		}
		time.Sleep(100 * time.Microsecond)
	}
	return n, stop, p.Explain(errors.New("the process does not listen on " + addr))
}
