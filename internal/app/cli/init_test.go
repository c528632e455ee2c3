package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestInitIsCheap runs this program and adds up what its packages do before main: expressions, templates
// and tables must wait for their first use, because every `dragoman run` pays for them. We count bytes
// and not milliseconds, which depend on the machine: 100 KiB are about 0.2 ms.
func TestInitIsCheap(t *testing.T) {
	const most, mostOfAll = 100 << 10, 1 << 20
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages, sum, clock := 0, 0, 0.0
	for line := range strings.Lines(string(out)) {
		var name string
		var at, took float64
		var bytes int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes", &name, &at, &took, &bytes); n < 4 {
			continue
		}
		if strings.HasPrefix(name, "github.com/google/go-cmp/") {
			continue // only tests import it
		}
		packages, sum, clock = packages+1, sum+bytes, clock+took
		if bytes > most {
			t.Errorf("%s allocates %d bytes when the program starts", name, bytes)
		}
	}
	if packages < 100 || sum > mostOfAll {
		t.Errorf("%d packages allocate %d bytes when the program starts", packages, sum)
	}
	t.Logf("%d packages, %d bytes, %.1f ms", packages, sum, clock)
}
