// Package catalog keeps the lists of many servers and merges them. It uses these lists to answer
// the requests of clients: see View.Page, View.Find, View.Owner and View.Info.
//
// The catalog reads lists in the background, once for each audience. An audience is a group of
// clients that get the same list from a server. The Filter of a client's View decides which items
// that client sees. The catalog applies the Filter to the lists that it keeps, without a request to
// a server. The catalog reaches servers through the interface Source. A reading may outlive the
// request that started it. Close waits for all readings. The package does not call tools, manage
// client connections or forward notifications. All exported functions and methods are safe for
// concurrent use.
package catalog
