package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
)

// examineClient acts as a server, and prints a report about the client that connects.
func (c *doctorCommand) examineClient(cmd *cobra.Command, args []string) error {
	c.startLog(slog.LevelError, nil)
	switch given := c.t.given(); {
	case len(args) > 0:
		return usagef("remove --client or the server", "--client does not take a server, but %q was given", args[0])
	case given != "":
		return usagef("remove the option", "%s cannot be used with --client", given)
	case c.stdio && cmd.Flags().Changed("listen"):
		return usagef("remove one of them", "--stdio and --listen cannot be used together")
	case !c.stdio && c.output != "":
		return usagef("add --stdio, or read the report from stdout", "--output works only with --stdio")
	}
	if c.stdio {
		return c.serveClientStdio(cmd.Context())
	}
	if err := checkListen(c.listen, c.open); err != nil {
		return err
	}
	return c.serveClients(cmd.Context())
}

// serveClientStdio acts as the server that a client starts. stdout carries protocol messages, so
// the report goes to stderr and to a file.
func (c *doctorCommand) serveClientStdio(ctx context.Context) error {
	in, out, err := c.streams()
	if err != nil {
		return err
	}
	s := doctor.NewStage()
	stop := followNews(s, c.output+liveSuffix)
	err = withoutStop(ctx, s.ServePipe(ctx, in, out))
	stop()
	r := s.Report()
	if !c.quiet {
		_, _ = c.status.Write([]byte(c.clientText(r)))
	}
	if c.output != "" {
		if bad := writeWhole(c.output, append(r.JSON(), '\n'), c.clientText(r)); bad != nil {
			err = errors.Join(err, withHint(fmt.Errorf("cannot write the report: %w", bad), "choose a file in a directory that you can write to"))
		}
	}
	return err
}

// liveSuffix is added to the file name of the JSON report to get the name of the file that a waiting
// doctor --client made, in which it wants to read what the client does.
const liveSuffix = ".live"

// followNews writes the news of a stage to the file at path, if there is such a file, until the returned
// function is called.
func followNews(s *doctor.Stage, path string) (stop func()) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return func() {}
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	write := func() {
		for _, line := range s.News() {
			_, _ = io.WriteString(f, line+"\n")
		}
	}
	wg.Go(func() {
		t := time.NewTicker(reportPoll)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
				write()
			}
		}
	})
	return func() {
		close(ended)
		wg.Wait()
		write()
		_ = f.Close()
	}
}

// textSuffix is added to the file name of the JSON report to get the file name of the text report.
const textSuffix = ".txt"

// writeWhole writes a report as JSON and as text. It creates the JSON file last and in one step, so
// a reader that waits for this file never reads a partial report.
func writeWhole(path string, json []byte, text string) error {
	if err := os.WriteFile(path+textSuffix, []byte(text), 0o600); err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, json, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// reportPoll is how often serveClients checks whether a Dragoman process that the client started
// has written its report.
const reportPoll = 200 * time.Millisecond

// serveClients serves clients over HTTP. A client may also start this program as a stdio server. In
// this case, the new process writes a report file when it ends. serveClients ends when this file
// exists or ctx ends. If the file exists, serveClients prints the report in the file. Otherwise, it
// prints its own report about the HTTP clients.
func (c *doctorCommand) serveClients(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "dragoman-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	report := filepath.Join(dir, "report.json")
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s := doctor.NewStage()
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	c.status.Printf("connect the client to this URL: %s", reachable("http://"+l.Addr().String()+"/mcp"))
	c.status.Printf("or give it this command:        `%s doctor --client --stdio -o %s`", clean(c.programPath()), report)
	c.status.Printf("use the client for a while, then quit it or press Ctrl-C to get the report")
	live, err := os.OpenFile(report+liveSuffix, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		_ = l.Close()
		return err
	}
	defer func() { _ = live.Close() }()
	started := bufio.NewReader(live)
	var wg sync.WaitGroup
	serve, stop := context.WithCancel(ctx)
	found := false // the goroutine below writes found; other code reads it only after the goroutine has ended
	wg.Go(func() {
		defer func() { _ = h.Close() }()
		t := time.NewTicker(reportPoll)
		defer t.Stop()
		for !found {
			select {
			case <-t.C:
				_, err := os.Stat(report)
				found = err == nil
				c.sayNews(s.News(), started)
			case <-serve.Done():
				return
			}
		}
	})
	err = h.Serve(l)
	stop()
	wg.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	if found {
		return c.copyReport(report)
	}
	return c.printClient(s.Report())
}

// sayNews prints what clients have done: the lines in news, and those in the file of the program that a
// client has started.
func (c *doctorCommand) sayNews(news []string, started *bufio.Reader) {
	for {
		line, err := started.ReadString('\n')
		if line != "" {
			news = append(news, strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			break
		}
	}
	if c.quiet {
		return
	}
	for _, line := range news {
		c.status.Printf("%s", line)
	}
}

// programPath returns the command that starts this program from any directory.
func (c *doctorCommand) programPath() string {
	if strings.ContainsRune(c.program, filepath.Separator) {
		if whole, err := filepath.Abs(c.program); err == nil {
			return whole
		}
	}
	return c.program
}

// copyReport prints the report that another Dragoman process wrote to the file at path.
func (c *doctorCommand) copyReport(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	shown := raw
	if !c.asJSON {
		if shown, err = os.ReadFile(path + textSuffix); err != nil {
			return err
		}
	}
	if _, err := c.stdout.Write(shown); err != nil {
		return err
	}
	verdict := jsonrpc.Find(raw, jsonrpc.Whole(raw), "verdict")
	return clientExit(jsonrpc.KindOf(raw, jsonrpc.Find(raw, verdict, "reached")) == 't', jsonrpc.KindOf(raw, jsonrpc.Find(raw, verdict, "healthy")) == 't')
}

// clientExit returns the error that sets the exit code. A report about a client has the same exit
// codes as a report about a server.
func clientExit(reached, healthy bool) error {
	switch {
	case !reached:
		return exitError(exitUnreachable)
	case !healthy:
		return errReported
	}
	return nil
}

func (c *doctorCommand) printClient(r *doctor.ClientReport) error {
	out := []byte(c.clientText(r))
	if c.asJSON {
		out = append(r.JSON(), '\n')
	}
	if _, err := c.stdout.Write(out); err != nil {
		return err
	}
	return clientExit(r.Messages > 0, doctor.Worst(r.Findings) != doctor.Error)
}

// checksText returns a table with one row for each check. One column marks the checks that the
// client passed. Another column lists the findings of the checks that the client failed. With
// --all, the table also has the checks that no message of the client triggered.
func (c *doctorCommand) checksText(r *doctor.ClientReport) string {
	t := screen.Table{
		Columns: []screen.Column{{Title: "A CLIENT", Whole: true}, {Title: "RIGHT", Whole: true}, {Title: "WRONG OR MISSING", Whole: true}},
		Colour:  c.screen && c.status.colour,
	}
	for _, x := range r.Checks {
		row := screen.Cells(x.Title, "", "")
		switch x.State {
		case doctor.CheckRight:
			row[1] = screen.Cell{Text: "yes", Style: screen.Green}
		case doctor.CheckWrong:
			row[2] = wrongCell(x.Codes)
		case doctor.CheckNotSeen:
			if !c.all {
				continue
			}
			row[1] = screen.Cell{Text: "not seen", Style: screen.Dim}
		}
		t.Rows = append(t.Rows, row)
	}
	return "\n" + t.Text()
}

// wrongCell returns a table cell with the codes and levels of findings.
func wrongCell(codes []string) screen.Cell {
	out, style := make([]string, len(codes)), screen.Dim
	for i, code := range codes {
		c, _ := doctor.Lookup(code)
		out[i] = fmt.Sprintf("%s (%s)", code, c.Level)
		switch {
		case c.Level == doctor.Error:
			style = screen.Red
		case c.Level == doctor.Warning && style != screen.Red:
			style = screen.Yellow
		}
	}
	return screen.Cell{Text: strings.Join(out, ", "), Style: style}
}

// clientText returns the report as text: a description of each client, then the checks and the
// findings.
func (c *doctorCommand) clientText(r *doctor.ClientReport) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	_, _ = w.WriteString(r.Text())
	if r.Messages > 0 {
		_, _ = w.WriteString(c.checksText(r))
		c.printFindings(w, r.Findings)
		hidden := 0
		if !c.all {
			hidden = countLevel(r.Findings, doctor.Info)
		}
		fmt.Fprintf(w, "\n%s%s\n", countOf(r.Findings), hiddenText(hidden, false))
	}
	_ = w.Flush()
	return b.String()
}
