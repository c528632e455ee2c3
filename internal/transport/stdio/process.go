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

// Spec says which child to start and how to look after it. Durations of 0 mean
// the defaults that stand beside them.
type Spec struct {
	Command string   // looked up in Env's PATH unless it holds a separator
	Args    []string // without the command; passed on as they are, by no shell
	Env     []string // the complete environment; see Environ. Nil means none at all
	Dir     string   // "" means ours

	// Options of the pipe. Limits.Bytes of 0 means MaxFromUpstream here, and
	// Limits.Tolerant is always set.
	Options Options

	// StderrBytes of the child's standard error are kept; 0 means 1 MiB.
	StderrBytes int
	// OnStderr, if set, is called with each line of standard error, cut after
	// 4 KiB and not fit for a terminal (see Printable). It must not keep the line
	// and must return soon, for the child waits for it in the end. It is called by
	// one goroutine.
	OnStderr func(line []byte)

	ExitGrace time.Duration // from the end of input to a polite signal; 2 s
	TermGrace time.Duration // from there to the kill; 5 s
	// DrainDelay is how long we go on waiting for output after the child's death,
	// for somebody else may hold the pipe open; 500 ms.
	DrainDelay time.Duration
}

// killGrace is how long Stop waits for the operating system to bury a process
// that was killed. One that hangs in a driver cannot be helped.
const killGrace = 5 * time.Second

// Process is a child and the pipe to it. Its methods are safe for concurrent use.
// Whoever started it must call Stop, also when it has ended by itself.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	pipe   *Pipe
	output *output
	stderr ring

	started time.Time
	dead    chan struct{} // closed when the child has ended
	exited  chan struct{} // closed by run when nothing more will come of it

	mu     sync.Mutex // never held for longer than a signal takes
	family family
	gone   bool // the child is buried: its pid may be somebody else's
	state  *os.ProcessState

	running sync.WaitGroup // run, and the goroutine that drains standard error
	once    sync.Once      // of Stop
	err     error          // of Stop
}

// Start starts a child. The context can only prevent the start; the child lives
// until Stop, its own end or ours. The error is a *StartError when the command is
// at fault.
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
	var files [6]*os.File // reading and writing ends of the three streams
	closeAll := func(list ...*os.File) {
		for _, f := range list {
			_ = f.Close() // a nil *os.File refuses
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
		s.Env = []string{} // exec would take ours for nil
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

// run starts the child, waits for its end and clears up behind it.
//
// On Linux the child is to be killed when we die, but the kernel takes the thread
// that forked for the parent: were it to end, the child would die with it. So the
// goroutine keeps its thread until the child has ended. That costs nothing, for
// waiting for a process occupies a thread anyway.
func (p *Process) run(start chan<- error, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)

	prepare(p.cmd)
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		start <- err
		return
	}
	if err := p.family.adopt(p.cmd.Process); err != nil {
		_ = p.cmd.Process.Kill()
		_, _ = p.cmd.Process.Wait()
		start <- err
		return
	}
	drained := make(chan struct{})
	p.running.Go(func() {
		defer close(drained)
		defer stderr.Close()
		_ = drain(stderr, &p.stderr, p.spec.OnStderr)
	})
	start <- nil

	p.family.awaitExit() // the child has ended, but its pid is still its own
	p.mu.Lock()
	p.family.kill() // whatever it left behind in its group
	p.gone = true
	p.mu.Unlock()
	state, _ := p.cmd.Process.Wait()
	p.mu.Lock()
	p.state = state
	p.mu.Unlock()
	p.family.bury()
	close(p.dead)
	// Somebody who left the group may hold the pipes open.
	_ = p.output.f.SetReadDeadline(time.Now().Add(p.spec.DrainDelay))
	_ = stderr.SetReadDeadline(time.Now().Add(p.spec.DrainDelay))
	<-drained
}

// Pipe returns the pipe to the child's standard streams. Read ends with io.EOF
// when the child has closed its output, be it alive or not.
func (p *Process) Pipe() *Pipe { return p.pipe }

// Raw returns the child's standard output and input as they are, for whoever passes
// bytes on; use either these or Pipe. Closing the input is what Stop begins with.
func (p *Process) Raw() (stdout io.Reader, stdin io.WriteCloser) {
	return p.output, rawInput{p.pipe.out}
}

type rawInput struct{ out *writer }

func (r rawInput) Write(b []byte) (int, error) { return r.out.w.Write(b) }
func (r rawInput) Close() error                { return r.out.close() }

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Started returns when the child was started.
func (p *Process) Started() time.Time { return p.started }

// Exited returns a channel that is closed when the child has ended, its group is
// dead and its standard error is read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitText returns how the child ended, such as "exit status 3" or "signal:
// killed", and "" while it lives.
func (p *Process) ExitText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return ""
	}
	return p.state.String()
}

// ExitCode returns the child's exit status, -1 while it lives or when a signal
// ended it.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.ExitCode()
}

// ExitStatus returns what a shell reports of the child's end: its exit status, or 128
// and the number of the signal that ended it. It is 0 while the child lives.
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

// Stderr returns what is kept of the child's standard error, as it came.
func (p *Process) Stderr() []byte { return p.stderr.bytes() }

// StderrTail returns the last lines of standard error that are not blank, as
// Printable makes them, oldest first. They may hold secrets of the child.
func (p *Process) StderrTail(lines int) []string { return tail(p.stderr.bytes(), lines) }

// Stop ends the child and all of its group and gives everything back. It follows
// 2026-07-28 §stdio, "Shutdown": end of input, then after ExitGrace SIGTERM to the
// group, then after TermGrace SIGKILL; the latter two are one on Windows. When
// ctx ends the kill follows at once. What the child still says can be read
// meanwhile.
//
// A second call waits for the first and returns the same. The only error is a
// process that outlives its kill.
func (p *Process) Stop(ctx context.Context) error {
	p.once.Do(func() { p.err = p.stop(ctx) })
	return p.err
}

func (p *Process) stop(ctx context.Context) error {
	p.signal((*family).note)
	_ = p.pipe.out.close()
	if !p.awaitDeath(ctx, p.spec.ExitGrace) {
		p.signal((*family).note)
		p.signal((*family).terminate)
		if !p.awaitDeath(ctx, p.spec.TermGrace) {
			p.signal((*family).note)
			p.signal((*family).kill)
		}
	}
	late := time.NewTimer(killGrace + p.spec.DrainDelay)
	defer late.Stop()
	var err error
	select {
	case <-p.exited:
		p.running.Wait()
		p.family.close()
	case <-late.C:
		err = fmt.Errorf("process %d has been killed but does not end", p.PID())
	}
	// A reader that is at it may have the last words, if it is quick.
	last := time.NewTimer(p.spec.DrainDelay)
	defer last.Stop()
	select {
	case <-p.output.ended:
	case <-p.pipe.closed:
	case <-last.C:
	}
	return errors.Join(err, p.pipe.Close())
}

// signal does f unless the child is buried.
func (p *Process) signal(f func(*family)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		f(&p.family)
	}
}

// awaitDeath reports whether the child ends within d and before ctx.
func (p *Process) awaitDeath(ctx context.Context, d time.Duration) bool {
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

// output is the child's standard output. After the child's death it waits no
// longer than the delay for each further byte.
type output struct {
	f     *os.File
	dead  <-chan struct{}
	delay time.Duration
	once  sync.Once
	ended chan struct{} // Read has returned its last
}

func (o *output) Read(b []byte) (int, error) {
	select {
	case <-o.dead:
		_ = o.f.SetReadDeadline(time.Now().Add(o.delay))
	default:
	}
	n, err := o.f.Read(b)
	if err != nil {
		o.once.Do(func() { close(o.ended) })
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF
		}
	}
	return n, err
}

func (o *output) Close() error { return o.f.Close() }
