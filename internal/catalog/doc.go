// Package catalog keeps and merges the lists of many servers. From these lists it answers the
// requests of clients: View.Page, View.Find, View.Owner and View.Info.
//
// Lists are read in the background, once for each audience. An audience is a group of clients
// that may see the same list of a server. The Filter of a client's View decides which items
// that client sees. The catalog applies the Filter when the client reads a list, so it needs no
// request to a server. The catalog reaches servers through the interface Source. A reading may
// outlive the request that started it. Close waits for all readings. The package does not call
// tools, manage client connections or forward notifications. Everything exported is safe for
// concurrent use.
package catalog
