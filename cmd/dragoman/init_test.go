package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestInitIsCheap runs this program and adds up what its packages do before main: expressions, templates
// and tables must wait for their first use, because every `dragoman run` pays for them. We count bytes
// and not milliseconds, which depend on the machine: 64 KiB are about 0.15 ms.
func TestInitIsCheap(t *testing.T) {
	const most, mostForeign = 64 << 10, 1200 << 10 // with the race detector, one of the others allocates 950 KiB
	least := map[string]int{}                      // the runtime's own goroutines allocate too, so the least of five runs counts
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			var name string
			var at, took float64
			var bytes int
			n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes", &name, &at, &took, &bytes)
			if n < 4 {
				continue
			}
			if had, ok := least[name]; !ok || bytes < had {
				least[name] = bytes
			}
		}
	}
	for name, bytes := range least {
		if ours := strings.HasPrefix(name, "github.com/dragoman-mcp/"); ours && bytes > most || bytes > mostForeign {
			t.Errorf("%s allocates %d bytes when the program starts", name, bytes)
		}
	}
	if len(least) < 100 {
		t.Errorf("only %d packages were measured", len(least))
	}
}
