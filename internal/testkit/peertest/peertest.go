// Package peertest lets a test program be another process of its own tests: one that shares a database or a key with
// them, and can be killed.
//
// A peer is a value of the package under test that says what the process does. It travels as JSON in an environment
// variable, so its fields are exported.
package peertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

const env = "DRAGOMAN_TEST_PEER"

// Main runs the peer that this process is, and otherwise the tests, as leaktest.Main does. It doesn't return.
func Main[Peer any](m *testing.M, run func(Peer, context.Context) error) {
	text := os.Getenv(env)
	if text == "" {
		leaktest.Main(m)
		return
	}
	var p Peer
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = run(p, context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns the command that is a peer. It ends with the test.
func Command(t testing.TB, peer any) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(peer)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), env+"="+string(text))
	c.Stderr = os.Stderr
	return c
}

// Start starts a peer. What it prints is closed when it ends.
func Start(t testing.TB, peer any) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := Command(t, peer)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(out)
}
