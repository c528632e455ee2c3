//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// clientMode runs as the client under test. The suite starts it with the URL of the suite's mock
// server as the last argument. clientMode starts Dragoman in front of the mock server, connects
// the real client to Dragoman, and returns the client's exit status. It stays in the suite's
// process group, so that no process outlives the suite.
func clientMode(args []string) int {
	fs := flag.NewFlagSet("client", flag.ContinueOnError)
	client := fs.String("client", "", "the client's program")
	dragoman := fs.String("dragoman", "", "Dragoman's program; empty leaves it out")
	if fs.Parse(args) != nil || fs.NArg() != 1 || *client == "" {
		return exitUsage
	}
	if *dragoman != "" && signsIn(os.Getenv("MCP_CONFORMANCE_SCENARIO")) {
		return 0 // the suite starts every scenario of a set, and these have legs of their own; see legs.go
	}
	// The suite gives a client 30 seconds, so stop earlier.
	ctx, cancel := context.WithTimeout(context.Background(), scenarioWithin-3*time.Second)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	url := fs.Arg(0)
	if *dragoman != "" {
		front, kill, err := inFrontOf(ctx, *dragoman, url)
		if err != nil {
			fmt.Fprintln(os.Stderr, "conformance client:", err)
			return exitRig
		}
		defer kill()
		url = front
	}
	cmd := exec.CommandContext(ctx, *client, url)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "conformance client:", err)
	return 1
}

// inFrontOf starts `dragoman run --listen` in front of url. It returns the URL of Dragoman, and a
// function that ends Dragoman.
func inFrontOf(ctx context.Context, dragoman, url string) (front string, kill func(), err error) {
	addr, err := freeAddr()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(dragoman, "run", "--listen", addr, url)
	cmd.Stderr = os.Stderr // the suite stores stderr with the checks of the scenario
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { // the function kill waits for this goroutine
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	kill = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(2 * time.Second):
			cmd.Process.Kill()
			<-p.done
		}
	}
	if err := p.ready(ctx, addr); err != nil {
		kill()
		return "", nil, err
	}
	return "http://" + addr + "/mcp", kill, nil
}
