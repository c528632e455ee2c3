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
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// exitError ends a command with this exit code and without a message.
type exitError int

func (e exitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

func (a *app) recordCommand() *cobra.Command {
	var t targetFlags
	var file, listen string
	var open bool
	c := &cobra.Command{
		Use:   "record -o FILE [flags] (URL | [--] COMMAND [ARG]...)",
		Short: "Record the messages between a client and a server",
		Long: `Record the messages between a client and a server. Dragoman passes on every byte
unchanged, and translates nothing.

In the client's configuration, put this command in front of the server's own
command. For a server at a URL, Dragoman prints an address. Write this address
into the client's configuration.

The recording is a text file (txtar). You can read it, share it
and replay it with "dragoman replay".

In the recording, Dragoman replaces values that look like secrets:

- credentials in headers and URLs
- members with names such as "password"
- API keys and tokens in well-known formats
- the values of --env and --header
- inherited environment variables with names such as "API_KEY"

Read a recording before you publish it. Tool results may contain private
data, which Dragoman cannot recognise.

If FILE exists, Dragoman adds a number to the name of the new file, because many
clients start a server more than once. COMMAND inherits all environment
variables. The exit code of "dragoman record" is the exit code of COMMAND.

The flags of Dragoman end at the first word that is neither a flag nor a URL.
This word and everything after it belong to the command.`,
		Example: `  # In a client's configuration, write this in front of the server's command.
  dragoman record -o talk.txtar npx -y @modelcontextprotocol/server-memory

  # Record a server on the network: the client connects to http://127.0.0.1:7302/mcp.
  dragoman record -o talk.txtar https://mcp.example.com/mcp`,
		RunE: func(c *cobra.Command, _ []string) error {
			a.startLog(slog.LevelWarn, nil)
			if file == "" {
				return usagef("use `dragoman record -o talk.txtar ...`", "no output file given")
			}
			if t.address == "" && c.Flags().Changed("listen") {
				return usagef("remove --listen", "--listen works only with a URL; a command is recorded on stdio")
			}
			if err := checkListen(listen, open); err != nil {
				return err
			}
			server, err := t.server(a.env, t.command, t.address)
			if err != nil {
				return err
			}
			out, err := createNew(file)
			if err != nil {
				return withHint(fmt.Errorf("cannot create the file for the recording: %w", err), "choose a file in a directory that you can write to")
			}
			if t.address != "" {
				a.warnOpen(c.Context(), listen)
			}
			code, err := a.backend.Record(c.Context(), daemon.RecordOptions{
				Server: server, Listen: listen, Tape: out, Log: a.log, Stderr: &childLines{a.status, server.Name},
				About: fmt.Sprintf("Recorded by dragoman %s on %s.\n%s", version(), time.Now().UTC().Format(time.DateTime+" UTC"), aboutServer(server)),
				Ready: func(endpoint string) {
					if !a.quiet {
						a.status.Printf("connect the client to %s; recording to %s until you press Ctrl-C", reachable(endpoint), out.Name())
					}
				},
			})
			if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
				err = withHint(err, "check the spelling and PATH, or use the full path of the program")
			}
			if err := errors.Join(withoutStop(c.Context(), err), out.Close()); err != nil {
				removeBlank(out.Name())
				return err
			}
			if code != 0 && c.Context().Err() == nil {
				return exitError(code)
			}
			return interrupted(c.Context(), nil)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(c)
	f.StringVarP(&file, "output", "o", "", "write the recording to `FILE`")
	f.StringVar(&listen, "listen", "127.0.0.1:7302", "for a URL: listen for the client on `ADDR` (host:port)")
	t.addPlain(f)
	addOpenFlag(c, &open)
	a.oneServer(c, &t, "dragoman record -o FILE")
	return c
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

func (a *app) replayCommand() *cobra.Command {
	var t targetFlags
	var listen, wire string
	var open, strict bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "replay FILE [flags] [URL | -- COMMAND [ARG]...]",
		Short: "Replay one side of a recorded conversation",
		Long: `Replay one side of a conversation that "dragoman record" has recorded, and
report where the other side behaves differently from the recording.

With only FILE, Dragoman acts as the recorded server on stdio. If the recorded
server used HTTP, add --listen. With a URL or a command, Dragoman acts as the
recorded client and connects to the server at the URL or starts the command.

FILE may also be the transcript of one call, which "dragoman calls NUMBER --save
FILE" writes. The transcript has two sides. --wire client selects the messages
between the client and Dragoman. --wire server selects the messages between
Dragoman and the server. Dragoman makes the handshake itself, because the
transcript of one call does not contain the handshake.

Values that a peer may choose freely are not compared: ids, tokens, cursors,
times, and the name and version of the peer. The order and formatting of members
are not compared either. Secrets that were replaced in the recording match any
value. If a server needs credentials, pass them with --header or --env.

The command prints each difference from the recording. If there are differences,
the exit code is 1.`,
		Example: `  # Run a predictable server for the tests of a client.
  dragoman replay talk.txtar

  # Check that a new version of a server behaves like the old one.
  dragoman replay talk.txtar -- ./server-new`,
		RunE: func(c *cobra.Command, args []string) error {
			a.startLog(slog.LevelWarn, nil)
			if len(args) == 0 || c.ArgsLenAtDash() == 0 {
				return usagef("use `dragoman replay FILE`", "no recording given")
			}
			b, err := os.ReadFile(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return withHint(fmt.Errorf("the file %s does not exist", clean(args[0])), "make a recording with `dragoman record -o FILE -- COMMAND`")
			}
			if err != nil {
				return withHint(fmt.Errorf("cannot read the recording: %w", err), "name a recording that you can read")
			}
			played, err := tape.ParseWire(b, wire)
			if errors.Is(err, tape.ErrNoWire) {
				return usagef("use --wire client or --wire server for the transcript of a call; otherwise remove --wire", "%s has no side %q", clean(args[0]), wire)
			}
			if err != nil {
				return withHint(fmt.Errorf("%s is not a recording: %w", clean(args[0]), err), "make a recording with `dragoman record -o FILE -- COMMAND`")
			}
			o := daemon.ReplayOptions{Tape: played, Listen: listen, Log: a.log, Options: tape.Options{Timeout: timeout, Strict: strict}}
			if o.Server, err = a.replayTarget(c, &t, args[1:]); err != nil {
				return err
			}
			if o.Server != nil {
				o.Stderr = &childLines{a.status, o.Server.Name}
			}
			switch {
			case timeout <= 0:
				return usagef("use a duration such as 10s", "--timeout must be positive, but is %s", timeout)
			case o.Server == nil && listen == "" && played.HTTP():
				return usagef("add --listen 127.0.0.1:7302, or the URL of a server", "the recording was made %s", transportOf(played))
			case o.Server == nil && listen != "" && !played.HTTP():
				return usagef("remove --listen, or add a command after --", "the recording was made %s", transportOf(played))
			case o.Server != nil && (o.Server.URL != "") != played.HTTP():
				hint := "use `dragoman replay FILE -- COMMAND`"
				if played.HTTP() {
					hint = "use `dragoman replay FILE URL`"
				}
				return usagef(hint, "the recording was made %s", transportOf(played))
			case o.Server != nil && listen != "":
				return usagef("remove one of them", "--listen cannot be used together with a server")
			case listen != "":
				if err := checkListen(listen, open); err != nil {
					return err
				}
				a.warnOpen(c.Context(), listen)
			}
			o.Ready = func(endpoint string) {
				if !a.quiet {
					a.status.Printf("playing the server at %s; press Ctrl-C to stop and to print the differences", reachable(endpoint))
				}
			}
			found, err := a.backend.Replay(c.Context(), o)
			for _, d := range found {
				a.status.line("dragoman: difference: " + clean(d.String()))
			}
			if err = withoutStop(c.Context(), err); err != nil {
				return err
			}
			if len(found) > 0 {
				return errReported
			}
			if !a.quiet {
				a.status.Printf("no differences")
			}
			return nil
		},
	}
	f := flagsInOrder(c)
	f.StringVar(&listen, "listen", "", "act as the recorded server over HTTP on `ADDR` (host:port)")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "wait at most `TIME` for the next message of the peer")
	f.BoolVar(&strict, "strict", false, "also compare names, versions and times")
	f.StringVar(&wire, "wire", "", "play this `SIDE` of the transcript of a call: client or server")
	t.addPlain(f)
	addOpenFlag(c, &open)
	return c
}

func transportOf(t *tape.Tape) string {
	if t.HTTP() {
		return "over HTTP"
	}
	return "on stdio"
}

// replayTarget returns the server to which Dragoman sends the recorded messages of the client. It
// returns nil if Dragoman plays the server.
func (a *app) replayTarget(c *cobra.Command, t *targetFlags, rest []string) (*config.Server, error) {
	var command []string
	address := ""
	switch dash := c.ArgsLenAtDash(); {
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
	s, err := t.server(a.env, command, address)
	return &s, err
}
