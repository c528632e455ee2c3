// Package runtime turns a configuration into running objects: upstreams for its servers,
// endpoints for its clients, and handles between them.
//
// Messages from clients reach the gateway of the current configuration through a Handle. A reload
// creates a new generation: a new gateway for the new configuration. A call stays in the generation
// in which it began, so a reload does not interrupt running calls. But calls to a removed server
// are ended after Options.Drain.
//
// The package does not listen and does not handle signals. Package daemon does both, and also
// decides the order in which components start and stop.
package runtime
