// Package gateway answers clients' requests. For each request it resolves a route: which server
// gets the request, under which name, and what the client may see. Then it runs the route and
// publishes the outcome. It also forwards servers' notifications to the clients that want them.
//
// Single serves one server with its names unchanged. Merged serves many servers behind one
// endpoint, with names of the form server__tool. Both implement downstream.Handler and differ only
// in how they find the route of a request. Package catalog has the lists and the filters, and
// package bridge converts calls between the eras. The gateway reaches servers through the interface
// Upstream. Drain ends the open subscriptions/listen requests and the reading of lists. Close does
// the same, and waits until no list is being read. Everything exported is safe for concurrent use.
package gateway
