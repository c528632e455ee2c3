package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// exitError ends a command with this exit code and without a message.
type exitError int

func (e exitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// recordCommand is `dragoman record`.
type recordCommand struct {
	*world

	t            targetFlags
	file, listen string
	open         bool
}

func newRecordCommand(w *world) *cobra.Command {
	c := &recordCommand{world: w}
	cmd := &cobra.Command{
		Use:   "record -o FILE [flags] (URL | [--] COMMAND [ARG]...)",
		Short: "Record the messages between a client and a server",
		Long: `Record the messages between a client and a server. Every byte is passed on
unchanged; nothing is translated.

In the client's configuration, put this command in front of the server's own.
For a server at a URL, you get an address to write into the client's
configuration.

The recording is a text file (txtar), which you can read, share and replay with
"dragoman replay".

What looks like a secret is replaced:

- credentials in headers and URLs
- members with names such as "password"
- API keys and tokens in well-known formats
- the values of --env and --header
- inherited environment variables with names such as "API_KEY"

Read a recording before you publish it: tool results may contain private data
that we can't recognise.

Many clients start a server more than once, so if FILE exists, the new file gets
a number. COMMAND inherits all environment variables, and the exit code is
COMMAND's.

The flags of Dragoman end at the first word that is neither a flag nor a URL.
This word and everything after it belong to the command.`,
		Example: `  # In a client's configuration, write this in front of the server's command.
  dragoman record -o talk.txtar npx -y @modelcontextprotocol/server-memory

  # Record a server on the network: the client connects to http://127.0.0.1:7302/mcp.
  dragoman record -o talk.txtar https://mcp.example.com/mcp`,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.StringVarP(&c.file, "output", "o", "", "write the recording to `FILE`")
	f.StringVar(&c.listen, "listen", "127.0.0.1:7302", "for a URL: listen for the client on `ADDR` (host:port)")
	c.t.addPlain(f)
	addOpenFlag(cmd, &c.open)
	c.t.oneServer(c.env, cmd, "dragoman record -o FILE")
	return cmd
}

func (c *recordCommand) run(cmd *cobra.Command, _ []string) error {
	c.startLog(slog.LevelWarn, nil)
	if c.file == "" {
		return usagef("use `dragoman record -o talk.txtar ...`", "no output file given")
	}
	if c.t.address == "" && cmd.Flags().Changed("listen") {
		return usagef("remove --listen", "--listen works only with a URL; a command is recorded on stdio")
	}
	if err := checkListen(c.listen, c.open); err != nil {
		return err
	}
	server, err := c.t.server(c.env, c.t.command, c.t.address)
	if err != nil {
		return err
	}
	out, err := createNew(c.file)
	if err != nil {
		return withHint(fmt.Errorf("cannot create the file for the recording: %s: %s", clean(c.file), failure.Reason(err)), "choose a file in a directory that you can write to")
	}
	if c.t.address != "" {
		c.warnOpen(cmd.Context(), c.listen)
	}
	code, err := c.backend.Record(cmd.Context(), daemon.RecordOptions{
		Server: server, Listen: c.listen, Tape: out, Log: c.log, Stderr: &childLines{c.status, server.Name},
		About: fmt.Sprintf("Recorded by dragoman %s on %s.\n%s", version(), time.Now().UTC().Format(time.DateTime+" UTC"), aboutServer(server)),
		Ready: func(endpoint string) {
			if !c.quiet {
				c.status.Printf("connect the client to %s; recording to %s until you press Ctrl-C", reachable(endpoint), out.Name())
			}
		},
	})
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		err = withHint(err, "check the spelling and PATH, or use the full path of the program")
	}
	if err := errors.Join(withoutStop(cmd.Context(), err), out.Close()); err != nil {
		removeBlank(out.Name())
		return err
	}
	if code != 0 && cmd.Context().Err() == nil {
		return exitError(code)
	}
	return interrupted(cmd.Context(), nil)
}

// aboutServer describes a server in the header of a tape. It omits the arguments of a command and
// the query of a URL, because they may contain secrets.
func aboutServer(s config.Server) string {
	if s.URL != "" {
		address, _, _ := strings.Cut(s.URL, "?")
		return "A client and the server at " + clean(address) + "."
	}
	return "A client and the server " + clean(filepath.Base(s.Command)) + "."
}

// createNew creates a file that only the current user can read. If a file with this name exists, it
// adds a number to the name.
func createNew(file string) (*os.File, error) {
	if s, err := os.Stat(file); err == nil && s.IsDir() {
		return nil, errors.New("it is a directory")
	}
	ext := filepath.Ext(file)
	for n := 1; ; n++ {
		name := file
		if n > 1 {
			name = strings.TrimSuffix(file, ext) + "-" + strconv.Itoa(n) + ext
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil || !errors.Is(err, os.ErrExist) || n == 1000 {
			return f, err
		}
	}
}

// removeBlank deletes a tape without messages, so that the next recording can use its name.
func removeBlank(name string) {
	// A file that is longer than header bytes has messages, so removeBlank does not need to read
	// it.
	const header = 4 << 10
	s, err := os.Stat(name)
	if err != nil || s.Size() > header {
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return
	}
	if _, err = tape.Parse(b); err != nil {
		_ = os.Remove(name)
	}
}

// replayCommand is `dragoman replay`.
type replayCommand struct {
	*world

	t            targetFlags
	listen, wire string
	open, strict bool
	timeout      time.Duration
}

func newReplayCommand(w *world) *cobra.Command {
	c := &replayCommand{world: w}
	cmd := &cobra.Command{
		Use:   "replay FILE [flags] [URL | -- COMMAND [ARG]...]",
		Short: "Replay one side of a recorded conversation",
		Long: `Replay one side of a conversation that "dragoman record" has recorded, and
report where the other side behaves differently.

With only FILE, Dragoman acts as the recorded server on stdio. If that server
used HTTP, add --listen. With a URL or a command, Dragoman acts as the recorded
client instead, and connects to the URL or starts the command.

FILE may also be the transcript of one call, from "dragoman calls NUMBER --save
FILE". It has two sides: --wire client selects the messages between the client
and Dragoman, --wire server those between Dragoman and the server. It has no
handshake, so Dragoman makes its own.

What a peer may choose freely isn't compared: ids, tokens, cursors, times, its
name and version, and the order and formatting of members. Secrets that were
replaced in the recording match any value. If a server needs credentials, pass
them with --header or --env.

The command prints each difference. If there are any, the exit code is 1.`,
		Example: `  # Run a predictable server for the tests of a client.
  dragoman replay talk.txtar

  # Check that a new version of a server behaves like the old one.
  dragoman replay talk.txtar -- ./server-new`,
		RunE: c.run,
	}
	f := flagsInOrder(cmd)
	f.StringVar(&c.listen, "listen", "", "act as the recorded server over HTTP on `ADDR` (host:port)")
	f.DurationVar(&c.timeout, "timeout", 10*time.Second, "wait at most `TIME` for the next message of the peer")
	f.BoolVar(&c.strict, "strict", false, "also compare names, versions and times")
	f.StringVar(&c.wire, "wire", "", "play this `SIDE` of a call's transcript: client or server")
	c.t.addPlain(f)
	addOpenFlag(cmd, &c.open)
	return cmd
}

func (c *replayCommand) run(cmd *cobra.Command, args []string) error {
	c.startLog(slog.LevelWarn, nil)
	if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
		return usagef("use `dragoman replay FILE`", "no recording given")
	}
	played, err := c.readTape(args[0])
	if err != nil {
		return err
	}
	o := daemon.ReplayOptions{Tape: played, Listen: c.listen, Log: c.log, Options: tape.Options{Timeout: c.timeout, Strict: c.strict}}
	if o.Server, err = c.replayTarget(cmd, &c.t, args[1:]); err != nil {
		return err
	}
	if o.Server != nil {
		o.Stderr = &childLines{c.status, o.Server.Name}
	}
	if err := c.checkSides(&o); err != nil {
		return err
	}
	if c.listen != "" {
		c.warnOpen(cmd.Context(), c.listen)
	}
	o.Ready = func(endpoint string) {
		if !c.quiet {
			c.status.Printf("playing the server at %s; press Ctrl-C to stop and to print the differences", reachable(endpoint))
		}
	}
	found, err := c.backend.Replay(cmd.Context(), o)
	for _, d := range found {
		c.status.line("dragoman: difference: " + clean(d.String()))
	}
	if err = withoutStop(cmd.Context(), err); err != nil {
		return err
	}
	if len(found) > 0 {
		return errReported
	}
	if !c.quiet {
		c.status.Printf("no differences")
	}
	return nil
}

// readTape reads a recording, or one side of the transcript of a call.
func (c *replayCommand) readTape(path string) (*tape.Tape, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(fmt.Errorf("the file %s does not exist", clean(path)), "make a recording with `dragoman record -o FILE -- COMMAND`")
	}
	if err != nil {
		return nil, withHint(fmt.Errorf("cannot read the recording: %w", err), "name a recording that you can read")
	}
	played, err := tape.ParseWire(b, c.wire)
	if errors.Is(err, tape.ErrNoWire) {
		return nil, usagef("use --wire client or --wire server for the transcript of a call; otherwise remove --wire", "%s has no side %q", clean(path), c.wire)
	}
	if err != nil {
		return nil, withHint(fmt.Errorf("%s is not a recording: %w", clean(path), err), "make a recording with `dragoman record -o FILE -- COMMAND`")
	}
	return played, nil
}

// checkSides returns an error if the flags and the server do not fit the transport of the recording.
func (c *replayCommand) checkSides(o *daemon.ReplayOptions) error {
	overHTTP := o.Tape.HTTP()
	switch {
	case c.timeout <= 0:
		return usagef("use a duration such as 10s", "--timeout must be positive, but is %s", c.timeout)
	case o.Server == nil && c.listen == "" && overHTTP:
		return usagef("add --listen 127.0.0.1:7302, or the URL of a server", "the recording was made %s", transportOf(o.Tape))
	case o.Server == nil && c.listen != "" && !overHTTP:
		return usagef("remove --listen, or add a command after --", "the recording was made %s", transportOf(o.Tape))
	case o.Server != nil && (o.Server.URL != "") != overHTTP:
		hint := "use `dragoman replay FILE -- COMMAND`"
		if overHTTP {
			hint = "use `dragoman replay FILE URL`"
		}
		return usagef(hint, "the recording was made %s", transportOf(o.Tape))
	case o.Server != nil && c.listen != "":
		return usagef("remove one of them", "--listen cannot be used together with a server")
	case c.listen != "":
		return checkListen(c.listen, c.open)
	}
	return nil
}

func transportOf(t *tape.Tape) string {
	if t.HTTP() {
		return "over HTTP"
	}
	return "on stdio"
}

// replayTarget returns the server to which Dragoman sends the recorded messages of the client. It
// returns nil if Dragoman plays the server.
func (c *replayCommand) replayTarget(cmd *cobra.Command, t *targetFlags, rest []string) (*config.Server, error) {
	var command []string
	address := ""
	switch dash := cmd.ArgsLenAtDash(); {
	case len(rest) == 0 && dash < 0:
		if given := t.given(); given != "" {
			return nil, usagef("remove the option", "%s needs a URL or a command", given)
		}
		return nil, nil
	case dash == 1 && len(rest) > 0:
		command = rest
	case dash < 0 && len(rest) == 1 && isURL(rest[0]):
		address = rest[0]
	default:
		return nil, usagef("use `dragoman replay FILE URL` or `dragoman replay FILE -- COMMAND`", "%q is neither a URL nor a command", strings.Join(rest, " "))
	}
	s, err := t.server(c.env, command, address)
	return &s, err
}
