// Package peers tests third-party servers from npm behind `dragoman serve`. The
// clients are the commands list and call, and bare HTTP requests of both eras. The tests need
// npm and node, so they run only if DRAGOMAN_PEERS is set: see `make peers`.
//
// TestClientsOfOddServers connects two independent clients to fakes with unusual handshakes.
//
// The lock file beside this one pins the versions of the servers, which are installed below
// .cache. After the installation, the tests need no network.
package peers
