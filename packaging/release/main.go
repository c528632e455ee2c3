package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/dragoman-mcp/dragoman/internal/app/cli"
)

// These constants describe the program in the packages and images.
const (
	program     = "dragoman"
	summary     = "Connect any MCP client to any MCP server"
	description = "Dragoman is a bridge between clients and servers of the Model Context Protocol.\nIt translates between the protocol revisions that the two sides speak."
	homepage    = "https://github.com/dragoman-mcp/dragoman"
	license     = "MIT"
	maintainer  = "The Dragoman authors <noreply@github.com>"
	module      = "github.com/dragoman-mcp/dragoman"
	imageName   = "ghcr.io/dragoman-mcp/dragoman"
	npmName     = "@dragoman/cli"
)

// platform is one pair of GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// binary returns the name of the program on the platform.
func (p platform) binary() string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// released contains the platforms for which a release is made, unless the flag -platforms names
// others.
var released = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// release contains the settings of a release. They do not change after newRelease has set them.
type release struct {
	root      string // the root of the repository
	files     string // the folder with files that are packed without changes
	dist      string // the folder for the results
	work      string // the folder for intermediate files, below dist
	version   string // the version without "v"
	commit    string // the hash of the commit; "" if it is not known
	date      time.Time
	platforms []platform
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	dist := flag.String("dist", "", "the `DIR` for the results; its old contents are removed (default: dist in the repository)")
	version := flag.String("version", "", "the `VERSION`, such as 1.2.3 (default: the tag of the commit, else 0.0.0-dev)")
	platforms := flag.String("platforms", strings.Trim(fmt.Sprint(released), "[]"), "the `LIST` of platforms")
	flag.Parse()
	r, err := newRelease(*dist, *version, *platforms)
	if err == nil {
		err = r.make()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// versions matches the versions that every kind of package supports.
var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

func newRelease(dist, version, platforms string) (*release, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", program)); err != nil {
		return nil, fmt.Errorf("this program must run in packaging/: %w", err)
	}
	if dist == "" {
		dist = filepath.Join(root, "dist")
	}
	if dist, err = filepath.Abs(dist); err != nil {
		return nil, err
	}
	r := &release{root: root, files: filepath.Join(root, "packaging", "files"), dist: dist, work: filepath.Join(dist, ".work"), version: strings.TrimPrefix(version, "v")}
	if r.commit, err = output(root, "git", "rev-parse", "HEAD"); err != nil {
		r.commit = ""
	}
	if r.version == "" {
		r.version = "0.0.0-dev"
		if tag, err := output(root, "git", "describe", "--tags", "--exact-match", "--dirty"); err == nil {
			r.version = strings.TrimPrefix(tag, "v")
		}
	}
	if !versions.MatchString(r.version) || strings.HasSuffix(r.version, "-dirty") {
		return nil, fmt.Errorf("the version %q does not have the form 1.2.3 or 1.2.3-rc.1; a dirty work tree cannot be released", r.version)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = output(root, "git", "log", "-1", "--format=%ct"); err != nil {
			return nil, fmt.Errorf("cannot read the date of the last commit (without git, set SOURCE_DATE_EPOCH): %w", err)
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the date %q is not a number of seconds", seconds)
	}
	r.date = time.Unix(n, 0).UTC()
	for _, name := range strings.Fields(platforms) {
		goos, arch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("%q is not a platform such as linux/amd64", name)
		}
		r.platforms = append(r.platforms, platform{goos, arch})
	}
	return r, nil
}

// make creates all files. It performs the steps in sequence and stops at the first error.
func (r *release) make() error {
	if err := r.clear(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.work, 0o755); err != nil {
		return err
	}
	log.Printf("version %s, commit %s of %s", r.version, r.commit, r.date.Format(time.RFC3339))
	host := platform{runtime.GOOS, runtime.GOARCH}
	for _, p := range append([]platform{host}, r.platforms...) {
		if err := r.build(p); err != nil {
			return err
		}
	}
	if err := r.documents(host); err != nil {
		return err
	}
	for _, p := range r.platforms {
		steps := []func(platform) error{r.archive, r.bill, r.npmPlatform}
		if p.os == "linux" {
			steps = append(steps, r.packages, r.image)
		}
		for _, step := range steps {
			if err := step(p); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	for _, step := range []func() error{r.npmMain, r.formula, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return os.RemoveAll(r.work)
}

// clear removes the results of an earlier run. It returns an error if the folder contains other
// files.
func (r *release) clear() error {
	entries, err := os.ReadDir(r.dist)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); n != "SHA256SUMS" && n != ".work" && !strings.HasPrefix(n, program) {
			return fmt.Errorf("the folder %s contains %s, which no earlier run wrote: choose another folder with -dist", r.dist, n)
		}
	}
	return os.RemoveAll(r.dist)
}

// built returns the path of the program for a platform.
func (r *release) built(p platform) string {
	return filepath.Join(r.work, p.os+"_"+p.arch, p.binary())
}

// build builds the program for a platform. It does nothing if the program is already built.
func (r *release) build(p platform) error {
	if _, err := os.Stat(r.built(p)); err == nil {
		return nil
	}
	log.Printf("building for %s", p)
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X "+module+"/internal/app/cli.release="+r.version, "-o", r.built(p), "./cmd/"+program)
	c.Dir = r.root
	c.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	c.Stderr = os.Stderr
	return c.Run()
}

// These methods return the folders for the generated manual pages and completions.
func (r *release) man() string         { return filepath.Join(r.work, "man") }
func (r *release) completions() string { return filepath.Join(r.work, "completions") }

// shells contains the shells for which the program has completions, with the usual name of each
// completion file.
var shells = map[string]string{"bash": "dragoman.bash", "zsh": "_dragoman", "fish": "dragoman.fish", "powershell": "dragoman.ps1"}

// documents creates the manual pages, and the completions with the program that was built for this
// machine.
func (r *release) documents(host platform) error {
	if err := errors.Join(os.MkdirAll(r.man(), 0o755), os.MkdirAll(r.completions(), 0o755)); err != nil {
		return err
	}
	// Without a date, the header would contain today's.
	header := &doc.GenManHeader{Section: "1", Source: "dragoman " + r.version, Date: &r.date}
	if err := doc.GenManTree(cli.Command(), header, r.man()); err != nil {
		return err
	}
	for shell, name := range shells {
		script, err := output(r.root, r.built(host), "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.completions(), name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of the files in a folder, sorted.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, err
}

// output runs a command in a folder and returns its stdout without the newlines at the end.
func output(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	var said strings.Builder
	c.Stderr = &said
	b, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimRight(string(b), "\n"), err
}
