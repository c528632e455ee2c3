package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if the texts of the pictures are not those of new runs")
	root := flag.String("root", "..", "`DIR` of the project")
	binary := flag.String("dragoman", "", "`FILE` of the program (default: a new build)")
	only := flag.String("only", "", "only the picture `NAME`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := run(ctx, *root, *binary, *only, *check); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, binary, only string, check bool) error {
	if binary == "" {
		dir, err := os.MkdirTemp("", "dragoman-pictures-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "dragoman")
		if err := build(ctx, root, binary); err != nil {
			return err
		}
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	out := filepath.Join(root, "docs", "pictures")
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var problems []error
	keep := func(name string, draw func(theme) string) {
		for _, t := range themes {
			path := filepath.Join(out, name+"-"+t.name+".svg")
			if err := write(path, draw(t), check); err != nil {
				problems = append(problems, err)
			}
		}
	}
	for _, s := range scenes {
		if only != "" && s.name != only {
			continue
		}
		screen, err := play(ctx, s, binary)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		keep(s.name, func(t theme) string { return drawTerminal(t, s.title, screen, columns) })
	}
	if only == "" || only == "matrix" {
		parts, err := matrixParts(root)
		if err != nil {
			return err
		}
		keep("matrix", func(t theme) string {
			return drawMatrix(t, "Which client revision works with which server revision, without and with Dragoman", parts)
		})
	}
	return errors.Join(problems...)
}

// shownVersion is the version in the pictures. The version of any other build depends on the
// commit, the tags of the clone and uncommitted files.
const shownVersion = "0.0.0"

// build builds the program as a release with the version of the pictures.
func build(ctx context.Context, root, binary string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath",
		"-ldflags", "-X github.com/dragoman-mcp/dragoman/internal/cli.release="+shownVersion, "-o", binary, "./cmd/dragoman")
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func matrixParts(root string) ([]matrixPart, error) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "compatibility.md"))
	if err != nil {
		return nil, err
	}
	without, err := readGrid(string(document), "Without Dragoman")
	if err != nil {
		return nil, err
	}
	with, err := readGrid(string(document), "Through Dragoman")
	if err != nil {
		return nil, err
	}
	return []matrixPart{
		{"Without Dragoman", "Strict peers that speak exactly one revision each.", without},
		{"With Dragoman", "The letters are features that one of the two revisions does not have.", with},
	}, nil
}

// write writes a picture. If check is set, it does not write the picture, but compares its text
// with the text of the existing file.
func write(path, picture string, check bool) error {
	if !check {
		return os.WriteFile(path, []byte(picture), 0o666)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if was, is := textOf(string(old)), textOf(picture); was != is {
		return fmt.Errorf("%s shows something else than a run: make pictures\n--- shown\n%s\n--- now\n%s", filepath.Base(path), was, is)
	}
	return nil
}

var (
	texts   = regexp.MustCompile(`<text[^>]*>([^<]*)</text>|<!-- line -->`)
	numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	units   = regexp.MustCompile(`# ?(ns|µs|ms|s|m|h)\b`)
	spaces  = regexp.MustCompile(` +`)
)

// textOf returns the lines of a picture, sorted and with # for each number. Times and the order of
// servers may differ between runs.
func textOf(picture string) string {
	var b strings.Builder
	for _, m := range texts.FindAllStringSubmatch(picture, -1) {
		if m[1] == "" {
			b.WriteByte('\n')
		}
		b.WriteString(m[1] + " ")
	}
	s := numbers.ReplaceAllString(html.UnescapeString(b.String()), "#")
	s = units.ReplaceAllString(s, "# s")
	lines := strings.Split(spaces.ReplaceAllString(s, " "), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// columns is the width of the terminal, in cells.
const columns = 116

// play runs the commands of a scene in sequence, on one screen.
func play(ctx context.Context, s scene, binary string) (*screen, error) {
	dir, err := os.MkdirTemp("", "dragoman-pictures-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// Put the program on the PATH, because the pictures show only its name.
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o777); err != nil {
		return nil, err
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "dragoman")); err != nil {
		return nil, err
	}
	binary = filepath.Join(dir, "bin", "dragoman")
	for name, content := range s.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			return nil, err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	var out screen
	var background []func() error
	defer func() {
		for _, end := range background {
			_ = end()
		}
	}()
	for i, c := range s.commands {
		if i > 0 && !c.hidden {
			out.write("\r\n")
		}
		if !c.hidden {
			out.write("\x1b[32m$\x1b[0m \x1b[1m" + strings.Join(c.shown(), " ") + "\x1b[0m\r\n")
		}
		text, end, err := start(ctx, dir, binary, c.at(address))
		if err != nil {
			return nil, err
		}
		if end != nil {
			background = append(background, end)
		}
		if !c.hidden {
			text = strings.NewReplacer(binary, "dragoman", dir, "~", address, usual).Replace(text)
			out.write(handshakes.ReplaceAllString(token.ReplaceAllString(text, "link=TOKEN"), ""))
		}
	}
	out.trim()
	return &out, nil
}

// token matches the token of a link to the console. The token is new in each run.
var token = regexp.MustCompile(`link=[\w-]+`)

// handshakes matches the log records of clients that connect. The pictures leave these records
// out, because the demo's clients may connect before or after the command has printed everything.
var handshakes = regexp.MustCompile(`(?m)^[^\n]*INF[^\n]*\binitialize[^\n]*\n`)

// usual is the address in the pictures. The commands of the scenes use a free address instead.
const usual = "127.0.0.1:7300"

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// at returns the command with address in place of the address in the picture.
func (c command) at(address string) command {
	args := slices.Clone(c.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], usual, address)
	}
	if args[0] == "serve" {
		args = append(args, "--listen", address)
	}
	c.args = args
	return c
}

// start runs a command on its own terminal and returns its output. A command with until keeps
// running until end stops it.
func start(ctx context.Context, dir, binary string, c command) (text string, end func() error, err error) {
	cmd := exec.CommandContext(ctx, binary, c.args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + filepath.Dir(binary) + ":/usr/local/bin:/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8"}
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: columns})
	if err != nil {
		return "", nil, err
	}
	read := make(chan []byte)
	go func() { // ends when the terminal is closed
		defer close(read)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			if n > 0 {
				read <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	var all bytes.Buffer
	drain := func() {
		for b := range read {
			all.Write(b)
		}
	}
	stop := func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		drain()
		err := cmd.Wait()
		return errors.Join(ignoreExit(err), tty.Close())
	}
	if c.until == "" {
		drain()
		err := ignoreExit(cmd.Wait())
		return all.String(), nil, errors.Join(err, tty.Close())
	}
	for !strings.Contains(all.String(), c.until) {
		b, ok := <-read
		if !ok {
			_ = stop()
			return "", nil, fmt.Errorf("%v ended without %q:\n%s", c.args, c.until, all.String())
		}
		all.Write(b)
	}
	// Read the rest of the output.
	for {
		select {
		case b, ok := <-read:
			if ok {
				all.Write(b)
				continue
			}
		case <-time.After(700 * time.Millisecond):
		}
		return all.String(), stop, nil
	}
}

// ignoreExit drops the error of a command that failed, because some scenes show failures.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
