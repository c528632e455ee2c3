package cli

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// houseConfig returns the configuration whose database has the sign-ins: that which serve would use. A file that
// somebody else may have put into the working directory counts only if the user has used it before, because it
// says where credentials are kept.
func (w *world) houseConfig(named string) *config.Snapshot {
	if path, ok := w.env.configPath(named); ok {
		if x, _ := w.env.open(path); x != nil && (!x.foundHere(named) || x.used()) {
			return x.Snapshot
		}
	}
	return config.Default()
}

// openDesk returns what signs the user in at servers. It opens no file before a server asks for a sign-in. Close it after
// use.
func (w *world) openDesk(house *config.Snapshot, atOnce bool) *daemon.Desk {
	o := daemon.DeskOptions{Config: house, Database: houseFile(), AtOnce: atOnce, Log: w.log, Env: w.env}
	if seat := w.env.seat(); seat.HasBrowser() {
		o.Browser = seat.Open
	}
	return daemon.OpenDesk(o)
}

// likeConfigured gives a server that the command line names by its URL the sign-in that default has configured for
// the same URL. A flag such as --header says otherwise.
func likeConfigured(s config.Server, house *config.Snapshot) config.Server {
	id, err := oauth.Canonical(s.URL)
	if err != nil || s.SignIn.How != config.HowAuto {
		return s
	}
	for _, x := range house.Servers {
		if other, err := oauth.Canonical(x.URL); x.URL != "" && err == nil && other == id && x.SignIn.How != config.HowHeaders {
			s.SignIn = x.SignIn
			if s.CAFile == "" {
				s.CAFile = x.CAFile
			}
			return s
		}
	}
	return s
}

// signInWays say how the user wants to sign in.
type signInWays struct {
	device    bool // with a code, on another machine
	noBrowser bool
}

// signIn signs somebody in at a server, and waits for them. It shows the link, and lets three ways race: a browser of
// this machine, the address that a browser of another machine ends at, pasted here, and the issuer's code for
// another machine.
func (w *world) signIn(ctx context.Context, s *signin.Server, server string, of store.SignIn, ways signInWays) error {
	seat := w.env.seat()
	browser := seat.HasBrowser() && !ways.noBrowser && !ways.device
	w.status.Step(server, "asking how to sign in")
	f, err := s.Begin(ctx, of, browser)
	if err != nil {
		return err
	}
	resume := w.status.Pause()
	defer resume()
	t := &terminal{status: w.status}
	t.say(t.bold("Sign in to "+clean(server)+" at "+clean(f.Issuer())) + ":")
	if tunnel := seat.Tunnel(f.Port()); tunnel != "" && !ways.device {
		t.say("If your browser is on another machine, run this there first, and leave it running:", "  "+tunnel)
	}
	if ways.device || !browser && f.HasDevice() {
		if err := w.showCode(ctx, t, f); err != nil && ways.device {
			return err
		}
	}
	if !ways.device {
		how := "Open this link in a browser:"
		if browser {
			how = "A browser opens this link. If it doesn't, open it yourself:"
		}
		t.say(how, "  "+clean(f.Link()))
	}
	err = w.awaitSignIn(ctx, t, f, !ways.device)
	var late timeoutError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return &failure.Failure{
			Class: failure.NeedsSignIn, Server: server, Sentence: "nobody has signed in to " + server + " within " + late.after.String(),
			Action: "run the command again and open the link, or allow more time with --timeout",
		}
	}
	return err
}

// showCode begins the way with a code, and shows it.
func (w *world) showCode(ctx context.Context, t *terminal, f *signin.Flow) error {
	dev, err := f.Device(ctx)
	if err != nil {
		return err
	}
	t.say("On any device, open "+clean(dev.Page)+" and type the code", "  "+t.bold(clean(dev.User)))
	if dev.Whole != "" {
		t.say("or open "+clean(dev.Whole), "")
	}
	return nil
}

// awaitSignIn waits until the sign-in is done. If paste is true and there is a terminal, the user may paste the
// address at which their browser has ended.
func (w *world) awaitSignIn(ctx context.Context, t *terminal, f *signin.Flow, paste bool) error {
	if !paste || !w.interactive {
		return signalOr(ctx, f.Wait(ctx))
	}
	in, err := w.openInput()
	if err != nil {
		return signalOr(ctx, f.Wait(ctx))
	}
	t.say("If it ends on a page that can't be reached, paste the address of that page here:")
	var reading sync.WaitGroup
	reading.Go(func() { w.readPasted(ctx, t, in, f) })
	err = f.Wait(ctx)
	_ = in.Close() // ends readPasted
	reading.Wait()
	return signalOr(ctx, err)
}

// readPasted reads lines until the flow has ended or the input is closed.
func (w *world) readPasted(ctx context.Context, t *terminal, in io.Reader, f *signin.Flow) {
	for {
		line, err := readLine(in)
		if err != nil {
			return
		}
		select {
		case <-f.Done():
			return
		default:
		}
		if line == "" {
			continue
		}
		err = f.Paste(ctx, line)
		if err == nil || f.Err() != nil {
			return // signIn says how it has ended
		}
		var problem interface{ NextStep() string }
		switch {
		case errors.As(err, &problem) && problem.NextStep() != "":
			t.say("That didn't work: "+clean(err.Error())+".", "You can paste again: "+clean(problem.NextStep())+".")
		default:
			t.say("That didn't work: " + clean(err.Error()) + ". You can paste again.")
		}
	}
}

// seenWithin is how long a serve may take to hear of a sign-in.
const seenWithin = 10 * time.Second

// signInAtServe signs the user in at a server that a serve can't use without. Both have the same configuration, so
// the serve finds the sign-in in its store.
func (c *client) signInAtServe(ctx context.Context, s config.Server, base string, r *admin.Report) error {
	wants := func(r *admin.Report) bool {
		x := serverNamed(r, s.Name)
		return x != nil && x.Failure != nil && x.Failure.Class == failure.NeedsSignIn
	}
	if !wants(r) {
		return nil
	}
	desk := c.openDesk(c.houseConfig(c.where.file), false)
	defer desk.Close()
	at := desk.At(event.DefaultProject, s)
	if at == nil {
		return nil
	}
	c.showProgress()
	if err := c.signIn(ctx, at, s.Name, at.Of(nil), signInWays{}); err != nil {
		return err
	}
	for end := time.Now().Add(seenWithin); time.Now().Before(end); {
		if _, now, why := (locator{c.env}).statusAt(ctx, base, ""); why != "" || !wants(&now) {
			return nil
		}
		if err := work.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// unreachable reports whether a server or an issuer could not be reached, so that the same may work later.
func unreachable(err error) bool {
	var e *egress.Error
	switch {
	case errors.As(err, &e):
		return e.Weather()
	case oauth.Weather(err):
		return true
	}
	f := failureIn(err)
	if f == nil {
		return false
	}
	switch f.Class {
	case failure.DNS, failure.ConnectionRefused, failure.Unreachable, failure.TLS, failure.Silent, failure.CutOff, failure.ServerError, failure.Overloaded:
		return true
	}
	return false
}

// withCode is an error for which the exit code isn't 1.
type withCode struct {
	error
	code int
}

func (e withCode) Unwrap() error { return e.error }
