package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const (
	// completeTime bounds the time that completion takes after a press of Tab.
	completeTime = 2 * time.Second
	// rememberTime is how long completion uses a cached list.
	rememberTime = 24 * time.Hour
	// maxRemembered is the maximum size of a cached list in bytes.
	maxRemembered = 2 << 20
)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeItem completes the name of a server, and then the name of an item in one of its lists.
func (c *client) completeItem(kind string) cobra.CompletionFunc {
	servers := c.env.completeTarget(&c.file)
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return servers(cmd, args, word)
		case 1:
			c.where = where{target: args[0], file: c.file}
			return c.itemWords(cmd.Context(), kind), noFiles
		}
		return nil, noFiles
	}
}

// completeCall completes the names of a server and a tool, and then arguments and their values.
func (c *client) completeCall() cobra.CompletionFunc {
	item := c.completeItem("tools")
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) < 2 {
			return item(cmd, args, word)
		}
		c.where = where{target: args[0], file: c.file}
		items := c.knownItems(cmd.Context(), "tools")
		i := slices.Index(namesOf(items), args[1])
		if i < 0 {
			return nil, noFiles
		}
		return argumentWords(tool.Of(items[i]), args[2:], word)
	}
}

// argumentWords returns the words that may follow a tool: name= for each argument that is not
// given yet, and name=value if the schema lists the values.
func argumentWords(t tool.Tool, given []string, word string) ([]string, cobra.ShellCompDirective) {
	key, _, valued := strings.Cut(word, "=")
	var out []string
	for _, x := range t.Arguments() {
		if valued {
			if x.Name != key || !typeable(key) {
				continue
			}
			for _, c := range x.Schema.Choices() {
				out = append(out, cobra.CompletionWithDesc(x.Name+"="+shown(c.Value), clean(c.Title)))
			}
			if x.Type == "boolean" {
				out = append(out, x.Name+"=true", x.Name+"=false")
			}
			return out, noFiles
		}
		if slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, x.Name+"=") || strings.HasPrefix(g, x.Name+":=") }) || clean(x.Name) != x.Name || !typeable(x.Name) {
			continue
		}
		about, _, _ := strings.Cut(strings.TrimSpace(x.About), "\n")
		about = x.Type + "  " + about
		if x.Required {
			about = "required " + about
		}
		out = append(out, cobra.CompletionWithDesc(x.Name+"=", clean(strings.TrimSpace(about))))
	}
	return out, noFiles | cobra.ShellCompDirectiveNoSpace
}

// itemWords returns the names of the items in a list, with descriptions.
func (c *client) itemWords(ctx context.Context, kind string) []string {
	var out []string
	for _, r := range rowsOf(kind, c.knownItems(ctx, kind)) {
		// Skip a name that begins with a dash, because Dragoman would parse the name as a flag.
		if r[0] != "" && clean(r[0]) == r[0] && !strings.HasPrefix(r[0], "-") {
			out = append(out, cobra.CompletionWithDesc(r[0], clean(r[1])))
		}
	}
	return out
}

// knownItems returns a list of a server without starting the server. The list comes from a running
// serve process, or from the cache file that an earlier command wrote.
func (c *client) knownItems(ctx context.Context, kind string) [][]byte {
	if c.where.configured() {
		if items := c.itemsOfServe(ctx, kind); items != nil {
			return items
		}
	}
	return c.remembered(kind)
}

// itemsOfServe returns a list of a configured server from the running serve process. It returns nil
// if no process answers in time.
func (c *client) itemsOfServe(ctx context.Context, kind string) [][]byte {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	base, report, why := locator{c.env}.servingSame(ctx, c.where.file)
	if why != "" {
		return nil
	}
	through, known := behindServe(config.Server{Name: c.where.target}, base, &report)
	if known == nil || known.State != "ready" {
		return nil
	}
	session, err := c.backend.Connect(ctx, daemon.ConnectOptions{
		Server: locator{c.env}.withKey(ctx, through, base), Log: slog.New(slog.DiscardHandler), Progress: func(string, string) {}, Version: version(),
	})
	if err != nil {
		return nil
	}
	defer func() { _ = session.Close() }()
	l, err := session.List(ctx, kind)
	if err != nil {
		return nil
	}
	return l.Items
}

// listFile returns the path of the file that caches a list for completion, or "" if the list cannot
// be cached. The file name is a hash, because a URL may contain secrets.
func (c *client) listFile(kind string) string {
	if len(c.where.command) > 0 {
		return "" // the command comes after the words to complete, so completion does not know the server yet
	}
	place := c.where.target
	if c.where.configured() {
		path, ok := c.env.configPath(c.where.file)
		if full, err := filepath.Abs(path); ok && err == nil {
			place = full + "\x00" + c.where.target
		}
	}
	dir := c.env.cacheDir()
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(dir, "dragoman", "completion", hex.EncodeToString(sum[:12])+"-"+kind+".json")
}

// cacheDir returns the user's folder for cache files, or "" if there is none.
func (e environment) cacheDir() string {
	if dir, _ := e("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if dir, _ := e("LocalAppData"); dir != "" && goruntime.GOOS == "windows" {
		return dir
	}
	home, _ := e("HOME")
	switch {
	case home == "":
		return ""
	case goruntime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Caches")
	}
	return filepath.Join(home, ".cache")
}

// remember caches a list for completion. It masks secrets in the list, because descriptions may repeat
// them. The list of a running serve process may contain the secrets of all servers in the configuration
// file. remember ignores errors, because they affect only completion.
func (c *client) remember(kind string, items [][]byte) {
	path := c.listFile(kind)
	if path == "" || len(items) == 0 {
		return
	}
	secrets := slices.Clone(c.secrets)
	if file, ok := c.env.configPath(c.where.file); ok {
		if s, _ := config.Load(file); s != nil {
			for _, c := range s.Servers {
				secrets = append(secrets, c.Secrets()...)
			}
		}
	}
	mask := calls.NewMasker(secrets)
	out := []byte{'['}
	for i, raw := range items {
		if i > 0 {
			out = append(out, ',')
		}
		masked, _ := mask.Message(raw)
		out = append(out, masked...)
	}
	if out = append(out, ']'); len(out) > maxRemembered || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return
	}
	_, err = file.Write(out)
	if closed := file.Close(); err != nil || closed != nil || os.Rename(file.Name(), path) != nil {
		_ = os.Remove(file.Name())
	}
}

// remembered returns a list that remember cached. It returns nil if there is no cached list, or if
// that list is too old or too large.
func (c *client) remembered(kind string) [][]byte {
	path := c.listFile(kind)
	st, err := os.Stat(path)
	if err != nil || st.Size() > maxRemembered || time.Since(st.ModTime()) > rememberTime {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil || jsonrpc.Valid(raw, jsonrpc.Limits{}) != nil {
		return nil
	}
	var out [][]byte
	for e := range jsonrpc.Elements(raw, jsonrpc.Whole(raw)) {
		out = append(out, e.Of(raw))
	}
	return out
}

// completeFlags adds completions for the values of flags that several commands have.
func completeFlags(c *cobra.Command, e environment) {
	for _, sub := range c.Commands() {
		completeFlags(sub, e)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		var words func() []string
		switch f.Name {
		case "revision":
			words = func() []string { return mcp.Dates(mcp.Revisions()) }
		case "dialect":
			words = func() []string { return e.dialectWords(c) }
		case "log-format":
			words = func() []string { return []string{"text", "json"} }
		case "save", "root", "cwd":
			_ = c.MarkFlagDirname(f.Name)
			return
		default:
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words(), noFiles
		})
	})
}

// dialectWords returns the names of the built-in dialects and of the dialects in the configuration.
func (e environment) dialectWords(c *cobra.Command) []string {
	var out []string
	add := func(all []*dialect.Profile) {
		for _, p := range all {
			out = append(out, cobra.CompletionWithDesc(p.Name, clean(p.About)))
		}
	}
	add(dialect.Builtin())
	file := ""
	if f := c.Flag("config"); f != nil {
		file = f.Value.String()
	}
	if path, ok := e.configPath(file); ok {
		if s, _ := config.Load(path); s != nil {
			add(s.Dialects)
		}
	}
	return out
}
