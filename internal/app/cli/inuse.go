package cli

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// portHint adds to the error of serve how to go on if its address is in use: how to look at the serve that is
// there already, if it's one of the user, and the command line that listens elsewhere.
func (c *serveCommand) portHint(cmd *cobra.Command, address string, err error) error {
	f := failureIn(err)
	if f == nil || f.Class != failure.PortInUse {
		return err
	}
	hint := "stop that program"
	if there := (locator{c.env}).servingOn(cmd.Context(), address); there != "" {
		hint = there
	}
	if free := freeNear(address); free != "" {
		hint += "; to listen elsewhere, run `" + lineWith(cmd, "listen", free) + "`"
	}
	return withHint(err, "%s", hint)
}

// servingOn describes the serve process of the user that listens on an address, and says how to look at it. It
// returns "" if there is none.
func (l locator) servingOn(ctx context.Context, address string) string {
	all := l.locateAll(ctx)
	i := slices.IndexFunc(all, func(p located) bool { return slices.Contains(admin.KeyAddresses(address), p.address) })
	if i < 0 {
		return ""
	}
	p := &all[i]
	text := "it is your own `dragoman serve`, started " + spanOf(time.Since(p.Started)) + " ago"
	if p.Config != "" {
		text += " with " + clean(p.Config)
	}
	_, status, why := l.statusAt(ctx, p.base(), "")
	if why != "" {
		return text + ", but " + why
	}
	ready := 0
	for _, s := range status.Servers {
		if s.State == stateReady {
			ready++
		}
	}
	text += "; " + strconv.Itoa(ready) + " of " + quantity(len(status.Servers), "server") + " ready"
	return text + "; `dragoman status --listen " + p.address + "` shows more, `dragoman console --listen " + p.address + "` opens the console"
}

// freeNear returns an address of the same host whose port is free and a little higher, or "".
func freeNear(address string) string {
	host, port, err := net.SplitHostPort(address)
	first, bad := strconv.Atoi(port)
	if err != nil || bad != nil {
		return ""
	}
	for n := first + 1; n <= min(first+20, 1<<16-1); n++ {
		near := net.JoinHostPort(host, strconv.Itoa(n))
		if l, err := net.Listen("tcp", near); err == nil {
			_ = l.Close()
			return near
		}
	}
	return ""
}

// lineWith returns the command line of cmd, which takes no arguments, with another value of one flag.
func lineWith(cmd *cobra.Command, name, value string) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == name:
			case f.Value.Type() == "bool" && v == "true":
				words = append(words, "--"+f.Name)
			default:
				words = append(words, "--"+f.Name+"="+shellWord(v))
			}
		}
	})
	return strings.Join(append(words, "--"+name, shellWord(value)), " ")
}
