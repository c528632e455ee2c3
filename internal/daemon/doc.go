// Package daemon is where the rooms meet: it makes upstreams from a configuration,
// puts a gateway in front of them and doors in front of that, and sees to it that
// they start, change and end in order. It is the only package that knows all the
// others; nothing below it knows the daemon.
//
// Run serves one server under its own names, Serve many behind one endpoint,
// Connect is a client for the commands that need one. Each returns only when all
// that it started has ended.
package daemon
