package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// expandFlags makes all flags whose value is a path accept ~ for the home folder. Shells replace it only at the
// beginning of a word, so not in --config=~/x.
func expandFlags(c *cobra.Command, e environment) {
	for _, sub := range c.Commands() {
		expandFlags(sub, e)
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		if what != "FILE" && what != "DIR" && f.Name != "from" {
			return
		}
		one := homeValue{f.Value, e}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			f.Value, f.DefValue = homeValues{one, list}, "" // the help knows an empty list only by the type that we hide
		} else {
			f.Value = one
		}
	})
}

// homeValue is the value of a flag that expands ~.
type homeValue struct {
	pflag.Value
	env environment
}

func (v homeValue) Set(text string) error { return v.Value.Set(v.env.expandHome(text)) }

// homeValues does the same for a flag that may be repeated.
type homeValues struct {
	homeValue
	pflag.SliceValue
}

// expandHome replaces ~ at the beginning of a path with the home folder. It returns other paths, and those of
// other users (~name), unchanged.
func (e environment) expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, _ := e("HOME")
	profile, _ := e("USERPROFILE") // Windows
	if home = cmp.Or(home, profile); home == "" {
		return path
	}
	return filepath.Join(home, rest)
}
