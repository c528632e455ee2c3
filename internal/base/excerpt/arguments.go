package excerpt

import (
	"slices"
	"strings"
)

// Arguments returns a copy of args in which mask replaces each credential. It recognises a
// credential by the name in front of the credential: --token X, --token=X, TOKEN=X and
// "Authorization: X".
func Arguments(args []string, mask string) []string {
	out := slices.Clone(args)
	for i, a := range args {
		if at, ok := SecretArgument(args, i); ok {
			out[i] = a[:at] + mask
		}
	}
	return out
}

// SecretArguments returns the texts that Arguments masks, without surrounding spaces.
func SecretArguments(args []string) []string {
	var out []string
	for i, a := range args {
		if at, ok := SecretArgument(args, i); ok {
			out = append(out, strings.TrimSpace(a[at:]))
		}
	}
	return out
}

// SecretArgument reports whether args[i] is a credential or contains one. at is the offset at which
// the credential begins.
func SecretArgument(args []string, i int) (at int, ok bool) {
	a := args[i]
	if at := strings.IndexAny(a, "=:"); at > 0 && (SecretName(a[:at]) || keyFlag(a[:at])) {
		return at + 1, true
	}
	return 0, i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.HasPrefix(a, "-") && (SecretName(args[i-1]) || keyFlag(args[i-1]))
}

// keyFlag reports whether an argument is the flag --key. Elsewhere, the name key says too little.
func keyFlag(arg string) bool {
	name, ok := strings.CutPrefix(arg, "-")
	return ok && strings.EqualFold(strings.TrimPrefix(name, "-"), "key")
}
