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
	// A child process exits after its test has ended, even if nobody stops it. No test lasts as long as its life, also
	// on a busy machine.
	if os.Getenv(asServer)+os.Getenv(asDragoman)+os.Getenv(asReplica) != "" {
		time.AfterFunc(30*time.Minute, func() { os.Exit(99) })
	}
	if mode, ok := strings.CutPrefix(os.Getenv(asServer), "crowd "); ok {
		runAsCrowdServer(mode == "modern")
		return
	}
	if mode, ok := strings.CutPrefix(os.Getenv(asServer), "fake "); ok {
		runAsFake(mode)
		return
	}
	if size, ok := strings.CutPrefix(os.Getenv(asServer), "raw "); ok {
		n, _ := strconv.Atoi(size)
		runAsRaw(n)
		return
	}
	if letter, ok := strings.CutPrefix(os.Getenv(asServer), "demo "); ok {
		runAsDemo(letter)
		return
	}
	if answer, ok := strings.CutPrefix(os.Getenv(asServer), "toolbox "); ok {
		runAsToolbox(answer)
		return
	}
	if os.Getenv(asServer) == talker {
		runAsTalker()
		return
	}
	if kind, ok := strings.CutPrefix(os.Getenv(asServer), "deep "); ok {
		runAsDeepServer(kind)
		return
	}
	if era, ok := strings.CutPrefix(os.Getenv(asServer), "hostile "); ok {
		runAsHostileServer(era)
		return
	}
	if mode := os.Getenv(asServer); mode != "" {
		runAsServer(mode)
		return
	}
	if mode := os.Getenv(asDragoman); mode != "" {
		runAsDragoman(mode)
		return
	}
	if what := os.Getenv(asReplica); what != "" {
		runAsReplica(what)
		return
	}
	leaktest.Main(m)
}
