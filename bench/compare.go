package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
)

// options holds the flags of a comparison. parseOptions has validated them.
type options struct {
	slice        time.Duration
	rounds       int
	clients      []int // the first for everything, the others for calls per second
	sizes        []int
	cells        []string // for example "ML": a modern client and a legacy upstream
	paths        []string
	parts        []string
	starts       int
	idle         int // the number of sessions whose memory is measured
	guests       int // the number of idle sessions next to calls
	settle       time.Duration
	root         string
	dragoman     string
	against      string // an earlier binary to compare with; "" for none
	dragomanArgs []string
	json         bool
}

var (
	allCells = []string{"MM", "LL", "ML", "LM"}
	// allPaths has each path behind the one that it is compared with, and those that are measured
	// with small texts only from report.Crowded on.
	allPaths = []string{report.Direct, report.Proxy, report.Floor, report.HTTP, report.Events, report.Stdio, report.Piped,
		report.Crowded, report.Few, report.Many, report.Serve, report.Console, report.Recording, report.Keys, report.Keyring, report.Audited, report.Guarded, report.Listed, report.Filtered,
		report.Header, report.SignedIn}
	allParts = []string{"load", "start", "house", "idle"}
)

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.DurationVar(&o.slice, "time", 500*time.Millisecond, "length of one slice of load")
	flags.IntVar(&o.rounds, "rounds", 5, "slices per contestant and size")
	clients := flags.String("clients", "16,1,64,256", "clients, each with one call in flight; the numbers after the first are for calls per second")
	sizes := flags.String("sizes", "256,65536,1048576", "bytes of text in each call and answer")
	cells := flags.String("cells", strings.Join(allCells, ","), "pairs of eras, the client's first: M is modern, L is legacy")
	paths := flags.String("paths", strings.Join(allPaths, ","), "contestants; see README.md")
	only := flags.String("only", strings.Join(allParts, ","), "what to measure")
	flags.IntVar(&o.starts, "starts", 15, "starts per contestant")
	flags.IntVar(&o.idle, "idle", 2000, "sessions whose memory is measured")
	flags.IntVar(&o.guests, "guests", 5000, "idle sessions in the contestant that has some")
	// Dragoman makes connections rest after 5 s.
	flags.DurationVar(&o.settle, "settle", 10*time.Second, "how long nothing happens before the memory of what is idle is read")
	flags.StringVar(&o.root, "root", "..", "where Dragoman's module is")
	flags.StringVar(&o.dragoman, "dragoman", "", "measure this binary instead of building one")
	flags.StringVar(&o.against, "against", "", "pair every slice of Dragoman with one of this earlier `BINARY`")
	extra := flags.String("dragoman-args", "", "more `ARGUMENTS` for dragoman run, separated by spaces")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if err := parse(flags, args); err != nil {
		return o, err
	}
	var l lists
	o.cells = l.pick("cells", strings.ToUpper(strings.ReplaceAll(*cells, ">", "")), allCells)
	o.paths = l.pick("paths", *paths, allPaths)
	o.parts = l.pick("only", *only, allParts)
	o.sizes = l.numbers("sizes", *sizes, load.MinSize, 3<<20)
	o.clients = l.numbers("clients", *clients, 1, load.MaxClients)
	problems := l.problems
	for name, n := range map[string]int{"rounds": o.rounds, "starts": o.starts, "idle": o.idle, "guests": o.guests, "time": int(o.slice)} {
		if n < 1 {
			problems = append(problems, fmt.Errorf("-%s must be positive", name))
		}
	}
	o.dragomanArgs = strings.Fields(*extra)
	if len(problems) > 0 {
		return o, usageError{errors.Join(problems...)}
	}
	return o, nil
}

// lists parses flags that are lists with commas, and collects what is wrong with them.
type lists struct{ problems []error }

func (l *lists) pick(name, list string, all []string) (picked []string) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if !slices.Contains(all, item) {
			l.problems = append(l.problems, fmt.Errorf("-%s: %q is not one of %s", name, item, strings.Join(all, ", ")))
		}
		picked = append(picked, item)
	}
	return picked
}

func (l *lists) numbers(name, list string, least, most int) (all []int) {
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < least || n > most {
			l.problems = append(l.problems, fmt.Errorf("-%s: %q is not a number from %d to %d", name, item, least, most))
		}
		all = append(all, n)
	}
	return all
}

// compare runs a comparison with the flags in args, and prints the report.
func compare(ctx context.Context, args []string) error { return compareTo(ctx, args, os.Stdout) }

func compareTo(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	s := &stage{options: o}
	defer s.strike()
	if err := s.set(ctx); err != nil {
		return err
	}
	r := heading(o, args)
	for _, part := range []struct {
		name    string
		measure func(context.Context, *report.Report) error
	}{{"load", s.measureLoad}, {"start", s.measureStarts}, {"house", s.measureHouse}, {"idle", s.measureIdle}} {
		if !slices.Contains(o.parts, part.name) {
			continue
		}
		if err := part.measure(ctx, r); err != nil {
			return err
		}
	}
	r.Failures = s.failures
	r.Judge()
	write := r.Text
	if o.json {
		write = r.JSON
	}
	err = write(out)
	if err == nil && len(s.failures) > 0 {
		err = fmt.Errorf("failures: %d; the lines above that begin with FAILED describe them", len(s.failures))
	}
	return err
}

// heading returns a report that contains only the machine and the settings.
func heading(o options, args []string) *report.Report {
	cpu, kernel := proc.Machine()
	gomaxprocs := os.Getenv("GOMAXPROCS")
	if gomaxprocs == "" {
		gomaxprocs = "default"
	}
	return &report.Report{
		Date:    time.Now().Format(time.DateOnly),
		Command: strings.TrimSpace("go run . " + strings.Join(args, " ")),
		CPU:     cpu, Cores: runtime.NumCPU(), Kernel: kernel, Go: runtime.Version(), GOMAXPROCS: gomaxprocs,
		Clients: o.clients[0], Rounds: o.rounds, Slice: o.slice.String(),
	}
}

// build builds Dragoman from root as a release does, without cgo, and returns the path of the binary in dir.
func build(ctx context.Context, root, dir string) (string, error) {
	binary, err := filepath.Abs(filepath.Join(dir, "dragoman"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/dragoman")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/dragoman: %w: %.2000s", err, out)
	}
	return binary, nil
}
