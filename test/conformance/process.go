//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyWithin = 20 * time.Second // the time from the start to an accepted connection
	stopWithin  = 8 * time.Second  // the time from SIGTERM to SIGKILL
	goneWithin  = 5 * time.Second  // the time from the end of a process to the end of its children
)

// process is a running program that a leg needs. It has its own process group, so that its children
// can be ended together with it.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when Wait has returned
	err  error         // the error of Wait; may be read after done is closed
}

// start starts argv in an environment, and appends its stdout and stderr to logFile.
func start(logFile string, env []string, argv ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() { // the method stop waits for this goroutine
		defer close(p.done)
		p.err = cmd.Wait()
		log.Close()
	}()
	return p, nil
}

// stop sends SIGTERM to the process, and SIGKILL after stopWithin. Then it kills the rest of the
// process group. It returns an error if SIGKILL was needed.
func (p *process) stop() error {
	group := -p.cmd.Process.Pid
	p.cmd.Process.Signal(syscall.SIGTERM)
	var late error
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		late = fmt.Errorf("%s did not end within %v of SIGTERM", filepath.Base(p.cmd.Path), stopWithin)
	}
	syscall.Kill(group, syscall.SIGKILL)
	<-p.done
	return late
}

// ready waits until a process accepts connections at addr.
func (p *process) ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not within %v", readyWithin))
	defer cancel()
	var d net.Dialer
	for {
		if c, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return c.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it listened: %v", filepath.Base(p.cmd.Path), p.err)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w", filepath.Base(p.cmd.Path), addr, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freeAddr returns a loopback address at which no process listens now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// listening starts the program that argv returns for a free address, and waits until it listens.
// Another process may take the address first, so listening tries up to three addresses.
func listening(ctx context.Context, logFile string, env []string, argv func(addr string) []string) (*process, string, error) {
	var last error
	for range 3 {
		if ctx.Err() != nil {
			return nil, "", errors.Join(last, context.Cause(ctx))
		}
		addr, err := freeAddr()
		if err != nil {
			return nil, "", err
		}
		p, err := start(logFile, env, argv(addr)...)
		if err != nil {
			return nil, "", err
		}
		if last = p.ready(ctx, addr); last == nil {
			return p, addr, nil
		}
		last = errors.Join(last, p.stop())
	}
	return nil, "", last
}

// run runs a program in dir until it ends. When ctx ends, it kills the whole process group.
// out receives the output.
func run(ctx context.Context, dir string, env []string, out io.Writer, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	if cmd.Process != nil { // kills processes that are left in the group
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", filepath.Base(argv[0]), context.Cause(ctx))
	}
	return err
}

// orphans waits until the last process that runs the program exe has ended. If one is left after
// goneWithin, orphans kills it and returns an error. Every leg has its own link to the server's
// binary, so orphans finds only the processes of this leg. Without /proc, orphans finds no
// processes.
func orphans(exe string) error {
	deadline := time.Now().Add(goneWithin)
	for {
		left := running(exe)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return fmt.Errorf("left behind: %s, process %v", filepath.Base(exe), left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// running returns the ids of the processes that run the program exe.
func running(exe string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && target == exe {
			if pid, err := strconv.Atoi(strings.Split(l, "/")[2]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
