//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// crowd starts the servers behind one `dragoman serve`, kills each once, and waits until all of them
// are ready again.
func crowd(ctx context.Context, program, scratch string, all []*server) (err error) {
	config := filepath.Join(scratch, "dragoman.yaml")
	if err := writeConfig(config, all); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_ = l.Close()
	log, err := os.Create(filepath.Join(*folder, "serve.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	serve := exec.Command(program, "serve", "-c", config, "--listen", address)
	serve.Stdout, serve.Stderr = log, log
	serve.Dir = scratch
	serve.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch}
	began := time.Now()
	if err := serve.Start(); err != nil {
		return err
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if end := serve.Wait(); end != nil {
			err = errors.Join(err, fmt.Errorf("serve ended with %w: see %s", end, log.Name()))
		}
	}()

	state := func() (*status, error) { return ask(ctx, program, config, address) }
	first, err := wait(state, func(s *status) []string { return s.notReady(0) })
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	fmt.Printf("together: %d servers ready after %.0f s, %d starts failed\n", len(first.Servers), time.Since(began).Seconds(), first.failed())
	killed := 0
	began = time.Now()
	for _, s := range first.Servers {
		for _, x := range s.Sessions {
			if x.PID != 0 && syscall.Kill(x.PID, syscall.SIGKILL) == nil { // a child of our own serve
				killed++
			}
		}
	}
	if killed < len(first.Servers) {
		return fmt.Errorf("only %d of %d servers had a process to kill", killed, len(first.Servers))
	}
	if _, err := wait(state, func(s *status) []string { return s.notReady(1) }); err != nil {
		return fmt.Errorf("after the kill: %w", err)
	}
	fmt.Printf("together: %d processes killed, all ready again after %.0f s\n", killed, time.Since(began).Seconds())
	return nil
}

func writeConfig(path string, all []*server) error {
	type entry struct {
		Command string            `json:"command"`
		Args    []string          `json:"args,omitempty"`
		Env     map[string]string `json:"env"`
		Dir     string            `json:"cwd"`
	}
	servers := map[string]entry{}
	for _, s := range all {
		env := map[string]string{}
		for _, e := range s.environ() {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		servers[s.name] = entry{s.bin, s.args, env, s.home}
	}
	b, err := json.MarshalIndent(map[string]any{"mcpServers": servers}, "", " ") // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// status is what we read of `dragoman status --json`.
type status struct {
	Servers []struct {
		Name, State, Reason string
		Restarts, Attempts  int
		Sessions            []struct{ PID int }
	}
}

// notReady names the servers that aren't ready, or that have been started again fewer times than
// restarts.
func (s *status) notReady(restarts int) (out []string) {
	for _, x := range s.Servers {
		if x.State != "ready" || x.Restarts < restarts {
			out = append(out, fmt.Sprintf("%s is %s %.120s", x.Name, x.State, x.Reason))
		}
	}
	return out
}

func (s *status) failed() (n int) {
	for _, x := range s.Servers {
		n += x.Restarts
	}
	return n
}

func ask(ctx context.Context, program, config, address string) (*status, error) {
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "status", "--json", "-c", config, "--listen", address).Output()
	if err != nil {
		return nil, err
	}
	s := new(status)
	return s, json.Unmarshal(out, s)
}

// wait reads the status every second until missing returns nothing.
func wait(state func() (*status, error), missing func(*status) []string) (*status, error) {
	var last error
	for end := time.Now().Add(5 * *patience); time.Now().Before(end); time.Sleep(time.Second) {
		s, err := state()
		if err != nil {
			last = err
			continue
		}
		names := missing(s)
		if len(names) == 0 && len(s.Servers) > 0 {
			return s, nil
		}
		last = fmt.Errorf("%d servers are not ready after %v:\n  %s", len(names), 5**patience, strings.Join(names, "\n  "))
	}
	return nil, last
}
