package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Spec describes the child to start and how to handle it. A duration of 0 means the default,
// which is the last value in the comment of the field.
type Spec struct {
	Command string   // the program; looked up in the PATH of Env unless it contains a path separator
	Args    []string // the arguments without the command; no shell interprets them
	Env     []string // the complete environment; see Environ; nil means no variables
	Dir     string   // the working directory; "" means the directory of this process

	// Options are the options of the pipe, except that a Limits.Bytes of 0 means MaxFromUpstream.
	// Start sets Limits.Tolerant.
	Options Options

	// StderrBytes is how many bytes are kept from the end of the child's stderr. 0 means 1 MiB.
	StderrBytes int
	// OnStderr is called with each line of stderr. The line is cut after 4 KiB, and is not safe for
	// a terminal (see Printable). OnStderr must not keep the line, and must return soon, because it
	// can block the child. OnStderr is always called by the same goroutine. It may be nil.
	OnStderr func(line []byte)

	ExitGrace time.Duration // time from closing stdin to SIGTERM; 2 s
	TermGrace time.Duration // time from SIGTERM to SIGKILL; 5 s
	// DrainDelay is how long to wait for output after the child has exited, because another process
	// may keep stdout or stderr open; 500 ms.
	DrainDelay time.Duration
}

// killGrace is how long Stop waits until a killed process is gone. A process that hangs in a driver
// cannot be killed.
const killGrace = 5 * time.Second

// Process is a child and the pipe to it. It is safe for concurrent use. The caller of Start
// must call Stop, even if the child has exited by itself.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	pipe   *Pipe
	output *output
	stderr ring

	dead   chan struct{} // closed when the child has exited
	exited chan struct{} // closed by run after the child has exited and its stderr was read

	mu    sync.Mutex // held only for short operations, such as sending a signal
	group processGroup
	gone  bool // no more signals may be sent, because the child's pid may be reused
	state *os.ProcessState

	running sync.WaitGroup // the goroutine of run and the goroutine that drains stderr
	once    sync.Once      // makes Stop run only once
	err     error          // the result of Stop
}

// Start starts a child. If ctx has ended, Start does not start the child. After the start, ctx has
// no effect. The child runs until Stop, its own exit, or the exit of this process. The error is a
// *StartError if the command is the cause.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	setDefaults(&spec)
	path, err := resolve(&spec)
	if err != nil {
		return nil, err
	}
	p := &Process{
		spec:   spec,
		dead:   make(chan struct{}),
		exited: make(chan struct{}),
		stderr: ring{size: spec.StderrBytes},
	}
	var files [6]*os.File // both ends of the three standard streams
	closeAll := func(list ...*os.File) {
		for _, f := range list {
			_ = f.Close() // Close of a nil *os.File does not panic
		}
	}
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			closeAll(files[:]...)
			return nil, err
		}
	}
	inR, inW, outR, outW, errR, errW := files[0], files[1], files[2], files[3], files[4], files[5]
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{spec.Command}, spec.Args...),
		Env: spec.Env, Dir: spec.Dir,
		Stdin: inR, Stdout: outW, Stderr: errW,
	}
	p.output = &output{f: outR, dead: p.dead, delay: spec.DrainDelay, ended: make(chan struct{})}
	p.pipe = NewPipe(p.output, inW, spec.Options)

	start := make(chan error, 1)
	p.running.Go(func() { p.run(start, errR) })
	err = <-start
	closeAll(inR, outW, errW)
	if err != nil {
		p.running.Wait()
		closeAll(inW, outR, errR)
		return nil, startFailed(&spec, path, err)
	}
	return p, nil
}

func setDefaults(s *Spec) {
	if s.Env == nil {
		s.Env = []string{} // nil would mean the environment of this process
	}
	s.Args = slices.Clone(s.Args)
	s.Options.Limits.Tolerant = true
	orDefault(&s.Options.Limits.Bytes, MaxFromUpstream)
	orDefault(&s.StderrBytes, defaultStderr)
	orDefault(&s.ExitGrace, 2*time.Second)
	orDefault(&s.TermGrace, 5*time.Second)
	orDefault(&s.DrainDelay, 500*time.Millisecond)
}

func orDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// run starts the child, waits for its exit and cleans up.
//
// On Linux the child is killed when this process exits. But the kernel treats the thread that
// started the child as the parent, and would kill the child when that thread ends. So the goroutine
// keeps its thread until the child has exited. This has no cost, because a goroutine that waits for
// a process occupies a thread anyway.
func (p *Process) run(start chan<- error, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)

	err := prepare(p.cmd)
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		start <- err
		return
	}
	if err := p.group.adopt(p.cmd.Process); err != nil {
		_ = p.cmd.Process.Kill()
		_, _ = p.cmd.Process.Wait()
		start <- err
		return
	}
	drained := make(chan struct{})
	p.running.Go(func() {
		defer close(drained)
		defer stderr.Close()
		_ = drain(lastReader{stderr, p.spec.DrainDelay}, &p.stderr, p.spec.OnStderr)
	})
	start <- nil

	p.group.awaitExit() // wait until the child has exited; its pid cannot be reused yet
	p.mu.Lock()
	p.group.kill() // kill the other processes of the group
	p.gone = true
	p.mu.Unlock()
	state, _ := p.cmd.Process.Wait()
	p.mu.Lock()
	p.state = state
	p.mu.Unlock()
	p.group.cleanUp()
	close(p.dead)
	// A process that left the group may keep stdout and stderr open, so reading ends after
	// DrainDelay.
	_ = p.output.f.SetReadDeadline(time.Now().Add(p.spec.DrainDelay))
	_ = stderr.SetReadDeadline(time.Now().Add(p.spec.DrainDelay))
	<-drained
}

// Pipe returns the pipe to the child's standard streams. Read returns io.EOF when the child has
// closed its stdout, even if the child is still alive.
func (p *Process) Pipe() *Pipe { return p.pipe }

// Raw returns the child's stdout and stdin, for callers that copy bytes. Callers must use either
// these streams or Pipe, but not both. Stop closes stdin first.
func (p *Process) Raw() (stdout io.Reader, stdin io.WriteCloser) {
	return p.output, rawInput{p.pipe.out}
}

type rawInput struct{ out *writer }

func (r rawInput) Write(b []byte) (int, error) { return r.out.w.Write(b) }
func (r rawInput) Close() error                { return r.out.close() }

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the child has exited, its group has ended and its
// stderr was read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitText returns how the child exited, such as "exit status 3" or "signal: killed". It
// returns "" while the child runs.
func (p *Process) ExitText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return ""
	}
	return p.state.String()
}

// ExitStatus returns the exit status as a shell reports it: the child's own exit status, or 128
// plus the number of the signal that ended the child. It returns 0 while the child runs.
func (p *Process) ExitStatus() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return 0
	}
	if w, ok := p.state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return p.state.ExitCode()
}

// StderrTail returns the last non-blank lines of stderr, oldest first. Printable has made the lines
// safe for a terminal, but they may contain secrets.
func (p *Process) StderrTail(lines int) []string { return tail(p.stderr.bytes(), lines) }

// Withheld returns the names of variables that the environment of this process has, that the child
// did not get, and that the child's stderr mentions. It returns at most three names, in the order
// of their first mention. If the child has failed, the lack of these variables is probably the
// reason.
func (p *Process) Withheld() []string {
	const lines, most = 200, 3
	names := Mentioned(p.StderrTail(lines), Missing(p.spec.Env))
	return names[:min(len(names), most)]
}

// Stop ends the child and all processes of its group, and releases all resources. It follows
// 2026-07-28 §stdio, "Shutdown": it closes stdin, sends SIGTERM to the group after ExitGrace, and
// sends SIGKILL after TermGrace. On Windows, it kills the processes after ExitGrace. When ctx ends,
// the processes are killed at once. While Stop waits, the child's remaining output can be read.
//
// A second call waits for the first one and returns the same error. The error means that the child
// is still alive after it was killed, or that a stream could not be closed.
func (p *Process) Stop(ctx context.Context) error {
	p.once.Do(func() { p.err = p.stop(ctx) })
	return p.err
}

func (p *Process) stop(ctx context.Context) error {
	p.signal((*processGroup).recordDescendants)
	_ = p.pipe.out.close()
	if !p.awaitExit(ctx, p.spec.ExitGrace) {
		p.signal((*processGroup).recordDescendants)
		p.signal((*processGroup).terminate)
		if !p.awaitExit(ctx, p.spec.TermGrace) {
			p.signal((*processGroup).recordDescendants)
			p.signal((*processGroup).kill)
		}
	}
	late := time.NewTimer(killGrace + p.spec.DrainDelay)
	defer late.Stop()
	var err error
	select {
	case <-p.exited:
		p.running.Wait()
		p.group.close()
	case <-late.C:
		err = fmt.Errorf("process %d was killed but does not exit", p.PID())
	}
	// Give the reader a moment to read the last output.
	last := time.NewTimer(p.spec.DrainDelay)
	defer last.Stop()
	select {
	case <-p.output.ended:
	case <-p.pipe.closed:
	case <-last.C:
	}
	return errors.Join(err, p.pipe.Close())
}

// signal calls f unless the child may have been reaped.
func (p *Process) signal(f func(*processGroup)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		f(&p.group)
	}
}

// awaitExit reports whether the child exits within d and before ctx ends.
func (p *Process) awaitExit(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.dead:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// output is the child's stdout. After the child has exited, each further read waits at most
// delay.
type output struct {
	f     *os.File
	dead  <-chan struct{}
	delay time.Duration
	once  sync.Once
	ended chan struct{} // closed when Read has returned an error
}

func (o *output) Read(b []byte) (int, error) {
	select {
	case <-o.dead:
		_ = o.f.SetReadDeadline(time.Now().Add(o.delay))
	default:
	}
	n, err := lastRead(o.f, b, o.delay)
	if err != nil {
		o.once.Do(func() { close(o.ended) })
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF
		}
	}
	return n, err
}

// lastRead reads from f, whose deadline begins to run when the child exits. A busy machine may let us run only when it's
// over. What the child has left is read nevertheless: it's often the only thing that says why it has exited.
func lastRead(f *os.File, b []byte, delay time.Duration) (int, error) {
	n, err := f.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = f.SetReadDeadline(time.Now().Add(delay / 2))
		return f.Read(b)
	}
	return n, err
}

// lastReader is a file that is read with lastRead.
type lastReader struct {
	*os.File
	delay time.Duration
}

func (r lastReader) Read(b []byte) (int, error) { return lastRead(r.File, b, r.delay) }

func (o *output) Close() error { return o.f.Close() }
