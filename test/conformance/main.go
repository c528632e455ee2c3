//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/tab"
)

const (
	exitWorse = 1
	exitUsage = 2
	exitRig   = 3
)

const sdk = "github.com/modelcontextprotocol/go-sdk/conformance/"

func main() {
	tab.Main() // Dragoman starts this program as a browser in the scenarios auth/*
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "client":
			os.Exit(clientMode(os.Args[2:]))
		case "sign-in":
			os.Exit(signInMode(os.Args[2:]))
		case "one-era":
			os.Exit(oneEraMode(os.Args[2:]))
		case "task-server":
			os.Exit(taskServerMode(os.Args[2:]))
		case "skills-server":
			os.Exit(skillsServerMode(os.Args[2:]))
		}
	}
	os.Exit(suiteMode())
}

func suiteMode() int {
	only := flag.String("only", "", "run the legs whose name matches this `regexp`, e.g. server/run/")
	direct := flag.Bool("direct", false, "leave Dragoman out: check the rig")
	list := flag.Bool("list", false, "name the legs and end")
	verbose := flag.Bool("v", false, "report every scenario, not only what failed")
	parallel := flag.Int("p", 2, "legs at the same `time`")
	within := flag.Duration("timeout", 14*time.Minute, "limit of the whole run")
	program := flag.String("dragoman", "", "test this `program` instead of building one")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 || *parallel < 1 {
		flag.Usage()
		return exitUsage
	}
	table := legs
	if *direct {
		table = directLegs
	}
	var chosen []*leg
	for i := range table {
		if table[i].stored() && os.Getenv(built.EnvPostgres) == "" {
			continue
		}
		if match.MatchString(table[i].name()) {
			chosen = append(chosen, &table[i])
		}
	}
	if *list {
		for _, l := range chosen {
			fmt.Println(l.name())
		}
		return 0
	}
	if len(chosen) == 0 {
		fmt.Fprintln(os.Stderr, "conformance: no leg matches", *only)
		return exitUsage
	}

	ctx, cancel := context.WithTimeoutCause(context.Background(), *within, fmt.Errorf("the run took longer than %v", *within))
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	begun := time.Now()
	r, err := prepare(ctx, *program, *direct)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return exitRig
	}
	r.verbose = *verbose
	fmt.Printf("ready after %.1fs\n", time.Since(begun).Seconds())
	passed, failed, err := r.runAll(ctx, chosen, *parallel)
	fmt.Printf("%d legs in %.1fs\n%d passed, %d failed\n", len(chosen), time.Since(begun).Seconds(), passed, failed)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return exitRig
	case failed > 0:
		return exitWorse
	}
	return 0
}

// runAll runs the legs, at most parallel of them at the same time. It prints the report of each
// leg in one piece.
func (r *rig) runAll(ctx context.Context, chosen []*leg, parallel int) (passed, failed int, err error) {
	var (
		mu   sync.Mutex // guards the results and stdout
		wg   sync.WaitGroup
		next = make(chan *leg)
	)
	for range parallel {
		wg.Go(func() {
			for l := range next {
				var report bytes.Buffer
				p, f, e := r.run(ctx, l, &report)
				mu.Lock()
				os.Stdout.Write(report.Bytes())
				passed, failed, err = passed+p, failed+f, errors.Join(err, e)
				mu.Unlock()
			}
		})
	}
	for _, l := range chosen {
		if ctx.Err() != nil {
			break
		}
		next <- l
	}
	close(next)
	wg.Wait()
	return passed, failed, err
}

// prepare builds and installs everything that the legs need, below .cache/conformance of the
// repository.
func prepare(ctx context.Context, program string, direct bool) (*rig, error) {
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	testDir := filepath.Dir(strings.TrimSpace(string(gomod)))
	if filepath.Base(testDir) != "test" {
		return nil, errors.New("run it in the folder test of the repository")
	}
	root := filepath.Dir(testDir)
	cache := filepath.Join(root, ".cache", "conformance")
	bin, out := filepath.Join(cache, "bin"), filepath.Join(cache, "out")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(out, 0o755)); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &rig{
		self:     self,
		out:      out,
		server:   filepath.Join(bin, "everything-server"),
		client:   filepath.Join(bin, "everything-client"),
		dragoman: program,
	}
	if err := build(ctx, testDir, bin+"/", sdk+"everything-server", sdk+"everything-client"); err != nil {
		return nil, err
	}
	if program == "" {
		r.dragoman = filepath.Join(bin, "dragoman")
		if err := build(ctx, root, r.dragoman, "./cmd/dragoman"); err != nil {
			return nil, err
		}
	} else if r.dragoman, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	r.suite, err = install(ctx, cache)
	return r, err
}

func build(ctx context.Context, dir, out string, packages ...string) error {
	var log bytes.Buffer
	argv := append([]string{"go", "build", "-o", out}, packages...)
	if err := run(ctx, dir, []string{"CGO_ENABLED=0"}, &log, argv...); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, log.Bytes())
	}
	return nil
}
