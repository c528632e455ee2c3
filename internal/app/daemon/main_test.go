//go:build unix

package daemon

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// Each of these environment variables turns the test binary into another program: a server
// (see child_test.go), or a Dragoman in front of a server.
const (
	asServer   = "DAEMON_TEST_SERVER"
	asDragoman = "DAEMON_TEST_DRAGOMAN"
)

func TestMain(m *testing.M) {
	// A child process exits after its test has ended, even if nobody stops it.
	if mode, ok := strings.CutPrefix(os.Getenv(asServer), "crowd "); ok {
		time.AfterFunc(30*time.Minute, func() { os.Exit(99) })
		runAsCrowdServer(mode == "modern")
		return
	}
	if mode, ok := strings.CutPrefix(os.Getenv(asServer), "fake "); ok {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) })
		runAsFake(mode)
		return
	}
	if size, ok := strings.CutPrefix(os.Getenv(asServer), "raw "); ok {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) })
		n, _ := strconv.Atoi(size)
		runAsRaw(n)
		return
	}
	if letter, ok := strings.CutPrefix(os.Getenv(asServer), "demo "); ok {
		time.AfterFunc(5*time.Minute, func() { os.Exit(99) })
		runAsDemo(letter)
		return
	}
	if answer, ok := strings.CutPrefix(os.Getenv(asServer), "toolbox "); ok {
		time.AfterFunc(5*time.Minute, func() { os.Exit(99) })
		runAsToolbox(answer)
		return
	}
	if os.Getenv(asServer) == talker {
		time.AfterFunc(5*time.Minute, func() { os.Exit(99) })
		runAsTalker()
		return
	}
	if kind, ok := strings.CutPrefix(os.Getenv(asServer), "deep "); ok {
		time.AfterFunc(5*time.Minute, func() { os.Exit(99) })
		runAsDeepServer(kind)
		return
	}
	if era, ok := strings.CutPrefix(os.Getenv(asServer), "hostile "); ok {
		time.AfterFunc(10*time.Minute, func() { os.Exit(99) })
		runAsHostileServer(era)
		return
	}
	if mode := os.Getenv(asServer); mode != "" {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) })
		runAsServer(mode)
		return
	}
	if mode := os.Getenv(asDragoman); mode != "" {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) })
		runAsDragoman(mode)
		return
	}
	leaktest.Main(m)
}
