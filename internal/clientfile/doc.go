// Package clientfile reads and edits the configuration files of other MCP clients.
//
// Read converts the servers of a file to the shape of mcpServers in Dragoman's own file. It
// reports the settings of each server that it cannot convert. Connect adds one entry for
// Dragoman to a file, and Disconnect removes it. Neither changes any other byte: comments, the
// order of keys, indentation and line ends stay. AddServers adds servers to Dragoman's own YAML
// file in the same way.
//
// All these functions are pure: they convert bytes to bytes. Only Load, Write, Backups and the
// methods of Machine and Place access the disk. The package runs no client and speaks no protocol.
// Package config uses it to accept the same files as configuration. The commands import and connect
// use it too.
package clientfile
