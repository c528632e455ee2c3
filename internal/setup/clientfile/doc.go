// Package clientfile reads and edits the configuration files of other MCP clients.
//
// Read converts the servers in a file to the format of mcpServers in Dragoman's own file. It
// reports each setting that it cannot convert. Connect adds one entry for Dragoman to a file, Move
// takes entries out of it, Wrap puts `dragoman run` in front of one, and Disconnect takes all of this
// back. All other bytes of the file stay the same, including comments and indentation. AddServers adds servers to Dragoman's own YAML file in the same way.
//
// All these functions are pure: they only convert bytes to bytes. Only Load, Write, Backups and the
// methods of Machine and Place access the disk. The package does not start clients and does not
// speak MCP. Package config uses clientfile to accept the files of other clients as configuration.
// The commands import and connect use clientfile too.
package clientfile
