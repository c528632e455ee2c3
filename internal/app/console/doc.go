// Package console serves the pages below /console/. The pages show which clients use which servers, what
// Dragoman translated and lost, and which servers need attention.
//
// Each page is described by a Page. A Page has a path, a function that returns the values to show,
// and the name of a template for html/template. The package reads the state of the program from
// internal/app/admin and from the event stream. Pages about one subject, for example tools, belong
// to one type, which has only what they use; Console puts these types together. The package changes
// the program only through the functions in Options. Every page works without JavaScript. Small
// JavaScript modules add live values, the search palette and keyboard shortcuts. The assets need no
// build step, and the pages load nothing from other sites.
//
// Only the user of this process may see the pages; see admin.Access. The templates pass text from
// clients and servers through the function peer, which limits the length of the text and makes
// invisible characters visible.
package console
