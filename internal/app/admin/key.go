package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxKey is the maximum number of bytes that are read from a key file. keyTail is the end of its
// name.
const (
	maxKey  = 1 << 10
	keyTail = ".key"
)

// KeyFolders returns the folders in which a process may store its key, best first: a folder below
// the user's runtime folder, which the system empties at logout, and a folder below the cache
// folder. On macOS and Windows there is no runtime folder. env looks up an environment variable. The
// result is empty if the environment variables name neither a runtime folder nor a cache folder.
func KeyFolders(env func(string) (string, bool)) (folders []string) {
	add := func(base string, more ...string) {
		if filepath.IsAbs(base) {
			folders = append(folders, filepath.Join(append(append([]string{base}, more...), "dragoman")...))
		}
	}
	get := func(name string) string {
		value, _ := env(name)
		return value
	}
	switch runtime.GOOS {
	case "windows":
		add(get("LocalAppData"))
	case "darwin":
		if home := get("HOME"); home != "" {
			add(home, "Library", "Caches")
		}
	default:
		if dir := get("XDG_RUNTIME_DIR"); isFolder(dir) {
			add(dir)
		}
		if dir := get("XDG_CACHE_HOME"); dir != "" {
			add(dir)
		} else if home := get("HOME"); home != "" {
			add(home, ".cache")
		}
	}
	return folders
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return path != "" && err == nil && info.IsDir()
}

// WriteKey writes the key of a process to a file in the first writable folder, and returns the path
// of the file. Only the current user can read the file. address is the address of the listener. Its
// host must be an IP address. remove deletes the file, unless another process has replaced it.
func WriteKey(folders []string, address, key string) (path string, remove func(), err error) {
	name, err := keyName(address)
	if err != nil {
		return "", nil, err
	}
	err = errors.New("the environment variables name neither a runtime folder nor a cache folder")
	for _, folder := range folders {
		path = filepath.Join(folder, name)
		if err = writePrivate(path, key+"\n"); err == nil {
			return path, func() {
				if readKey(path) == key {
					_ = os.Remove(path)
				}
			}, nil
		}
	}
	return "", nil, err
}

// KeyAddresses returns the addresses for which there may be key files. If the host of address is
// "localhost", these are the two loopback addresses with the same port. Otherwise it returns only
// address. Send a key only to the address in the name of its file, because a process of another user
// may listen on any other address.
func KeyAddresses(address string) []string {
	if host, port, err := net.SplitHostPort(address); err == nil && strings.EqualFold(host, "localhost") {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return []string{address}
}

// ReadKeys returns the keys for an address, best first. The host of address may be "localhost". A
// key may be out of date, because a process that crashed did not remove its key file. ReadKeys
// returns an error if there is no key.
func ReadKeys(folders []string, address string) (keys []string, err error) {
	addresses := KeyAddresses(address)
	for _, folder := range folders {
		if CheckPrivate(folder) != nil {
			continue
		}
		for _, address := range addresses {
			name, err := keyName(address)
			if err != nil {
				return nil, err
			}
			if key := readKey(filepath.Join(folder, name)); key != "" {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key file for %s: %w", address, fs.ErrNotExist)
	}
	return keys, nil
}

// keyName returns the name of the key file for an address.
func keyName(address string) (string, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", fmt.Errorf("the address for the key file is not valid: %w", err)
	}
	host := strings.ReplaceAll(at.Addr().Unmap().WithZone("").String(), ":", "_")
	return fmt.Sprintf("serve-%s-%d%s", host, at.Port(), keyTail), nil
}

// readKey returns the key in a file. It returns "" if the file contains no valid key.
func readKey(path string) string {
	b, err := readRegular(path, maxKey)
	key := strings.TrimSpace(string(b))
	if err != nil || strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return ""
	}
	return key
}

// readRegular returns at most the first bytes of a file, up to limit. It returns an error if the file
// is not a regular file. Another user could create a link to make this process read a different file,
// or a named pipe to make it wait.
func readRegular(path string, limit int64) ([]byte, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(named, opened) {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// writePrivate writes a file that only the current user can read. It replaces an existing file
// atomically. If path is a link, writePrivate replaces the link and not the target of the link.
func writePrivate(path, text string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := CheckPrivate(folder); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	f, err := os.CreateTemp(folder, ".key-*") // os.CreateTemp sets the mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
