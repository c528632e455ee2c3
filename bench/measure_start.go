package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const startLimit = 20 * time.Second // the time limit for the first answer from a process

// measureStarts measures, over stdio, the time from the start of a process to its answer to
// tools/list. The process is the echo server itself, or Dragoman with the echo server as its child.
// The two take turns. Then it measures Dragoman's memory when nothing happens.
func (s *stage) measureStarts(ctx context.Context, r *report.Report) error {
	if s.dragoman == "" {
		return nil
	}
	for _, cell := range s.cells {
		client, upstream := eras[cell[0]], eras[cell[1]]
		who := report.Who{Path: report.Stdio, Client: client.Letter(), Upstream: upstream.Letter()}
		say("start: %s, %d times", who, s.starts)
		own := s.child(client)
		dragoman := slices.Concat([]string{s.dragoman, "run"}, s.dragomanArgs, []string{"--"}, s.child(upstream))
		var through, alone []float64
		for n := range s.starts + 1 {
			a, err := startOnce(ctx, client, own, 0)
			b, err2 := startOnce(ctx, client, dragoman, 0)
			if err := errors.Join(err, err2); err != nil {
				s.fail(who.String()+", start", err)
				return ctx.Err()
			}
			if n > 0 { // the first round only loads the binaries into memory
				alone, through = append(alone, micros(a.after)/1000), append(through, micros(b.after)/1000)
			}
		}
		idle, err := startOnce(ctx, client, dragoman, s.settle)
		if err != nil {
			s.fail(who.String()+", idle", err)
			return ctx.Err()
		}
		r.Starts = append(r.Starts, report.Start{
			Who: who, Time: report.Summarize(through), Alone: report.Summarize(alone), Ratio: report.Ratio(through, alone),
			Memory: idle.memory, Own: idle.own,
		})
	}
	return nil
}

// started is what startOnce measures.
type started struct {
	after       time.Duration // the time to the answer to tools/list
	memory, own int64         // what is resident when nothing happens, and what of it is not from files
}

// startOnce runs args as an MCP server on stdio and stops it. If idle is not zero, it reads the
// memory after that time in which nothing happens.
func startOnce(ctx context.Context, era words.Era, args []string, idle time.Duration) (s started, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit+idle)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return s, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	defer func() {
		_ = stdin.Close() // 2026-07-28 §stdio, "Shutdown": a server exits when its stdin ends
		err = errors.Join(err, ended(cmd))
	}()
	if err := firstAnswers(era, stdin, bufio.NewReader(stdout)); err != nil {
		return s, err
	}
	s.after = time.Since(start)
	if idle > 0 && pause(ctx, idle) {
		s.memory, s.own, err = proc.Resident(cmd.Process.Pid)
	}
	return s, err
}

// firstAnswers asks for the list of tools, as a client does that has just started the server.
func firstAnswers(era words.Era, stdin io.Writer, answers *bufio.Reader) error {
	if era == words.Legacy {
		if err := converse(stdin, answers, words.Initialize("1", "dragoman-bench"), "1"); err != nil {
			return fmt.Errorf("initialize: %w", err)
		}
		if err := converse(stdin, answers, words.Initialized(), ""); err != nil {
			return fmt.Errorf("notifications/initialized: %w", err)
		}
	}
	if err := converse(stdin, answers, words.List(era, "2"), "2"); err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	return nil
}

// converse writes message, and reads lines until it gets the answer to the request with the given
// id. If id is "", it reads nothing.
func converse(w io.Writer, r *bufio.Reader, message []byte, id string) error {
	if _, err := w.Write(append(message, '\n')); err != nil || id == "" {
		return err
	}
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		if load.IsRequest(line) {
			continue // skip a notification
		}
		_, err = load.ResultOf(line, []byte(id))
		return err
	}
}

// ended waits until cmd has exited. It returns an error if cmd was killed. It ignores the exit code.
func ended(cmd *exec.Cmd) error {
	if err := cmd.Wait(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 {
		return fmt.Errorf("the process did not exit at the end of its input: %w", err)
	}
	return nil
}
