package admin

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	maxPresence  = 16 << 10        // bytes that are read of one file
	mostPresent  = 1024            // files that Presences returns
	presenceTail = ".json"         // the end of a file's name
	settled      = 2 * time.Minute // a younger file may have just replaced the one that was read
)

// Presence says where a running `dragoman serve` is. The process writes it to a file, so that other
// commands of the same user find the process whatever its configuration says. The file has no
// secrets. It proves nothing either: the process may have been killed, and its address may belong to
// another program by now. See [Proof].
type Presence struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"` // the name of the machine; machines may share a home folder
	Started time.Time `json:"started"`
	Address string    `json:"address"`           // of the listener; its host is an IP address, maybe 0.0.0.0 or ::
	TLS     bool      `json:"tls,omitempty"`     // the process speaks only TLS there
	Config  string    `json:"config,omitempty"`  // the full path of the configuration file
	Flagged bool      `json:"flagged,omitempty"` // the address is from --listen, not from the configuration

	key string // the key that the process has stored for its address
}

// Announce writes the key and the Presence of this process to the first folder that takes them. Only
// the current user can read the files. It sets the PID, the Host and the time. remove deletes the
// files, unless another process has replaced them; it is never nil. Announce also deletes the files
// that processes of this machine have left there when they were killed.
func Announce(folders []string, p Presence, key string) (remove func(), err error) {
	keyPath, forget, err := WriteKey(folders, p.Address, key)
	if err != nil {
		return func() {}, err
	}
	p.PID, p.Started = os.Getpid(), time.Now().UTC()
	p.Host, _ = os.Hostname()
	path := strings.TrimSuffix(keyPath, keyTail) + presenceTail
	text, err := json.Marshal(p)
	if err == nil {
		err = writePrivate(path, string(text)+"\n")
	}
	sweep(filepath.Dir(path), p.Host)
	return func() {
		if readKey(keyPath) == key {
			_ = os.Remove(path)
		}
		forget()
	}, err
}

// sweep deletes the files of processes that do not exist any more. A process that listens on a free
// port gets another port at each start, so its files would never be replaced.
func sweep(folder, host string) {
	for _, path := range presenceFiles(folder) {
		p, ok := readPresence(path)
		if !ok || p.Host != host || p.Alive() {
			continue
		}
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > settled {
			_ = os.Remove(path)
			_ = os.Remove(strings.TrimSuffix(path, presenceTail) + keyTail)
		}
	}
}

// Alive reports whether a process with this PID exists. Another process may have got the PID.
func (p *Presence) Alive() bool {
	host, err := os.Hostname()
	return err == nil && host == p.Host && p.PID > 0 && processExists(p.PID)
}

// Reachable returns the addresses at which this machine may reach the process.
func (p *Presence) Reachable() []string {
	at, err := netip.ParseAddrPort(p.Address)
	if err != nil {
		return nil
	}
	switch {
	case at.Addr() == netip.IPv4Unspecified():
		return []string{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()}
	case at.Addr().IsUnspecified():
		_, port, _ := net.SplitHostPort(p.Address)
		return KeyAddresses(net.JoinHostPort("localhost", port))
	}
	return []string{p.Address}
}

// Proves reports whether proof is the proof of this process; see [Proof].
func (p *Presence) Proves(address, challenge, proof string) bool {
	return Proves([]string{p.key}, address, challenge, proof) != ""
}

// Presences returns what the processes of the current user have written into the folders, the
// youngest first. It leaves out files whose process could never prove that it is the user's.
func Presences(folders []string) (all []Presence) {
	for _, folder := range folders {
		for _, path := range presenceFiles(folder) {
			p, ok := readPresence(path)
			if !ok {
				continue
			}
			keyPath := strings.TrimSuffix(path, presenceTail) + keyTail
			if name, err := keyName(p.Address); err != nil || name != filepath.Base(keyPath) {
				continue
			}
			if p.key = readKey(keyPath); p.key != "" {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b Presence) int { return b.Started.Compare(a.Started) })
	return all[:min(len(all), mostPresent)]
}

// presenceFiles returns the paths of the files in a folder, or nil if other users can write to it.
func presenceFiles(folder string) (paths []string) {
	if CheckPrivate(folder) != nil {
		return nil
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "serve-") && strings.HasSuffix(name, presenceTail) {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	return paths
}

func readPresence(path string) (p Presence, ok bool) {
	b, err := readRegular(path, maxPresence)
	return p, err == nil && json.Unmarshal(b, &p) == nil && len(p.Reachable()) > 0
}

// errShared means that a folder does not belong to the current user alone.
var errShared = errors.New("the folder belongs to another user, or other users can write to it")
