// Package config parses one YAML file into an immutable Snapshot, or reports every
// problem in the file.
//
// The key mcpServers has the shape that most MCP clients use, so the file of such a client works
// unchanged. Dragoman's own settings are under the key dragoman. JSON is a subset of YAML, so JSON
// files work too. Some known clients use TOML, JSON with comments, or another shape. Parse converts
// the files of these clients. ${VAR} is replaced by the value of the environment variable VAR.
//
// Parse is pure: it does not read files or the time, and does not start anything. It reports all
// problems at once, each with line, column, path and a hint. If an error affects more than one
// server, Parse returns no Snapshot, so a file with such an error can never replace a working
// configuration. Only Load, Find, ReadEnv, EnvFileOf, Watch, WatchEnv and Snapshot.Where access
// the disk.
//
// A Snapshot is not modified after Parse returns, so goroutines may share it. Values
// from headers, env blocks and ${VAR} are Secrets, which print as ***.
package config
