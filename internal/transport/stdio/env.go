package stdio

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// inherited are the variables of our environment that a child may see: those that
// programs need to find their files, their user and their language, and none that can
// hold a secret. Proxy variables are excluded, because their addresses contain
// passwords.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ",
}

var inheritedOnWindows = []string{
	"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR",
	"USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"APPDATA", "LOCALAPPDATA", "ALLUSERSPROFILE", "PROGRAMDATA", "PUBLIC",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432",
	"COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432",
	"TEMP", "TMP", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS",
	"LANG", "TERM", "TZ",
}

// BaseEnv returns the variables of our environment that every child gets.
func BaseEnv() []string { return filterEnv(os.Environ(), runtime.GOOS == "windows") }

// Environ returns the complete environment of a child: BaseEnv and extra, sorted by
// name. extra takes precedence.
func Environ(extra map[string]string) []string {
	return mergeEnv(BaseEnv(), extra, runtime.GOOS == "windows")
}

func filterEnv(env []string, windows bool) []string {
	kept := make([]string, 0, 16)
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue // Windows stores the directory of each drive as "=C:=…"
		}
		// A function exported by bash is code, whatever its name.
		if strings.HasPrefix(value, "() {") {
			continue
		}
		if allowed(name, windows) {
			kept = append(kept, kv)
		}
	}
	return kept
}

func allowed(name string, windows bool) bool {
	if windows { // names are case-insensitive there
		name = strings.ToUpper(name)
		return strings.HasPrefix(name, "LC_") || slices.Contains(inheritedOnWindows, name)
	}
	return strings.HasPrefix(name, "LC_") || slices.Contains(inherited, name)
}

func mergeEnv(base []string, extra map[string]string, windows bool) []string {
	fold := func(name string) string { return name }
	if windows {
		fold = strings.ToUpper
	}
	merged := make(map[string]string, len(base)+len(extra))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		merged[fold(name)] = kv
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		merged[fold(name)] = name + "=" + extra[name]
	}
	env := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		env = append(env, merged[name])
	}
	return env
}

// lookupEnv returns the value of a variable in a list, the last one if there are
// several, as the operating system does.
func lookupEnv(env []string, name string, windows bool) (string, bool) {
	for _, kv := range slices.Backward(env) {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (k == name || windows && strings.EqualFold(k, name)) {
			return v, true
		}
	}
	return "", false
}
