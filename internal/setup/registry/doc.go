// Package registry takes servers from an MCP registry: it searches there, and turns a server.json
// into an entry of mcpServers.
//
// Registry speaks the registry's API v0.1. Server.Ways returns the ways to run a server that its
// server.json (schema of 2025-12-11) offers: a package of npm, PyPI, NuGet or a container registry,
// a bundle (.mcpb), or a URL. A Way lists what it will ask, and Way.Entry makes the entry from the
// answers. Install unpacks a bundle, whose manifest then gives another Way.
//
// Everything in a registry was written by strangers, so the package trusts nothing there. Sizes and
// counts are bounded, text for people is masked, versions are pinned, and no text can become a
// second argument, a flag of the package runner, or a reference to a variable of the user. What is
// unusual but possible, such as another package registry, is a caution, and Entry refuses it until a
// person has agreed. Secrets never pass through: an entry has only references to variables.
//
// The package starts nothing, asks nobody and changes no file outside of the folder for Install.
package registry
