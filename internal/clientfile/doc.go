// Package clientfile reads and edits the configuration files of other MCP clients.
//
// Read converts the servers of a file to the shape of our own mcpServers, and says of each
// server what it cannot carry over. Connect puts one entry for Dragoman into a file, and
// Disconnect takes it out again. Both change no other byte: comments, the order of keys,
// indentation and line ends stay. AddServers does the same for our own YAML file.
//
// All of these are pure functions from bytes to bytes. Only Write, Backups and Exists
// access the disk. The package runs no client and knows no protocol. It is used by config,
// which accepts the same files as configuration, and by the commands import and connect.
package clientfile
