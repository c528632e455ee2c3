//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

//go:embed servers.txt
var list string

var (
	only     = flag.String("only", "", "sweep only the servers whose names match this `REGEXP`")
	folder   = flag.String("servers", filepath.Join("..", ".cache", "sweep"), "install the servers in `FOLDER`")
	together = flag.Int("together", 60, "start at most `N` servers behind one serve; 0 leaves this part out")
	parallel = flag.Int("parallel", 2, "compare or install `N` servers at a time")
	ranked   = flag.Bool("recall", false, "only measure how well search mode finds the tools that queries.txt asks for, and the tokens of a task")
	config   = flag.String("config", "", "only install the servers of queries.txt, and write a configuration of serve with them to `FILE`, whose folder they use")
	misses   = flag.Bool("misses", false, "with -recall: also print the queries that find nothing that fits")
	patience = flag.Duration("patience", 60*time.Second, "wait this long for each answer of a server, and five times as long for all servers together")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := sweep(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// sweep runs both parts, and reports whether Dragoman is without fault.
func sweep(ctx context.Context) (ok bool, err error) {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return false, err
	}
	if *folder, err = filepath.Abs(*folder); err != nil {
		return false, err
	}
	if *config != "" {
		return true, configure(ctx, *config)
	}
	scratch, err := os.MkdirTemp("", "sweep")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	if *ranked {
		return recall(ctx, scratch)
	}
	program := filepath.Join(scratch, "dragoman")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/dragoman")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("go build: %w\n%s", err, out)
	}
	all, err := servers(pattern, scratch)
	if err != nil {
		return false, err
	}
	each(all, func(s *server) { s.state = s.install(ctx) })
	each(all, func(s *server) {
		if s.state == "" {
			s.state, s.fault = s.compare(ctx, program)
		}
	})
	ok = report(all)
	if *together > 0 && ctx.Err() == nil {
		var fit []*server
		for _, s := range all {
			if s.state == same && len(fit) < *together {
				fit = append(fit, s)
			}
		}
		if err := crowd(ctx, program, scratch, fit); err != nil {
			fmt.Println("together:", err)
			ok = false
		}
	}
	return ok, ctx.Err()
}

// server is a line of servers.txt.
type server struct {
	name string // the package's name, with only letters, digits and hyphens
	spec string // package@version
	bin  string // the command, when the package has several
	args []string
	env  []string
	home string // the server's own folder, for its files

	state string
	fault bool // whether state is a fault of ours
	tools int
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// servers reads servers.txt. A line is package@version, then words: NAME=VALUE is an environment
// variable, bin:NAME is the command, and everything else is an argument. $HOME is the server's own
// folder.
func servers(pattern *regexp.Regexp, scratch string) ([]*server, error) {
	var out []*server
	lines := bufio.NewScanner(strings.NewReader(list))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' || !pattern.MatchString(words[0]) {
			continue
		}
		at := strings.LastIndexByte(words[0], '@')
		if at <= 0 {
			return nil, fmt.Errorf("servers.txt: %q has no version", words[0])
		}
		s := &server{spec: words[0], name: strings.Trim(notName.ReplaceAllString(strings.ToLower(words[0][:at]), "-"), "-")}
		s.home = filepath.Join(scratch, "home", s.name)
		if err := os.MkdirAll(s.home, 0o700); err != nil {
			return nil, err
		}
		for _, w := range words[1:] {
			w = strings.ReplaceAll(w, "$HOME", s.home)
			switch key, _, isEnv := strings.Cut(w, "="); {
			case strings.HasPrefix(w, "bin:"):
				s.bin = w[len("bin:"):]
			case isEnv && key == strings.ToUpper(key):
				s.env = append(s.env, w)
			default:
				s.args = append(s.args, w)
			}
		}
		out = append(out, s)
	}
	return out, lines.Err()
}

// each calls f for all servers, *parallel at a time.
func each(all []*server, f func(*server)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, *parallel)
	for _, s := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(s)
		})
	}
	wg.Wait()
}

// report prints a line for each server, and reports whether none has a fault of ours.
func report(all []*server) (ok bool) {
	ok = true
	count, tools := map[string]int{}, 0
	for _, s := range all {
		state, _, _ := strings.Cut(s.state, "\n")
		fmt.Printf("%-52s %4d  %s\n", s.spec, s.tools, state)
		tools += s.tools
		switch {
		case s.fault:
			count["differ"]++
			ok = false
		case s.state == same:
			count["same"]++
		default:
			count["left out"]++
		}
	}
	fmt.Printf("%d servers, %d tools: %d the same in both eras, %d differ, %d do not work directly\n",
		len(all), tools, count["same"], count["differ"], count["left out"])
	return ok
}

// install puts the package below .cache, and finds its command. It returns why that failed, or "".
func (s *server) install(ctx context.Context) string {
	dir := filepath.Join(*folder, s.name)
	mark := filepath.Join(dir, notName.ReplaceAllString(s.spec, "-")+".complete")
	if _, err := os.Stat(mark); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err.Error()
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		npm := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", s.spec)
		if out, err := npm.CombinedOutput(); err != nil {
			return fmt.Sprintf("not installed: %v: %.200s", err, out)
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err.Error()
		}
	}
	name, err := s.command(dir)
	if err != nil {
		return "not installed: " + err.Error()
	}
	s.bin = name
	return ""
}

// command returns the path of the package's command: the one that servers.txt names, else the only
// one, else the one with the package's name.
func (s *server) command(dir string) (string, error) {
	spec := s.spec[:strings.LastIndexByte(s.spec, '@')]
	name := s.bin
	if name == "" {
		bins, err := binsOf(filepath.Join(dir, "node_modules", filepath.FromSlash(spec), "package.json"))
		if err != nil {
			return "", err
		}
		short := spec[strings.LastIndexByte(spec, '/')+1:]
		for _, b := range bins {
			if len(bins) == 1 || b == short {
				name = b
			}
		}
		if name == "" {
			return "", fmt.Errorf("it has the commands %v: name one in servers.txt with bin:NAME", bins)
		}
	}
	path := filepath.Join(dir, "node_modules", ".bin", name)
	_, err := os.Stat(path)
	return path, cmp.Or(err, nil)
}
