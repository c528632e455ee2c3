// Package console serves the pages below /console/: which clients use which servers, what was
// translated and lost, and which servers need attention.
//
// Each page is a Page: a path, a function that makes a view model, and a template. The package
// reads the state of the program from internal/admin and from the event stream, and changes
// nothing by itself. Only operations of the admin API change a server. html/template writes
// the pages. Every page works without JavaScript. Small modules add live numbers, the search
// palette and keyboard shortcuts. There is no build step, and nothing is loaded from another
// site.
//
// Only the user of this process may see the pages: see admin.Access. Text of clients and servers is
// shown with the template function peer, which limits its length and makes invisible characters
// visible.
package console
