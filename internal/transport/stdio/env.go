package stdio

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// inherited contains the environment variables that every child gets, except on Windows. Programs
// need them to find their files, their user, their language and the proxy. The address of a proxy
// may contain a password. The address is passed on anyway, because a server behind a proxy cannot
// work without it. Code that shows output of a child must mask the password.
var inherited = append([]string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ",
	"http_proxy", "https_proxy", "no_proxy", "all_proxy",
}, network...)

var inheritedOnWindows = append([]string{
	"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR",
	"USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"APPDATA", "LOCALAPPDATA", "ALLUSERSPROFILE", "PROGRAMDATA", "PUBLIC",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432",
	"COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432",
	"TEMP", "TMP", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS",
	"LANG", "TERM", "TZ",
}, network...)

// network contains the variables for proxies and for additional CA certificates.
var network = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}

// Environ returns the complete environment of a child, sorted by name. The environment contains the
// basic variables that every child gets, the variables for which inherit returns true, and extra,
// which takes precedence. If inherit is nil, the child inherits only the basic variables.
func Environ(extra map[string]string, inherit func(name string) bool) []string {
	windows := runtime.GOOS == "windows"
	return mergeEnv(filterEnv(os.Environ(), windows, inherit), extra, windows)
}

func filterEnv(env []string, windows bool, inherit func(name string) bool) []string {
	kept := make([]string, 0, 16)
	for _, kv := range env {
		name, value, ok := cutVariable(kv)
		if !ok {
			continue
		}
		// A value that begins with "() {" is a function that bash has exported. Such a value is
		// code, so it is passed on only if inherit accepts the name.
		basic := basicVariable(name, windows) && !strings.HasPrefix(value, "() {")
		if basic || inherit != nil && inherit(name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// cutVariable splits NAME=VALUE. Windows stores the directory of each drive as "=C:=…", so a
// name may begin with =.
func cutVariable(kv string) (name, value string, ok bool) {
	if kv == "" {
		return "", "", false
	}
	i := strings.IndexByte(kv[1:], '=') + 1
	if i == 0 {
		return "", "", false
	}
	return kv[:i], kv[i+1:], true
}

func basicVariable(name string, windows bool) bool {
	if windows { // Windows ignores the case of names
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
		name, _, _ := cutVariable(kv)
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

// lookupEnv returns the value of a variable in a list. If the variable occurs several times, the
// last value is used, as in os/exec.
func lookupEnv(env []string, name string, windows bool) (string, bool) {
	for _, kv := range slices.Backward(env) {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (k == name || windows && strings.EqualFold(k, name)) {
			return v, true
		}
	}
	return "", false
}
