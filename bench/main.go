// Command bench measures the cost of Dragoman. In one run on one machine, it compares Dragoman
// with httputil.ReverseProxy, and with itself in other situations.
//
// Without a subcommand, bench starts every contestant as a separate process. Clients make calls
// through one contestant at a time, for a short slice of time, and check every answer. At the end
// bench prints costs and ratios, and whether the targets are met. The exit code is 1 if a contestant
// failed or gave a wrong answer, and 2 for wrong usage. A missed target does not change the exit
// code. bench starts its own subcommands as processes: echo is the upstream server, proxy is the
// ReverseProxy, and bare is a plain HTTP server that shows what a call and an idle connection cost at
// least. The subcommand cluster measures what replicas cost, and starts hold, which keeps idle sessions.
// The subcommand soak keeps thousands of sessions at "dragoman serve" for an hour and looks for leaks.
// All traffic stays on the loopback interface. bench works only on Linux; see README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/dragoman-mcp/dragoman/bench/internal/echo"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	run := compare
	if len(args) > 0 {
		switch args[0] {
		case "echo":
			run, args = serveEcho, args[1:]
		case "proxy":
			run, args = serveProxy, args[1:]
		case "bare":
			run, args = serveBare, args[1:]
		case "soak":
			run, args = soak, args[1:]
		case "cluster":
			run, args = cluster, args[1:]
		case "hold":
			run, args = hold, args[1:]
		}
	}
	err := run(ctx, args)
	switch e := err.(type) {
	case nil:
	case usageError:
		if e.error != flag.ErrHelp {
			fmt.Fprintln(os.Stderr, "bench: error:", e)
		}
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		os.Exit(1)
	}
}

// usageError is an error in the arguments. It makes bench exit with code 2.
type usageError struct{ error }

// parse parses args, which must contain only flags.
func parse(flags *flag.FlagSet, args []string) error {
	flags.Init(flags.Name(), flag.ContinueOnError)
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	return nil
}

func serveEcho(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench echo", flag.ContinueOnError)
	addr := flags.String("http", "", "serve Streamable HTTP on `ADDR`, at /mcp")
	stdio := flags.Bool("stdio", false, "serve on stdin and stdout")
	name := flags.String("era", "modern", "speak `ERA`: modern (2026-07-28) or legacy (2025-11-25 and before)")
	untilEOF := flags.Bool("until-eof", false, "with -http, exit when stdin ends")
	if err := parse(flags, args); err != nil {
		return err
	}
	era, ok := words.ParseEra(*name)
	if !ok {
		return usageError{fmt.Errorf("-era must be modern or legacy, but is %s", *name)}
	}
	if *stdio == (*addr != "") {
		return usageError{fmt.Errorf("give either -http ADDR or -stdio")}
	}
	if *stdio {
		return echo.Stdio(era, os.Stdin, os.Stdout)
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	s := &echo.HTTP{Era: era}
	return s.Serve(endWithStdin(ctx, *untilEOF), ln)
}

// endWithStdin returns a context that ends when ctx ends or, if wanted is true, when stdin ends. So
// a server does not outlive the bench process that started it. The goroutine that reads stdin may
// run until the process exits, because a read of stdin cannot be cancelled.
func endWithStdin(ctx context.Context, wanted bool) context.Context {
	if !wanted {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}
