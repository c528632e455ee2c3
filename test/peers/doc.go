// Package peers tests third-party servers from npm behind `dragoman serve`. The
// clients are the commands list and call, and bare HTTP requests of both eras. The tests need
// npm and node, so they run only if DRAGOMAN_PEERS is set: see `make peers`.
//
// TestClientsOfOddServers puts two independent clients in front of fakes with unusual
// handshakes.
//
// The lock file beside this one pins the versions of the servers, which are installed below
// .cache. The tests need no network.
package peers
