// Package console serves the pages below /console/: who speaks with whom, what was translated
// and lost, and what needs attention.
//
// Each page is a Page: a path, a function that makes a view model, and a template. The
// package reads the state of the program from internal/admin and from the event stream, and
// changes nothing by itself: what changes a server is an operation of the admin API. The
// pages are HTML of html/template. Every page works without a script; small modules add live
// numbers, the search palette and keys. There is no build step, and nothing is loaded from
// another site.
//
// Only the user of this process may see the pages: see admin.Access. Text of clients and
// servers is shown with the template function peer, which bounds it and shows what is
// invisible in it.
package console
