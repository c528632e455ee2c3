// Package vault seals values so that a database can keep them: under AES-256-GCM, for an owner and a
// name. The vault keeps nothing but its keys, and these not in the database: they are in a file, in the
// keyring of the operating system, or in an environment variable.
//
// A sealed value names its key by four bytes, and each database remembers the fingerprint of the key
// that it seals with. With a fingerprint, Vault.Use refuses any other key, and a missing one is never
// made anew. To rotate, a new key is put in front of the old ones (Vault.Rotate), and then the database
// seals everything again and changes its fingerprint in one transaction. Until the commit the old key
// is in force, afterwards the new one, and both are there all the time, so it may be killed at any point.
// The old keys stay, because backups of the database need them.
//
// A value that must outlive a rotation, such as the key for the hashes of API keys, is made at random
// and sealed. It can't be derived from the vault's key, which would change it.
//
// What people can do something about is an *Error: a sentence and the next step. A Vault is safe for
// concurrent use. No other package imports go-keyring (docs/adr/0032).
package vault
