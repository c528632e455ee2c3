// Package store keeps what a team's dragoman must not forget, in the house's own database: an SQLite
// file, or a schema of a PostgreSQL database. So far these are the projects that no file declares, prompts, the sealed
// secrets, API keys, people with their roles and sessions, sign-ins at servers with what they need, some values of
// the whole house, and the acts, which say who changed what.
//
// Nothing on the path of a call waits for the store. Store.Snapshot returns everything except the acts
// as an immutable value, and costs one atomic load. A change replaces it: one of this process before
// Store.Write returns, one of another process within a second. Snapshot.Replaced tells of it.
//
// A missing file is created by the first Write, so that people who keep nothing have no database
// (docs/adr/0031). If it can't be created, the store may keep changes in memory; Store.State says so.
//
// Each kind of object has a file here, with its rows in the snapshot and its changes in a transaction.
// To add one, add a migration, a file like secrets.go, and a line to kinds in snapshot.go.
//
// A Store is safe for concurrent use. It knows SQL and no cryptography: what it gets is sealed.
package store
