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

	"github.com/dragoman-mcp/dragoman/internal/doctor"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// examineClient plays a server and reports on the client that comes.
func (a *app) examineClient(c *cobra.Command, f *doctorFlags, args []string) error {
	a.startLog(slog.LevelError, nil)
	switch given := f.t.given(); {
	case len(args) > 0:
		return usagef("remove one of them", "--client takes no server, but got %q", args[0])
	case given != "":
		return usagef("remove it", "%s cannot be used with --client", given)
	case f.stdio && c.Flags().Changed("listen"):
		return usagef("remove one of them", "--stdio and --listen cannot be used together")
	case !f.stdio && f.output != "":
		return usagef("add --stdio, or read the report from stdout", "--output works only with --stdio")
	}
	if f.stdio {
		return a.clientOnStreams(c.Context(), f)
	}
	if err := checkListen(f.listen, f.open); err != nil {
		return err
	}
	return a.clientAnywhere(c.Context(), f)
}

// clientOnStreams is the server that a client starts. Standard output belongs to
// the protocol: the report goes to standard error, and to a file.
func (a *app) clientOnStreams(ctx context.Context, f *doctorFlags) error {
	in, out := io.NopCloser(a.stdin), io.WriteCloser(unclosed{a.stdout})
	if a.stdin == os.Stdin && a.stdout == os.Stdout {
		var err error
		if in, out, err = stdio.Streams(); err != nil {
			return fmt.Errorf("open stdin and stdout: %w", err)
		}
	}
	s := doctor.NewStage()
	err := ended(ctx, s.ServePipe(ctx, in, out))
	r := s.Report()
	if !a.quiet {
		_, _ = a.status.Write([]byte(a.clientText(r)))
	}
	if f.output != "" {
		if bad := writeWhole(f.output, append(r.JSON(), '\n'), a.clientText(r)); bad != nil {
			err = errors.Join(err, withHint(fmt.Errorf("write the report: %w", bad), "choose a file in a directory that you can write to"))
		}
	}
	return err
}

// textSuffix is what the report for people is called beside the one in JSON.
const textSuffix = ".txt"

// writeWhole writes both forms of a report such that a reader never sees half of
// one: the JSON comes last, and at once.
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

// lookAgain is how often it is looked whether the client's own copy has reported.
const lookAgain = 200 * time.Millisecond

// clientAnywhere serves clients over HTTP, waits for the report of a copy that the
// client may start instead, and prints what comes first.
func (a *app) clientAnywhere(ctx context.Context, f *doctorFlags) error {
	dir, err := os.MkdirTemp("", "dragoman-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	report := filepath.Join(dir, "report.json")
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s := doctor.NewStage()
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	a.status.Printf("connect the client to this URL: %s", reachable("http://"+l.Addr().String()+"/mcp"))
	a.status.Printf("or give it this command:        %s doctor --client --stdio -o %s", clean(a.fromAnywhere()), report)
	a.status.Printf("use the client for a while, then quit it or press Ctrl-C to get the report")
	var wg sync.WaitGroup
	serve, stop := context.WithCancel(ctx)
	found := false // written by the watcher, read once it has ended
	wg.Go(func() {
		defer func() { _ = h.Close() }()
		t := time.NewTicker(lookAgain)
		defer t.Stop()
		for !found {
			select {
			case <-t.C:
				_, err := os.Stat(report)
				found = err == nil
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
		return a.copyReport(report, f.asJSON)
	}
	return a.printClient(s.Report(), f.asJSON)
}

// fromAnywhere is how this program is started by somebody who stands elsewhere.
func (a *app) fromAnywhere() string {
	if strings.ContainsRune(a.program, filepath.Separator) {
		if whole, err := filepath.Abs(a.program); err == nil {
			return whole
		}
	}
	return a.program
}

// copyReport prints what the client's own copy has written.
func (a *app) copyReport(path string, asJSON bool) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	shown := raw
	if !asJSON {
		if shown, err = os.ReadFile(path + textSuffix); err != nil {
			return err
		}
	}
	if _, err := a.stdout.Write(shown); err != nil {
		return err
	}
	verdict := jsonrpc.Find(raw, jsonrpc.Whole(raw), "verdict")
	return clientExit(jsonrpc.KindOf(raw, jsonrpc.Find(raw, verdict, "reached")) == 't', jsonrpc.KindOf(raw, jsonrpc.Find(raw, verdict, "healthy")) == 't')
}

// clientExit is how the command ends: as for a server.
func clientExit(reached, healthy bool) error {
	switch {
	case !reached:
		return exitError(exitUnreachable)
	case !healthy:
		return errReported
	}
	return nil
}

func (a *app) printClient(r *doctor.ClientReport, asJSON bool) error {
	out := []byte(a.clientText(r))
	if asJSON {
		out = append(r.JSON(), '\n')
	}
	if _, err := a.stdout.Write(out); err != nil {
		return err
	}
	return clientExit(r.Messages > 0, doctor.Worst(r.Findings) != doctor.Error)
}

// clientText is the report for people.
func (a *app) clientText(r *doctor.ClientReport) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	for _, f := range r.Findings {
		a.printFinding(w, f)
	}
	if r.Messages > 0 {
		fmt.Fprintln(w, countOf(r.Findings))
	}
	_, _ = w.WriteString(r.Text())
	_ = w.Flush()
	return b.String()
}
