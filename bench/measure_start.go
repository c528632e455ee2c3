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
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const startLimit = 20 * time.Second // the time limit for the first answer from a process

// measureStarts measures, over stdio, the time from the start of a process to its answer to
// tools/list. The process is the echo server itself, or Dragoman with the echo server as its child.
func (s *stage) measureStarts(ctx context.Context, r *report.Report) error {
	var contestants []*contestant
	for _, c := range s.fit() {
		if c.Path == report.Direct || c.Path == report.Stdio {
			contestants = append(contestants, c)
		}
	}
	say("start: %d each of %d contestants", s.starts, len(contestants))
	taken := map[*contestant][]float64{}
	for range s.starts + 1 { // the first round only loads the binaries into memory
		for _, c := range contestants {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if c.err != nil {
				continue
			}
			args := s.child(c.upstream)
			if c.Path == report.Stdio {
				args = append(append([]string{s.dragoman, "run"}, s.dragomanArgs...), append([]string{"--"}, args...)...)
			}
			d, err := startOnce(ctx, c.client, args)
			if err != nil {
				c.err = err
				s.fail(c.String()+", start", err)
				continue
			}
			taken[c] = append(taken[c], micros(d)/1000)
		}
	}
	for _, c := range contestants {
		if c.err == nil {
			r.Starts = append(r.Starts, report.Start{Who: c.Who, Time: report.Summarize(slices.Clone(taken[c][1:]))})
		}
	}
	return nil
}

// startOnce runs args as an MCP server on stdio and stops it. It returns the time from the start to
// the answer to tools/list.
func startOnce(ctx context.Context, era words.Era, args []string) (taken time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = stdin.Close() // 2026-07-28 §stdio, "Shutdown": a server exits when its stdin ends
		err = errors.Join(err, ended(cmd))
	}()
	answers := bufio.NewReader(stdout)
	if era == words.Legacy {
		if err := converse(stdin, answers, words.Initialize("1"), "1"); err != nil {
			return 0, fmt.Errorf("initialize: %w", err)
		}
		if err := converse(stdin, answers, words.Initialized(), ""); err != nil {
			return 0, fmt.Errorf("notifications/initialized: %w", err)
		}
	}
	if err := converse(stdin, answers, words.List(era, "2"), "2"); err != nil {
		return 0, fmt.Errorf("tools/list: %w", err)
	}
	return time.Since(start), nil
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
