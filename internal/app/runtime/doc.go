// Package runtime turns the configurations of projects into running objects: upstreams for their
// servers, endpoints for their clients, and handles between them. A Runtime is the set of projects in a
// process. Projects share nothing that their people can fill or read (docs/adr/0024), so a server, an
// id or a limit of one means nothing in another.
//
// Messages from clients reach the gateway of the current configuration through a Handle. A reload
// creates a new generation: a new gateway for the new configuration. A call stays in the generation
// in which it began, so a reload does not interrupt running calls. But calls to a removed server
// are ended after Options.Drain.
//
// The package does not listen and does not handle signals. Package daemon does both, and also
// decides the order in which components start and stop.
package runtime
