// Sweep puts third-party stdio servers from npm behind Dragoman, and checks that nobody can tell
// the difference: servers.txt lists them. It installs them below .cache, so it needs npm and, the
// first time, a network; the servers themselves get none of our credentials and need none.
//
// The first part asks each server for its tools three times: directly, through `dragoman run` as
// a legacy client, and through `dragoman run` as a modern client. The bytes of every tool must be
// the same. The second part starts up to -together servers behind one `dragoman serve`, waits
// until all of them are ready, kills each process once, and waits until all of them are ready
// again. A server that doesn't work directly is counted, but it isn't a fault of ours.
//
// `make sweep` runs both parts. They take about 20 minutes on two cores, which is why only the
// nightly run has them.
//
// `make search-recall` does something else with 25 of the servers: it lists their tools without a network,
// and measures how many of the queries in queries.txt the ranking of search mode answers with a tool that
// fits (docs/adr/0050-search-mode.md). `make search-clients` lets clients find and call a tool of the same servers: with -config,
// sweep only writes the configuration for that.
package main
