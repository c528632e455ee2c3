// Package peers runs servers from npm that nobody here wrote behind `dragoman
// serve`, with the program's own list and call as the client, and with clients of
// both eras that speak bare HTTP. It needs npm and node, so it runs only where
// DRAGOMAN_PEERS is set: see `make peers`.
//
// The servers' versions are pinned by the lock file beside this one and installed
// below .cache; nothing is called that leaves this machine.
package peers
