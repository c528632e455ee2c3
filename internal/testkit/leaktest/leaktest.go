// Package leaktest makes a test binary fail if its tests leave a goroutine, a child process or
// an open file descriptor behind. A package uses it with
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// Goroutines are found with goleak on all systems. Processes and descriptors are found through
// /proc, which only Linux has. On Linux, the test binary also becomes the parent of descendants
// when their parents exit, so that leaktest finds these descendants too. Leaked processes are
// killed before the report. leaktest first waits a few seconds, because some goroutines and
// processes may be about to end. It does not check a test binary that has already failed.
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settle is how long Main waits for goroutines and processes that are about to end. It is long, but
// a test without a leak does not wait.
var settle = 5 * time.Second

// ignored lists goroutines that may outlive the tests, with reasons. goleak itself ignores the
// goroutines of testing, the execution tracer and os/signal, which never end. No other
// exception has been needed.
var ignored []goleak.Option

// RaceOptions is the name of the environment variable with the options of the race detector. Run
// sets it in a race build. If a test starts a program with another environment, the environment
// should include this variable. Without it, the race detector delays the exit of the program by a
// second.
const RaceOptions = "GORACE"

// Main runs the tests, looks for leaks if they passed, and exits. It does not
// return.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run does the same as Main, but returns the exit code, for packages with their own cleanup.
func Run(m *testing.M) int {
	adoptOrphans()
	letChildrenExit()
	before := descriptors()
	overlap()
	code := m.Run()
	if code != 0 {
		return code
	}
	leaks := await(func() []string {
		var found []string
		if err := goleak.Find(ignored...); err != nil {
			found = append(found, err.Error())
		}
		for _, p := range processes() {
			found = append(found, "process left behind: "+p.String())
		}
		return append(found, opened(before, descriptors())...)
	})
	for _, p := range processes() {
		p.kill()
	}
	for _, l := range leaks {
		fmt.Fprintf(os.Stderr, "leaktest: %s\n", l)
	}
	if len(leaks) > 0 {
		return 1
	}
	return 0
}

// overlap lets at least eight parallel tests run at the same time, unless the command line has
// -parallel. The default is one test for each core, but tests that start goroutines and processes
// spend most of their time waiting for them. With -fuzz, -parallel is the number of fuzzing
// processes, so it keeps its default.
func overlap() {
	flag.Parse()
	given := runtime.GOMAXPROCS(0) >= 8
	flag.Visit(func(f *flag.Flag) {
		given = given || f.Name == "test.parallel" || strings.HasPrefix(f.Name, "test.fuzz")
	})
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
}

// await calls find until find returns an empty result or settle has passed. It returns the last
// result.
func await(find func() []string) []string {
	for end := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		found := find()
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		runtime.GC() // a garbage collection closes unreferenced files
	}
}

// opened returns a line of text for each descriptor that is in the map after but not in the map
// before.
func opened(before, after map[int]string) []string {
	var found []string
	for fd, what := range after {
		if before[fd] != what {
			found = append(found, fmt.Sprintf("descriptor left open: %d is %s", fd, what))
		}
	}
	return found
}
