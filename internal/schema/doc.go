// Package schema reads the JSON Schemas of peers: the schemas of tool arguments and results,
// and of forms. View finds types, choices and defaults in the bytes of a schema. Checker
// checks a value against a schema, with a library that supports all drafts.
//
// A schema comes from a peer, so the package does not trust the schema, and never loads another
// document. A schema with a $ref to another document cannot be used by Checker, and View does not
// follow the reference. Size, depth, numbers, patterns and the work of one check are bounded. If a
// schema cannot be used, Compile or Check returns an error. A call should not fail because of this
// error. The assertion "format" is ignored, because servers disagree about it.
//
// The command line uses the package to read arguments, forms and signatures, and doctor may
// use it to judge schemas. Views and checkers are safe for concurrent use.
package schema
