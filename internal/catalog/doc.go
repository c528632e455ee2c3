// Package catalog keeps the lists of many servers, merges them, and answers from them
// what a client may see: View.Page, View.Find, View.Owner and View.Info.
//
// Lists are read in the background, once for each audience: the clients for which a
// server may list the same. What one client sees of a list is decided when the client
// reads it, by the Filter of its View, so that a filter costs no request to a server.
// Servers are reached through the interface Source. A reading outlives the request that it
// began with: Close waits for it. The package calls no tool, knows no client's connection
// and passes no notification on. Everything exported is safe for concurrent use.
package catalog
